"""Values put together, as text: ``age: young = 17-24, 25-34; old = 65+``, or a level of a hierarchy, ``town: canton``.

    regrouping = attribute ":" (level | group {";" group})
    group      = name "=" label {"," label}

Names and labels may have blanks. Those with one of the signs ``= , ;`` stand in quotes, '...' or "..."; a quote inside
is written twice; so does an attribute's name with a colon. Bins, ``[18, 30)``, need no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crosstally.errors import QueryError
from crosstally.query.conditions import shown, where_in_text
from crosstally.query.grammar import BIN, bin_label

__all__ = ["Groups", "groups_in_text", "level_in_text", "parse_regrouping"]

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
    return _unquoted(start["name"]), _Parser(_pieces(text, start.end())).whole()


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


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the text: its kind is ``sign``, ``text`` or ``end``."""

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else shown(self.text)


def _pieces(text: str, place: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    while not pieces or pieces[-1].kind != "end":
        match = _PIECE.match(text, place)
        if match is None:  # only a quote can be left
            quote = len(text) - len(text[place:].lstrip()) + 1
            raise QueryError(f"{where_in_text(quote)}a quote that is never closed")
        kind, place = match.lastgroup or "end", match.end()
        found, position = match[kind].strip(), match.start(kind) + 1
        found = _unquoted(found) if kind == "quoted" else BIN.sub(bin_label, found) if kind == "bin" else found
        pieces.append(_Piece(kind if kind in ("sign", "end") else "text", found, position))
    return pieces


class _Parser:
    """What follows the colon, piece by piece."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._left = list(reversed(pieces))

    def whole(self) -> str | Groups:
        groups: list[tuple[str, tuple[str, ...]]] = []
        while not groups or self._taken(";"):
            name = self._text("a group or a level" if not groups else "a group")
            if not groups and self._left[-1].kind == "end":
                return name
            if not self._taken("="):
                raise self._wrong(f"'=' after {shown(name)}")
            labels = [self._text("a value")]
            while self._taken(","):
                labels.append(self._text("a value"))
            groups.append((name, tuple(labels)))
        if self._left[-1].kind != "end":
            raise self._wrong("',', ';' or the end")
        return tuple(groups)

    def _taken(self, sign: str) -> bool:
        found = self._left[-1].kind == "sign" and self._left[-1].text == sign
        if found:
            self._left.pop()
        return found

    def _text(self, expected: str) -> str:
        if self._left[-1].kind != "text" or not self._left[-1].text:
            raise self._wrong(expected)
        return self._left.pop().text

    def _wrong(self, expected: str) -> QueryError:
        found = self._left[-1]
        return QueryError(f"{where_in_text(found.position)}expected {expected}, got {found}")


def _unquoted(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(quote * 2, quote) if quote in ("'", '"') else text


def _quoted(text: str, more: str = "") -> str:
    """A name or label as the text takes it; ``more`` are further characters that need quotes."""
    is_bin = BIN.fullmatch(text) is not None and BIN.sub(bin_label, text) == text
    signs = any(each in "=,;" + more for each in text) and not is_bin
    return '"' + text.replace('"', '""') + '"' if signs or text != text.strip() or text[:1] in ("'", '"') else text
