"""What is audited: small schemas, and the plans that every strategy makes for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product

import numpy as np

from crosstally.budget import Budget, Neighbours
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Kronecker, Query
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally.strategies import MWEM, NAMED, Adaptive, Fourier, GreedyMerge, Residual, Strategy, Views
from crosstally.strategies.planner import Proposal, compare
from crosstally.strategies.rules import next_stage
from crosstally.strategies.strategy import requests_with_shares
from crosstally.workload import Workload
from crosstally_lab.audit.definitions import Json, answer

BUDGETS = {
    "epsilon": Budget(epsilon=1),
    "rho": Budget(rho="1/2"),
    "epsilon and delta": Budget(epsilon=1, delta="1e-6"),
}

STRATEGIES: dict[str, Strategy] = {
    **NAMED,
    "views of 2 attributes": Views(size=2, cover=2),
    "views of 6 cells": Views(max_cells=6),
    "clustered, equal budgets": GreedyMerge("uniform"),
    "fourier, equal budgets": Fourier(budgets="uniform"),
    "residual, largest variance": Residual(objective="max"),
    "mwem of 2 rounds": MWEM(rounds=2, rows=20),
    "adaptive of 2 rounds": Adaptive(rounds=2),
}
"""Every strategy by its name, also with the options that change what is measured."""


def schema_of(*sizes: int, unit: Unit | None = None, outside: Outside = Outside.REFUSE) -> Schema:
    """Attributes a, b, c, ... of these sizes, with labels 0, 1, ..."""
    return Schema(
        [Attribute("abcdef"[i], [str(v) for v in range(n)], outside=outside) for i, n in enumerate(sizes)], unit
    )


SCHEMAS = {
    "rows": schema_of(2, 3),
    "rows that may be dropped": schema_of(2, 3, outside=Outside.DROP),
    "units of up to 2 rows": schema_of(2, 3, unit=Unit("id", 2)),
}
_PREFIXES = [[1, 0, 0], [1, 1, 0]]
"""A matrix along three values that, with the total, determines every cell. Chosen: the smallest; any would do."""
_RANGES = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]]
"""A matrix that determines every cell without the total: all ranges of three values. Chosen; any would do."""
WORKLOADS = {"small tables": None, "weighted": Workload([("a",), ("a", "b")], [5, 1])}


@dataclass(frozen=True, slots=True)
class PlanCase:
    """A plan under audit; ``subject`` is the line of the report that it belongs to."""

    subject: str
    plan: Plan
    _: KW_ONLY
    may_drop: bool = False


def plan_cases() -> Iterator[PlanCase]:
    """Every strategy, budget, relation, unit and workload; then each kind of query by itself."""
    for (about, budget), relation, schema in product(BUDGETS.items(), Neighbours, SCHEMAS.values()):
        for (name, strategy), workload in product(STRATEGIES.items(), WORKLOADS.values()):
            if not (budget.pure and isinstance(strategy, Residual)):  # it plans for Gaussian noise alone
                plan = strategy.plan(schema, workload, budget, neighbours=relation)
                yield PlanCase(f"{name}, {about}", plan)
        auto = compare(schema, Proposal(budget, neighbours=relation, rows=100)).chosen
        yield PlanCase(f"auto, {about}", auto)
        for kind, queries in _kinds_of_query().items():
            yield PlanCase(f"{kind}, {about}", planned_queries(queries, schema, budget, relation))


def _kinds_of_query() -> dict[str, tuple[Query, ...]]:
    """Each kind of query: cells in groups, contrasts with cells, linear queries, matrices, choices with weights."""
    return {
        "grouped cells": (Cells(("a", "b"), {"b": [0, 0, 1]}), Cells(("b",), {"b": [0, 0, 1]})),
        "contrasts": (Contrast(("a",)), Contrast(("b",)), Contrast(("a", "b")), Cells(())),
        "linear queries": (
            Linear((Term(1, (("b", (0, 1, 5)),)), Term(-2, (("a", (1, 0)),)))),
            Linear((Term(1, (("a", (1, 0)), ("b", (1, 1, 0)))),)),
        ),
        "prefixes, by a matrix": (
            Cells(()),
            Contrast(("a",)),
            Kronecker(("b",), {"b": _PREFIXES}),
            Kronecker(("a", "b"), {"b": _PREFIXES}),
        ),
        "ranges, by a matrix": (Kronecker(("a", "b"), {"b": _RANGES}),),
        "choice": (Choice([("a",), ("b",), ("a", "b")], [[2, 1], [1, 1, 1], [0, 1, 0, 1, 0, 1]], penalties=[0, 1, 2]),),
        "weighted choice": (Choice([("a",), ("a", "b")], [[3, 0], [1] * 6], weights=["1/2", "1/3"]),),
    }


def planned_queries(queries: Sequence[Query], schema: Schema, budget: Budget, relation: Neighbours) -> Plan:
    """A plan that asks these queries, with shares 1, 2, ... of the budget; of choices there is one."""
    requests = requests_with_shares(queries, range(1, len(queries) + 1), schema, budget, relation)
    return Plan(schema, requests, strategy="audit", workload=Workload([("a",)]), budget=budget, neighbours=relation)


def stages_of(plan: Plan) -> list[Plan]:
    """All stages of a plan: what each later one asks follows from answers, which are made up here.

    What a stage may cost must not depend on the answers before it, so any will do: those of a made-up table.
    """
    stages, seen = [plan], list[Measurement]()
    while stages[-1].later:
        seen += [_made_up(request, plan.schema) for request in stages[-1].requests]
        following = next_stage(stages[-1], seen)
        if following is None or not following.requests:
            break
        stages.append(following)
    return stages


def _made_up(request: Request, schema: Schema) -> Measurement:
    """An answer as it might be drawn, of a table with 3 rows in the first cell and 2 in each other one."""
    given: Json = schema.to_dict()
    cells = list(product(*(range(size) for size in schema.shape)))
    numbers = answer(request.query.to_dict(), given, (cells[0], *cells, *cells))
    shape, picks = request.query.shape(schema), request.query.picks
    is_choice = isinstance(request.query, Choice)
    values = np.array((-numbers).argsort(kind="stable")[:picks] if is_choice else numbers).reshape(shape)
    return Measurement(request.query, values, variance=request.noise.variance, noise=request.noise, origin="audit")
