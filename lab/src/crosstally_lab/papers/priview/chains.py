"""Markov chains of order 1 to 7: how PriView's error depends on how far attributes reach (section 5.5, figure 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from crosstally.errors import CrosstallyError
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.papers.data import Rows
from crosstally_lab.papers.metrics import above, grid_ratio_interval, ratio_words
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings
from crosstally_lab.papers.priview import trials
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.trials import Case, Design, Names, Scores, Steps

_ORDERS = range(1, 8)  # orders of the chains, as in the paper's figure
# Attributes and rows of the chains and the budget, as in the paper (section 5.5).
_ATTRIBUTES, _ROWS, _EPSILON = 64, 1_000_000, 1.0
_DESIGN = Design(8, 2)
_EVERY = 3  # in a quick run every third set of consecutive attributes is asked for


def consecutive(names: Names, k: int, step: int = 1) -> list[Names]:
    """All sets of k attributes that follow each other, or every ``step``-th of them.

    >>> consecutive(("a", "b", "c", "d"), 3)
    [('a', 'b', 'c'), ('b', 'c', 'd')]
    """
    return [names[start : start + k] for start in range(0, len(names) - k + 1, step)]


def _figure_5(settings: Settings) -> Outcome:
    if settings.data is not None:
        raise CrosstallyError("priview-figure-5 takes no data: its rows are Markov chains")
    steps = Steps(len(_ORDERS) * trials.RUNS, settings.progress)
    scores, ours = list[Scores](), list[Scores]()
    for order in _ORDERS:
        case = _case(order, _EVERY if settings.quick else 1)
        scores += _scores(order, case, steps)
        ours += _default_scores(order, case)
    rows = tuple(trials.rows_of([*scores, *ours]))
    title = f"PriView on Markov chains of order 1 to 7, {_DESIGN.name} with {_DESIGN.views(_ATTRIBUTES)} views"
    return Outcome(
        "priview-figure-5",
        rows,
        claims=tuple(chain_claims(scores)),
        chart=candlesticks(rows, title=title, order=[_name(order) for order in _ORDERS], compared=False),
    )


def _name(order: int) -> str:
    return f"order {order}"


def _scores(order: int, case: Case, steps: Steps) -> Iterator[Scores]:
    runs = [trials.read(each) for each in trials.runs_of(case, _DESIGN, _EPSILON, steps)]
    for k in trials.WAYS:
        yield Scores.of(_name(order), case, runs, epsilon=_EPSILON, k=k)


def _default_scores(order: int, case: Case) -> Iterator[Scores]:
    """The default release, in panels of its own: orders stand side by side."""
    shown = replace(case, data=replace(case.data, label=f"{case.data.label}, {trials.DEFAULT}"))
    return trials.default_scores(shown, _EPSILON, method=_name(order))


def _case(order: int, every: int) -> Case:
    table, schema = markov_chain(_ROWS, _ATTRIBUTES, order, np.random.default_rng(order))
    return trials.case_of(
        Rows(table, schema, label="MCHAIN"), {k: consecutive(schema.names, k, every) for k in trials.WAYS}
    )


# Verdicts


def chain_claims(scores: Sequence[Scores]) -> Iterator[Claim]:
    """The verdict of figure 5: with each k the error of order 3 is above that of the worst other order."""
    found = []
    for k in sorted({each.k for each in scores}):
        grids = {each.method: each.distance for each in scores if each.k == k}
        third = grids.pop(_name(3))
        worst = max(grids, key=lambda name: float(grids[name].mean()))
        interval = grid_ratio_interval(third, grids[worst])
        found.append((k, worst, interval))
    yield Claim(
        "chains of order 3 have the largest error",
        of="paper",
        holds=above([interval for _, _, interval in found], 1),
        figure="; ".join(f"k = {k}: {ratio_words(interval)} that of {worst}" for k, worst, interval in found),
    )


EXPERIMENTS = (Experiment("priview-figure-5", "PriView on Markov chains (PriView, 5.5)", _figure_5),)
