"""What a release with nothing named loses against the best single strategy for each order.

``python -m benchmarks.accuracy.regret --table adult --epsilon 1 --delta 1e-9 --draws 3 --strategies default,views``
prints the RMS of tables of 1 to 4 attributes for each strategy, without a verdict.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.references import DEFAULT, REFERENCES, plan_by_name
from benchmarks.accuracy.settings import Setting, in_processes, released_errors, truth_of
from crosstally.errors import CrosstallyError

__all__ = ["Job", "Outcome", "measured"]


@dataclass(frozen=True, slots=True)
class Job:
    """Some draws of one strategy in one setting."""

    setting: Setting
    strategy: str
    draws: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The RMS of each order in each draw, or why there is no plan; CPU seconds of planning and of one draw."""

    job: Job
    errors: dict[int, list[float]]
    refused: str = ""
    planning: float = 0.0
    drawing: float = 0.0


def measured(job: Job) -> Outcome:
    """Plan once, release as often as asked."""
    truth = truth_of(job.setting.table)
    start = time.process_time()
    try:
        plan = plan_by_name(job.strategy, truth.table.schema, job.setting)
        plan.check_countable()
    except CrosstallyError as error:
        return Outcome(job, {}, refused=str(error))
    planned = time.process_time()
    draws = [released_errors(plan, truth) for _ in range(job.draws)]
    spent = (time.process_time() - planned) / job.draws
    errors = {k: [draw[k] for draw in draws] for k in truth.asked}
    return Outcome(job, errors, planning=planned - start, drawing=spent)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.regret", description=__doc__)
    parser.add_argument("--table", default="adult", help="one or several, with commas")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default=None)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--strategies", default=",".join((DEFAULT, *REFERENCES)), help="names with commas")
    options = parser.parse_args(given)
    for table in options.table.split(","):
        setting = Setting(table, options.epsilon, options.delta)
        jobs = [Job(setting, name, options.draws) for name in options.strategies.split(",")]
        print(f"{setting}, {options.draws} draws, mean RMS for k = 1, 2, 3, 4 (regret)", flush=True)
        outcomes = []
        for outcome in in_processes(measured, jobs):
            outcomes.append(outcome)
            print(f"  {outcome.job.strategy:14s} {_numbers(outcome)}", flush=True)
        print(_regrets(outcomes))


def _numbers(outcome: Outcome) -> str:
    if outcome.refused:
        return f"refused: {outcome.refused[:100]}"
    errors = "".join(f"{np.mean(draws):10.2f}" for draws in outcome.errors.values())
    return f"{errors}   plan {outcome.planning:.1f} s, draw {outcome.drawing:.1f} s"


def _regrets(outcomes: Sequence[Outcome]) -> str:
    """The regret of each strategy at each order, against the best that was asked for."""
    means = {o.job.strategy: {k: np.mean(draws) for k, draws in o.errors.items()} for o in outcomes if not o.refused}
    if not means:
        return ""
    best = {k: min(each[k] for each in means.values()) for k in next(iter(means.values()))}
    lines = [f"  {name:14s} " + "".join(f"{each[k] / best[k]:10.2f}" for k in best) for name, each in means.items()]
    return "  regret\n" + "\n".join(lines)


if __name__ == "__main__":
    main()
