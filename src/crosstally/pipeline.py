"""From rows to a release, every stage by its name: plan, count, measure, publish."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crosstally.budget import Budget, Neighbours
from crosstally.errors import PlanError, SchemaError
from crosstally.privacy.ledger import Ledger
from crosstally.releases import Release, Statement, publish
from crosstally.schema import Schema
from crosstally.strategies.plan import Plan, Strategy
from crosstally.strategies.planner import compare, read_strategies
from crosstally.tables import Measurement
from crosstally.workload import Workload

__all__ = ["release", "run"]


def release(
    source: Any,
    schema: Schema | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    workload: Workload | None = None,
    strategy: str | Strategy = "auto",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    rows: int | None = None,
    plan: Plan | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """A release of the rows in a source: one file's worth of noisy tables, from which any other can be read.

    Args:
        source: A path, a glob, a list of paths, or a table that speaks Arrow (pandas, Polars, DuckDB, PyArrow).
        schema: The attributes to publish; left out when a plan is given.
        epsilon: The privacy budget; with ``delta`` it is approximate, alone it is pure.
        delta: See epsilon.
        rho: The budget under zero-concentrated privacy, instead of epsilon.
        workload: The tables that matter most.
        strategy: What to measure: "auto", a name, or a strategy with its options.
        neighbours: Which tables must be hard to tell apart.
        rows: The number of rows, if that is public. It is then taken as exact and recorded as your assertion.
        plan: An approved plan, run exactly as it stands, instead of schema, budget, workload and strategy.
        ledger: Where the spend is recorded. Without one nothing outlives this call: the total over several releases of
            the same people is then yours to keep.
        key: A name for this release in the ledger. Asking again with the same key and plan gives the same numbers
            again and spends nothing.
        progress: Called with the number of rows read so far.
    """
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
        raise PlanError(f"rows must be a whole number of at least 0, got {rows!r}")
    strategies = read_strategies(strategy)
    if plan is None:
        if schema is None:
            raise PlanError("a release needs a schema, or a plan")
        budget = Budget(epsilon=epsilon, delta=delta, rho=rho)  # type: ignore[arg-type]
        _check_reviewed(schema)
        plan = compare(schema, workload, budget, neighbours=neighbours, strategies=strategies).chosen
    elif (schema, epsilon, delta, rho, workload) != (None,) * 5 or strategy != "auto":
        raise PlanError("a plan fixes schema, budget, workload and strategy: give it alone")
    return run(source, plan, rows=rows, ledger=ledger, key=key, progress=progress)


def run(
    source: Any,
    plan: Plan,
    *,
    rows: int | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """The release that a plan describes."""
    _check_reviewed(plan.schema)
    if not plan.requests and rows is None:
        raise PlanError(f"the strategy {plan.strategy} measures nothing, so it needs rows, the public number of rows")
    key = uuid.uuid4().hex if key is None else key
    if not isinstance(ledger, Ledger):
        ledger = _open(ledger, plan)
    measurements = _measured(source, plan, ledger, key, progress)
    statement = Statement(
        model="central",
        strategy=plan.strategy,
        budget=plan.budget,
        neighbours=plan.neighbours,
        unit=plan.schema.unit,
        rows=rows,
        entry=measurements[0].origin if measurements else None,
    )
    published = publish(plan.schema, measurements, statement)
    if measurements:
        ledger.delivered(key)
    return published


def _measured(
    source: Any, plan: Plan, ledger: Ledger, key: str, progress: Callable[[int], None] | None
) -> tuple[Measurement, ...]:
    """What the plan's requests got: now, or when the same key asked before. What cannot be paid reads no rows."""
    if not plan.requests:
        return ()
    ledger.check(plan)
    stored = ledger.recall(plan, key)
    if stored is not None:
        return stored
    ledger.check_left(plan)
    from crosstally.privacy.measure import measure
    from crosstally.sources import count

    exact = count(source, plan.schema, plan.tables, progress=progress)
    return measure(exact, plan, ledger=ledger, key=key)


def _open(ledger: str | Path | None, plan: Plan) -> Ledger:
    if ledger is None:
        return Ledger.in_memory(schema=plan.schema, budget=plan.budget, neighbours=plan.neighbours)
    return Ledger.open(ledger)


def _check_reviewed(schema: Schema) -> None:
    if schema.draft:
        raise SchemaError("the schema is a draft: review its labels, which would become public, then remove 'draft'")
