"""Subset selection: a set of cells of fixed size, the own one likely among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import ClassVar

from crosstally.local.oracles.answers import (
    MASK_CELLS,
    Answers,
    AnswerSpace,
    filled,
    odds_below,
    rounded_down,
    threshold,
)
from crosstally.local.oracles.oracle import Codes, ViewOracle, cell_numbers, register


@register
@dataclass(frozen=True, slots=True)
class SubsetSelection(ViewOracle):
    """A set of ``members`` cells, its own among them with probability ``keep``."""

    _: KW_ONLY
    members: int
    keep: Fraction
    kind: ClassVar[str] = "subset-selection"
    most_cells: ClassVar[int] = MASK_CELLS

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> SubsetSelection:
        """The oracle with the number of members of least variance; keep = k a / (k a + c - k)."""
        cells, odds = math.prod(sizes), odds_below(epsilon)
        near = int(cells / (odds + 1))
        made = [
            cls(tuple(sizes), members=k, keep=rounded_down(k * odds / (k * odds + cells - k)))
            for k in range(max(1, near - 1), min(cells - 1, near + 2) + 1)
        ]
        return min(made, key=lambda oracle: oracle.coefficient_variance)

    @property
    def true(self) -> Fraction:
        """Its own cell is a member."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """Another cell is a member."""
        return (self.members - self.keep) / (self.cells - 1)

    @property
    def answers(self) -> AnswerSpace:
        """A report is a mask of cells, as many as there are members."""
        return AnswerSpace(limit=1 << self.cells, masked=True, bits=self.members)

    @property
    def support_variance(self) -> float:
        """Every report supports as many cells."""
        return 0.0

    def draw(self, codes: Codes) -> Answers:
        """The own cell or not, and others by a partial shuffle in a kernel."""
        from crosstally.kernels.local import draw_subsets

        people, members, keep = codes.shape[1], self.members, threshold(self.keep)
        cells = cell_numbers(codes, self.sizes, people)
        return filled(
            people, members + 1, lambda words, out: draw_subsets(cells, self.cells, members, keep, words, out)
        )
