"""Make a release from measurements. This uses neither rows nor noise: it is post-processing and free.

The cost of the measurements is computed again from their queries and noise, so a release cannot contradict its
statement. The measurements of one ledger entry are one stage: they were charged together, at the joint cost of the
plan. Entries compose additively, in epsilon and in rho, even if a later entry depends on the results of an earlier one.

The public number of rows in the statement is compared with the release's own noisy counts. Both are published, so this
costs nothing, and anyone with the file can repeat it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from crosstally.budget import SIGNS, Budget, Currency, Neighbours, NoiseKind
from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.estimates import ROUNDS, Inference, infer, unsolved_estimate, usual_correction
from crosstally.measurements import PUBLIC, Chosen, Measurement, public_counts
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.request import Request
from crosstally.query.queries import MAX_CELLS, Query
from crosstally.query.ways import check_parts, matrices_of, mixed_of
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement
from crosstally.releases.unit_counts import noisy_total, unit_rows_of
from crosstally.residuals import Estimate
from crosstally.residuals.mixed import MixedAxes
from crosstally.schema import Schema

MOST_TOTALS = 200_000
"""Totals of measures in one release: they stand in the header of its file, about 10 bytes each, beside the schema."""
# How far, relatively, a file's variance may be from the one that its noise has: it was computed with the
# exponential function of a different machine, and a false claim would be further off.
_SAME_VARIANCE = 1e-9


def publish(
    schema: Schema,
    measurements: Iterable[Measurement],
    statement: Statement,
    *,
    nonnegative: str | None = None,
    rounds: int = ROUNDS,
) -> Release:
    """Make a release from these measurements. It is free and has no access to rows.

    Args:
        schema: The schema of the measured table.
        measurements: Noisy answers, central or local; public counts of the schema's facts join them. Of choices
            the release states what was chosen; they contain no counts.
        statement: The privacy guarantee of the measurements.
        nonnegative: How negative cells are corrected; ``none`` leaves the unbiased least squares estimate. The
            default is that of ``usual_correction``.
        rounds: How often tables are corrected and made consistent again.
    """
    return _published(schema, measurements, statement, infer, nonnegative=nonnegative, rounds=rounds)


def unsolved(schema: Schema, measurements: Iterable[Measurement], statement: Statement) -> Release:
    """The release that ``publish`` makes without its estimate, in a small part of the time.

    It raises whatever ``publish`` would: it uses the queries and noise of the measurements, never their values.
    """
    return _published(schema, measurements, statement, unsolved_estimate)


def _published(
    schema: Schema,
    measurements: Iterable[Measurement],
    statement: Statement,
    solve: Callable[..., Inference | Estimate],
    *,
    nonnegative: str | None = None,
    rounds: int = ROUNDS,
) -> Release:
    schema, measured = schema.public(), tuple(measurements)
    statement = replace(statement, rows=rows_known(schema, statement.rows))
    if statement.unit != schema.unit:
        raise ReleaseError("the unit of the statement must be that of the schema")
    choices = tuple(Chosen.of(each) for each in measured if each.query.is_choice)
    units = None if schema.unit is None else unit_rows_of(schema, measured)
    totals = totals_of(schema, measured)
    measured = tuple(each for each in measured if each.query.is_linear)
    measured += () if any(each.origin == PUBLIC for each in measured) else public_counts(schema)
    check_measurements(schema, measured)
    nonnegative = usual_correction(measured) if nonnegative is None else nonnegative
    found = solve(schema, measured, rows=statement.rows, nonnegative=nonnegative, rounds=rounds)
    fitted = found if isinstance(found, Inference) else None
    return Release(
        schema,
        measured,
        statement=statement,
        estimate=found.estimate if isinstance(found, Inference) else found,
        nonnegative=nonnegative,
        rounds=rounds,
        choices=choices,
        unit_rows=units,
        fitted=fitted,
        totals=totals,
    )


def totals_of(schema: Schema, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """The sums of measures among measurements, if they fit the schema and the variance of their noise."""
    totals = tuple(each for each in measurements if each.query.summed.measure is not None)
    if sum(each.values.size for each in totals) > MOST_TOTALS:
        raise ReleaseError(f"a release holds at most {MOST_TOTALS:,} totals of measures: name fewer or smaller tables")
    for i, each in enumerate(totals):
        schema.measure(each.query.summed.measure or "")
        if each.values.shape != each.query.shape(schema) or each.noise is None or each.query.groups:
            raise ReleaseError(f"total {i} must have its table's values, with noise, and none in groups")
        check_variance(each.variance, each.noise.variance, f"total {i}")
    return totals


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
    """Raise unless the measurements fit the schema and the limits, and state the variance of their noise."""
    check_queries(schema, (measurement.query for measurement in measurements))
    for i, measurement in enumerate(measurements):
        shape, where = measurement.query.shape(schema), f"measurement {i}"
        if measurement.values.shape != shape:
            raise ReleaseError(f"{where} must have values of shape {shape}, got {measurement.values.shape}")
        if measurement.noise is not None:
            check_variance(measurement.variance, measurement.noise.variance, where)


def check_variance(claimed: float, actual: float, where: str) -> None:
    """Raise unless a variance is that of its noise."""
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
        relation, budget = statement.neighbours, statement.budget
        costs = costs_of_entries(schema, relation, measurements, choices, currency=budget.currency)
        cost = sum(costs.values(), Fraction(0))
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
    currency: Currency,
) -> Mapping[str, Fraction]:
    """What each ledger entry paid for."""
    requests: dict[str, list[Request]] = defaultdict(list)
    for each in measurements:
        if each.noise is not None:
            requests[each.origin].append(Request(each.query, each.noise))
    costs: dict[str, Fraction] = defaultdict(Fraction)
    for origin, asked in requests.items():
        costs[origin] += privacy_cost(asked, schema, neighbours, currency=currency)
    for chosen in choices:
        costs[chosen.origin] += _choice_cost(chosen, schema, neighbours, currency=currency)
    return costs


def _choice_cost(chosen: Chosen, schema: Schema, neighbours: Neighbours | str, *, currency: Currency) -> Fraction:
    """What a choice cost (``query.choice``)."""
    assert chosen.noise.kind is NoiseKind.GUMBEL
    moved = 1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2
    most = chosen.weight * moved * schema.max_rows
    return len(chosen.numbers) * chosen.noise.unit_cost(currency) * (most if currency == "epsilon" else most**2)


def foreign_origins(statement: Statement, measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """The sources of answers not paid by the statement's budget: other mechanisms with their own guarantees."""
    if statement.model == "local":
        return ()
    origins = (each.origin for each in measurements if each.noise is None and each.origin != PUBLIC)
    return tuple(dict.fromkeys(origins))


def _rounded(cost: Fraction, budget: Budget) -> str:
    sign = SIGNS[budget.currency]
    return f"{sign} = {float(cost):.6g}" if cost < 10**300 else f"{sign} above 1e300"


_FAR = 5.0
"""Standard errors between the noisy total and the asserted number. Chosen: one Laplace number is further away in
exp(-5 sqrt(2)) = 1 of 1,200 releases, a Gaussian one in 1 of 1.7 million; a wrong assertion is mostly hundreds away. A
smaller number would raise false alarms; a larger one passes over assertions that are slightly wrong."""


def rows_in_doubt(release: Release) -> str | None:
    """The warning if the noisy total contradicts the asserted number of rows, else None."""
    asserted, estimated = release.statement.rows, noisy_total(release.measurements)
    if asserted is None or estimated is None:
        return None
    total, error = estimated
    if abs(total - asserted) <= _FAR * error:
        return None
    return (
        f"the release's own noisy total is {total:,.0f} (standard error {error:,.2g}), far from the {asserted:,} rows "
        "you asserted as public: all tables were made to add up to that number"
    )
