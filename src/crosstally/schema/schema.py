"""The attributes of a table and whom its release protects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from crosstally.errors import QueryError, SchemaError, did_you_mean
from crosstally.json_text import JsonError, read_json_file
from crosstally.platform_files import write_text
from crosstally.schema.attribute import Attribute, Outside, read_attribute
from crosstally.schema.fields import read_fields

__all__ = ["MAX_ATTRIBUTES", "Schema", "Unit"]

MAX_ATTRIBUTES = 512


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
        fields = read_fields(given, "schema", known={"attributes", "unit", "draft"}, needed={"attributes"})
        if not isinstance(fields["attributes"], list):
            raise SchemaError(f"attributes must be a list, got {type(fields['attributes']).__name__}")
        attributes = [read_attribute(each, f"attributes[{i}]") for i, each in enumerate(fields["attributes"])]
        unit = None
        if fields.get("unit") is not None:
            unit = Unit(**read_fields(fields["unit"], "unit", known={"id", "max_rows"}, needed={"id", "max_rows"}))
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
