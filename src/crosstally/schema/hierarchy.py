"""Levels above an attribute's labels, such as municipality, canton, country."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosstally.errors import SchemaError
from crosstally.schema.canonical import is_unicode, read_fields

__all__ = ["Level", "levels_of", "read_hierarchy", "read_levels"]


@dataclass(frozen=True, slots=True)
class Level:
    """A coarser level: each group has a name and holds labels of the level below.

    >>> Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]}).labels
    ('Bern', 'Vaud')
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __init__(self, name: str, groups: Mapping[str, Iterable[str]]) -> None:
        if not isinstance(name, str) or not name or not is_unicode(name):
            raise SchemaError(f"hierarchy: the name of a level must be a non-empty text, got {name!r}")
        if not isinstance(groups, Mapping):
            raise SchemaError(f"hierarchy: {name!r}: groups must be an object, got {type(groups).__name__}")
        for group, labels in groups.items():
            texts = isinstance(labels, Iterable) and not isinstance(labels, str)
            if not isinstance(group, str) or not group or not texts or not all(isinstance(t, str) for t in labels):
                raise SchemaError(f"hierarchy: {name!r}: each group must be a name and a list of labels")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "groups", tuple((group, tuple(labels)) for group, labels in groups.items()))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the groups, in order."""
        return tuple(group for group, _ in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """The level as JSON."""
        return {"name": self.name, "groups": {group: list(labels) for group, labels in self.groups}}


def read_levels(given: object) -> tuple[Level, ...]:
    """The levels from their JSON."""
    if not isinstance(given, list):
        raise SchemaError(f"hierarchy must be a list of levels, got {type(given).__name__}")
    names = {"name", "groups"}
    return tuple(
        Level(**read_fields(each, f"hierarchy[{i}]", known=names, needed=names)) for i, each in enumerate(given)
    )


def read_hierarchy(given: Iterable[Level], labels: Sequence[str], where: str) -> tuple[Level, ...]:
    """The levels, each of which must hold every label of the level below exactly once."""
    levels = tuple(given)
    for level in levels:
        if not isinstance(level, Level):
            raise SchemaError(f"{where}: hierarchy must be of Level objects, got {type(level).__name__}")
        held = [label for _, group in level.groups for label in group]
        wrong = sorted(set(labels) ^ set(held)) or [label for label in set(held) if held.count(label) > 1]
        if wrong:
            raise SchemaError(
                f"{where}: hierarchy: {level.name!r} must hold each label of the level below once, "
                f"and does not for {wrong[0]!r}"
            )
        labels = level.labels
    if len({level.name for level in levels}) < len(levels):
        raise SchemaError(f"{where}: hierarchy: levels must have different names")
    return levels


def levels_of(levels: Iterable[Level], labels: Iterable[str]) -> tuple[Level, ...]:
    """The levels above some of the labels; groups that hold none of them are left out.

    >>> towns = Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]})
    >>> levels_of([towns], ["Thun"])
    (Level(name='canton', groups=(('Bern', ('Thun',)),)),)
    """
    kept, out = set(labels), []
    for level in levels:
        groups = {group: [label for label in below if label in kept] for group, below in level.groups}
        out.append(Level(level.name, {group: below for group, below in groups.items() if below}))
        kept = {group for group, below in groups.items() if below}
    return tuple(out)
