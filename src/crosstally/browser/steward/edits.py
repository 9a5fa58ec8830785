"""Edits of a schema by a steward: each takes a schema and returns a new one.

An edit changes labels together with the reading rules, so that values in the steward's file keep their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from crosstally.errors import SchemaError
from crosstally.json_text import JsonError, read_json
from crosstally.schema import (
    MISSING,
    OTHER,
    Attribute,
    ColumnReading,
    Level,
    Outside,
    PublicCounts,
    RowReading,
    Schema,
    Unit,
)
from crosstally.schema.facts import read_facts
from crosstally.schema.reading import DateReading


def merge(schema: Schema, name: str, chosen: Sequence[str], into: str) -> Schema:
    """Merge several labels, or texts of the file that are not labels yet, into one cell.

    ``into`` is a label of the attribute or a new one; with a single label chosen this renames it. ``(missing)`` makes
    them words for a missing value, ``(other)`` takes them out of the labels. Bins must be adjacent.
    """
    attribute, into = _editable(schema, name), into.strip()
    if not chosen:
        raise SchemaError("choose at least one label to merge or rename")
    if reserved := {OTHER, MISSING} & set(chosen):
        raise SchemaError(f"{min(reserved)} is no label: it follows from the rules for outside and missing values")
    if attribute.edges:
        return _with(schema, _merged_bins(attribute, chosen, into))
    if not into:
        raise SchemaError("give the label that they become")
    own = _own_reading(schema, name)
    if own.date is not None and own.date.periods:
        return _with(schema, _renamed_period(attribute, chosen, into))
    picked = [label for label in attribute.values if label in chosen or label == into]
    texts = [text for text in chosen if text not in attribute.values]
    spellings = tuple(dict.fromkeys([text for label in picked for text in (label, *own.groups.get(label, ()))] + texts))
    groups = {label: each for label, each in own.groups.items() if label not in picked}
    if into == MISSING:
        changed = _relabelled(attribute, dict.fromkeys(picked), missing=True)
        return _with(schema, changed, replace(own, groups=groups, missing=(*own.missing, *spellings)))
    if into == OTHER:
        changed = _relabelled(attribute, dict.fromkeys(picked), outside=Outside.OTHER)
        return _with(schema, changed, replace(own, groups=groups))
    others = tuple(text for text in spellings if text != into)
    changed = _relabelled(attribute, dict.fromkeys(picked, into), added=() if picked else (into,))
    return _with(schema, changed, replace(own, groups={**groups, into: others} if others else groups))


def reorder(schema: Schema, name: str, labels: Sequence[str]) -> Schema:
    """The same labels in a different order. Bins and periods have the order of their edges."""
    attribute, own = _editable(schema, name), _own_reading(schema, name)
    if attribute.edges or (own.date is not None and own.date.periods):
        raise SchemaError("bins and periods stand in the order of their edges")
    if sorted(labels) != sorted(attribute.values):
        raise SchemaError("an order must name each label once")
    return _with(schema, replace(attribute, values=tuple(labels)))


def cut(
    schema: Schema, name: str, edges: str, *, names: Callable[[Sequence[float]], tuple[str, ...]], public: bool = False
) -> Schema:
    """New bins: the edges as a text, with blanks or semicolons between them.

    ``names`` gives names to bins of whole numbers: of years, and where bins had names before. Edges typed
    during a review are recorded as chosen by looking at the rows, unless they are ``public``.
    """
    attribute = _editable(schema, name)
    if not attribute.edges:
        raise SchemaError("only bins can be cut: this attribute has labels")
    numbers = [_number(text) for text in re.split(r"[;\s]+", edges.strip()) if text]
    whole = all(isinstance(number, int) for number in numbers)
    counted = bool(attribute.bins) or _own_reading(schema, name).date is not None
    named = names(numbers) if counted and whole and len(numbers) > 1 else ()
    return _with(schema, replace(attribute, edges=tuple(numbers), bins=named, hierarchy=(), from_data=not public))


def set_periods(schema: Schema, name: str, days: str, labels: str, *, public: bool = False) -> Schema:
    """New periods of a column of dates: the days that bound them as a text, and a label on each line.

    As with ``cut``, days typed during a review are recorded as chosen by looking at the rows.
    """
    attribute, own = _editable(schema, name), _own_reading(schema, name)
    if own.date is None:
        raise SchemaError("only dates have periods: this attribute's reading has no date")
    named = tuple(filter(None, (line.strip() for line in labels.splitlines())))
    date = DateReading([day for day in re.split(r"[;,\s]+", days) if day], own.date.form)
    if date.periods != len(named):
        raise SchemaError(f"{date.periods + 1} days bound {date.periods} periods, and there are {len(named)} labels")
    changed = replace(attribute, values=named, hierarchy=(), from_data=not public)
    return _with(schema, changed, replace(own, date=date, groups={}))


def describe(schema: Schema, name: str, description: str, measured_in: str) -> Schema:
    """The description of an attribute and its unit of measurement; both are public, and no cell changes."""
    words, unit = description.strip() or None, measured_in.strip() or None
    return _with(schema, replace(schema[name], description=words, measured_in=unit))


def set_facts(schema: Schema, facts: str) -> Schema:
    """The public facts, as the list in a schema's file."""
    try:
        given = read_json(facts.strip() or "[]")
    except JsonError as error:
        raise SchemaError(f"the list of facts {error}") from None
    return replace(schema, facts=read_facts(given, schema.attributes))


def set_bound(schema: Schema, max_rows: str, *, public: bool) -> Schema:
    """How many rows of each unit are counted, and whether that is public knowledge or was chosen by the rows."""
    if schema.unit is None or not re.fullmatch(r"[0-9]{1,9}", max_rows.strip()):
        raise SchemaError("a bound must be a whole number of rows, of a schema with a unit")
    if schema.unit.divided:
        raise SchemaError("units that are divided over their rows count with all of them: there is no bound to change")
    return replace(schema, unit=Unit(schema.unit.id, int(max_rows), from_data=not public))


def choose_origin(schema: Schema, name: str, *, from_data: bool) -> Schema:
    """Say whether the cells of an attribute were chosen by looking at the rows, which no budget covers."""
    return _with(schema, replace(schema[name], from_data=from_data))


def set_outside(schema: Schema, name: str, rule: str, *, missing: bool) -> Schema:
    """How values outside the labels are treated, and whether missing values have a cell."""
    return _with(schema, replace(_editable(schema, name), outside=Outside(rule), missing=missing))


def rename(schema: Schema, name: str, new: str) -> Schema:
    """Rename an attribute; its column in the file stays the same."""
    attribute, new = _editable(schema, name), new.strip()
    own = _own_reading(schema, name)
    column = own.column or name
    columns = {each: rule for each, rule in _reading(schema).columns.items() if each != name}
    changed = replace(own, column=None if column == new else column)
    columns |= {new: changed} if changed.to_dict() else {}
    bought = schema.bought
    if bought is not None:
        bought = replace(bought, attributes=tuple(new if each == name else each for each in bought.attributes))
    attributes = tuple(replace(each, name=new) if each is attribute else each for each in schema.attributes)
    return replace(schema, attributes=attributes, bought=bought, reading=_read_by(schema, columns))


def drop(schema: Schema, name: str) -> Schema:
    """The schema without an attribute."""
    _editable(schema, name)
    if len(schema.attributes) == 1:
        raise SchemaError("a schema must have an attribute: this is the last one")
    columns = {each: rule for each, rule in _reading(schema).columns.items() if each != name}
    kept = tuple(each for each in schema.attributes if each.name != name)
    return replace(schema, attributes=kept, reading=_read_by(schema, columns))


def approve(schema: Schema) -> Schema:
    """The schema marked as reviewed: no longer a draft, so that it can be released."""
    return replace(schema, draft=False)


# Parts of a schema


def _editable(schema: Schema, name: str) -> Attribute:
    """The attribute; raises if facts name it, since they refer to the current cells."""
    for fact in schema.facts:
        named = [fact.attribute] if isinstance(fact, PublicCounts) else list(fact.values)
        if name in named:
            raise SchemaError(f"facts of the schema name {name!r}: take the facts out first, on the overview")
    return schema[name]


def _reading(schema: Schema) -> RowReading:
    return schema.reading if isinstance(schema.reading, RowReading) else RowReading()


def _own_reading(schema: Schema, name: str) -> ColumnReading:
    return _reading(schema).columns.get(name, ColumnReading())


def _read_by(schema: Schema, columns: Mapping[str, ColumnReading]) -> RowReading | None:
    found = replace(_reading(schema), columns=columns)
    return found if found.to_dict() else None


def _with(schema: Schema, attribute: Attribute, own: ColumnReading | None = None) -> Schema:
    """The schema with a replaced attribute of the same name and, if given, a new rule for its column."""
    attributes = tuple(attribute if each.name == attribute.name else each for each in schema.attributes)
    if own is None:
        return replace(schema, attributes=attributes)
    columns = {name: rule for name, rule in _reading(schema).columns.items() if name != attribute.name}
    columns |= {attribute.name: own} if own.to_dict() else {}
    return replace(schema, attributes=attributes, reading=_read_by(schema, columns))


# Labels and bins


def _relabelled(
    attribute: Attribute,
    become: Mapping[str, str | None],
    *,
    added: Iterable[str] = (),
    missing: bool | None = None,
    outside: Outside | None = None,
) -> Attribute:
    """The attribute with renamed labels; a label that maps to None is removed."""
    values = [become.get(label, label) for label in attribute.values]
    kept = tuple(dict.fromkeys([*(label for label in values if label is not None), *added]))
    if added and attribute.hierarchy:
        raise SchemaError("a new label has no place in the hierarchy: add it there, in the file")
    return replace(
        attribute,
        values=kept,
        hierarchy=_relabelled_levels(attribute.hierarchy, become),
        missing=attribute.missing if missing is None else missing,
        outside=attribute.outside if outside is None else outside,
    )


def _relabelled_levels(levels: Sequence[Level], become: Mapping[str, str | None]) -> tuple[Level, ...]:
    """The levels above renamed labels, without groups that become empty."""
    out = []
    for level in levels:
        groups: dict[str, tuple[str, ...]] = {}
        for group, labels in level.groups:
            renamed = (become.get(label, label) for label in labels)
            groups[group] = tuple(dict.fromkeys(label for label in renamed if label is not None))
        held = [label for labels in groups.values() for label in labels]
        if len(set(held)) < len(held):
            raise SchemaError(f"labels of different groups of {level.name!r} cannot be merged; change it in the file")
        out.append(Level(level.name, {group: labels for group, labels in groups.items() if labels}))
        become = {group: None for group, labels in groups.items() if not labels}
    return tuple(out)


def _merged_bins(attribute: Attribute, chosen: Sequence[str], into: str) -> Attribute:
    labels = attribute.labels[: len(attribute.edges) - 1]
    places = sorted(labels.index(label) for label in chosen if label in labels)
    if len(places) < len(chosen) or places != list(range(places[0], places[-1] + 1)):
        raise SchemaError("bins must stand side by side to be merged; cut other edges instead")
    if into in (OTHER, MISSING):
        raise SchemaError("bins cannot become other or missing values; cut other edges instead")
    first, last = places[0], places[-1]
    edges = (*attribute.edges[: first + 1], *attribute.edges[last + 1 :])
    named = bool(attribute.bins or into)
    if named and not into:
        raise SchemaError("give the name that the bins become")
    bins = (*labels[:first], into, *labels[last + 1 :]) if named else ()
    hierarchy = _relabelled_levels(attribute.hierarchy, dict.fromkeys(chosen, into)) if named else ()
    return replace(attribute, edges=edges, bins=bins, hierarchy=hierarchy)


def _renamed_period(attribute: Attribute, chosen: Sequence[str], into: str) -> Attribute:
    if len(chosen) > 1 or chosen[0] not in attribute.values or into in (OTHER, MISSING):
        raise SchemaError("periods are bounded by days: leave out the days between them, below")
    return _relabelled(attribute, {chosen[0]: into})


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise SchemaError(
            "edges must be numbers with a decimal point, and blanks or semicolons between them, such as 0 18 65 120"
        ) from None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
