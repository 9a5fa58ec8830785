"""PriView against every method of section 3, on nine attributes (PriView section 5.1, figure 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats
from crosstally.workload import Workload
from crosstally_lab.papers import baselines
from crosstally_lab.papers.data import visits
from crosstally_lab.papers.metrics import above, band, ratio_interval, ratio_words, span_words, within
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value
from crosstally_lab.papers.priview import trials
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.trials import Answers, Case, Cell, Design, Names, Scores, Steps

_ATTRIBUTES = 9  # as in the paper; the matrix mechanism and Fourier + LP can do no more
_WAYS = (2, 4, 6)  # attributes of the tables asked; all tables are asked, 36, 126 and 84 of them
_EPSILONS = (1.0, 0.1)  # the paper's two budgets
_DESIGN = Design(6, 2)  # C2(6, 3), the paper's
# Runs of each method, and of Fourier + LP and MWEM, which take a second or two each: five, as in the paper. With five
# alone the intervals of the others would be so wide that few verdicts are decided.
_MANY_RUNS = 20
_UNIFORM, _FLAT, _CUBES, _DIRECT, _PRIVIEW = "Uniform", "Flat", "Data cubes", "Direct", "PriView"
_FOURIER, _PROGRAM, _EIGEN, _LOW_RANK, _MWEM = "Fourier", "Fourier + LP", "Matrix, eigen", "Matrix, low rank", "MWEM"
_GAMMAS = {"Learning 1/2": 1 / 2, "Learning 1/4": 1 / 4, "Learning 1/8": 1 / 8}  # the paper's three accuracies
_FINEST = "Learning 1/8"
_ORDER = (
    *(_PRIVIEW, _FLAT, _CUBES, _EIGEN, _LOW_RANK, _FOURIER, _PROGRAM, _DIRECT, _MWEM),
    *_GAMMAS,
    _UNIFORM,
    trials.DEFAULT,
)
_EXACT = "without_noise"  # the column of what learning errs without noise, drawn as a star
# What the paper's words are taken to mean, in ratios of errors: as well as, comparable, essentially the same.
_ALIKE = 1.5
_DOMINATES = math.sqrt(2)  # if noise and approximation err equally, both together err this many times as much as one


_ONE_BY_ONE: Mapping[str, Callable[..., Floats]] = {
    _DIRECT: baselines.direct,
    _FOURIER: baselines.fourier,
    **{name: partial(baselines.learning, gamma=gamma) for name, gamma in _GAMMAS.items()},
}
"""Methods whose tables are simulated one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """The case, and its full table, from which all tables of the simulated methods are summed."""

    case: Case
    full: NDArray[np.int64]

    @classmethod
    def of(cls, settings: Settings) -> _Trial:
        data = visits(_ATTRIBUTES, np.random.default_rng(1), path=settings.data)
        tables = {k: Workload.all_ways(data.schema, k).tables for k in (*_WAYS, _ATTRIBUTES)}
        case = trials.case_of(data, tables)
        return cls(case, case.truth[data.schema.names])

    def axes(self, names: Names) -> tuple[int, ...]:
        """The positions of some attributes."""
        return tuple(self.case.data.schema.positions[name] for name in names)

    def sums(self, table: Floats) -> Answers:
        """Tables summed from a full one; without negative cells, and with the true number of rows."""
        return lambda tables: [
            baselines.corrected(baselines.margin(table, self.axes(names)), self.case.rows) for names in tables
        ]

    def each(self, baseline: Callable[[NDArray[np.int64]], Floats]) -> Answers:
        """Tables simulated one by one from their true counts."""
        return lambda tables: [baseline(self.case.truth[names]) for names in tables]


def _figure_1(settings: Settings) -> Outcome:
    trial = _Trial.of(settings)
    steps = Steps(len(_EPSILONS) * (_MANY_RUNS + len(_WAYS) * trials.RUNS), settings.progress)
    designs = {
        (name, k): design(_ATTRIBUTES, k)
        for name, design in ((_EIGEN, baselines.eigen_design), (_LOW_RANK, baselines.low_rank))
        for k in _WAYS
    }
    scores = [score for epsilon in _EPSILONS for score in _scores(trial, epsilon, designs, steps)]
    exact = {name: list(_approximations(trial, gamma)) for name, gamma in _GAMMAS.items()}
    chosen = {k: baselines.chosen_cuboids(_ATTRIBUTES, k) for k in _WAYS}
    rows = tuple(_with_exact(trials.rows_of(scores), exact))
    title = (
        f"All methods on {trial.case.data.label}, d = {_ATTRIBUTES}; PriView uses C2(6,{_DESIGN.views(_ATTRIBUTES)})"
    )
    return Outcome(
        "priview-figure-1",
        rows,
        claims=tuple(all_methods_claims(scores, [score for group in exact.values() for score in group], chosen)),
        chart=candlesticks(
            rows,
            title=title,
            order=_ORDER,
            star=_EXACT,
            star_words="learning without noise",
            runs=f"{_MANY_RUNS} runs (Fourier + LP and MWEM: {trials.RUNS}, crosstally: 2)",
        ),
    )


def _scores(
    trial: _Trial, epsilon: float, designs: Mapping[tuple[str, int], baselines.MatrixStrategy], steps: Steps
) -> Iterator[Scores]:
    case, random = trial.case, np.random.default_rng([1, round(10 * epsilon)])
    releases = [trials.read(each) for each in trials.runs_of(case, _DESIGN, epsilon, steps, _MANY_RUNS)]
    yield from trials.default_scores(case, epsilon, _WAYS)
    flats = [trial.sums(baselines.flat(trial.full, epsilon=epsilon, random=random)) for _ in range(_MANY_RUNS)]
    for k in _WAYS:
        of = partial(Scores.of, case=case, epsilon=epsilon, k=k)
        yield of(_PRIVIEW, answers=releases, note=_DESIGN.name)
        yield of(_UNIFORM, answers=[trial.each(baselines.uniform)])
        yield of(_FLAT, answers=flats)
        yield of(_CUBES, answers=[partial(_cubes, trial, k, epsilon, random)] * _MANY_RUNS)
        for name in (_EIGEN, _LOW_RANK):
            expected = _expected(trial, designs[name, k], epsilon)
            yield Scores.known(name, case, expected, epsilon=epsilon, k=k, note="expected, not drawn")
        noisy = (partial(each, attributes=_ATTRIBUTES, epsilon=epsilon, random=random) for each in _ONE_BY_ONE.values())
        for name, baseline in zip(_ONE_BY_ONE, noisy, strict=True):
            yield of(name, answers=[trial.each(baseline)] * _MANY_RUNS)
        programs, weights = [], []
        for _ in range(trials.RUNS):
            table = baselines.fourier_program(trial.full, ways=k, epsilon=epsilon, random=random)
            programs.append(trial.sums(table))
            rounds = baselines.mwem(case.data.table, case.data.schema, ways=k, epsilon=epsilon)
            weights.append(trial.sums(rounds[-1]))
            steps()
        yield of(_PROGRAM, answers=programs)
        yield of(_MWEM, answers=weights, note=f"{baselines.mwem_rounds(_ATTRIBUTES)} rounds")


def _cubes(
    trial: _Trial, ways: int, epsilon: float, random: np.random.Generator, tables: Sequence[Names]
) -> list[Floats]:
    cuboids = baselines.chosen_cuboids(_ATTRIBUTES, ways)
    axes = [trial.axes(names) for names in tables]
    found = baselines.data_cubes(trial.full, axes, cuboids=cuboids, epsilon=epsilon, random=random)
    return [baselines.corrected(table, trial.case.rows) for table in found]


def _expected(trial: _Trial, design: baselines.MatrixStrategy, epsilon: float) -> NDArray[np.float64]:
    """L2 / N of each table, the root of its expected square."""
    squares = design.squared_errors(trial.axes(names) for names in trial.case.tables[design.ways])
    return np.asarray(np.sqrt(np.array(squares) * 2) / epsilon / trial.case.rows)


def _approximations(trial: _Trial, gamma: float) -> Iterator[Scores]:
    """Learning without noise, for each number of attributes and beside each epsilon."""
    name = next(each for each, other in _GAMMAS.items() if other == gamma)
    without = partial(
        baselines.learning, attributes=_ATTRIBUTES, gamma=gamma, epsilon=None, random=np.random.default_rng(0)
    )
    for k in _WAYS:
        found = Scores.of(name, trial.case, [trial.each(without)], epsilon=1.0, k=k, note="without noise")
        for epsilon in _EPSILONS:
            yield found.at(epsilon)


def _with_exact(rows: Iterator[dict[str, Value]], exact: Mapping[str, Sequence[Scores]]) -> Iterator[dict[str, Value]]:
    """Rows with the mean error that learning has without noise, for learning in L2."""
    means: Mapping[tuple[Value, ...], float] = {
        (name, *each.cell): float(each.distance.mean()) for name, group in exact.items() for each in group
    }
    for row in rows:
        key = (row["method"], row["data"], row["epsilon"], row["k"])
        yield {**row, _EXACT: means.get(key) if row["metric"] == trials.DISTANCE else None}


# Verdicts


def all_methods_claims(
    scores: Sequence[Scores], exact: Sequence[Scores], chosen: Mapping[int, Sequence[Sequence[int]]]
) -> Iterator[Claim]:
    """The verdicts of figure 1; ``exact`` are learning's scores without noise, ``chosen`` the cuboids for each k."""
    cells = trials.cells_of(scores)
    yield _at_most(scores, cells, _PRIVIEW, _FLAT, f"PriView performs as well as Flat: at most {_ALIKE} x its error")
    yield _worse(scores, cells, _DIRECT, (_FLAT,), "Direct is worse than Flat")
    yield _alike(scores, cells, _PROGRAM, _FOURIER, "Fourier before and after the linear program are comparable")
    yield _alike(scores, cells, _FOURIER, _DIRECT, "Fourier is essentially the same as Direct")
    full = all(len(blocks) == 1 and len(blocks[0]) == _ATTRIBUTES for blocks in chosen.values())
    yield Claim(
        "data cubes choose Flat, the full table",
        of="paper",
        holds=full,
        figure="; ".join(f"k = {k}: {len(b)} of {len(b[0])} attributes" for k, b in chosen.items()) + " (no noise)",
    )
    for name in (_EIGEN, _LOW_RANK):
        yield _worse(scores, cells, _DIRECT, (name,), f"the matrix mechanism ({name}) is better than Direct")
        others = (_FLAT, _PRIVIEW)
        yield _worse(scores, cells, name, others, f"the matrix mechanism ({name}) is worse than Flat and PriView")
    yield _learning_claim(scores, exact, cells)
    noisy = [trials.ratio([*_only(scores, _FINEST), *_renamed(exact)], cell, _FINEST, _EXACT) for cell in cells]
    said = f"with gamma = 1/8 noise dominates the error of learning: more than {_DOMINATES:.3g} x that without noise"
    yield trials.span_claim(said, noisy, above(noisy, _DOMINATES))
    yield _worse(scores, cells, _MWEM, (_FLAT, _DIRECT), "MWEM is worse than Flat and Direct")
    yield _band_claim(scores, cells)


def _only(scores: Sequence[Scores], name: str) -> list[Scores]:
    return [each for each in scores if each.method == name]


def _renamed(exact: Sequence[Scores]) -> list[Scores]:
    """The scores of the finest polynomial without noise, under a name of their own."""
    return [replace(each, method=_EXACT) for each in _only(exact, _FINEST)]


def _at_most(scores: Sequence[Scores], cells: Sequence[Cell], upper: str, lower: str, claim: str) -> Claim:
    found = {cell: trials.ratio(scores, cell, upper, lower) for cell in cells}
    words = "; ".join(f"ε = {epsilon:g}, k = {k}: {ratio_words(each)}" for (_, epsilon, k), each in found.items())
    return Claim(claim, of="paper", holds=within(found.values(), high=_ALIKE), figure=words)


def _alike(scores: Sequence[Scores], cells: Sequence[Cell], upper: str, lower: str, claim: str) -> Claim:
    found = [trials.ratio(scores, cell, upper, lower) for cell in cells]
    return trials.span_claim(f"{claim}: within {_ALIKE} x", found, within(found, 1 / _ALIKE, _ALIKE))


def _worse(scores: Sequence[Scores], cells: Sequence[Cell], upper: str, others: Sequence[str], claim: str) -> Claim:
    """The claim that a method has a larger error than others, in every setting."""
    found = {name: [trials.ratio(scores, cell, upper, name) for cell in cells] for name in others}
    return Claim(
        f"{claim} in every setting",
        of="paper",
        holds=above([each for group in found.values() for each in group], 1),
        figure="; ".join(f"{upper} over {name} {span_words(group)}" for name, group in found.items()),
    )


def _learning_claim(scores: Sequence[Scores], exact: Sequence[Scores], cells: Sequence[Cell]) -> Claim:
    """The best polynomial without noise against the worst other method, Uniform aside."""
    found = []
    for cell in cells:
        there = [each for each in scores if each.cell == cell and each.method not in (*_GAMMAS, _UNIFORM)]
        worst = max(there, key=lambda each: float(each.distance.mean()))
        best = min((each for each in exact if each.cell == cell), key=lambda each: float(each.distance.mean()))
        found.append(trials.ratio([worst, best], cell, best.method, worst.method))
    return Claim(
        "even without noise learning is worse than every other method but Uniform, in every setting",
        of="paper",
        holds=above(found, 1),
        figure=f"the best polynomial over the worst other method: {span_words(found)}",
    )


def _band_claim(scores: Sequence[Scores], cells: Sequence[Cell]) -> Claim:
    """Bands are the 95th over the 25th percentile of the errors of all tables of one run."""
    found = []
    for epsilon in dict.fromkeys(cell[1] for cell in cells):
        grids = {each.k: each.distance for each in _only(scores, _MWEM) if each.epsilon == epsilon}
        bands = {k: [band(run) for run in grids[k]] for k in (2, 4)}
        found.append(ratio_interval(bands[2], bands[4]))
    said = "the errors of MWEM spread wider for k = 2 than for k = 4 (95th over 25th percentile)"
    return trials.span_claim(said, found, above(found, 1))


EXPERIMENTS = (Experiment("priview-figure-1", "All methods on nine attributes of MSNBC (PriView, 5.1)", _figure_1),)
