"""The labelled cells of an answer: what every format writes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crosstally.tables import Marginal

__all__ = [
    "MEASURES",
    "Cell",
    "common",
    "free_name",
    "known",
    "labelled_cells",
    "margins",
    "measures",
    "without_dust",
]

MEASURES = ("count", "std_error", "count_low", "count_high")
"""What is said about each cell: its count, its standard error and the ends of its interval."""

_DIGITS = 9  # after the point; counts are whole and their errors seldom below 0.01


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its labels in the order of the axes, its count, and the errors, NaN where they are not known.

    ``margin`` is what follows ±: half the width of the interval at a level, or the standard error. ``low`` and ``high``
    are the ends of its interval.
    """

    labels: tuple[str, ...]
    count: float
    std_error: float
    margin: float
    low: float
    high: float


def labelled_cells(marginal: Marginal, *, level: float | None = None) -> Iterator[Cell]:
    """The cells of a table, the last attribute fastest; intervals are of 95% where no level is asked."""
    labels = product(*(attribute.labels for attribute in marginal.schema.attributes))
    ends = marginal.interval() if level is None else marginal.interval(level)
    numbers = (marginal.values, marginal.std_error, margins(marginal, level), *ends)
    for own, *each in zip(labels, *(array.ravel().tolist() for array in numbers), strict=True):
        yield Cell(own, *each)


def measures(marginal: Marginal, *, level: float | None = None) -> list[list[float | None]]:
    """The numbers of each of ``MEASURES``, the last attribute fastest; None in the place of NaN.

    Intervals are 95% sure unless a level is said.
    """
    low, high = marginal.interval() if level is None else marginal.interval(level)
    arrays = (marginal.values, marginal.std_error, low, high)
    return [[known(without_dust(number)) for number in array.ravel().tolist()] for array in arrays]


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with underscores behind it while it is taken: columns of numbers give way to attributes."""
    while name in taken:
        name += "_"
    return name


def margins(marginal: Marginal, level: float | None) -> NDArray[np.float64]:
    """What follows ± in each cell: half the width of the interval, or the standard error where no level is asked."""
    return marginal.std_error if level is None else marginal.half_width(level)


def common(errors: NDArray[np.float64]) -> float | None:
    """The number that all cells share; None where they differ or none is known."""
    first = float(errors.flat[0])
    return known(first) if (errors == first).all() else None


def known(number: float) -> float | None:
    """The number, or None in the place of NaN, which JSON does not have."""
    return number if math.isfinite(number) else None


def without_dust(count: float) -> float:
    """The count without the dust of floating point: 4.0 where 3.9999999999999982 was computed."""
    return round(count, _DIGITS) + 0.0
