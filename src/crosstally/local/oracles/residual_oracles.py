"""Oracles that report residuals: one bit of one residual, or every attribute at once.

Both give the centred table R_B of the frequencies without bias: each person adds a vector whose mean is R_B of the
person's own row, prod over B of (e_x - 1/n). With s the mean squared length of that vector and m the number of
coefficients of B, prod(n_i - 1),

    response = s / m - prod(1 / n_i)

is what perturbation adds to the variance of a coefficient, on average over them, for each report; it does not depend
on the data. ``Sampled`` adds what drawing a group of people adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.local.oracles.odds import odds_below, rounded_down
from crosstally.local.oracles.oracles import hadamard_transform

__all__ = ["EachAttribute", "ResidualBit"]

_MOST_SLOTS = 2**20


@dataclass(frozen=True, slots=True)
class ResidualBit:
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
        if made.slots > _MOST_SLOTS:
            raise PlanError(f"a residual must have at most {_MOST_SLOTS:,} reports, got {made.slots:,}")
        return made

    @property
    def orders(self) -> tuple[int, ...]:
        """The order of each attribute's matrix."""
        return tuple(1 << (n - 1).bit_length() for n in self.sizes)

    @property
    def limit(self) -> int:
        """A report is a row for each attribute, and a bit."""
        return 2 * math.prod(order - 1 for order in self.orders)

    @property
    def slots(self) -> int:
        """The reports for each choice of rows and bit."""
        return self.limit

    @property
    def response(self) -> float:
        """What perturbation adds to the variance of a coefficient for each report."""
        square = math.prod(1 - 1 / order for order in self.orders) / float(2 * self.keep - 1) ** 2
        return square - math.prod(1 / n for n in self.sizes)

    def residual(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """R_B of the counts of the people who reported: unbiased."""
        bits = slots.reshape(*(order - 1 for order in self.orders), 2)
        out: NDArray[Any] = (bits[..., 0] - bits[..., 1]).astype(np.float64)
        for axis, (n, order) in enumerate(zip(self.sizes, self.orders, strict=True)):
            lines = np.moveaxis(out, axis, -1)
            whole = np.concatenate([np.zeros((*lines.shape[:-1], 1)), lines], axis=-1)
            signs = np.apply_along_axis(hadamard_transform, -1, whole)[..., :n]
            out = np.moveaxis((signs - signs.mean(axis=-1, keepdims=True)) * (order - 1) / order, -1, axis)
        return out / float(2 * self.keep - 1)

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {"kind": self.kind, "sizes": list(self.sizes), "orders": list(self.orders), "keep": str(self.keep)}


@dataclass(frozen=True, slots=True)
class EachAttribute:
    """Every attribute by randomised response, each with an equal part of epsilon (EM).

    With 1 / l the scale that undoes it, l = (n keep - 1) / (n - 1), s / m = prod(1 / (n l^2)) over B.
    """

    sizes: tuple[int, ...]
    _: KW_ONLY
    keeps: tuple[Fraction, ...]
    kind: ClassVar[str] = "each-attribute"

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> EachAttribute:
        """The oracle with keep = a / (a + n - 1) for each attribute, a for its part of epsilon."""
        if math.prod(sizes) > _MOST_SLOTS:
            raise PlanError(
                f"every attribute at once must have at most {_MOST_SLOTS:,} joint reports, got {math.prod(sizes):,}"
            )
        odds = odds_below(epsilon / len(sizes))
        return cls(tuple(sizes), keeps=tuple(rounded_down(odds / (odds + n - 1)) for n in sizes))

    @property
    def limit(self) -> int:
        """A report is a value for each attribute."""
        return math.prod(self.sizes)

    @property
    def slots(self) -> int:
        """The reports for each combination of values."""
        return math.prod(self.sizes)

    def scales(self) -> tuple[float, ...]:
        """How much of each attribute's residual survives: l = (n keep - 1) / (n - 1)."""
        return tuple(float((n * keep - 1) / (n - 1)) for n, keep in zip(self.sizes, self.keeps, strict=True))

    def response(self, axes: Sequence[int]) -> float:
        """What perturbation adds to the variance of a coefficient of the residual over some attributes."""
        scales = self.scales()
        square = math.prod(1 / (self.sizes[axis] * scales[axis] ** 2) for axis in axes)
        return square - math.prod(1 / self.sizes[axis] for axis in axes)

    def residual(self, slots: NDArray[np.int64], axes: Sequence[int]) -> NDArray[np.float64]:
        """R_B of the counts for the attributes at some axes: unbiased."""
        others = tuple(axis for axis in range(len(self.sizes)) if axis not in axes)
        out: NDArray[np.float64] = slots.reshape(self.sizes).sum(axis=others).astype(np.float64)
        scales = self.scales()
        for place, axis in enumerate(axes):
            out = (out - out.mean(axis=place, keepdims=True)) / scales[axis]
        return out

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {"kind": self.kind, "sizes": list(self.sizes), "keeps": [str(keep) for keep in self.keeps]}
