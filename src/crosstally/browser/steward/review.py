"""A review in progress: the schema as it is being changed, what it was before, and the file it is saved to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from crosstally.errors import CrosstallyError, SchemaError
from crosstally.platform_files import write_bytes, write_text
from crosstally.schema import RowReading, Schema
from crosstally.sources.inspection import Distribution, Distributions
from crosstally.strategies.proposal import Proposal
from crosstally.strategies.verdicts import ExpectedError

__all__ = ["Outlook", "Review", "previous_of"]

_MOST_KEPT = 64  # outlooks that are not computed again
_WIDE_FROM = 31
"""Attributes from which on a plan for all pairs takes seconds: it is then made when asked for, not at every edit."""
_WIDE = "this many attributes take a while to plan: press Predict to do it for the schema as it stands, or name tables"
_MOST_UNDONE = 200  # steps that can be undone: limits memory; each keeps a schema


def previous_of(path: Path) -> Path:
    """Where the file stays that a save replaced."""
    return path.with_name(f"{path.name}.previous")


Outlook = tuple[tuple[ExpectedError, ...], str]
"""The error to expect of the tables that matter, or why there is none."""


class Review:
    """One schema under review. Every change makes a new schema; those before are kept, to be taken back.

    Args:
        path: The steward's file, which is only written by ``save``.
        distributions: What was counted in the rows.
        wanted: What the release is to be.
    """

    def __init__(self, path: Path, distributions: Distributions, wanted: Proposal) -> None:
        self.path, self.distributions, self.wanted = path.resolve(), distributions, wanted
        self._digest = _digest(path)
        self.schema = self.opened = Schema.load(path)
        self.version = 0
        self._before: list[Schema] = []
        self._distributions: dict[str, tuple[str, Distribution | None]] = {}
        self._asked = -1  # the version for which a prediction was asked for
        self._outlooks: dict[str, Outlook] = {}

    @property
    def changed(self) -> bool:
        """Whether there is something to save."""
        return self.schema.file_text() != self.opened.file_text()

    @property
    def can_undo(self) -> bool:
        """Whether a change can be taken back."""
        return bool(self._before)

    def change(self, edit: Callable[[Schema], Schema]) -> None:
        """Change the schema; raises ``SchemaError`` and changes nothing where the edit cannot be made."""
        changed = edit(self.schema)
        if changed.file_text() == self.schema.file_text():
            raise SchemaError("this changes nothing")
        self._before = [*self._before, self.schema][-_MOST_UNDONE:]
        self.schema = changed
        self.version += 1

    def undo(self) -> None:
        """Take the last change back."""
        if self._before:
            *self._before, self.schema = self._before
            self.version += 1

    def want(self, wanted: Proposal) -> None:
        """Plan for something else, or for the same with a wide schema as it stands now."""
        self.wanted, self._asked = wanted, self.version

    def save(self) -> None:
        """Write the file, whole or not at all; the one that was there stays beside it.

        Raises where it is not the file that was read: somebody else has changed it since.
        """
        try:
            before = self.path.read_bytes()
        except OSError:
            before = b""
        if hashlib.sha256(before).hexdigest() != self._digest:
            raise CrosstallyError(
                f"{self.path.name} has changed on disk since it was read here, and was left as it is; "
                "look at it, then begin the review again"
            )
        try:
            write_bytes(previous_of(self.path), before, private=True)
            write_text(self.path, self.schema.file_text(), private=True)
        except OSError as error:
            raise CrosstallyError(f"cannot write {self.path.name}: {error.strerror}") from None
        self._digest = _digest(self.path)
        self.opened = self.schema

    # What is shown of it

    @property
    def is_wide(self) -> bool:
        """Whether a plan takes too long to be made at every edit."""
        return len(self.schema.names) >= _WIDE_FROM and not self.wanted.tables and self.wanted.ways != 1

    def distribution(self, name: str) -> Distribution | None:
        """The rows of each cell of an attribute as it stands; None where they are not counted."""
        key = _key(self.schema, name)
        if self._distributions.get(name, ("",))[0] != key:
            self._distributions[name] = key, self.distributions.of(self.schema, name)
        return self._distributions[name][1]

    def outlook(self, schema: Schema) -> Outlook:
        """The error to expect of the tables that matter, from a schema. Free."""
        key = json.dumps([schema.identity(), str(self.wanted)])
        if key not in self._outlooks:
            if self.is_wide and self._asked != self.version:
                return (), _WIDE
            while len(self._outlooks) >= _MOST_KEPT:
                del self._outlooks[next(iter(self._outlooks))]
            self._outlooks[key] = _outlook(schema, self.wanted, self.distributions.rows)
        return self._outlooks[key]


def _outlook(schema: Schema, wanted: Proposal, rows: int) -> Outlook:
    try:
        return replace(wanted, rows=rows).compared(schema.public()).expected, ""
    except CrosstallyError as error:
        return (), str(error)


def _key(schema: Schema, name: str) -> str:
    """What the cells of an attribute's column depend on."""
    reading = schema.reading if isinstance(schema.reading, RowReading) else RowReading()
    own = {name: reading.columns[name]} if name in reading.columns else {}
    return json.dumps([schema[name].to_dict(), replace(reading, columns=own).to_dict()])


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SchemaError(f"cannot read the schema {str(path)!r}: {error.strerror}") from None
