"""The linear map from the counts of a table to its contrast, on whole numbers: everything is a product over attributes.

Along an attribute of n values it is a matrix M with zero row sums, whose columns are what one row adds to the answer:

    n > 2    M = n I - J (J all ones): how far each value's count is from the mean, times n
    n = 2    M = (1, -1): first minus second, a single number, since the two rows of 2 I - J say the same

This is the only place that tells the two apart. Divided by ``squared_scale``, M' M is the matrix that centres.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ContrastAxis", "ContrastMap"]

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, slots=True)
class ContrastAxis:
    """The matrix M along one attribute of ``size`` values.

    >>> [(axis.numbers, axis.l1, axis.l2_squared, axis.squared_scale) for axis in map(ContrastAxis, (2, 3))]
    [(1, 1, 1, 2), (3, 4, 6, 9)]
    """

    size: int

    @property
    def is_difference(self) -> bool:
        """Whether M is (1, -1)."""
        return self.size == 2

    @property
    def numbers(self) -> int:
        """How many rows M has."""
        return 1 if self.is_difference else self.size

    @property
    def l1(self) -> int:
        """The L1 norm of each column: n - 1 for the value itself and 1 for each other one."""
        return 1 if self.is_difference else 2 * (self.size - 1)

    @property
    def l2_squared(self) -> int:
        """The squared L2 norm of each column: (n - 1)^2 + n - 1."""
        return 1 if self.is_difference else self.size * (self.size - 1)

    @property
    def inner(self) -> int:
        """The inner product of two different columns."""
        return -1 if self.is_difference else -self.size

    @property
    def squared_scale(self) -> int:
        """The variance of the answer's noise over that of the coefficients that it gives.

        For a unit vector h with sum zero |M h|^2 = n^2; with two values h = (1, -1) / sqrt(2), and M h = sqrt(2).
        """
        return 2 if self.is_difference else self.size**2

    @property
    def pairs(self) -> tuple[tuple[int, int, int], ...]:
        """For two different columns a and b: each pair of entries (a_i, b_i), and in how many rows it stands."""
        n = self.size
        return ((1, -1, 1),) if self.is_difference else ((n - 1, -1, 1), (-1, n - 1, 1), (-1, -1, n - 2))

    @property
    def weights(self) -> tuple[tuple[float, float], ...]:
        """How much each number of the answer weighs in one value of the centred table M' answer / squared scale.

        For each size of weight that weight and how many numbers have it; with two values both signs have one size.
        """
        n = self.size
        return ((1 / 2, 1),) if self.is_difference else ((-1 / n**2, n - 1), ((1 - 1 / n) / n, 1))

    def apply(self, counts: NDArray[Number], axis: int) -> NDArray[Number]:
        """M times the counts along an axis, which stays even where one number is left."""
        total = counts.sum(axis=axis, keepdims=True)
        return np.asarray(2 * counts.take([0], axis) - total if self.is_difference else self.size * counts - total)

    def adjoint(self, numbers: NDArray[Number], axis: int) -> NDArray[Number]:
        """M' times the numbers along an axis: one for each value."""
        if self.is_difference:
            return np.concatenate([numbers, -numbers], axis)
        return np.asarray(self.size * numbers - numbers.sum(axis=axis, keepdims=True))

    def columns(self, values: NDArray[np.intp]) -> NDArray[np.int64]:
        """The columns of M for some values, side by side: (numbers, values)."""
        if self.is_difference:
            return 1 - 2 * np.asarray(values, np.int64)[None, :]
        return np.asarray(self.size * (np.arange(self.size)[:, None] == values) - 1, np.int64)


@dataclass(frozen=True, slots=True)
class ContrastMap:
    """The contrast of a table of these sizes: the tensor product of M over its attributes."""

    sizes: tuple[int, ...]

    @property
    def axes(self) -> tuple[ContrastAxis, ...]:
        """The map along each attribute."""
        return tuple(map(ContrastAxis, self.sizes))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        return tuple(axis.numbers for axis in self.axes)

    @property
    def l1(self) -> int:
        """The L1 norm of what one row adds to the answer: the same for every row."""
        return math.prod(axis.l1 for axis in self.axes)

    @property
    def l2_squared(self) -> int:
        """The squared L2 norm of what one row adds."""
        return math.prod(axis.l2_squared for axis in self.axes)

    @property
    def squared_scale(self) -> int:
        """The variance of the answer's noise over that of the residual's coefficients."""
        return math.prod(axis.squared_scale for axis in self.axes)

    @property
    def variance_factor(self) -> float:
        """The variance of the residual's coefficients for each unit of variance of the answer's noise."""
        return math.prod(1 / axis.squared_scale for axis in self.axes)

    def apply(self, counts: NDArray[Number]) -> NDArray[Number]:
        """The contrast of a table."""
        for place, axis in enumerate(self.axes):
            counts = axis.apply(counts, place)
        return counts

    def adjoint(self, numbers: NDArray[Number]) -> NDArray[Number]:
        """For each cell of the table what one row in it adds to the answer, times the numbers."""
        for place, axis in enumerate(self.axes):
            numbers = axis.adjoint(numbers, place)
        return numbers

    def columns(self, cells: NDArray[np.intp]) -> NDArray[np.int64]:
        """What one row adds, for each of some cells (a row each, a value for each attribute): (numbers, cells).

        >>> ContrastMap((2, 3)).columns(np.array([[0, 0], [1, 0]]))
        array([[ 2, -2],
               [-1,  1],
               [-1,  1]])
        """
        out = np.ones((1, len(cells)), np.int64)
        for place, axis in enumerate(self.axes):
            out = (out[:, None] * axis.columns(cells[:, place])).reshape(-1, len(cells))
        return out

    def cell_weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How much the numbers of the answer weigh in one cell of the centred table, and how many weigh so much."""
        return _products([axis.weights for axis in self.axes])

    @property
    def coefficient_scale(self) -> float:
        """What turns inner products of the answer with orthonormal vectors into the residual's coefficients."""
        return math.prod(1 / math.sqrt(axis.squared_scale) for axis in self.axes)


def _products(pairs: Sequence[Sequence[tuple[float, float]]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All products of one pair from each list, member by member, the last list fastest."""
    first = second = np.ones(1)
    for each in pairs:
        own = np.array(each)
        first = np.multiply.outer(first, own[:, 0]).ravel()
        second = np.multiply.outer(second, own[:, 1]).ravel()
    return first, second
