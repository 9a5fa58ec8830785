"""How strongly two values are associated: a distribution of odds ratios, learned from the reports, as prior for pairs.

Let two values have frequencies p and q, and let x be the share of people who have both. The log odds ratio is

    theta = log(x (1 - p - q + x) / ((p - x) (q - x))),

and every theta gives an x within its bounds (Plackett). One distribution of theta, shared by all pairs of a kind (of
two-valued attributes, and all others), therefore gives each pair its own prior of x: narrow if the values are rare, and
its nodes have no negative cells. The distribution has a weight at each of some nodes. Around a node, x is normal with
half the distance between neighbouring nodes as its standard deviation, so the prior matters little where the noise is
small.

The weights come from the reports by expectation maximisation. A starting distribution around independence, in which
most pairs are nearly independent and a few are not, is added with the weight of a few pairs.

Arrays: the first axes (...) are pairs, the last axis is nodes, so (..., 25). In symbols, for a pair with noisy
interaction y of noise variance v, c_k the interaction at node k, h_k the width there and w_k the weight of the node,

    interaction ~ sum_k w_k N(c_k, h_k^2),    y | interaction ~ N(interaction, v),    y | node k ~ N(c_k, h_k^2 + v).

For p = q = 1/2, theta = 0 means independence, x = p q:

>>> half = np.array([0.5])
>>> centres, widths = interactions_at(half, half, 2 * np.ones(1), 2 * np.ones(1))
>>> centres.shape, bool(abs(centres[0, 12]) < 1e-12)  # the middle node of 25 has theta = 0
((1, 25), True)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

__all__ = ["NODES", "START", "expected_interactions", "fitted_law", "interactions_at", "laws_of_others", "likelihoods"]


# Log odds ratios at which the law has weights: -5.5 to 5.5 (one to 237), dense about independence. Chosen; links that
# are stronger are taken for the last node's.
NODES: Floats = np.sinh(np.linspace(-2.4, 2.4, 25))
# The law before reports, in log odds ratios: 97% two-sided exponential of scale 0.3, 3% Cauchy of scale 1, so that a
# few strong pairs are possible. Chosen; with many pairs the reports outvote it.
_NARROW, _WIDE, _STRONG_PAIRS = 0.3, 1.0, 0.03
# How many pairs the law before reports counts as. Chosen: more draw short collections to independence for longer.
_PAIRS_ADDED = 10.0
# Steps of expectation maximisation, in each of the posterior's sweeps. Chosen: later sweeps go on from here.
_STEPS = 10
# Parts into which tables are put, each of which has a law from all others: as many tables at least have one of their
# own. Chosen to limit time; with so many tables, one part says little about the law of the rest.
_PARTS = 10
_STEPS_OF_PARTS = 30  # of expectation maximisation for each part: as many as the three sweeps of the posterior have


def _start() -> Floats:
    """The distribution before any report: two-sided exponential, and with a small probability much wider."""
    apart = np.gradient(NODES)
    narrow, wide = apart * np.exp(-np.abs(NODES) / _NARROW), apart / (1 + (NODES / _WIDE) ** 2)
    return np.asarray((1 - _STRONG_PAIRS) * narrow / narrow.sum() + _STRONG_PAIRS * wide / wide.sum())


START: Floats = _start()


def _both(first: Floats, second: Floats) -> Floats:
    """The share of people who have both values, at each node: one more axis."""
    # x solves (odds - 1) x^2 - (1 + (p + q)(odds - 1)) x + odds p q = 0. The root is written with the sum below
    # the line: the usual form, a difference over odds - 1, is 0 / 0 at independence.
    p, q, odds = first[..., None], second[..., None], np.exp(NODES)
    sums = 1 + (p + q) * (odds - 1)
    roots = np.sqrt(np.maximum(sums * sums - 4 * odds * (odds - 1) * p * q, 0.0))
    return np.asarray(2 * odds * p * q / (sums + roots))


def interactions_at(first: Floats, second: Floats, first_sizes: Floats, second_sizes: Floats) -> tuple[Floats, Floats]:
    """The interaction of two values at each node, and the width of the distribution there.

    The interaction is what is left of the frequency of both when the table is centred along both attributes,
    x - p / n' - q / n + 1 / (n n') for attributes of n and n' values.
    """
    # The width of a node is half the distance between its middles to both neighbours: normal laws as wide as that
    # overlap to a smooth density. The first and the last node have one neighbour only.
    centred = _both(first, second)
    centred -= (first / second_sizes + second / first_sizes - 1 / (first_sizes * second_sizes))[..., None]
    width = np.empty_like(centred)
    width[..., 1:-1] = (centred[..., 2:] - centred[..., :-2]) / 4
    width[..., 0] = (centred[..., 1] - centred[..., 0]) / 2
    width[..., -1] = (centred[..., -1] - centred[..., -2]) / 2
    return centred, width


def likelihoods(centres: Floats, widths: Floats, seen: Floats, variances: Floats) -> Floats:
    """The likelihood of a noisy interaction at each node, up to a factor that all nodes of a pair share.

    N(seen; centre, width^2 + variance) times sqrt(2 pi variance): the factor cancels wherever nodes are compared.
    """
    spread = widths**2 + variances[..., None]
    return np.asarray(
        np.exp(-((seen[..., None] - centres) ** 2) / (2 * spread)) / np.sqrt(spread / variances[..., None])
    )


def fitted_law(likelihood: Floats, law: Floats, steps: int = _STEPS) -> Floats:
    """The weights of the nodes after some steps of expectation maximisation from a law.

    Args:
        likelihood: (pairs, nodes).
        law: The weights to start from: (nodes).
        steps: How many steps.
    """
    for _ in range(steps):
        # Expectation: how likely each pair belongs to each node. 1e-300 keeps a pair far from all nodes from 0 / 0.
        shares = likelihood * law + 1e-300
        shares /= shares.sum(axis=1, keepdims=True)
        # Maximisation, with START as so many pairs more (the mode under a Dirichlet law)
        law = (shares.sum(axis=0) + _PAIRS_ADDED * START) / (len(shares) + _PAIRS_ADDED)
    return law


def laws_of_others(likelihood: Floats, tables: NDArray[np.intp]) -> Floats:
    """For each pair the law that the reports about other tables give: (pairs, nodes).

    A law that a pair's own reports helped to fit has much of its weight where they lie. Where pairs are few, the
    posterior variance under it is therefore too small; under the law of the others it is not.

    Args:
        likelihood: (pairs, nodes).
        tables: Which table of two attributes each pair is in, as numbers from 0: (pairs).
    """
    out = np.empty_like(likelihood)
    for part in range(_PARTS):
        own = tables % _PARTS == part
        if own.any():
            out[own] = fitted_law(likelihood[~own], START, _STEPS_OF_PARTS)
    return out


def expected_interactions(
    centres: Floats, widths: Floats, seen: Floats, variances: Floats, law: Floats
) -> tuple[Floats, Floats]:
    """The posterior mean and variance of interactions, given the noisy observations.

    Within node k the mean is c_k + t_k (y - c_k) and the variance t_k v, with t_k = h_k^2 / (h_k^2 + v). Over nodes the
    means are averaged, and the variance is the mean variance plus the variance of the means.
    """
    shares = likelihoods(centres, widths, seen, variances) * law + 1e-300
    shares /= shares.sum(axis=-1, keepdims=True)
    trust = widths**2 / (widths**2 + variances[..., None])
    means = centres + trust * (seen[..., None] - centres)
    mean = (shares * means).sum(axis=-1)
    around = (means - mean[..., None]) ** 2 + trust * variances[..., None]
    return np.asarray(mean), np.asarray((shares * around).sum(axis=-1))
