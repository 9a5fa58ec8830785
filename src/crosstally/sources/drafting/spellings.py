"""Texts that mean the same: spellings that differ in case or blanks, and words for a missing value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["grouped", "missing_tokens"]

_TOKENS = {
    "na",
    "n/a",
    "n.a.",
    "#n/a",
    "#na",
    "nan",
    "null",
    "nil",
    "<na>",
    "-",
    "--",
    "---",
    ".",
    "..",
    "?",
    "missing",
}
_TOKENS |= {"k.a.", "k. a.", "keine angabe", "keine angaben", "no answer", "not stated", "non indiqué"}


def missing_tokens(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts that usually stand for a missing value, in order. "Unknown" is a label: it may be an answer.

    >>> missing_tokens(["Yes", "n/a", "?", "Unknown"])
    ('?', 'n/a')
    """
    return tuple(sorted(text for text in texts if " ".join(text.split()).casefold() in _TOKENS or not text.strip()))


def grouped(rows: Mapping[str, int]) -> tuple[Counter[str], dict[str, tuple[str, ...]]]:
    """The rows of each label, and the other spellings of those that have some; the most frequent one is the label.

    >>> grouped({"Female": 9, "female": 2, " Female": 1, "Male": 8})[1]
    {'Female': (' Female', 'female')}
    """
    alike: dict[str, list[str]] = {}
    for text in rows:
        alike.setdefault(" ".join(text.split()).casefold(), []).append(text)
    labels: Counter[str] = Counter()
    groups = {}
    for texts in alike.values():
        first = min(texts, key=lambda text: (-rows[text], text))
        label = " ".join(first.split()) if len(texts) > 1 else first
        labels[label] = sum(rows[text] for text in texts)
        others = tuple(sorted(text for text in texts if text != label))
        if others:
            groups[label] = others
    return labels, groups
