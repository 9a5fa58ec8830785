"""What the experiments of PriView's section 5 have in common: rows, questions, releases, errors, candlesticks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.strategies import Views, covering_design
from crosstally.strategies.views import noise_error
from crosstally_lab.papers.data import Rows, clicks, searches
from crosstally_lab.papers.metrics import (
    Interval,
    candlestick,
    grid_ratio_interval,
    jensen_shannon,
    normalised_l2,
    span_words,
)
from crosstally_lab.papers.outcomes import Author, Claim, Progress, Settings, Value

if TYPE_CHECKING:
    from crosstally.releases import Release
    from crosstally.residuals import Estimate


Names = tuple[str, ...]
Tables = Sequence[NDArray[np.float64]]
Answers = Callable[[Sequence[Names]], Tables]
"""One run of a method: tables asked for, answers to them."""
Cell = tuple[str, float, int]
"""Where scores are compared: the data's label, epsilon, and the number of attributes of the tables asked for."""

RUNS = 5  # releases of each setting, as in the paper: candlesticks are over tables, each the mean of its runs
WAYS = (4, 6, 8)  # attributes of the tables asked, as in the paper
# Rows of the paper's two data sets: as many are generated where there is no file.
KOSARAK_ROWS, AOL_ROWS = 912_627, 647_377
DISTANCE, DIVERGENCE = "L2 / N", "Jensen-Shannon"
DEFAULT = "crosstally"
"""The name of the default release among the methods."""
_DEFAULT_RUNS = 2  # of the default, which no verdict is about: more would take as long as the paper's methods


class Steps:
    """Tells how far an experiment is: each call is one step done."""

    def __init__(self, steps: int, progress: Progress) -> None:
        self.steps, self.done, self.progress = steps, 0, progress

    def __call__(self) -> None:
        """One more step is done."""
        self.done += 1
        self.progress(self.done, self.steps)


# Rows and questions


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Rows, the tables that are asked for, by their number of attributes, and the true counts of each."""

    data: Rows
    _: KW_ONLY
    tables: Mapping[int, Sequence[Names]]
    truth: Mapping[Names, NDArray[np.int64]]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.data.table.num_rows)

    @property
    def attributes(self) -> int:
        """How many attributes there are."""
        return len(self.data.schema.names)


def random_tables(names: Names, k: int, number: int, random: np.random.Generator) -> list[Names]:
    """So many sets of k attributes, each drawn at random."""
    if len(names) <= k:
        raise CrosstallyError(f"tables of {k} attributes need rows with more attributes, got {len(names)}")
    return [tuple(names[i] for i in sorted(random.choice(len(names), k, replace=False))) for _ in range(number)]


def case_of(data: Rows, tables: Mapping[int, Sequence[Names]]) -> Case:
    """The case of some rows: the true counts of all tables asked for."""
    from crosstally.sources import count

    wanted = list(dict.fromkeys(names for group in tables.values() for names in group))
    exact = count(data.table, data.schema, wanted)
    return Case(data, tables=tables, truth={names: each.counts for names, each in zip(wanted, exact, strict=True)})


def paper_cases(settings: Settings, random: np.random.Generator, number: int) -> Iterator[Case]:
    """The paper's two data sets, or the file given alone, and so many tables for each k."""
    sets = [clicks(KOSARAK_ROWS, random, path=settings.data)]
    if settings.data is None:
        sets.append(searches(AOL_ROWS, random))
    for data in sets:
        yield case_of(data, {k: random_tables(data.schema.names, k, number, random) for k in WAYS})


# Views, released or exact


@dataclass(frozen=True, slots=True)
class Design:
    """Views of ``size`` attributes such that any ``cover`` attributes lie together in one; C_t(l, w) in the paper.

    >>> design = Design(8, 2)
    >>> design.name, design.views(64)
    ('C2(8)', 72)
    """

    size: int
    cover: int

    @property
    def name(self) -> str:
        """C_t(l)."""
        return f"C{self.cover}({self.size})"

    def views(self, attributes: int) -> int:
        """How many views it takes."""
        return len(covering_design(attributes, self.size, self.cover))

    def tables(self, names: Names) -> list[Names]:
        """The views over these attributes."""
        return [tuple(names[i] for i in block) for block in covering_design(len(names), self.size, self.cover)]

    def noise(self, case: Case, epsilon: float) -> float:
        """The noise error of a pair, equation (5)."""
        return noise_error(
            attributes=case.attributes,
            size=self.size,
            views=self.views(case.attributes),
            rows=case.rows,
            epsilon=epsilon,
        )


def released(case: Case, design: Design, epsilon: float) -> Release:
    """A new release of the rows as in the paper: the number of rows is not public, Ripple has one round."""
    from crosstally.pipeline import release

    strategy = Views(size=design.size, cover=design.cover)
    found = release(case.data.table, case.data.schema, epsilon=epsilon, strategy=strategy)
    return found.refit(nonnegative="ripple", rounds=1)


def runs_of(case: Case, design: Design, epsilon: float, steps: Steps, runs: int | None = None) -> list[Release]:
    """As many releases as the paper makes of a setting, or another number; each is a step."""
    found = []
    for _ in range(RUNS if runs is None else runs):
        found.append(released(case, design, epsilon))
        steps()
    return found


def read(release: Release, *, method: str | None = None) -> Answers:
    """The answers of a release, as people read them."""
    return lambda tables: [each.values for each in release.marginals(tables, method=method)]


def exact_estimate(case: Case, design: Design) -> Estimate:
    """The estimate from views without noise, PriView's C_t*: the error of coverage alone. It protects nobody."""
    from crosstally.inference import estimate
    from crosstally.measurements import Measurement
    from crosstally.query.queries import Cells
    from crosstally.sources import count

    schema, views = case.data.schema, design.tables(case.data.schema.names)
    exact = count(case.data.table, schema, views)
    measured = [
        Measurement(Cells(names), each.counts, variance=1.0, noise=None, origin="exact")
        for names, each in zip(views, exact, strict=True)
    ]
    return estimate(schema, measured, nonnegative="none")


def filled(estimate: Estimate, tables: Sequence[Names]) -> Tables:
    """Tables of greatest entropy from an estimate that is no release; covered ones are the estimate itself."""
    from crosstally.answers.unmeasured.maximum_entropy import maximum_entropy

    covered = estimate.covered(tables)
    straight = iter(estimate.tables([names for names, inside in zip(tables, covered, strict=True) if inside]))
    others = [names for names, inside in zip(tables, covered, strict=True) if not inside]
    guessed = iter([each.values for each in maximum_entropy(estimate, others)] if others else [])
    return [next(straight if inside else guessed) for inside in covered]


# Errors


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The errors of one method: a row for each run, a column for each table, by metric.

    ``noise`` is what equation (5) says of the error, for releases of views.
    """

    method: str
    data: str
    _: KW_ONLY
    attributes: int
    rows: int
    epsilon: float
    k: int
    errors: Mapping[str, NDArray[np.float64]]
    note: str = ""
    noise: float | None = None

    @property
    def cell(self) -> Cell:
        """What it may be compared with."""
        return self.data, self.epsilon, self.k

    @property
    def distance(self) -> NDArray[np.float64]:
        """The normalised L2 errors."""
        return self.errors[DISTANCE]

    @classmethod
    def of(
        cls,
        method: str,
        case: Case,
        answers: Iterable[Answers],
        *,
        epsilon: float,
        k: int,
        note: str = "",
        noise: float | None = None,
    ) -> Scores:
        """The errors of answers, one function for each run."""
        truth = [case.truth[names] for names in case.tables[k]]
        runs = [answer(case.tables[k]) for answer in answers]
        errors = {
            DISTANCE: [[normalised_l2(*pair, rows=case.rows) for pair in zip(run, truth, strict=True)] for run in runs],
            DIVERGENCE: [[jensen_shannon(*pair) for pair in zip(run, truth, strict=True)] for run in runs],
        }
        grids = {metric: np.array(grid, dtype=np.float64) for metric, grid in errors.items()}
        return replace(cls._in(case, method, grids, epsilon=epsilon, k=k, note=note), noise=noise)

    def at(self, epsilon: float) -> Scores:
        """The same scores beside others of this epsilon, for methods without noise."""
        return replace(self, epsilon=epsilon)

    @classmethod
    def known(
        cls,
        method: str,
        case: Case,
        distance: float | NDArray[np.float64],
        *,
        epsilon: float,
        k: int,
        note: str = "",
    ) -> Scores:
        """The errors of a method whose expected L2 error is known, for all tables alike or for each."""
        grid = np.broadcast_to(np.asarray(distance, np.float64), (RUNS, len(case.tables[k])))
        return cls._in(case, method, {DISTANCE: grid}, epsilon=epsilon, k=k, note=note)

    @classmethod
    def _in(
        cls, case: Case, method: str, errors: Mapping[str, NDArray[np.float64]], *, epsilon: float, k: int, note: str
    ) -> Scores:
        label, number = case.data.label, case.attributes
        return cls(method, label, attributes=number, rows=case.rows, epsilon=epsilon, k=k, errors=errors, note=note)


def default_scores(
    case: Case, epsilon: float, ways: Sequence[int] = WAYS, *, method: str = DEFAULT
) -> Iterator[Scores]:
    """The errors of releases as people get them who choose nothing: the default beside the paper's methods."""
    from crosstally.pipeline import release

    runs = [read(release(case.data.table, case.data.schema, epsilon=epsilon)) for _ in range(_DEFAULT_RUNS)]
    for k in ways:
        yield Scores.of(method, case, runs, epsilon=epsilon, k=k, note="the default release")


def rows_of(scores: Sequence[Scores]) -> Iterator[dict[str, Value]]:
    """A row for each method and metric: the candlestick of the tables' errors, each averaged over the runs first."""
    for each in scores:
        for metric, grid in each.errors.items():
            yield {
                "data": each.data,
                "d": each.attributes,
                "rows": each.rows,
                "epsilon": each.epsilon,
                "k": each.k,
                "method": each.method,
                "metric": metric,
                **candlestick(grid.mean(axis=0)),
                "tables": grid.shape[1],
                "runs": grid.shape[0],
                "noise_error": each.noise,
                "note": each.note,
            }


def cells_of(scores: Iterable[Scores]) -> list[Cell]:
    """All cells, in the order in which they first appear."""
    return list(dict.fromkeys(each.cell for each in scores))


def ratio(scores: Sequence[Scores], cell: Cell, above: str, below: str) -> Interval:
    """How many times the mean L2 error of one method is that of another, between the ends of its interval."""
    found = {each.method: each.distance for each in scores if each.cell == cell}
    least = np.finfo(np.float64).tiny
    grids = _as_many_runs(found[above], found[below])
    return grid_ratio_interval(*(np.maximum(grid, least) for grid in grids))


def span_claim(claim: str, found: Sequence[Interval], holds: bool | None, of: Author = "paper") -> Claim:
    """A claim about ratios of errors in some settings, whose figure is the least and the greatest of them."""
    return Claim(claim, of=of, holds=holds, figure=span_words(found))


def _as_many_runs(*grids: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Methods without noise have one run, which is paired with all runs of the other; else the first runs of both."""
    runs = min((len(grid) for grid in grids if len(grid) > 1), default=1)
    cut = [grid[:runs] for grid in grids]
    return [np.broadcast_to(grid, np.broadcast_shapes(*(each.shape for each in cut))) for grid in cut]
