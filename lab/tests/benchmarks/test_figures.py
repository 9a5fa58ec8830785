"""Figures computed from tables against the truth: sums by hand, and a small count on generated people."""

import numpy as np
import pytest

from benchmarks.accuracy import large_tables
from benchmarks.accuracy.coverage import Draw, over_draws
from benchmarks.accuracy.figures import NARROWED, Trial, Z, draw_of, put
from benchmarks.accuracy.real_tables import real_table
from benchmarks.accuracy.settings import Setting

KINDS = {"cells", "shares of all", "shares of a row", "differences of shares", "sums over groups", "SQL shares"}


def test_narrowed_intervals_keep_their_value_inside() -> None:
    """10 in 0 to 20 becomes 1 to 19, which misses 19.5; 0 in 0 to 10 becomes 0 to 9, which holds 0."""
    out: Draw = {}
    put(out, "cells", np.array([[19.5, 0.0], [10.0, 0.0], [0.0, 0.0], [20.0, 10.0]]))
    assert out["cells"]["all"][:2] == [2, 2]
    assert out["cells"][NARROWED] == pytest.approx([2, 1, 27, 9.5**2])


def test_generated_people_are_counted_by_their_codes() -> None:
    table = real_table("people")
    ages = table.rows["age"].to_numpy()
    edges = table.schema["age"].edges
    assert table.counts(["age"]).tolist() == np.histogram(ages, [*edges[:-1], edges[-1] + 1])[0].tolist()


def test_figures_of_generated_people_hold() -> None:
    """Six releases: no kind is below 93%, or above 99.5%, by more than six of its standard errors over releases."""
    draws = [draw_of(Trial(Setting("people", "1", delta), draw)) for draw in range(3) for delta in (None, "1e-9")]
    found = over_draws(draws)
    assert found.keys() >= KINDS
    for kind, classes in found.items():
        if kind == Z:
            continue
        held = classes["all"]
        slack = 6 * max(held.std_error, (0.05 * 0.95 / held.cells) ** 0.5)
        assert 0.93 - slack <= held.held <= 0.995 + slack, kind


def test_large_tables_are_judged_by_estimate() -> None:
    """Two releases alike: of 200 cells of 20 to 40, 190 held, error 10, width 30, so 1.5 times the oracle's 20."""
    alike = {"0": {"cells": 200, "width": 200 * 30.0, "errors": [10.0] * 200}}
    table = {"kind": "covered pairs", "names": "a x b", "alike": alike}
    table |= {"all": [1000, 990, 4000, 1e4], "quoted": [200, 190, 6000, 2e4]}
    setting = Setting("people", "1")
    made = large_tables.line_of(setting, "covered pairs", large_tables.AIMS["covered pairs"], [[table], [table]])
    assert (made["ratio"], made["met"]) == (pytest.approx(1.5), False)
    assert "all: 99.0%" in made["note"]
    assert "quoted: 95.0% 1.50; worst of 1 tables 95.0%" in made["note"]
