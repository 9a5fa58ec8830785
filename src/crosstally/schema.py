"""What a table is about: its attributes, their labels, and whom the release protects."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from crosstally.errors import QueryError, SchemaError, did_you_mean
from crosstally.json_text import JsonError, read_json_file
from crosstally.platform_files import write_text

__all__ = ["MISSING", "OTHER", "Attribute", "Outside", "Schema", "Unit", "canonical_text"]

OTHER = "(other)"
MISSING = "(missing)"
MAX_ATTRIBUTES = 512
MAX_VALUES = 100_000
_MAX_EDGE = 1e300

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def canonical_text(value: object) -> str | None:
    """The text by which a value is matched with a label, or None when the value is missing.

    >>> [canonical_text(v) for v in (1, 1.0, "1", "1.00", True, "01", " a", "", None, float("nan"))]
    ['1', '1', '1', '1', 'true', '01', ' a', None, None, None]
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return _decimal_text(Decimal(value))
        return value.lower() if value in ("True", "False") else unicodedata.normalize("NFC", value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _decimal_text(Decimal(repr(float(value)))) if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _decimal_text(value) if value.is_finite() else str(value).lower()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return canonical_text(str(value))


def _decimal_text(number: Decimal) -> str:
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Outside(StrEnum):
    """What becomes of a row whose value is none of an attribute's labels."""

    REFUSE = "refuse"
    """Stop before anything is spent."""
    OTHER = "other"
    """Count it in the cell ``(other)``."""
    DROP = "drop"
    """Leave the row out."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column and the cells it is counted in.

    Either ``values`` lists the labels, or ``edges`` bounds the bins ``[a, b)``, the last one closed. ``missing`` adds
    a cell for missing values; without it they go the way of outside values.

    >>> Attribute("age", edges=[0, 18, 65, 120], missing=True).labels
    ('[0, 18)', '[18, 65)', '[65, 120]', '(missing)')
    """

    name: str
    values: tuple[str, ...] = ()
    _: KW_ONLY
    edges: tuple[float, ...] = ()
    missing: bool = False
    outside: Outside = Outside.REFUSE

    def __init__(
        self,
        name: str,
        values: Iterable[str | float] = (),
        *,
        edges: Iterable[float] = (),
        missing: bool = False,
        outside: Outside | str = Outside.REFUSE,
    ) -> None:
        if not isinstance(name, str) or not name or not _is_unicode(name):
            raise SchemaError(f"name must be a non-empty text, got {name!r}")
        where = f"attribute {name!r}"
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", _read_values(values, where))
        object.__setattr__(self, "edges", _read_edges(edges, where))
        if not isinstance(missing, bool):
            raise SchemaError(f"{where}: missing must be true or false, got {missing!r}")
        object.__setattr__(self, "missing", missing)
        try:
            object.__setattr__(self, "outside", Outside(outside))
        except ValueError:
            raise SchemaError(f"{where}: outside must be refuse, other or drop, got {outside!r}") from None
        if bool(self.values) == bool(self.edges):
            raise SchemaError(f"{where} must have either values or edges, and not both")
        reserved = [cell for cell in (OTHER, MISSING) if cell in self.values]
        if reserved:
            raise SchemaError(f"{where}: the label {reserved[0]!r} is reserved; use outside or missing instead")
        if self.size < 2:
            raise SchemaError(f"{where} must have at least two cells, got {self.size}; leave it out of the schema")
        if self.size > MAX_VALUES:
            raise SchemaError(f"{where} must have at most {MAX_VALUES:,} cells, got {self.size:,}")

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each cell: values or bins, then ``(other)``, then ``(missing)``."""
        extra = (OTHER,) * (self.outside is Outside.OTHER) + (MISSING,) * self.missing
        return (self.values or self._bin_labels()) + extra

    @property
    def size(self) -> int:
        """How many cells there are."""
        return max(len(self.values), len(self.edges) - 1) + (self.outside is Outside.OTHER) + self.missing

    @property
    def other_code(self) -> int | None:
        """The cell of values outside the labels, if there is one."""
        return self.size - 1 - self.missing if self.outside is Outside.OTHER else None

    @property
    def missing_code(self) -> int | None:
        """The cell of missing values: their own, or that of outside values, if there is one."""
        return self.size - 1 if self.missing else self.other_code

    def _bin_labels(self) -> tuple[str, ...]:
        texts = [canonical_text(edge) for edge in self.edges]
        last = len(texts) - 2
        return tuple(f"[{texts[i]}, {texts[i + 1]}{']' if i == last else ')'}" for i in range(last + 1))

    def keeping(self, codes: Sequence[int]) -> Attribute:
        """The attribute with some of its cells alone, as a table shows it that a condition restricts."""
        return self if len(codes) == self.size else _AttributePart(self.name, tuple(self.labels[c] for c in codes))

    def to_dict(self) -> dict[str, Any]:
        """The attribute as JSON; what is at its default is left out."""
        out: dict[str, Any] = {"name": self.name}
        if self.values:
            out["values"] = list(self.values)
        else:
            out["edges"] = list(self.edges)
        if self.missing:
            out["missing"] = True
        if self.outside is not Outside.REFUSE:
            out["outside"] = self.outside.value
        return out

    def __str__(self) -> str:
        return f"{self.name}:{self.size}"

    def grouped(self, groups: Sequence[int]) -> Attribute:
        """The attribute whose cells are groups of this one's; a group is called by its first and its last cell.

        >>> Attribute("town", ["Bonn", "Köln", "Paris"]).grouped([0, 1, 0]).labels
        ('Bonn ... Paris', 'Köln')
        """
        members: dict[int, list[str]] = {}
        for label, group in zip(self.labels, groups, strict=True):
            members.setdefault(group, []).append(label)
        named = (members[group] for group in range(len(members)))
        return _AttributePart(self.name, tuple(m[0] if len(m) == 1 else f"{m[0]} ... {m[-1]}" for m in named))

    def renamed(self, name: str) -> Attribute:
        """The same cells under another name."""
        return _AttributePart(name, self.labels)


class _AttributePart(Attribute):
    """Some cells of an attribute as plain labels; a single one will do, and ``(missing)`` may be among them."""

    __slots__ = ()

    def __init__(self, name: str, values: tuple[str, ...]) -> None:
        # the rules are for whole attributes, and name and labels come from one
        fields = {"name": name, "values": values, "edges": (), "missing": False, "outside": Outside.REFUSE}
        for field, value in fields.items():
            object.__setattr__(self, field, value)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: half a surrogate pair, which JSON may hold, cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _read_values(values: Iterable[object], where: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(f"{where}: values must be a list of labels, got {values!r}")
    labels = []
    for value in values:
        text = canonical_text(value) if isinstance(value, str | int | float | bool) else None
        if text is None or not _is_unicode(text):
            raise SchemaError(f"{where}: each of values must be a non-empty text, number or boolean, got {value!r}")
        labels.append(value if isinstance(value, str) else text)
    seen = set()
    for label in labels:
        text = canonical_text(label)
        if text in seen:
            raise SchemaError(f"{where}: values must differ, got {label!r} twice")
        seen.add(text)
    return tuple(labels)


def _read_edges(edges: Iterable[object], where: str) -> tuple[float, ...]:
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise SchemaError(f"{where}: edges must be a list of numbers, got {edges!r}")
    numbers: list[float] = []
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, int | float) or not -_MAX_EDGE < edge < _MAX_EDGE:
            raise SchemaError(f"{where}: each of edges must be a finite number, got {str(edge)[:40]!r}")
        numbers.append(edge)
    if len(numbers) == 1:
        raise SchemaError(f"{where}: edges must be at least two numbers, got 1")
    if any(a >= b for a, b in pairwise(numbers)):
        raise SchemaError(f"{where}: edges must increase, got {numbers}")
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class Unit:
    """Whom the release protects: all rows that share an ``id``, of which at most ``max_rows`` are counted."""

    id: str
    max_rows: int

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise SchemaError(f"unit: id must be the name of a column, got {self.id!r}")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or self.max_rows < 1:
            raise SchemaError(f"unit: max_rows must be a whole number of at least 1, got {self.max_rows!r}")

    def to_dict(self) -> dict[str, Any]:
        """The unit as JSON."""
        return {"id": self.id, "max_rows": self.max_rows}


@dataclass(frozen=True)
class Schema:
    """The attributes of a table, in order, and the unit of protection: a row when ``unit`` is None.

    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> print(schema, schema.cells)
    sex:2 age:3 6
    >>> print(schema.subset("age"))
    age:3
    """

    attributes: tuple[Attribute, ...]
    unit: Unit | None = None
    _: KW_ONLY
    draft: bool = False

    def __init__(self, attributes: Iterable[Attribute], unit: Unit | None = None, *, draft: bool = False) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "draft", draft)
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise SchemaError(f"attributes must be Attribute objects, got {type(attribute).__name__}")
        if len(self.attributes) > MAX_ATTRIBUTES:
            raise SchemaError(f"attributes must be at most {MAX_ATTRIBUTES}, got {len(self.attributes)}")
        if len(set(self.names)) < len(self.names):
            twice = max(self.names, key=self.names.count)
            raise SchemaError(f"attributes must have different names, got {twice!r} twice")
        if self.unit is not None and self.unit.id in self.names:
            raise SchemaError(f"unit: id must not be an attribute too, got {self.unit.id!r}")

    # What it holds

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many cells each attribute has, in order."""
        return tuple(attribute.size for attribute in self.attributes)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Where each name stands."""
        return {name: i for i, name in enumerate(self.names)}

    @property
    def cells(self) -> int:
        """How many cells the full table has (exact, however large)."""
        return math.prod(self.shape)

    @property
    def max_rows(self) -> int:
        """How many rows one unit may have."""
        return 1 if self.unit is None else self.unit.max_rows

    @property
    def may_drop(self) -> bool:
        """Whether some row may be left out, so that a unit may fill no cell at all."""
        return self.unit is not None or any(a.outside is Outside.DROP for a in self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        self.check((name,))
        return self.attributes[self.positions[name]]

    def __str__(self) -> str:
        return " ".join(map(str, self.attributes))

    # Parts of it

    def check(self, names: Sequence[str]) -> None:
        """Raise unless all names are attributes, each once."""
        for i, name in enumerate(names):
            if name not in self.positions:
                raise QueryError(f"unknown attribute {name!r}{did_you_mean(str(name), self.names)}")
            if name in names[:i]:
                raise QueryError(f"attribute {name!r} is named twice")

    def ordered(self, names: Sequence[str]) -> tuple[str, ...]:
        """The same names in the schema's order."""
        self.check(names)
        return tuple(sorted(names, key=self.positions.__getitem__))

    def subset(self, *names: str) -> Schema:
        """The schema of a table over these attributes, in the order named."""
        self.check(names)
        return replace(self, attributes=tuple(self.attributes[self.positions[name]] for name in names))

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """How many cells each of these attributes has."""
        self.check(names)
        return tuple(self.shape[self.positions[name]] for name in names)

    # JSON both ways

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON."""
        out: dict[str, Any] = {"draft": True} if self.draft else {}
        if self.unit is not None:
            out["unit"] = self.unit.to_dict()
        out["attributes"] = [attribute.to_dict() for attribute in self.attributes]
        return out

    @classmethod
    def from_dict(cls, given: object) -> Schema:
        """A schema from its JSON; errors name the field."""
        fields = _fields(given, "schema", known={"attributes", "unit", "draft"}, needed={"attributes"})
        if not isinstance(fields["attributes"], list):
            raise SchemaError(f"attributes must be a list, got {type(fields['attributes']).__name__}")
        attributes = [_read_attribute(each, f"attributes[{i}]") for i, each in enumerate(fields["attributes"])]
        unit = None
        if fields.get("unit") is not None:
            unit = Unit(**_fields(fields["unit"], "unit", known={"id", "max_rows"}, needed={"id", "max_rows"}))
        draft = fields.get("draft", False)
        if not isinstance(draft, bool):
            raise SchemaError(f"draft must be true or false, got {draft!r}")
        if not attributes:
            raise SchemaError("attributes must not be empty")
        return cls(attributes, unit, draft=draft)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """A schema from a JSON file."""
        try:
            return cls.from_dict(read_json_file(path))
        except OSError as error:
            raise SchemaError(f"cannot read the schema {str(path)!r}: {error.strerror}") from None
        except JsonError as error:
            raise SchemaError(f"{str(path)!r} {error}") from None
        except SchemaError as error:
            raise SchemaError(f"{str(path)!r}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the schema as a JSON file that people can edit; a draft as one that only its owner can read."""
        lines = [json.dumps(a.to_dict(), ensure_ascii=False) for a in self.attributes]
        head = {key: value for key, value in self.to_dict().items() if key != "attributes"}
        parts = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)},\n" for k, v in head.items()]
        body = ",\n".join(f"    {line}" for line in lines)
        text = "{\n" + "".join(parts) + f'  "attributes": [\n{body}\n  ]\n}}\n'
        write_text(Path(path), text, private=self.draft)


def _read_attribute(given: object, where: str) -> Attribute:
    known = {"name", "values", "edges", "missing", "outside"}
    fields = _fields(given, where, known=known, needed={"name"})
    try:
        return Attribute(**fields)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None


def _fields(given: object, where: str, *, known: set[str], needed: set[str]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise SchemaError(f"{where} must be an object, got {type(given).__name__}")
    for key in given:
        if key not in known:
            raise SchemaError(f"{where}: unknown field {key!r}{did_you_mean(str(key), sorted(known))}")
    for key in sorted(needed):
        if key not in given:
            raise SchemaError(f"{where}: the field {key!r} is missing")
    return dict(given)
