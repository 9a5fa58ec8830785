"""Posterior means of frequencies and pairs, given all reports together.

In the local model the noise is as large as the signal, so prior knowledge matters: frequencies lie between 0 and 1,
attributes with the same number of values have similar frequencies, and pairs lie within the bounds that the frequencies
set, mostly near independence. The reports themselves show how similar and how near (empirical Bayes):

- the frequencies of attributes with the same number of values have a beta prior; its mean and concentration are
  averaged, weighted by their marginal likelihood (with n > 2 values the mean is 1 / n, and only the concentration is);
- pairs have a prior on their odds ratios (``association``);
- the noisy interaction of a pair also informs about both frequencies: for rare values of two-valued attributes
  R = x - (p + q) / 2 + 1 / 4 is nearly 1 / 4 minus half their sum. Each frequency becomes its posterior mean given its
  own reports and those of all its pairs, with the other frequencies fixed at their means; this is repeated;
- then each pair becomes its posterior mean given the frequencies. (Three-way deviations: ``expectation``.)

In symbols, as shares of all people: items i, of an attribute with n_i values, have the frequency p_i; pairs (i, j) have
x_ij, the share that has both, and the interaction R_ij = x_ij - p_i / n_j - p_j / n_i + 1 / (n_i n_j):

    p_i ~ Beta(m c, (1 - m) c),      seen_i | p_i ~ N(p_i, variance_i)
    R_ij ~ law of odds ratios given p_i, p_j,      seen_ij | R_ij ~ N(R_ij, variance_ij)

An attribute with two values is one item (its second value; the first value is the rest), one with n > 2 values is n
items. Every p_i has a grid of 33 points, so arrays of distributions are (items, points) for frequencies and (pairs,
nodes) for pairs.

Example: one attribute with two values, seen at 0.3 with almost no noise, and no pairs. The posterior mean is 0.3.

>>> one = Items(attributes=np.array([0]), sizes=np.array([2.0]), seen=np.array([0.3]), variances=np.array([1e-6]))
>>> no = np.zeros(0, np.int64)
>>> found = posterior(one, Pairs(first=no, second=no, seen=np.zeros(0), variances=np.zeros(0)))
>>> round(float(found.frequencies[0]), 3)
0.3

How strongly two values are associated: a distribution of odds ratios, learned from the reports, as prior for pairs.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

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


# Items and pairs


_SWEEPS = 3  # frequencies given pairs, and pairs given frequencies, in turn. Chosen to limit time
# Points of the grid on which a frequency's law is held: with _REACH, about a quarter of a standard error apart.
_POINTS = 33
_REACH = 4.5  # standard errors on either side of what was seen. Beyond 4.5 lies less than 1e-5 of a normal law
# Means of beta laws for attributes of two values, denser near 0 and 1: which are likely, the reports say.
_MEANS = np.concatenate([[0.01, 0.02, 0.035], np.linspace(0.05, 0.95, 19), [0.965, 0.98, 0.99]])
# Concentrations of beta laws, 1 to 4,096 in doublings: from nearly no law to nearly one frequency for all.
_CONCENTRATIONS = 2.0 ** np.arange(13)
# Limits time: with more values, the frequencies are not improved by their pairs. Each item visits all pairs.
_MOST_ITEMS = 200
_LEAST = 1e-9  # frequencies stay this far from 0 and 1: odds ratios need both
_NOTHING = 1e-300  # added before logarithms: a likelihood may underflow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Items:
    """The second value of two-valued attributes, all values of others: their attributes and measured frequencies.

    All arrays are (items). ``sizes`` is the number of values of the item's attribute; ``seen`` is unbiased and may be
    negative or above 1; ``variances`` are those of its noise.
    """

    attributes: NDArray[np.int64]
    sizes: Floats
    seen: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of items of different attributes: places among items, noisy interactions and their variances.

    All arrays are (pairs).
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    seen: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportPosterior:
    """Posterior means of the frequencies of items, and of the share that has both items of each pair.

    Variances are posterior variances; those of pairs are for given frequencies.
    """

    frequencies: Floats
    frequency_variances: Floats
    both: Floats
    both_variances: Floats


def posterior(items: Items, pairs: Pairs) -> ReportPosterior:
    """The posterior of items and their pairs, given all reports."""
    # The log-likelihood of an item's own reports and the log-prior, both (items, points)
    grids = _grids(items)
    own = -((items.seen[:, None] - grids.points) ** 2) / (2 * items.variances[:, None])
    before = _frequency_laws(items, grids, own)
    frequencies, alone = grids.moments(own + before)
    variances = alone.copy()
    kinds = _kinds(items, pairs)
    odds = [START for _ in kinds]
    for _ in range(_SWEEPS if len(pairs.first) else 0):
        # Frequencies given the pairs' laws, then these laws given the frequencies
        if len(items.seen) <= _MOST_ITEMS:
            laws, evidence = _law_of_pairs(pairs, kinds, odds), own.copy()
            for i, tried in enumerate(grids.points):  # one after the other: all at once may swing to and fro
                evidence[i] += _log_likelihood_of_pairs(items, pairs, frequencies, laws, item=i, tried=tried)
                mean, variance = grids.at(i).moments(evidence[i : i + 1] + before[i : i + 1])
                frequencies[i], variances[i] = mean[0], variance[0]
            before = _frequency_laws(items, grids, evidence)
        odds = [
            fitted_law(_pair_likelihoods(items, pairs, frequencies, kind), law)
            for kind, law in zip(kinds, odds, strict=True)
        ]
    frequencies = _whole(items, frequencies)
    both, _ = _expected_pairs(items, pairs, frequencies, _law_of_pairs(pairs, kinds, odds))
    # How well they are known must not rest on laws that they fitted themselves
    others = [
        laws_of_others(_pair_likelihoods(items, pairs, frequencies, kind), _tables(items, pairs, kind))
        for kind in kinds
    ]
    apart, spread = _expected_pairs(items, pairs, frequencies, _law_of_pairs(pairs, kinds, others))
    return ReportPosterior(
        frequencies=frequencies,
        # whether pairs depend on each other or values are rare looks alike to few of them: they make no bar narrower
        frequency_variances=np.maximum(alone, _at_least_seen(frequencies - items.seen, items.variances, variances)),
        both=both,
        both_variances=_at_least_seen(
            _interactions(items, pairs, frequencies, apart) - pairs.seen, pairs.variances, spread
        ),
    )


def _at_least_seen(moved: Floats, noise: Floats, left: Floats) -> Floats:
    """Posterior variances, increased where estimates moved further from the reports than these variances allow.

    If all is as supposed the mean square of the way moved is the variance of the noise minus what is left of it. What
    it is more than that is error, on average over all.
    """
    beyond = float(((moved**2 + left) / noise).mean()) - 1 if len(moved) else 0.0
    return np.asarray(left + max(beyond, 0.0) * noise)


def _kinds(items: Items, pairs: Pairs) -> list[NDArray[np.intp]]:
    """Pairs of two attributes of two values, and all others: only the first have a direction that may be common."""
    both = (items.sizes[pairs.first] == 2) & (items.sizes[pairs.second] == 2)
    return [places for places in (np.flatnonzero(both), np.flatnonzero(~both)) if len(places)]


def _law_of_pairs(pairs: Pairs, kinds: Sequence[NDArray[np.intp]], odds: Sequence[Floats]) -> Floats:
    """The prior weights of the nodes for each pair, (pairs, nodes); each kind has one law, or one for each pair."""
    out = np.empty((len(pairs.first), len(START)))
    for places, law in zip(kinds, odds, strict=True):
        out[places] = law
    return out


def _tables(items: Items, pairs: Pairs, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Which table of two attributes each of these pairs of items is in, as numbers from 0."""
    both = np.stack([items.attributes[pairs.first[places]], items.attributes[pairs.second[places]]])
    return np.unique(both, axis=1, return_inverse=True)[1]


def _pair_likelihoods(items: Items, pairs: Pairs, frequencies: Floats, places: NDArray[np.intp]) -> Floats:
    a, b = pairs.first[places], pairs.second[places]
    centres, widths = interactions_at(frequencies[a], frequencies[b], items.sizes[a], items.sizes[b])
    return likelihoods(centres, widths, pairs.seen[places], pairs.variances[places])


def _expected_pairs(items: Items, pairs: Pairs, frequencies: Floats, laws: Floats) -> tuple[Floats, Floats]:
    """How many have both items of each pair on average, within the bounds that the frequencies set; variances."""
    a, b = pairs.first, pairs.second
    p, q, n, m = frequencies[a], frequencies[b], items.sizes[a], items.sizes[b]
    centres, widths = interactions_at(p, q, n, m)
    found, variances = expected_interactions(centres, widths, pairs.seen, pairs.variances, laws)
    # R = x - p / m - q / n + 1 / (n m) solved for x, within the bounds of Fréchet
    both = np.clip(found + p / m + q / n - 1 / (n * m), np.maximum(p + q - 1, 0.0), np.minimum(p, q))
    return np.asarray(both), variances


def _interactions(items: Items, pairs: Pairs, frequencies: Floats, both: Floats) -> Floats:
    """The interactions that pairs have."""
    n, m = items.sizes[pairs.first], items.sizes[pairs.second]
    return np.asarray(both - frequencies[pairs.first] / m - frequencies[pairs.second] / n + 1 / (n * m))


# Frequencies


@dataclass(frozen=True, slots=True, eq=False)
class _Grids:
    """A grid of points between 0 and 1 for each frequency, and the logarithm of the width that each represents."""

    points: Floats
    weights: Floats

    def at(self, item: int) -> _Grids:
        """The points of one item."""
        return _Grids(self.points[item : item + 1], self.weights[item : item + 1])

    def moments(self, evidence: Floats) -> tuple[Floats, Floats]:
        """The mean and the variance of each frequency under a law given by the logarithm of its density."""
        heights = evidence + self.weights
        heights = np.exp(heights - heights.max(axis=1, keepdims=True))  # the largest is 1: no overflow
        heights /= heights.sum(axis=1, keepdims=True)
        means = (heights * self.points).sum(axis=1)
        return np.asarray(means), np.asarray((heights * (self.points - means[:, None]) ** 2).sum(axis=1))


def _grids(items: Items) -> _Grids:
    """Points around what was seen, closer together towards 0 and 1: even steps of the arc sine of the root."""
    # p = sin(angle)^2, so dp = sin(2 angle) d(angle): the logarithm of that is what a point stands for. Where what was
    # seen lies outside of [0, 1] the points cover the end of the interval that is nearest.
    reach = _REACH * np.sqrt(items.variances)
    low = np.clip(items.seen - reach, 0.0, np.maximum(1 - reach, 0.0))
    high = np.maximum(np.minimum(items.seen + reach, 1.0), np.minimum(low + reach / 2, 1.0))
    first, last = np.arcsin(np.sqrt(low)), np.arcsin(np.sqrt(high))
    angles = first[:, None] + (last - first)[:, None] * (np.arange(_POINTS) + 0.5) / _POINTS
    return _Grids(np.sin(angles) ** 2, np.log(np.sin(2 * angles) * (last - first)[:, None]))


def _frequency_laws(items: Items, grids: _Grids, evidence: Floats) -> Floats:
    """The log prior of each frequency at its grid points.

    Beta laws of several means and concentrations, each weighted by how likely it makes what was seen of all items
    whose attributes have as many values.
    """
    out = np.empty_like(evidence)
    for size in np.unique(items.sizes):
        own = np.flatnonzero(items.sizes == size)
        laws = [(m, c) for m in (_MEANS if size == 2 else [1 / size]) for c in _CONCENTRATIONS]
        # (laws, items, points): log p(point | law), and with the reports the log-integrand of p(reports | law)
        logs = _betas(grids.points[own], laws)
        joint = logs + evidence[own] + grids.weights[own]
        tops = joint.max(axis=2, keepdims=True)
        likely = (np.log(np.exp(joint - tops).sum(axis=2)) + tops[..., 0]).sum(axis=1)
        # The prior of each item is the mixture of laws by their posterior weights, all laws alike before
        share = np.exp(likely - likely.max())
        out[own] = np.log(np.tensordot(share / share.sum(), np.exp(logs), axes=1) + _NOTHING)
    return out


def _betas(points: Floats, laws: Sequence[tuple[float, float]]) -> Floats:
    """The logarithm of the density of each beta law, of a mean and a concentration: (laws, *points)."""
    above, below = np.log(points), np.log1p(-points)
    out = np.empty((len(laws), *points.shape))
    for logs, (mean, concentration) in zip(out, laws, strict=True):
        a, b = mean * concentration, (1 - mean) * concentration
        constant = math.lgamma(concentration) - math.lgamma(a) - math.lgamma(b)
        logs[:] = (a - 1) * above + (b - 1) * below + constant
    return out


def _log_likelihood_of_pairs(
    items: Items, pairs: Pairs, frequencies: Floats, laws: Floats, *, item: int, tried: Floats
) -> Floats:
    """The log-likelihood of an item's frequency from its pairs, with the other frequencies fixed."""
    places = np.flatnonzero((pairs.first == item) | (pairs.second == item))
    others = pairs.first[places] + pairs.second[places] - item  # the other end of each pair
    mine, held = np.broadcast_arrays(tried, frequencies[others, None])
    sizes = items.sizes[others, None]
    centres, widths = interactions_at(mine, held, np.full(sizes.shape, items.sizes[item]), sizes)
    seen, variances = pairs.seen[places, None], pairs.variances[places, None]
    likelihood = (likelihoods(centres, widths, seen, variances) * laws[places][:, None]).sum(axis=-1)
    # the interactions of one item with all values of another attribute add up to zero: one of them tells nothing
    weight = np.where(items.sizes[others] == 2, 1.0, 1 - 1 / items.sizes[others])
    return np.asarray(weight @ np.log(likelihood + _NOTHING))


def _whole(items: Items, frequencies: Floats) -> Floats:
    """Frequencies of the values of each attribute of more than two, so that they add up to one."""
    out = np.clip(frequencies, _LEAST, 1 - _LEAST)
    for attribute in np.unique(items.attributes[items.sizes > 2]):
        own = items.attributes == attribute
        out[own] /= out[own].sum()
    return np.asarray(out)
