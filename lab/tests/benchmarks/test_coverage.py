"""Lines about intervals: worked out by hand."""

import numpy as np
import pytest

from benchmarks.accuracy.coverage import Aim, Draw, add, coverage_line, over_draws

CELLS = np.array([[0, 10, 30, 50], [2, 10, 36, 50], [0, 8, 32, 49], [4, 12, 40, 51]], float)
"""Truth, answer, low and high: the third cell is missed; widths 4, 4, 8, 2, squared errors 4, 0, 36, 0."""


def draw() -> Draw:
    out: Draw = {}
    for _ in range(2):
        add(out, "2 covered", CELLS, {"all": CELLS[0] >= 0, ">20": CELLS[0] > 20, "none": CELLS[0] > 99})
    return out


def test_tables_of_one_kind_are_added_up() -> None:
    assert draw() == {"2 covered": {"all": [8, 6, 36, 80], ">20": [4, 2, 20, 72]}}


@pytest.mark.parametrize(("least", "most_width", "met"), [(0.7, 0.4, True), (0.8, 0.4, False), (0.7, 0.3, False)])
def test_a_line_is_met_when_shares_and_widths_are(least: float, most_width: float, met: bool) -> None:
    """3/4 of the cells held; width 4.5 over 3.92 x sqrt(10) is 0.363. Of 2,000 draws alike, 0.75 < 0.8 for sure."""
    found = over_draws([draw()] * 2_000)["2 covered"]
    made = coverage_line(
        "work", found, Aim({"all": (least, 1), "none": (1, 1)}, width={"all": most_width}), draws=2_000
    )
    assert (made["met"], made["crosstally"], made["target"]) == (met, 4.5, most_width)
    assert made["ratio"] == pytest.approx(4.5 / (3.92 * 10**0.5))
    assert "all: 75.0% 0.36; >20: 50.0% 0.30" in made["note"]


def test_without_an_aim_there_is_no_verdict() -> None:
    assert coverage_line("work", over_draws([draw()])["2 covered"], Aim({}), draws=1)["met"] is None


def test_a_kind_that_some_draws_lack_counts_where_it_is() -> None:
    found = over_draws([draw(), {}])["2 covered"]["all"]
    assert (found.cells, found.held) == (8, 0.75)
