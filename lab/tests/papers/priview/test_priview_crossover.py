from __future__ import annotations

from dataclasses import replace

import pytest

from crosstally.errors import CrosstallyError
from crosstally_lab.papers import experiments
from crosstally_lab.papers.metrics import Interval
from crosstally_lab.papers.outcomes import Outcome
from crosstally_lab.papers.priview.crossover import (
    Measured,
    crossover,
    direct_error,
    flat_error,
    least_squares_error,
    measured_claims,
)
from reference_evaluation import dense_least_squares_error


@pytest.mark.parametrize(("k", "d"), [(2, 16), (3, 26), (4, 36), (5, 46)])
def test_direct_beats_flat_from_where_the_paper_says(k: int, d: int) -> None:
    assert crossover(k, direct_error) == d


def test_the_errors_of_the_paper_s_example() -> None:
    assert flat_error(16) == 65_536  # section 4.1: d = 16, k = 2
    assert direct_error(16, 2) == 57_600
    assert flat_error(15) == 32_768
    assert direct_error(15, 2) == 4 * 105**2


@pytest.mark.parametrize(("d", "k"), [(4, 1), (5, 2), (6, 2), (6, 3), (4, 4)])
def test_least_squares_error_equals_dense_least_squares(d: int, k: int) -> None:
    assert least_squares_error(d, k) == pytest.approx(dense_least_squares_error(d, k), rel=1e-10)


@pytest.mark.parametrize(("k", "d"), [(2, 13), (3, 21)])
def test_least_squares_moves_the_crossover(k: int, d: int) -> None:
    # k = 2: 78^2 (1 + 2/12 + 1/78) = 7,176 < 2^13, but 66^2 (1 + 2/11 + 1/66) = 5,214 > 2^12
    assert crossover(k, least_squares_error) == d


# Verdicts


def measured(strategy: str, estimate: float, expected: float) -> Measured:
    interval = Interval(estimate=estimate, low=estimate * 0.95, high=estimate * 1.05, level=0.999)
    return Measured(strategy, interval, d=8, k=2, draws=10, formula=expected, predicted=expected)


RUN = (
    measured("Flat", 256, 260),
    measured("Direct", 3136, 3100),
    measured("Direct + least squares", 1036, 1040),
)


def test_verdicts_are_computed() -> None:
    assert [(claim.of, claim.holds) for claim in measured_claims(RUN)] == [
        ("paper", True),
        ("paper", True),
        ("crosstally", True),
        ("crosstally", True),
    ]
    assert [claim.figure for claim in measured_claims(RUN)][-1] == "3.03 x lower at d = 8, k = 2"


@pytest.mark.parametrize(
    ("position", "wrong", "failing"),
    [
        (0, {"formula": 282.0}, 0),
        (1, {"formula": 2822.0}, 1),
        (0, {"predicted": 282.0}, 2),
        (2, {"predicted": 932.0}, 2),
        (2, {"interval": Interval(estimate=3100, low=3000, high=3200, level=0.999), "predicted": 3100.0}, 3),
    ],
)
def test_a_wrong_number_fails_its_own_claim_only(position: int, wrong: dict[str, object], failing: int) -> None:
    run = list(RUN)
    run[position] = replace(run[position], **wrong)
    assert [i for i, claim in enumerate(measured_claims(run)) if not claim.holds] == [failing]


# The whole experiment, on real releases


@pytest.fixture(scope="module")
def steps() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def quick(steps: list[tuple[int, int]]) -> Outcome:
    return experiments.run("priview-crossover", quick=True, progress=lambda done, total: steps.append((done, total)))


def test_every_claim_holds(quick: Outcome) -> None:
    """Three intervals of level 1 - 1e-7: a false alarm in about 3e-7 of runs."""
    assert [claim.claim for claim in quick.claims if not claim.holds] == []
    assert [claim.of for claim in quick.claims] == ["paper"] * 4 + ["crosstally"] + ["paper"] * 2 + ["crosstally"] * 2


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_a_planted_error_of_a_tenth_in_the_scale_is_caught(quick: Outcome, scale: float) -> None:
    """Half an interval is 5.7 standard errors, at most 9%: 0.81 and 1.21 lie outside in all but 1e-6 of runs."""
    for row in quick.rows:
        if row["predicted"] is not None:
            assert not row["low"] <= row["predicted"] * scale**2 <= row["high"]  # type: ignore[operator]


def test_rows_say_which_noise_they_are_about(quick: Outcome) -> None:
    kinds = {(row["measured"] is None, row["noise"]) for row in quick.rows}
    assert kinds == {(True, "continuous Laplace, variance 2 b^2"), (False, "discrete Laplace, as released")}
    formulas = {(row["k"], row["d"], row["strategy"]): row["formula"] for row in quick.rows}
    assert formulas[2, 16, "Direct"] == 57_600
    assert formulas[2, 16, "Flat"] == 65_536
    assert formulas[5, 8, "Direct"] == 32 * 56**2


def test_the_default_stands_beside_both(quick: Outcome) -> None:
    """Measured, without a formula. Within a factor of ten of Flat's 256 V_u, which it may measure itself."""
    ours = next(row for row in quick.rows if row["strategy"] == "crosstally, default")
    assert (ours["k"], ours["d"], ours["draws"], ours["formula"]) == (5, 8, 10, None)
    assert 25.6 < float(ours["measured"] or 0) < 2560


def test_progress_is_told_to_the_end(quick: Outcome, steps: list[tuple[int, int]]) -> None:
    assert quick.chart is not None
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)


def test_data_that_is_not_used_is_refused() -> None:
    with pytest.raises(CrosstallyError, match="takes no data"):
        experiments.run("priview-crossover", quick=True, data="adult.csv")


@pytest.mark.verify
def test_every_claim_holds_with_full_counts() -> None:
    """Twelve intervals of level 1 - 1e-7: a false alarm in about 1e-6 of runs."""
    assert [claim.claim for claim in experiments.run("priview-crossover").claims if not claim.holds] == []
