"""The mean squared error of each cell of a large covered table, given its noisy cells.

Replicates (``bootstrap``) are drawn around a smoothed truth. That is like the truth where cells are larger than their
noise. In a large sparse table it is not: the cells that stand out are what people quote, and whether 40 is forty people
or noise depends on how many such cells this table has. So a covered table of two or three attributes and at least
``LEAST_CELLS`` cells learns from itself. t is the true count of a cell, y its noisy count, q the guess of independence
and x the estimate. t has the prior of ``risk``, a mixture of normals around multiples of q, whose weights are learned
from the cells of this table alone. With m and V the mean and the variance of t given y,

    E[(x - t)^2 | y]  =  V + (x - m)^2,        and  s^2  =  V + (x - m)^2 / 2  is used.

m knows y and q only, x also what other tables and the sums of cells say: where they differ, x is partly right.

The noise of y must have its own law. Under Laplace noise a cell that stands out is noise more often than under normal
noise of the same variance. Laplace noise of variance v is normal with the variance v E, E exponential: a few values of
E (the points of Gauss and Laguerre) make y given a component a mixture of normals. The noise that was drawn for the
cell itself is Laplace's; the rest, a sum over many cells, is taken as normal (``_large_tables``).

With the guess of all pairs in the place of independence triples would learn too small errors: 82 to 89% of cells of
Adult and FARS were covered, for the errors of the pairs are in the guess and in the estimate alike.

Arrays: cells (cells), components (cells, components).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from crosstally.budget import NoiseKind
from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.inference.risk import COMPONENTS, component_variances, learned_mixture, strata_of
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.combining import mean_squares
from crosstally.typing import Floats

if TYPE_CHECKING:
    from crosstally.inference.estimates import Inference

LEAST_CELLS = 150
"""Cells of a table that learns from itself. With 500, cells of smaller tables that are shrunk most, and are not like
the smooth truth of replicates, claimed too little: of 150 to 500 cells, (value - truth) / std_error above three
standard errors had a root mean square of 1.26 and 1.37 on Adult (with delta, pure; 5 releases), instead of 1.06 and
1.04, and 1.27 on FARS pure. Between 50 and 150 cells it is 1.05 to 1.11 without. First intervals take 5% longer."""

_DIFFERENCE = 0.5
"""The part of (x - m)^2 that counts as error. Chosen on salary, FARS and CRC, both noises, one release each: of cells
estimated at 20 or more, in pairs of 2,000 cells and more, 88 to 96% were covered with 0, 95 to 98% with 0.5 and 95 to
99% with 1."""

# Values of the exponential variable and their probabilities: 6 of 8 points, the others have less than 1e-6.
_NODES, _PROBABILITIES = (each[:6] for each in np.polynomial.laguerre.laggauss(8))

_BLOCK = 5_000
"""Cells that are worked on at once: with 22 components and 6 parts arrays have 5 MB."""

_LEAST = 1e-300  # stands for zero under a fraction line


@dataclass(frozen=True, slots=True, eq=False)
class SquaredErrors:
    """The mean squared errors of the cells of large covered tables of two or three attributes, as they are shown.

    Each table's are worked out when they are first asked for. ``large`` says how far the noise of each is Laplace's.
    """

    estimate: Estimate
    linear: Estimate
    large: Mapping[tuple[str, ...], float]
    _found: dict[tuple[str, ...], Floats | None] = field(default_factory=dict)

    @classmethod
    def after(cls, inference: Inference) -> SquaredErrors:
        """Those of an inference by the default correction: others know less than is assumed here."""
        return cls(inference.estimate, inference.linear, _large_tables(inference))

    def of(self, names: tuple[str, ...]) -> Floats | None:
        """Of a table, its attributes in the order of the schema; None where it is small, or nobody is left in it."""
        if names in self.large and names not in self._found:
            self._found[names] = self._learned(names)
        return self._found.get(names)

    def _learned(self, names: tuple[str, ...]) -> Floats | None:
        linear = self.linear
        shape, places = linear.schema.sizes(names), linear.places([names])[0][0]
        x, y = (rebuild(each.coefficients[places].reshape(shape), len(shape)) for each in (self.estimate, linear))
        x, variances = clip_and_keep_total(x, len(shape)), linear.variances[places]
        if not x.any():  # nobody is left to guess from
            return None
        guess, variance = _independent(x, variances.reshape(shape)), float(variances @ mean_squares(shape))
        laplace = min(float(variances[-1]) ** 2 * math.sqrt(self.large[names]) / variance, 1.0)
        found = expected_squares(y.ravel(), guess.ravel(), x.ravel(), variance=variance, laplace=laplace)
        return found.reshape(shape)


def _large_tables(inference: Inference) -> dict[tuple[str, ...], float]:
    """The covered tables of two or three attributes with many cells, and how far the noise of their cells is Laplace's.

    A view with Laplace noise of variance v adds up k of its cells in each cell of the table: k v of variance alone.
    With r the variance of the combined highest coefficients its weight w in them is r / (k v). k cells of this weight
    add 3 k (w^2 v)^2 = 3 r^4 / (k^3 v^2) to the fourth cumulant, and one Laplace variable of variance f has 3 f^2: the
    noise has f = r^2 sqrt(sum of 1 / (k^3 v^2)). This is the sum.
    """
    schema, out = inference.linear.schema, dict[tuple[str, ...], float]()
    for m in inference.measurements:
        is_laplace = m.query.is_table and m.noise is not None and m.noise.kind is NoiseKind.LAPLACE
        view = schema.ordered(m.query.attributes)
        for names in (part for number in (2, 3) for part in combinations(view, number)):
            cells = math.prod(schema.sizes(names))
            if cells >= LEAST_CELLS:
                added = m.values.size // cells
                out[names] = out.get(names, 0.0) + (added**-3 * m.variance**-2 if is_laplace else 0.0)
    return {
        names: out[names] for names, covered in zip(out, inference.linear.covered(list(out)), strict=True) if covered
    }


def _independent(table: Floats, variances: Floats) -> Floats:
    """The guess of independence, with one-way counts of at least their standard error: nobody seen is not nobody."""
    axes = range(table.ndim)
    guess = np.full((), table.sum())
    for axis in axes:
        counts = table.sum(axis=tuple(other for other in axes if other != axis))
        own = variances[tuple(slice(None) if other == axis else 0 for other in axes)]
        least = math.sqrt(float(own @ mean_squares(counts.shape)))
        guess = np.multiply.outer(guess, np.maximum(counts, least) / table.sum())
    return guess


def expected_squares(noisy: Floats, guess: Floats, found: Floats, *, variance: float, laplace: float) -> Floats:
    """s^2 of each cell of a table.

    Args:
        noisy: The noisy cells, y.
        guess: What independence says of them, q.
        found: The estimate, x.
        variance: Of the noise of a cell.
        laplace: The share of it that is Laplace's; the rest is normal.
    """
    noise = normal_parts(variance, laplace)
    strata = strata_of(guess)
    weights = learned_mixture(strata, lambda cells: _likelihoods(noisy[cells], guess[cells], noise).sum(axis=0))
    out = np.empty(len(noisy))
    for start in range(0, len(noisy), _BLOCK):
        at = slice(start, start + _BLOCK)
        mean, spread = posterior(noisy[at], guess[at], noise, weights[strata[at]])
        out[at] = spread + _DIFFERENCE * (found[at] - mean) ** 2
    return out


def normal_parts(variance: float, laplace: float) -> Floats:
    """The normal laws whose mixture has the law of the noise: variances and probabilities, two rows."""
    if not laplace:
        return np.array([[variance], [1.0]])
    return np.stack([variance * (laplace * _NODES + 1 - laplace), _PROBABILITIES / _PROBABILITIES.sum()])


def posterior(noisy: Floats, guess: Floats, noise: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The mean and the variance of the true count of each cell.

    Args:
        noisy: The noisy cells.
        guess: What independence says of them.
        noise: Its ``normal_parts``.
        weights: Of the components, for each cell.
    """
    means = guess[:, None] * COMPONENTS[0]
    own, parts = component_variances(means), noise[0][:, None, None]
    shares = _likelihoods(noisy, guess, noise) * weights
    shares /= np.maximum(shares.sum(axis=(0, 2)), _LEAST)[:, None]
    gains = own / (own + parts)
    counts = np.maximum(means + (noisy[:, None] - means) * gains, 0.0)
    mean = (shares * counts).sum(axis=(0, 2))
    second = (shares * (counts**2 + gains * parts)).sum(axis=(0, 2))
    return mean, np.maximum(second - mean**2, 0.0)


def _likelihoods(noisy: Floats, guess: Floats, noise: Floats) -> Floats:
    """For each normal part of the noise, each cell and component the likelihood: (parts, cells, components)."""
    means = guess[:, None] * COMPONENTS[0]
    totals = component_variances(means) + noise[0][:, None, None]
    exponents = -0.5 * (noisy[:, None] - means) ** 2 / totals
    # relative to the best of the cell: one that is far from all components would have none
    best = exponents.max(axis=(0, 2))[:, None]
    return np.asarray(noise[1][:, None, None] * np.exp(exponents - best) / np.sqrt(totals))
