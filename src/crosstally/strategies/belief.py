"""How large interactions are likely to be, before any is measured: what decides whether one is worth its noise.

For a set B of two or more attributes, R_B is its residual beyond what the lower orders predict (maximum entropy). The
one-way tables give its scale: with g_i^2 = 1 - sum p_i^2 for the shares p_i of an attribute's values, R_B has the size
sqrt(sum of squares of R_B) / (N prod g_i). Sampling alone makes that 1 / sqrt(N). Measured on Adult, FARS, ACS,
census-9, MSNBC and Kosarak (lab/evidence/tried.md), the median size is about 0.06 for pairs, 0.01 for triples and
0.003 for quadruples, on every table within a factor of three; within a table sizes spread like a log-normal law, and
pairs say little about triples. So the belief is a mixture of three sizes with the moments of that law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosstally.measurements import Measurement
from crosstally.plans.plan import known_total
from crosstally.residuals import combine
from crosstally.residuals.closure import Closure
from crosstally.residuals.layout import outer_product
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["LARGE", "MEDIAN_SIZES", "SPREAD", "Belief", "known_sizes", "seen_one_ways"]

MEDIAN_SIZES = {2: 0.06, 3: 0.01, 4: 0.003}
"""The median size of an interaction by its order (module docstring: six real tables)."""
FALL = 0.3
"""What the median falls by with each order above four, as it does from three to four."""
SPREAD = 1.25
"""The standard deviation of the logarithm of sizes: 0.7 to 2.4 were seen. What 1 and 1.5 change is in
lab/evidence/tried.md."""

# In standard deviations of the logarithm of sizes: the three nodes of the law below.
_NODES = (-math.sqrt(3), 0.0, math.sqrt(3))
_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
"""Three points that have the first five moments of a normal law (Gauss and Hermite)."""
LARGE = float(_WEIGHTS[-1])
"""The part of all interactions that is of the largest of the three sizes."""


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """For each set of a closure the variance of its coefficients before measuring: ``scale`` times each ``factor``.

    An infinite scale stands for nothing known: such a set, known with precision p, has the error 1 / p. ``shares``
    of each attribute's values and ``rows`` are the one-way tables that the belief comes from, empty where it comes from
    none.
    """

    scale: Floats
    factors: Floats
    shares: tuple[Floats, ...] = ()
    rows: float = 0.0

    @classmethod
    def of_one_ways(cls, closure: Closure, shares: list[Floats], rows: float) -> Belief:
        """What one-way tables say: the shares of each attribute's values, and the number of rows."""
        diversity = np.array([max(1 - float(p @ p), 1 / max(rows, 1.0)) for p in shares])
        bound = closure.product(diversity) / np.maximum(closure.product(closure.sizes - 1), 1.0)
        order = np.rint(np.log2(closure.product(np.full(len(shares), 2.0)))).astype(int)
        highest = max(MEDIAN_SIZES)
        medians = np.array([MEDIAN_SIZES.get(k, MEDIAN_SIZES[highest] * FALL ** (k - highest)) for k in range(64)])
        scale = np.where(order >= min(MEDIAN_SIZES), (medians[order] * rows) ** 2 * bound, np.inf)
        return cls(scale, np.exp(2 * SPREAD * np.array(_NODES)), tuple(shares), rows)

    def with_pairs_of(self, mean_square: float) -> Belief:
        """The belief that pairs have this mean squared size; the law's form stays, and higher orders move alike."""
        believed = MEDIAN_SIZES[2] ** 2 * float(_WEIGHTS @ self.factors)
        return replace(self, scale=self.scale * (mean_square / believed))

    @property
    def mixture(self) -> tuple[tuple[float, float], ...]:
        """The weight and the factor of each size."""
        return tuple(zip(_WEIGHTS.tolist(), self.factors.tolist(), strict=True))

    def expected_cells(self, attributes: Sequence[int]) -> Floats | None:
        """The count of each cell of a table over some attributes if they were independent; None if nothing is known."""
        if not self.shares:
            return None
        return self.rows * outer_product([self.shares[i].tolist() for i in attributes])

    def errors(self, precision: Floats) -> Floats:
        """The expected squared error of each set's coefficients, known with this precision."""
        inverse = 1 / self.scale
        return np.asarray(
            sum(w / (precision + inverse / f + 1e-300) for w, f in zip(_WEIGHTS, self.factors, strict=True))
        )

    def slopes(self, precision: Floats) -> Floats:
        """By how much that error falls with precision."""
        inverse = 1 / self.scale
        known = (precision + inverse / f + 1e-150 for f in self.factors)
        return np.asarray(
            sum(w / each / each for w, each in zip(_WEIGHTS, known, strict=True))
        )  # a square may overflow

    def precision_at(self, slopes: Floats) -> Floats:
        """The precision at which the error falls by this much; zero where it never falls as fast.

        In units of the scale the law is the same for all sets, so one table of it serves them all.
        """
        known = np.isfinite(self.scale)
        grid = np.concatenate([[0.0], np.logspace(-6, 12, 4001)])
        unit = Belief(np.ones_like(grid), self.factors)
        logs = np.log(unit.slopes(grid))
        with np.errstate(divide="ignore"):
            scaled = np.log(slopes[known]) - 2 * np.log(self.scale[known])
            out = 1 / np.sqrt(slopes)
        out[known] = np.interp(-scaled, -logs, grid, left=0.0, right=grid[-1]) / self.scale[known]
        return out


def known_sizes(closure: Closure) -> Belief:
    """The belief of somebody to whom all interactions of the closure matter, whatever their size."""
    return Belief(np.full(len(closure), np.inf), np.ones(len(_NODES)))


def seen_one_ways(schema: Schema, seen: Sequence[Measurement]) -> tuple[float, list[Floats]]:
    """The number of rows, and the shares of each attribute's values; equal ones where nothing was measured."""
    combined = combine(schema, seen)
    public = known_total(seen)
    rows = max(float(combined.table(())) if public is None else public, 1.0)
    shares = []
    for name in schema.names:
        table = np.maximum(combined.table((name,)), 0.0) if combined.covers((name,)) else np.ones(schema[name].size)
        shares.append(table / table.sum() if table.sum() > 0 else np.full(len(table), 1 / len(table)))
    return rows, shares
