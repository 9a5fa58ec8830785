"""A first schema from data, for the steward to review: it is not public until that is done."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from crosstally.errors import SourceError
from crosstally.schema import MAX_ATTRIBUTES, About, ColumnReading, RowReading, Schema, Unit
from crosstally.sources.drafting.column import Column, DraftedColumn, RowsOfUnits
from crosstally.sources.kinds import source_of
from crosstally.sources.reading_options import NO_OPTIONS, Reading
from crosstally.sources.source import ANY_UNIT, Scan

__all__ = ["Draft", "DraftedColumn", "draft"]


@dataclass(frozen=True, slots=True, repr=False)
class Draft:
    """A draft schema, what was found in its columns, and the columns left out of it, each with the reason.

    Confidential: labels and frequencies come from the data. ``units`` are the rows of the units that are suggested.
    """

    schema: Schema
    left_out: tuple[tuple[str, str], ...]
    _: KW_ONLY
    columns: tuple[DraftedColumn, ...] = ()
    units: RowsOfUnits | None = None

    def __repr__(self) -> str:
        return f"Draft({len(self.schema.attributes)} attributes, {len(self.left_out)} left out)"


def draft(rows: Any, *, max_values: int = 100, reading: Reading = NO_OPTIONS) -> Draft:
    """A schema that fits the data, marked as a draft, for the steward to review.

    Columns with at most ``max_values`` different values become labels, in their order if they have one; numbers with
    more than a few become bins with round edges, dates become years, quarters or months. Spellings that differ in case
    or blanks become one label, a column of ids that come again becomes the unit, and the weights of a survey are left
    out. Labels, edges and bounds are taken from confidential data: before anything is released the steward replaces
    them by what is publicly known.
    """
    columns: dict[str, Column] = {}
    for batch in source_of(rows).batches(Scan(None, reading, ANY_UNIT)):
        for place, (name, values) in enumerate(zip(batch.schema.names, batch.columns, strict=True), 1):
            # An error says where the column stands: its name may be a person's, where a file has no header.
            columns.setdefault(name, Column(name)).add(f"number {place}", values)
    unit, units, left_out = _unit(columns, max_values)
    drafted: list[DraftedColumn] = []
    for name, column in columns.items():
        if name in left_out:
            continue
        reason = column.reason_to_leave_out(max_values)
        if reason is None and len(drafted) < MAX_ATTRIBUTES:
            drafted.append(column.drafted())
        else:
            left_out[name] = reason or f"a schema has at most {MAX_ATTRIBUTES} attributes"
    if not drafted:
        raise SourceError("no column can be an attribute: each has a single value, too many texts, or no rows at all")
    schema = Schema(
        [each.attribute for each in drafted],
        unit,
        draft=True,
        about=About(counts="records") if any(column.is_weight for column in columns.values()) else None,
        reading=_reading({each.attribute.name: each.reading for each in drafted}, reading),
    )
    in_order = tuple((name, left_out[name]) for name in columns if name in left_out)
    return Draft(schema, in_order, columns=tuple(drafted), units=units)


def _unit(columns: dict[str, Column], max_values: int) -> tuple[Unit | None, RowsOfUnits | None, dict[str, str]]:
    """The column with most ids that come again, as the unit; all such columns are left out of the attributes."""
    found = {name: units for name, column in columns.items() if (units := column.units(max_values)) is not None}
    if not found:
        return None, None, {}
    chosen = max(found, key=lambda name: found[name].units)
    left_out = dict.fromkeys(found, "its ids come again, as those of the unit do; the unit may be this one instead")
    left_out[chosen] = "it is the id of the unit: one person, or whoever it is, has several rows"
    return Unit(chosen, found[chosen].bound, from_data=True), found[chosen], left_out


def _reading(columns: dict[str, ColumnReading | None], written: Reading) -> RowReading | None:
    """What the draft says of reading, and how the source was read for it, so that it is read alike ever after."""
    own, options = {name: each for name, each in columns.items() if each is not None}, written.to_dict()
    return RowReading(file=options, columns=own) if own or options else None
