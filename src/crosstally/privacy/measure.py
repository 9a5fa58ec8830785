"""The only path from confidential counts to publishable numbers: charge, draw, store, in that order."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.errors import PlanError
from crosstally.measurements import ExactTable, Measurement
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.noise import LIMIT, Mechanism, check_range, mechanism
from crosstally.query.queries import Query
from crosstally.query.summed import ROWS
from crosstally.query.unit_table import CountedTable


def measure(
    exact: Sequence[ExactTable], plan: Plan, *, ledger: Ledger, key: str | None = None
) -> tuple[Measurement, ...]:
    """The noisy answer to each request of the plan's stage, in order, paid from the ledger.

    Everything that can fail is tried before the plan's budget is charged. What is drawn is stored before it is
    returned. With a key that was used before, the same request gets what was stored then: nothing is charged or
    drawn, and the tables are not read.

    Args:
        exact: The tables that the plan names, each counted over its attributes in the plan's order.
        plan: What to measure and with which noise.
        ledger: Where the spend is recorded; of the same schema and neighbours as the plan.
        key: A name for this spend, chosen by the caller so that the call can be repeated; random by default.
    """
    if not plan.requests:
        return ()
    key = uuid.uuid4().hex if key is None else key
    _check_plan(plan)
    ledger.check(plan)
    stored = ledger.recall(plan, key)
    return _measure_new(exact, plan, ledger, key) if stored is None else stored


def measure_counted(
    count: Callable[[], Sequence[ExactTable]], plan: Plan, *, ledger: Ledger, key: str
) -> tuple[Measurement, ...]:
    """The same, with tables counted only if needed: a stored or unaffordable request reads no rows."""
    ledger.check(plan)
    stored = ledger.recall(plan, key, affordable=True)
    if stored is not None:
        return stored
    _check_plan(plan)
    return _measure_new(count(), plan, ledger, key)


def _measure_new(exact: Sequence[ExactTable], plan: Plan, ledger: Ledger, key: str) -> tuple[Measurement, ...]:
    """Measure for a key that was new a moment ago: ``charge`` finds out whether it still is."""
    answers = _exact_answers(exact, plan)
    mechanisms = _mechanisms(plan)
    if not ledger.charge(plan, key):
        return ledger.measurements(key)
    return ledger.store(key, _draw(answers, plan, mechanisms))


def sampler_of(plan: Plan) -> Callable[[Sequence[NDArray[np.int64]]], list[NDArray[np.int64]]]:
    """The sampler of ``measure`` without the charge: for the audit, whose answers are artificial and of any shape."""
    mechanisms = _mechanisms(plan)
    return lambda answers: _draw(answers, plan, mechanisms)


def _check_plan(plan: Plan) -> None:
    if plan.schema.draft:
        raise PlanError("the schema is a draft; review it, remove its draft mark, and plan again")
    cost = privacy_cost(plan.requests, plan.schema, plan.neighbours, currency=plan.budget.currency)
    if cost > plan.own_budget.amount:
        raise PlanError(f"the plan costs more than its budget of {plan.own_budget}")


def _exact_answers(exact: Sequence[ExactTable], plan: Plan) -> list[NDArray[np.int64]]:
    """The confidential answer to each request; raises when a table is missing or counts are too large."""
    tables = {each.table: each for each in exact}
    for needed in plan.tables:
        names = needed.attributes
        if needed not in tables or tables[needed].schema.identity() != plan.schema.subset(*names).identity():
            raise PlanError(
                f"the plan needs the table of {' x '.join(names) or 'no attributes'}, counted by its schema"
            )
    answers = [_exact_answer(tables, request.query, plan) for request in plan.requests]
    for answer in answers:
        check_range(answer)
    return answers


def _exact_answer(tables: Mapping[CountedTable, ExactTable], query: Query, plan: Plan) -> NDArray[np.int64]:
    exact = [tables[table].counts for table in query.tables]
    counts = exact[0] if len(exact) == 1 else np.concatenate([each.ravel() for each in exact])
    is_sum = query.summed != ROWS  # already of values; of counts each may be weighed
    for_each_row = 1 if is_sum else query.sensitivity(plan.schema, Neighbours.ADD_REMOVE).l1 / plan.schema.max_rows
    if for_each_row * float(np.abs(counts.astype(np.float64)).sum()) >= LIMIT:
        raise PlanError("exact answers must be below 2^62 in size for noise to be added; the counts are too large")
    return np.asarray(query.in_parts(plan.schema.parts).answer(counts), dtype=np.int64)


def _mechanisms(plan: Plan) -> dict[tuple[Noise, int], Mechanism]:
    """A sampler for each noise and number of picks of the plan, its cost checked for every request that uses it."""
    asked: dict[tuple[Noise, int], set[Sensitivity]] = {}
    for request in plan.requests:
        kind = request.noise, request.query.picks
        asked.setdefault(kind, set()).add(request.query.sensitivity(plan.schema, plan.neighbours))
    return {kind: mechanism(kind[0], sensitivities, picks=kind[1]) for kind, sensitivities in asked.items()}


def _draw(
    answers: Sequence[NDArray[np.int64]], plan: Plan, mechanisms: Mapping[tuple[Noise, int], Mechanism]
) -> list[NDArray[np.int64]]:
    """Noise on every answer; those with the same noise are drawn together, since each call takes time.

    A choice returns only the indices of the largest noisy scores.
    """
    noisy: list[NDArray[np.int64]] = list(answers)
    for (noise, picks), sampler in mechanisms.items():
        asked = enumerate(plan.requests)
        chosen = [i for i, each in asked if each.noise == noise and each.query.picks == picks]
        if noise.kind is NoiseKind.GUMBEL:
            for i in chosen:
                noisy[i] = sampler.choose(answers[i]).reshape(plan.requests[i].query.shape(plan.schema))
            continue
        drawn = sampler.draw(np.concatenate([answers[i].ravel() for i in chosen]))
        ends = np.cumsum([answers[i].size for i in chosen])
        for i, part in zip(chosen, np.split(drawn, ends[:-1]), strict=True):
            noisy[i] = part.reshape(answers[i].shape)
    return noisy
