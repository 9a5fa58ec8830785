"""What can become of tables: each change acts on stacks of tables (the first axis), and on linear functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.arithmetic.linear import Linear
from crosstally.typing import Floats

__all__ = [
    "Added",
    "Change",
    "InARow",
    "Moved",
    "OfBoth",
    "Scaled",
    "Shifted",
    "Statistic",
    "Taken",
    "Then",
    "Unbiased",
]


class Change(ABC):
    """A change of one table into another; one that is not linear has no variance of its own."""

    __slots__ = ()
    is_linear: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, stack: Floats) -> Floats:
        """What becomes of each table of a stack."""

    def linear(self, before: Linear) -> Linear | None:  # noqa: ARG002
        """What becomes of a linear function; None where the result is not linear."""
        return None

    def table(self, values: Floats) -> Floats:
        """What becomes of a single table."""
        return np.asarray(self(values[None])[0])


@dataclass(frozen=True, slots=True, eq=False)
class Then(Change):
    """One change after another."""

    first: Change
    second: Change

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return self.second(self.first(stack))


@dataclass(frozen=True, slots=True, eq=False)
class Added(Change):
    """Cells along an axis added up, weighted by the rows of a matrix; ``kept`` is False where the axis is left out."""

    axis: int
    matrix: Floats
    kept: bool

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        moved = np.moveaxis(np.tensordot(self.matrix, stack, axes=(1, self.axis + 1)), 0, self.axis + 1)
        return moved if self.kept else moved.squeeze(self.axis + 1)

    def linear(self, before: Linear) -> Linear | None:
        """See Change."""
        mapped = before.along(self.axis, self.matrix)
        return mapped if self.kept or mapped is None else mapped.without(self.axis)


@dataclass(frozen=True, slots=True, eq=False)
class Taken(Change):
    """Some of the cells along an axis; a single one leaves the axis out unless it is ``kept``."""

    axis: int
    codes: tuple[int, ...]
    size: int
    kept: bool

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return np.asarray(stack.take(self.codes if self.kept else self.codes[0], self.axis + 1))

    def linear(self, before: Linear) -> Linear | None:
        """See Change."""
        return Added(self.axis, np.eye(self.size)[list(self.codes)], self.kept).linear(before)


@dataclass(frozen=True, slots=True, eq=False)
class InARow(Change):
    """Some cells, by their places in the flat table."""

    cells: NDArray[np.intp]

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return stack.reshape(len(stack), -1)[:, self.cells]

    def linear(self, before: Linear) -> Linear | None:
        """See Change."""
        return before.picked(self.cells)


@dataclass(frozen=True, slots=True)
class Moved(Change):
    """The axes in another order: axis i of the result is axis ``order[i]`` of the table."""

    order: tuple[int, ...]

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return stack.transpose(0, *(axis + 1 for axis in self.order))

    def linear(self, before: Linear) -> Linear | None:
        """See Change."""
        return before.placed([self.order.index(axis) for axis in range(len(self.order))], len(self.order))


@dataclass(frozen=True, slots=True)
class Scaled(Change):
    """Times a number."""

    factor: float

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return stack * self.factor

    def linear(self, before: Linear) -> Linear | None:
        """See Change."""
        return before.scaled(self.factor)


@dataclass(frozen=True, slots=True)
class Shifted(Change):
    """A number more."""

    number: float

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return stack + self.number

    def linear(self, before: Linear) -> Linear | None:
        """See Change."""
        return before


@dataclass(frozen=True, slots=True)
class Statistic(Change):
    """One number of each table."""

    is_linear: ClassVar[bool] = False
    function: Callable[[Floats], Floats]

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return np.asarray(self.function(stack), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Unbiased(Change):
    """What noise adds on average taken off all tables but the first, the truth of the replicates."""

    is_linear: ClassVar[bool] = False
    added: Floats

    def __call__(self, stack: Floats) -> Floats:
        """See Change."""
        return np.concatenate([stack[:1], stack[1:] - self.added])


@dataclass(frozen=True, slots=True, eq=False)
class OfBoth:
    """A function of two tables, cell by cell, after their axes are moved to ``places`` among ``ndim``.

    Where it is the first plus ``sign`` times the second, it is linear.
    """

    function: np.ufunc
    places: tuple[tuple[int, ...], tuple[int, ...]]
    ndim: int
    sign: float | None = None

    def __call__(self, mine: Floats, others: Floats) -> Floats:
        """The function of each pair of tables of two stacks."""
        one, other = (_placed(stack, axes, self.ndim) for stack, axes in zip((mine, others), self.places, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.function(one, other))

    def linear(self, mine: Linear, others: Linear) -> Linear | None:
        """The function of two linear functions; None where it is not linear."""
        if self.sign is None:
            return None
        return mine.placed(self.places[0], self.ndim).plus(others.placed(self.places[1], self.ndim).scaled(self.sign))


def _placed(stack: Floats, axes: tuple[int, ...], ndim: int) -> Floats:
    """The axes after the first moved to some places among ``ndim``; the others have length one."""
    order = [0, *(int(i) + 1 for i in np.argsort(axes))]
    return np.expand_dims(stack.transpose(order), tuple(i + 1 for i in range(ndim) if i not in axes))
