"""``crosstally schema draft --epsilon``: choose the bins of a draft by noisy counts on public cut points.

The counts are a release like any other: planned, charged to a ledger before noise is drawn, and kept there.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosstally.budget import Budget, Neighbours, decimal_text
from crosstally.cli.interrupts import before_charge
from crosstally.errors import SchemaError
from crosstally.pipeline import run
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger import Ledger
from crosstally.schema import Attribute, Outside, PrivateBins, RowReading, Schema
from crosstally.sources import Draft, Reading
from crosstally.sources.drafting.edges import AGE_EDGES, bin_names, edges_near_quantiles, rungs
from crosstally.strategies import Direct
from crosstally.workload import Workload


def with_bought_edges(draft: Draft, source: Any, budget: Budget, *, ledger: Path, reading: Reading) -> Draft:
    """The draft with bins that follow noisy counts, and what these cost; the ledger is made for it.

    Ages have bins that nobody chose by the rows, and dates whole periods: these stay. A column that this budget tells
    nothing about is left out, with the reason.
    """
    names = [each.name for each in draft.schema.attributes if _follows_rows(each, draft.schema)]
    if not names:
        raise SchemaError("no column has bins that follow its rows: there is nothing to buy, leave out --epsilon")
    whole = {name: all(isinstance(edge, int) for edge in draft.schema[name].edges) for name in names}
    ladder = Schema(
        [rungs(name, whole=whole[name]) for name in names], draft.schema.unit, reading=_reading(draft.schema, names)
    )
    plan = Direct(budgets="uniform").plan(ladder, Workload.all_ways(ladder, 1), budget)
    noisy, entry = _counted(source, plan, ladder, ledger=ledger, reading=reading)
    scales = {request.query.attributes[0]: request.noise.scale for request in plan.requests}
    edges = {
        name: edges_near_quantiles(ladder[name].edges, noisy[name][: len(ladder[name].edges) - 1], scale=scales[name])
        for name in names
    }
    spent = decimal_text(plan.budget.amount)
    return _with_edges(draft, edges, PrivateBins(epsilon=spent, attributes=tuple(names), entry=entry))


def _follows_rows(attribute: Attribute, schema: Schema) -> bool:
    own = schema.reading.columns.get(attribute.name) if isinstance(schema.reading, RowReading) else None
    is_date = own is not None and own.date is not None
    return bool(attribute.edges) and attribute.edges != AGE_EDGES and not is_date


def _reading(schema: Schema, names: list[str]) -> RowReading | None:
    """What the draft says of reading these columns, and the id of the unit."""
    if not isinstance(schema.reading, RowReading):
        return None
    kept = {*names, *([] if schema.unit is None else [schema.unit.id])}
    return replace(schema.reading, columns={n: rule for n, rule in schema.reading.columns.items() if n in kept})


def _counted(source: Any, plan: Plan, ladder: Schema, *, ledger: Path, reading: Reading) -> tuple[dict[str, Any], str]:
    """The noisy counts of each column, and the entry that paid. A ledger that nothing was spent from goes away."""
    account = Ledger.create(
        ledger, schema=plan.schema, budget=plan.budget, neighbours=Neighbours.ADD_REMOVE, before_charge=before_charge
    )
    try:
        bought = run(source, plan, schema=ladder, ledger=account, key=f"draft-{secrets.token_hex(4)}", reading=reading)
    finally:
        account.remove_unused()
    values = {each.query.attributes[0]: each.values.astype(float) for each in bought.measurements}
    return values, str(bought.measurements[0].origin)


def _with_edges(draft: Draft, edges: dict[str, tuple[float, ...]], bought: PrivateBins) -> Draft:
    columns, left_out = [], list(draft.left_out)
    for column in draft.columns:
        name = column.attribute.name
        if name not in edges:
            columns.append(column)
        elif len(edges[name]) > 1:
            columns.append(
                replace(
                    column,
                    attribute=_binned(column.attribute, edges[name]),
                    frequencies=(),
                    remarks=("bins follow noisy counts, which were paid for", *column.remarks[1:]),
                )
            )
        else:
            left_out.append((name, "this epsilon tells nothing about its bins: spend more, or give edges by hand"))
    if not columns:
        raise SchemaError("this epsilon, which is spent, tells nothing about any column: give edges by hand")
    kept = {column.attribute.name for column in columns}
    reading = draft.schema.reading
    if isinstance(reading, RowReading):
        known = kept | {draft.schema.unit.id} if draft.schema.unit else kept
        reading = replace(reading, columns={n: rule for n, rule in reading.columns.items() if n in known})
    schema = replace(
        draft.schema, attributes=tuple(column.attribute for column in columns), bought=bought, reading=reading
    )
    return replace(draft, schema=schema, columns=tuple(columns), left_out=tuple(left_out))


def _binned(attribute: Attribute, edges: tuple[float, ...]) -> Attribute:
    """Values beyond the noisy ends are counted as other ones: a release must not refuse them."""
    named = bin_names(edges) if attribute.bins else ()  # as the draft did: numbers that are whole
    return Attribute(attribute.name, edges=edges, bins=named, missing=attribute.missing, outside=Outside.OTHER)
