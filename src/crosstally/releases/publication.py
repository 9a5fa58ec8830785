"""Measurements to a release. Nothing here reaches rows or noise: it is free, and can be done as often as one likes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.estimates import ROUNDS, estimate, unsolved_estimate, usual_correction
from crosstally.measurements import PUBLIC, Chosen, Measurement, public_counts
from crosstally.query.queries import MAX_CELLS, Query
from crosstally.query.ways import check_parts, matrices_of
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement
from crosstally.residuals import Estimate
from crosstally.residuals.mixed import MixedAxes
from crosstally.schema import Schema

__all__ = ["check_measurements", "check_queries", "check_variance", "publish", "rows_known", "unsolved"]

# How far, relatively, a file's variance may be from the one that its noise has: it was computed with another machine's
# exponential function, and a false claim would be larger.
_SAME_VARIANCE = 1e-9


def publish(
    schema: Schema,
    measurements: Iterable[Measurement],
    statement: Statement,
    *,
    nonnegative: str | None = None,
    rounds: int = ROUNDS,
) -> Release:
    """The release that these measurements make. It costs nothing and cannot reach rows.

    Args:
        schema: What the measured table is about.
        measurements: Noisy answers, central or local; public counts of the schema's facts join them. Of choices the
            release tells what was chosen; they say nothing about counts.
        statement: The privacy promise they were bought under.
        nonnegative: How negative cells are corrected; ``none`` leaves the unbiased least squares estimate. By default
            it is what ``usual_correction`` says.
        rounds: How often tables are corrected and made consistent again.
    """
    return _published(schema, measurements, statement, estimate, nonnegative=nonnegative, rounds=rounds)


def unsolved(schema: Schema, measurements: Iterable[Measurement], statement: Statement) -> Release:
    """The release that ``publish`` makes without its estimate, in a small part of the time.

    It raises whatever ``publish`` would: of the measurements it looks at queries and noise, never at their values.
    """
    return _published(schema, measurements, statement, unsolved_estimate)


def _published(
    schema: Schema,
    measurements: Iterable[Measurement],
    statement: Statement,
    solve: Callable[..., Estimate],
    *,
    nonnegative: str | None = None,
    rounds: int = ROUNDS,
) -> Release:
    schema, measured = schema.public(), tuple(measurements)
    statement = replace(statement, rows=rows_known(schema, statement.rows))
    if statement.unit != schema.unit:
        raise ReleaseError("the unit of the statement must be that of the schema")
    choices = tuple(Chosen.of(each) for each in measured if not each.query.is_linear)
    measured = tuple(each for each in measured if each.query.is_linear)
    measured += () if any(each.origin == PUBLIC for each in measured) else public_counts(schema)
    check_measurements(schema, measured)
    nonnegative = usual_correction(measured) if nonnegative is None else nonnegative
    return Release(
        schema,
        measured,
        statement=statement,
        estimate=solve(schema, measured, rows=statement.rows, nonnegative=nonnegative, rounds=rounds),
        nonnegative=nonnegative,
        rounds=rounds,
        choices=choices,
    )


def rows_known(schema: Schema, asserted: int | None) -> int | None:
    """The number of rows that is public: asserted for this release, or a fact of the schema; both must be the same."""
    fact = schema.public_rows
    if asserted is not None:
        schema.check_all_rows_counted("rows")
    if asserted is not None and fact is not None and asserted != fact:
        raise ReleaseError(f"rows must be the public total of the schema's facts, {fact:,}, got {asserted:,}")
    return fact if asserted is None else asserted


def check_queries(schema: Schema, queries: Iterable[Query]) -> None:
    """Raise unless the answers to these queries can be published together: before anything is spent on them.

    Choices are not held among them; linear queries of single numbers stay in a notebook's ledger.
    """
    cells, asked = 0, tuple(queries)
    matrices_of(asked)  # refuses values in groups beside matrices
    check_parts(asked)
    MixedAxes.of(schema, [(query, 1.0) for query in asked])  # refuses more covariances than memory holds
    for i, query in enumerate(asked):
        if not query.is_linear:
            continue
        where = f"measurement {i}"
        if not query.is_product:
            raise ReleaseError(
                f"{where}: a release holds cells, contrasts and Kronecker queries, got {type(query).__name__}"
            )
        try:
            query.shape(schema)
            cells += math.prod(query.tables[0].shape(schema))
        except CrosstallyError as error:
            raise ReleaseError(f"{where}: {error}") from None
        if cells > MAX_CELLS:
            raise ReleaseError(f"a release must hold at most {MAX_CELLS:,} cells; {where} goes beyond")


def check_measurements(schema: Schema, measurements: Sequence[Measurement]) -> None:
    """Raise unless the measurements fit the schema and the limits, and claim the variance their noise has."""
    check_queries(schema, (measurement.query for measurement in measurements))
    for i, measurement in enumerate(measurements):
        shape, where = measurement.query.shape(schema), f"measurement {i}"
        if measurement.values.shape != shape:
            raise ReleaseError(f"{where} must have values of shape {shape}, got {measurement.values.shape}")
        if measurement.noise is not None:
            check_variance(measurement.variance, measurement.noise.variance, where)


def check_variance(claimed: float, actual: float, where: str) -> None:
    """Raise unless a variance is the one that its noise has."""
    if not math.isclose(claimed, actual, rel_tol=_SAME_VARIANCE):
        raise ReleaseError(f"{where}: the variance must be that of its noise, {actual!r}, got {claimed!r}")
