"""One perturbed bit of one residual; for binary attributes their parity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.local.oracles.answers import MOST_SLOTS, Answers, AnswerSpace, Counts, filled, threshold
from crosstally.local.oracles.hadamard_response import hadamard_order, hadamard_transform
from crosstally.local.oracles.odds import odds_below, read_probability, rounded_down
from crosstally.local.oracles.oracle import Codes, ResidualAnswer, ResidualOracle, centred
from crosstally.local.oracles.registry import register

__all__ = ["ResidualBit"]


@register
@dataclass(frozen=True, slots=True)
class ResidualBit(ResidualOracle):
    """The sign of a row in a residual, kept with probability ``keep``; for binary attributes their parity.

    For each attribute a row of Hadamard's matrix of order K >= n, other than the first, is drawn; the bit is the
    product of the signs at the person's values. Over all rows a sign vector f has mean f f' = (K I - J) / (K - 1), so
    prod((K - 1) / K) times the centred signs, times the bit over (2 keep - 1), has the mean that is wanted, and
    s / m = prod((K - 1) / K) / (2 keep - 1)^2.
    """

    sizes: tuple[int, ...]
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

    def parameters(self) -> dict[str, Any]:
        """The order of each matrix, and the probability."""
        return {"orders": list(self.orders), "keep": str(self.keep)}

    @classmethod
    def from_parameters(cls, sizes: tuple[int, ...], given: Mapping[str, Any]) -> ResidualBit:
        """The oracle of a probability; orders follow from the sizes."""
        return cls(sizes, read_probability(given["keep"]))
