"""Measurements to a release. Nothing here reaches rows or noise: it is free, and can be done as often as one likes.

What the numbers of a release cost, computed again from their queries and noise: it cannot contradict its statement.

Measurements of one ledger entry are one stage: they were charged together, and their joint cost is the one that the
plan had. Entries add up, in epsilon as in rho, also where a later one depends on what an earlier one gave.

Whether the public number of rows that a release states agrees with its own noisy counts.

Only published numbers are compared: the noisy measurements of the release and the number that its statement holds. So
it costs nothing, and anyone with the file can do the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from crosstally.budget import Budget, Neighbours, NoiseKind, Sensitivity
from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.estimates import ROUNDS, estimate, unsolved_estimate, usual_correction
from crosstally.measurements import PUBLIC, Chosen, Measurement, public_counts
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.request import Request
from crosstally.query.queries import MAX_CELLS, Query
from crosstally.query.ways import check_parts, matrices_of, mixed_of
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement
from crosstally.residuals import Estimate
from crosstally.residuals.mixed import MixedAxes
from crosstally.schema import Schema

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
    if mixed_of(asked):
        MixedAxes(schema, [(query, 1.0) for query in asked])  # refuses more covariances than memory holds
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


def check_promise(
    schema: Schema, statement: Statement, measurements: Sequence[Measurement], choices: Sequence[Chosen]
) -> None:
    """Raise unless what was measured and chosen costs no more than the statement says.

    Answers without noise of their own (public counts, the local model, other people's mechanisms) are left out:
    ``foreign_origins`` names the last.
    """
    try:
        costs = costs_of_entries(schema, statement.neighbours, measurements, choices, pure=statement.budget.pure)
        cost, budget = sum(costs.values(), Fraction(0)), statement.budget
        more_than_stated = cost > budget.amount
    except CrosstallyError as error:
        raise ReleaseError(f"its measurements do not fit its privacy statement: {error}") from None
    if more_than_stated:
        raise ReleaseError(f"its measurements cost {_rounded(cost, budget)}, more than its statement of {budget}")


def costs_of_entries(
    schema: Schema,
    neighbours: Neighbours | str,
    measurements: Iterable[Measurement],
    choices: Iterable[Chosen],
    *,
    pure: bool,
) -> Mapping[str, Fraction]:
    """What each ledger entry paid for: epsilon when pure, otherwise rho."""
    requests: dict[str, list[Request]] = defaultdict(list)
    for each in measurements:
        if each.noise is not None:
            requests[each.origin].append(Request(each.query, each.noise))
    costs: dict[str, Fraction] = defaultdict(Fraction)
    for origin, asked in requests.items():
        costs[origin] += privacy_cost(asked, schema, neighbours, pure=pure)
    for chosen in choices:
        costs[chosen.origin] += _choice_cost(chosen, schema, neighbours, pure=pure)
    return costs


def _choice_cost(chosen: Chosen, schema: Schema, neighbours: Neighbours | str, *, pure: bool) -> Fraction:
    """Epsilon = 2 Delta / scale, or rho = epsilon^2 / 8 (``query.choice``)."""
    assert chosen.noise.kind is NoiseKind.GUMBEL
    moved = 1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2
    most = chosen.weight * moved * schema.max_rows
    epsilon = chosen.noise.cost(Sensitivity(most, most**2))
    return epsilon if pure else epsilon**2 / 8


def foreign_origins(statement: Statement, measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Where answers come from that the statement's budget did not buy: other mechanisms, whose promise is their own."""
    if statement.model == "local":
        return ()
    found = (each.origin for each in measurements if each.noise is None and each.origin != PUBLIC)
    return tuple(dict.fromkeys(found))


def _rounded(cost: Fraction, budget: Budget) -> str:
    sign = "ε" if budget.pure else "ρ"
    return f"{sign} = {float(cost):.6g}" if cost < 10**300 else f"{sign} above 1e300"


_FAR = 5.0
"""Standard errors between the noisy total and the asserted number. Chosen: one Laplace number is further away in
exp(-5 sqrt(2)) = 1 of 1,200 releases, a Gaussian one in 1 of 1.7 million; a wrong assertion is mostly hundreds away. A
smaller number would raise false alarms; a larger one passes over assertions that are slightly wrong."""


def noisy_total(release: Release) -> tuple[float, float] | None:
    """The number of rows by the noisy measurements alone, and its standard error; None where none has a total.

    The n cells of a measured table have independent noise of variance v: their sum has the variance n v. Sums of
    several tables are averaged with weights 1 / (n v).
    """
    sums = [
        (float(each.values.sum()), each.variance * each.values.size)
        for each in release.measurements
        if each.query.is_table and each.origin != PUBLIC and each.noise is not None
    ]
    if not sums:
        return None
    precision = sum(1 / variance for _, variance in sums)
    return sum(total / variance for total, variance in sums) / precision, 1 / math.sqrt(precision)


def rows_in_doubt(release: Release) -> str | None:
    """What to tell whoever asserted a number of rows that the noisy total contradicts; None where it does not."""
    asserted, found = release.statement.rows, noisy_total(release)
    if asserted is None or found is None:
        return None
    total, error = found
    if abs(total - asserted) <= _FAR * error:
        return None
    return (
        f"the release's own noisy total is {total:,.0f} (standard error {error:,.2g}), far from the {asserted:,} rows "
        "you asserted as public: all tables were made to add up to that number"
    )
