"""The release that somebody has in mind: what it may cost, whom it protects and which tables matter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from crosstally.budget import Budget, Neighbours, Objective
from crosstally.schema import Attribute, Schema
from crosstally.workload import Workload

__all__ = ["Proposal", "values_of", "with_merged"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A release before there is a plan of it; pages, commands and advice ask what error to expect of it.

    The tables that matter are all over so many ``ways``, some ``tables`` by their names, or a ``named`` workload; all
    of one and two attributes if none is said. ``cells`` are the attributes whose values would be merged, into how many.
    """

    budget: Budget
    _: KW_ONLY
    rows: int | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    objective: Objective = Objective.TABLES
    ways: int | None = None
    tables: tuple[tuple[str, ...], ...] = ()
    named: Workload | None = None
    cells: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "objective", Objective(self.objective))

    def schema(self, schema: Schema) -> Schema:
        """The schema with neighbouring values merged where that is proposed; which ones costs the same."""
        return with_merged(schema, self.cells) if self.cells else schema.public()

    def workload(self, schema: Schema) -> Workload | None:
        """The tables that matter; None for all of one and two attributes. Raises for attributes that there are not."""
        if self.ways is not None:
            return Workload.all_ways(schema, self.ways)
        return Workload(self.tables).for_schema(schema) if self.tables else self.named

    def options(self) -> list[str]:
        """The same as options of a command, except merged values, which belong in the schema."""
        out = [text for name, number in self.budget.to_dict().items() for text in (f"--{name}", number)]
        out += [] if self.rows is None else ["--rows", str(self.rows)]
        out += [] if self.neighbours == Neighbours.ADD_REMOVE else ["--neighbours", self.neighbours.value]
        out += [] if self.ways is None else ["--ways", str(self.ways)]
        return out + [text for table in self.tables for text in ("--tables", ",".join(table))]


def values_of(attribute: Attribute) -> int:
    """How many values or bins it has, without the cells for other and missing values."""
    return len(attribute.values) or len(attribute.edges) - 1


def with_merged(schema: Schema, sizes: Mapping[str, int]) -> Schema:
    """The schema with neighbouring values of some attributes together, so that each has this size."""
    changed = (_merged(each, sizes[each.name]) if each.name in sizes else each for each in schema.attributes)
    return Schema(tuple(changed), schema.unit)


def _merged(attribute: Attribute, size: int) -> Attribute:
    """Neighbouring values together, about as many in each: which ones is the steward's to say, and costs the same."""
    count = values_of(attribute)
    kept = max(1, size - (attribute.size - count))
    firsts = [math.ceil(i * count / kept) for i in range(kept)]
    values = [attribute.values[i] for i in firsts] if attribute.values else ()
    edges = [*(attribute.edges[i] for i in firsts), attribute.edges[-1]] if attribute.edges else ()
    return Attribute(attribute.name, values, edges=edges, missing=attribute.missing, outside=attribute.outside)
