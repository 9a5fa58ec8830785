"""The size of unmeasured interactions: that of measured ones of the same order, allowing for their attributes.

For a covered set B of j attributes, let q be the maximum entropy table over B with all its smaller margins. The log of
the true table differs from log q by an interaction Z, centred along every axis, with standard deviation s in a cell.
Let r be the measured highest residual of B minus that of q, u its noise variance (of the measurement, and of q over
replicates), D its number of coefficients, and g(s) the mean square of the change of the highest residual when q exp(s
Z) is raked back to the margins of q. Then

    log L_B(s)  =  -1/2 [ D log(u + g(s)) + |r|^2 / (u + g(s)) ].

Sets of the same order are alike but for their attributes: log s = log t + sum of a_i over the attributes i of B. The
effects a are normal, with a part in proportion to the logarithm of the number of values, as large tables have larger
interactions in some data and not in others (``Effects``). The weights of t on a grid, with a weak prior, and the
effects are found for each order by expectation maximisation: the effects from the mean of log s of each set given its
likelihood, as if log t were normal. The prior of t of each order is the result of the order below it, at 0.3 of the
size. The law of s of a set that nobody measured allows for what is not known about its effects (``Sizes.of``).

Plans choose what to measure by one-way tables and by costs, so measured pairs are not chosen for their size: given the
attributes, which sets were left out says nothing more. Where a private choice took the largest (``adaptive``), the
sizes of all others are overestimated, and intervals are too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.unmeasured.known import Known
from crosstally.answers.unmeasured.maximum_entropy import greatest_entropy
from crosstally.answers.unmeasured.proportional_fitting import greatest_entropy_again, raked
from crosstally.inference.bootstrap import Bootstrap, Normals
from crosstally.residuals import Estimate, decompose, rebuild
from crosstally.residuals.combining import by_shape
from crosstally.schema import Schema
from crosstally.typing import Floats

SIZES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
"""The grid of s and of t. At 3.2 a table is anything that its margins allow."""

_LOGS = np.log(SIZES)

_PRIOR = np.exp(-0.5 * ((_LOGS - math.log(0.2)) / 0.75) ** 2)
_PRIOR /= _PRIOR.sum()
"""Weights of pairs before any was seen; like ten sets. A prototype on six real tables had the median 0.2 and a standard
deviation of logs of 1.05, of which the effects of two attributes are 0.7. The true pairs of FARS, Adult with fine bins
and salary have larger medians, 0.36 to 1.3: starting there, intervals of weak pairs hold too often."""

_EFFECT, _SLOPE = 0.5, 0.3
"""The standard deviations of the effects of attributes, and of their slope on the logarithm of the number of values.

In the true pairs of FARS, salary and Adult with fine bins effects take the standard deviation of log s from 1.09, 0.88
and 0.65 to 0.84, 0.39 and 0.59: each pair has two, of 0.2 to 0.5. The slopes are 0.44, -0.16 and 0.00. With both zero
all sets of an order are alike."""

_FALL = 0.3
"""The size of an order over that of the order below it: 0.42, 0.20 and 0.29 for the medians of the true pairs and
triples of the same tables. It matters where a plan measures no set of an order."""

# Three points and weights that have the first five moments of a standard normal law (Gauss and Hermite).
_NODES, _NODE_WEIGHTS = math.sqrt(3) * np.array([-1.0, 0.0, 1.0]), np.array([1.0, 4.0, 1.0]) / 6

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

_WITHIN, _WITHIN_DOUBT = 1.5, 0.9
"""The size of interactions of values in groups over that of the groups, and the standard deviation of its logarithm.

From the true tables of FARS, Adult with fine bins and salary, in the groups of their releases or of releases with fewer
cells: the logarithm is 0.80, 0.46 and 0.27 on average for pairs and 0.78, 0.00 and 0.07 for triples, with standard
deviations of 0.9, 0.8 and 1.1, however many values a group has. If values were independent, sizes would grow with the
root of their number; that was assumed before, and twenty values in a group could be anything.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """What attributes, by their place in the schema, add to log s in sets of one order: the mean and the covariance."""

    places: Mapping[str, int]
    means: Floats
    covariance: Floats

    @classmethod
    def before(cls, schema: Schema, sets: Sequence[tuple[str, ...]]) -> Effects:
        """Before any likelihood was seen: zero for attributes as large as those of the sets."""
        logs = np.log(schema.shape)
        logs -= np.log([schema[name].size for each in sets for name in each] or schema.shape).mean()
        return cls(
            schema.positions, np.zeros(len(logs)), _EFFECT**2 * np.eye(len(logs)) + _SLOPE**2 * np.outer(logs, logs)
        )

    def of(self, names: Sequence[str]) -> tuple[float, float]:
        """The mean and the variance of the sum of those of some attributes."""
        at = [self.places[name] for name in names]
        return float(self.means[at].sum()), float(self.covariance[np.ix_(at, at)].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The weights of t on the grid, and the effects of attributes, of each order from 2."""

    orders: Mapping[int, Floats]
    effects: Mapping[int, Effects]

    def of(self, names: Sequence[str], own: Floats | None = None) -> Floats:
        """The law of s of some attributes: sizes and their weights, two rows; ``own`` are log-likelihoods."""
        order = min(len(names), max(self.orders))
        mean, variance = self.effects[order].of(names)
        logs = np.add.outer(_LOGS + mean, math.sqrt(variance) * _NODES).ravel()
        weights = np.multiply.outer(self.orders[order], _NODE_WEIGHTS).ravel()
        if own is not None:
            weights = _shares(np.interp(logs, _LOGS, own)[None], weights)[0]
        return np.stack([np.minimum(np.exp(logs), SIZES[-1]), weights])

    def smaller(self, ratio: float) -> Sizes:
        """The same, all sizes smaller by a ratio."""
        return replace(self, orders={order: smaller_sizes(own, ratio) for order, own in self.orders.items()})


def learned_sizes(estimate: Estimate, bootstrap: Bootstrap) -> Sizes:
    """The weights of the sizes of interactions, from covered sets."""
    normals, prior, out = Normals(bootstrap.seed), _PRIOR, dict[int, Floats]()
    effects = dict[int, Effects]()
    for order in _ORDERS:
        read = list(_some_sets(estimate, bootstrap, order))
        logs = [_likelihoods(estimate, bootstrap, normals, names) for names in read]
        likelihoods = np.concatenate(logs) if logs else np.empty((0, len(SIZES)))
        sets = [each for names in read for each in names]
        before = Effects.before(estimate.schema, sets)
        out[order], effects[order] = learned(sets, likelihoods, prior, before) if sets else (prior, before)
        prior = smaller_sizes(out[order], _FALL) + _LEAST
        prior /= prior.sum()
    return Sizes(out, effects)


def smaller_sizes(weights: Floats, ratio: float) -> Floats:
    """The weights of sizes that are smaller by a ratio, on the same grid: each goes to the two nearest, in logs.

    >>> smaller_sizes(np.eye(len(SIZES))[4], 0.5).round(6).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    places = np.interp(_LOGS + math.log(ratio), _LOGS, np.arange(len(SIZES)))
    below = np.floor(places).astype(int).clip(max=len(SIZES) - 2)
    part = places - below
    lower, upper = (
        np.bincount(at, weights * share, len(SIZES)) for at, share in ((below, 1 - part), (below + 1, part))
    )
    return np.asarray(lower + upper)


def own_sizes(estimate: Estimate, bootstrap: Bootstrap, sizes: Sizes, names: tuple[str, ...]) -> Floats | None:
    """The law of the size of the interaction of one set: the weights of its order times its own likelihood.

    None if the set is not covered, or too large to be read.
    """
    if math.prod(estimate.schema.sizes(names)) > _MOST_CELLS or not estimate.covers(names):
        return None
    return sizes.of(names, _likelihoods(estimate, bootstrap, Normals(bootstrap.seed + 3), [names])[0])


def within_groups(law: Floats) -> Floats:
    """The law of s of values, from that of their groups."""
    factors = _WITHIN * np.exp(_WITHIN_DOUBT * _NODES)
    sizes = np.minimum(np.multiply.outer(law[0], factors), SIZES[-1])
    return np.stack([sizes.ravel(), np.multiply.outer(law[1], _NODE_WEIGHTS).ravel()])


def unknown_sets(known: Known) -> list[tuple[int, ...]]:
    """The sets of two and more axes of a table that are not covered."""
    ndim, covered = len(known.shape), known.covered.reshape(known.shape)
    sets = (axes for order in range(2, ndim + 1) for axes in combinations(range(ndim), order))
    return [axes for axes in sets if not covered[tuple(int(axis in axes) for axis in range(ndim))]]


def interaction_factors(normals: Normals, shape: tuple[int, ...], sets: Mapping[tuple[int, ...], Floats]) -> Floats:
    """What random interactions of sets of axes multiply the cells of a table by: (draws, *shape).

    Draws come in pairs of both signs. Each set has a law of sizes: sizes and their weights. In the residual basis the
    coefficients of a set are independent, so that all sets become cells at once.
    """
    pairs = int(np.clip(_CELLS_DRAWN // math.prod(shape), 2 * _LEAST_DRAWS, 2 * _MOST_DRAWS)) // 2
    drawn = normals.uniform(len(sets) * pairs).reshape(len(sets), pairs)
    drawn = (drawn.argsort(axis=1).argsort(axis=1) + 0.5) / pairs  # each size as often as its weight says
    scales = np.zeros((pairs, *shape))
    for (axes, law), uniform in zip(sets.items(), drawn, strict=True):
        # Orthonormal coefficients of variance cells / coefficients give each cell the variance 1; a coefficient of the
        # basis is the sum over the axes outside
        part = [shape[axis] for axis in axes]
        outside = math.prod(shape) / math.prod(part)
        at = tuple(slice(1, None) if axis in axes else 0 for axis in range(len(shape)))
        size = drawn_sizes(law, uniform).reshape(-1, *[1] * len(axes))
        scales[:, *at] = size * (outside * math.sqrt(math.prod(n / (n - 1) for n in part)))
    logs = rebuild(normals.draw(scales.shape) * scales, len(shape))
    return np.asarray(np.exp(np.clip(np.concatenate([logs, -logs]), -_MOST_LOG, _MOST_LOG)))


def drawn_sizes(law: Floats, uniform: Floats) -> Floats:
    """Sizes by their law, from numbers in (0, 1)."""
    return np.asarray(law[0][np.searchsorted(np.cumsum(law[1]), uniform).clip(max=law.shape[1] - 1)])


def _some_sets(estimate: Estimate, bootstrap: Bootstrap, order: int) -> Iterator[list[tuple[str, ...]]]:
    """Covered sets of an order, evenly chosen, those of one shape together."""
    sets = sorted({part for view in bootstrap.views for part in combinations(estimate.schema.ordered(view), order)})
    small = [names for names in sets if math.prod(estimate.schema.sizes(names)) <= _MOST_CELLS]
    small = small[:: max(len(small) // _MOST_SETS, 1)][:_MOST_SETS]
    some = [names for names, covered in zip(small, estimate.covered(small), strict=True) if covered]
    for group in by_shape([estimate.schema.sizes(names) for names in some]).values():
        yield [some[i] for i in group]


def learned(sets: Sequence[tuple[str, ...]], logs: Floats, prior: Floats, before: Effects) -> tuple[Floats, Effects]:
    """The weights of t and the effects of attributes, from the log-likelihoods (sets, sizes) of sets of one order."""
    weights, effects, inside = prior, before.means, np.zeros((len(sets), len(before.means)))
    for row, names in zip(inside, sets, strict=True):
        row[[before.places[name] for name in names]] = 1.0
    inverse = np.linalg.inv(before.covariance)
    told = np.ones(len(sets))
    for _ in range(_STEPS):
        shifted = [np.interp(_LOGS + by, _LOGS, own) for own, by in zip(logs, inside @ effects, strict=True)]
        shares = _shares(np.stack(shifted), weights)
        weights = (shares.sum(axis=0) + _PRIOR_SETS * prior) / (len(logs) + _PRIOR_SETS)
        beyond, spread = shares @ _LOGS - weights @ _LOGS, _variance(weights)
        effects = np.linalg.solve(inside.T @ inside / spread + inverse, inside.T @ (beyond + inside @ effects) / spread)
        # a set whose posterior is as wide as the prior has told nothing
        told = np.maximum(1 - (shares @ _LOGS**2 - (shares @ _LOGS) ** 2) / spread, 0.0)
    covariance = np.linalg.inv(inside.T @ (inside * told[:, None]) / _variance(weights) + inverse)
    return weights, replace(before, means=effects, covariance=covariance)


def _variance(weights: Floats) -> float:
    """Of log t."""
    return float(weights @ _LOGS**2 - (weights @ _LOGS) ** 2)


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
