"""The whole grid of CALM's experiment, a setting at a time: each is kept, so that a run can be stopped and taken up.

CALM's views are the best of all that it may choose from, chosen on the truth. ``crosstally reproduce calm`` has the
other claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from benchmarks.accuracy.comparison import Mean, Ratio, ratio_of_means
from benchmarks.accuracy.kept import code_digest, kept
from benchmarks.accuracy.lines import mean_line, never_above
from crosstally_lab.papers.calm.experiment import FULL, QUICK, Case, Counts, Score, cases, scores_of

OURS, BEST = "crosstally", "CALM, best (m, l) on the truth"
"""Methods of the experiment."""
_MEAN, _LIMIT = 0.8, 1.05
_LARGEST_EPSILON, _LEAST_WIDTH = 1, 16
"""The mean has a target where epsilon is at most this and at least so many attributes are collected."""


def run(draws: int = 0, *, quick: bool = False, only_kept: bool = False) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """The SSE of the default over that of CALM's best views; the grid has its own number of repetitions."""
    counts = QUICK if quick else FULL
    ratios, asked = dict[Score, Ratio](), 0
    for case in cases(None, counts):
        for epsilon in counts.epsilons:
            if counts.asks(case, epsilon):
                asked += 1
                found = {score.method: score for score in setting(case, epsilon, counts, only_kept=only_kept)}
                if found:
                    ratios[found[OURS]] = ratio_of_means(_mean(found[OURS]), _mean(found[BEST]))
    if not ratios:
        return
    target = {_words(s): r for s, r in ratios.items() if s.epsilon <= _LARGEST_EPSILON and s.d >= _LEAST_WIDTH}
    where = f"epsilon up to {_LARGEST_EPSILON}, {_LEAST_WIDTH} attributes and more"
    work = "local tables, SSE over CALM with the best (m, l)"
    lines = [mean_line(f"{work}, {where}, mean", target, _MEAN)] if target else []
    lines += [never_above(f"{work}, {where}", target, _MEAN)] if target else []
    lines += [never_above(f"{work}, all settings", {_words(s): r for s, r in ratios.items()}, _LIMIT)]
    for each in lines:
        each["note"] += f"; {len(ratios)} of {asked} settings of the grid were run"
        yield each


def _mean(score: Score) -> Mean:
    return Mean(score.sse, error=score.std_error, draws=score.runs)


def _words(score: Score) -> str:
    return f"{score.data}, {score.d} attributes, {score.people:,} people, epsilon {score.epsilon:g}, {score.k}-way"


def setting(case: Case, epsilon: Fraction, counts: Counts, *, only_kept: bool = False) -> list[Score]:
    """The scores of one setting, kept or new; none if only what is kept is wanted and it is not."""
    key = {
        "line": "calm",
        "case": [case.data, len(case.schema.names), case.people, case.ways],
        "tables": repr(case.tables),
        "epsilon": str(epsilon),
        # What each setting rests on: how many runs, tables and views; not which other settings there are
        "counts": [counts.runs, counts.screening, len(case.tables), counts.views],
        "code": code_digest("local", "papers"),
    }
    work = None if only_kept else lambda: [asdict(score) for score in scores_of(case, epsilon, counts)]
    found = kept("calm", key, work)
    return [Score(**each) for each in found or ()]
