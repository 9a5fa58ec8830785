"""How often 95% intervals of one-way tables hold: the first thing that anyone reads.

A line for each real table, budget and what is named in it: the share of cells held, the same of cells above three of
their standard errors, and the mean width over the oracle's, 3.92 x RMS error. So many releases are drawn that 2,000
tables are seen; ``python -m`` this module prints some of these lines. The cells of a table of two values err together:
only its first one counts. Releases are kept (``kept``), so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.coverage import Aim, Draw, add, coverage_line, over_draws
from benchmarks.accuracy.intervals import BUDGETS, NAMED, QUICK_TABLES, TABLES, Case
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.real_tables import real_table
from benchmarks.accuracy.settings import Setting, in_processes, present
from crosstally.plans.plan import Plan
from crosstally.typing import Floats

_ONE_WAYS = 2_000
"""Tables to be seen of each setting: their share held has then a standard error of half a point."""
_BLOCK = 10
"""Releases of one job: few enough that little is lost when a run stops."""
_LARGE = 3.0
"""Cells above so many standard errors are counted by themselves too."""
_AIM = Aim({"all": (0.93, 0.97)})


@dataclass(frozen=True, slots=True)
class Block:
    """Some releases of a case, one after another."""

    case: Case
    number: int
    releases: int = _BLOCK


def draws_of(table: str) -> int:
    """The least multiple of a block that has enough tables."""
    return _BLOCK * -(-_ONE_WAYS // (_BLOCK * len(real_table(table).schema.names)))


def one_ways(block: Block) -> list[Draw]:
    """What is seen in each release of a block."""
    table, plan = real_table(block.case.setting.table), _plan(block.case)
    truth = {name: table.counts((name,)).astype(float) for name in table.schema.names}
    return [_seen(ct.release(table.rows, plan=plan), truth) for _ in range(block.releases)]


@lru_cache
def _plan(case: Case) -> Plan:
    schema, budget = real_table(case.setting.table).schema, case.setting.budget
    workload = None if case.named is None else ct.Workload.all_ways(schema, case.named)
    return ct.plan(schema, workload=workload, epsilon=budget.epsilon, delta=budget.delta).chosen


def _seen(release: ct.Release, truth: dict[str, Floats]) -> Draw:
    out: Draw = {}
    for name, exact in truth.items():
        answer = release.marginal(name)
        cells = np.stack([exact, answer.values, *answer.interval(0.95)])
        large = exact > _LARGE * answer.std_error
        counted = slice(1 if len(exact) == 2 else None)
        classes = {"all": np.ones(len(exact), bool), "large": large, "small": ~large}
        add(out, "one-way", cells[:, counted], {each: inside[counted] for each, inside in classes.items()})
    return out


def _kept(block: Block) -> list[Draw]:
    return kept_draws("one-ways", block, one_ways, table=block.case.setting.table)


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """The lines of all cases; a full run draws at least 2,000 tables' worth, a quick one a block for few cases."""
    budgets, named = (BUDGETS[1:], NAMED[:1]) if quick else (BUDGETS, NAMED)
    wanted, _ = present(
        [Setting(table, *budget) for table in (QUICK_TABLES if quick else TABLES) for budget in budgets]
    )
    yield from lines([Case(setting, each) for each in named for setting in wanted], draws if quick else None)


def lines(cases: Sequence[Case], draws: int | None) -> Iterator[dict[str, Any]]:
    """A line for each case, as soon as its releases are there."""
    blocks = [Block(case, i) for case in cases for i in range(-(-(draws or draws_of(case.setting.table)) // _BLOCK))]
    found = zip(blocks, in_processes(_kept, blocks), strict=True)
    of_case: list[Draw] = []
    for i, (block, seen) in enumerate(found):
        of_case += seen
        if i + 1 == len(blocks) or blocks[i + 1].case != block.case:
            work = f"one-way tables, 95% intervals of {block.case}, width over 3.92 x RMS"
            yield coverage_line(work, over_draws(of_case)["one-way"], _AIM, draws=len(of_case))
            of_case = []


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, help="releases of each setting, in tens; default: 2,000 tables' worth")
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--epsilons", nargs="*", default=["0.1", "1"])
    parser.add_argument(
        "--named", nargs="*", type=int, default=[0], help="orders of which all tables are named; 0: none"
    )
    options = parser.parse_args(given)
    wanted = [Setting(t, e, d) for t in options.tables for e, d in BUDGETS if e in options.epsilons]
    for each in lines([Case(setting, n or None) for n in options.named for setting in wanted], options.draws):
        print(f"{each['work']}: {each['note']}", flush=True)


if __name__ == "__main__":
    main()
