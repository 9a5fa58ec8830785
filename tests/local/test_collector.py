"""Collectors: exact counts among bad reports, states that add up, unbiased measurements with their variances."""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import crosstally as ct
from crosstally.errors import CrosstallyError, PlanError, SchemaError, WorkloadError
from crosstally.local import Collector, Protocol, Reason, design
from crosstally.local.bulk import reports
from crosstally.local.collector import RECORD, release_of
from crosstally.local.estimate.report_counts import Sample, _cells, measurements_of
from crosstally.local.oracles import ORACLES
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.planning.methods import METHODS
from crosstally.local.planning.report_groups import Group
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally_lab.papers.calm.simulated import collection

SCHEMA = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2")), Attribute("c", ("0", "1"))))


def rows_of(number, seed=0):
    """Codes of dependent attributes: (attributes, people)."""
    random = np.random.default_rng(seed)
    a = random.integers(0, 2, number)
    b = np.where(random.random(number) < 0.6, 2 * a, random.integers(0, 3, number))
    return np.stack([a, b, (a + (random.random(number) < 0.2)) % 2])


def truth_of(codes, axes):
    counts = np.zeros([SCHEMA.shape[axis] for axis in axes])
    np.add.at(counts, tuple(codes[axis] for axis in axes), 1)
    return counts


# Reports in


@pytest.mark.parametrize("method", ["residuals", "marginals", "each", "full"])
def test_bad_reports_are_rejected_each_with_its_reason(method) -> None:
    """100,000 reports, 10% of them twice, and 10,000 malformed ones: exact counts."""
    protocol = design(SCHEMA, epsilon=1, people=100_000, ways=2, method=method)
    good = reports(protocol, rows_of(100_000))
    alone = Collector(protocol)
    assert alone.add_many(good).accepted == 100_000
    random = np.random.default_rng(1)
    bad = [good[i * 1000 : i * 1000 + 2000].copy() for i in range(4)]
    for records in bad:
        records["id"] = np.frombuffer(random.bytes(16 * len(records)), "V16")
    bad[0]["version"] = 2
    bad[1]["protocol"] = np.frombuffer(b"12345678", "V8")[0]
    bad[2]["group"] += len(protocol.groups)
    bad[3]["payload"] = 2**63 + 5
    short = [b"\x01" * 36] * 1000 + [b""] * 1000
    whole = [*map(bytes, np.concatenate([good, good[:10_000], *bad]))]
    given = [whole[i] for i in random.permutation(len(whole))] + short
    collector = Collector(protocol)
    received = collector.add_many(given)
    assert received.numbers() == {
        Reason.ACCEPTED: 100_000,
        Reason.WRONG_SIZE: 2000,
        Reason.WRONG_VERSION: 2000,
        Reason.OTHER_PROTOCOL: 2000,
        Reason.UNKNOWN_GROUP: 2000,
        Reason.IMPOSSIBLE_ANSWER: 2000,
        Reason.DUPLICATE: 10_000,
    }
    assert received.reasons()[-1] is Reason.WRONG_SIZE
    for one, other in zip(alone.measurements(), collector.measurements(), strict=True):
        assert np.array_equal(one.values, other.values)
        assert one.variance == other.variance


def test_reports_one_by_one_are_the_same() -> None:
    protocol = design(SCHEMA, epsilon=1, people=2000, ways=2)
    good = reports(protocol, rows_of(2000))
    many, single = Collector(protocol), Collector(protocol)
    many.add_many(good.tobytes() + b"rest")
    for record in good:
        assert single.add(bytes(record)) is Reason.ACCEPTED
    assert single.add(bytes(good[7])) is Reason.DUPLICATE
    assert single.add(b"x") is Reason.WRONG_SIZE
    assert single.reports == many.reports == 2000
    assert single.add(bytes(good[7])) is Reason.DUPLICATE
    for one, other in zip(single.measurements(), many.measurements(), strict=True):
        assert np.array_equal(one.values, other.values)


def test_masks_and_matrix_rows_that_nobody_draws_are_impossible() -> None:
    """A set of another number of members, and the first row of Hadamard's matrix, which is all ones."""
    protocol = design(SCHEMA, epsilon=1, people=2000, ways=3, method="full")
    subsets, hadamard = (
        replace(protocol, groups=(Group((0, 1, 2), oracle=ORACLES[kind].of(SCHEMA.shape, Fraction(1)), share=1),))
        for kind in ("subset-selection", "hadamard-response")
    )
    for changed, payload in ((subsets, 2**12 - 1), (hadamard, 1)):
        good = reports(changed, rows_of(2000))
        good["payload"][:5] = payload
        numbers = Collector(changed).add_many(good).numbers()
        assert numbers == {Reason.ACCEPTED: 1995, Reason.IMPOSSIBLE_ANSWER: 5}


def test_an_array_of_another_type_is_refused() -> None:
    protocol = design(SCHEMA, epsilon=1, people=2000, ways=2)
    with pytest.raises(CrosstallyError, match="must have the type"):
        Collector(protocol).add_many(np.zeros(3))


# States


def test_states_merged_in_any_order_are_identical(tmp_path) -> None:
    protocol = design(SCHEMA, epsilon=1, people=9000, ways=2)
    parts = []
    for seed in range(3):
        part = Collector(protocol)
        part.add_many(reports(protocol, rows_of(3000, seed)))
        part.save(tmp_path / f"{seed}.state")
        parts.append(Collector.load(tmp_path / f"{seed}.state", protocol))
    results = []
    for order in itertools.permutations(parts):
        whole = order[0].merged(order[1]).merged(order[2])
        whole.save(tmp_path / "whole.state")
        results.append((tmp_path / "whole.state").read_bytes())
    assert len(set(results)) == 1
    assert len(results) == 6
    assert Collector.load(tmp_path / "whole.state", protocol).reports == 9000
    with pytest.raises(CrosstallyError, match="the same id"):
        parts[0].merged(parts[0])


def test_a_state_cut_short_or_changed_is_refused(tmp_path) -> None:
    protocol, other = (design(SCHEMA, epsilon=e, people=5000, ways=2) for e in (1, 2))
    collector = Collector(protocol)
    collector.add_many(reports(protocol, rows_of(1000)))
    path = tmp_path / "a.state"
    collector.save(path)
    data = path.read_bytes()
    for length in (0, 10, 40, len(data) // 2, len(data) - 16, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CrosstallyError, match="cut short"):
            Collector.load(path, protocol)
    path.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
    with pytest.raises(CrosstallyError, match="cut short or was changed"):
        Collector.load(path, protocol)
    path.write_bytes(data)
    with pytest.raises(CrosstallyError, match="another protocol"):
        Collector.load(path, other)
    with pytest.raises(CrosstallyError, match="cannot read"):
        Collector.load(tmp_path / "none", protocol)
    with pytest.raises(CrosstallyError, match="same protocol"):
        collector.merged(Collector(other))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda people, counts, ids: (people[:-1], counts, ids), "does not have the size"),
        (lambda people, counts, ids: (people, counts, ids[:-1].tobytes() + b"x"), "does not have the size"),
        (lambda people, counts, ids: (people, counts, ids[:-1]), "counts that no reports|one id for each report"),
        (lambda people, counts, ids: (-people, counts, ids), "counts that no reports can have"),
        (lambda people, counts, ids: (people + 2**62, counts, ids), "counts that no reports can have"),
        (lambda people, counts, ids: (people, counts + len(ids), ids), "more answers in a group than people"),
        (lambda people, counts, ids: (people, counts, np.full_like(ids, ids[0])), "one id for each report"),
    ],
)
def test_a_forged_state_is_refused(change, message, tmp_path) -> None:
    """A digest over forged numbers is right; numbers that no reports can give are found all the same."""
    protocol = design(SCHEMA, epsilon=1, people=5000, ways=2)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, rows_of(300)))
    collector.save(tmp_path / "state")
    data = (tmp_path / "state").read_bytes()[:-32]
    magic, head, rest = data.split(b"\n", 2)
    slots = len(collector._counts)
    groups = len(protocol.groups)
    people = np.frombuffer(rest[: 8 * groups], "<i8")
    counts = np.frombuffer(rest[8 * groups : 8 * (groups + slots)], "<i8")
    ids = np.frombuffer(rest[8 * (groups + slots) :], RECORD["id"])
    parts = change(people, counts, ids)
    body = b"\n".join([magic, head, b"".join(p if isinstance(p, bytes) else p.tobytes() for p in parts)])
    (tmp_path / "forged").write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(CrosstallyError, match=message):
        Collector.load(tmp_path / "forged", protocol)


def test_nothing_is_released_before_the_minimum() -> None:
    protocol = design(SCHEMA, epsilon=1, people=5000, ways=2)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, rows_of(999)))
    for what in (collector.measurements, collector.release):
        with pytest.raises(CrosstallyError, match="before 1,000 reports have come, there are 999"):
            what()


# Out


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("runs", [40, pytest.param(1000, marks=pytest.mark.verify)])
def test_measurements_are_unbiased_with_the_variances_they_state(method, runs) -> None:
    """One test for all numbers of a method: chi-square over runs of each value's deviation, binary and categorical.

    Means: each within 6 standard errors. Variances: the sum of squared deviations over all runs and values, each
    divided by the variance stated, is within 6 standard deviations of its mean (estimated from the runs). False alarm
    below 1e-6; variances off by 30% are rejected.
    """
    people = 3000
    codes = rows_of(people)
    protocol = design(SCHEMA, epsilon=2, people=people, ways=2, method=method)
    scores, sums, variances = [], {}, {}
    for _ in range(runs):
        collector = Collector(protocol)
        collector.add_many(reports(protocol, codes))
        score = []
        for i, measured in enumerate(collector.measurements()):
            axes = [SCHEMA.positions[name] for name in measured.query.attributes]
            off = measured.values - measured.query.answer(truth_of(codes, axes))
            sizes = [SCHEMA.shape[axis] for axis in axes]
            if measured.query.is_table:
                scale, free = measured.variance, math.prod(sizes) - 1
                off = off - off.mean()
            else:  # along n > 2 values the n numbers of a contrast lie in n - 1 dimensions
                scale, free = measured.variance, math.prod(n - 1 for n in sizes)
            score.append((off**2).sum() / scale / free)
            sums[i] = sums.get(i, 0) + off
            variances[i] = measured.variance
        scores.append(np.mean(score))
    for i, total in sums.items():
        assert (np.abs(total / runs) < 6 * np.sqrt(variances[i] / runs)).all()
    spread = 6 * np.std(scores) / math.sqrt(runs) + 1e-3
    assert abs(np.mean(scores) - 1) < spread
    if runs == 1000:
        assert spread < 0.3


def test_the_variance_of_cells_by_hand() -> None:
    """Kept with 3/4, 65 of 100 reports of a group of 201 people name the first cell: (0.65 - 0.25) / 0.5 = 0.8.

    A report adds 2 x 3/16 / 0.25 = 1.5. The squared distance of the frequencies from 1/2 is 0.18, of which 1.5 / 100 is
    noise, so the sum of their squares is 0.665; the 0.335 that are left count (201 - 100) / 200 for sampling.
    """
    oracle = RandomisedResponse((2,), Fraction(3, 4))
    found = _cells(("a",), oracle, np.array([65, 35]), Sample(100, 201, origin="test"))
    assert found.values == pytest.approx(201 * np.array([0.8, 0.2]))
    assert found.variance == pytest.approx(201**2 * (1.5 + 0.335 * 0.505) / 100)


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_a_release_is_the_same_release(method, tmp_path) -> None:
    codes = rows_of(40_000)
    protocol = design(SCHEMA, epsilon=4, people=40_000, ways=2, method=method)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, codes))
    release = collector.release()
    assert release.statement.model == "local"
    assert release.statement.rows == 40_000
    assert release.statement.neighbours is ct.Neighbours.REPLACE
    assert np.abs(release.marginal("a").values - truth_of(codes, [0])).max() < 2500
    if method not in ("calm", "balanced"):  # these hold each attribute once here
        answer = release.marginal("a", "b")
        assert np.abs(answer.values - truth_of(codes, [0, 1])).max() < 4000
        assert (answer.std_error > 0).all()
        assert answer.error_kind == "estimated"
    release.save(tmp_path / "a.release.parquet")
    again = ct.open_release(tmp_path / "a.release.parquet")
    assert np.allclose(again.marginal("a", "b").values, release.marginal("a", "b").values, atol=1e-6 * 40_000)


def dependence(release) -> float:
    """How far the pairs of a release are from independence: the sum of all differences, as a part of all people."""
    apart = 0.0
    for pair in itertools.combinations(SCHEMA.names, 2):
        table = release.marginal(*pair).values
        apart += float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()).sum() / table.sum())
    return apart


@pytest.mark.parametrize(("epsilon", "least", "most"), [("8", 0.95, 1.0), ("0.1", 0.2, 0.7)])
def test_shrinking_changes_little_where_reports_are_clear_and_much_where_not(epsilon, least, most) -> None:
    """Ten collections from a seed: dependence stays within 5% at epsilon 8; at 0.1 most of it is noise, and goes."""
    random, codes = np.random.default_rng(4), rows_of(20_000).astype(np.uint8)
    protocol = design(SCHEMA, epsilon=epsilon, people=20_000, ways=2, method="residuals")
    found = {"none": 0.0, "independence": 0.0}
    for _ in range(10):
        measured = measurements_of(protocol, *collection(protocol, codes, random))
        for shrink in found:
            release = release_of(protocol, measured, 20_000, shrink=shrink)
            assert [m.values.tolist() for m in release.measurements] == [m.values.tolist() for m in measured]
            found[shrink] += dependence(release)
    assert least < found["independence"] / found["none"] < most


def test_an_unknown_way_to_shrink_is_refused() -> None:
    protocol = design(SCHEMA, epsilon=1, people=2_000, ways=2)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, rows_of(2_000)))
    with pytest.raises(CrosstallyError, match="shrink must be"):
        collector.release(shrink="some")


# Protocols


def test_a_protocol_is_json_both_ways(tmp_path) -> None:
    for method in (*METHODS, "auto"):
        protocol = design(SCHEMA, epsilon="0.7", people=10_000, ways=2, method=method)
        protocol.save(tmp_path / "p.json")
        again = Protocol.load(tmp_path / "p.json")
        assert again == protocol
        assert again.id == protocol.id
        assert len(protocol.id) == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version must be a whole number from 1 to 1, got 2"),
        ({"tokens": "md5"}, "tokens must be hmac-sha256"),
        ({"tokens": False}, "tokens must be hmac-sha256"),
        ({"epsilon": "0.1"}, "must keep epsilon = 0.1"),
        ({"people": 0}, "people must be"),
        ({"groups": [{"attributes": [0], "oracle": 0, "share": 0}]}, "share must be"),
        ({"groups": [{"attributes": [1, 0], "oracle": 0, "share": 1}]}, "attributes must increase"),
        (
            {"groups": [{"attributes": [9], "oracle": 0, "share": 1}]},
            "attributes must be a whole number from 0 to 2, got 9",
        ),
        ({"oracles": [{"kind": "guess"}]}, "kind must be one of"),
        ({"more": 1}, "exactly the fields"),
        ({"schema": 3}, "schema must have"),
        ({"epsilon": "1.0"}, "written again"),
    ],
)
def test_a_protocol_that_is_none_is_refused(change, message) -> None:
    document = design(SCHEMA, epsilon=1, people=1000, ways=2, method="residuals").document
    with pytest.raises(CrosstallyError, match=message):
        Protocol.from_dict({**document, **change})


def test_protocol_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(PlanError, match="cannot read"):
        Protocol.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(PlanError, match="not JSON"):
        Protocol.load(tmp_path / "bad.json")
    with pytest.raises(PlanError, match="exactly the fields"):
        Protocol.from_dict([])


def test_designs_that_cannot_be_made() -> None:
    for ways in (0, 4, True):
        with pytest.raises(WorkloadError, match="ways must be a whole number from 1 to 3"):
            design(SCHEMA, epsilon=1, people=1000, ways=ways)
    with pytest.raises(PlanError, match="people must be"):
        design(SCHEMA, epsilon=1, people=0, ways=2)
    with pytest.raises(PlanError, match="unknown method 'clam'; did you mean 'calm'"):
        design(SCHEMA, epsilon=1, people=1000, ways=2, method="clam")
    dropping = Schema((Attribute("a", ("0", "1"), outside=Outside.DROP),))
    with pytest.raises(SchemaError, match="never drops"):
        design(dropping, epsilon=1, people=1000, ways=1)
    with pytest.raises(SchemaError, match="one row"):
        design(Schema(SCHEMA.attributes, Unit("id", 2)), epsilon=1, people=1000, ways=1)
    with pytest.raises(SchemaError, match="draft"):
        design(Schema(SCHEMA.attributes, draft=True), epsilon=1, people=1000, ways=1)


def test_a_record_is_37_bytes() -> None:
    assert RECORD.itemsize == 37
