"""From rows to a release, every stage by its name: plan, count, measure, publish."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from crosstally.budget import Amount, Budget, Neighbours, Objective
from crosstally.errors import CrosstallyError, KeyReusedError, LedgerError, PlanError, SchemaError, SourceError
from crosstally.measurements import ExactTable, Measurement, public_counts
from crosstally.plans.plan import Plan, check_plan, check_rows, spent_by
from crosstally.plans.request import stage_key
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import request_digest
from crosstally.releases import Release, Statement, publish
from crosstally.releases.file.writer import rehearse
from crosstally.releases.publication import rows_known
from crosstally.schema import Schema, check_schema
from crosstally.strategies.planner import Proposal, compare, default_strategy
from crosstally.strategies.rules import check_rules, next_stage
from crosstally.strategies.strategy import Strategy, public_total
from crosstally.workload import Workload

if TYPE_CHECKING:
    from crosstally.sources.counts import EncodedRows
    from crosstally.sources.reading_options import Reading
    from crosstally.sources.source import Source


# A rehearsal names an entry and a plan that do not exist yet, as long as any that will.
_MOST_ENTRIES = 10**18
_SOME_DIGEST = "0" * 64  # as long as a SHA-256 in hexadecimal


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
    objective: Objective | str = Objective.BALANCED,
    rows: int | None = None,
    units: bool = True,
    measures: Iterable[str] = (),
    plan: Plan | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    reading: Reading | None = None,
    progress: Callable[[int], None] | None = None,
    work_dir: str | Path | None = None,
) -> Release:
    """A release of the rows in a source: one file's worth of noisy tables, from which any other can be read.

    Args:
        source: A path, a folder, a glob, a list of paths, a table of pandas, Polars, DuckDB, PyArrow or Spark, a
            ``SparkTable``, a ``Database``, ``Parts`` counted for the plan, or an object of your own that yields batches
            (``sources.source.YieldsBatches``). It is read once, whatever the plan.
        schema: The attributes to publish. Beside a plan only where it has a reading, which is not part of a plan.
        epsilon: The privacy budget; with ``delta`` it is approximate, alone it is pure.
        delta: See epsilon.
        rho: The budget under zero-concentrated privacy, instead of epsilon.
        workload: The tables that matter most.
        strategy: What to measure: "auto", a name, or a strategy with its options.
        neighbours: Which data sets must be hard to distinguish: "add-remove" or "replace". A plan fixes this too.
        objective: What planning minimises: "tables", the errors of tables of every order, or "cells", the weighted sum
            of the variances of all cells of the workload, as in the papers.
        rows: The number of rows, if that is public. It is then taken as exact and recorded as your assertion.
        units: Whether a small part of the budget measures how many units have how many rows, where the schema has a
            unit; see ``plan``.
        measures: Those whose totals are asked for; see ``plan``.
        plan: An approved plan, run without changes, instead of schema, budget, workload and strategy.
        ledger: Where the spend is recorded. Without one you must keep track of the total over several releases.
        key: A name for this release in the ledger. The same key and plan give the same numbers again, for free.
        reading: How the source is written, where neither its names nor the schema's reading show it.
        progress: Called with the number of bytes read so far; never with a number of rows, which is confidential.
        work_dir: A folder for plans in stages: encoded rows beyond 256 MB are kept there in a file without a name and
            of mode 0600 that ends with the process. The system's folder for temporary files by default.
    """
    neighbours = Neighbours(neighbours)
    if plan is not None:
        fixed = (epsilon, delta, rho, workload, measures) == (*(None,) * 4, ()) and strategy == "auto" and units
        _check_given(plan, neighbours, nothing_else=fixed)
    else:
        budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
        ledger = ledger if ledger is None or isinstance(ledger, Ledger) else Ledger.open(ledger)
        asked: dict[str, Any] = {"objective": Objective(objective), "named": workload, "units": units}
        proposal = Proposal(budget, rows=rows, neighbours=neighbours, measures=measures, **asked)
        plan = _planned(source, schema, proposal, ledger, default_strategy(strategy, objective))
    how: dict[str, Any] = {"reading": reading, "progress": progress, "work_dir": work_dir}
    return run(source, plan, schema=schema, rows=rows, ledger=ledger, key=key, **how)


def _check_given(plan: Plan, neighbours: Neighbours, *, nothing_else: bool) -> None:
    check_plan(plan)
    if not nothing_else:
        raise PlanError("a plan fixes budget, workload, strategy and units: leave them out")
    if neighbours not in (Neighbours.ADD_REMOVE, plan.neighbours):
        raise PlanError(f"the plan is for {plan.neighbours} neighbours, got {neighbours}: leave neighbours out")


def _planned(
    source: Any, schema: Schema | None, proposal: Proposal, ledger: Ledger | None, strategies: Sequence[Strategy]
) -> Plan:
    """The plan chosen for a schema; parts are refused, since they were counted for a given plan."""
    from crosstally.sources import source_of

    if schema is None or source_of(source).needs_plan:
        raise PlanError("a release needs a schema, or a plan; parts need the plan for which they were counted")
    check_schema(schema)
    currency = None if ledger is None else ledger.currency
    proposal = replace(proposal, rows=rows_known(schema, proposal.rows))
    chosen = compare(schema, proposal, strategies=strategies, currency=currency).chosen
    if chosen.schema != schema:
        raise PlanError(f"{chosen.strategy} plans for other attributes than the schema's: its plan cannot be released")
    return chosen


def run(
    source: Any,
    plan: Plan,
    *,
    schema: Schema | None = None,
    rows: int | None = None,
    ledger: Ledger | str | Path | None = None,
    key: str | None = None,
    reading: Reading | None = None,
    progress: Callable[[int], None] | None = None,
    work_dir: str | Path | None = None,
) -> Release:
    """The release that a plan asks for: count and measure its stage, plan the next one by its rule; then publish.

    ``schema`` is that of the plan with the steward's reading, by which rows are read.
    """
    from crosstally.sources import Reading, source_of, unit_column

    _check(plan, rows)
    resolved = source_of(source)
    if resolved.needs_plan:
        _check_one_stage(plan)
    resolved = resolved.for_plan(plan)
    rows = rows_known(plan.schema, rows)
    counted = _with_reading(plan, schema)
    unit = unit_column(counted)
    joins = resolved.joins(unit)
    if rows is not None or plan.schema.public_counts():
        resolved.check_all_rows(unit)
    key = uuid.uuid4().hex if key is None else key
    if not isinstance(ledger, Ledger):
        ledger = _open(ledger, plan)
    keys = [stage_key(key, stage + 1) for stage in range(1 + len(plan.later))]
    _check_keys(ledger, keys)
    promise = Statement(
        model="central",
        strategy=plan.strategy,
        budget=plan.budget,
        neighbours=plan.neighbours,
        unit=plan.schema.unit,
        rows=rows,
        rows_are_units=resolved.rows_are_units,
        joins=joins,
    )
    people = _Rows(resolved, counted, reading=reading or Reading(), work_dir=work_dir, progress=progress)
    with closing(people):
        stages, measured = _bought(plan, people, ledger, keys, promise)
    if stages:
        promise = replace(promise, budget=spent_by(stages), entry=measured[0].origin, plan=request_digest(plan))
    elif rows is None:
        raise PlanError(f"{plan.strategy} measures nothing, so it needs rows, the public number of rows")
    published = publish(plan.schema, measured, promise)
    for key, _ in zip(keys, stages, strict=False):
        ledger.delivered(key)
    return published


def _bought(
    plan: Plan, people: _Rows, ledger: Ledger, keys: Sequence[str], promise: Statement
) -> tuple[list[Plan], tuple[Measurement, ...]]:
    """The stages of a plan that were measured, in order, with their measurements.

    Each is rehearsed before it is charged. A later one that cannot be planned or published is left out: what was paid
    for until then is a release by itself.
    """
    public = (*(() if promise.rows is None else (public_total(promise.rows),)), *public_counts(plan.schema))
    stages: list[Plan] = []
    measured: tuple[Measurement, ...] = ()
    stage: Plan | None = plan
    while stage is not None and stage.requests:
        key = keys[len(stages)]
        try:
            _rehearse(stage, ledger, key, measured, promise)
            measured += _measured(people, stage, ledger, key)
            stages.append(stage)
            stage = _next(ledger, (key, keys[len(stages)]), (*public, *measured)) if stage.later else None
        except (LedgerError, SourceError):
            raise
        except CrosstallyError as error:  # of planning the next stage, or of this one before it was charged
            if not stages:
                raise
            warn(_left_out(len(stages) + 1, len(keys), error), stacklevel=4)
            break
    return stages, measured


def _rehearse(stage: Plan, ledger: Ledger, key: str, measured: Sequence[Measurement], promise: Statement) -> None:
    """Raise unless a stage that is not paid for yet can be published together with what was measured before it."""
    if ledger.plan(key) is not None:  # what was paid for is always delivered
        return
    stage.check_countable()
    entry = f"entry {_MOST_ENTRIES} of ledger {ledger.id}"
    rehearse(stage.schema, measured, stage.requests, replace(promise, entry=entry, plan=_SOME_DIGEST))


def _left_out(stage: int, stages: int, error: CrosstallyError) -> str:
    return (
        f"stage {stage} of {stages} is left out and its budget is not spent, the release holds what earlier stages "
        f"measured: {error}"
    )


def count_part(
    source: Any,
    path: str | Path,
    *,
    plan: Plan,
    share: str,
    schema: Schema | None = None,
    reading: Reading | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Count one share of a source for a plan, and write the **exact, confidential** counts to a file of mode 0600.

    When all n shares are counted, by any processes or machines, ``release(Parts(...), plan=plan)`` adds them up. With
    a unit, the hash of the id says which share a row is in, so that no person is in two. Without one, whole files are
    shared out if there are at least n, and otherwise rows by their number. Nothing is spent.

    Args:
        source: The whole source, the same for all shares, which must not change until all are counted.
        path: The file to write.
        plan: The approved plan, of one stage.
        share: Which share, such as "3/8".
        schema: The schema of the plan with its reading, where it has one.
        reading: How the source is written; see ``release``.
        progress: Called with the number of bytes read so far.
    """
    from crosstally.sources import (
        PartOrigin,
        Reading,
        RowEncoding,
        Share,
        count_share,
        plan_digest,
        source_of,
        unit_column,
        write_part,
    )

    place = Share.read(share)
    _check(plan, None)
    _check_one_stage(plan)
    if any(request.query.summed.measure for request in plan.requests):
        raise SourceError("parts hold counts and no totals: release the source whole, or leave the measures out")
    counted, written = _with_reading(plan, schema), reading or Reading()
    resolved = source_of(source)
    exact, seen = count_share(resolved, counted, plan.tables, place, reading=written, progress=progress)
    origin = PartOrigin(
        plan=plan_digest(plan),
        reading=RowEncoding.of(counted, written).digest,
        source=seen,
        rows_are_units=resolved.rows_are_units,
        joins=resolved.joins(unit_column(counted)),
    )
    write_part(Path(path), exact, place, origin)


def _check_one_stage(plan: Plan) -> None:
    if plan.later:
        raise PlanError(
            f"parts are counted for plans of one stage, {plan.strategy} plans more after it has seen noisy numbers: "
            "name another strategy, such as direct, or release the source whole"
        )


def _check_keys(ledger: Ledger, keys: Sequence[str]) -> None:
    """Raise, before anything is spent, when a later stage cannot have its key."""
    if len(keys) == 1:
        return
    first, *others = (ledger.plan(key) is not None for key in keys)
    if not first and any(others):
        raise _belongs_to_another(keys[1 + others.index(True)])


def _belongs_to_another(key: str) -> KeyReusedError:
    return KeyReusedError(f"the key {key!r} belongs to another request; use a new key, or none")


def _next(ledger: Ledger, keys: Sequence[str], seen: Sequence[Measurement]) -> Plan | None:
    """The stage after the one that the first key paid for: from the ledger, or else planned now.

    A stage that was charged before is never planned again: a different version of a rule, or a number of rows that was
    not given then, might ask for something else under the same key.
    """
    key, following = keys
    stage, stored = ledger.plan(key), ledger.plan(following)
    assert stage is not None  # it was measured just now, or before
    if stored is None:
        return next_stage(stage, seen)
    if not stage.is_followed_by(stored):
        raise _belongs_to_another(following)
    return stored


def _with_reading(plan: Plan, schema: Schema | None) -> Schema:
    """The schema by which rows are counted: the plan's, with the reading of the one given."""
    if schema is None:
        return plan.schema
    check_schema(schema)
    if schema.identity() != plan.schema.identity():
        raise PlanError("the schema given must have the attributes, cells, unit and period that the plan is about")
    return schema


class _Rows:
    """The rows of a source, read by a schema. It is read at most once, when the first stage must be counted.

    Where more stages may follow, the rows are kept encoded for them; the last stage by itself is counted in passing.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        *,
        reading: Reading,
        work_dir: str | Path | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.schema = schema
        self.reading = reading
        self._source, self._work_dir, self._progress = source, work_dir, progress
        self._encoded: EncodedRows | None = None

    def count(self, plan: Plan) -> tuple[ExactTable, ...]:
        """The exact tables that a stage asks for."""
        from crosstally.sources import count, encode_rows

        if self._source.merged is not None:  # ``measure`` sees that they are the plan's own
            return self._source.merged.tables
        if self._encoded is None and not plan.later:
            return count(self._source, self.schema, plan.tables, reading=self.reading, progress=self._progress)
        if self._encoded is None:
            self._encoded = encode_rows(
                self._source, self.schema, reading=self.reading, work_dir=self._work_dir, progress=self._progress
            )
        return self._encoded.count(plan.tables)

    def reading_digest(self) -> str | None:
        """The digest of how they are read."""
        from crosstally.sources import RowEncoding

        if self._source.merged is not None:
            return self._source.merged.origin.reading
        return RowEncoding.of(self.schema, self.reading).digest

    def close(self) -> None:
        """Release the kept rows."""
        if self._encoded is not None:
            self._encoded.close()


def _measured(rows: _Rows, plan: Plan, ledger: Ledger, key: str) -> tuple[Measurement, ...]:
    """The measurements for the plan's requests: drawn now, or stored when the same key was used before."""
    from crosstally.privacy.measure import measure_counted
    from crosstally.sources import note_reading

    def exact() -> tuple[ExactTable, ...]:
        counted = rows.count(plan)
        note_reading(rows.reading_digest(), ledger.path, key)
        return counted

    return measure_counted(exact, plan, ledger=ledger, key=key)


def _open(ledger: str | Path | None, plan: Plan) -> Ledger:
    if ledger is None:
        return Ledger.in_memory(schema=plan.schema, budget=plan.budget, neighbours=plan.neighbours)
    return Ledger.open(ledger)


def _check(plan: Plan, rows: int | None) -> None:
    check_plan(plan)
    check_rows(rows)
    if plan.schema.draft:
        raise SchemaError("the schema is a draft: review its labels, which would become public, then remove 'draft'")
    plan.check_countable()
    check_rules(plan)
