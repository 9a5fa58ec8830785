"""Optimal unary encoding (OUE): a perturbed bit for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from crosstally.errors import CrosstallyError
from crosstally.local.oracles.answers import (
    MASK_CELLS,
    Answers,
    AnswerSpace,
    filled,
    odds_below,
    rounded_up,
    threshold,
)
from crosstally.local.oracles.oracle import Codes, ViewOracle, cell_numbers, register

_RESOLUTION = 2**16  # steps of ``other``: in bulk half a word decides about a bit
_NARROW_CELLS = 16  # up to here half a word is drawn for each bit; beyond, all bits of a mask are drawn at once
_WIDE_WORDS = 7.7  # of 64 bits, for each mask: about as many as are compared until all 64 bits are decided


@register
@dataclass(frozen=True, slots=True)
class UnaryEncoding(ViewOracle):
    """A bit for each cell: its own is set with probability ``own`` = 1/2, each other with ``other`` (OUE)."""

    _: KW_ONLY
    own: Fraction
    other: Fraction
    kind: ClassVar[str] = "unary-encoding"
    most_cells: ClassVar[int] = MASK_CELLS

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> UnaryEncoding:
        """The oracle with other = 1 / (a + 1), rounded up to a multiple of 2^-16."""
        return cls(tuple(sizes), own=Fraction(1, 2), other=rounded_up(1 / (odds_below(epsilon) + 1), _RESOLUTION))

    @property
    def true(self) -> Fraction:
        """Its own bit is set."""
        return self.own

    @property
    def false(self) -> Fraction:
        """Another bit is set."""
        return self.other

    @property
    def answers(self) -> AnswerSpace:
        """A report is a mask of cells."""
        return AnswerSpace(limit=1 << self.cells, masked=True)

    @property
    def support_variance(self) -> float:
        """Bits are independent, so the total varies as much as their sum."""
        true, false = float(self.true), float(self.false)
        return true * (1 - true) + (self.cells - 1) * false * (1 - false)

    def draw(self, codes: Codes) -> Answers:
        """Half a word for each bit by a kernel, or all bits of a wide mask at once."""
        from crosstally.kernels.local import draw_unary, draw_wide_unary

        number, people, other = self.cells, codes.shape[1], threshold(self.other, _RESOLUTION)
        if self.own != Fraction(1, 2):
            raise CrosstallyError("in bulk, unary encoding must set its own bit with probability 1/2")
        cells = cell_numbers(codes, self.sizes, people)
        if number > _NARROW_CELLS:
            return filled(
                people,
                2 * _WIDE_WORDS,
                lambda words, out: draw_wide_unary(cells, number, other, words.view(np.uint64), out),
            )
        return filled(
            people, (number + 1) / 2, lambda words, out: draw_unary(cells, number, other, words.view(np.uint16), out)
        )
