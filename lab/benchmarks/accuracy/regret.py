"""What a release with nothing named loses against the best single strategy for each order.

``python -m benchmarks.accuracy.regret --table adult --epsilon 1 --delta 1e-9 --draws 3 --strategies default,views``
prints the RMS of tables of 1 to 4 attributes for each strategy, without a verdict.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy.comparison import Ratio, paired_ratio, regret
from benchmarks.accuracy.errors import ORDERS
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import line, never_above, refused
from benchmarks.accuracy.references import DEFAULT, OLD_DEFAULT, names_for, plan_by_name
from benchmarks.accuracy.settings import DELTA, Setting, in_processes, present, released_errors, truth_of
from crosstally.errors import CrosstallyError

TABLES = ("adult", "fars-16", "fars", "census-9", "acs", "msnbc", "kosarak", "kosarak-resampled")
QUICK = ("adult", "acs", "kosarak")
TARGETS = {
    "with delta": {"median": (1.75, 1.25, 1.15, 1.15), "worst": (2.0, 1.6, 1.6, 1.4)},
    "pure": {"median": (3.3, 1.25, 1.25, 1.25), "worst": (5.0, 1.8, 2.2, 2.5)},
}
"""Regret for k = 1, 2, 3, 4."""
AGAINST_OLD = 1.25

MOST_CELLS, MOST_TABLES = 300_000, 6_000
"""A reference that measures more cells or tables is left out: twenty releases of it would take most of an hour."""
FIRST, HOPELESS = 3, 1.5
"""After so many draws, references whose mean is above this factor of the best at every order are not drawn again."""


Errors = dict[str, dict[str, list[float]]]
"""By strategy and order the RMS of each draw; orders are texts, as in the files that keep them."""


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
        if job.strategy != DEFAULT and (plan.cells > MOST_CELLS or len(plan.tables) > MOST_TABLES):
            return Outcome(
                job, {}, refused=f"left out: it measures {plan.cells:,} cells in {len(plan.tables):,} tables"
            )
    except CrosstallyError as error:
        return Outcome(job, {}, refused=str(error))
    planned = time.process_time()
    draws = [released_errors(plan, truth) for _ in range(job.draws)]
    spent = (time.process_time() - planned) / job.draws
    errors = {k: [draw[k] for draw in draws] for k in truth.asked}
    return Outcome(job, errors, planning=planned - start, drawing=spent)


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Median and worst regret for each order, with delta and pure; and the ratio to views, the default until 0.2."""
    for kind, delta in (("with delta", DELTA), ("pure", None)):
        wanted, _ = present([Setting(table, "1", delta) for table in (QUICK if quick else TABLES)])
        drawn = {
            str(s): found for s, found in zip(wanted, in_processes(raced, [(s, draws) for s in wanted]), strict=True)
        }
        for setting, (_, reason) in drawn.items():
            if reason:
                yield refused(f"default release, nothing named, {setting}", None, reason)
        yield from _regret_lines(kind, {setting: errors for setting, (errors, _) in drawn.items() if DEFAULT in errors})


def _regret_lines(kind: str, drawn: Mapping[str, Errors]) -> Iterator[dict[str, Any]]:
    for place, order in enumerate(ORDERS):
        ratios: dict[str, Ratio] = {}
        old: dict[str, Ratio] = {}
        for setting, errors in drawn.items():
            by_name = {name: own[str(order)] for name, own in errors.items() if str(order) in own}
            if not by_name:
                continue
            ours = by_name.pop(DEFAULT)
            if OLD_DEFAULT in by_name:
                old[setting] = paired_ratio(ours, by_name[OLD_DEFAULT])
            best, ratio = regret(ours, {name: own for name, own in by_name.items() if len(own) == len(ours)})
            ratios[f"{setting} (best {best})"] = ratio
        if not ratios:
            continue
        work = f"k={order}, default release, nothing named, {kind}"
        middle = float(np.median([each.estimate for each in ratios.values()]))
        each = "; ".join(f"{name} {ratio.estimate:.2f}" for name, ratio in ratios.items())
        yield line(f"{work}, median regret", middle, 1.0, TARGETS[kind]["median"][place], unit="x", note=each)
        yield never_above(f"{work}, worst regret", ratios, TARGETS[kind]["worst"][place])
        if old:
            yield never_above(f"{work}, over views of the same inference", old, AGAINST_OLD)


def raced(job: tuple[Setting, int]) -> tuple[Errors, str]:
    """All references drawn a few times, the promising ones, views and the default as often as asked; or why not."""
    setting, draws = job
    first = min(FIRST, draws)
    outcomes = {name: _kept(Job(setting, name, first)) for name in (DEFAULT, *names_for(setting))}
    if outcomes[DEFAULT]["refused"]:
        return {}, outcomes[DEFAULT]["refused"]
    errors = {name: each["errors"] for name, each in outcomes.items() if not each["refused"]}
    if first < draws:
        means = {name: {k: float(np.mean(own)) for k, own in each.items()} for name, each in errors.items()}
        best = {k: min(each[k] for name, each in means.items() if name != DEFAULT) for k in means[DEFAULT]}
        for name, drawn in errors.items():
            if name in (DEFAULT, OLD_DEFAULT) or any(means[name][k] <= HOPELESS * best[k] for k in best):
                more = _kept(Job(setting, name, draws - first))["errors"]
                errors[name] = {k: [*own, *more[k]] for k, own in drawn.items()}
    return errors, ""


def _kept(job: Job) -> Any:
    def work(own: Job) -> dict[str, Any]:
        outcome = measured(own)
        return {"errors": {str(k): each for k, each in outcome.errors.items()}, "refused": outcome.refused}

    return kept_draws("regret", job, work, table=job.setting.table)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.regret", description=__doc__)
    parser.add_argument("--table", default="adult", help="one or several, with commas")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default=None)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--strategies", default=None, help="names with commas; all when left out")
    options = parser.parse_args(given)
    for table in options.table.split(","):
        setting = Setting(table, options.epsilon, options.delta)
        names = options.strategies.split(",") if options.strategies else [DEFAULT, *names_for(setting)]
        jobs = [Job(setting, name, options.draws) for name in names]
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
