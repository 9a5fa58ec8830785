"""Values put together: by a level of a hierarchy, or in groups of one's own.

In a URL, of a page or of the API, ``at.NAME`` is a level; ``by.1.NAME`` the values of the first group (again for each)
and ``as.1.NAME`` its name. On the command line a text says the same (below). An attribute at a level has no groups.

Values put together, as text: ``age: young = 17-24, 25-34; old = 65+``, or a level of a hierarchy, ``town: canton``.

    regrouping = attribute ":" (level | group {";" group})
    group      = name "=" label {"," label}

Names and labels may have blanks. Those with one of the signs ``= , ;`` stand in quotes, '...' or "..."; a quote inside
is written twice; so does an attribute's name with a colon. Bins, ``[18, 30)``, need no quotes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from crosstally.answers.marginal import Marginal
from crosstally.answers.operations import label_code
from crosstally.errors import QueryError, did_you_mean
from crosstally.query.conditions import shown, where_in_text
from crosstally.query.grammar import BIN, bin_label
from crosstally.schema import Attribute, Schema

Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""The name of each group, and the labels it holds."""

_MAX_TEXT = 10_000  # a limit, that of conditions: longer texts are refused before they are read
_QUOTED = r'"(?:[^"]|"")*"' + r"|'(?:[^']|'')*'"
_NAME = re.compile(rf"""\s*(?P<name>{_QUOTED}|[^\s:"'][^:]*?)\s*:""")
_PIECE = re.compile(
    rf"\s*(?:(?P<sign>[=,;])|(?P<quoted>{_QUOTED})|(?P<bin>{BIN.pattern})|(?P<plain>[^\s=,;\"'][^=,;]*)|(?P<end>\Z))"
)


def parse_regrouping(text: str) -> tuple[str, str | Groups]:
    """The attribute that a text is about, and its level or its groups; they meet a schema later.

    >>> parse_regrouping("age: young = 17-24, 25-34; old = 65+")
    ('age', (('young', ('17-24', '25-34')), ('old', ('65+',))))
    >>> parse_regrouping("town: canton")
    ('town', 'canton')
    """
    if len(text) > _MAX_TEXT:
        raise QueryError(f"a grouping must have at most {_MAX_TEXT:,} characters, got {len(text):,}")
    start = _NAME.match(text)
    if start is None:
        raise QueryError(
            f"a grouping must begin with an attribute and a colon: 'age: young = 17-24'; got {shown(text)}"
        )
    return _unquoted(start["name"]), _read(_pieces(text, start.end()))


def groups_in_text(attribute: str, groups: Groups) -> str:
    """The text that says these groups.

    >>> groups_in_text("age", (("a, b", ("[18, 30)",)), ("old", ("65+",))))
    'age: "a, b" = [18, 30); old = 65+'
    """
    parts = (f"{_quoted(name)} = {', '.join(map(_quoted, labels))}" for name, labels in groups)
    return f"{_quoted(attribute, ':')}: {'; '.join(parts)}"


def level_in_text(attribute: str, level: str) -> str:
    """The text that says this level."""
    return f"{_quoted(attribute, ':')}: {_quoted(level)}"


_Piece = tuple[str, str, int]
"""A piece of a text: its kind (``sign``, ``text`` or ``end``), its own text, and its position."""


def _pieces(text: str, place: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    while not pieces or pieces[-1][0] != "end":
        match = _PIECE.match(text, place)
        if match is None:  # only a quote can be left
            quote = len(text) - len(text[place:].lstrip()) + 1
            raise QueryError(f"{where_in_text(quote)}a quote that is never closed")
        kind, place = match.lastgroup or "end", match.end()
        found, position = match[kind].strip(), match.start(kind) + 1
        found = _unquoted(found) if kind == "quoted" else BIN.sub(bin_label, found) if kind == "bin" else found
        pieces.append((kind if kind in ("sign", "end") else "text", found, position))
    return pieces


def _read(pieces: Sequence[_Piece]) -> str | Groups:
    """What follows the colon: a level, or groups."""
    left = deque(pieces)

    def wrong(expected: str) -> QueryError:
        kind, found, position = left[0]
        got = "the end" if kind == "end" else shown(found)
        return QueryError(f"{where_in_text(position)}expected {expected}, got {got}")

    def taken(sign: str) -> bool:
        found = left[0][:2] == ("sign", sign)
        if found:
            left.popleft()
        return found

    def text(expected: str) -> str:
        kind, found, _ = left[0]
        if kind != "text" or not found:
            raise wrong(expected)
        left.popleft()
        return found

    groups: list[tuple[str, tuple[str, ...]]] = []
    while not groups or taken(";"):
        name = text("a group" if groups else "a group or a level")
        if not groups and left[0][0] == "end":
            return name
        if not taken("="):
            raise wrong(f"'=' after {shown(name)}")
        labels = [text("a value")]
        while taken(","):
            labels.append(text("a value"))
        groups.append((name, tuple(labels)))
    if left[0][0] != "end":
        raise wrong("',', ';' or the end")
    return tuple(groups)


def _unquoted(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(quote * 2, quote) if quote in ("'", '"') else text


def _quoted(text: str, more: str = "") -> str:
    """A name or label as the text takes it; ``more`` are further characters that need quotes."""
    is_bin = BIN.fullmatch(text) is not None and BIN.sub(bin_label, text) == text
    signs = any(each in "=,;" + more for each in text) and not is_bin
    return '"' + text.replace('"', '""') + '"' if signs or text != text.strip() or text[:1] in ("'", '"') else text


# Groups of values


_AT, _AS, _BY = "at.", "as.", "by."
_MOST_NUMBER = 1_000  # a limit: the largest number of a group; no page offers as many
_LONGEST_NAME = 200  # a limit: characters of a group's name, twice what fits a line


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Levels of attributes, and groups of their values: each a name and the labels it holds."""

    levels: tuple[tuple[str, str], ...] = ()
    groups: tuple[tuple[str, Groups], ...] = ()

    def check(self, names: Sequence[str]) -> None:
        """Raise unless the table of these attributes has all whose values are put together."""
        for name, _ in (*self.levels, *self.groups):
            if name not in names:
                own = f"it has {', '.join(names)}" if names else "it has none"
                raise QueryError(f"values of {name!r} are put together, which is no attribute of the table; {own}")

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
        for name, groups in self.among({each.name: each.labels for each in table.schema.attributes}).groups:
            table = table.group(name, dict(groups))
        return table

    def among(self, labels: Mapping[str, Collection[str]]) -> Regrouping:
        """What is left of it where attributes have these labels alone: a condition leaves some out."""
        left = []
        for name, groups in self.groups:
            present = ((group, tuple(label for label in held if label in labels[name])) for group, held in groups)
            left.append((name, tuple((group, held) for group, held in present if held)))
        return Regrouping(self.levels, tuple(each for each in left if each[1]))

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

    def texts(self) -> list[str]:
        """What of a command line says it: a text for each attribute."""
        levels = [level_in_text(name, level) for name, level in self.levels]
        return levels + [groups_in_text(name, groups) for name, groups in self.groups]


AS_IT_IS = Regrouping()


def is_regrouping(key: str) -> bool:
    """Whether a parameter of a URL is about values put together."""
    return key.startswith((_AT, _AS, _BY))


def read_regrouping(pairs: Iterable[tuple[str, str]], schema: Schema, *, of_form: bool = False) -> Regrouping:
    """What a URL says. Raises for what the schema does not have; a group without values is not there.

    Args:
        pairs: The parameters, those for which ``is_regrouping`` is true.
        schema: Has the attributes.
        of_form: The form of a page sends the groups even of an attribute that is at a level; they are left out then.
    """
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
    schema.check(list(dict.fromkeys(name for name, _ in (*names, *held))))
    ordered = sorted(held.items(), key=lambda each: each[0][1])
    groups = [(place[0], names.get(place, ""), labels) for place, labels in ordered]
    found = _regrouping(levels, groups, schema)
    return _without_groups_at_levels(found) if of_form else _checked(found)


def regrouping_of_texts(texts: Iterable[str], schema: Schema) -> Regrouping:
    """What texts such as ``age: young = 17-24, 25-34`` say. Raises for what the schema does not have."""
    levels: dict[str, str] = {}
    groups: list[tuple[str, str, Sequence[str]]] = []
    for text in texts:
        name, found = parse_regrouping(text)
        if isinstance(found, str):
            if levels.setdefault(name, found) != found:
                raise QueryError(f"{name!r} can have one level, got {levels[name][:80]!r} and {found[:80]!r}")
        else:
            groups += [(name, group, labels) for group, labels in found]
    return _checked(_regrouping(levels, groups, schema))


def _regrouping(
    levels: Mapping[str, str], groups: Iterable[tuple[str, str, Sequence[str]]], schema: Schema
) -> Regrouping:
    """Levels by attribute; groups as an attribute, a name that may be empty, and labels: looked up and checked."""
    for name, level in levels.items():
        schema.check([name])
        known = [each.name for each in schema[name].hierarchy]
        if level not in known:
            told = did_you_mean(level, known) if known else "; it has no hierarchy. Groups have a name: GROUP = VALUE"
            raise QueryError(f"{name!r} has no level {level[:80]!r}{told}")
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, group, given in groups:
        schema.check([name])
        labels = labels_among(schema[name], given)
        own = found.setdefault(name, {})
        called = group or named_after(labels)
        own[called] = (*own.get(called, ()), *labels)
    for name, own in found.items():
        _check(schema[name], own)
    return Regrouping(tuple(levels.items()), tuple((name, tuple(own.items())) for name, own in found.items()))


def _without_groups_at_levels(found: Regrouping) -> Regrouping:
    return Regrouping(found.levels, tuple(each for each in found.groups if not found.level(each[0])))


def _checked(found: Regrouping) -> Regrouping:
    for name, _ in found.groups:
        if found.level(name):
            raise QueryError(f"{name!r} can have a level or groups, got both")
    return found


def labels_among(attribute: Attribute, given: Sequence[str]) -> tuple[str, ...]:
    """These labels in the order of the attribute. Raises for one that it does not have."""
    codes = {label_code(attribute, label) for label in given}
    return tuple(label for code, label in enumerate(attribute.labels) if code in codes)


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
