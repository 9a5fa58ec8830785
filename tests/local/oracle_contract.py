"""What every oracle must keep: a class of tests for each kind, which a test file derives from and names its oracle.

Laws are those of the client's own draws, followed through all branches in fractions; so means and variances are exact
and have no false alarms. Each check is also shown a device that answers for another row in one case of ten.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial, reduce
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest

from crosstally.local import Collector, Protocol, Reason, client
from crosstally.local.bulk import answers
from crosstally.local.collector import RECORD
from crosstally.local.oracles import Oracle, ResidualOracle, ViewOracle, oracle_of
from crosstally.local.oracles.answers import ReportTally
from crosstally.local.planning.report_groups import Group
from crosstally.schema import Attribute, Schema
from reference_local import coefficient_covariance, distribution, exponential_below, helmert, worst_ratio

EPSILONS = [Fraction("0.1"), Fraction("0.5"), Fraction(1), Fraction("2.5"), Fraction(6)]
SHAPES = [(2,), (3,), (2, 2), (5,), (2, 3), (7,), (2, 2, 2), (4, 2)]
SIZES, EPSILON = (3, 2), Fraction(1)
Law = dict[int, Fraction]


def laws_of(oracle: Oracle) -> list[Law]:
    """The exact law of the client's own draws for every row."""
    described = oracle.to_dict()
    rows = product(*map(range, oracle.sizes))
    return [distribution(partial(client.draw, described, row)) for row in rows]


def wrong(laws: list[Law]) -> list[Law]:
    """The laws of a device that in one case of ten answers as if its row were the next one."""
    share = Fraction(1, 10)
    return [
        {answer: (1 - share) * law.get(answer, 0) + share * other.get(answer, 0) for answer in law | other}
        for law, other in zip(laws, laws[1:] + laws[:1], strict=True)
    ]


def slots_of(oracle: Oracle, answer: int) -> np.ndarray:
    """What one answer adds to the collector's counts, by the page of the wire format."""
    slots = np.zeros(oracle.slots, np.int64)
    if oracle.kind in ("unary-encoding", "subset-selection"):
        slots[:] = [answer >> cell & 1 for cell in range(oracle.slots)]
    else:
        slots[answer] = 1
    return slots


def frequencies_of(cells: int) -> np.ndarray:
    """Frequencies that all differ."""
    return np.arange(1, cells + 1) ** 2 / np.sum(np.arange(1, cells + 1) ** 2)


def protocol_of(oracle: Oracle) -> Protocol:
    """A protocol that asks everybody the same."""
    attributes = [Attribute(f"a{i}", tuple(f"v{j}" for j in range(n))) for i, n in enumerate(oracle.sizes)]
    group = Group(tuple(range(len(oracle.sizes))), oracle=oracle, share=1)
    facts: dict[str, Any] = {"epsilon": EPSILON, "people": 1000, "ways": 1, "method": "full", "minimum": 1}
    return Protocol(schema=Schema(attributes), groups=(group,), **facts)


def ratio_cases() -> Iterator[Any]:
    """A few in every run, all by ``make verify``."""
    for sizes, epsilon in product(SHAPES, EPSILONS):
        quick = math.prod(sizes) <= 4 or (sizes in ((2, 3), (2, 2, 2)) and epsilon == 1)
        yield pytest.param(sizes, epsilon, marks=() if quick else pytest.mark.verify)


class OracleContract:
    """Privacy, answers, draws in bulk, JSON."""

    oracle: ClassVar[type[Oracle]]

    @pytest.mark.parametrize(("sizes", "epsilon"), list(ratio_cases()))
    def test_no_ratio_exceeds_e_to_the_epsilon(self, sizes: tuple[int, ...], epsilon: Fraction) -> None:
        """All rows x, x' and answers y, in fractions, with the probabilities that the client's own code draws with."""
        limit, laws = exponential_below(epsilon), laws_of(self.oracle.of(sizes, epsilon))
        assert all(sum(law.values()) == 1 for law in laws)
        worst = worst_ratio(laws)
        assert worst <= limit
        assert worst > 1 + (limit - 1) * Fraction(98, 100)  # and nearly all of epsilon is used

    def test_the_device_works_out_its_ratio(self) -> None:
        """What the client compares with e^epsilon is the ratio of its own laws."""
        oracle = self.oracle.of(SIZES, EPSILON)
        assert client.worst_ratio(oracle.to_dict()) == worst_ratio(laws_of(oracle))

    def test_answers_are_accepted_if_and_only_if_a_device_can_give_them(self) -> None:
        """All numbers to a little beyond the last answer, and the largest that a report can hold."""
        protocol = protocol_of(self.oracle.of(SIZES, EPSILON))
        oracle = protocol.groups[0].oracle
        possible = {answer for law in laws_of(oracle) for answer in law}
        given = [*range(max(possible) + 70), 2**63, 2**64 - 1]
        records = np.zeros(len(given), RECORD)
        records["version"], records["payload"] = 1, given
        records["protocol"] = np.frombuffer(bytes.fromhex(protocol.id), "V8")[0]
        records["id"] = np.array([i.to_bytes(16, "big") for i in range(len(given))], "V16")
        collector = Collector(protocol)
        reasons = collector.add_many(records).reasons()
        assert {answer for answer, reason in zip(given, reasons, strict=True) if reason is Reason.ACCEPTED} == possible
        assert set(reasons) == {Reason.ACCEPTED, Reason.IMPOSSIBLE_ANSWER}
        assert collector.reports == len(possible)

    def test_answers_are_counted_in_their_slots(self) -> None:
        oracle = self.oracle.of(SIZES, EPSILON)
        drawn = sorted(laws_of(oracle)[0]) * 3
        counted = ReportTally.of([oracle.answers]).counts(np.zeros(len(drawn), np.int64), np.array(drawn, np.uint64))
        assert counted.tolist() == np.sum([slots_of(oracle, answer) for answer in drawn], axis=0).tolist()

    @pytest.mark.parametrize("number", [100_000, pytest.param(4_000_000, marks=pytest.mark.verify)])
    def test_draws_in_bulk_follow_the_law_of_the_device(self, number: int) -> None:
        """Chi-square against the exact law of the client, false alarm 1e-7; the wrong device is rejected."""
        from scipy.stats import chi2

        oracle = self.oracle.of(SIZES, EPSILON)
        laws = laws_of(oracle)
        drawn = answers(oracle, np.repeat(np.array([[2], [1]]), number, axis=1))  # the last of all rows
        found, counts = np.unique(drawn, return_counts=True)
        seen = dict(zip(found.tolist(), counts.tolist(), strict=True))
        assert set(seen) <= set(laws[-1])

        def statistic(law: Law) -> float:
            expected = number * np.array([float(probability) for probability in law.values()])
            return float(((np.array([seen.get(answer, 0) for answer in law]) - expected) ** 2 / expected).sum())

        limit = chi2.isf(1e-7, len(laws[-1]) - 1)
        assert statistic(laws[-1]) < limit < statistic(wrong(laws)[-1])

    @pytest.mark.parametrize("sizes", SHAPES)
    def test_json_both_ways(self, sizes: tuple[int, ...]) -> None:
        """By itself, and within a protocol as a device checks it."""
        oracle = self.oracle.of(sizes, EPSILON)
        given = json.loads(json.dumps(oracle.to_dict()))
        assert given["kind"] == oracle.kind
        assert oracle_of(given) == oracle
        assert hash(oracle_of(given)) == hash(oracle)
        protocol = protocol_of(oracle)
        assert Protocol.from_dict(json.loads(json.dumps(protocol.document))) == protocol


class ViewContract(OracleContract):
    """An oracle for views: means and variances of cells and of coefficients."""

    oracle: ClassVar[type[ViewOracle]]
    any_frequencies: ClassVar[bool] = False
    """Whether the variance of coefficients was shown for frequencies that differ, beside even ones."""

    @pytest.mark.parametrize("sizes", [(3,), (2, 2), (5,), (2, 3)])
    @pytest.mark.parametrize("epsilon", [Fraction("0.5"), Fraction(2)])
    def test_cells_are_unbiased_and_vary_as_they_say(self, sizes: tuple[int, ...], epsilon: Fraction) -> None:
        oracle, cells = self.oracle.of(sizes, epsilon), math.prod(sizes)
        true, false = float(oracle.true), float(oracle.false)
        frequencies, even, laws = frequencies_of(cells), np.full(cells, 1 / cells), laws_of(oracle)

        def estimate(answer: int) -> np.ndarray:
            return np.asarray((oracle.supports(slots_of(oracle, answer)) - false) / (true - false))

        mean, covariance = coefficient_covariance(laws, estimate, frequencies, np.eye(cells))
        assert np.allclose(mean, frequencies, atol=1e-12)
        response = np.diag(covariance - (np.diag(frequencies) - np.outer(frequencies, frequencies)))
        claimed = np.array([oracle.cell_variance(frequency) for frequency in frequencies])
        assert np.allclose(response, claimed, rtol=1e-9)
        off, _ = coefficient_covariance(wrong(laws), estimate, frequencies, np.eye(cells))
        assert not np.allclose(off, frequencies, atol=1e-3)
        for given in (frequencies, even) if self.any_frequencies else (even,):
            _, total = coefficient_covariance(laws, estimate, given, helmert(cells))
            sampling = (1 - (given**2).sum()) / (cells - 1)
            assert np.trace(total) / (cells - 1) - sampling == pytest.approx(oracle.coefficient_variance, rel=1e-9)


class ResidualContract(OracleContract):
    """An oracle for residuals: means, and variances of coefficients on average over them."""

    oracle: ClassVar[type[ResidualOracle]]

    @pytest.mark.parametrize("sizes", [(2,), (3,), (2, 2), (2, 3), (5,), (3, 2, 2), (4, 3)])
    @pytest.mark.parametrize("epsilon", [Fraction("0.5"), Fraction(2)])
    def test_residuals_are_unbiased_and_vary_as_they_say(self, sizes: tuple[int, ...], epsilon: Fraction) -> None:
        """The residual over all attributes, the last of those that an oracle gives."""
        oracle, cells, axes = self.oracle.of(sizes, epsilon), math.prod(sizes), tuple(range(len(sizes)))
        frequencies, laws = frequencies_of(cells), laws_of(oracle)
        centring = reduce(np.kron, [np.eye(n) - 1 / n for n in sizes])
        basis = reduce(np.kron, [helmert(n) for n in sizes])

        def last(answer: int) -> Any:
            *_, found = oracle.residuals(slots_of(oracle, answer), len(sizes))
            assert found.axes == axes
            return found

        def estimate(answer: int) -> np.ndarray:
            return np.asarray(last(answer).values.ravel())

        mean, covariance = coefficient_covariance(laws, estimate, frequencies, np.eye(cells))
        assert np.allclose(mean, centring @ frequencies, atol=1e-9)
        off, _ = coefficient_covariance(wrong(laws), estimate, frequencies, np.eye(cells))
        assert not np.allclose(off, centring @ frequencies, atol=1e-3)
        own = basis @ centring
        sampling = own @ np.diag(frequencies) @ own.T - np.outer(own @ frequencies, own @ frequencies)
        found = np.trace(basis @ covariance @ basis.T - sampling) / len(basis)
        assert found == pytest.approx(last(min(laws[0])).response, rel=1e-9)
