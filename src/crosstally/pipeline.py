"""From rows to a release, every stage by its name: plan, count, measure, publish."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosstally.budget import Amount, Budget, Neighbours
from crosstally.errors import KeyReusedError, PlanError, SchemaError, SourceError
from crosstally.plans.plan import Plan, public_total
from crosstally.plans.stages import stage_key
from crosstally.privacy.ledger import Ledger
from crosstally.releases import Release, Statement, publish
from crosstally.schema import Schema
from crosstally.strategies.base import Strategy
from crosstally.strategies.planner import compare, read_strategies
from crosstally.strategies.rules import check_rules, next_stage
from crosstally.tables import Measurement
from crosstally.workload import Workload

if TYPE_CHECKING:
    from crosstally.sources import Reading

__all__ = ["release", "run"]


def release(
    source: Any,
    schema: Schema | None = None,
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    workload: Workload | None = None,
    strategy: str | Strategy = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rows: int | None = None,
    plan: Plan | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    reading: Reading | None = None,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """A release of the rows in a source: one file's worth of noisy tables, from which any other can be read.

    Args:
        source: A path, a folder, a glob, a list of paths, or a table of pandas, Polars, DuckDB or PyArrow. Some
            plans read it twice; what can be read once, such as a cursor, is then refused before anything is spent.
        schema: The attributes to publish; left out when a plan is given.
        epsilon: The privacy budget; with ``delta`` it is approximate, alone it is pure.
        delta: See epsilon.
        rho: The budget under zero-concentrated privacy, instead of epsilon.
        workload: The tables that matter most.
        strategy: What to measure: "auto", a name, or a strategy with its options.
        neighbours: Which tables must be hard to tell apart: "add-remove" or "replace". A plan fixes this too.
        rows: The number of rows, if that is public. It is then taken as exact and recorded as your assertion.
        plan: An approved plan, run exactly as it stands, instead of schema, budget, workload and strategy.
        ledger: Where the spend is recorded. Without one nothing outlives this call: the total over several releases of
            the same people is then yours to keep.
        key: A name for this release in the ledger. Asking again with the same key and plan gives the same numbers
            again and spends nothing.
        reading: How the source is written, where its names do not show it: separators, encoding, sheet, table.
        progress: Called with the number of bytes read so far, of all files together, from 0 for each stage. Never for a
            table in memory. No number of rows is told: that is confidential.
    """
    neighbours = Neighbours(neighbours)
    if plan is not None:
        if (schema, epsilon, delta, rho, workload) != (None,) * 5 or strategy != "auto":
            raise PlanError("a plan fixes schema, budget, workload and strategy: give it alone")
        if neighbours not in (Neighbours.ADD_REMOVE, plan.neighbours):
            raise PlanError(f"the plan is for {plan.neighbours} neighbours, got {neighbours}: leave neighbours out")
        return run(source, plan, rows=rows, ledger=ledger, key=key, reading=reading, progress=progress)
    if schema is None:
        raise PlanError("a release needs a schema, or a plan")
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    strategies = read_strategies(strategy)
    chosen = compare(schema, workload, budget, neighbours=neighbours, strategies=strategies, rows=rows).chosen
    if chosen.schema != schema:
        raise PlanError(f"{chosen.strategy} plans for other attributes than the schema's: its plan cannot be released")
    return run(source, chosen, rows=rows, ledger=ledger, key=key, reading=reading, progress=progress)


def run(
    source: Any,
    plan: Plan,
    *,
    rows: int | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    reading: Reading | None = None,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """The release that a plan asks for: count and measure its stage, plan the next one by its rule; then publish."""
    _check(plan, rows)
    key = uuid.uuid4().hex if key is None else key
    if not isinstance(ledger, Ledger):
        ledger = _open(ledger, plan)
    keys = [stage_key(key, stage + 1) for stage in range(1 + len(plan.later))]
    _check_keys(ledger, keys)
    public = () if rows is None else (public_total(rows),)
    _check_source(source, plan, ledger, keys)
    measured: tuple[Measurement, ...] = ()
    used: list[str] = []
    stage: Plan | None = plan
    while stage is not None and stage.requests:
        used.append(keys[len(used)])
        measured += _measured(source, stage, ledger, used[-1], reading=reading, progress=progress)
        stage = _next(ledger, keys[len(used) - 1 : len(used) + 1], (*public, *measured)) if stage.later else None
    if not measured and rows is None:
        raise PlanError(f"{plan.strategy} measures nothing, so it needs rows, the public number of rows")
    statement = Statement(
        model="central",
        strategy=plan.strategy,
        budget=plan.budget,
        neighbours=plan.neighbours,
        unit=plan.schema.unit,
        rows=rows,
        entry=measured[0].origin if measured else None,
    )
    published = publish(plan.schema, measured, statement)
    for each in used:
        ledger.delivered(each)
    return published


def _check_keys(ledger: Ledger, keys: Sequence[str]) -> None:
    """Raise, before anything is spent, when a later stage cannot have its key."""
    first, *others = (ledger.plan(key) is not None for key in keys)
    if not first and any(others):
        raise _belongs_to_another(keys[1 + others.index(True)])


def _check_source(source: Any, plan: Plan, ledger: Ledger, keys: Sequence[str]) -> None:
    """Raise, before anything is spent, when a plan of several stages could not read the same rows for each of them."""
    from crosstally.sources import is_read_again

    bought = all(ledger.plan(key) is not None for key in keys)  # then nothing is read at all
    if plan.later and not bought and not is_read_again(source):
        raise SourceError(
            f"the plan reads its rows more than once, and the {type(source).__name__} may have them only once; "
            "give pyarrow.table(rows) or a file, or the number of rows if that is public (rows=...)"
        )


def _belongs_to_another(key: str) -> KeyReusedError:
    return KeyReusedError(f"the key {key!r} belongs to another request; use a new key, or none")


def _next(ledger: Ledger, keys: Sequence[str], seen: Sequence[Measurement]) -> Plan | None:
    """The stage after the one that the first key has bought: as it stands in the ledger, or else planned now.

    A stage that was charged before is never planned again: another version of a rule, or a number of rows that was not
    given then, might ask for something else under the same key.
    """
    key, following = keys
    stage, stored = ledger.plan(key), ledger.plan(following)
    assert stage is not None  # it was measured just now, or before
    if stored is None:
        return next_stage(stage, seen)
    if not stage.is_followed_by(stored):
        raise _belongs_to_another(following)
    return stored


def _measured(
    source: Any,
    plan: Plan,
    ledger: Ledger,
    key: str,
    *,
    reading: Reading | None,
    progress: Callable[[int], None] | None,
) -> tuple[Measurement, ...]:
    """What the plan's requests got: now, or when the same key asked before."""
    from crosstally.privacy.measure import measure_counted
    from crosstally.sources import Reading, count

    written = reading or Reading()
    return measure_counted(
        lambda: count(source, plan.schema, plan.tables, reading=written, progress=progress),
        plan,
        ledger=ledger,
        key=key,
    )


def _open(ledger: str | Path | None, plan: Plan) -> Ledger:
    if ledger is None:
        return Ledger.in_memory(schema=plan.schema, budget=plan.budget, neighbours=plan.neighbours)
    return Ledger.open(ledger)


def _check(plan: Plan, rows: int | None) -> None:
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
        raise PlanError(f"rows must be a whole number of at least 0, got {rows!r}")
    if plan.schema.draft:
        raise SchemaError("the schema is a draft: review its labels, which would become public, then remove 'draft'")
    plan.check_countable()
    check_rules(plan)
