"""The schema: the attributes of a table and the privacy unit."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crosstally.checks import names_in
from crosstally.errors import OTHER_VERSION, QueryError, SchemaError, did_you_mean
from crosstally.html_text import MOST_ROWS, html_table
from crosstally.json_text import JsonError, read_json_file
from crosstally.platform_files import write_text, writing
from crosstally.schema.attribute import Attribute, Outside, read_attribute
from crosstally.schema.canonical import read_fields
from crosstally.schema.facts import About, Fact, PrivateBins, PublicCounts, possible_cells, read_facts
from crosstally.schema.measures import Measure, check_measures, read_measures
from crosstally.schema.reading import WITHHELD, RowReading
from crosstally.schema.unit import PARTS, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Limits time and memory: 130,000 pairs. Measured and estimated limits: docs/concepts/scale.md.
MAX_ATTRIBUTES = 512
FORMAT = 1
_FIELDS = {
    "crosstally-schema",
    "$schema",
    "attributes",
    "unit",
    "draft",
    "about",
    "bought",
    "facts",
    "measures",
    "ledger",
    "reading",
}
_SHOWN = 30  # attributes at the prompt


@dataclass(frozen=True)
class Schema:
    """The attributes of a table, in order, and the privacy unit: a row when ``unit`` is None.

    All of it is public except ``reading``, which says how the steward's columns become these attributes: it is written
    only to the steward's own file, and neither printed nor compared. In a plan, a ledger or a release it is "withheld",
    and no rows can be read. ``facts`` are what the steward asserts to be public. ``ledger`` names the file of the
    account that pays, and stays in the steward's file too.

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
    about: About | None = None
    bought: PrivateBins | None = None
    facts: tuple[Fact, ...] = ()
    measures: tuple[Measure, ...] = ()
    reading: RowReading | Literal["withheld"] | None = field(default=None, compare=False, repr=False)
    ledger: str | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        attributes: Iterable[Attribute],
        unit: Unit | None = None,
        *,
        draft: bool = False,
        about: About | None = None,
        bought: PrivateBins | None = None,
        facts: Iterable[Fact] = (),
        measures: Iterable[Measure] = (),
        reading: RowReading | Literal["withheld"] | None = None,
        ledger: str | None = None,
    ) -> None:
        given = {"unit": unit, "draft": draft, "about": about, "bought": bought, "reading": reading, "ledger": ledger}
        lists = {"attributes": tuple(attributes), "facts": tuple(facts), "measures": tuple(measures)}
        for name, value in {**lists, **given}.items():
            object.__setattr__(self, name, value)
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise SchemaError(f"attributes must be Attribute objects, got {type(attribute).__name__}")
        self._check_number()
        if len(set(self.names)) < len(self.names):
            twice = max(self.names, key=self.names.count)
            raise SchemaError(f"attributes must have different names, got {twice!r} twice")
        if self.unit is not None and self.unit.id in self.names:
            raise SchemaError(f"unit: id must not be an attribute too, got {self.unit.id!r}")
        if self.unit is None and self.about is not None and self.about.units is not None:
            raise SchemaError("about: units are those of a unit: name its id and bound, or leave out who they are")
        if self.measures:
            check_measures(self.measures, divided=self.divided)
        for fact in self.facts:
            fact.check({attribute.name: attribute for attribute in self.attributes})
        if self.public_counts():
            self.check_all_rows_counted("facts")
        if ledger is not None and (not isinstance(ledger, str) or not ledger or not ledger.isprintable()):
            raise SchemaError(f"ledger must be the name of a file, got {ledger!r}")
        if reading is not None and reading != WITHHELD and not isinstance(reading, RowReading):
            raise SchemaError(f"reading must be a RowReading or {WITHHELD!r}, got {type(reading).__name__}")
        if isinstance(reading, RowReading):
            reading.check(self.attributes, None if self.unit is None else self.unit.id)

    def _check_number(self) -> None:
        _check_number(self.attributes)

    # Contents

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
        """The position of each name."""
        return {name: i for i, name in enumerate(self.names)}

    @property
    def cells(self) -> int:
        """How many cells the full table has (exact, however large)."""
        return math.prod(self.shape)

    @property
    def max_rows(self) -> int:
        """How much one unit may add to a table: a row for each it may have, or 1 where it is divided over them."""
        return 1 if self.unit is None else self.unit.max_rows

    @property
    def divided(self) -> bool:
        """Whether each unit counts once, divided over its rows."""
        return self.unit is not None and self.unit.divided

    @property
    def parts(self) -> int:
        """In how many parts 1 is counted: exact counts and the noise on them are whole numbers of these."""
        return PARTS if self.divided else 1

    def measure(self, name: str) -> Measure:
        """The measure of this name."""
        known = {each.name: each for each in self.measures}
        if not isinstance(name, str) or name not in known:
            raise QueryError(f"unknown measure {name!r}{did_you_mean(str(name), list(known))}")
        return known[name]

    @property
    def may_drop(self) -> bool:
        """Whether rows may be left out, so that a unit may have no cell at all."""
        return self.unit is not None or any(a.outside is Outside.DROP for a in self.attributes)

    @property
    def row_word(self) -> str:
        """What a row is: as ``about`` names it, else a record of a survey, a row of a unit, or a person."""
        about = self.about or About()
        return about.rows or about.counts or ("people" if self.unit is None else "rows")

    @property
    def unit_word(self) -> str:
        """What is protected, one of it: as ``about`` names it, else the id."""
        assert self.unit is not None
        return (self.about or About()).unit or self.unit.id

    @property
    def units_word(self) -> str:
        """Several of them."""
        return (self.about or About()).units or f"values of {self.unit_word}"

    @property
    def counted(self) -> str:
        """What its tables count, with the bound if there is one.

        >>> about = About(rows="admissions", units="patients")
        >>> Schema([Attribute("sex", ["Female", "Male"])], Unit("number", 3), about=about).counted
        'admissions, at most 3 of each patient'
        """
        return self.noun if self.unit is None else f"{self.noun}, {self._bound}"

    @property
    def noun(self) -> str:
        """What its tables count, in a word."""
        return self.units_word if self.divided else self.row_word

    @property
    def bounded_words(self) -> str:
        """The same where there is a bound, else nothing."""
        return "" if self.unit is None else self.counted

    @property
    def estimand(self) -> str:
        """The estimand of a count, in words.

        >>> Schema([Attribute("sex", ["Female", "Male"])], Unit("patient", 3)).estimand
        'count of rows (at most 3 of each patient)'
        """
        return "true count" if self.unit is None else f"count of {self.noun} ({self._bound})"

    @property
    def total_title(self) -> str:
        """The title of the table over no attributes."""
        return "number of rows" if self.unit is None else f"number of {self.counted}"

    @property
    def _bound(self) -> str:
        if self.divided:
            return f"each divided over their {self.row_word}"
        return f"at most {self.max_rows:,} of each {self.unit_word}"

    def check_all_rows_counted(self, what: str) -> None:
        """Raise if rows may be left out: ``what``, a public count of all rows, then differs from the counted rows."""
        if not self.may_drop:
            return
        if self.unit is None:
            why = f"rows outside the values of {next(a.name for a in self.attributes if a.outside is Outside.DROP)}"
        elif self.divided:
            why = f"{self.row_word} without {self.unit.id}, and counts {self.units_word}"
        else:
            why = f"{self.row_word} beyond {self.unit.max_rows:,} of each {self.unit_word}"
        raise SchemaError(
            f"{what}: public counts are of all rows, and this schema leaves out {why}: tables would be forced to a "
            "total that they do not have; leave the public count out"
        )

    def __getitem__(self, name: str) -> Attribute:
        self.check((name,))
        return self.attributes[self.positions[name]]

    # As a mapping from names to attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.attributes)

    def __bool__(self) -> bool:
        return True  # also without attributes, like the schema of a total

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.positions

    def __str__(self) -> str:
        return " ".join(map(str, self.attributes))

    def __repr__(self) -> str:
        shown, number = " ".join(map(str, self.attributes[:_SHOWN])), len(self.attributes)
        return f"Schema({shown}{f' ... ({number} attributes)' if number > _SHOWN else ''})"

    def _repr_html_(self) -> str:
        rows = [[each.name, str(each.size), each.labels_in_short] for each in self.attributes[:MOST_ROWS]]
        more = len(self.attributes) - MOST_ROWS
        return html_table(["attribute", "cells", "labels"], rows, caption=f"{len(self.names)} attributes", more=more)

    # Parts of it

    def check(self, names: Sequence[str]) -> None:
        """Raise unless all names are attributes, each once."""
        try:
            if len(set(names)) == len(names) and all(map(self.positions.__contains__, names)):
                return  # the usual case, checked several times for each of many tables
        except TypeError:  # not a list, or not of what can be a name
            names = names_in([names])
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
        """The schema of a table of these attributes, in the order named; reading and facts are kept as they are."""
        self.check(names)
        whole, positions = self.public(), [self.positions[name] for name in names]
        attributes = tuple([self.attributes[i] for i in positions])
        # Each of many answers has its own schema. Every rule holds for a part of a checked schema, so
        # it is not checked again. Set one by one, because a dictionary of its own would be one more thing to collect.
        part = object.__new__(Schema)
        object.__setattr__(part, "attributes", attributes)
        object.__setattr__(part, "unit", whole.unit)
        object.__setattr__(part, "draft", whole.draft)
        object.__setattr__(part, "about", whole.about)
        object.__setattr__(part, "bought", whole.bought)
        object.__setattr__(part, "facts", ())
        object.__setattr__(part, "measures", whole.measures)
        object.__setattr__(part, "reading", whole.reading)
        object.__setattr__(part, "ledger", whole.ledger)
        object.__setattr__(part, "names", tuple([attribute.name for attribute in attributes]))
        object.__setattr__(part, "shape", tuple([self.shape[i] for i in positions]))
        return part

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """How many cells each of these attributes has."""
        self.check(names)
        shape, positions = self.shape, self.positions
        return tuple([shape[positions[name]] for name in names])

    # Public facts

    def public_counts(self) -> tuple[PublicCounts, ...]:
        """The counts that are public."""
        return tuple(fact for fact in self.facts if isinstance(fact, PublicCounts))

    @property
    def public_rows(self) -> int | None:
        """The number of rows where it is public and exact."""
        totals = [fact.counts[0] for fact in self.public_counts() if fact.attribute is None and not fact.error]
        return totals[0] if totals else None

    def possible(self, names: Sequence[str]) -> NDArray[np.bool_] | None:
        """For each cell of a table whether it can be non-empty; None if all cells can."""
        self.check(names)
        return possible_cells(self.facts, [self.attributes[self.positions[name]] for name in names])

    # Published forms

    def public(self) -> Schema:
        """The schema without its reading and its ledger's place: what plan, ledger, tables and release hold."""
        reading = WITHHELD if isinstance(self.reading, RowReading) else self.reading
        return self if reading is self.reading and self.ledger is None else replace(self, reading=reading, ledger=None)

    def bare(self) -> Schema:
        """The schema with only its cells and unit."""
        attributes = (read_attribute(each.identity(), each.name) for each in self.attributes)
        unit = None if self.unit is None else replace(self.unit, from_data=False)
        return Schema(attributes, unit, draft=self.draft)

    def identity(self) -> dict[str, Any]:
        """Names, cells, rules for outside values, unit and period: a ledger pays for schemas that agree in these.

        Tables of two years may have all else in common, and answers about one say nothing about the other. Another
        description, names for bins, facts or a different reading do not change the identity.
        """
        out: dict[str, Any] = {} if self.unit is None else {"unit": self.unit.identity()}
        if self.about is not None and self.about.period is not None:
            out["period"] = self.about.period
        if self.measures:
            out["measures"] = [each.identity() for each in self.measures]
        return {**out, "attributes": [attribute.identity() for attribute in self.attributes]}

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """The schema as publishable JSON; it says only whether there is a reading."""
        out: dict[str, Any] = {"crosstally-schema": FORMAT}
        if self.draft:
            out["draft"] = True
        if self.about is not None:
            out["about"] = self.about.to_dict()
        if self.bought is not None:
            out["bought"] = self.bought.to_dict()
        if self.unit is not None:
            out["unit"] = self.unit.to_dict()
        out["attributes"] = [attribute.to_dict() for attribute in self.attributes]
        if self.facts:
            out["facts"] = [fact.to_dict({each.name: each for each in self.attributes}) for fact in self.facts]
        if self.measures:
            out["measures"] = [each.to_dict() for each in self.measures]
        if self.reading is not None:
            out["reading"] = WITHHELD
        return out

    def steward_dict(self) -> dict[str, Any]:
        """The schema as JSON with its reading and its ledger, for its steward only."""
        reading = {"reading": self.reading.to_dict()} if isinstance(self.reading, RowReading) else {}
        return {**self.to_dict(), **({} if self.ledger is None else {"ledger": self.ledger}), **reading}

    @classmethod
    def from_dict(cls, given: object) -> Schema:
        """A schema from its JSON; errors name the field."""
        number = given.get("crosstally-schema", FORMAT) if isinstance(given, Mapping) else FORMAT
        if type(number) is not int or number != FORMAT:
            raise SchemaError(
                f"the schema has a format that this crosstally does not read: it reads {FORMAT}; {OTHER_VERSION}"
            )
        fields = read_fields(given, "schema", known=_FIELDS, needed={"attributes"})
        if not isinstance(fields["attributes"], list):
            raise SchemaError(f"attributes must be a list, got {type(fields['attributes']).__name__}")
        _check_number(fields["attributes"])
        attributes = [read_attribute(each, f"attributes[{i}]") for i, each in enumerate(fields["attributes"])]
        draft = fields.get("draft", False)
        if not isinstance(draft, bool):
            raise SchemaError(f"draft must be true or false, got {draft!r}")
        if not attributes:
            raise SchemaError("attributes must not be empty")
        return cls(
            attributes,
            None if fields.get("unit") is None else Unit.from_dict(fields["unit"]),
            draft=draft,
            about=None if fields.get("about") is None else About.from_dict(fields["about"]),
            bought=None if fields.get("bought") is None else PrivateBins.from_dict(fields["bought"]),
            facts=read_facts(fields.get("facts", []), attributes),
            measures=read_measures(fields["measures"]) if "measures" in fields else (),
            reading=_read_reading(fields.get("reading")),
            ledger=fields.get("ledger"),
        )

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
        """Write the schema as a JSON file that people can edit.

        A draft, and a schema with a reading, become a file that only its owner can read.
        """
        private = self.draft or isinstance(self.reading, RowReading)
        with writing(path):
            write_text(Path(path), self.file_text(), private=private)

    def file_text(self) -> str:
        """The text of the steward's file, with its reading."""
        return _file_text(self.steward_dict())


def check_schema(given: object) -> None:
    """Raise unless this is a schema: a common mistake is to pass the path of its file."""
    if not isinstance(given, Schema):
        raise SchemaError(f"schema must be a Schema, got {type(given).__name__}: read a file with Schema.load")


class DerivedSchema(Schema):
    """A schema that the code makes for its own arithmetic, of any number of attributes.

    ``MAX_ATTRIBUTES`` bounds what people ask for. Internal schemas, such as one that repeats an attribute, have
    no limit: users could not act on its error message.
    """

    def _check_number(self) -> None:
        """As many as needed."""


def _file_text(given: Mapping[str, Any]) -> str:
    """JSON with a line for each attribute, each fact and each column of a reading."""
    parts = []
    for key, value in given.items():
        if key in {"attributes", "facts", "measures"}:
            text = "[\n" + ",\n".join(f"    {_json(each)}" for each in value) + "\n  ]"
        elif key == "reading" and isinstance(value, Mapping):
            text = "{\n" + ",\n".join(f"    {_json(name)}: {_reading_text(each)}" for name, each in value.items())
            text += "\n  }"
        else:
            text = _json(value)
        parts.append(f"  {_json(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _reading_text(given: object) -> str:
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        return _json(given)
    return "{\n" + ",\n".join(f"      {_json(name)}: {_json(each)}" for name, each in given.items()) + "\n    }"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _check_number(attributes: Sequence[object]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise SchemaError(f"attributes must be at most {MAX_ATTRIBUTES}, got {len(attributes)}")


def _read_reading(given: object) -> RowReading | Literal["withheld"] | None:
    if given is None or given == WITHHELD:
        return None if given is None else WITHHELD
    return RowReading.from_dict(given)
