"""The description of a data set, and public facts: public counts, structural zeros, and bins with their own budget.

Facts are entered by hand, never derived from rows. They improve answers and do not affect noise: requests,
sensitivities and prices are those of a schema without facts. A row that contradicts a fact is counted like any other.
Bins may be chosen by noisy counts, which have a separate budget.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from crosstally.checks import is_number, is_whole
from crosstally.errors import SchemaError, did_you_mean
from crosstally.schema.canonical import read_fields, read_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crosstally.schema.attribute import Attribute


RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Public facts about a data set, each a text or None.

    ``counts`` is "records" where the rows are a sample whose weights are not used: tables then count records, not the
    population. ``rows`` says what a row is ("admissions"), ``units`` whom the schema's unit protects ("patients").

    >>> About(title="Household survey", licence="CC BY 4.0", language="en").to_dict()
    {'title': 'Household survey', 'licence': 'CC BY 4.0', 'language': 'en'}
    """

    title: str | None = None
    source: str | None = None
    period: str | None = None
    contact: str | None = None
    licence: str | None = None
    language: str | None = None
    counts: str | None = None
    rows: str | None = None
    units: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            read_text(getattr(self, field.name), f"about: {field.name}")
        if self.counts not in (None, RECORDS):
            raise SchemaError(f"about: counts must be {RECORDS!r}, or be left out, got {self.counts!r}")

    @property
    def unit(self) -> str | None:
        """One of the units, in English.

        >>> " ".join(str(About(units=units).unit) for units in ("patients", "families", "people", "staff"))
        'patient family person staff'
        """
        if self.units is None or self.units == "people":
            return None if self.units is None else "person"
        plural = self.units.endswith("s") and not self.units.endswith("ss")
        return self.units if not plural else f"{self.units[:-3]}y" if self.units.endswith("ies") else self.units[:-1]

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON, without unknown ones."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: text for name, text in given.items() if text is not None}

    @classmethod
    def from_dict(cls, given: object) -> About:
        """The facts from their JSON; errors name the field."""
        known = {field.name for field in fields(cls)}
        return cls(**read_fields(given, "about", known=known, needed=set()))


_AMOUNT = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?(e-?[0-9]{1,3})?|[0-9]{1,30}/[0-9]{1,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateBins:
    """The attributes whose edges follow noisy counts, the total cost of these counts, and the ledger entry that paid.

    ``epsilon`` is its exact text, ``entry`` names the entry in the ledger of the draft. The cost of a release is added
    to it.

    >>> PrivateBins(epsilon="0.1", attributes=("income",), entry="7f3a").to_dict()
    {'epsilon': '0.1', 'attributes': ['income'], 'entry': '7f3a'}
    """

    epsilon: str
    attributes: tuple[str, ...]
    entry: str

    def __post_init__(self) -> None:
        is_amount = isinstance(self.epsilon, str) and _AMOUNT.fullmatch(self.epsilon) is not None
        if not is_amount or not _is_positive(self.epsilon):
            raise SchemaError(f"bought: epsilon must be the text of a positive number, got {self.epsilon!r}")
        names = self.attributes
        if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
            raise SchemaError("bought: attributes must be a list of names")
        if read_text(self.entry, "bought: entry") is None:
            raise SchemaError("bought: entry must name an entry of a ledger")

    def to_dict(self) -> dict[str, Any]:
        """The bins as JSON."""
        return {"epsilon": self.epsilon, "attributes": list(self.attributes), "entry": self.entry}

    @classmethod
    def from_dict(cls, given: object) -> PrivateBins:
        """The bins from their JSON; errors name the field."""
        fields = {"epsilon", "attributes", "entry"}
        found = read_fields(given, "bought", known=fields, needed=fields)
        names = found["attributes"]
        return cls(**{**found, "attributes": tuple(names) if isinstance(names, list) else names})


def _is_positive(text: str) -> bool:
    try:
        return Fraction(text) > 0
    except ZeroDivisionError:
        return False


_MOST_FACTS = 1_000  # limits time. Chosen: people write facts by hand, and each is checked against the schema
_MOST_COUNT = 2**53  # up to here a double holds every whole number


@dataclass(frozen=True, slots=True)
class PublicCounts:
    """Counts that are public: of all rows, or of each value of one attribute.

    ``error`` is their standard error, zero where they are exact; ``source`` says where they were published.

    >>> print(PublicCounts(None, (48_842,)))
    there are 48,842 rows
    >>> print(PublicCounts("sex", (16_192, 32_650), error=20.0, source="Register 2025"))
    the counts of sex are public (standard error 20; Register 2025)
    """

    attribute: str | None
    counts: tuple[int, ...]
    _: KW_ONLY
    error: float = 0.0
    source: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        for count in self.counts:
            if not is_whole(count, 0, _MOST_COUNT):
                raise SchemaError(f"a public count must be a whole number from 0 to 2^53, got {count!r}")
        if not is_number(self.error) or not 0 <= self.error < math.inf:
            raise SchemaError(f"the error of public counts must be a number of at least 0, got {self.error!r}")
        read_text(self.source, "source")

    def __str__(self) -> str:
        what = f"there are {self.counts[0]:,} rows" if self.attribute is None else f"the counts of {self.attribute}"
        notes = [f"standard error {self.error:g}"] if self.error else []
        notes += [] if self.source is None else [self.source]
        are = "" if self.attribute is None else " are public"
        return f"{what}{are}" + (f" ({'; '.join(notes)})" if notes else "")

    def check(self, attributes: Mapping[str, Attribute]) -> None:
        """Raise unless there is a count for each value."""
        if self.attribute is None:
            if len(self.counts) != 1:
                raise SchemaError(f"a public total must be one count, got {len(self.counts)}")
            return
        attribute = _known(attributes, self.attribute)
        if len(self.counts) != attribute.size:
            raise SchemaError(f"{self.attribute} has {attribute.size} values, got {len(self.counts)} public counts")

    def to_dict(self, attributes: Mapping[str, Attribute]) -> dict[str, Any]:
        """The fact as JSON."""
        out: dict[str, Any] = {"total": self.counts[0]}
        if self.attribute is not None:
            labels = attributes[self.attribute].labels
            out = {"attribute": self.attribute, "counts": dict(zip(labels, self.counts, strict=True))}
        if self.error:
            out["error"] = self.error
        return out if self.source is None else {**out, "source": self.source}


@dataclass(frozen=True, slots=True)
class Impossible:
    """A structural zero: values of two or more attributes that cannot occur together, in any combination.

    >>> print(Impossible({"age": ("0-15",), "marital": ("Married", "Widowed")}))
    nobody has age 0-15 and marital Married or Widowed
    """

    values: Mapping[str, tuple[str, ...]]
    source: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", {name: tuple(labels) for name, labels in self.values.items()})
        if len(self.values) < 2:
            raise SchemaError("impossible must name values of at least two attributes; leave out a value nobody has")
        read_text(self.source, "source")

    def __hash__(self) -> int:
        return hash((tuple(self.values.items()), self.source))

    def __str__(self) -> str:
        parts = [f"{name} {' or '.join(labels)}" for name, labels in self.values.items()]
        return f"nobody has {' and '.join(parts)}" + (f" ({self.source})" if self.source else "")

    def check(self, attributes: Mapping[str, Attribute]) -> None:
        """Raise unless the values exist and are not all values of an attribute."""
        for name, labels in self.values.items():
            own = _known(attributes, name).labels
            for label in labels:
                if label not in own:
                    raise SchemaError(f"impossible: {name} has no value {label!r}{did_you_mean(str(label), own)}")
            if not labels or set(labels) == set(own):
                raise SchemaError(f"impossible: name some values of {name}, not none and not all")

    def to_dict(self, attributes: Mapping[str, Attribute]) -> dict[str, Any]:  # noqa: ARG002 (as PublicCounts)
        """The fact as JSON."""
        out = {"impossible": {name: list(labels) for name, labels in self.values.items()}}
        return out if self.source is None else {**out, "source": self.source}


Fact = PublicCounts | Impossible


def _known(attributes: Mapping[str, Attribute], name: object) -> Attribute:
    if not isinstance(name, str) or name not in attributes:
        raise SchemaError(f"unknown attribute {name!r}{did_you_mean(str(name), attributes)}")
    return attributes[name]


def read_facts(given: object, attributes: Sequence[Attribute]) -> tuple[Fact, ...]:
    """Facts from their JSON; errors name the place."""
    if not isinstance(given, list):
        raise SchemaError(f"facts must be a list, got {type(given).__name__}")
    if len(given) > _MOST_FACTS:
        raise SchemaError(f"facts must be at most {_MOST_FACTS:,}, got {len(given):,}")
    by_name = {attribute.name: attribute for attribute in attributes}
    out = []
    for i, each in enumerate(given):
        try:
            out.append(_read_fact(each, by_name))
        except SchemaError as error:
            raise SchemaError(f"facts[{i}]: {error}") from None
    return tuple(out)


def _read_fact(given: object, attributes: Mapping[str, Attribute]) -> Fact:
    kinds = ("total", "counts", "impossible")
    named = [kind for kind in kinds if isinstance(given, Mapping) and kind in given]
    if len(named) != 1:
        raise SchemaError(f"a fact must have one of {', '.join(kinds)}")
    if named == ["impossible"]:
        fields = read_fields(given, "impossible", known={"impossible", "source"}, needed=set())
        values = fields["impossible"]
        if not isinstance(values, Mapping) or not all(
            isinstance(labels, list) and all(isinstance(label, str) for label in labels) for labels in values.values()
        ):
            raise SchemaError("impossible must be an object with a list of values for each attribute")
        return Impossible(values, fields.get("source"))
    if named == ["total"]:
        fields = read_fields(given, "total", known={"total", "error", "source"}, needed=set())
        return PublicCounts(None, (fields["total"],), error=fields.get("error", 0.0), source=fields.get("source"))
    fields = read_fields(given, "counts", known={"attribute", "counts", "error", "source"}, needed={"attribute"})
    attribute, counts = _known(attributes, fields["attribute"]), fields["counts"]
    if not isinstance(counts, Mapping) or set(counts) != set(attribute.labels):
        raise SchemaError(f"counts must be an object with one count for each value of {attribute.name}")
    in_order = tuple(counts[label] for label in attribute.labels)
    return PublicCounts(attribute.name, in_order, error=fields.get("error", 0.0), source=fields.get("source"))


def possible_cells(facts: Sequence[Fact], table: Sequence[Attribute]) -> NDArray[np.bool_] | None:
    """For each cell of a table whether it can be non-empty; None if there is no structural zero."""
    import numpy as np

    names = [attribute.name for attribute in table]
    out: NDArray[np.bool_] | None = None
    for fact in facts:
        if isinstance(fact, Impossible) and all(name in names for name in fact.values):
            out = np.ones([attribute.size for attribute in table], np.bool_) if out is None else out
            inside = [
                [a.labels.index(label) for label in fact.values[a.name]] if a.name in fact.values else range(a.size)
                for a in table
            ]
            out[np.ix_(*inside)] = False
    return out
