"""Ways to fill gaps and ways to correct negative cells (PriView section 5.3, figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosstally_lab.papers.metrics import above, span_words, within
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings
from crosstally_lab.papers.priview import trials
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.trials import Answers, Case, Cell, Design, Names, Scores, Steps, Tables

if TYPE_CHECKING:
    from crosstally.measurements import Measurement
    from crosstally.releases import Release


_EPSILON = 1.0  # the budget of figures 3 and 4
_QUICK_TABLES, _FULL_TABLES = 30, 200  # random tables for each k: of a quick run, and as many as in the paper
Methods = Mapping[str, Callable[["Release"], Answers]]


def _cases(settings: Settings) -> Iterator[tuple[Case, Design]]:
    """The paper's two data sets, each with the design that the paper used."""
    number = _QUICK_TABLES if settings.quick else _FULL_TABLES
    cases = trials.paper_cases(settings, np.random.default_rng(3), number)
    yield from zip(cases, (Design(8, 3), Design(8, 2)), strict=False)


def _scores(case: Case, design: Design, methods: Methods, steps: Steps) -> Iterator[Scores]:
    """The scores of all methods on the same releases, so that differences are the methods' own."""
    releases = trials.runs_of(case, design, _EPSILON, steps)
    note = f"{design.name}, {design.views(case.attributes)} views"
    for name, method in methods.items():
        runs = [method(each) for each in releases]
        for k in trials.WAYS:
            yield Scores.of(name, case, runs, epsilon=_EPSILON, k=k, note=note)
            steps()


def _run(settings: Settings, methods: Methods, *, exact: str | None) -> list[Scores]:
    cases = list(_cases(settings))
    steps = Steps(len(cases) * (trials.RUNS + len(methods) * len(trials.WAYS)), settings.progress)
    scores: list[Scores] = []
    for case, design in cases:
        scores += _scores(case, design, methods, steps)
        scores += trials.default_scores(case, _EPSILON)
        if exact is not None:
            answers = [partial(trials.filled, trials.exact_estimate(case, design))]
            scores += [
                Scores.of(exact, case, answers, epsilon=_EPSILON, k=k, note="without noise") for k in trials.WAYS
            ]
    return scores


# Reconstruction

_CME, _CLN, _CLP, _LP, _EXACT = "CME", "CLN", "CLP", "LP", "CME*"


def from_raw_views(measurements: Sequence[Measurement], tables: Sequence[Names]) -> Tables:
    """PriView's LP: the tables nearest to the noisy views as they were drawn, in the largest difference of a cell."""
    from crosstally.answers.unmeasured.known import least_difference

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
    _CME: partial(trials.read, method="maximum-entropy"),
    _CLN: partial(trials.read, method="least-squares"),
    _CLP: partial(trials.read, method="linear-program"),
    _LP: lambda release: partial(from_raw_views, release.measurements),
}


def reconstruction_claims(scores: Sequence[Scores]) -> Iterator[Claim]:
    """The verdicts of figure 3."""
    cells = trials.cells_of(scores)
    for other, words in ((_CLN, "least squares"), (_CLP, "the linear program"), (_LP, "the linear program, raw views")):
        yield _above(scores, cells, other, _CME, f"maximum entropy (CME) beats {words} ({other}) in every setting")
    worst = [trials.ratio(scores, cell, _LP, other) for cell in cells for other in (_CLN, _CLP)]
    yield trials.span_claim(
        "the linear program on raw views (LP) is the worst in every setting", worst, above(worst, 1)
    )
    yield _above(scores, cells, _LP, _CLP, "making the views consistent first lowers the error of the linear program")


def _above(scores: Sequence[Scores], cells: Sequence[Cell], upper: str, lower: str, claim: str) -> Claim:
    """The claim that one method's error is above another's, in all of some settings."""
    found = [trials.ratio(scores, cell, upper, lower) for cell in cells]
    return trials.span_claim(claim, found, above(found, 1))


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
    _NONE: lambda release: trials.read(release.refit(nonnegative="none")),
    _SIMPLE: lambda release: trials.read(with_clipped_total(release)),
    _KEPT: lambda release: trials.read(release.refit(nonnegative="simple", rounds=1)),
    _GLOBAL: lambda release: trials.read(release.refit(nonnegative="global", rounds=1)),
    _RIPPLE: lambda release: trials.read(release.refit(nonnegative="ripple", rounds=1)),
    _RIPPLE_3: lambda release: trials.read(release.refit(nonnegative="ripple", rounds=3)),
    _JOINT: lambda release: trials.read(release.refit(nonnegative="joint")),
}


def correction_claims(scores: Sequence[Scores]) -> Iterator[Claim]:
    """The verdicts of figure 4; the first data set is the one that the paper's words are about."""
    cells = trials.cells_of(scores)
    first = [cell for cell in cells if cell[0] == cells[0][0]]
    for name, words in ((_RIPPLE, "one round"), (_RIPPLE_3, "three rounds")):
        found = {
            other: [trials.ratio(scores, cell, other, name) for cell in first] for other in (_NONE, _SIMPLE, _GLOBAL)
        }
        yield Claim(
            f"Ripple, {words}, beats None, Simple and Global on {cells[0][0]} for every k",
            of="paper",
            holds=above([each for group in found.values() for each in group], 1),
            figure="; ".join(f"{other} {span_words(group)}" for other, group in found.items()),
        )
    without = [trials.ratio(scores, cell, _NONE, _RIPPLE) for cell in cells]
    said = "without correction the error is 2 to 4 times that of Ripple, in every setting"
    yield trials.span_claim(said, without, within(without, 2, 4))
    yield _above(scores, cells, _SIMPLE, _NONE, "Simple, which moves the total, is worse than no correction")
    yield _above(scores, cells, _NONE, _GLOBAL, "Global is better than no correction")
    again = [trials.ratio(scores, cell, _RIPPLE, _RIPPLE_3) for cell in cells]
    said = "one round of Ripple does as well as three: at most 1.05 times the error"
    yield trials.span_claim(said, again, within(again, high=1.05))
    joint = {other: [trials.ratio(scores, cell, _JOINT, other) for cell in cells] for other in (_RIPPLE, _RIPPLE_3)}
    yield Claim(
        "all views corrected jointly have at most 1.02 times the error of Ripple, one round, in every setting",
        of="crosstally",
        holds=within(joint[_RIPPLE], high=1.02),
        figure="; ".join(f"{other} {span_words(group)}" for other, group in joint.items()),
    )


def _figure_3(settings: Settings) -> Outcome:
    scores = _run(settings, _RECONSTRUCTIONS, exact=_EXACT)
    order = [*_RECONSTRUCTIONS, _EXACT, trials.DEFAULT]
    return _outcome("priview-figure-3", scores, reconstruction_claims, "Ways to reconstruct a table", order)


def _figure_4(settings: Settings) -> Outcome:
    scores = _run(settings, _CORRECTIONS, exact=None)
    order = [*_CORRECTIONS, trials.DEFAULT]
    return _outcome("priview-figure-4", scores, correction_claims, "Ways to correct negative cells", order)


def _outcome(
    name: str,
    scores: Sequence[Scores],
    claims: Callable[[Sequence[Scores]], Iterator[Claim]],
    title: str,
    order: Sequence[str],
) -> Outcome:
    rows = tuple(trials.rows_of(scores))
    return Outcome(name, rows, claims=tuple(claims(scores)), chart=candlesticks(rows, title=title, order=order))


EXPERIMENTS = (
    Experiment("priview-figure-3", "Maximum entropy against other reconstructions (PriView, 5.3)", _figure_3),
    Experiment("priview-figure-4", "Ripple against other corrections (PriView, 5.3)", _figure_4),
)
