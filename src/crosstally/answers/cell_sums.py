"""Sums over chosen cells of some attributes, split as the residual basis splits a table.

A function f on the cells of some attributes has a part for each subset B of them: its mean along the attributes outside
B, centred along those inside B. The parts add up to f and are orthogonal. Here f is 1 on the chosen cells and 0
elsewhere; values of an attribute that cannot be told apart by f are kept once, with their number. So a range of 30 bins
out of 100 is two kinds of values, and a condition in product form costs 2 numbers for each attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CellSums"]


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """The cells of ``names`` that are summed.

    ``kinds`` holds for each attribute how many of its values are of each kind; ``cells`` is 1 where a combination of
    kinds is chosen, otherwise 0.
    """

    names: tuple[str, ...]
    kinds: tuple[NDArray[np.float64], ...]
    cells: NDArray[np.float64]

    @classmethod
    def of(cls, names: Sequence[str], chosen: NDArray[np.bool_]) -> CellSums:
        """From what is chosen among the cells of all values: an axis for each attribute."""
        cells, kinds = chosen, []
        for axis, n in enumerate(chosen.shape):
            slices = np.moveaxis(cells, axis, 0).reshape(n, -1)
            _, first, times = np.unique(slices, axis=0, return_index=True, return_counts=True)
            cells = cells.take(first, axis)
            kinds.append(times.astype(float))
        return cls(tuple(names), tuple(kinds), cells.astype(float))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(int(kinds.sum()) for kinds in self.kinds)

    def squares(self) -> NDArray[np.float64]:
        """The sum of squares of each part along its own attributes, for all subsets, the last attribute fastest."""
        return _squares(self.cells[None], np.ones(1), self.kinds)

    def mean(self, axes: Sequence[int]) -> CellSums:
        """The mean along all attributes but those of some axes (increasing); not 0 or 1 any more."""
        cells = self.cells
        for axis in reversed(range(len(self.kinds))):
            if axis not in axes:
                cells = np.tensordot(cells, self.kinds[axis] / self.kinds[axis].sum(), axes=(axis, 0))
        return CellSums(tuple(self.names[i] for i in axes), tuple(self.kinds[i] for i in axes), np.asarray(cells))

    def weighted(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum over all parts of share times part, for each row of ``shares`` (rows, 2, ..., 2): (rows, cells)."""
        return _weighted(shares, self.cells[None], self.kinds)

    def contrast(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What a contrast of all attributes adds for each of its noisy numbers, and how often each occurs.

        Along an attribute of n > 2 values a noisy number stands for a cell times n. Along one of two values there is
        a single number, half of which is added to one cell and taken from the other: the centred value of the first.
        """
        cells, times = self.cells[None], np.ones(1)
        for kinds in self.kinds:
            n, centred = kinds.sum(), _split(cells, kinds)[1]
            centred, number = (centred[:, :1], np.ones(1)) if n == 2 else (centred / n, kinds)
            cells = centred.reshape(-1, *centred.shape[2:])
            times = np.multiply.outer(times, number).ravel()
        return cells, times


def _split(cells: NDArray[np.float64], kinds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean along the second axis, and what is left: (P, rest) and (P, kinds, rest) of (P, kinds, rest)."""
    mean = np.asarray(np.tensordot(cells, kinds / kinds.sum(), axes=(1, 0)))
    return mean, cells - mean[:, None]


def _squares(
    cells: NDArray[np.float64], times: NDArray[np.float64], kinds: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """``cells`` is (P, kinds of each attribute); each of the P, centred already, occurs a number of times."""
    if not kinds:
        return np.array([times @ cells**2])
    mean, centred = _split(cells, kinds[0])
    within = centred.reshape(-1, *centred.shape[2:])
    return np.concatenate(
        [
            _squares(mean, times, kinds[1:]),
            _squares(within, np.multiply.outer(times, kinds[0]).ravel(), kinds[1:]),
        ]
    )


def _weighted(
    shares: NDArray[np.float64], cells: NDArray[np.float64], kinds: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """``shares`` is (rows, 2, ..., 2) and ``cells`` (P, kinds of each attribute left): (rows, P x kinds left)."""
    if not kinds:
        return np.multiply.outer(shares, cells)
    mean, centred = _split(cells, kinds[0])
    rows, shape = len(shares), centred.shape
    without = _weighted(shares[:, 0], mean, kinds[1:]).reshape(rows, shape[0], 1, -1)
    within = _weighted(shares[:, 1], centred.reshape(-1, *shape[2:]), kinds[1:])
    return (within.reshape(rows, shape[0], shape[1], -1) + without).reshape(rows, -1)
