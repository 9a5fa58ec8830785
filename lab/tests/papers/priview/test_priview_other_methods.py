"""Sections 3.3 to 3.7 in numbers: counts by hand, verdicts that can turn, and the whole experiment."""

from fractions import Fraction
from itertools import combinations, product

import pytest

from crosstally.errors import CrosstallyError
from crosstally_lab.papers import experiments
from crosstally_lab.papers.priview import other_methods
from crosstally_lab.papers.priview.other_methods import (
    coefficients,
    fourier_gain,
    learning_noise,
    literal_sums,
    rounds_claim,
    weights_claim,
)


def test_counts_by_hand() -> None:
    assert [coefficients(*case) for case in [(9, 2), (5, 5), (4, 1)]] == [1 + 9 + 36, 32, 5]
    assert fourier_gain(16, 2) == 4 * 120**2 / 137**2
    assert fourier_gain(3, 3) == 8 / 64  # one table of 8 cells, for which 8 coefficients share the budget


def test_sums_of_literals_are_sets_without_contradictions() -> None:
    """Degree 2 of gamma = 1/2 and two ways, by listing: literals are (attribute, value)."""
    literals = list(product(range(5), (0, 1)))
    sets = [each for size in range(3) for each in combinations(literals, size) if len({a for a, _ in each}) == size]
    assert literal_sums(5, 2, 1 / 2) == len(sets)


def test_noise_of_learning_by_hand() -> None:
    """p(m) = 1 - T_2((3 - m) / 2) / T_2(3/2): 0, 5/7, 8/7 at 0, 1, 2, so that b = 0, 5/7, -2/7.

    Among three attributes one row changes 3 sums by 5/7 and 3 by 2/7; a cell of a pair reads two of the first kind of
    sums and one of the second, each with noise for all of it.
    """
    sensitivity = 3 * 5 / 7 + 3 * 2 / 7
    assert learning_noise(3, 2, 1 / 2) == pytest.approx(4 * 3 * sensitivity**2)


def test_verdicts_can_turn() -> None:
    assert rounds_claim([Fraction(1, 30)] * 30).holds is True
    assert rounds_claim([Fraction(1, 15)] * 15).holds is False
    assert rounds_claim([Fraction(2, 45), Fraction(1, 45)] * 15).holds is False
    assert weights_claim({"basic": [4.0, 4.1, 3.9], "improved": [1.0, 1.0, 1.0]}).holds is None  # three runs are few
    assert weights_claim({"basic": [4.0] * 3, "improved": [1.0] * 3}).holds is True
    assert weights_claim({"basic": [1.5] * 3, "improved": [1.0] * 3}).holds is False


def test_the_whole_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted is the same each time; of MWEM there are two runs only, with a ratio of about ten."""
    monkeypatch.setattr(other_methods, "_RUNS", {True: 2})
    found = experiments.run("priview-section-3", quick=True)
    assert all(claim.of == "paper" for claim in found.claims)
    counted = [claim.holds for claim in found.claims if "improve" not in claim.claim]
    assert counted == [True, False, True, True, True, False, False, True]
    rows = {(row["method"], row["quantity"], row["d"], row["k"]): row["value"] for row in found.rows}
    assert rows["Data cubes", "tables measured", 12, 2] == 6
    assert rows["Matrix, eigen", "squared error in V_u", 9, 2] == pytest.approx(1_307, abs=1)
    assert rows["MWEM", "mean L2 / N, basic", 6, 2] > 2 * rows["MWEM", "mean L2 / N, improved", 6, 2]  # type: ignore[operator]
    assert {row["section"] for row in found.rows} == {"3.3", "3.4", "3.5", "3.6", "3.7"}


def test_data_that_is_not_used_is_refused() -> None:
    with pytest.raises(CrosstallyError, match="takes no data"):
        experiments.run("priview-section-3", quick=True, data="adult.csv")
