"""Views of different sizes that cover pairs, triples or quadruples (PriView section 5.4, figure 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from crosstally_lab.papers.data import clicks
from crosstally_lab.papers.metrics import Interval, band, below, ratio_interval, span_words, within
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings
from crosstally_lab.papers.priview import trials
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.comparison import cover_of
from crosstally_lab.papers.priview.trials import Case, Cell, Design, Scores, Steps

_EPSILONS = (1.0, 0.1)  # the paper's two budgets
_QUICK_TABLES, _FULL_TABLES = 40, 200  # random tables for each k: of a quick run, and as many as in the paper
_QUICK = (Design(6, 2), Design(8, 2), Design(10, 2), Design(8, 3), Design(10, 3))
_FULL = (*(Design(size, 2) for size in range(6, 13)), *(Design(size, 3) for size in range(7, 13)), Design(8, 4))
# What the paper's words are taken to mean, in ratios of errors: similarly, reasonably.
_SIMILAR, _REASONABLE = 1.5, 1.25
_WANTED_NOISE = 0.002  # the middle of the noise errors that the paper's rule wants (0.001 to 0.003, section 4.5)


def _figure_6(settings: Settings) -> Outcome:
    designs = _QUICK if settings.quick else _FULL
    random = np.random.default_rng(6)
    data = clicks(trials.KOSARAK_ROWS, random, path=settings.data)
    number = _QUICK_TABLES if settings.quick else _FULL_TABLES
    case = trials.case_of(data, {k: trials.random_tables(data.schema.names, k, number, random) for k in trials.WAYS})
    steps = Steps(len(designs) * len(_EPSILONS) * trials.RUNS, settings.progress)
    scores = [score for design in designs for score in _scores(case, design, steps)]
    ours = [score for epsilon in _EPSILONS for score in trials.default_scores(case, epsilon)]
    rows = tuple(trials.rows_of([*scores, *ours]))
    chosen = {epsilon: Design(8, cover_of(case, epsilon)).name for epsilon in _EPSILONS}
    return Outcome(
        "priview-figure-6",
        rows,
        claims=tuple(design_claims(scores, designs, chosen)),
        chart=candlesticks(
            rows,
            title="Different views, C_t(l), and the default release",
            order=[*(design.name for design in designs), trials.DEFAULT],
            star="noise_error",
        ),
    )


def _scores(case: Case, design: Design, steps: Steps) -> Iterator[Scores]:
    note = f"{design.views(case.attributes)} views"
    for epsilon in _EPSILONS:
        runs = [trials.read(each) for each in trials.runs_of(case, design, epsilon, steps)]
        noise = design.noise(case, epsilon)
        for k in trials.WAYS:
            yield Scores.of(design.name, case, runs, epsilon=epsilon, k=k, note=note, noise=noise)


# Verdicts


def design_claims(scores: Sequence[Scores], designs: Sequence[Design], chosen: Mapping[float, str]) -> Iterator[Claim]:
    """The verdicts of figure 6; ``chosen`` names the design of the rule for each epsilon."""
    cells = trials.cells_of(scores)
    others = [design for design in designs if 7 <= design.size <= 11 and design.size != 8 and design.cover < 4]
    pairs = [
        trials.ratio(scores, cell, design.name, Design(8, design.cover).name) for cell in cells for design in others
    ]
    said = f"views of 7 to 11 attributes perform similarly to views of 8: within {_SIMILAR} x"
    yield trials.span_claim(said, pairs, within(pairs, 1 / _SIMILAR, _SIMILAR))
    eight = [_over_best(scores, cell, Design(8, cover).name, designs, cover) for cell in cells for cover in (2, 3)]
    said = f"views of 8 perform reasonably: at most {_REASONABLE} x the best size that covers as much"
    yield trials.span_claim(said, eight, within(eight, high=_REASONABLE))
    yield _band_claim(scores, cells, designs)
    rule = [_over_best(scores, cell, chosen[cell[1]], designs) for cell in cells]
    said = f"the design that the rule chooses has at most {_SIMILAR} x the error of the best design shown"
    yield trials.span_claim(said, rule, within(rule, high=_SIMILAR))
    near = [_over_best(scores, cell, _nearest(scores, cell), designs) for cell in cells]
    said = f"the design whose noise error is nearest to {_WANTED_NOISE} has at most {_SIMILAR} x the error of the best"
    yield trials.span_claim(said, near, within(near, high=_SIMILAR))


def _over_best(
    scores: Sequence[Scores], cell: Cell, name: str, designs: Sequence[Design], cover: int | None = None
) -> Interval:
    """The error of a design over that of the best one, among those that cover so many attributes together."""
    names = {design.name for design in designs if cover is None or design.cover == cover}
    means = {each.method: float(each.distance.mean()) for each in scores if each.cell == cell and each.method in names}
    return trials.ratio(scores, cell, name, min(means, key=lambda method: means[method]))


def _nearest(scores: Sequence[Scores], cell: Cell) -> str:
    there = {each.method: each.noise or 0.0 for each in scores if each.cell == cell}
    return min(there, key=lambda method: abs(there[method] - _WANTED_NOISE))


def _band_claim(scores: Sequence[Scores], cells: Sequence[Cell], designs: Sequence[Design]) -> Claim:
    """Bands are compared run by run: the 95th over the 25th percentile of the errors of all tables."""
    bands = {(each.cell, each.method): [band(run) for run in each.distance] for each in scores}
    sizes = [design.size for design in designs if design.cover == 3 and Design(design.size, 2) in designs]
    found = [
        ratio_interval(bands[cell, Design(size, 3).name], bands[cell, Design(size, 2).name])
        for cell in cells
        for size in sizes
    ]
    return Claim(
        "designs that cover triples have a tighter band of errors than those that cover pairs",
        of="paper",
        holds=below(found, 1),
        figure=f"tighter in {sum(each.estimate < 1 for each in found)} of {len(found)} cases; width of the band "
        f"(95th over 25th percentile) over that of pairs {span_words(found)}",
    )


EXPERIMENTS = (Experiment("priview-figure-6", "Views of different sizes and coverage (PriView, 5.4)", _figure_6),)
