"""Generalised randomised response (GRR): the own cell, or any other.

Every attribute at once by randomised response, each with a part of epsilon (EM).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

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


@register
@dataclass(frozen=True, slots=True)
class RandomisedResponse(ViewOracle):
    """The cell itself with probability ``keep``, else any other (GRR)."""

    keep: Fraction
    kind: ClassVar[str] = "randomised-response"
    most_cells: ClassVar[int] = 2**20  # the collector keeps 8 bytes or 16 for each

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> RandomisedResponse:
        """The oracle with keep = a / (a + c - 1), rounded down."""
        odds = odds_below(epsilon)
        return cls(tuple(sizes), rounded_down(odds / (odds + math.prod(sizes) - 1)))

    @property
    def true(self) -> Fraction:
        """Its own cell is reported."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """Each other cell is equally likely."""
        return (1 - self.keep) / (self.cells - 1)

    @property
    def answers(self) -> AnswerSpace:
        """A report is the number of a cell."""
        return AnswerSpace(limit=self.cells)

    @property
    def support_variance(self) -> float:
        """Every report supports one cell."""
        return 0.0

    def draw(self, codes: Codes) -> Answers:
        """Kept or replaced by a kernel."""
        from crosstally.kernels.local import draw_kept

        people, keep = codes.shape[1], threshold(self.keep)
        cells = cell_numbers(codes, self.sizes, people)
        return filled(people, 2, lambda words, out: draw_kept(cells, self.cells, keep, words, out))


@register
@dataclass(frozen=True, slots=True)
class EachAttribute(ResidualOracle):
    """Every attribute by randomised response, each with an equal part of epsilon (EM).

    With 1 / l the scale that undoes it, l = (n keep - 1) / (n - 1), s / m = prod(1 / (n l^2)) over B.
    """

    _: KW_ONLY
    keeps: tuple[Fraction, ...]
    kind: ClassVar[str] = "each-attribute"

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> EachAttribute:
        """The oracle with keep = a / (a + n - 1) for each attribute, a for its part of epsilon."""
        if math.prod(sizes) > MOST_SLOTS:
            raise PlanError(
                f"every attribute at once must have at most {MOST_SLOTS:,} joint reports, got {math.prod(sizes):,}"
            )
        odds = odds_below(epsilon / len(sizes))
        return cls(tuple(sizes), keeps=tuple(rounded_down(odds / (odds + n - 1)) for n in sizes))

    @property
    def answers(self) -> AnswerSpace:
        """A report is a value for each attribute."""
        return AnswerSpace(limit=self.cells)

    def scales(self) -> tuple[float, ...]:
        """How much of each attribute's residual survives: l = (n keep - 1) / (n - 1)."""
        return tuple(float((n * keep - 1) / (n - 1)) for n, keep in zip(self.sizes, self.keeps, strict=True))

    def response(self, axes: Sequence[int]) -> float:
        """What perturbation adds to the variance of a coefficient of the residual over some attributes."""
        scales = self.scales()
        square = math.prod(1 / (self.sizes[axis] * scales[axis] ** 2) for axis in axes)
        return square - math.prod(1 / self.sizes[axis] for axis in axes)

    def sampled_variance(self, axes: Sequence[int]) -> float | None:
        """Everybody reports everything: sampling adds nothing."""
        return self.response(axes)

    def residual(self, slots: Counts, axes: Sequence[int]) -> NDArray[np.float64]:
        """R_B of the counts for the attributes at some axes: unbiased."""
        others = tuple(axis for axis in range(len(self.sizes)) if axis not in axes)
        out: NDArray[np.float64] = slots.reshape(self.sizes).sum(axis=others).astype(np.float64)
        scales = self.scales()
        for place, axis in enumerate(axes):
            out = (out - out.mean(axis=place, keepdims=True)) / scales[axis]
        return out

    def residuals(self, slots: Counts, ways: int) -> Iterator[ResidualAnswer]:
        """Those over one, two, ... attributes, up to ``ways``."""
        for order in range(1, ways + 1):
            for axes in combinations(range(len(self.sizes)), order):
                yield ResidualAnswer(axes, self.residual(slots, axes), self.response(axes))

    def extremes(self, wanted: Mapping[tuple[int, ...], NDArray[np.float64]]) -> tuple[float, float]:
        """Over all values of the attributes that matter."""
        scales, axes = self.scales(), sorted({axis for own in wanted for axis in own})
        said = np.zeros([self.sizes[axis] for axis in axes])
        for own, weights in wanted.items():
            each = centred(weights) / math.prod(scales[axis] for axis in own)
            said = said + np.expand_dims(each, tuple(i for i, axis in enumerate(axes) if axis not in own))
        return float(said.min()), float(said.max())

    def draw(self, codes: Codes) -> Answers:
        """Randomised response of each attribute, the last one fastest."""
        out = np.zeros(codes.shape[1], np.uint64)
        for line, size, keep in zip(codes, self.sizes, self.keeps, strict=True):
            out = out * np.uint64(size) + RandomisedResponse((size,), keep).draw(line[None])
        return out
