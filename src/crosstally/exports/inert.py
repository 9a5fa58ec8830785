"""Texts that a spreadsheet can take for nothing but texts.

A CSV file has no types: a spreadsheet that opens it runs a label such as ``=HYPERLINK(...)`` as a formula. An
apostrophe before it makes it a text. What turns the reading direction around becomes visible, so that no label can
look like another one. Numbers are left alone, negative ones too.
"""

from __future__ import annotations

import re
import unicodedata

from crosstally.query.conditions import number_of_text

__all__ = ["inert"]

_FORMULA = frozenset("=+-@|%＝＋－＠")
"""What begins a formula or a command in some spreadsheet; the wide forms do in East Asian ones."""

_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates. Plain marks of direction (U+200E, U+200F) belong to Hebrew and Arabic texts."""

_UNSEEN = ("C", "Z")  # general categories: control, format and separator characters


def inert(text: str) -> str:
    r"""The text as it may stand in a CSV file.

    >>> inert("=1+1"), inert("\u200f@SUM(A1)"), inert("-5"), inert("a\u202eb")
    ("'=1+1", "'\u200f@SUM(A1)", '-5', 'a\\u202eb')
    """
    seen = _OVERRIDES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    if number_of_text(text) is not None:
        return seen
    first = next((character for character in seen if unicodedata.category(character)[0] not in _UNSEEN), "")
    return f"'{seen}" if first in _FORMULA or seen[:1] in ("\t", "\r", "\n") else seen
