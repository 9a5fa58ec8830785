"""Part one: the exact privacy loss of everything that plans, counts, asks or reports, beside what it claims.

Loss is worked out from ``definitions`` and ``channels`` by enumeration, for toy tables on which that is possible. A
plan of several stages loses at most the sum of what its stages lose, whatever was answered in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa

from crosstally.budget import Budget, Neighbours
from crosstally.local import design
from crosstally.local.oracles import ORACLES, Oracle
from crosstally.local.planning.methods import METHODS
from crosstally.notebook.notebook import Notebook
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger import Ledger
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally.sources import count
from crosstally.strategies import Direct
from crosstally.workload import Workload
from crosstally_lab.audit.cases import BUDGETS, SCHEMAS, PlanCase, plan_cases, schema_of, stages_of
from crosstally_lab.audit.channels import defined_channel, device_channel, keeps_epsilon, largest_ratio
from crosstally_lab.audit.definitions import Requests, worst_pairs
from crosstally_lab.audit.findings import EXACT, Finding

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))
"""Oracles are audited at a small, a usual and a large epsilon; some change their kind of answer in between."""

# Numbers of values: two, three, a prime above a power of two, and two attributes together.
ORACLE_SIZES: tuple[tuple[int, ...], ...] = ((2,), (3,), (5,), (2, 3))


def audit_exact() -> Iterator[Finding]:
    """All findings of the part, one line for each subject."""
    yield from _together(map(plan_finding, plan_cases()))
    yield from _together(map(plan_finding, question_cases()))
    yield from _together(row_findings())
    yield from _together(oracle_findings())
    yield from _together(protocol_findings())


def _together(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding for each subject: the largest loss, and the first thing that is broken."""
    subjects: dict[str, list[Finding]] = {}
    for each in findings:
        subjects.setdefault(each.subject, []).append(each)
    for subject, found in subjects.items():
        broken = [each for each in found if not each.holds]
        worst = (broken or sorted(found, key=lambda each: each.exact or 0.0))[-1]
        yield Finding(
            EXACT,
            subject,
            unit=worst.unit,
            claimed=worst.claimed,
            exact=worst.exact,
            cases=sum(each.cases for each in found),
            broken=worst.broken,
        )


# Plans


def json_requests(plan: Plan) -> Requests:
    """What a plan asks, as JSON."""
    return [(request.query.to_dict(), request.noise.to_dict()) for request in plan.requests]


def plan_finding(case: PlanCase) -> Finding:
    """The loss of all stages of a plan, beside its budget; no stage may lose more than its own share either."""
    plan, pure = case.plan, case.plan.budget.pure
    total, broken = Fraction(0), ""
    stages = stages_of(plan)
    for number, stage in enumerate(stages, 1):
        requests = json_requests(stage)
        pairs = worst_pairs(requests, stage.schema.to_dict(), str(stage.neighbours), pure=pure, may_drop=case.may_drop)
        loss = pairs[0].loss if requests else Fraction(0)
        total += loss
        if loss > stage.own_budget.nearly_rho * (1 + Fraction(1, 10**12)):  # the loss of a choice is no fraction
            broken = f"stage {number} of {len(stages)} loses more than its share ({plan.neighbours})"
    unit = "ε" if pure else "ρ"
    return Finding(
        EXACT, case.subject, unit=unit, claimed=float(plan.budget.nearly_rho), exact=float(total), broken=broken
    )


def question_cases() -> Iterator[PlanCase]:
    """Single questions and batches of the notebook: the plans that it put into a ledger, paid and answered."""
    batches = {"one question": ["a = 0"], "three questions": ["a = 0", "b = 1 and a = 1", "b = 2"]}
    budgets = [("epsilon", Budget(epsilon=1)), ("rho", Budget(rho="1/2"))]
    for (about, budget), relation, schema in product(budgets, Neighbours, SCHEMAS.values()):
        rows = pa.table({"id": ["1", "2"], "a": ["0", "1"], "b": ["0", "2"]})
        for name, questions in batches.items():
            ledger = Ledger.in_memory(schema=schema, budget=budget, neighbours=relation)
            Notebook(ledger).ask_all(rows, questions, epsilon=budget.epsilon, rho=budget.rho, key="audit")
            plan = ledger.plan("audit")
            assert plan is not None  # it was charged just now
            yield PlanCase(f"notebook: {name}, {about}", plan, may_drop=True)


# From rows to counts


def row_findings() -> Iterator[Finding]:
    """What one unit really moves, rows counted by ``sources``, in units of the noise that the plan puts on it.

    Rows are written as a steward's table has them: values outside, missing ones, numbers to be cut at edges, more rows
    of a unit than are kept, in any order.
    """
    for (about, schema), relation in product(_read_schemas().items(), Neighbours):
        plan = Direct().plan(schema, Workload([("a",), ("a", "x")]), BUDGETS["epsilon"], neighbours=relation)
        known: dict[Any, list[np.ndarray[Any, Any]]] = {}
        crowd = [("0", 1.0), ("1", 6.0), ("1", 9.5)]
        worst, pairs = Fraction(0), 0
        for before, after in _unit_pairs(schema, relation):
            for rows in (before, after):
                if rows not in known:
                    known[rows] = _counted(schema, plan, crowd, rows)
            moved = zip(known[before], known[after], plan.requests, strict=True)
            loss = sum(
                (int(np.abs(a - b).sum()) / Fraction(request.noise.scale) for a, b, request in moved), Fraction(0)
            )
            worst, pairs = max(worst, loss), pairs + 1
        yield Finding(EXACT, f"counting, {about}", claimed=1.0, exact=float(worst), cases=pairs)


def _read_schemas() -> dict[str, Schema]:
    a, x = Attribute("a", ["0", "1"], outside=Outside.OTHER), Attribute("x", edges=[0, 5, 10], missing=True)
    return {
        "one row a unit": Schema([a, x]),
        "rows that may be dropped": Schema([Attribute("a", ["0", "1"], outside=Outside.DROP), x]),
        "at most 2 rows of a unit are kept": Schema([a, x], Unit("id", 2)),
    }


Read = tuple[tuple[str, float | None], ...]


def _unit_pairs(schema: Schema, relation: Neighbours) -> Iterator[tuple[Read, Read]]:
    """What a unit may hold: up to two rows more than are kept."""
    values: list[tuple[str, float | None]] = [("0", 1.0), ("0", None), ("1", 12.0), ("elsewhere", 9.5)]
    if schema["x"].outside is Outside.REFUSE:
        values = [(a, 10.0 if x == 12.0 else x) for a, x in values]
    most = 1 if schema.unit is None else schema.max_rows + 2
    units: list[Read] = [
        rows
        for count in range(0 if schema.unit else 1, most + 1)
        for rows in combinations_with_replacement(values, count)
    ]
    yield from (
        product(units[::3] if schema.unit else units, units) if relation == Neighbours.REPLACE else product([()], units)
    )


def _counted(
    schema: Schema, plan: Plan, crowd: Sequence[tuple[str, float | None]], unit: Read
) -> list[np.ndarray[Any, Any]]:
    rows = [*crowd[:2], *unit, *crowd[2:]]
    ids = ["p", "q", *("u" for _ in unit), "r"]
    table = pa.table({"id": ids, "a": [a for a, _ in rows], "x": pa.array([x for _, x in rows], pa.float64())})
    tables = {each.table: each.counts for each in count(table, schema, plan.tables)}
    return [tables[table] for request in plan.requests for table in request.query.tables]


# Reports


def oracle_findings() -> Iterator[Finding]:
    """Every oracle: the matrix of its device's code is that of its definition, and no ratio is above e^epsilon."""
    for (kind, oracle), epsilon, sizes in product(ORACLES.items(), EPSILONS, ORACLE_SIZES):
        made = oracle.of(sizes, epsilon)
        yield _oracle_finding(f"{kind}, ε = {float(epsilon):g}", made, epsilon)


def _oracle_finding(subject: str, oracle: Oracle, epsilon: Fraction) -> Finding:
    defined = defined_channel(oracle.to_dict())
    ratio = largest_ratio(defined)
    broken = ""
    if ratio is None or not keeps_epsilon(ratio, epsilon):
        broken = "a ratio is above e^ε"
    elif any(sum(law.values()) != 1 for law in defined.values()):
        broken = "probabilities do not add up to one"
    elif device_channel(oracle.to_dict()) != defined:
        broken = "the device draws with other probabilities than its definition has"
    loss = math.inf if ratio is None else math.log(ratio)
    return Finding(EXACT, subject, claimed=float(epsilon), exact=loss, broken=broken)


def protocol_findings() -> Iterator[Finding]:
    """Every way to design a protocol. The group does not depend on the row, so the worst group counts."""
    for method, epsilon in product(("auto", *METHODS), EPSILONS):
        protocol = design(schema_of(2, 3, 2), epsilon=epsilon, people=1_000, ways=2, method=method)
        for oracle in dict.fromkeys(group.oracle for group in protocol.groups):
            yield _oracle_finding(f"protocol by {method}, ε = {float(epsilon):g}", oracle, epsilon)
