"""Hadamard response: the perturbed sign of the own cell in a row of Hadamard's matrix.

Hadamard's matrix by Sylvester: the sign of row r at cell x is the parity of the bits of r AND x.

One perturbed bit of one residual; for binary attributes their parity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.local.oracles.answers import (
    MOST_SLOTS,
    Answers,
    AnswerSpace,
    Counts,
    filled,
    odds_below,
    rounded_down,
    threshold,
)
from crosstally.local.oracles.oracle import (
    Codes,
    ResidualAnswer,
    ResidualOracle,
    ViewOracle,
    cell_numbers,
    centred,
    register,
)


def hadamard_order(cells: int) -> int:
    """The order of the smallest matrix with a column for each cell: a power of two.

    >>> hadamard_order(5)
    8
    """
    return 1 << (cells - 1).bit_length()


def hadamard_transform(values: NDArray[Any]) -> NDArray[Any]:
    """The inner products with all rows of Hadamard's matrix; as many as a power of two.

    >>> hadamard_transform(np.array([1, 0, 0, 2]))
    array([ 3, -1, -1,  3])
    """
    out = values.copy()
    step = 1
    while step < len(out):
        pairs = out.reshape(-1, 2, step)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return out


@register
@dataclass(frozen=True, slots=True)
class HadamardResponse(ViewOracle):
    """A row of Hadamard's matrix other than the first, and its sign at the cell, kept with probability ``keep``."""

    keep: Fraction
    kind: ClassVar[str] = "hadamard-response"
    most_cells: ClassVar[int] = 2**20  # the collector keeps 8 bytes or 16 for each

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> HadamardResponse:
        """The oracle with keep = a / (a + 1), rounded down."""
        odds = odds_below(epsilon)
        return cls(tuple(sizes), rounded_down(odds / (odds + 1)))

    @property
    def order(self) -> int:
        """The order of the matrix."""
        return hadamard_order(self.cells)

    @property
    def true(self) -> Fraction:
        """The sign is that of its own cell."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """The sign is that of another cell: of order - 1 rows order / 2 tell two cells apart."""
        half = self.order // 2
        return (self.keep * (half - 1) + (1 - self.keep) * half) / (self.order - 1)

    @property
    def answers(self) -> AnswerSpace:
        """A report is a row and a sign; the first row of the matrix is never drawn."""
        return AnswerSpace(limit=2 * self.order, least=2)

    @property
    def support_variance(self) -> float:
        """Half of a whole matrix is supported; of a part of it, a number that depends on the row.

        With w the sum of a row's signs over the cells, (c + w) / 2 and (c - w) / 2 cells have each sign. What is needed
        of all rows is the mean of w^2, and the squares of all rows, the first among them, add up to order x c.
        """
        cells, keep = self.cells, float(self.keep)
        square_sum = (self.order * cells - cells**2) / (self.order - 1)
        own = (cells**2 + 3 * square_sum) / 4  # the mean over cells of the squared number of cells with their own sign
        others = (cells**2 + square_sum) / 2 - own
        return keep * own + (1 - keep) * others - (keep + (cells - 1) * float(self.false)) ** 2

    def supports(self, slots: Counts) -> Counts:
        """For each cell the reports whose sign it has."""
        signs = slots.reshape(-1, 2)
        agreement = hadamard_transform(signs[:, 0] - signs[:, 1])[: self.cells]
        return np.asarray((slots.sum() + agreement) // 2)

    def support_extremes(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Over all rows but the first, and both signs, the cells with that sign."""
        signed = hadamard_transform(np.concatenate([weights, np.zeros(self.order - self.cells)]))[1:]
        most = float(np.abs(signed).max())
        return (float(weights.sum()) - most) / 2, (float(weights.sum()) + most) / 2

    def draw(self, codes: Codes) -> Answers:
        """A row and a sign by a kernel."""
        from crosstally.kernels.local import draw_hadamard

        people, order, keep = codes.shape[1], self.order, threshold(self.keep)
        cells = cell_numbers(codes, self.sizes, people)
        return filled(people, 2, lambda words, out: draw_hadamard(cells, order, keep, words, out))

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with the order of the matrix, which a device checks."""
        return {**ViewOracle.to_dict(self), "order": self.order}


@register
@dataclass(frozen=True, slots=True)
class ResidualBit(ResidualOracle):
    """The sign of a row in a residual, kept with probability ``keep``; for binary attributes their parity.

    For each attribute a row of Hadamard's matrix of order K >= n, other than the first, is drawn; the bit is the
    product of the signs at the person's values. Over all rows a sign vector f has mean f f' = (K I - J) / (K - 1), so
    prod((K - 1) / K) times the centred signs, times the bit over (2 keep - 1), has the mean that is wanted, and
    s / m = prod((K - 1) / K) / (2 keep - 1)^2.
    """

    keep: Fraction
    kind: ClassVar[str] = "residual-bit"

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> ResidualBit:
        """The oracle with keep = a / (a + 1), rounded down."""
        odds = odds_below(epsilon)
        made = cls(tuple(sizes), rounded_down(odds / (odds + 1)))
        if made.slots > MOST_SLOTS:
            raise PlanError(f"a residual must have at most {MOST_SLOTS:,} reports, got {made.slots:,}")
        return made

    @property
    def orders(self) -> tuple[int, ...]:
        """The order of each attribute's matrix."""
        return tuple(hadamard_order(n) for n in self.sizes)

    @property
    def answers(self) -> AnswerSpace:
        """A report is a row for each attribute, and a bit."""
        return AnswerSpace(limit=2 * math.prod(order - 1 for order in self.orders))

    @property
    def response(self) -> float:
        """What perturbation adds to the variance of a coefficient for each report."""
        square = math.prod(1 - 1 / order for order in self.orders) / float(2 * self.keep - 1) ** 2
        return square - math.prod(1 / n for n in self.sizes)

    def sampled_variance(self, axes: Sequence[int]) -> float | None:
        """A bit tells about its whole residual, and nothing else."""
        whole = len(axes) == len(self.sizes)
        return self.response + math.prod(1 / n for n in self.sizes) if whole else None

    def residual(self, slots: Counts) -> NDArray[np.float64]:
        """R_B of the counts of the people who reported: unbiased."""
        bits = slots.reshape(*(order - 1 for order in self.orders), 2)
        out: NDArray[Any] = (bits[..., 0] - bits[..., 1]).astype(np.float64)
        for axis, (n, order) in enumerate(zip(self.sizes, self.orders, strict=True)):
            lines = np.moveaxis(out, axis, -1)
            whole = np.concatenate([np.zeros((*lines.shape[:-1], 1)), lines], axis=-1)
            signs = np.apply_along_axis(hadamard_transform, -1, whole)[..., :n]
            out = np.moveaxis((signs - signs.mean(axis=-1, keepdims=True)) * (order - 1) / order, -1, axis)
        return out / float(2 * self.keep - 1)

    def residuals(self, slots: Counts, ways: int) -> Iterator[ResidualAnswer]:  # noqa: ARG002 (there is only one)
        """The residual over all its attributes."""
        yield ResidualAnswer(tuple(range(len(self.sizes))), self.residual(slots), self.response)

    def extremes(self, wanted: Mapping[tuple[int, ...], NDArray[np.float64]]) -> tuple[float, float]:
        """Over all rows of all attributes, and both signs; it is what ``residual`` does, the other way round."""
        out = centred(wanted[tuple(range(len(self.sizes)))])
        for axis, (n, order) in enumerate(zip(self.sizes, self.orders, strict=True)):
            lines = np.moveaxis(out, axis, -1)
            whole = np.concatenate([lines, np.zeros((*lines.shape[:-1], order - n))], axis=-1)
            signs = np.apply_along_axis(hadamard_transform, -1, whole)[..., 1:]
            out = np.moveaxis(signs * (order - 1) / order, -1, axis)
        most = float(np.abs(out).max() / float(2 * self.keep - 1))
        return -most, most

    def draw(self, codes: Codes) -> Answers:
        """Rows and a bit by a kernel; attributes of two values need no word for their row."""
        from crosstally.kernels.local import draw_residual_bits

        keep, orders = threshold(self.keep), np.array(self.orders, np.int64)
        each = 1 + sum(order > 2 for order in self.orders)
        return filled(codes.shape[1], each, lambda words, out: draw_residual_bits(codes, orders, keep, words, out))

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with the order of each matrix, which a device checks."""
        return {**ResidualOracle.to_dict(self), "orders": list(self.orders)}
