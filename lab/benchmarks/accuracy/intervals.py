"""How often 95% intervals of default releases, and of releases with named tables, hold, and how wide they are.

``python -m`` this module prints a line for each real table, budget, order and kind, for as many draws as asked. Draws
are kept (``kept``), so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.coverage import Aim, Cells, Draw, add, coverage_line, over_draws
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.real_tables import RealTable, real_table
from benchmarks.accuracy.settings import DELTA, Setting, in_processes, present
from crosstally.answers.marginal import ErrorKind

TABLES = ("adult", "fars-16", "acs", "census-9", "msnbc", "kosarak")
QUICK_TABLES = ("msnbc",)
BUDGETS = (("0.1", None), ("1", None), ("1", DELTA))
NAMED = (None, 2, 3)
"""Nothing is named, or all tables of this order."""
DRAWS = 10
"""At most so many of each setting: with five tables of each order all of them take half an hour of one core."""
MOST_TABLES = 5
"""Tables asked of each order and kind, drawn anew for every release."""
MOST_CELLS = 4_000
CLASSES = {"all": (0, math.inf), "0": (0, 0), ">0": (1, math.inf), "1-20": (1, 20), ">20": (21, math.inf)}
AIMS = {
    "covered": Aim(
        {"all": (0.93, 0.985), "0": (0.93, 1), "1-20": (0.90, 1), ">20": (0.92, 1)}, width={"all": 1.25, ">20": 1.5}
    ),
    "not measured": Aim({"all": (0.92, 0.99), ">0": (0.90, 1)}, width={"all": 1.5}),
    "bounds": Aim({"all": (0.92, 1)}),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A setting and what is named in it: nothing, or all tables of an order."""

    setting: Setting
    named: int | None = None

    def __str__(self) -> str:
        return str(self.setting) if self.named is None else f"{self.setting}, all {self.named}-way tables named"


@dataclass(frozen=True, slots=True)
class Trial:
    """One draw of a case; ``tables`` of each order and kind are asked."""

    case: Case
    draw: int
    tables: int = MOST_TABLES


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Width beside the oracle's, and the share held, for each case, order and kind of table."""
    budgets = BUDGETS[1:] if quick else BUDGETS
    wanted, _ = present([Setting(t, *budget) for t in (QUICK_TABLES if quick else TABLES) for budget in budgets])
    cases = [Case(setting, named) for setting in wanted for named in (NAMED[:1] if quick else NAMED)]
    yield from lines(cases, min(draws, DRAWS), MOST_TABLES)


def lines(cases: Sequence[Case], draws: int, tables: int) -> Iterator[dict[str, Any]]:
    """For each case, order and kind of table a line. Draws are the outer loop: a run that stops has some of each."""
    jobs = [Trial(case, draw, tables) for draw in range(draws) for case in cases]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    for case in cases:
        of_case = [found[job] for job in jobs if job.case == case]
        for kind, classes in over_draws(of_case).items():
            order, words = kind.split(" ", 1)
            work = f"k={order}, {words} tables, 95% intervals of {case}, width over 3.92 x RMS"
            yield coverage_line(work, classes, AIMS[words], draws=draws)


def _kept(trial: Trial) -> Any:
    return kept_draws("intervals", trial, draw_of, table=trial.case.setting.table)


def draw_of(trial: Trial) -> Draw:
    """One release, its tables against the truth."""
    setting = trial.case.setting
    table, named = real_table(setting.table), trial.case.named
    workload = None if named is None else ct.Workload.all_ways(table.schema, named)
    budget = setting.budget
    release = ct.release(table.rows, table.schema, workload=workload, epsilon=budget.epsilon, delta=budget.delta)
    out: Draw = {}
    for kind, cells in held(table, release, np.random.default_rng(trial.draw), trial.tables):
        add(
            out,
            kind,
            cells,
            {name: (cells[0] >= least) & (cells[0] <= most) for name, (least, most) in CLASSES.items()},
        )
    return out


def held(
    table: RealTable, release: ct.Release, rng: np.random.Generator, tables: int = MOST_TABLES
) -> Iterator[tuple[str, Cells]]:
    """For different tables of one to six attributes order and kind, and (truth, answer, low, high) of their cells."""
    names = table.schema.names
    for order in (1, 2, 3, 4, 6):
        seen: dict[tuple[str, ...], str] = {}
        for _ in range(40 * tables):
            asked = tuple(names[i] for i in sorted(rng.choice(len(names), order, replace=False)))
            kind = "covered" if release.estimate.covers(asked) else "not measured"
            enough = list(seen.values()).count(kind) >= tables
            if enough or asked in seen or math.prod(table.schema.sizes(asked)) > MOST_CELLS:
                continue
            seen[asked] = kind
            answer = release.marginal(*asked)
            ends = answer.interval(0.95)
            numbers = (table.counts(asked), answer.values, *ends)
            shown = "bounds" if answer.error_kind is ErrorKind.BOUNDS else kind
            yield f"{order} {shown}", np.stack([np.asarray(each, float).ravel() for each in numbers])


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table, budget, order and kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--epsilons", nargs="*", default=["1"])
    parser.add_argument(
        "--named", nargs="*", type=int, default=[0], help="orders of which all tables are named; 0: none"
    )
    parser.add_argument("--most", type=int, default=MOST_TABLES, help="tables of each order and kind in a release")
    options = parser.parse_args(given)
    wanted = [Setting(t, e, d) for t in options.tables for e, d in BUDGETS if e in options.epsilons]
    cases = [Case(setting, named or None) for setting in wanted for named in options.named]
    for each in lines(cases, options.draws, options.most):
        print(f"{each['work']}: {each['note']}", flush=True)


if __name__ == "__main__":
    main()
