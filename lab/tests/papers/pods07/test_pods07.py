"""The experiment on Barak et al. 2007: bounds worked out by hand, and verdicts that can be false."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally_lab.papers import experiments
from crosstally_lab.papers.outcomes import Claim
from crosstally_lab.papers.pods07.experiment import (
    Run,
    bound_of_theorem_7,
    bound_of_theorem_8,
    exact_sensitivity,
    run_claims,
    shift_claims,
)


def test_bounds_are_the_theorems() -> None:
    assert bound_of_theorem_7(2, 16, epsilon=0.5, delta=0.05) == pytest.approx(4 * 8 * 16 * math.log(320) * 2 + 16)
    assert bound_of_theorem_8(2, 10, 40, epsilon=1.0, delta=0.05) == pytest.approx(320 * math.log(800) + 40)


@pytest.mark.parametrize(("attributes", "ways"), [(3, 2), (5, 2), (5, 3)])
def test_the_exact_sensitivity_is_that_of_all_pairs_of_rows(attributes: int, ways: int) -> None:
    held = [mask for mask in range(2**attributes) if mask.bit_count() <= ways]
    moved = max(sum(2 * ((mask & changed).bit_count() % 2) for mask in held) for changed in range(2**attributes))
    assert exact_sensitivity(attributes, ways) == moved


def test_the_exact_sensitivity_for_16_attributes() -> None:
    assert exact_sensitivity(16, 2) == 144


def run_of(measured: str, **changes: object) -> Run:
    fields = {
        "measured": measured,
        "attributes": 3,
        "scale": 14.0,
        "largest_noise": 30.0,
        "optimum": 20.0,
        "cells": 7,
        "most_cells": 7,
        "errors": {2: 90.0 if "exact" not in measured else 50.0},
        "bounds": {2: 900.0},
        "rounding": 2.0,
    }
    return Run(**(fields | changes))


KINDS = ("coefficients, scale of the paper", "coefficients, exact scale", "marginals (4.2)")


def claims(**changes: object) -> list[Claim]:
    return list(run_claims([run_of(kind, **changes) for kind, _ in product(KINDS, range(300))]))


def test_verdicts_hold_when_the_numbers_do() -> None:
    found = claims()
    assert [claim.holds for claim in found] == [True] * 5
    assert found[0].figure == (
        "beyond it in 0 of 300 draws (at most 4.9%); the bound is 10 to 10 times the largest error of a draw"
    )  # 0.9506^300 = 2.5e-7


@pytest.mark.parametrize(
    ("changes", "false"),
    [
        ({"errors": {2: 901.0}}, [0, 1, 4]),
        ({"optimum": 30.1}, [2]),
        ({"cells": 8}, [3]),
        ({"rounding": 7.5}, [3]),
    ],
)
def test_verdicts_are_false_when_the_numbers_are_not_so(changes: dict[str, object], false: list[int]) -> None:
    assert [i for i, claim in enumerate(claims(**changes)) if not claim.holds] == false


@pytest.mark.parametrize(
    ("shifts", "holds"),
    [
        ([18_000] * 80 + [19_000] * 20, [True, False, True]),  # 80% within 4 x 1/4 x 137^2 = 18,769
        ([18_000] * 25 + [19_000] * 75, [None, False, True]),  # 25%, but the interval goes below 22%
        ([7_000] * 60 + [26_000] * 40, [True, True, False]),  # 7,508 at t = 0.1; 60% of the Gamma quantile is 25,820
    ],
)
def test_verdicts_on_the_corollary(shifts: list[int], holds: list[bool | None]) -> None:
    found = list(shift_claims(np.array(shifts * 3, float)))
    assert [claim.holds for claim in found] == holds
    assert [claim.of for claim in found] == ["paper", "paper", "crosstally"]


def test_the_experiment_runs_on_a_file_of_one_s_own(tmp_path: Path) -> None:
    lines = ["a,b,c", *("0,1,1", "1,0,1", "1,1,0", "0,0,0") * 25]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    outcome = experiments.run("pods07", quick=True, data=tmp_path / "mine.csv")
    assert {row.get("data") for row in outcome.rows} == {"mine.csv", None}
    seventh = next(row for row in outcome.rows if row["ways"] == 2)
    assert (seventh["scale"], seventh["most_cells"]) == (14.0, 7)  # |B| = 1 + 3 + 3
    assert seventh["bound"] == pytest.approx(4 * 8 * 7 * math.log(140) + 7)
    ours = {row["ways"]: row for row in outcome.rows if row["measured"] == "crosstally, default release"}
    assert {ways: row["draws"] for ways, row in ours.items()} == {1: 12, 2: 12}
    assert all(0 < float(row["mean_largest_l1_error"] or 0) < 100 for row in ours.values())
    assert [claim.holds for claim in outcome.claims[:4]] == [None, None, True, True], "12 draws cannot show 5%"


def test_a_file_needs_three_columns(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n0,1\n")
    with pytest.raises(CrosstallyError, match="at least 3 columns, got 2"):
        experiments.run("pods07", quick=True, data=tmp_path / "mine.csv")
