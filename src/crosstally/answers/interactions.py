"""The size of unmeasured interactions: assumed equal to that of measured interactions of the same order in the release.

For a covered set B of j attributes, let q be the maximum entropy table over B with all its smaller margins. The log of
the true table differs from log q by an interaction Z, centred along every axis, with standard deviation s in a cell.
Let r be the measured highest residual of B minus that of q, u its noise variance (of the measurement, and of q over
replicates), D its number of coefficients, and g(s) the mean square of the change of the highest residual when q exp(s
Z) is raked back to the margins of q. Then

    log L_B(s)  =  -1/2 [ D log(u + g(s)) + |r|^2 / (u + g(s)) ],

and weights on a grid of s are found for each order by expectation maximisation with a weak prior. The prior of each
order is the result of the order below it, at half the size. Attributes differ: an unmeasured set has the mean of the
posterior weights of measured sets that have all but one of its attributes, and of the weights of its order
(``Sizes.of``). Plans choose what to measure by one-way tables and by costs, so measured pairs are not chosen for their
size; where a private choice took the largest, the sizes of all others are overestimated, and intervals are too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.unmeasured.known import Known
from crosstally.answers.unmeasured.maximum_entropy import greatest_entropy
from crosstally.answers.unmeasured.proportional_fitting import greatest_entropy_again, raked
from crosstally.inference.bootstrap import Bootstrap, Normals
from crosstally.residuals import Estimate, decompose, rebuild
from crosstally.residuals.axes import placed
from crosstally.residuals.combining import by_shape
from crosstally.typing import Floats

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
_MOST_CELLS = 3_000  # see below. With 1,000 left-out pairs of FARS and CRC held 1 point less often, of large attributes
_REPLICATES = 6
"""Sets that are read of each order, the most cells of each, and the replicates that tell the noise of q."""

# Steps of expectation maximisation for eight weights: limits time; it starts at the prior and need not converge.
_STEPS = 100
# Logarithms of interactions are clipped here: a factor of 3,000, beyond which exp only makes raking slow.
_MOST_LOG = 8.0


_CELLS_DRAWN = 100_000  # cells of all draws together: limits time. See below; fewer draws make ends less steady
_LEAST_DRAWS, _MOST_DRAWS = 12, 100
"""Draws come in pairs of both signs: as many pairs as keep all their cells within the work."""

STRETCH_DOUBT = 0.45
"""The standard deviation of the logarithm of a set's size inside groups over what its size between groups says.

From generated rows (hidden classes, a million people, 344 pairs of attributes and groupings, in runs of values and at
random): 0.44, with a mean of -0.01; 0.26 where more than ten coefficients tell the size between groups. The larger one
is taken, so that a few groups are not trusted too far.
"""


_POOLED_SETS = 3.0
"""The weights of its order count as this many sets that share all but one attribute with an unmeasured one. Chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The weights of the sizes of interactions, on the grid: of each order from 2, and of the sets that were read."""

    orders: Mapping[int, Floats]
    sets: Mapping[tuple[str, ...], Floats]

    def of(self, names: Sequence[str]) -> Floats:
        """Of the interaction of some attributes, from its order and from sets that have all but one of them."""
        order, own = len(names), set(names)
        near = [
            found for other, found in self.sets.items() if len(other) == order and len(own & set(other)) == order - 1
        ]
        common = self.orders.get(order, self.orders[max(self.orders)])
        return np.asarray((_POOLED_SETS * common + sum(near)) / (_POOLED_SETS + len(near)))


def learned_sizes(estimate: Estimate, bootstrap: Bootstrap) -> Sizes:
    """The weights of the sizes of interactions, from covered sets."""
    normals, prior, out = Normals(bootstrap.seed), _PRIOR, dict[int, Floats]()
    sets: dict[tuple[str, ...], Floats] = {}
    for order in _ORDERS:
        read = list(_some_sets(estimate, bootstrap, order))
        logs = [_likelihoods(estimate, bootstrap, normals, names) for names in read]
        likelihoods = np.concatenate(logs) if logs else np.empty((0, len(SIZES)))
        out[order] = _weights(likelihoods, prior)
        sets.update(zip((each for names in read for each in names), _shares(likelihoods, out[order]), strict=True))
        halved = np.concatenate([[out[order][0] + out[order][1]], out[order][2:], [0.0]]) + _LEAST
        prior = halved / halved.sum()
    return Sizes(out, sets)


def smaller_sizes(weights: Floats, ratio: float) -> Floats:
    """The weights of sizes that are smaller by a ratio, on the same grid: each goes to the two nearest, in logs.

    >>> smaller_sizes(np.eye(len(SIZES))[4], 0.5).round(6).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    places = np.interp(np.log(SIZES * ratio), np.log(SIZES), np.arange(len(SIZES)))
    below = np.floor(places).astype(int).clip(max=len(SIZES) - 2)
    part = places - below
    lower, upper = (
        np.bincount(at, weights * share, len(SIZES)) for at, share in ((below, 1 - part), (below + 1, part))
    )
    return np.asarray(lower + upper)


def own_sizes(estimate: Estimate, bootstrap: Bootstrap, sizes: Sizes, names: tuple[str, ...]) -> Floats | None:
    """The weights of the sizes of the interaction of one set: those of its order times its own likelihood.

    None if the set is not covered, or too large to be read.
    """
    if math.prod(estimate.schema.sizes(names)) > _MOST_CELLS or not estimate.covers(names):
        return None
    logs = _likelihoods(estimate, bootstrap, Normals(bootstrap.seed + 3), [names])
    return np.asarray(_shares(logs, sizes.orders.get(len(names), sizes.orders[max(sizes.orders)]))[0])


def unknown_sets(known: Known) -> list[tuple[int, ...]]:
    """The sets of two and more axes of a table that are not covered."""
    ndim, covered = len(known.shape), known.covered.reshape(known.shape)
    sets = (axes for order in range(2, ndim + 1) for axes in combinations(range(ndim), order))
    return [axes for axes in sets if not covered[tuple(int(axis in axes) for axis in range(ndim))]]


def interaction_factors(
    normals: Normals,
    sizes: Mapping[int, Floats],
    shape: tuple[int, ...],
    sets: Sequence[tuple[int, ...]],
    *,
    own: Mapping[tuple[int, ...], Floats] | None = None,
    stretched: Mapping[int, Floats] | None = None,
) -> Floats:
    """What random interactions of sets of axes multiply the cells of a table by: (draws, *shape).

    Draws come in pairs of both signs. The size of each interaction is drawn by the weights of its set in ``own``, else
    by those of its order. ``stretched`` has for some axes a factor for each value, by which interactions are larger, up
    to the largest size; how much larger is known up to ``STRETCH_DOUBT``.

    In the residual basis the coefficients of a set are independent, so that all sets become cells at once; only sets
    with a stretched axis, whose cells differ in size, do so one by one.
    """
    pairs = int(np.clip(_CELLS_DRAWN // math.prod(shape), 2 * _LEAST_DRAWS, 2 * _MOST_DRAWS)) // 2
    drawn = normals.uniform(len(sets) * pairs).reshape(len(sets), pairs)
    scales, logs = np.zeros((pairs, *shape)), np.zeros((pairs, *shape))
    for axes, uniform in zip(sets, drawn, strict=True):
        weights = (own or {}).get(axes, sizes.get(len(axes), sizes[max(sizes)]))
        size = SIZES[np.searchsorted(np.cumsum(weights), uniform).clip(max=len(SIZES) - 1)]
        size = size.reshape(-1, *[1] * len(axes))
        if set(axes) & set(stretched or ()):
            logs += _stretched(normals, size, shape, axes, stretched or {})
            continue
        # Orthonormal coefficients of variance cells / coefficients give each cell the variance 1; a coefficient of the
        # basis is the sum over the axes outside
        part = [shape[axis] for axis in axes]
        outside = math.prod(shape) / math.prod(part)
        at = tuple(slice(1, None) if axis in axes else 0 for axis in range(len(shape)))
        scales[:, *at] = size * (outside * math.sqrt(math.prod(n / (n - 1) for n in part)))
    logs += rebuild(normals.draw(scales.shape) * scales, len(shape))
    return np.asarray(np.exp(np.clip(np.concatenate([logs, -logs]), -_MOST_LOG, _MOST_LOG)))


def _stretched(
    normals: Normals, size: Floats, shape: tuple[int, ...], axes: tuple[int, ...], stretched: Mapping[int, Floats]
) -> Floats:
    """Random interactions of one set, in logs, with an axis along which they are larger."""
    size = size * np.exp(STRETCH_DOUBT * normals.draw(size.shape))
    for axis, factors in stretched.items():
        if axis in axes:
            size = np.minimum(size * factors.reshape(-1, *[1] * (len(axes) - 1 - axes.index(axis))), SIZES[-1])
    return placed(centred(normals, len(size), [shape[axis] for axis in axes]) * size, axes, len(shape))


def _some_sets(estimate: Estimate, bootstrap: Bootstrap, order: int) -> Iterator[list[tuple[str, ...]]]:
    """Covered sets of an order, evenly chosen, those of one shape together."""
    sets = sorted({part for view in bootstrap.views for part in combinations(estimate.schema.ordered(view), order)})
    small = [names for names in sets if math.prod(estimate.schema.sizes(names)) <= _MOST_CELLS]
    small = small[:: max(len(small) // _MOST_SETS, 1)][:_MOST_SETS]
    some = [names for names, covered in zip(small, estimate.covered(small), strict=True) if covered]
    for group in by_shape([estimate.schema.sizes(names) for names in some]).values():
        yield [some[i] for i in group]


def _weights(logs: Floats, prior: Floats) -> Floats:
    """Weights of the sizes from the log-likelihoods of sets (sets, sizes)."""
    weights = prior
    for _ in range(_STEPS if len(logs) else 0):
        weights = (_shares(logs, weights).sum(axis=0) + _PRIOR_SETS * prior) / (len(logs) + _PRIOR_SETS)
    return weights


def _shares(logs: Floats, weights: Floats) -> Floats:
    """The posterior weights of the sizes of each set, from log-likelihoods (sets, sizes)."""
    shares = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf)) * weights
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _likelihoods(
    estimate: Estimate, bootstrap: Bootstrap, normals: Normals, sets: Sequence[tuple[str, ...]]
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
    r = bootstrap.linear[places][:, highest] - residual(q)
    noisy = [residual(_again(bootstrap, own, shape, ~highest)) for own in places]
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


def _again(
    bootstrap: Bootstrap, places: NDArray[np.intp], shape: tuple[int, ...], covered: NDArray[np.bool_]
) -> Floats:
    """The tables that some coefficients of the truth predict, then those that a few replicates of them do."""
    some = np.where(covered, bootstrap.at(places)[: 1 + _REPLICATES], 0.0)
    return greatest_entropy_again(Known(shape, covered, np.ascontiguousarray(some)))


def centred(normals: Normals, number: int, shape: Sequence[int]) -> Floats:
    """Random tables without mean along any axis, each cell with standard deviation 1: (number, *shape)."""
    out = normals.draw((number, *shape))
    for axis in range(1, out.ndim):
        out -= out.mean(axis=axis, keepdims=True)
    return np.asarray(out / math.sqrt(math.prod(1 - 1 / n for n in shape)))
