"""The default inference against least squares and against the joint correction, on the same measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import crosstally as ct
from benchmarks.accuracy.comparison import Ratio, paired_ratio
from benchmarks.accuracy.errors import ORDERS, Truth, rms
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import mean_line, never_above
from benchmarks.accuracy.references import plan_by_name
from benchmarks.accuracy.settings import DELTA, Setting, in_processes, present, truth_of

WAYS = {"default": None, "least squares": "none", "joint": "joint"}
TARGETS = {1: 0.80, 2: 0.85, 3: 0.82, 4: None}
"""Of the geometric mean over settings against the joint correction."""
LIMIT = 1.02


@dataclass(frozen=True, slots=True)
class Measured:
    """A setting and what is measured in it, by the name of a reference strategy."""

    setting: Setting
    strategy: str
    draws: int = 1

    def __str__(self) -> str:
        return f"{self.strategy} of {self.setting}"


def _cases() -> list[Measured]:
    """Views at two budgets and all pairs with and without delta, of each table; a few of triples, one full table."""
    cases = []
    for table in ("adult", "fars-16", "census-9", "acs", "msnbc", "kosarak"):
        cases += [Measured(Setting(table, epsilon), "views") for epsilon in ("1", "0.1")]
        cases += [Measured(Setting(table, "1", delta), "pairs-cells") for delta in (None, DELTA)]
    triples = [Measured(Setting("fars-16", "1", DELTA), "triples"), Measured(Setting("msnbc", "1", DELTA), "triples")]
    return [*cases, *triples, Measured(Setting("msnbc", "1"), "flat")]


QUICK = ("adult", "acs", "kosarak")


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """For each order: never above least squares nor joint, and the geometric mean against joint."""
    wanted = [case for case in _cases() if not quick or case.setting.table in QUICK]
    there, _ = present([case.setting for case in wanted])
    jobs = [Measured(case.setting, case.strategy, draws) for case in wanted if case.setting in there]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    for order in ORDERS:
        for other, target in (("joint", TARGETS[order]), ("least squares", None)):
            ratios = dict(_ratios(found, order, other))
            if not ratios:
                continue
            work = f"k={order}, same measurements, RMS of the default inference over {other}"
            yield mean_line(f"{work}, mean", ratios, target)
            yield never_above(f"{work}, never above", ratios, LIMIT)


def _ratios(found: dict[Measured, Any], order: int, other: str) -> Iterator[tuple[str, Ratio]]:
    for job, errors in found.items():
        if str(order) in errors:
            own = errors[str(order)]
            yield str(job), paired_ratio(own["default"], own[other])


def _kept(job: Measured) -> Any:
    return kept_draws("inference", job, errors_of, table=job.setting.table)


def errors_of(job: Measured) -> dict[str, dict[str, list[float]]]:
    """By order and inference the RMS in each draw, over the tables that the measurements cover."""
    truth = truth_of(job.setting.table)
    plan = plan_by_name(job.strategy, truth.table.schema, job.setting)
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(job.draws):
        release = ct.release(truth.table.rows, plan=plan)
        for name, nonnegative in WAYS.items():
            fitted = release if nonnegative is None else release.refit(nonnegative=nonnegative)
            for order, error in _covered_errors(fitted, truth):
                found.setdefault(str(order), {}).setdefault(name, []).append(error)
    return found


def _covered_errors(release: ct.Release, truth: Truth) -> Iterator[tuple[int, float]]:
    """Tables that no measurement covers are left out: how they are predicted is another line."""
    for order, tables in truth.asked.items():
        inside = [names for names, yes in zip(tables, release.estimate.covered(tables), strict=True) if yes]
        if inside:
            yield order, rms([each.values for each in release.marginals(inside)], truth.of_tables(inside))
