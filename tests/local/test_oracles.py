"""Oracles: every ratio of probabilities in exact fractions, unbiased estimates, exact variances."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest

from crosstally.errors import BudgetError, PlanError
from crosstally.local import client
from crosstally.local.oracles.odds import odds_below
from crosstally.local.oracles.oracles import (
    HadamardResponse,
    LocalHashing,
    RandomisedResponse,
    SubsetSelection,
    UnaryEncoding,
    best_oracle,
    cell_variance,
    view_oracles,
)
from crosstally.local.oracles.residual_oracles import EachAttribute, ResidualBit
from reference_local import coefficient_covariance, distribution, exponential_below, helmert, worst_ratio

EPSILONS = [Fraction("0.1"), Fraction("0.5"), Fraction(1), Fraction("2.5"), Fraction(6)]
SHAPES = [(2,), (3,), (2, 2), (5,), (2, 3), (7,), (2, 2, 2), (4, 2)]


def laws_of(oracle):
    """The exact law of the client's own draws for every row."""
    described = oracle.to_dict()
    rows = product(*map(range, oracle.sizes))
    return [distribution(lambda source, row=row: client.draw(described, row, source)) for row in rows]


def slots_of(oracle, report):
    """What one report adds to the collector's counts."""
    slots = np.zeros(oracle.slots, np.int64)
    if oracle.kind in ("unary-encoding", "subset-selection"):
        slots[:] = [report >> cell & 1 for cell in range(oracle.slots)]
    else:
        slots[report] = 1
    return slots


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_odds_stay_just_below_the_exponential(epsilon) -> None:
    limit = exponential_below(epsilon)
    assert limit - Fraction(1, 2**44) < odds_below(epsilon) <= limit


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(17)])
def test_an_epsilon_that_cannot_be_served_is_refused(epsilon) -> None:
    with pytest.raises(BudgetError, match="epsilon must be from 0.001 to 16"):
        odds_below(epsilon)


def ratio_cases():
    """A few in every run, all by ``make verify``."""
    for sizes, epsilon in product(SHAPES, EPSILONS):
        quick = math.prod(sizes) <= 4 or (sizes in ((2, 3), (2, 2, 2)) and epsilon == 1)
        yield pytest.param(sizes, epsilon, marks=() if quick else pytest.mark.verify)


@pytest.mark.parametrize(("sizes", "epsilon"), list(ratio_cases()))
def test_no_ratio_exceeds_e_to_the_epsilon(sizes, epsilon) -> None:
    """All rows x, x' and reports y, in fractions, with the probabilities that the client's own code draws with."""
    limit = exponential_below(epsilon)
    oracles = [*view_oracles(sizes, epsilon), ResidualBit.of(sizes, epsilon), EachAttribute.of(sizes, epsilon)]
    assert len(oracles) == 7
    for oracle in oracles:
        laws = laws_of(oracle)
        assert all(sum(law.values()) == 1 for law in laws)
        assert all(report < oracle.limit for law in laws for report in law)
        worst = worst_ratio(laws)
        assert worst <= limit
        assert worst > 1 + (limit - 1) * Fraction(98, 100)  # and nearly all of epsilon is used


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (5,), (2, 3)])
@pytest.mark.parametrize("epsilon", [Fraction("0.5"), Fraction(2)])
def test_views_are_unbiased_and_vary_as_they_say(sizes, epsilon) -> None:
    """For every oracle, from the exact law of a report: means, the variance of each cell, and of coefficients."""
    cells = math.prod(sizes)
    frequencies = np.arange(1, cells + 1) ** 2 / np.sum(np.arange(1, cells + 1) ** 2)
    for oracle in view_oracles(sizes, epsilon):
        true, false = float(oracle.true), float(oracle.false)

        def estimate(report, oracle=oracle, true=true, false=false):
            return (oracle.supports(slots_of(oracle, report)) - false) / (true - false)

        laws = laws_of(oracle)
        mean, covariance = coefficient_covariance(laws, estimate, frequencies, np.eye(cells))
        assert np.allclose(mean, frequencies, atol=1e-12)
        response = covariance - (np.diag(frequencies) - np.outer(frequencies, frequencies))
        assert np.allclose(np.diag(response), [cell_variance(oracle, f) for f in frequencies], rtol=1e-9)
        uniform = np.full(cells, 1 / cells)
        for given in (frequencies, uniform) if oracle.kind in ("randomised-response", "unary-encoding") else (uniform,):
            _, total = coefficient_covariance(laws, estimate, given, helmert(cells))
            sampling = (1 - (given**2).sum()) / (cells - 1)
            assert np.trace(total) / (cells - 1) - sampling == pytest.approx(oracle.coefficient_variance, rel=1e-9)


@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 2), (2, 3), (5,), (3, 2, 2), (4, 3)])
@pytest.mark.parametrize("epsilon", [Fraction("0.5"), Fraction(2)])
def test_residuals_are_unbiased_and_vary_as_they_say(sizes, epsilon) -> None:
    cells, coefficients = math.prod(sizes), math.prod(n - 1 for n in sizes)
    frequencies = np.arange(1, cells + 1) ** 2 / np.sum(np.arange(1, cells + 1) ** 2)
    centring = reduce(np.kron, [np.eye(n) - 1 / n for n in sizes])
    basis = reduce(np.kron, [helmert(n) for n in sizes])
    bit, each = ResidualBit.of(sizes, epsilon), EachAttribute.of(sizes, epsilon)
    axes = range(len(sizes))
    for oracle, residual, response in (
        (bit, bit.residual, bit.response),
        (each, lambda slots: each.residual(slots, axes), each.response(axes)),
    ):

        def estimate(report, oracle=oracle, residual=residual):
            return residual(slots_of(oracle, report)).ravel()

        mean, covariance = coefficient_covariance(laws_of(oracle), estimate, frequencies, np.eye(cells))
        assert np.allclose(mean, centring @ frequencies, atol=1e-9)
        own = basis @ centring
        sampling = own @ np.diag(frequencies) @ own.T - np.outer(own @ frequencies, own @ frequencies)
        found = np.trace(basis @ covariance @ basis.T - sampling) / coefficients
        assert found == pytest.approx(response, rel=1e-9)


def test_the_papers_check_value() -> None:
    """GRR with 8 cells, epsilon 1, f = 1/2: 4.70 / n, not 2.95 (papers.md)."""
    oracle = RandomisedResponse.of((8,), odds_below(Fraction(1)))
    assert cell_variance(oracle, 0.5) == pytest.approx(4.70, abs=0.005)
    assert cell_variance(oracle, 0.0) == pytest.approx(2.95, abs=0.005)


def test_unary_encoding_and_hashing_have_the_papers_variance() -> None:
    """4 e^eps / (e^eps - 1)^2 = 3.682 at epsilon 1 and f = 0; hashing with a prime number of buckets is within 3%."""
    odds = odds_below(Fraction(1))
    assert cell_variance(UnaryEncoding.of((8,), odds), 0.0) == pytest.approx(3.682, abs=0.002)
    assert cell_variance(LocalHashing.of((8,), odds), 0.0) == pytest.approx(3.682, rel=0.03)


def test_a_parity_has_the_papers_variance() -> None:
    """((e^eps + 1) / (e^eps - 1))^2 = 4.6827 for the +-1 coefficient at epsilon 1: half of it for one of length 1."""
    assert 2 * (ResidualBit.of((2,), Fraction(1)).response + 0.5) == pytest.approx(4.6827, abs=0.0001)


def test_the_choice_goes_by_coefficient_variance() -> None:
    """Among GRR and OUE: GRR up to 5, 7 and 18 cells (frequency terms included), as an exact scan shows."""
    kinds = (RandomisedResponse.kind, UnaryEncoding.kind)
    for epsilon, largest in ((Fraction("0.5"), 5), (Fraction(1), 7), (Fraction(2), 18)):
        chosen = [best_oracle((cells,), epsilon, kinds).kind for cells in range(2, 65)]
        assert chosen.count(RandomisedResponse.kind) == largest - 1
    assert best_oracle((16,), Fraction(1)).kind == SubsetSelection.kind
    assert best_oracle((1024,), Fraction(1)).kind == LocalHashing.kind
    assert best_oracle((2,) * 16, Fraction(1)).kind == HadamardResponse.kind


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(PlanError, match="at most 1,048,576 cells"):
        view_oracles((2,) * 21, Fraction(1))
    with pytest.raises(PlanError, match="joint reports"):
        EachAttribute.of((2,) * 21, Fraction(1))
    with pytest.raises(PlanError, match="reports"):
        ResidualBit.of((64, 64, 64, 64), Fraction(1))
    with pytest.raises(PlanError, match="no oracle"):
        best_oracle((128,), Fraction(1), (UnaryEncoding.kind,))
