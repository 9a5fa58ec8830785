"""PriView against Flat, Direct, Fourier and Uniform (PriView section 5.2, figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crosstally.strategies.views import choose_cover
from crosstally_lab.papers import baselines
from crosstally_lab.papers.charts import stacked
from crosstally_lab.papers.metrics import above, below, decided, ratio_words, span_words, within
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings
from crosstally_lab.papers.priview import trials
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.trials import Answers, Case, Cell, Design, Scores, Steps

_EPSILONS = (1.0, 0.1)  # the paper's two budgets
_SIZE = 8  # attributes of a view: the paper's choice
_DESIGNS = (Design(_SIZE, 2), Design(_SIZE, 3))
_QUICK_TABLES, _FULL_TABLES = 40, 200  # random tables for each k: of a quick run, and as many as in the paper
_UNIFORM, _FLAT, _DIRECT, _FOURIER = "Uniform", "Flat", "Direct", "Fourier"
_OURS = " joint"
_ORDER = (
    *(_UNIFORM, _FLAT, _DIRECT, _FOURIER),
    *(f"{design.name}{kind}" for kind in ("", _OURS, "*") for design in _DESIGNS),
    trials.DEFAULT,
)
# What the paper's words are taken to mean, in ratios of errors: orders of magnitude, slightly, and not worse.
_TWO_ORDERS, _ONE_ORDER, _SLIGHTLY, _NOT_WORSE = 100, 10, 1.5, 1.02


def cover_of(case: Case, epsilon: float) -> int:
    """How many attributes PriView's rule covers together, from equation (5) and the number of rows."""
    return choose_cover((2, 3, 4), lambda cover: Design(_SIZE, cover).noise(case, epsilon))


def _figure_2(settings: Settings) -> Outcome:
    number = _QUICK_TABLES if settings.quick else _FULL_TABLES
    cases = list(trials.paper_cases(settings, np.random.default_rng(2), number))
    steps = Steps(len(cases) * len(_DESIGNS) * len(_EPSILONS) * trials.RUNS, settings.progress)
    scores = [score for case in cases for score in _scores(case, steps)]
    rows = tuple(trials.rows_of(scores))
    chosen = {(case.data.label, e): Design(_SIZE, cover_of(case, e)).name for case in cases for e in _EPSILONS}
    return Outcome(
        "priview-figure-2",
        rows,
        claims=tuple(comparison_claims(scores, chosen)),
        chart=stacked(
            candlesticks(
                rows, title=f"PriView, C2 and C3, against other methods: {metric}", order=_ORDER, metric=metric
            )
            for metric in (trials.DISTANCE, trials.DIVERGENCE)
        ),
    )


def _scores(case: Case, steps: Steps) -> Iterator[Scores]:
    for epsilon in _EPSILONS:
        for k in trials.WAYS:
            yield from _baseline_scores(case, epsilon, k)
        yield from trials.default_scores(case, epsilon)
    for design in _DESIGNS:
        yield from _released_scores(case, design, steps)
        yield from _exact_scores(case, design)


def _baseline_scores(case: Case, epsilon: float, k: int) -> Iterator[Scores]:
    random = np.random.default_rng([k, round(10 * epsilon)])
    flat = baselines.flat_distance(case.attributes, rows=case.rows, epsilon=epsilon)
    options = {"attributes": case.attributes, "epsilon": epsilon, "random": random}
    yield Scores.of(_UNIFORM, case, [_simulated(case, baselines.uniform)], epsilon=epsilon, k=k)
    yield Scores.known(_FLAT, case, flat, epsilon=epsilon, k=k, note="expected, at most 1")
    for name, baseline in ((_DIRECT, baselines.direct), (_FOURIER, baselines.fourier)):
        runs = [_simulated(case, partial(baseline, **options))] * trials.RUNS  # type: ignore[arg-type]
        yield Scores.of(name, case, runs, epsilon=epsilon, k=k, note="simulated, corrected, total known")


def _simulated(case: Case, baseline: Callable[[NDArray[np.int64]], NDArray[np.float64]]) -> Answers:
    return lambda tables: [baseline(case.truth[names]) for names in tables]


def _released_scores(case: Case, design: Design, steps: Steps) -> Iterator[Scores]:
    for epsilon in _EPSILONS:
        releases = trials.runs_of(case, design, epsilon, steps)
        note = f"{design.views(case.attributes)} views"
        if cover_of(case, epsilon) == design.cover:
            note += ", chosen by the rule"
        noise = design.noise(case, epsilon)
        for name, runs in (
            (design.name, [trials.read(each) for each in releases]),
            (f"{design.name}{_OURS}", [trials.read(each.refit(nonnegative="joint")) for each in releases]),
        ):
            for k in trials.WAYS:
                yield Scores.of(name, case, runs, epsilon=epsilon, k=k, note=note, noise=noise)


def _exact_scores(case: Case, design: Design) -> Iterator[Scores]:
    exact = trials.exact_estimate(case, design)
    for k in trials.WAYS:
        found = Scores.of(
            f"{design.name}*", case, [partial(trials.filled, exact)], epsilon=1.0, k=k, note="without noise"
        )
        for epsilon in _EPSILONS:
            yield found.at(epsilon)


# Verdicts


def comparison_claims(scores: Sequence[Scores], chosen: Mapping[tuple[str, float], str]) -> Iterator[Claim]:
    """The verdicts of figure 2; ``chosen`` names the design that the rule chose for each data set and epsilon."""
    cells = trials.cells_of(scores)
    first = cells[0][0]

    for k, times in ((4, 30), (8, 100)):
        against = trials.ratio(scores, (first, 1.0, k), _DIRECT, chosen[first, 1.0])
        yield Claim(
            f"at ε = 1 corrected Direct has more than {times} times the error of PriView at k = {k} ({first})",
            of="crosstally",
            holds=above([against], times),
            figure=ratio_words(against),
        )
    for other in (_DIRECT, _FOURIER, _FLAT):
        found = [trials.ratio(scores, cell, other, chosen[cell[:2]]) for cell in cells]
        yield Claim(
            f"PriView is 2 to 3 orders of magnitude better than {other}: {_TWO_ORDERS} times or more in every setting",
            of="paper",
            holds=within(found, low=_TWO_ORDERS),
            figure=f"{sum(each.low >= _TWO_ORDERS for each in found)} of {len(found)} settings; {span_words(found)}",
        )
    yield from _baseline_claims(scores, cells)
    yield _rule_claim(scores, cells, chosen)
    for design in _DESIGNS:
        ours = [trials.ratio(scores, cell, f"{design.name}{_OURS}", design.name) for cell in cells]
        said = f"the same views corrected jointly have at most 1.02 times the error ({design.name})"
        yield trials.span_claim(said, ours, within(ours, high=_NOT_WORSE), of="crosstally")


def _baseline_claims(scores: Sequence[Scores], cells: Sequence[Cell]) -> Iterator[Claim]:
    first = cells[0][0]
    against = {cell: trials.ratio(scores, cell, _UNIFORM, _DIRECT) for cell in cells}
    better = [cell for cell in cells if against[cell].low > 1]
    worse = [cell for cell in cells if against[cell].high <= 1]
    yield Claim(
        f"Direct beats Uniform on {first} at ε = 1 and k = 4, and nowhere else",
        of="paper",
        holds=decided(
            holds=better == [(first, 1.0, 4)] and len(worse) == len(cells) - 1,
            fails=(first, 1.0, 4) in worse or any(cell != (first, 1.0, 4) for cell in better),
        ),
        figure="better at " + ("; ".join(f"{label}, ε = {e:g}, k = {k}" for label, e, k in better) or "no setting"),
    )
    flat = [trials.ratio(scores, (first, 1.0, k), _UNIFORM, _FLAT) for k in (6, 8)]
    yield Claim(
        f"Flat is an order of magnitude, 10 x, better than Uniform on {first} at ε = 1 for k = 6 and 8",
        of="paper",
        holds=within(flat, low=_ONE_ORDER),
        figure=" and ".join(ratio_words(each) for each in flat),
    )
    fourier = [trials.ratio(scores, cell, _DIRECT, _FOURIER) for cell in cells]
    said = f"Fourier performs just slightly better than Direct, by at most {_SLIGHTLY} x, in every setting"
    yield trials.span_claim(said, fourier, within(fourier, 1, _SLIGHTLY))


def _rule_claim(scores: Sequence[Scores], cells: Sequence[Cell], chosen: Mapping[tuple[str, float], str]) -> Claim:
    others = {_DESIGNS[0].name: _DESIGNS[1].name, _DESIGNS[1].name: _DESIGNS[0].name}
    found = [trials.ratio(scores, cell, chosen[cell[:2]], others[chosen[cell[:2]]]) for cell in cells]
    return Claim(
        "the number of attributes that the rule covers together is the better one of 2 and 3 in every setting",
        of="paper",
        holds=below(found, 1),
        figure=f"error of the chosen one over that of the other: {span_words(found)}",
    )


EXPERIMENTS = (Experiment("priview-figure-2", "PriView against Flat, Direct, Fourier (PriView, 5.2)", _figure_2),)
