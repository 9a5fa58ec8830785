"""What would change a plan's error most, and by how much: each alternative is planned, not guessed.

docs/concepts/advice.md lists every kind of advice. The error is compared in the tables over the most attributes whose
error is known beforehand, relative to an average count of each plan, since merging values makes cells larger too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from crosstally.budget import Budget, decimal_text
from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Schema
from crosstally.strategies.verdicts import ExpectedError, expected_errors, number_in_words
from crosstally.workload import Workload

if TYPE_CHECKING:
    from crosstally.strategies.planner import Comparison, Proposal


DELTA = Fraction(1, 10**9)
"""The delta that is suggested: below one over the number of people in the largest registers, as it must be, since a
mechanism that publishes a random row has a delta of one over the rows."""
_FEW_VALUES, _LEAST_MERGED = 10, 6
"""Values are merged into half as many, and no more than ten, which can still be read at a glance; attributes with fewer
than six are left as they are."""
_MOST_MERGED = 5  # attributes at once: merging is work for the steward
_WORTH_SAYING = 1.05  # the error is divided by it; a smaller gain would not be noticed
_SAME_CELLS = 0.01  # a smaller change of the mean size of cells is not reported: it does not show in two digits
_MOST_NAMED = 6  # tables that still fit a command


class AdviceKind(StrEnum):
    """Every kind of advice that a plan can give."""

    BUDGET = "budget"
    """Spend twice as much."""
    DELTA = "delta"
    """Allow a small delta in addition to a pure epsilon, for Gaussian noise."""
    VALUES = "values"
    """Merge the values of the attributes that cost most."""
    TABLES = "tables"
    """Name the tables that are needed, or fewer of them."""
    UNIT = "unit"
    """Count fewer rows of each unit."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A different proposal: the difference in words, and as options of the command line where there are any."""

    kind: AdviceKind
    change: str
    _: KW_ONLY
    schema: Schema
    proposal: Proposal
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """A change, and the expected error of tables over the same number of attributes before and after it.

    ``found`` is the comparison for the alternative. Its chosen plan can be released unchanged, unless the schema has
    to be changed, which only the steward can do.
    """

    alternative: Alternative
    _: KW_ONLY
    found: Comparison
    before: ExpectedError
    after: ExpectedError

    @property
    def kind(self) -> AdviceKind:
        """What is to be changed."""
        return self.alternative.kind

    @property
    def times(self) -> float:
        """How many times smaller the error is, relative to an average count; infinite where it was not known before."""
        if not self.before.known:
            return math.inf
        return self.before.error * self.before.cells / (self.after.error * self.after.cells)

    def __str__(self) -> str:
        if not self.before.known:
            return f"{self.alternative.change}: {self.after.figure}, known beforehand"
        larger = self.before.cells / self.after.cells
        size = f"{larger:,.0f}" if larger >= 10 else f"{larger:.2g}"
        if self.after.verdict is None and abs(larger - 1) > _SAME_CELLS:
            # Without rows, errors are counts: these may hardly change while cells, and so average counts, do.
            relative = f"{_less(self.times)} relative to cells, which become {size} times as large"
            return f"{self.alternative.change}: {relative}; {self.before.within} becomes {self.after.figure}"
        return f"{self.alternative.change}: {_less(self.times)}, {self.after.figure}"


def _less(times: float) -> str:
    """How much smaller an error is that is divided by this.

    >>> _less(2.01), _less(1.3), _less(173.4)
    ('half the error', '23% less error', 'less than a tenth of the error')
    """
    if times >= 10:  # how much less says nothing more: another question is answered
        return "less than a tenth of the error"
    return "half the error" if f"{times:.1f}" == "2.0" else f"{1 - 1 / times:.0%} less error"


def advised(comparison: Comparison, again: Callable[[Alternative], Comparison]) -> tuple[Advice, ...]:
    """Every change that makes the error smaller, the most useful one first; ``again`` plans for an alternative.

    Except for naming tables, all compare tables whose error is known now: a table that is predicted now may be measured
    in the alternative, and then the two errors cannot be compared.
    """
    expected = expected_errors(comparison.outlook, comparison.rows)
    known = [each for each in expected if each.known and each.error > 0]
    if not known:
        return ()
    given = [
        _followed(alternative, expected[-1] if alternative.kind is AdviceKind.TABLES else known[-1], again)
        for alternative in _alternatives(comparison, expected[-1])
    ]
    worth = [each for each in given if each is not None and each.times >= _WORTH_SAYING]
    return tuple(sorted(worth, key=lambda each: -each.times))


def _followed(
    alternative: Alternative, before: ExpectedError, again: Callable[[Alternative], Comparison]
) -> Advice | None:
    """What following an alternative gives; None where it cannot be planned or its error is not known."""
    try:
        comparison = again(alternative)
    except CrosstallyError:
        return None
    after = next(
        (
            each
            for each in expected_errors(comparison.outlook, comparison.rows)
            if each.order == before.order and each.known and each.error > 0
        ),
        None,
    )
    return None if after is None else Advice(alternative, found=comparison, before=before, after=after)


def _alternatives(comparison: Comparison, largest: ExpectedError) -> Iterator[Alternative]:
    same = Alternative(AdviceKind.BUDGET, "", schema=comparison.chosen.schema, proposal=comparison.proposal)
    changed = (
        _more_budget(same),
        _with_delta(same, comparison.currency),
        _fewer_values(same, comparison.chosen.workload),
        _fewer_rows_of_units(same),
        _fewer_tables(same, comparison.chosen.workload, largest),
    )
    yield from (each for each in changed if each is not None)


def _more_budget(same: Alternative) -> Alternative:
    """Twice the budget, in its own currency; a delta stays as it is."""
    budget = same.proposal.budget
    if budget.epsilon is None:
        more, options = Budget(rho=2 * budget.nearly_rho), ("--rho", decimal_text(2 * budget.nearly_rho))
    else:
        more = Budget(epsilon=2 * budget.epsilon, delta=budget.delta, rule=budget.rule)
        options = ("--epsilon", decimal_text(2 * budget.epsilon))
    change, proposal = f"spend twice as much, {more}", replace(same.proposal, budget=more)
    return replace(same, kind=AdviceKind.BUDGET, change=change, proposal=proposal, options=options)


def _with_delta(same: Alternative, currency: str | None) -> Alternative | None:
    budget, text = same.proposal.budget, decimal_text(DELTA)
    if not budget.pure or currency == "epsilon":  # a ledger of pure epsilon cannot pay it
        return None
    proposal = replace(same.proposal, budget=Budget(epsilon=budget.epsilon, delta=DELTA))
    change = f"allow a delta of {text}"
    return replace(same, kind=AdviceKind.DELTA, change=change, proposal=proposal, options=("--delta", text))


def _fewer_values(same: Alternative, workload: Workload) -> Alternative | None:
    """The attributes whose merging saves most cells of the tables that matter."""
    schema = same.schema
    fewer = {attribute.name: size for attribute in schema.attributes if (size := _merged_size(attribute))}
    saved = dict.fromkeys(fewer, 0.0)
    for table in workload.tables:
        cells = math.prod(schema.sizes(table))
        for name in table:
            if name in saved:
                saved[name] += cells * (1 - fewer[name] / schema[name].size)
    chosen = sorted((name for name in saved if saved[name]), key=lambda name: -saved[name])[:_MOST_MERGED]
    if not chosen:
        return None
    changed = with_merged(schema, {name: fewer[name] for name in chosen})
    sizes = ", ".join(f"{name} ({schema[name].size} into {fewer[name]})" for name in chosen)
    return replace(same, kind=AdviceKind.VALUES, change=f"merge values of {sizes}", schema=changed)


def _merged_size(attribute: Attribute) -> int | None:
    """Into how many cells an attribute may be merged: a level of its own hierarchy, or few; None if it has few."""
    if attribute.size < _LEAST_MERGED:
        return None
    few = min(_FEW_VALUES, math.ceil(attribute.size / 2))
    levels = [len(level.labels) + attribute.size - _values(attribute) for level in attribute.hierarchy]
    fitting = [size for size in levels if 2 <= size <= few]
    return max(fitting) if fitting else min((size for size in levels if size >= 2), default=few)


def _values(attribute: Attribute) -> int:
    """How many values or bins it has, without the cells for other and missing values."""
    return len(attribute.values) or len(attribute.edges) - 1


def with_merged(schema: Schema, sizes: Mapping[str, int]) -> Schema:
    """The schema with neighbouring values of some attributes together, so that each has this size."""
    changed = (_merged(each, sizes[each.name]) if each.name in sizes else each for each in schema.attributes)
    return Schema(tuple(changed), schema.unit)


def _merged(attribute: Attribute, size: int) -> Attribute:
    """Neighbouring values merged into groups of similar size; the steward may choose others at the same cost."""
    count = _values(attribute)
    kept = max(1, size - (attribute.size - count))
    firsts = [math.ceil(i * count / kept) for i in range(kept)]
    values = [attribute.values[i] for i in firsts] if attribute.values else ()
    edges = [*(attribute.edges[i] for i in firsts), attribute.edges[-1]] if attribute.edges else ()
    return Attribute(attribute.name, values, edges=edges, missing=attribute.missing, outside=attribute.outside)


def _fewer_rows_of_units(same: Alternative) -> Alternative | None:
    unit = same.schema.unit
    if unit is None or unit.max_rows < 2:
        return None
    fewer = replace(unit, max_rows=math.ceil(unit.max_rows / 2))
    return replace(
        same,
        kind=AdviceKind.UNIT,
        change=f"count at most {fewer.max_rows:,} {same.schema.row_word} of each {same.schema.unit_word}, not "
        f"{unit.max_rows:,}, if few have more",
        schema=replace(same.schema, unit=fewer),
    )


def _fewer_tables(same: Alternative, workload: Workload, largest: ExpectedError) -> Alternative | None:
    """Half of the tables that were named, by weight; one of middle size where none were, or where all is predicted."""
    tables = [each for each in workload if len(each[0]) == largest.order]
    if len(tables) < 2:
        return None
    if same.proposal.named is None or not largest.known:
        by_cells = sorted((table for table, _ in tables), key=lambda table: math.prod(same.schema.sizes(table)))
        named = Workload([by_cells[len(by_cells) // 2]], along=workload.along)
        change = f"name the tables you need; {' by '.join(named.tables[0])} alone, for one"
    else:
        half = _half(tables)
        named = Workload([table for table, _ in half], [weight for _, weight in half], workload.along)
        count = f"{number_in_words(len(half))} of the {number_in_words(len(tables))}"
        change = f"name fewer tables; {count}, for example"
    proposal = replace(same.proposal, named=named)
    return replace(same, kind=AdviceKind.TABLES, change=change, proposal=proposal, options=_table_options(named))


def _half(tables: Sequence[tuple[tuple[str, ...], float]]) -> list[tuple[tuple[str, ...], float]]:
    """The half with the largest weights; of equal ones every second, so that all attributes keep a part."""
    alternating = [*tables[::2], *tables[1::2]]
    kept = {table for table, _ in sorted(alternating, key=lambda each: -each[1])[: len(tables) // 2]}
    return [each for each in tables if each[0] in kept]


def _table_options(named: Workload) -> tuple[str, ...]:
    sayable = all("," not in name and name == name.strip() for table in named.tables for name in table)
    if not sayable or len(named) > _MOST_NAMED or len(set(named.weights)) > 1:
        return ()
    return tuple(text for table in named.tables for text in ("--tables", ",".join(table)))
