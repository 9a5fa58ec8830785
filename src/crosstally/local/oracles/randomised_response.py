"""Generalised randomised response (GRR): the own cell, or any other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from crosstally.local.oracles.answers import Answers, AnswerSpace, filled, threshold
from crosstally.local.oracles.odds import odds_below, read_probability, rounded_down
from crosstally.local.oracles.oracle import Codes, ViewOracle, cell_numbers
from crosstally.local.oracles.registry import register

__all__ = ["RandomisedResponse"]


@register
@dataclass(frozen=True, slots=True)
class RandomisedResponse(ViewOracle):
    """The cell itself with probability ``keep``, else any other (GRR)."""

    sizes: tuple[int, ...]
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

    def parameters(self) -> dict[str, Any]:
        """The probability."""
        return {"keep": str(self.keep)}

    @classmethod
    def from_parameters(cls, sizes: tuple[int, ...], given: Mapping[str, Any]) -> RandomisedResponse:
        """The oracle of a probability."""
        return cls(sizes, read_probability(given["keep"]))
