"""Shrink estimates towards independence, by an amount that the reports themselves determine.

In the local model the noise of most residuals is larger than the residuals. Let f_i be the coefficients of single
attributes, as frequencies. The coefficients of a set B are sums of central moments,

    r_B = sum over S in B, |S| != 1, of  k_S  x  product of f_i over B but not S,      k of no attributes = 1.

The moments of independent attributes are zero. So for each number s of attributes the mean square of k_S is
estimated, t = mean(k^2 - variance), and each k_S becomes k_S t / (t + variance): the linear estimate of least mean
squared error if moments were drawn with that mean square. With many reports it changes little.

For two attributes that is r_12 = k_12 + f_1 f_2: the covariance and the product of the two. For three,

    r_123 = k_123 + k_12 f_3 + k_13 f_2 + k_23 f_1 + f_1 f_2 f_3.

Blocks of coefficients have one axis for each attribute, of one less than its number of values (the first coefficient of
each axis belongs to a smaller set). Coefficients of one set all have the same variance. Blocks, moments and
variances are in shares: divided by the total, or its square. A block of zeros has no mean square beyond noise:

>>> _mean_squares({("a", "b"): np.zeros((1, 2))}, {("a", "b"): 1.0})
{2: 0.0}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from crosstally.measurements import Measurement
from crosstally.residuals import Estimate
from crosstally.schema import Schema
from crosstally.typing import Floats

Names = tuple[str, ...]
# Limits time: in a larger view only sets of up to this many attributes are shrunk; the others stay as measured.
_MOST_ATTRIBUTES = 6


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """Measurements replaced by a consistent shrunk estimate, and its posterior variances.

    The latter are those of the coefficients of sets of attributes, in counts: how far, on average over sets alike, the
    estimate is from the truth.
    """

    measurements: tuple[Measurement, ...]
    variances: Mapping[Names, float]


def shrunk_measurements(estimate: Estimate, measurements: Sequence[Measurement]) -> Shrunk:
    """The measurements shrunk towards independence, by an amount that they determine themselves.

    The estimate must hold a positive total and the coefficients of single attributes; otherwise nothing changes.
    """
    sets = _sets(estimate, measurements)
    total = float(estimate.table(()))
    if total <= 0 or not all(estimate.covers((name,)) for one in sets for name in one):
        return Shrunk(tuple(measurements), {})
    # r -> k, k -> k t / (t + variance), k -> r
    blocks = {one: _block(estimate, one) / total for one in sets}
    moments = _moments(blocks)
    variances = {one: _variance(estimate, one) / total**2 for one in sets}
    squares = _mean_squares(moments, variances)
    trust = {one: squares[len(one)] / (squares[len(one)] + variances[one]) for one in moments}
    kept = {one: moment * trust[one] for one, moment in moments.items()}
    shrunk = _with_blocks(estimate, {one: total * _raw(one, kept, blocks) for one in sets if len(one) > 1})
    # What the linear estimate leaves: t v / (t + v) = v trust, for cells of the centred table
    left = {one: variances[one] * trust.get(one, 1.0) * _cell(estimate.schema, one) for one in sets}
    frequencies = {name: shrunk.table((name,)) / total for one in sets if len(one) == 1 for name in one}
    remaining = coefficient_variances(estimate.schema, left, frequencies, total)
    return Shrunk(answered(measurements, shrunk.table), remaining)


def answered(measurements: Sequence[Measurement], table: Callable[[Names], Floats]) -> tuple[Measurement, ...]:
    """The measurements with the answers that tables give, in place of their own."""
    return tuple(
        replace(each, values=np.asarray(each.query.answer(table(each.query.attributes)), np.float64))  # type: ignore[arg-type]
        for each in measurements
    )


def coefficient_variances(
    schema: Schema, moments: Mapping[Names, float], frequencies: Mapping[str, Floats], total: float
) -> dict[Names, float]:
    """The variances of the coefficients of sets, in counts, from those of the cells of their central moments.

    By the sum above an error of k_S is an error of r_B times the product of the f_i of all others; on average over
    cells its square is multiplied by their mean squares.
    """
    # Mean squares of the f_i as cells of a centred table of shares
    squares = {name: float(((found - 1 / len(found)) ** 2).mean()) for name, found in frequencies.items()}
    out = {}
    for names in moments:
        parts = (part for size in range(1, len(names) + 1) for part in combinations(names, size) if part in moments)
        # Errors of different moments are taken to be independent: their variances add
        cells = sum(moments[part] * math.prod(squares[name] for name in names if name not in part) for part in parts)
        out[names] = total**2 * cells / _cell(schema, names)
    return out


def _cell(schema: Schema, names: Names) -> float:
    """The variance of a cell of a centred table whose coefficients have variance one."""
    return math.prod(1 - 1 / n for n in schema.sizes(names))


def _sets(estimate: Estimate, measurements: Sequence[Measurement]) -> list[Names]:
    """All sets of attributes that are measured, fewest attributes first; views of many attributes only in part."""
    order, found = estimate.schema.positions, dict[Names, None]()
    for each in measurements:
        names = tuple(sorted(each.query.attributes, key=order.__getitem__))
        sizes = range(1, min(len(names), _MOST_ATTRIBUTES) + 1)
        found.update(dict.fromkeys(chain.from_iterable(combinations(names, k) for k in sizes)))
    wanted = list(found)
    inside = estimate.covered(wanted)
    measured = [one for one, covered in zip(wanted, inside, strict=True) if covered]
    return sorted(measured, key=len)


def _block(estimate: Estimate, names: Names) -> Floats:
    """The coefficients of a set: one axis for each attribute, of one less than its values."""
    places, _ = estimate.places([names])
    shape = estimate.schema.sizes(names)
    return np.asarray(estimate.coefficients[places[0]].reshape(shape)[(slice(1, None),) * len(shape)])


def _variance(estimate: Estimate, names: Names) -> float:
    """The variance that all coefficients of a set have."""
    places, _ = estimate.places([names])
    return float(estimate.variances[places[0, -1]])


def _outer(parts: Sequence[tuple[Names, Floats]], names: Names) -> Floats:
    """The product of blocks of disjoint sets, axes in the order of ``names``."""
    out: Floats = np.ones(())
    axes: list[str] = []  # the attribute of each axis so far; the sets of the parts come in any order
    for part, block in parts:
        out = np.multiply.outer(out, block)
        axes += part
    return out.transpose([axes.index(name) for name in names])


def _raw(names: Names, moments: Mapping[Names, Floats], blocks: Mapping[Names, Floats]) -> Floats:
    """The coefficients of a set from central moments, its own among them where there is one."""
    # The sum of the header: S of no attribute, then of two and more. A central moment of one is 0.
    total: Floats = np.zeros([blocks[(name,)].shape[0] for name in names])
    for size in (0, *range(2, len(names) + 1)):
        for part in combinations(names, size):
            if size == 0 or part in moments:
                own = [(part, moments[part])] if size else []
                others = [((name,), blocks[(name,)]) for name in names if name not in part]
                total = total + _outer([*own, *others], names)
    return total


def _moments(blocks: Mapping[Names, Floats]) -> dict[Names, Floats]:
    """The central moments of all sets of two and more attributes, fewest first."""
    out: dict[Names, Floats] = {}
    for names, block in blocks.items():
        if len(names) > 1:
            # ``out`` lacks ``names`` itself as yet: the sum is all of r_B but k_B
            out[names] = block - _raw(names, out, blocks)
    return out


def _mean_squares(moments: Mapping[Names, Floats], variances: Mapping[Names, float]) -> dict[int, float]:
    """For each number of attributes the mean square of moments beyond their noise, the better known ones counting more.

    Weights are one over the variance.
    """
    out = {}
    for size in {len(names) for names in moments}:
        own = [(block, variances[names]) for names, block in moments.items() if len(names) == size]
        # The t with sum (k^2 - variance - t) / variance = 0
        excess = sum(float((block**2).sum()) / v - block.size for block, v in own)
        weight = sum(block.size / v for block, v in own)
        out[size] = max(excess / weight, 0.0)
    return out


def _with_blocks(estimate: Estimate, blocks: Mapping[Names, Floats]) -> Estimate:
    """The estimate with the coefficients of some sets replaced."""
    coefficients = estimate.coefficients.copy()
    for names, block in blocks.items():
        places, _ = estimate.places([names])
        shape = estimate.schema.sizes(names)
        inner = places[0].reshape(shape)[(slice(1, None),) * len(shape)]
        coefficients[inner.ravel()] = block.ravel()
    return replace(estimate, coefficients=coefficients)
