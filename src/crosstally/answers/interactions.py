"""The size of unmeasured interactions: assumed equal to that of measured interactions of the same order in the release.

For a covered set B of j attributes, let q be the maximum entropy table over B with all its smaller margins. The log of
the true table differs from log q by an interaction Z, centred along every axis, with standard deviation s in a cell.
Let r be the measured highest residual of B minus that of q, u its noise variance (of the measurement, and of q over
replicates), D its number of coefficients, and g(s) the mean square of the change of the highest residual when q exp(s
Z) is raked back to the margins of q. Then

    log L_B(s)  =  -1/2 [ D log(u + g(s)) + |r|^2 / (u + g(s)) ],

and weights on a grid of s are found for each order by expectation maximisation with a weak prior. The prior of each
order is the result of the order below it, at half the size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.reconstruct.maximum_entropy import greatest_entropy
from crosstally.answers.reconstruct.raking import greatest_entropy_again, raked
from crosstally.answers.reconstruct.reconstruction import Known
from crosstally.inference.repeats import Repeats
from crosstally.inference.replicates import Normals
from crosstally.residuals import Estimate, decompose
from crosstally.residuals.combine import by_shape
from crosstally.typing import Floats

__all__ = ["SIZES", "centred", "learned_sizes", "own_sizes"]

SIZES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
"""The grid of s. At 3.2 a table is anything that its margins allow."""

_PRIOR = np.array([1, 1, 2, 3, 2, 1, 0.3, 0.1]) / 10.4
"""Weights of pairs before any was seen; like ten sets. From a prototype on six real tables."""

# The weights above count as this many sets, next to up to 60 measured sets. A larger number gives the prototype's
# tables more weight.
_PRIOR_SETS = 10.0
# Added to each weight of the next order, so that no size is ruled out because the order below had none of it.
_LEAST = 0.002
# Orders that are learned, each with the one below as its prior; higher orders take the weights of the last one.
_ORDERS = range(2, 6)
_MOST_SETS = 60  # guards of time; see below. Fewer sets leave more to the prior
_MOST_CELLS = 1_000  # see below
_REPLICATES = 6
"""Sets that are read of each order, the most cells of each, and the replicates that tell the noise of q."""

# Steps of expectation maximisation for eight weights: limits time; it starts at the prior and need not converge.
_STEPS = 100
# Logarithms of interactions are clipped here: a factor of 3,000, beyond which exp only makes raking slow.
_MOST_LOG = 8.0


def learned_sizes(estimate: Estimate, repeats: Repeats) -> dict[int, Floats]:
    """For each order from 2 the weights of the sizes of its interactions."""
    normals, prior, out = Normals(repeats.seed), _PRIOR, {}
    for order in _ORDERS:
        logs = [_likelihoods(estimate, repeats, normals, names) for names in _some_sets(estimate, repeats, order)]
        out[order] = _weights(np.concatenate(logs) if logs else np.empty((0, len(SIZES))), prior)
        halved = np.concatenate([[out[order][0] + out[order][1]], out[order][2:], [0.0]]) + _LEAST
        prior = halved / halved.sum()
    return out


def own_sizes(
    estimate: Estimate, repeats: Repeats, sizes: Mapping[int, Floats], names: tuple[str, ...]
) -> Floats | None:
    """The weights of the sizes of the interaction of one set: those of its order times its own likelihood.

    None if the set is not covered, or too large to be read.
    """
    if math.prod(estimate.schema.sizes(names)) > _MOST_CELLS or not estimate.covers(names):
        return None
    logs = _likelihoods(estimate, repeats, Normals(repeats.seed + 3), [names])[0]
    found = sizes.get(len(names), sizes[max(sizes)]) * np.exp(logs - logs.max())
    return np.asarray(found / found.sum())


def _some_sets(estimate: Estimate, repeats: Repeats, order: int) -> Iterator[list[tuple[str, ...]]]:
    """Covered sets of an order, evenly chosen, those of one shape together."""
    sets = sorted({part for view in repeats.views for part in combinations(estimate.schema.ordered(view), order)})
    small = [names for names in sets if math.prod(estimate.schema.sizes(names)) <= _MOST_CELLS]
    small = small[:: max(len(small) // _MOST_SETS, 1)][:_MOST_SETS]
    some = [names for names, covered in zip(small, estimate.covered(small), strict=True) if covered]
    for group in by_shape([estimate.schema.sizes(names) for names in some]).values():
        yield [some[i] for i in group]


def _weights(logs: Floats, prior: Floats) -> Floats:
    """Weights of the sizes from the log-likelihoods of sets (sets, sizes)."""
    weights = prior
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True)) if len(logs) else logs
    for _ in range(_STEPS if len(logs) else 0):
        shares = likelihoods * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = (shares.sum(axis=0) + _PRIOR_SETS * prior) / (len(logs) + _PRIOR_SETS)
    return weights


def _likelihoods(
    estimate: Estimate, repeats: Repeats, normals: Normals, sets: Sequence[tuple[str, ...]]
) -> NDArray[np.float64]:
    """The log-likelihoods (sets, sizes) of covered sets of one shape."""
    shape, number = estimate.schema.sizes(sets[0]), len(sets)
    places, ndim = estimate.places(sets)[0], len(estimate.schema.sizes(sets[0]))
    highest = np.zeros(shape, np.bool_)
    highest[(slice(1, None),) * ndim] = True
    highest = highest.ravel()

    def predicted(coefficients: Floats) -> Floats:
        known = np.ascontiguousarray(np.where(highest, 0.0, coefficients))
        return np.stack([each.values for each in greatest_entropy(Known(shape, ~highest, known))])

    def residual(tables: Floats) -> Floats:
        return np.asarray(decompose(tables, ndim).reshape(len(tables), -1)[:, highest])

    q = predicted(estimate.coefficients[places])
    r = repeats.linear[places][:, highest] - residual(q)
    noisy = [residual(_again(repeats, own, shape, ~highest)) for own in places]
    again = [own[1:] - own[0] for own in noisy]
    noise = estimate.variances[places][:, highest].mean(axis=1) + np.mean(np.square(again), axis=(1, 2))
    draws = 2 if r.shape[1] > 8 else 6
    unit = centred(normals, number * draws, shape).reshape(number, 1, draws, *shape)
    logs = unit * SIZES.reshape(-1, *[1] * (ndim + 1))
    wide = q.reshape(number, 1, 1, *shape)
    faces = [((1 << ndim) - 1) ^ (1 << axis) for axis in range(ndim)]
    moved = (raked(wide * np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)), wide, faces, ndim) - wide).reshape(-1, *shape)
    left = (residual(moved).reshape(number, len(SIZES), -1) ** 2).mean(axis=2)
    variances = noise[:, None] + left + 1e-9
    return np.asarray(-0.5 * (r.shape[1] * np.log(variances) + (r**2).sum(axis=1)[:, None] / variances))


def _again(repeats: Repeats, places: NDArray[np.intp], shape: tuple[int, ...], covered: NDArray[np.bool_]) -> Floats:
    """The tables that some coefficients of the truth predict, then those that a few replicates of them do."""
    some = np.where(covered, repeats.at(places)[: 1 + _REPLICATES], 0.0)
    return greatest_entropy_again(Known(shape, covered, np.ascontiguousarray(some)))


def centred(normals: Normals, number: int, shape: Sequence[int]) -> Floats:
    """Random tables without mean along any axis, each cell with standard deviation 1: (number, *shape)."""
    out = normals.draw((number, *shape))
    for axis in range(1, out.ndim):
        out -= out.mean(axis=axis, keepdims=True)
    return np.asarray(out / math.sqrt(math.prod(1 - 1 / n for n in shape)))
