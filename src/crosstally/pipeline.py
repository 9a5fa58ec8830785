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
from crosstally.strategies.plan import Order, Plan, Strategy, public_total
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
    if plan is not None:
        if (schema, epsilon, delta, rho, workload) != (None,) * 5 or strategy != "auto":
            raise PlanError("a plan fixes schema, budget, workload and strategy: give it alone")
        return run(source, Order.of(plan), rows=rows, ledger=ledger, key=key, progress=progress)
    if schema is None:
        raise PlanError("a release needs a schema, or a plan")
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)  # type: ignore[arg-type]
    strategies = read_strategies(strategy)
    if len(strategies) > 1:
        order = compare(schema, workload, budget, neighbours=neighbours, strategies=strategies, rows=rows).order
    else:
        (only,) = strategies
        order = Order(schema=schema, strategy=only, workload=workload, budget=budget, neighbours=neighbours)
    return run(source, order, rows=rows, ledger=ledger, key=key, progress=progress)


def run(
    source: Any,
    order: Order | Plan,
    *,
    rows: int | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """The release that an order or an approved plan asks for, stage by stage: plan, count, measure; then publish."""
    order = Order.of(order) if isinstance(order, Plan) else order
    _check(order, rows)
    key = uuid.uuid4().hex if key is None else key
    if not isinstance(ledger, Ledger):
        ledger = _open(ledger, order)
    public = () if rows is None else (public_total(rows),)
    measured: tuple[Measurement, ...] = ()
    keys: list[str] = []
    while (plan := order.next((*public, *measured))) is not None and plan.requests:
        keys.append(f"{key}/{len(keys) + 1}" if keys else key)
        measured += _measured(source, plan, ledger, keys[-1], progress)
    if not measured and rows is None:
        raise PlanError(f"{order.strategy.name} measures nothing, so it needs rows, the public number of rows")
    statement = Statement(
        model="central",
        strategy=order.strategy.name,
        budget=order.budget,
        neighbours=order.neighbours,
        unit=order.schema.unit,
        rows=rows,
        entry=measured[0].origin if measured else None,
    )
    published = publish(order.schema, measured, statement)
    for each in keys:
        ledger.delivered(each)
    return published


def _measured(
    source: Any, plan: Plan, ledger: Ledger, key: str, progress: Callable[[int], None] | None
) -> tuple[Measurement, ...]:
    """What the plan's requests got: now, or when the same key asked before."""
    from crosstally.privacy.measure import measure_counted
    from crosstally.sources import count

    return measure_counted(
        lambda: count(source, plan.schema, plan.tables, progress=progress), plan, ledger=ledger, key=key
    )


def _open(ledger: str | Path | None, order: Order) -> Ledger:
    if ledger is None:
        return Ledger.in_memory(schema=order.schema, budget=order.budget, neighbours=order.neighbours)
    return Ledger.open(ledger)


def _check(order: Order, rows: int | None) -> None:
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
        raise PlanError(f"rows must be a whole number of at least 0, got {rows!r}")
    if order.schema.draft:
        raise SchemaError("the schema is a draft: review its labels, which would become public, then remove 'draft'")
