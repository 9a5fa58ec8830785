"""Shrink cells towards a guess, by an amount that the cells themselves determine: empirical Bayes.

``shrinkage`` learns two such mixtures for each release: with independence as the guess, then with all pairs.

y is a noisy cell, s its noise variance, q a smooth guess of it (for example from independent attributes). The prior of
the true count is a mixture of normals around multiples of the guess,

    count ~ sum over k of weight_k N(m_k, w_k),      m_k = lift_k q,      w_k = min(m_k, (e m_k)^2) + (width_k m_k)^2,

(e as ``_STEP_WIDTH``), and y ~ N(count, s). The first term of w_k is Poisson's variance m_k, for small cells no more
than what fills the gap to the next lift; the second says how near the multiple of the guess is. Lift 0 means an empty
cell (most cells of large tables are empty). Lift 1, with several widths, means that the guess is about right. The other
lifts mean that it is wrong by a power of two. The weights are found by expectation maximisation from all cells of all
views, separately for strata of guesses of similar size, since tiny and large cells behave differently. Each cell then
becomes its posterior mean, never below zero.

With y | k ~ N(m_k, w_k + s) a step of expectation and maximisation is, over the cells i of a stratum,

    r_ik = weight_k N(y_i; m_ik, w_ik + s_i) / (the same summed over k),    weight_k <- (sum_i r_ik + a_k) / (n + sum a)

where n is the number of cells of the stratum and a is ``_POOLED_CELLS`` times the mean of ``_PRIOR`` and of the weights
of all strata with cells (the mode under a Dirichlet prior of a + 1). The kernels have the step (``mixture_weights``)
and the posterior mean, sum over k of r_k (m_k + (y - m_k) w_k / (w_k + s)) (``shrink_cells``). Arrays: cells (views of
a shape, cells), likelihoods (cells, components), weights (strata, components).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from crosstally.typing import Floats

__all__ = ["COMPONENTS", "EDGES", "mixture_of"]

_STEP_WIDTH = 0.35
"""The relative width of a component whose neighbours are at half and twice its mean: together they are flat in log."""

_NEAR = (0.0, 0.03, 0.1, 0.25)
"""Relative widths of the components around the guess itself."""

_BELOW, _ABOVE = 5, 12
"""Lifts run from 2^-5 to 2^12: cells 4,096 times their guess occur where values of attributes imply each other."""

# Means of the components away from the guess, in guesses: each twice the one before, all but 1 itself.
_LIFTS = 2.0 ** np.array([*range(-1, -_BELOW - 1, -1), *range(1, _ABOVE + 1)])

COMPONENTS = np.array([
    [0.0, *(1.0 for _ in _NEAR), *_LIFTS],
    [0.0, *_NEAR, *(_STEP_WIDTH for _ in _LIFTS)],
])  # fmt: skip
"""The lift of each component (first row) and its relative width (second row)."""

# For empty cells, the four widths near the guess, lifts below one, and lifts above one: these fall as 1 / lift. Chosen.
_PRIOR = np.array([2.0, 3.0, 2.0, 2.0, 2.0, *np.where(_LIFTS < 1, 0.6, 6.0 / _LIFTS)])
_PRIOR /= _PRIOR.sum()
"""Weights before any cell is seen. Thousands of cells outvote them; they matter where a stratum has a handful."""

EDGES = np.array([0.1, 1.0, 10.0, 100.0, 1000.0])
"""Guesses between two of these share weights: decades of counts."""

_MOST_CELLS = 6_000
"""From each stratum at most about this many cells are read, evenly spread: their weights are known to 1% then."""

_POOLED_CELLS = 30.0
"""The mean weights of all strata count as this many cells in each."""

_ROUNDS, _STEPS = 6, 10
"""The mean over strata is renewed this often, after this many steps of expectation and maximisation."""

_LEAST_GUESS = 1e-9
"""Cells guessed below this say nothing about lifts."""


def mixture_of(noisy: Sequence[Floats], guesses: Sequence[Floats], variances: Sequence[Floats]) -> Floats:
    """The weights of the components for each stratum of guesses.

    Args:
        noisy: For each shape the cells of its views, a row for each view.
        guesses: The guesses of these cells.
        variances: For each shape the noise variance of each view's cells.

    Returns:
        An array (strata, components); each row has the sum 1.
    """
    from crosstally.kernels.shrinkage import component_likelihoods, mixture_weights

    # All cells of all views in three vectors; a stratum of -1 is left out
    y = np.concatenate([each.ravel() for each in noisy])
    q = np.concatenate([each.ravel() for each in guesses])
    s = np.concatenate([np.repeat(each, cells.shape[1]) for each, cells in zip(variances, noisy, strict=True)])
    strata = np.where(q > _LEAST_GUESS, np.searchsorted(EDGES, q), -1)
    seen = {}
    for stratum in range(len(EDGES) + 1):
        cells = np.flatnonzero(strata == stratum)
        if len(cells):
            # Every cell read stands for as many as were left out, so that the prior counts as it would beside all
            some = cells[:: math.ceil(len(cells) / _MOST_CELLS)]
            likelihoods = np.empty((len(some), COMPONENTS.shape[1]))
            component_likelihoods(y[some], q[some], s[some], COMPONENTS, likelihoods)
            seen[stratum] = likelihoods, len(cells) / len(some)
    # In turns: the weights of each stratum given the common ones, and the common ones as their mean
    weights = np.tile(_PRIOR, (len(EDGES) + 1, 1))
    common = _PRIOR
    for _ in range(_ROUNDS):
        for stratum, (likelihoods, stands_for) in seen.items():
            mixture_weights(likelihoods, _POOLED_CELLS * common, stands_for, _STEPS, weights[stratum])
        common = (sum((weights[stratum] for stratum in seen), start=_PRIOR.copy())) / (len(seen) + 1)
    # Strata without cells have the common weights: a replicate may have cells there
    for stratum in set(range(len(weights))) - set(seen):
        weights[stratum] = common
    return weights
