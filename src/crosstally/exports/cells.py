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

    from crosstally.answers.marginal import Marginal
    from crosstally.typing import Floats

__all__ = [
    "MEASURES",
    "Cell",
    "common",
    "free_name",
    "known",
    "labelled_cells",
    "margins",
    "measures",
    "pieces",
    "without_dust",
]

MEASURES = ("count", "std_error", "count_low", "count_high")
"""What is said about each cell: its count, its standard error and the ends of its interval."""

_ROWS = 50_000  # of a piece: a few megabytes of text
_DIGITS = 9  # after the point; counts are whole and their errors seldom below 0.01


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its labels in the order of the axes, its count, its standard error and the ends of its interval.

    What is not known is NaN.
    """

    labels: tuple[str, ...]
    count: float
    std_error: float
    low: float
    high: float


def labelled_cells(marginal: Marginal, *, level: float | None = None) -> Iterator[Cell]:
    """The cells of a table, the last attribute fastest; intervals are of 95% where no level is asked."""
    labels = product(*(attribute.labels for attribute in marginal.schema.attributes))
    ends = marginal.interval() if level is None else marginal.interval(level)
    numbers = (marginal.values, marginal.std_error, *ends)
    for own, *each in zip(labels, *(array.ravel().tolist() for array in numbers), strict=True):
        yield Cell(own, *each)


def measures(marginal: Marginal, *, level: float | None = None) -> list[list[float | None]]:
    """The numbers of each of ``MEASURES``, the last attribute fastest; None in the place of NaN.

    Intervals are 95% sure unless a level is said.
    """
    low, high = marginal.interval() if level is None else marginal.interval(level)
    arrays = (marginal.values, marginal.std_error, low, high)
    return [[known(without_dust(number)) for number in array.ravel().tolist()] for array in arrays]


def pieces(marginal: Marginal, *, level: float | None = None) -> Iterator[tuple[list[NDArray[np.intp]], list[Floats]]]:
    """The codes of each attribute and the numbers of each of ``MEASURES``, some cells at a time, for large files."""
    import numpy as np  # here: the terminal draws cells, and starts without it

    ends = marginal.interval() if level is None else marginal.interval(level)
    numbers = [np.asarray(each).reshape(-1) for each in (marginal.values, marginal.std_error, *ends)]
    for start in range(0, marginal.values.size, _ROWS):
        indices = np.arange(start, min(start + _ROWS, marginal.values.size))
        codes = list(np.unravel_index(indices, marginal.values.shape)) if marginal.values.ndim else []
        yield codes, [each[indices] for each in numbers]


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
