"""The order of labels: months, sizes, grades and ranges have one; other texts stand as in a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

__all__ = ["in_order"]

_SCALES = tuple(
    tuple(scale.split(", "))
    for scale in (
        "january, february, march, april, may, june, july, august, september, october, november, december",
        "jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec",
        "januar, februar, märz, april, mai, juni, juli, august, september, oktober, november, dezember",
        "jan, feb, mär, apr, mai, jun, jul, aug, sep, okt, nov, dez",
        "janvier, février, mars, avril, mai, juin, juillet, août, septembre, octobre, novembre, décembre",
        "monday, tuesday, wednesday, thursday, friday, saturday, sunday",
        "mon, tue, wed, thu, fri, sat, sun",
        "montag, dienstag, mittwoch, donnerstag, freitag, samstag, sonntag",
        "lundi, mardi, mercredi, jeudi, vendredi, samedi, dimanche",
        "xxs, xs, s, m, l, xl, xxl, xxxl",
        "tiny, small, medium, large, huge",
        "none, mild, moderate, severe, critical",
        "never, rarely, sometimes, often, always",
        "very low, low, medium, high, very high",
        "low, middle, high",
        "very bad, bad, average, good, very good",
        "very poor, poor, fair, good, very good, excellent",
        "strongly disagree, disagree, neutral, agree, strongly agree",
        "very dissatisfied, dissatisfied, neutral, satisfied, very satisfied",
        "primary, secondary, tertiary",
        "niedrig, mittel, hoch",
        "klein, mittel, gross",
        "klein, mittel, groß",
        "nie, selten, manchmal, oft, immer",
        "sehr schlecht, schlecht, mittel, gut, sehr gut",
    )
)
_BELOW = r"<=?|≤|under|below|less than|up to|unter|bis|moins de"
_ABOVE = r">=?|≥|over|above|more than|über|ab|plus de"
_NUMBER = re.compile(
    rf"(?P<below>{_BELOW})?(?P<above>{_ABOVE})?\s*[$€£]?\s*(?P<number>-?[0-9]+(?:\.[0-9]+)?)", re.IGNORECASE
)
_MOST_OTHERS = 2  # labels outside a scale that may follow it: not known, refused


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels in the order that their words or numbers have, otherwise sorted.

    >>> in_order(["L", "S", "XL", "M"]), in_order(["10", "9", "N"]), in_order([">50K", "<=50K"])
    (('S', 'M', 'L', 'XL'), ('9', '10', 'N'), ('<=50K', '>50K'))
    """
    given = tuple(labels)
    scale = _scale_of(given)
    if scale is not None:
        return tuple(sorted(given, key=lambda label: (scale.get(label.strip().casefold(), len(scale)), label)))
    return tuple(sorted(given, key=_key))


def _scale_of(labels: Sequence[str]) -> dict[str, int] | None:
    """The places of a known scale that has all of the labels but for one or two, and more than two of its own."""
    words = {label.strip().casefold() for label in labels}
    for scale in _SCALES:
        common = words & set(scale)
        if len(common) >= min(3, len(words)) > 1 and len(words - common) <= min(_MOST_OTHERS, len(common) - 2):
            return {word: place for place, word in enumerate(scale)}
    return None


def _key(label: str) -> tuple[int, Fraction, int, str]:
    """Labels that begin with a number come first, by that number; of two alike, what is below it is before."""
    found = _NUMBER.match(label.strip())
    if found is None:
        return 1, Fraction(0), 0, label.casefold()
    mark = -1 if found["below"] else 1 if found["above"] or label.strip().endswith("+") else 0
    return 0, Fraction(found["number"]), mark, label
