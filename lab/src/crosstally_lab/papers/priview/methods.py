"""Ways to fill gaps and ways to correct negative cells (PriView section 5.3, figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosstally_lab.papers.data import clicks, searches
from crosstally_lab.papers.metrics import Interval, decided, span_words
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.trials import (
    AOL_ROWS,
    DEFAULT,
    KOSARAK_ROWS,
    RUNS,
    WAYS,
    Answers,
    Case,
    Cell,
    Design,
    Names,
    Scores,
    Steps,
    Tables,
    case_of,
    cells_of,
    default_scores,
    exact_estimate,
    filled,
    random_tables,
    ratio,
    read,
    released,
    rows_of,
)

if TYPE_CHECKING:
    from crosstally.measurements import Measurement
    from crosstally.releases import Release

__all__ = ["EXPERIMENTS", "correction_claims", "from_raw_views", "reconstruction_claims", "with_clipped_total"]

_EPSILON = 1.0  # the budget of figures 3 and 4
_QUICK_TABLES, _FULL_TABLES = 30, 200  # random tables for each k: of a quick run, and as many as in the paper
Methods = Mapping[str, Callable[["Release"], Answers]]


def _cases(settings: Settings) -> Iterator[tuple[Case, Design]]:
    """The paper's two data sets, each with the design that the paper used."""
    random = np.random.default_rng(3)
    number = _QUICK_TABLES if settings.quick else _FULL_TABLES
    sets = [(clicks(KOSARAK_ROWS, random, path=settings.data), Design(8, 3))]
    if settings.data is None:
        sets.append((searches(AOL_ROWS, random), Design(8, 2)))
    for data, design in sets:
        yield case_of(data, {k: random_tables(data.schema.names, k, number, random) for k in WAYS}), design


def _scores(case: Case, design: Design, methods: Methods, steps: Steps) -> Iterator[Scores]:
    """The scores of all methods on the same releases, so that differences are the methods' own."""
    releases = []
    for _ in range(RUNS):
        releases.append(released(case, design, _EPSILON))
        steps()
    note = f"{design.name}, {design.views(case.attributes)} views"
    for name, method in methods.items():
        runs = [method(each) for each in releases]
        for k in WAYS:
            yield Scores.of(name, case, runs, epsilon=_EPSILON, k=k, note=note)
            steps()


def _run(settings: Settings, methods: Methods, *, exact: str | None) -> list[Scores]:
    cases = list(_cases(settings))
    steps = Steps(len(cases) * (RUNS + len(methods) * len(WAYS)), settings.progress)
    scores: list[Scores] = []
    for case, design in cases:
        scores += _scores(case, design, methods, steps)
        scores += default_scores(case, _EPSILON)
        if exact is not None:
            answers = [partial(filled, exact_estimate(case, design))]
            scores += [Scores.of(exact, case, answers, epsilon=_EPSILON, k=k, note="without noise") for k in WAYS]
    return scores


# Reconstruction

_CME, _CLN, _CLP, _LP, _EXACT = "CME", "CLN", "CLP", "LP", "CME*"


def from_raw_views(measurements: Sequence[Measurement], tables: Sequence[Names]) -> Tables:
    """PriView's LP: the tables nearest to the noisy views as they were drawn, in the largest difference of a cell."""
    from crosstally.answers.unmeasured.linear_program import least_difference

    return [least_difference((2,) * len(names), _constraints(measurements, names)).values for names in tables]


def _constraints(
    measurements: Sequence[Measurement], names: Names
) -> list[tuple[tuple[int, ...], NDArray[np.float64]]]:
    """What each view says about the attributes that it shares with the table."""
    found = []
    for each in measurements:
        shared = [name for name in each.query.attributes if name in names]
        others = tuple(axis for axis, name in enumerate(each.query.attributes) if name not in names)
        if shared:
            found.append((tuple(map(names.index, shared)), each.values.sum(axis=others).astype(np.float64)))
    return found


_RECONSTRUCTIONS: Methods = {
    _CME: partial(read, method="maximum-entropy"),
    _CLN: partial(read, method="least-squares"),
    _CLP: partial(read, method="linear-program"),
    _LP: lambda release: partial(from_raw_views, release.measurements),
}


def _figure_3(settings: Settings) -> Outcome:
    scores = _run(settings, _RECONSTRUCTIONS, exact=_EXACT)
    rows = tuple(rows_of(scores))
    return Outcome(
        "priview-figure-3",
        rows,
        claims=tuple(reconstruction_claims(scores)),
        chart=candlesticks(rows, title="Ways to reconstruct a table", order=[*_RECONSTRUCTIONS, _EXACT, DEFAULT]),
    )


def reconstruction_claims(scores: Sequence[Scores]) -> Iterator[Claim]:
    """The verdicts of figure 3."""
    cells = cells_of(scores)
    for other, words in ((_CLN, "least squares"), (_CLP, "the linear program"), (_LP, "the linear program, raw views")):
        yield _above(scores, cells, other, _CME, f"maximum entropy (CME) beats {words} ({other}) in every setting")
    worst = [ratio(scores, cell, _LP, other) for cell in cells for other in (_CLN, _CLP)]
    yield Claim(
        "the linear program on raw views (LP) is the worst in every setting",
        of="paper",
        holds=_above_one(worst),
        figure=span_words(worst),
    )
    yield _above(scores, cells, _LP, _CLP, "making the views consistent first lowers the error of the linear program")


def _above(scores: Sequence[Scores], cells: Sequence[Cell], above: str, below: str, claim: str) -> Claim:
    """The claim that one method's error is above another's, in all of some settings."""
    found = [ratio(scores, cell, above, below) for cell in cells]
    return Claim(claim, of="paper", holds=_above_one(found), figure=span_words(found))


def _above_one(ratios: Sequence[Interval]) -> bool | None:
    return decided(holds=all(each.low > 1 for each in ratios), fails=any(each.high <= 1 for each in ratios))


# Corrections of negative cells

_NONE, _SIMPLE, _KEPT, _GLOBAL, _RIPPLE, _RIPPLE_3 = "None", "Simple", "Simple, N kept", "Global", "Ripple1", "Ripple3"
_JOINT = "Joint"


def with_clipped_total(release: Release) -> Release:
    """The release corrected by PriView's Simple: the total grows by what clipping adds, which ``refit`` would undo."""
    linear, clipped = release.refit(nonnegative="none"), release.refit(nonnegative="simple", rounds=1)
    views = linear.estimate.tables([each.query.attributes for each in release.measurements])
    total = float(np.mean([np.maximum(view, 0).sum() for view in views]))
    return replace(clipped, estimate=clipped.estimate.with_total(total))


_CORRECTIONS: Methods = {
    _NONE: lambda release: read(release.refit(nonnegative="none")),
    _SIMPLE: lambda release: read(with_clipped_total(release)),
    _KEPT: lambda release: read(release.refit(nonnegative="simple", rounds=1)),
    _GLOBAL: lambda release: read(release.refit(nonnegative="global", rounds=1)),
    _RIPPLE: lambda release: read(release.refit(nonnegative="ripple", rounds=1)),
    _RIPPLE_3: lambda release: read(release.refit(nonnegative="ripple", rounds=3)),
    _JOINT: lambda release: read(release.refit(nonnegative="joint")),
}


def _figure_4(settings: Settings) -> Outcome:
    scores = _run(settings, _CORRECTIONS, exact=None)
    rows = tuple(rows_of(scores))
    return Outcome(
        "priview-figure-4",
        rows,
        claims=tuple(correction_claims(scores)),
        chart=candlesticks(rows, title="Ways to correct negative cells", order=[*_CORRECTIONS, DEFAULT]),
    )


def correction_claims(scores: Sequence[Scores]) -> Iterator[Claim]:
    """The verdicts of figure 4; the first data set is the one that the paper's words are about."""
    cells = cells_of(scores)
    first = [cell for cell in cells if cell[0] == cells[0][0]]
    for name, words in ((_RIPPLE, "one round"), (_RIPPLE_3, "three rounds")):
        found = {other: [ratio(scores, cell, other, name) for cell in first] for other in (_NONE, _SIMPLE, _GLOBAL)}
        yield Claim(
            f"Ripple, {words}, beats None, Simple and Global on {cells[0][0]} for every k",
            of="paper",
            holds=_above_one([each for group in found.values() for each in group]),
            figure="; ".join(f"{other} {span_words(group)}" for other, group in found.items()),
        )
    without = [ratio(scores, cell, _NONE, _RIPPLE) for cell in cells]
    yield Claim(
        "without correction the error is 2 to 4 times that of Ripple, in every setting",
        of="paper",
        holds=decided(
            holds=all(each.low >= 2 and each.high <= 4 for each in without),
            fails=any(each.high < 2 or each.low > 4 for each in without),
        ),
        figure=span_words(without),
    )
    yield _above(scores, cells, _SIMPLE, _NONE, "Simple, which moves the total, is worse than no correction")
    yield _above(scores, cells, _NONE, _GLOBAL, "Global is better than no correction")
    again = [ratio(scores, cell, _RIPPLE, _RIPPLE_3) for cell in cells]
    yield Claim(
        "one round of Ripple does as well as three: at most 1.05 times the error",
        of="paper",
        holds=decided(holds=all(each.high <= 1.05 for each in again), fails=any(each.low > 1.05 for each in again)),
        figure=span_words(again),
    )
    joint = {other: [ratio(scores, cell, _JOINT, other) for cell in cells] for other in (_RIPPLE, _RIPPLE_3)}
    yield Claim(
        "all views corrected jointly have at most 1.02 times the error of Ripple, one round, in every setting",
        of="crosstally",
        holds=decided(
            holds=all(each.high <= 1.02 for each in joint[_RIPPLE]),
            fails=any(each.low > 1.02 for each in joint[_RIPPLE]),
        ),
        figure="; ".join(f"{other} {span_words(group)}" for other, group in joint.items()),
    )


EXPERIMENTS = (
    Experiment("priview-figure-3", "Maximum entropy against other reconstructions (PriView, 5.3)", _figure_3),
    Experiment("priview-figure-4", "Ripple against other corrections (PriView, 5.3)", _figure_4),
)
