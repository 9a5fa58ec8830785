"""Values put together on a page: by a level of a hierarchy, or in groups of one's own. All of it is in the URL.

``at.NAME`` is a level; ``by.1.NAME`` the values of the first group (again for each) and ``as.1.NAME`` its name. An
attribute at a level has no groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crosstally.errors import QueryError, did_you_mean
from crosstally.schema import Attribute, Schema
from crosstally.tables import Marginal

__all__ = ["AS_IT_IS", "Regrouping", "is_regrouping", "labels_among", "named_after", "read_regrouping"]

_AT, _AS, _BY = "at.", "as.", "by."
_MOST_NUMBER = 1_000  # a limit: the largest number of a group; no page offers as many
_LONGEST_NAME = 200  # a limit: characters of a group's name, twice what fits a line


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Levels of attributes, and groups of their values: each a name and the labels it holds."""

    levels: tuple[tuple[str, str], ...] = ()
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = ()

    def of(self, names: Iterable[str]) -> Regrouping:
        """What concerns these attributes."""
        kept = set(names)
        return Regrouping(
            tuple(each for each in self.levels if each[0] in kept),
            tuple(each for each in self.groups if each[0] in kept),
        )

    def __bool__(self) -> bool:
        return bool(self.levels or self.groups)

    def __call__(self, table: Marginal) -> Marginal:
        """The table with its values put together; groups of which it has no value are left out."""
        for name, level in self.levels:
            table = table.roll_up(name, level)
        for name, groups in self.groups:
            labels = set(table.schema[name].labels)
            present = {group: [label for label in held if label in labels] for group, held in groups}
            table = table.group(name, {group: held for group, held in present.items() if held})
        return table

    def level(self, name: str) -> str:
        """The level of an attribute; empty where it has its own values."""
        return dict(self.levels).get(name, "")

    def held(self, attribute: Attribute) -> dict[str, list[str]]:
        """The labels that an attribute has on the page, in order, and which of its own each holds."""
        become = {label: label for label in attribute.labels}
        for group, labels in dict(self.groups).get(attribute.name, ()):
            become |= dict.fromkeys(labels, group)
        if self.level(attribute.name):
            for each in attribute.hierarchy:
                above = {label: group for group, labels in each.groups for label in labels}
                become = {label: above.get(now, now) for label, now in become.items()}
                if each.name == self.level(attribute.name):
                    break
        out: dict[str, list[str]] = {}
        for label, now in become.items():
            out.setdefault(now, []).append(label)
        return out

    def finer(self, attribute: Attribute) -> Regrouping:
        """The same with an attribute one level finer."""
        names = [each.name for each in attribute.hierarchy]
        number = names.index(self.level(attribute.name))
        others = tuple(each for each in self.levels if each[0] != attribute.name)
        return Regrouping(others + (((attribute.name, names[number - 1]),) if number else ()), self.groups)

    def pairs(self) -> list[tuple[str, str]]:
        """What of a URL says it."""
        out = [(_AT + name, level) for name, level in self.levels]
        for name, groups in self.groups:
            for number, (group, labels) in enumerate(groups, start=1):
                out += [(f"{_AS}{number}.{name}", group)] if group != named_after(labels) else []
                out += [(f"{_BY}{number}.{name}", label) for label in labels]
        return out


AS_IT_IS = Regrouping()


def is_regrouping(key: str) -> bool:
    """Whether a parameter of a URL is about values put together."""
    return key.startswith((_AT, _AS, _BY))


def read_regrouping(pairs: Iterable[tuple[str, str]], schema: Schema) -> Regrouping:
    """What a URL says. Raises for what the schema does not have; a group without values is not there."""
    levels: dict[str, str] = {}
    names: dict[tuple[str, int], str] = {}
    held: dict[tuple[str, int], list[str]] = {}
    for key, value in pairs:
        if key.startswith(_AT):
            levels[key.removeprefix(_AT)] = value
        elif key.startswith(_AS):
            names[_place(key)] = value.strip()[:_LONGEST_NAME]
        elif key.startswith(_BY):
            held.setdefault(_place(key), []).append(value)
    schema.check(list(dict.fromkeys([*levels, *(name for name, _ in (*names, *held))])))
    for name, level in levels.items():
        known = [each.name for each in schema[name].hierarchy]
        if level not in known:
            raise QueryError(f"{name!r} has no level {level[:80]!r}{did_you_mean(level, known)}")
    groups: dict[str, dict[str, tuple[str, ...]]] = {}
    for (name, number), given in sorted(held.items(), key=lambda each: each[0][1]):
        labels = labels_among(schema[name], given)
        group = names.get((name, number)) or named_after(labels)
        own = groups.setdefault(name, {})
        own[group] = (*own.get(group, ()), *labels)
    for name, own in groups.items():
        _check(schema[name], own)
    kept = tuple((name, tuple(own.items())) for name, own in groups.items() if name not in levels)
    return Regrouping(tuple(levels.items()), kept)


def labels_among(attribute: Attribute, given: Sequence[str]) -> tuple[str, ...]:
    """These labels in the order of the attribute. Raises for one that it does not have."""
    unknown = [label for label in given if label not in attribute.labels]
    if unknown:
        raise QueryError(f"{attribute.name!r} has no value {unknown[0][:80]!r}")
    return tuple(label for label in attribute.labels if label in given)


def named_after(labels: Sequence[str]) -> str:
    """What a group is called that has no name.

    >>> named_after(["a", "b"]), named_after(["a", "b", "c", "d"])
    ('a + b', 'a ... d')
    """
    return " + ".join(labels) if len(labels) < 4 else f"{labels[0]} ... {labels[-1]}"


def _place(key: str) -> tuple[str, int]:
    number, _, name = key[len(_AS) :].partition(".")
    if not (number.isascii() and number.isdigit() and len(number) <= 4 and 1 <= int(number) <= _MOST_NUMBER):
        raise QueryError(f"a group must have a number from 1 to {_MOST_NUMBER:,}: {_BY}1.NAME, got {key[:40]!r}")
    return name, int(number)


def _check(attribute: Attribute, groups: Mapping[str, Sequence[str]]) -> None:
    held = [label for labels in groups.values() for label in labels]
    twice = [label for label in held if held.count(label) > 1]
    if twice:
        raise QueryError(f"{attribute.name!r}: a value must be in one group only, got {twice[0][:80]!r} in two")
    lone = [group for group in groups if group in attribute.labels and group not in held]
    if lone:
        raise QueryError(f"{attribute.name!r}: a group must not be called like a value outside, got {lone[0][:80]!r}")
