"""Crosstally beside other methods on rows whose truth may be known: generated ones of a schema's shape, or public ones.

Every method gets the same rows, the same budget and the same tables to answer. Ours go through the pipeline with a
ledger in memory that ends with the release; peers run in a Python of their own (``papers/peers.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.pipeline import release
from crosstally.query.queries import Cells
from crosstally.releases import Release
from crosstally.schema import Schema
from crosstally.sources.counts import BATCH_ROWS, bounded
from crosstally.sources.kinds import source_of
from crosstally.sources.source import RowEncoding
from crosstally.strategies import Direct, Fourier, GreedyMerge, Residual, Strategy, Views
from crosstally.typing import Floats
from crosstally.workload import Workload
from crosstally_lab.generate.classes import hidden_classes
from crosstally_lab.papers.metrics import Interval, ratio_interval
from crosstally_lab.papers.peers import ALGORITHMS, PeerTask, draw, peers_python, versions

OURS = "crosstally"
"""The name of the release that people get, to which all others are compared."""
LEVEL = 0.95  # of intervals of ratios: chosen, as everywhere in the package; higher says "no difference" more often
MOST_TABLES = 40
"""Tables that are compared, drawn at random where more are named: as many as the accuracy targets ask of each order.
Fewer make ratios depend on which; more take longer."""
MOST_CELLS = 2_000
"""Larger tables are left out where there are others: nearly all of their cells are empty."""

Tables = Sequence[Floats]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows as a release reads them, and their codes (rows x attributes), from which the truth is counted."""

    source: Any
    schema: Schema
    codes: NDArray[np.int64]

    def counts(self, names: Sequence[str]) -> Floats:
        """The true table."""
        places, sizes = [self.schema.positions[name] for name in names], self.schema.sizes(names)
        cells = np.ravel_multi_index(tuple(self.codes[:, places].T), tuple(sizes)) if places else self.codes[:, 0] * 0
        return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What every method may spend, which tables are named to it, and which it must answer."""

    budget: Budget
    named: Workload
    answers: tuple[tuple[str, ...], ...]

    def release(self, rows: _Rows, strategy: Strategy | str = "auto", workload: Workload | None = None) -> Release:
        return release(
            rows.source,
            rows.schema,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            rho=self.budget.rho,
            strategy=strategy,
            workload=workload,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What one method did: for each release its two errors and its CPU seconds; or why it cannot do this.

    ``l1`` is the mean over tables of the sum of absolute errors, over the number of rows; ``rms`` the root of the mean
    over tables of the mean squared error of a cell. ``compiling`` are those of the CPU seconds in which jax compiled.
    """

    name: str
    about: str
    l1: tuple[float, ...] = ()
    rms: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    compiling: tuple[float, ...] = ()
    cannot: str | None = None

    @property
    def error(self) -> float:
        """The mean of ``l1`` over releases; NaN where there are none."""
        return float(np.mean(self.l1)) if self.l1 else math.nan

    @property
    def seconds(self) -> tuple[float, float] | None:
        """CPU seconds of the fastest release, and those of them spent compiling; the first warms up for the others."""
        return min(zip(self.cpu, self.compiling, strict=True), default=None)

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON."""

        def mean(numbers: tuple[float, ...]) -> float | None:
            return float(np.mean(numbers)) if numbers else None

        cpu, compiling = self.seconds or (None, None)
        return {
            "name": self.name,
            "about": self.about,
            "releases": len(self.l1),
            "l1": mean(self.l1),
            "rms": mean(self.rms),
            "cpu_seconds": cpu,
            "cpu_seconds_compiling": compiling,
            "cannot": self.cannot,
        }


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The results of all methods, ours first; ``versions`` are those of the peers, None where none is installed."""

    tables: tuple[tuple[str, ...], ...]
    results: tuple[Result, ...]
    versions: str | None

    @property
    def ours(self) -> Result:
        """That of the release that people get."""
        return self.results[0]

    def ratio(self, other: Result) -> Interval | None:
        """Our error over the other's on the same rows, with a 95% interval where there are two releases; or None."""
        number = min(len(self.ours.l1), len(other.l1))
        ours, theirs = self.ours.l1[:number], other.l1[:number]
        if not number or min(*ours, *theirs) <= 0:
            return None
        if number == 1:
            return Interval(estimate=ours[0] / theirs[0], low=0.0, high=math.inf, level=LEVEL)
        return ratio_interval(ours, theirs, level=LEVEL)

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        out = []
        for each in self.results:
            ratio = None if each is self.ours else self.ratio(each)
            ends = None if ratio is None or math.isinf(ratio.high) else [ratio.low, ratio.high]
            times = None if ratio is None else ratio.estimate
            out.append({**each.to_dict(), "our_error_over_it": times, "interval": ends})
        return {"tables": [list(names) for names in self.tables], "peers": self.versions, "methods": out}


def compare_methods(
    schema: Schema,
    budget: Budget,
    *,
    rows: int | None = None,
    public: Any = None,
    releases: int,
    workload: Workload | None = None,
    peer_seconds: float = 0.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> SideBySide:
    """All methods on generated rows of the schema's shape, other rows for each release; or on public rows.

    Args:
        schema: Whose shape the rows have.
        budget: What every method may spend on each release.
        rows: How many are generated.
        public: Rows that the caller asserts to be public, in place of generated ones: what comes out is computed from
            their true counts, and no budget covers it.
        releases: How many releases each method makes.
        workload: The tables that are named and compared; all pairs unless given.
        peer_seconds: How long each peer may take for all its releases together; none are run where it is zero.
        seed: Of the rows, and of which tables are compared where many are named.
        progress: Called with the number of releases made and of those to make.
    """
    if releases < 1:
        raise CrosstallyError(f"releases must be at least 1, got {releases}")
    named = Workload.all_ways(schema, min(2, len(schema.names))) if workload is None else workload.for_schema(schema)
    asked = _Asked(budget, named, _answered(schema, named, np.random.default_rng((seed, 1))))
    python = peers_python() if peer_seconds > 0 else None
    methods = [*_our_methods(budget), *_peers(python, peer_seconds)]
    tallies = [_Tally(*method) for method in methods]
    for number, given in enumerate(_drawn(schema, rows, public, releases, seed)):
        if not len(given.codes):
            raise CrosstallyError("a comparison needs rows, got none")
        truth = [given.counts(names) for names in asked.answers]
        for place, tally in enumerate(tallies):
            tally.add(given, asked, truth)
            if progress is not None:
                progress(number * len(tallies) + place + 1, releases * len(tallies))
    found = tuple(tally.result() for tally in tallies)
    return SideBySide(asked.answers, found, None if python is None else versions(python))


def _drawn(schema: Schema, rows: int | None, public: Any, releases: int, seed: int) -> Iterator[_Rows]:
    """The rows of each release."""
    if rows is None:
        given = _Rows(public, schema, _codes(public, schema))
        yield from (given for _ in range(releases))
        return
    for number in range(releases):
        table, shape = hidden_classes(schema, rows, np.random.default_rng((seed, number)))
        yield _Rows(table, shape, _codes(table, shape))


def _codes(source: Any, schema: Schema) -> NDArray[np.int64]:
    """The cells of all rows that count: rows x attributes."""
    coded = RowEncoding.of(schema).rows(source_of(source))
    found = [np.stack(rows.codes, axis=1) for rows in bounded(coded, schema.unit, BATCH_ROWS)]
    return np.concatenate([np.zeros((0, len(schema.names)), np.int64), *found]).astype(np.int64)


def _answered(schema: Schema, named: Workload, random: np.random.Generator) -> tuple[tuple[str, ...], ...]:
    """The tables to compare: some of those named, at random, the small ones where there are such."""
    small = [names for names in named.tables if math.prod(schema.sizes(names)) <= MOST_CELLS] or list(named.tables)
    chosen = sorted(random.permutation(len(small))[:MOST_TABLES])
    return tuple(small[place] for place in chosen)


class _Tally:
    """The errors and seconds of one method, release by release, until it cannot go on."""

    def __init__(self, name: str, about: str, run: Callable[[_Rows, _Asked], _Made]) -> None:
        self._name, self._about, self._run = name, about, run
        self._lines: list[tuple[float, float, float, float]] = []
        self._cannot: str | None = None

    def add(self, rows: _Rows, asked: _Asked, truth: Tables) -> None:
        """One more release, unless an earlier one failed."""
        if self._cannot is not None:
            return
        start = time.process_time()
        try:
            made = self._run(rows, asked)
        except CrosstallyError as error:
            self._cannot = str(error)
            return
        off = [estimate - exact for estimate, exact in zip(made.tables, truth, strict=True)]
        l1 = float(np.mean([np.abs(each).sum() for each in off])) / len(rows.codes)
        rms = math.sqrt(np.mean([np.mean(each**2) for each in off]))
        cpu = time.process_time() - start if made.cpu is None else made.cpu
        self._lines.append((l1, rms, cpu, made.compiling * cpu))

    def result(self) -> Result:
        """What there is; releases that were made count also where a later one failed."""
        l1, rms, cpu, compiling = (tuple(line[place] for line in self._lines) for place in range(4))
        cannot = None if self._lines else self._cannot
        return Result(self._name, self._about, l1, rms, cpu, compiling, cannot)


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """The tables of a release; CPU seconds where another process had them, and the part of these spent compiling."""

    tables: Tables
    cpu: float | None = None
    compiling: float = 0.0


_Method = tuple[str, str, Callable[[_Rows, _Asked], _Made]]


def _our_methods(budget: Budget) -> Iterator[_Method]:
    """Ours, the plain ways, and the strategies of the papers with the papers' own recovery."""
    noise = "Laplace" if budget.pure else "Gaussian"
    yield OURS, "the tables named, all else by default", _by_default
    yield "nothing named", "crosstally's default, no tables named", _nothing_named
    yield "noisy tables", f"{noise} noise on each named table, used as drawn", _as_drawn
    yield "independence", "the whole budget on one-way tables, their product", _independent
    yield "PriView", "views as in SIGMOD 2014: Ripple, maximum entropy", partial(_by, Views(), "ripple")
    yield "direct+", "ICDE 2013: named tables, optimal budgets, least squares", partial(_by, Direct(), "none")
    yield "clusters+", "ICDE 2013: merged tables, optimal budgets, least squares", partial(_by, GreedyMerge(), "none")
    if budget.pure:
        yield "Fourier+", "ICDE 2013: coefficients, optimal budgets, least squares", partial(_by, Fourier(), "none")
    else:
        yield "residuals", "the Gaussian plan of least total variance", partial(_by, Residual(), "none")


def _answers(made: Release, asked: _Asked) -> _Made:
    return _Made([each.values for each in made.marginals(asked.answers)])


def _by_default(rows: _Rows, asked: _Asked) -> _Made:
    return _answers(asked.release(rows, workload=asked.named), asked)


def _nothing_named(rows: _Rows, asked: _Asked) -> _Made:
    return _answers(asked.release(rows), asked)


def _as_drawn(rows: _Rows, asked: _Asked) -> _Made:
    made = asked.release(rows, Direct(budgets="uniform"), asked.named)
    measured = {each.query: each.values for each in made.measurements}
    return _Made([measured[Cells(names)].astype(np.float64) for names in asked.answers])


def _independent(rows: _Rows, asked: _Asked) -> _Made:
    ones = Workload([(name,) for name in rows.schema.names])
    return _answers(asked.release(rows, Direct(budgets="uniform"), ones).refit(nonnegative="joint"), asked)


def _by(strategy: Strategy, correction: str, rows: _Rows, asked: _Asked) -> _Made:
    return _answers(asked.release(rows, strategy, asked.named).refit(nonnegative=correction, rounds=1), asked)


def _peers(python: str | None, seconds: float) -> Iterator[_Method]:
    for name, about in ALGORITHMS.items() if seconds > 0 else ():
        yield name, about, _absent if python is None else _Peer(name, python, seconds)


def _absent(rows: _Rows, asked: _Asked) -> _Made:  # noqa: ARG001
    raise CrosstallyError(
        "not installed: pip install 'opendp[mbi]==0.16.*' into an environment of its own, and name its Python in "
        "CROSSTALLY_PEERS_OPENDP"
    )


class _Peer:
    """A peer that may take so many seconds for all its releases together."""

    def __init__(self, algorithm: str, python: str, seconds: float) -> None:
        self._algorithm, self._python, self._seconds = algorithm, python, seconds
        self._spent = 0.0

    def __call__(self, rows: _Rows, asked: _Asked) -> _Made:
        left = self._seconds - self._spent
        if left <= 0:
            raise CrosstallyError(f"its {self._seconds:,.0f} seconds are over")
        positions, unit = rows.schema.positions, rows.schema.unit
        task = PeerTask(
            algorithm=self._algorithm,
            budget=asked.budget,
            sizes=rows.schema.shape,
            trained=tuple(tuple(positions[name] for name in table) for table in asked.named.tables),
            answers=tuple(tuple(positions[name] for name in table) for table in asked.answers),
            unit_rows=1 if unit is None else unit.max_rows,
        )
        start = time.monotonic()
        drawn = draw(task, rows.codes, python=self._python, seconds=left)
        self._spent += time.monotonic() - start
        if drawn.error is not None:
            raise CrosstallyError(drawn.error)
        if not drawn.converged:
            raise CrosstallyError(f"its fit is {drawn.misfit:,.0f} standard deviations off: it did not converge")
        return _Made(drawn.tables, drawn.cpu, drawn.compiling)
