"""What a data set is: for the page of a release, for downloads, and for those who cite it.

Bins that were bought: chosen by noisy counts that a budget of their own paid for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from crosstally.errors import SchemaError
from crosstally.schema.canonical import read_fields, read_text

__all__ = [
    "RECORDS",
    "About",
    "PrivateBins",
]

RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Public facts about a data set, each a text or None.

    ``counts`` is "records" where the rows are a sample whose weights are not used: tables then count records, not the
    population.

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

    def __post_init__(self) -> None:
        for field in fields(self):
            read_text(getattr(self, field.name), f"about: {field.name}")
        if self.counts not in (None, RECORDS):
            raise SchemaError(f"about: counts must be {RECORDS!r}, or be left out, got {self.counts!r}")

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON; what is not known is left out."""
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
    """The attributes whose edges follow noisy counts, what these counts cost together, and who paid.

    ``epsilon`` is its exact text, ``entry`` names the entry of the ledger of the draft. What a release spends comes on
    top of it.

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
        """What was bought, as JSON."""
        return {"epsilon": self.epsilon, "attributes": list(self.attributes), "entry": self.entry}

    @classmethod
    def from_dict(cls, given: object) -> PrivateBins:
        """What was bought, from its JSON; errors name the field."""
        fields = {"epsilon", "attributes", "entry"}
        found = read_fields(given, "bought", known=fields, needed=fields)
        names = found["attributes"]
        return cls(**{**found, "attributes": tuple(names) if isinstance(names, list) else names})


def _is_positive(text: str) -> bool:
    try:
        return Fraction(text) > 0
    except ZeroDivisionError:
        return False
