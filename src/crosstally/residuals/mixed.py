"""Attributes that are measured in more than one way: two matrices, or a matrix here and cells or contrasts there.

Let a be such an attribute. All others have one basis [u K] each (``axes``), in which the precision of every measurement
is diagonal, so that the sets B of other attributes still decouple. For each B the coefficients of B itself (T) and
those of B with a (c, in Helmert's basis H = [1/n h_1 ... h_n-1]) are left, for several such attributes T, c_a, c_b:

    J_B  =  p_B e e'  +  sum over measurements V with a of  w_VB  x  (S_V H)' (S_V H),       e the unit vector of T,

    w_VB =  prod(tau_i, i in V, not in B or a)  x  prod(precision_i, i in B)  /  variance of the noise,

with p_B the precision of what measurements without such attributes say about B, and S_V the matrix along a, the unit
matrix for cells. J_B is dense along the attribute and the same for all coefficients of B: generalised least squares is
one solution for each B, exact for any number of matrices, and the covariance of (T, c) is the inverse of J_B. It is
never dense in a product of attributes, because no table holds two of them (``mixed_of`` refuses that).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import TooManyCellsError
from crosstally.query.queries import Query
from crosstally.query.ways import matrices_of, mixed_of
from crosstally.residuals.axes import LinearAxis, basis_along, linear_axes, map_axis
from crosstally.schema import Schema
from crosstally.typing import Floats

Names = tuple[str, ...]

# Of the largest pivot of J with a unit diagonal: below it some combination of coefficients is measured by nothing. A
# matrix may have a condition of 1e6, J then one of 1e12; rounding leaves about 1e-16 of a pivot that is zero.
_LEAST_PIVOT = 1e-14
# Limits memory: numbers of all covariances, 160 MB of doubles, a few seconds to invert; 80 sets with an attribute of
# 500 values. With more, large releases would take minutes to open.
_MOST_NUMBERS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredWay:
    """What a measurement says: along each attribute A = S [u K], the matrix times the basis.

    ``mixed`` is the attribute a that it holds, or nothing; ``parts`` are the sets B of others that it is about.
    """

    attributes: Names
    mixed: Names
    along: tuple[Floats, ...]
    variance: float
    parts: tuple[Names, ...]

    def weight(self, part: Names) -> float:
        """w_VB: the precision along each other attribute, of its total where it is not in B."""
        out = 1 / self.variance
        for name, along in zip(self.attributes, self.along, strict=True):
            if name not in self.mixed:
                column = along[:, int(name in part)]
                out *= float(column @ column)
        return out

    def information(self, values: NDArray[np.float64]) -> Floats:
        """A' times the values over their variance, along every attribute."""
        out = np.asarray(values, np.float64) / self.variance
        for i, along in enumerate(self.along):
            out = map_axis(along.T, out, i)
        return out

    def of_part(self, table: Floats, part: Names) -> Floats:
        """Of such a table what belongs to B, a last: (coefficients of B, values of a, or one number)."""
        kept = self._kept(part)
        own = table[self._at(part)].transpose([kept.index(name) for name in (*part, *self.mixed)])
        return own.reshape(-1, own.shape[-1] if self.mixed else 1)

    def noise_weights(self, parts: Mapping[Names, Floats]) -> Floats:
        """How much each measured number weighs in a sum that weighs what is known of each B so: the other way round."""
        table = np.zeros([along.shape[1] for along in self.along])
        for part, own in parts.items():
            order = (*part, *self.mixed)
            shape = [table.shape[self.attributes.index(name)] - (name in part) for name in order]
            table[self._at(part)] = own.reshape(shape).transpose([order.index(name) for name in self._kept(part)])
        for i, along in enumerate(self.along):
            table = map_axis(along, table, i)
        return table / self.variance

    def _kept(self, part: Names) -> list[str]:
        return [name for name in self.attributes if name in part or name in self.mixed]

    def _at(self, part: Names) -> tuple[slice | int, ...]:
        return tuple(
            slice(None) if name in self.mixed else slice(1, None) if name in part else 0 for name in self.attributes
        )


@dataclass(slots=True, eq=False)
class Block:
    """A set B: the mixed attributes that are measured with it, and how much each way of measuring them weighs."""

    part: Names
    sizes: dict[str, int] = field(default_factory=dict)
    weights: dict[tuple[str, int], float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of unknowns: T, and those of each attribute."""
        return 1 + sum(n - 1 for n in self.sizes.values())

    def at(self, name: str) -> NDArray[np.intp]:
        """The places of (T, c) of an attribute among the unknowns."""
        start = 1 + sum(n - 1 for n in list(self.sizes.values())[: list(self.sizes).index(name)])
        return np.concatenate([[0], np.arange(start, start + self.sizes[name] - 1)])


class MixedAxes:
    """The sets of which coefficients are not independent, and what the measurements that make them so say about each.

    ``mixed`` are the attributes measured in more than one way, ``readings`` those measurements, by their number, that
    hold one. Where there are none (``mixed_of``), everything is an average.
    """

    def __init__(self, schema: Schema, measured: Sequence[tuple[Query, float]]) -> None:
        queries = [query for query, _ in measured]
        self.schema = schema
        self.mixed = tuple(mixed_of(queries))
        self.linear = linear_axes(matrices_of(queries))
        self._grams: list[Floats] = []  # (S H)'(S H) of each way
        self._ways: dict[bytes, int] = {}
        self.blocks: dict[Names, Block] = {}
        self.readings: dict[int, MeasuredWay] = {}
        self._known: dict[object, Floats | None] = {}
        for i, (query, variance) in enumerate(measured):
            if query.is_product and self.holds(query.attributes):
                self.readings[i] = self.reading(query, variance)
        for reading in self.readings.values():
            self._add(reading)
        numbers = sum(block.size**2 for block in self.blocks.values())
        if numbers > _MOST_NUMBERS:
            raise TooManyCellsError(
                f"{', '.join(self.mixed)}: measured in more than one way, so that {numbers:,} covariances are needed, "
                f"of at most {_MOST_NUMBERS:,}; measure fewer tables that hold it, or all of them in one way"
            )

    def holds(self, names: Sequence[str]) -> bool:
        """Whether some of these attributes are measured in more than one way."""
        return any(name in self.mixed for name in names)

    def reading(self, query: Query, variance: float) -> MeasuredWay:
        """What a measurement with noise of this variance says."""
        names, schema = query.attributes, self.schema
        bases = [basis_along(self._axis(name), n) for name, n in zip(names, schema.sizes(names), strict=True)]
        along = [s @ basis for s, basis in zip(query.matrices_along(schema), bases, strict=True)]
        others = schema.ordered([name for name in names if name not in self.mixed])
        orders = [len(others)] if query.is_residual else range(len(others) + 1)
        parts = tuple(part for order in orders for part in combinations(others, order))
        return MeasuredWay(names, tuple(name for name in names if name in self.mixed), tuple(along), variance, parts)

    def _axis(self, name: str) -> LinearAxis | None:
        return None if name in self.mixed else self.linear.get(name)

    def _add(self, reading: MeasuredWay) -> None:
        (name,) = reading.mixed
        along = reading.along[reading.attributes.index(name)]
        gram = along.T @ along
        way = self._ways.setdefault(gram.tobytes(), len(self._grams))
        if way == len(self._grams):
            self._grams.append(gram)
        for part in reading.parts:
            block = self.blocks.setdefault(part, Block(part))
            block.sizes[name] = len(gram)
            key = name, way
            block.weights[key] = block.weights.get(key, 0.0) + reading.weight(part)

    def covariance(self, block: Block, precision: float, *, total_known: bool = False) -> Floats | None:
        """The inverse of J_B with this p_B; None where something is not measured.

        Where the total is known, that of the empty set has T without error: what T and the others share is taken out.
        """
        key = tuple(block.sizes.items()), tuple(block.weights.items()), precision
        if key not in self._known:
            self._known[key] = _inverse(self._information(block, precision))
        found = self._known[key]
        if found is None or not total_known or block.part:
            return found
        return np.asarray(found - np.multiply.outer(found[:, 0], found[0]) / found[0, 0])

    def _information(self, block: Block, precision: float) -> Floats:
        out = np.zeros((block.size, block.size))
        out[0, 0] = precision
        for (name, way), weight in block.weights.items():
            at = block.at(name)
            out[np.ix_(at, at)] += weight * self._grams[way]
        return out


def _inverse(information: Floats) -> Floats | None:
    """The inverse of a symmetric matrix, scaled to a unit diagonal first; None where it is singular."""
    diagonal = np.diagonal(information)
    if not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    scaled = information * scale[:, None] * scale
    try:
        root = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    if float(np.diagonal(root).min()) ** 2 < _LEAST_PIVOT:
        return None
    inverse = np.linalg.inv(root)
    return np.asarray((inverse.T @ inverse) * scale[:, None] * scale)
