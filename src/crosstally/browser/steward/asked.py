"""What the address of the plan page asks for, and back: every state of the page is in its address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from urllib.parse import urlencode

from crosstally.budget import Budget, Neighbours
from crosstally.errors import PlanError, WorkloadError
from crosstally.schema import Schema
from crosstally.strategies.advice import merged
from crosstally.workload import Workload

__all__ = ["Asked", "read_asked"]

_MOST_ROWS = 10**12  # a limit: more rows than any table has; predictions are doubles and take them
_MERGED = "cells."


@dataclass(frozen=True, slots=True)
class Asked:
    """A release that is thought about. ``cells`` are the attributes whose values are merged, into how many."""

    budget: Budget
    _: KW_ONLY
    rows: int | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    ways: int | None = None
    tables: tuple[tuple[str, ...], ...] = ()
    cells: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))

    def schema(self, schema: Schema) -> Schema:
        """The schema with neighbouring values merged where that is asked for; which ones costs the same."""
        if not self.cells:
            return schema.public()
        changed = [
            merged(each, self.cells[each.name]) if each.name in self.cells else each for each in schema.attributes
        ]
        return Schema(changed, schema.unit)

    def workload(self, schema: Schema) -> Workload | None:
        """The tables that matter; None for all of one and two attributes."""
        if self.ways is not None:
            return Workload.all_ways(schema, self.ways)
        return Workload(self.tables).for_schema(schema) if self.tables else None

    def query(self) -> str:
        """The address, without what is at its default."""
        pairs = list(self.budget.to_dict().items())
        if self.rows is not None:
            pairs.append(("rows", str(self.rows)))
        if self.neighbours != Neighbours.ADD_REMOVE:
            pairs.append(("neighbours", self.neighbours.value))
        if self.ways is not None:
            pairs.append(("ways", str(self.ways)))
        pairs += [("table", ",".join(table)) for table in self.tables]
        pairs += [(f"{_MERGED}{name}", str(size)) for name, size in self.cells.items()]
        return urlencode(pairs)

    def options(self) -> list[str]:
        """The same as command line options, except merged values, which belong in the schema."""
        out = [text for name, number in self.budget.to_dict().items() for text in (f"--{name}", number)]
        out += [] if self.rows is None else ["--rows", str(self.rows)]
        out += [] if self.neighbours == Neighbours.ADD_REMOVE else ["--neighbours", self.neighbours.value]
        out += [] if self.ways is None else ["--ways", str(self.ways)]
        return out + [text for table in self.tables for text in ("--tables", ",".join(table))]


def read_asked(given: Sequence[tuple[str, str]], schema: Schema) -> Asked:
    """What an address asks for; raises with words for people where it says nothing."""
    fields: dict[str, list[str]] = {}
    for name, value in given:
        if value.strip():
            fields.setdefault(name, []).append(value.strip())
    one = {name: values[-1] for name, values in fields.items()}
    tables = tuple(tuple(part.strip() for part in text.split(",")) for text in fields.get("table", []))
    ways = _whole(one.get("ways"), "tables must be over a whole number of attributes", 20)
    if tables and ways is not None:
        raise WorkloadError("name tables, or say over how many attributes, and not both")
    rows = _whole(one.get("rows"), "rows must be a whole number", _MOST_ROWS)
    neighbours = Neighbours(one.get("neighbours", Neighbours.ADD_REMOVE.value))
    return Asked(
        Budget(epsilon=one.get("epsilon", "1"), delta=one.get("delta")),
        rows=schema.public_rows if rows is None else rows,
        neighbours=neighbours,
        ways=ways,
        tables=tables,
        cells=_cells(one, schema),
    )


def _whole(text: str | None, rule: str, most: int) -> int | None:
    if text is None:
        return None
    digits = re.sub(r"[ ,'_]", "", text)
    if not re.fullmatch(r"[0-9]{1,15}", digits) or not 0 < int(digits) <= most:
        raise PlanError(f"{rule} from 1 to {most:,}, got {text[:40]!r}")
    return int(digits)


def _cells(one: Mapping[str, str], schema: Schema) -> dict[str, int]:
    found = {}
    for key, text in one.items():
        name = key.removeprefix(_MERGED)
        if not key.startswith(_MERGED) or name not in schema.names:
            continue
        size, most = _whole(text, f"the cells of {name} must be a whole number", 10**6), schema[name].size
        assert size is not None
        if not 2 <= size <= most:
            raise PlanError(f"the cells of {name} must be from 2 to {most:,}, got {size:,}")
        if size < most:
            found[name] = size
    return found
