"""What a data set is: for the page of a release, for downloads, and for those who cite it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from crosstally.errors import SchemaError
from crosstally.schema.fields import read_fields, read_text

__all__ = ["RECORDS", "About"]

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
