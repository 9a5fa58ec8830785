"""Mix candidate estimates by their estimated risk, and shrink cells towards a guess by empirical Bayes.

**Mixture.** For each set of attributes the mixture with the least estimated risk is used. l_c are the n combined
coefficients, unbiased with variance v_c, X_c the coefficients of a candidate. For any candidate and any noise,

    E sum (X_c - truth_c)^2 / v_c  =  E [ sum (X_c - l_c)^2 / v_c  +  2 sum cov(X_c, l_c) / v_c  -  n ]

(the covariance penalty of Efron 2004; Stein's formula is its special case for normal noise). Stein's formula would put
derivatives of X, found by small probes, in the place of the covariance. That is valid for normal noise only: under
Laplace noise it was wrong by up to half of the risk, so no probes are used. The covariance comes from replicates:
noise e like that measured is added to a smooth estimate t, and X is computed again from l* = t + e. With

    g_X = mean over replicates of sum e_c (X*_c - l*_c) / v_c,        d_X = X - l,

the risk of l + sum a_X d_X is n, the risk of l, plus the quadratic form

    a' Q a + 2 a' g,        Q_XY = sum d_X d_Y / v.

(e is drawn in pairs of opposite sign; using X* - l* instead of X* removes the noise that both share.) The weights a,
non-negative with a sum of at most 1, minimise that form for each set of attributes. A set may have a single
coefficient. Therefore the mean form of all sets with the same number of attributes is added to its own form, with the
weight of ``POOLED`` coefficients. Choosing weights by the same data costs two degrees of freedom, as in James and
Stein's estimate (1 - (n - 2) / |y|^2) y: g counts (1 - 2 / m) times, m being the number of coefficients that took part
in the choice.

Arrays: coefficients (coefficients), q (3, sets) as Q_11, Q_12 and Q_22, g and weights a (2, sets). With one candidate
that is 0 everywhere, as James and Stein shrink, d = -l, Q = |l|^2 / v and g = -n: the best weight is n v / |l|^2. Here
n = 2, v = 1 and |l|^2 = 8, and the second candidate is l itself:

>>> best_weights(np.array([[8.0], [0.0], [0.0]]), np.array([[-2.0], [0.0]])).ravel().tolist()
[0.25, 0.0]

**Shrinkage.** Cells are shrunk towards a guess by an amount learned from the cells. ``shrink`` learns two such priors
for each release: with independence as the guess, then with all pairs. y is a noisy cell, s its noise variance, q a
smooth guess of it (for example from independent attributes). The prior of the true count is a mixture of normals around
multiples of the guess,

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
of all strata with cells (the mode under a Dirichlet prior of a + 1). ``mixture_weights`` has the step, the kernels
have the likelihoods
and the posterior mean, sum over k of r_k (m_k + (y - m_k) w_k / (w_k + s)) (``shrink_cells``). Arrays: cells (views of
a shape, cells), likelihoods (cells, components), weights (strata, components).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

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
"""Prior weights. Thousands of cells override them; they matter in strata with few cells."""

EDGES = np.array([0.1, 1.0, 10.0, 100.0, 1000.0])
"""Guesses between two of these share weights: decades of counts."""

_MOST_CELLS = 6_000
"""From each stratum at most about this many cells are read, evenly spread: their weights are known to 1% then."""

_POOLED_CELLS = 30.0
"""The mean weights of all strata count as this many cells in each."""

_ROUNDS, _STEPS = 6, 10
"""The mean over strata is renewed this often, after this many steps of expectation and maximisation."""

_LEAST_GUESS = 1e-9
"""Cells guessed below this contain no information about lifts."""


def mixture_of(noisy: Sequence[Floats], guesses: Sequence[Floats], variances: Sequence[Floats]) -> Floats:
    """The weights of the components for each stratum of guesses.

    Args:
        noisy: For each shape the cells of its views, a row for each view.
        guesses: The guesses of these cells.
        variances: For each shape the noise variance of each view's cells.

    Returns:
        An array (strata, components); each row has the sum 1.
    """
    from crosstally.kernels.shrinkage import component_likelihoods

    # All cells of all views in three vectors
    y = np.concatenate([each.ravel() for each in noisy])
    q = np.concatenate([each.ravel() for each in guesses])
    s = np.concatenate([np.repeat(each, cells.shape[1]) for each, cells in zip(variances, noisy, strict=True)])

    def likelihoods(some: NDArray[np.intp]) -> Floats:
        out = np.empty((len(some), COMPONENTS.shape[1]))
        component_likelihoods(y[some], q[some], s[some], COMPONENTS, out)
        return out

    return learned_mixture(np.where(q > _LEAST_GUESS, strata_of(q), -1), likelihoods)


def strata_of(guesses: Floats) -> NDArray[np.intp]:
    """For each guess the stratum whose weights it has."""
    return np.searchsorted(EDGES, guesses)


def component_variances(means: Floats) -> Floats:
    """w_k of components with some means, the components last."""
    return np.asarray(np.minimum(means, (_STEP_WIDTH * means) ** 2) + (COMPONENTS[1] * means) ** 2)


def learned_mixture(strata: NDArray[np.intp], likelihoods: Callable[[NDArray[np.intp]], Floats]) -> Floats:
    """The weights of the components for each stratum (strata, components).

    ``likelihoods`` gives those of some cells under each component, each cell up to a factor; cells of the stratum -1
    are left out.
    """
    seen = {}
    for stratum in range(len(EDGES) + 1):
        cells = np.flatnonzero(strata == stratum)
        if len(cells):
            # Every cell read stands for as many as were left out, so that the prior counts as it would beside all
            some = cells[:: math.ceil(len(cells) / _MOST_CELLS)]
            seen[stratum] = np.ascontiguousarray(likelihoods(some).T), len(cells) / len(some)
    # In turns: the weights of each stratum given the common ones, and the common ones as their mean
    weights = np.tile(_PRIOR, (len(EDGES) + 1, 1))
    common = _PRIOR
    for _ in range(_ROUNDS):
        for stratum, (likely, stands_for) in seen.items():
            prior = _POOLED_CELLS * common
            weights[stratum] = mixture_weights(likely, prior, stands_for, _STEPS, weights[stratum])
        common = (sum((weights[stratum] for stratum in seen), start=_PRIOR.copy())) / (len(seen) + 1)
    # Strata without cells have the common weights: a replicate may have cells there
    for stratum in set(range(len(weights))) - set(seen):
        weights[stratum] = common
    return weights


def mixture_weights(likelihoods: Floats, prior: Floats, scale: float, steps: int, weights: Floats) -> Floats:
    """The weights of the components that make cells likely, with a prior in numbers of cells.

    Not by a compiled kernel, which would not be faster: reading an interval from a file then needs none.

    Args:
        likelihoods: Of the cells under each component: (components, cells).
        prior: For each component.
        scale: How many cells each of these stands for.
        steps: Of expectation and maximisation.
        weights: To start from.
    """
    for _ in range(steps):  # einsum adds up in the same order on all machines, which BLAS does not
        whole = np.einsum("ki,k->i", likelihoods, weights)
        shares = np.divide(scale, whole, out=np.zeros_like(whole), where=whole > 0)
        sums = weights * np.einsum("ki,i->k", likelihoods, shares) + prior
        weights = sums / sums.sum()
    return weights


POOLED = 20.0
"""The pooled form of sets of one order has the weight of this many coefficients of the set itself. From
experiments (lab/evidence/shrinkage.md): 10, 20 and 40 differ by 1%. With pooling only (infinity) tables of two
by two values are shrunk as if they were large and empty."""

_CHOICE = 2.0
"""The degrees of freedom that a choice costs, from James and Stein."""


class Sets:
    """The sets of attributes that coefficients belong to.

    ``chosen`` are the places of the coefficients that take part, ``of`` for each the number of its set, ``orders`` for
    each set how many attributes it has, ``sizes`` how many coefficients, ``sizes_of_orders`` how many all sets of its
    order have.
    """

    def __init__(self, last: NDArray[np.intp], orders: NDArray[np.int64]) -> None:
        """The sets of all coefficients of order 1 and above; ``last`` names the last coefficient of each one's set."""
        self.chosen = np.flatnonzero(orders > 0)
        unique, self.of = np.unique(last[self.chosen], return_inverse=True)
        self.orders = orders[unique]
        self.sizes = np.bincount(self.of, minlength=len(unique)).astype(np.float64)
        self.sizes_of_orders = np.bincount(self.orders, self.sizes)[self.orders]

    def sums(self, values: Floats) -> Floats:
        """Sums over the coefficients of each set; ``values`` are those of the chosen coefficients."""
        return np.bincount(self.of, values, len(self.sizes)).astype(np.float64)

    def means_of_orders(self, sums: Floats) -> Floats:
        """For each set the mean, over the sets of its order, of the mean over their coefficients."""
        number = np.bincount(self.orders)
        means = np.bincount(self.orders, sums / self.sizes) / np.maximum(number, 1)
        return np.asarray(means[self.orders])


class Blend:
    """The blend of two candidates with the least estimated risk: weights for each set, and their estimated risk.

    ``risks`` are the estimated risks of l, both candidates and the blend, for each set, in units of the variance of l:
    the risk of l is its number of coefficients.
    """

    def __init__(
        self,
        sets: Sets,
        linear: Floats,
        variances: Floats,
        candidates: tuple[Floats, Floats],
        *,
        noises: Sequence[Floats],
        replicated: Sequence[tuple[Floats, Floats]],
        smooth: Floats,
    ) -> None:
        """Choose the weights.

        Args:
            sets: The sets of attributes.
            linear: Combined coefficients.
            variances: Their variances.
            candidates: Two estimates of them.
            noises: The noise of each replicate.
            replicated: Both candidates computed from each replicate.
            smooth: The estimate that the noise was added to.
        """
        chosen = sets.chosen
        self.sets, self.candidates = sets, candidates
        # d_X, Q and g of the header, sums over the coefficients of each set
        precisions = 1 / variances[chosen]
        d = [(each - linear)[chosen] for each in candidates]
        q = np.stack([sets.sums(precisions * d[i] * d[j]) for i, j in ((0, 0), (0, 1), (1, 1))])
        g = np.zeros((2, len(sets.sizes)))
        # X* - l* = X* - t - e: what the candidate changes of its replicate
        for noise, found in zip(noises, replicated, strict=True):
            weighted = noise[chosen] * precisions / len(noises)
            for i in range(2):
                g[i] += sets.sums(weighted * (found[i] - smooth - noise)[chosen])
        # Each set's own form plus POOLED times the mean form of a coefficient of its order
        pooled_q = np.stack([sets.means_of_orders(each) for each in q])
        pooled_g = np.stack([sets.means_of_orders(each) for each in g])
        taking_part = np.minimum(sets.sizes + POOLED, sets.sizes_of_orders)
        freedom = np.maximum(1 - _CHOICE / taking_part, 0.0)
        self.weights = best_weights(q + POOLED * pooled_q, freedom * (g + POOLED * pooled_g))
        # The form at a = (1, 0), (0, 1) and the weights, from the set's own q and g, not pooled. That of the blend is a
        # little low, as its weights were chosen by them
        gains = [q[0] + 2 * g[0], q[2] + 2 * g[1], _form(q, g, self.weights)]
        self.risks = np.stack([sets.sizes, *(sets.sizes + gain for gain in gains)])

    def of(self, linear: Floats, candidates: tuple[Floats, Floats]) -> Floats:
        """The blend of these candidates with these weights."""
        out = candidates[0].copy()
        at = self.sets.chosen
        base = linear[at]
        first, second = self.weights[:, self.sets.of]
        out[at] = base + first * (candidates[0][at] - base) + second * (candidates[1][at] - base)
        return out


def best_weights(q: Floats, g: Floats) -> Floats:
    """The a >= 0 of sum at most 1 that minimise a' Q a + 2 a' g: two rows, a column for each form.

    The minimum is inside the triangle or on one of its three sides: five points are compared, the corner (0, 0), the
    best of each side, and the inside.

    Args:
        q: Q_11, Q_12 and Q_22 of each form: three rows.
        g: g_1 and g_2 of each form: two rows.
    """
    # Candidates for the minimum: (0, 0), the side a_2 = 0, the side a_1 = 0, the side a_1 + a_2 = 1, and the inside
    q11, q12, q22 = q
    none = np.zeros_like(q11)
    first = _ratio(-g[0], q11)
    second = _ratio(-g[1], q22)
    along = _ratio(q22 - q12 - g[0] + g[1], q11 - 2 * q12 + q22)
    determinant = q11 * q22 - q12**2
    safe = determinant > 1e-9 * q11 * q22  # the candidates nearly agree: a side of the triangle is as good
    inside = np.stack([q12 * g[1] - q22 * g[0], q12 * g[0] - q11 * g[1]]) / np.where(safe, determinant, 1.0)
    allowed = safe & (inside >= 0).all(axis=0) & (inside.sum(axis=0) <= 1)
    points = np.stack([(none, none), (first, none), (none, second), (along, 1 - along), np.where(allowed, inside, 0.0)])
    values = np.stack([_form(q, g, point) for point in points])
    best = np.argmin(values, axis=0)
    return np.asarray(points[best, :, np.arange(len(best))].T)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """The quotient, kept between 0 and 1."""
    # Also where the bottom is zero: a flat or linear form is least at one of the ends
    inside = (top > 0) & (top < bottom)
    return np.where(inside, top / np.where(inside, bottom, 1.0), np.where(top > 0, 1.0, 0.0))


def _form(q: Floats, g: Floats, a: Floats) -> Floats:
    """The quadratic form a' Q a + 2 a' g."""
    return np.asarray(q[0] * a[0] ** 2 + 2 * q[1] * a[0] * a[1] + q[2] * a[1] ** 2 + 2 * (g[0] * a[0] + g[1] * a[1]))
