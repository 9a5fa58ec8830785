"""Whole numbers that are codes: of a classification, or for what is missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

__all__ = ["MOST_CODES", "are_codes", "below_zero", "standing_apart"]

_FAR_APART = 5  # times as many numbers between the first and the last as occur
_RUNS = 0.2
"""The share of numbers whose successor occurs too. Numbers scattered over five times their number have 0.2 at most, if
they are amounts; classifications are numbered in runs. Seen: 0.25 to 0.34 for the drugs of a register of accidents,
0.00 to 0.04 for amounts of money."""
MOST_CODES = 5
"""So many numbers may stand for reasons why a value is missing."""
_GAP = 5  # codes such as 96 to 99 stand apart from all numbers by more than this. Less takes a long tail for codes
_NINES = re.compile(r"9+[0-9]?")
_BELOW_ZERO = re.compile(r"-(1|([7-9])\2*)")  # surveys' codes for missing values: -1, -7, -8, -9, -99, -888


def are_codes(numbers: Sequence[int]) -> bool:
    """Whether different numbers, in order, look like a classification: far apart as a whole, and in runs.

    The last ones may stand apart, as codes for missing values do among ages, and do not count.

    >>> are_codes([0, 1, 100, 101, 102, 200, 201, 300, 301, 999]), are_codes([0, 155, 213, 323, 1902, 1977])
    (True, False)
    """
    numbers = numbers[: len(numbers) - len(standing_apart(numbers))]
    if len(numbers) < 2 or numbers[-1] - numbers[0] <= _FAR_APART * len(numbers):
        return False
    return sum(b - a == 1 for a, b in pairwise(numbers)) > _RUNS * (len(numbers) - 1)


def standing_apart(numbers: Sequence[int]) -> tuple[int, ...]:
    """The last few of different numbers, in order, if a gap parts them from all others and all begin with nines.

    >>> standing_apart([*range(61), 96, 97, 99]), standing_apart(range(100)), standing_apart([0, 114, 41310, 99999])
    ((96, 97, 99), (), (99999,))
    """
    for place in range(max(1, len(numbers) - MOST_CODES), len(numbers)):
        last = tuple(numbers[place:])
        if last[0] - numbers[place - 1] > _GAP and all(_NINES.fullmatch(str(number)) for number in last):
            return last
    return ()


def below_zero(numbers: Collection[str]) -> tuple[str, ...]:
    """All numbers below zero of a column, as codes for missing values, if they are few and each is written like one.

    >>> below_zero({"-99", "-9"}), below_zero({"-99", "-98.5"}), below_zero({"-3"})
    (('-9', '-99'), (), ())
    """
    if len(numbers) > MOST_CODES or not all(map(_BELOW_ZERO.fullmatch, numbers)):
        return ()
    return tuple(sorted(numbers, key=int, reverse=True))
