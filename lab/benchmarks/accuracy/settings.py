"""A setting is a real table and a budget; a draw is one release of it; work on settings runs on several cores."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, TypeVar

import crosstally as ct
from benchmarks.accuracy.errors import ORDERS, Truth
from benchmarks.accuracy.real_tables import MissingFileError, real_table
from crosstally.plans.plan import Plan

DELTA = "1e-9"
"""The delta of the accuracy targets."""

_Job = TypeVar("_Job")
Lines = Callable[[Sequence["Setting"], int], Iterator[dict[str, Any]]]
"""The lines of some settings, from so many draws of each."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A real table and a budget: pure epsilon where there is no delta."""

    table: str
    epsilon: str
    delta: str | None = None

    def __str__(self) -> str:
        kind = "pure" if self.delta is None else f"delta {self.delta}"
        return f"{self.table}, epsilon {self.epsilon}, {kind}"

    @property
    def budget(self) -> ct.Budget:
        """The budget as plans take it."""
        return ct.Budget(epsilon=self.epsilon, delta=self.delta)


def settings(tables: Sequence[str], epsilons: Sequence[str], deltas: Sequence[str | None]) -> list[Setting]:
    """All combinations, table by table."""
    return [Setting(t, e, d) for t in tables for e in epsilons for d in deltas]


def present(wanted: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """The settings whose file is in the data folder, and a sentence for each table that is not there."""
    absent = {}
    for name in dict.fromkeys(each.table for each in wanted):
        try:
            real_table(name)
        except MissingFileError as error:
            absent[name] = str(error)
    return [each for each in wanted if each.table not in absent], list(dict.fromkeys(absent.values()))


@lru_cache
def truth_of(table: str, orders: tuple[int, ...] = ORDERS) -> Truth:
    """The tables asked of a real table and their counts, once for each process."""
    return Truth.of(real_table(table), orders)


def released_errors(plan: Plan, truth: Truth) -> dict[int, float]:
    """One draw: release the real rows by a plan, ask for all tables at once; the RMS of each order."""
    return rms_by_order(ct.release(truth.table.rows, plan=plan), truth)


def rms_by_order(release: ct.Release, truth: Truth) -> dict[int, float]:
    """The RMS of each order, all tables asked at once."""
    answers = iter(release.marginals([names for tables in truth.asked.values() for names in tables]))
    return {k: truth.rms(k, [next(answers).values for _ in tables]) for k, tables in truth.asked.items()}


def in_processes(work: Callable[[_Job], Any], jobs: Sequence[_Job]) -> Iterator[Any]:
    """The results of all jobs, in order, as they are ready; on all cores, each process with one thread.

    Processes are spawned and not forked: compiled kernels may hold threads.
    """
    cores = int(os.environ.get("CROSSTALLY_BENCH_CORES", os.cpu_count() or 1))
    if cores == 1 or len(jobs) == 1:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(min(cores, len(jobs)), mp_context=get_context("spawn")) as processes:
        yield from processes.map(work, jobs)


def print_lines(lines: Lines, given: Sequence[str] | None, *, about: str | None, tables: Sequence[str]) -> None:
    """Print the lines of some tables and budgets, pure and with delta, as the command line says."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--tables", nargs="*", default=tables)
    parser.add_argument("--epsilons", nargs="*", default=["1"])
    options = parser.parse_args(given)
    for each in lines(settings(options.tables, options.epsilons, [None, DELTA]), options.draws):
        print(f"{each['work']}: {each['met']} {each['note']}", flush=True)
