"""Uniform and optimal budgets for I, Q, F and C (Yaroslavtsev et al., ICDE 2013, section V: figures 4, 5 and 6).

The error of these methods does not depend on the data, and is inversely proportional to epsilon; the relative error
depends on the data through the number of rows alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.budget import Budget
from crosstally.errors import CrosstallyError, SourceError
from crosstally.schema import Attribute, Schema
from crosstally.sources import count
from crosstally.workload import Workload
from crosstally_lab.generate.transactions import transactions
from crosstally_lab.papers.data import Rows, find, read_as, read_binary
from crosstally_lab.papers.icde13.charts import error_chart, times_chart
from crosstally_lab.papers.icde13.claims import Measured, adult_claims, binary_claims, gains, time_claims
from crosstally_lab.papers.icde13.methods import Method, Simulation, methods, simulation
from crosstally_lab.papers.metrics import bootstrap_mean, mean_relative_error
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value

ADULT = {
    "workclass": 9,
    "education": 16,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "income": 2,
}
"""Adult's categorical attributes and their numbers of values, as in the paper."""
ADULT_ROWS, NLTCS_ROWS = 32_561, 21_576  # rows that the paper uses: the training part of Adult, and NLTCS
_ATTRIBUTES = 16  # attributes of NLTCS
_QUICK_DRAWS, _FULL_DRAWS = 16, 160  # draws of noise, quick and full: intervals of the means are over them
# Epsilons, quick and full: within the range of the paper's figures.
_QUICK_GRID, _FULL_GRID = (1.0,), (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_DEFAULT = "crosstally"  # the name of the default release among the methods
_DEFAULT_DRAWS = 2  # releases of the default, which no verdict is about. More take seconds each
_NOISE = "numpy Laplace, simulated"
_HARDWARE = "CPU seconds here; the paper's are of other hardware"


def workloads(schema: Schema) -> dict[str, Workload]:
    """The six workloads of the paper; the fixed attribute, which it does not name, is the first."""
    first = schema.names[0]
    out = {}
    for k in (1, 2):
        out[f"Q{k}"] = Workload.all_ways(schema, k)
        out[f"Q{k}*"] = Workload.half_more(schema, k)
        out[f"Q{k}a"] = Workload.through(schema, k, first)
    return out


# Data


def adult(path: Path | None) -> Rows:
    """Adult's eight attributes: the file given, else the first 32,561 rows of ``adult.csv``, else generated rows."""
    source = path or find("adult.csv")
    if source is None:
        return _generated_people(np.random.default_rng(13))
    import pyarrow.csv

    table = read_as(".csv file", source, pyarrow.csv.read_csv)
    absent = [name for name in ADULT if name not in table.column_names]
    if absent:
        raise SourceError(f"{str(source)!r} must have the columns {', '.join(ADULT)}; {', '.join(absent)} not found")
    table = table.select(list(ADULT)).slice(0, ADULT_ROWS)
    attributes = [Attribute(name, tuple(sorted(map(str, table[name].unique().to_pylist())))) for name in ADULT]
    return Rows(table, Schema(tuple(attributes)), label="Adult" if path is None else source.name)


def _generated_people(random: np.random.Generator) -> Rows:
    """Rows of Adult's sizes from five groups of people, each with its own shares of every attribute's values."""
    groups = random.integers(0, 5, ADULT_ROWS)
    columns, attributes = {}, []
    for name, size in ADULT.items():
        attribute = Attribute(name, tuple(f"v{i}" for i in range(size)))
        steps = np.cumsum(random.dirichlet(np.full(size, 0.5), 5), axis=1)[groups]
        codes = np.minimum((random.random(ADULT_ROWS)[:, None] >= steps).sum(axis=1), size - 1)
        columns[name] = pa.array(attribute.values).take(pa.array(codes))
        attributes.append(attribute)
    return Rows(pa.table(columns), Schema(tuple(attributes)), label="generated, in place of Adult")


def binary(path: Path | None) -> Rows:
    """Sixteen attributes of two values: the first of the file given, else generated; NLTCS cannot be had."""
    if path is None:
        table, schema = transactions(NLTCS_ROWS, _ATTRIBUTES, np.random.default_rng(14))
        return Rows(table, schema, label="generated transactions, in place of NLTCS")
    table, schema = read_binary(path)
    if len(schema.names) < 3:
        raise CrosstallyError(f"a file of at least 3 columns is needed, got {len(schema.names)}")
    names = schema.names[:_ATTRIBUTES]
    return Rows(table.select(names), schema.subset(*names), label=path.name)


# Figures 4 and 5: relative error


def _figure(
    name: str,
    title: str,
    rows_of: Callable[[Path | None], Rows],
    claims: Callable[[Sequence[Measured]], Iterator[Claim]],
) -> Experiment:
    """A figure of relative errors, from where its rows come and what the paper says of it."""

    def run(settings: Settings) -> Outcome:
        """The errors of all methods on all workloads, and the verdicts."""
        data = rows_of(settings.data)
        measured = _measure(data, settings, _QUICK_DRAWS if settings.quick else _FULL_DRAWS)
        grid = _QUICK_GRID if settings.quick else _FULL_GRID
        rows = [row for each in measured for row in _error_rows(each, data.label, grid)]
        rows += _default_rows(data)
        gained = [{"data": data.label, **gain.to_row()} for gain in gains(measured)]
        shown = error_chart(rows, title, epsilons=_FULL_GRID, default=_DEFAULT)
        return Outcome(name, (*rows, *gained), claims=tuple(claims(measured)), chart=shown)

    return Experiment(name, title, run)


def _default_rows(data: Rows) -> Iterator[dict[str, Value]]:
    """The default release with epsilon = 1, which names no tables, beside the paper's methods; no verdict is about it.

    Its error depends on the rows: it shrinks noise, and does not grow as one over epsilon.
    """
    from crosstally.pipeline import release

    asked = workloads(data.schema)
    truth = _true_tables(data, asked)
    released = [release(data.table, data.schema, epsilon=1).marginals(list(truth)) for _ in range(_DEFAULT_DRAWS)]
    answers = [{table: each.values for table, each in zip(truth, run, strict=True)} for run in released]
    for name, workload in asked.items():
        cells = [truth[table].size for table in workload.tables]
        pairs = [[(run[table], truth[table]) for table in workload.tables] for run in answers]
        by_table = np.mean([[mean_relative_error(*pair) for pair in run] for run in pairs], axis=0)
        squares = [sum(float(((noisy - exact) ** 2).sum()) for noisy, exact in run) / sum(cells) for run in pairs]
        yield {
            "data": data.label,
            "workload": name,
            "method": _DEFAULT,
            "recovery": "default release",
            "epsilon": 1.0,
            "relative_error": float(np.average(by_table, weights=cells)),
            "relative_error_by_table": float(np.mean(by_table)),
            "rms_error": float(np.sqrt(np.mean(squares))),
            "draws": _DEFAULT_DRAWS,
            "noise": "released",
        }


def _true_tables(data: Rows, asked: Mapping[str, Workload]) -> dict[tuple[str, ...], NDArray[np.int64]]:
    tables = list(dict.fromkeys(table for workload in asked.values() for table in workload.tables))
    counted = count(data.table, data.schema, tables)
    return {table: each.counts for table, each in zip(tables, counted, strict=True)}


def _measure(data: Rows, settings: Settings, draws: int) -> list[Measured]:
    asked = workloads(data.schema)
    truth = _true_tables(data, asked)
    out, done, steps = list[Measured](), 0, len(asked) * len(methods(data.schema))
    for name, workload in asked.items():
        for method in methods(data.schema):
            planned = simulation(method, data.schema, workload)
            out += _drawn(name, method, planned, [truth[table] for table in workload.tables], draws)
            done += 1
            settings.progress(done, steps)
    return out


def _drawn(
    name: str, method: Method, planned: Simulation, truth: Sequence[NDArray[np.int64]], draws: int
) -> Iterator[Measured]:
    """The errors of each recovery. The same draw of every method starts from the same seed, so that pairs compare."""
    seen = [planned.errors(np.random.default_rng([13, draw])) for draw in range(draws)]
    cells = [table.size for table in truth]
    for recovery in seen[0]:
        relative = [
            [mean_relative_error(exact + error, exact) for exact, error in zip(truth, errors[recovery], strict=True)]
            for errors in seen
        ]
        squares = [sum(float((error**2).sum()) for error in errors[recovery]) / sum(cells) for errors in seen]
        yield Measured(
            name,
            method.name,
            recovery=recovery,
            errors=tuple(float(np.average(each, weights=cells)) for each in relative),
            by_table=tuple(float(np.mean(each)) for each in relative),
            squares=tuple(squares),
            predicted=planned.predicted.get(recovery),
        )


def _error_rows(each: Measured, label: str, grid: Sequence[float]) -> Iterator[dict[str, Value]]:
    """A row for each epsilon: errors are inversely proportional to it, so one set of draws serves all."""
    interval = bootstrap_mean(each.errors, np.random.default_rng(0))
    for epsilon in grid:
        yield {
            "data": label,
            "workload": each.workload,
            "method": each.method,
            "recovery": each.recovery,
            "epsilon": epsilon,
            "relative_error": interval.estimate / epsilon,
            "low": interval.low / epsilon,
            "high": interval.high / epsilon,
            "relative_error_by_table": float(np.mean(each.by_table)) / epsilon,
            "rms_error": float(np.sqrt(np.mean(each.squares))) / epsilon,
            "predicted_rms": None if each.predicted is None else each.predicted / epsilon,
            "draws": len(each.errors),
            "noise": _NOISE,
        }


# Figure 6: seconds


def _times(settings: Settings) -> Outcome:
    """From rows to consistent tables, each step included; everything was done once before, to be compiled."""
    from crosstally.strategies.clustered import clusters

    data, seconds, slowest = binary(settings.data), dict[tuple[str, str], float](), dict[tuple[str, str], float]()
    asked, repeats = workloads(data.schema), 1 if settings.quick else 5
    for workload in asked.values():
        for method in methods(data.schema):
            _end_to_end(data, method, workload)
    for done, (name, workload) in enumerate(asked.items(), start=1):
        for method in methods(data.schema):
            spent = []
            for _ in range(repeats):
                clusters.cache_clear()
                start = time.process_time()
                _end_to_end(data, method, workload)
                spent.append(time.process_time() - start)
            seconds[name, method.name], slowest[name, method.name] = min(spent), max(spent)
        settings.progress(done, len(asked))
    claims = tuple(time_claims(slowest))
    for name, spent in _default_seconds(data, asked, repeats).items():
        seconds[name, _DEFAULT], slowest[name, _DEFAULT] = min(spent), max(spent)
    rows: list[dict[str, Value]] = [
        {
            "data": data.label,
            "workload": name,
            "method": method,
            "seconds": spent,
            "slowest": slowest[name, method],
            "hardware": _HARDWARE,
        }
        for (name, method), spent in seconds.items()
    ]
    return Outcome("icde13-figure-6", tuple(rows), claims=claims, chart=times_chart(rows, _HARDWARE))


def _default_seconds(data: Rows, asked: Mapping[str, Workload], repeats: int) -> dict[str, list[float]]:
    """The seconds of the default release, which names no tables, and of the tables of each workload read from it."""
    from crosstally.pipeline import release

    def seconds(workload: Workload) -> float:
        start = time.process_time()
        release(data.table, data.schema, epsilon=1).marginals(list(workload.tables))
        return time.process_time() - start

    seconds(next(iter(asked.values())))  # to be compiled
    return {name: [seconds(workload) for _ in range(repeats)] for name, workload in asked.items()}


def _end_to_end(data: Rows, method: Method, workload: Workload) -> None:
    plan = method.strategy.plan(data.schema, workload, Budget(epsilon=Fraction(1)))
    if plan is None:
        raise CrosstallyError(f"the method {method.name} plans nothing")
    count(data.table, data.schema, plan.tables)
    simulation(method, data.schema, workload).errors(np.random.default_rng(6))


_TITLE = "Uniform and optimal budgets on {} (ICDE 2013, figure {})"
EXPERIMENTS = (
    _figure("icde13-figure-4", _TITLE.format("Adult", 4), adult, adult_claims),
    _figure("icde13-figure-5", _TITLE.format("16 binary attributes", 5), binary, binary_claims),
    Experiment("icde13-figure-6", "Seconds of each method on 16 binary attributes (ICDE 2013, figure 6)", _times),
)
