"""The mean squared error of each cell of a large measured pair, given its noisy cells.

Replicates (``bootstrap``) are drawn around a smoothed truth. That is like the truth where cells are larger than their
noise. In a large sparse table it is not: the cells that stand out are what people quote, and whether 40 is forty people
or noise depends on how many such cells this table has. So each pair of at least ``LEAST_CELLS`` cells learns from
itself. t is the true count of a cell, y its noisy count, q the guess of independence and x the estimate. t has the
prior of ``risk``, a mixture of normals around multiples of q, whose weights are learned from the cells of this table
alone. With m and V the mean and the variance of t given y,

    E[(x - t)^2 | y]  =  V + (x - m)^2,        and  s^2  =  V + (x - m)^2 / 2  is used.

m knows y and q only, x also what other tables and the sums of cells say: where they differ, x is partly right.

The noise of y must have its own law. Under Laplace noise a cell that stands out is noise more often than under normal
noise of the same variance. Laplace noise of variance v is normal with the variance v E, E exponential: a few values of
E (the points of Gauss and Laguerre) make y given a component a mixture of normals. The noise that was drawn for the
cell itself has a share f of the variance; the rest is a sum over many cells of other tables, and is taken as normal.

Arrays: cells (cells), components (cells, components).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from crosstally.budget import NoiseKind
from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.inference.risk import COMPONENTS, component_variances, learned_mixture, strata_of
from crosstally.residuals import rebuild
from crosstally.residuals.combining import mean_squares
from crosstally.typing import Floats

if TYPE_CHECKING:
    from crosstally.inference.estimates import Inference

LEAST_CELLS = 500
"""Cells of a pair that learns a prior of its own. Between 200 and 500 replicates hold as often (salary, FARS, CRC)."""

_DIFFERENCE = 0.5
"""The part of (x - m)^2 that counts as error. Chosen on salary, FARS and CRC, both noises, one release each: of cells
estimated at 20 or more, in pairs of 2,000 cells and more, 88 to 96% were covered with 0, 95 to 98% with 0.5 and 95 to
99% with 1."""

# Values of the exponential variable and their probabilities: 6 of 8 points, the others have less than 1e-6.
_NODES, _PROBABILITIES = (each[:6] for each in np.polynomial.laguerre.laggauss(8))

_BLOCK = 5_000
"""Cells that are worked on at once: with 22 components and 6 parts arrays have 5 MB."""

_LEAST = 1e-300  # stands for zero under a fraction line


def squared_errors(inference: Inference) -> dict[tuple[str, ...], Floats]:
    """For each large measured pair the mean squared error of its cells, as the answer shows them.

    Attributes are in the order of the schema. Only the default correction knows more than the pair itself.
    """
    estimate, linear = inference.estimate, inference.linear
    schema, out = linear.schema, dict[tuple[str, ...], Floats]()
    for names, shares in _laplace(inference).items():
        shape = schema.sizes(names)
        if math.prod(shape) < LEAST_CELLS or not linear.covers(names):
            continue
        places = linear.places([names])[0][0]
        x, y = (rebuild(each.coefficients[places].reshape(shape), 2) for each in (estimate, linear))
        x = clip_and_keep_total(x, 2)
        if not x.any():  # nobody is left to guess from
            continue
        variances = linear.variances[places]
        variance = float(variances @ mean_squares(shape))
        guess = _independent(x, variances.reshape(shape))
        # the noise drawn for a cell has in its combined count the weight that it has in the highest coefficients
        own = float(variances[-1]) ** 2 * math.sqrt(shares) / variance
        found = expected_squares(y.ravel(), guess.ravel(), x.ravel(), variance=variance, laplace=min(own, 1.0))
        out[names] = found.reshape(shape)
    return out


def _laplace(inference: Inference) -> Mapping[tuple[str, ...], float]:
    """The measured pairs, and for each the sum over its tables with Laplace noise of 1 / variance^2."""
    out: dict[tuple[str, ...], float] = {}
    for m in inference.measurements:
        if len(m.query.attributes) == 2:
            names = inference.linear.schema.ordered(m.query.attributes)
            is_laplace = m.query.is_table and m.noise is not None and m.noise.kind is NoiseKind.LAPLACE
            out[names] = out.get(names, 0.0) + (m.variance**-2 if is_laplace else 0.0)
    return out


def _independent(table: Floats, variances: Floats) -> Floats:
    """The guess of independence, with one-way counts of at least their standard error: nobody seen is not nobody."""
    one_ways = []
    for axis, at in ((1, (slice(None), 0)), (0, (0, slice(None)))):
        counts = table.sum(axis=axis)
        one_ways.append(np.maximum(counts, math.sqrt(float(variances[at] @ mean_squares(counts.shape)))))
    return np.asarray(np.outer(*one_ways) / table.sum())


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
