"""How often 95% intervals of large sparse tables hold for the cells that readers quote, and how wide they are.

Readers quote a cell for its estimate, so cells are put together by estimate: those of at least 20, beside all. The
oracle takes twice the 95% quantile of the error over cells of like estimates, from all releases of a setting; classes
of fewer than 200 cells have none. Tables: covered pairs of 500 to 20,000 cells, pairs that the plan left out, and
triples that nobody measured.

``python -m`` this module prints a line for each setting and kind. Draws are kept, so that a run that was stopped goes
on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.coverage import Aim
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.real_tables import RealTable, real_table
from benchmarks.accuracy.settings import DELTA, Setting, in_processes, present, print_lines, settings
from crosstally_lab.papers.calibration import Held

TABLES = ("salary", "fars", "adult-fine", "crc")
QUICK_TABLES = ("crc",)
DRAWS = 6
MOST_TABLES = 6
"""Tables asked of each kind and release, drawn anew."""
LEAST_CELLS, MOST_CELLS = 500, 20_000
QUOTED = 20
STEPS = (20, 40, 80, 160, 320, 640, 1_280, math.inf)
"""Cells whose estimates lie between two of these are alike."""
ENOUGH = 200
AIMS = {
    "covered pairs": Aim({"quoted": (0.92, 0.98)}, width={"quoted": 1.3}),
    "pairs left out": Aim({"quoted": (0.92, 0.98)}, width={"quoted": 1.5}),
    "triples not measured": Aim({"quoted": (0.92, 0.98)}, width={"quoted": 1.5}),
}
ONE_TABLE = (0.90, 0.99)

Sums = dict[str, Any]
"""Of one table: its kind and names, and for all cells and quoted ones (number, held, sum of widths, of squares)."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One release of a setting."""

    setting: Setting
    draw: int


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """A line for each setting and kind of table."""
    wanted, _ = present(settings(QUICK_TABLES if quick else TABLES, ["1"], [None, DELTA]))
    yield from lines(wanted, min(draws, DRAWS))


def lines(wanted: Sequence[Setting], draws: int) -> Iterator[dict[str, Any]]:
    """Draws are the outer loop: a run that stops has some of each setting."""
    jobs = [Trial(setting, draw) for draw in range(draws) for setting in wanted]
    found = list(zip(jobs, in_processes(_kept, jobs), strict=True))
    for setting in wanted:
        own = [tables for job, tables in found if job.setting == setting]
        for kind, aim in AIMS.items():
            if any(table["kind"] == kind for tables in own for table in tables):
                yield line_of(setting, kind, aim, [[t for t in tables if t["kind"] == kind] for tables in own])


def line_of(setting: Setting, kind: str, aim: Aim, draws: Sequence[Sequence[Sums]]) -> dict[str, Any]:
    """The share held of all cells and of quoted ones, the widths over the oracle's, and the worst single table."""
    held = {
        each: Held(sums=np.array([np.sum([t[each] for t in tables] or [[0.0] * 4], axis=0) for tables in draws]))
        for each in ("all", "quoted")
    }
    widths = {"quoted": _width(draws), "all": held["all"].width}
    note = f"{len(draws)} draws; held and width: " + "; ".join(
        f"{each}: {100 * held[each].held:.1f}% {widths[each] or math.nan:.2f}" for each in held if held[each].cells
    )
    single = _single(draws)
    note += f"; worst of {len(single)} tables {100 * min(single.values()):.1f}%" if single else ""
    outside = [name for name, share in single.items() if not ONE_TABLE[0] <= share <= ONE_TABLE[1]]
    note += f", {len(outside)} outside of 90 to 99%" if outside else ""
    judged = next(iter(aim.held))
    missed = held[judged].cells > 0 and held[judged].misses(*aim.held[judged])
    wide = (widths[judged] or 0.0) > aim.width[judged]
    work = f"{kind}, 95% intervals of {setting}, width over the oracle's"
    return line(work, widths[judged], 1.0, aim.width[judged], unit="x", met=not missed and not wide, note=note)


def _width(draws: Sequence[Sequence[Sums]]) -> float | None:
    """The mean width of quoted cells over that of the oracle of their class."""
    ours = oracle = 0.0
    for step in map(str, range(len(STEPS) - 1)):
        alike = [t["alike"][step] for tables in draws for t in tables if step in t["alike"]]
        errors = [error for each in alike for error in each["errors"]]
        if len(errors) >= ENOUGH:
            cells = sum(each["cells"] for each in alike)
            ours += sum(each["width"] for each in alike)
            oracle += cells * 2 * float(np.quantile(errors, 0.95))
    return ours / oracle if oracle else None


def _single(draws: Sequence[Sequence[Sums]]) -> Mapping[str, float]:
    """The share held of quoted cells of each table that has enough of them."""
    sums: dict[str, np.ndarray] = {}
    for tables in draws:
        for table in tables:
            sums[table["names"]] = sums.get(table["names"], np.zeros(4)) + table["quoted"]
    return {name: float(each[1] / each[0]) for name, each in sums.items() if each[0] >= ENOUGH}


def _kept(trial: Trial) -> Any:
    return kept_draws("large tables", trial, draw_of, table=trial.setting.table)


def draw_of(trial: Trial) -> list[Sums]:
    """One release, its large tables against the truth."""
    setting, random = trial.setting, np.random.default_rng(trial.draw)
    table, budget = real_table(setting.table), setting.budget
    release = ct.release(table.rows, table.schema, epsilon=budget.epsilon, delta=budget.delta)
    return [sums_of(table, release, kind, names, random) for kind, names in asked(table, release, random)]


def asked(table: RealTable, release: ct.Release, random: np.random.Generator) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Some tables of each kind, drawn at random."""
    names, seen = table.schema.names, dict[tuple[str, ...], str]()
    for order in (2, 3):
        for _ in range(60 * MOST_TABLES):
            some = tuple(names[i] for i in sorted(random.choice(len(names), order, replace=False)))
            cells, covered = math.prod(table.schema.sizes(some)), release.covers(*some)
            kind = ("covered pairs" if covered else "pairs left out") if order == 2 else "triples not measured"
            least = LEAST_CELLS if kind == "covered pairs" else 0
            enough = list(seen.values()).count(kind) >= MOST_TABLES
            if some in seen or enough or not least <= cells <= MOST_CELLS or (order > 2 and covered):
                continue
            seen[some] = kind
            yield kind, some


def sums_of(
    table: RealTable, release: ct.Release, kind: str, names: tuple[str, ...], random: np.random.Generator
) -> Sums:
    """What one table adds; errors of like cells are a sample of at most 300 of each class."""
    answer, truth = release.marginal(*names), table.counts(names).astype(float).ravel()
    values, (low, high) = answer.values.ravel(), (each.ravel() for each in answer.interval(0.95))
    held, width, error = (low <= truth) & (truth <= high), high - low, np.abs(values - truth)
    quoted, alike = values >= QUOTED, {}
    for step, (least, most) in enumerate(pairwise(STEPS)):
        inside = np.flatnonzero((values >= least) & (values < most))
        if inside.size:
            some = random.choice(inside, min(inside.size, 300), replace=False)
            errors = [round(float(each), 1) for each in error[some]]
            alike[str(step)] = {"cells": int(inside.size), "width": float(width[inside].sum()), "errors": errors}
    out: Sums = {"kind": kind, "names": " x ".join(names), "alike": alike}
    for name, those in (("all", np.ones_like(quoted)), ("quoted", quoted)):
        out[name] = [float(each[those].sum()) for each in (those, held, width, error**2)]
    return out


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each setting and kind of table."""
    print_lines(lines, given, about=__doc__, tables=TABLES)


if __name__ == "__main__":
    main()
