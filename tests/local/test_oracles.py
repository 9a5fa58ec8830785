"""Oracles: each keeps the contract; the papers' own variances; the choice among them."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from oracle_contract import EPSILONS, ResidualContract, ViewContract

from crosstally.errors import BudgetError, PlanError
from crosstally.local.oracles import ORACLES, best_oracle, view_oracles
from crosstally.local.oracles.answers import odds_below
from crosstally.local.oracles.hadamard_response import HadamardResponse, ResidualBit
from crosstally.local.oracles.local_hashing import LocalHashing, collinear_triples
from crosstally.local.oracles.oracle import register
from crosstally.local.oracles.randomised_response import EachAttribute, RandomisedResponse
from crosstally.local.oracles.subset_selection import SubsetSelection
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally_lab.papers.calm.simulated import report_law
from reference_local import exponential_below


class TestRandomisedResponse(ViewContract):
    oracle = RandomisedResponse
    any_frequencies = True


class TestUnaryEncoding(ViewContract):
    oracle = UnaryEncoding
    any_frequencies = True


class TestLocalHashing(ViewContract):
    oracle = LocalHashing


class TestSubsetSelection(ViewContract):
    oracle = SubsetSelection


class TestHadamardResponse(ViewContract):
    oracle = HadamardResponse


class TestResidualBit(ResidualContract):
    oracle = ResidualBit


class TestEachAttribute(ResidualContract):
    oracle = EachAttribute


def test_every_oracle_keeps_the_contract() -> None:
    kept = {each.oracle for each in globals().values() if isinstance(each, type) and hasattr(each, "oracle")}
    assert kept == set(ORACLES.values())
    assert all(kind == oracle.kind for kind, oracle in ORACLES.items())
    with pytest.raises(PlanError, match="kinds of oracles must differ, 'residual-bit' is taken"):
        register(ResidualBit)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_odds_stay_just_below_the_exponential(epsilon) -> None:
    limit = exponential_below(epsilon)
    assert limit - Fraction(1, 2**44) < odds_below(epsilon) <= limit


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(17)])
def test_an_epsilon_that_cannot_be_served_is_refused(epsilon) -> None:
    with pytest.raises(BudgetError, match="epsilon must be from 0.001 to 16"):
        odds_below(epsilon)


def test_the_papers_check_value() -> None:
    """GRR with 8 cells, epsilon 1, f = 1/2: 4.70 / n, not 2.95."""
    oracle = RandomisedResponse.of((8,), Fraction(1))
    assert oracle.cell_variance(0.5) == pytest.approx(4.70, abs=0.005)
    assert oracle.cell_variance(0.0) == pytest.approx(2.95, abs=0.005)


def test_unary_encoding_and_hashing_have_the_papers_variance() -> None:
    """4 e^eps / (e^eps - 1)^2 = 3.682 at epsilon 1 and f = 0; hashing with a prime number of buckets is within 3%."""
    assert UnaryEncoding.of((8,), Fraction(1)).cell_variance(0.0) == pytest.approx(3.682, abs=0.002)
    assert LocalHashing.of((8,), Fraction(1)).cell_variance(0.0) == pytest.approx(3.682, rel=0.03)


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


@pytest.mark.parametrize(
    ("cells", "buckets", "digits"), [(2, 2, 1), (5, 2, 3), (7, 3, 2), (9, 3, 2), (14, 5, 2), (6, 7, 1)]
)
def test_triples_on_a_line_are_counted(cells, buckets, digits) -> None:
    """Against all triples: the differences to the first one have no two digits whose cross product is not 0."""
    vectors = [[cell // buckets**i % buckets for i in range(digits)] for cell in range(cells)]
    found = 0
    for v, w, x in permutations(vectors, 3):
        first, second = ([(b - a) % buckets for a, b in zip(v, other, strict=True)] for other in (w, x))
        found += all(
            (first[i] * second[j] - first[j] * second[i]) % buckets == 0 for i in range(digits) for j in range(i)
        )
    assert collinear_triples(cells, buckets, digits) == found


@pytest.mark.parametrize("cells", [2, 3, 6, 8, 11])
@pytest.mark.parametrize("kind", [HadamardResponse, LocalHashing])
def test_the_variance_of_how_many_cells_are_supported(kind, cells) -> None:
    """Against the law of all reports from all cells, each as likely as the other."""
    oracle = kind.of((cells,), Fraction(1))
    law, _ = report_law(oracle)
    supported = np.array([oracle.supports(slots).sum() for slots in np.eye(law.shape[1], dtype=np.int64)])
    mean, square = (float((law @ supported**power).mean()) for power in (1, 2))
    assert oracle.support_variance == pytest.approx(square - mean**2, abs=1e-9)
