"""Measurements to an estimate: generalised least squares as an average, coefficient by coefficient."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.query.operators import Operator
from crosstally.query.queries import Query
from crosstally.query.ways import Groups, matrices_of, mixed_of
from crosstally.residuals.axes import (
    Layout,
    LinearAxis,
    find,
    linear_axes,
    map_axis,
    outer_product,
    reading_along,
    rebuild,
)
from crosstally.residuals.mixed import Block, MixedAxes, Names
from crosstally.residuals.nested import Nesting, PlacedNesting
from crosstally.schema import Schema
from crosstally.typing import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """All that measurements say, consistent: coefficients, sorted by key, and the variance each had when combined.

    ``corrected`` names the correction of negative cells that changed the coefficients since, or is ``none``.
    ``smallest`` is the least cell of the largest measured tables: how far below zero making them agree has left them;
    NaN until that is known. Where values are in ``groups``, the schema is the extended one, in which they are not.
    """

    schema: Schema
    keys: NDArray[Any]
    _: KW_ONLY
    coefficients: NDArray[np.float64]
    variances: NDArray[np.float64]
    corrected: str = "none"
    smallest: float = math.nan
    groups: Groups | None = None

    def __repr__(self) -> str:
        return f"Estimate({len(self.keys):,} coefficients, corrected: {self.corrected})"

    @cached_property
    def layout(self) -> Layout:
        """How keys are made."""
        return Layout.of(self.schema.shape)

    def covers(self, names: Sequence[str]) -> bool:
        """Whether the table can be had without guessing."""
        return bool(self.covered([names])[0])

    def covered(self, wanted: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """For each of many tables whether it is covered: whether all its coefficients are there.

        The last coefficient of a table, over all its attributes, is asked for first: nearly always it decides.
        """
        out = np.zeros(len(wanted), np.bool_)
        tables = [[self.schema.positions[name] for name in names] for names in wanted]
        has_last = find(self.keys, self.layout.last_keys(tables))[1] if tables else out
        likely = np.flatnonzero(has_last).tolist()
        for group in by_shape([self.schema.sizes(wanted[i]) for i in likely]).values():
            chosen = [likely[i] for i in group]
            out[chosen] = self.places([wanted[i] for i in chosen])[1].all(axis=1)
        return out

    def table(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The table over some attributes, in the order named. What was never measured is taken as zero."""
        return self.tables([names])[0]

    def tables(self, wanted: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Many tables at once; those of one shape share the work."""
        out: list[NDArray[np.float64]] = [np.empty(0)] * len(wanted)
        for shape, group in by_shape([self.schema.sizes(names) for names in wanted]).items():
            places, found = self.places([wanted[i] for i in group])
            stack = self.coefficients[places] * found if len(self.keys) else np.zeros(places.shape)
            values = rebuild(stack.reshape(len(group), *shape), len(shape))
            for i, table in zip(group, values, strict=True):
                out[i] = table
        return out

    def variance(self, names: Sequence[str]) -> float:
        """The mean variance of a cell of a table before any correction; NaN where it is not covered.

        All cells have the same, unless an attribute is measured by a matrix. Different vectors of the basis are
        orthogonal, so that covariances of coefficients leave the mean as it is.
        """
        places, found = self.places([names])
        return float(self.variances[places[0]] @ mean_squares(self.schema.sizes(names))) if found.all() else math.nan

    def with_total(self, total: float) -> Estimate:
        """The same estimate with the number of rows known."""
        zero = self.layout.keys([()])[0]
        keys, places = np.unique(np.concatenate([zero, self.keys]), return_inverse=True)
        coefficients, variances = np.empty(len(keys)), np.empty(len(keys))
        coefficients[places[1:]], variances[places[1:]] = self.coefficients, self.variances
        coefficients[places[0]], variances[places[0]] = total, 0.0
        return replace(self, keys=keys, coefficients=coefficients, variances=variances)

    def places(self, tables: Sequence[Sequence[str]]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where the coefficients of some tables of one shape stand, and whether they are there: (tables, cells)."""
        return find(self.keys, self.layout.keys([[self.schema.positions[name] for name in names] for names in tables]))


def mean_squares(sizes: Sequence[int]) -> NDArray[np.float64]:
    """For each coefficient of a table the mean square of its vector over all cells."""
    return outer_product([[1 / n**2] + [1 / n] * (n - 1) for n in sizes])


def combine(
    schema: Schema, measurements: Sequence[Measurement], groups: Groups | None = None, *, rows: int | None = None
) -> Estimate:
    """The best linear unbiased estimate of everything that was measured, with the number of rows where it is known.

    For each coefficient the average over the measurements that hold it, weighted by inverse variance. A view of cell
    variance v gives the coefficient of B the variance v x prod(n_i, i outside B). Where values are in ``groups``,
    schema and measurements are the extended ones. Choices say nothing about counts, and are passed over.
    """
    measurements = [m for m in measurements if m.query.is_linear]
    return Averages.of(schema, measurements, groups).estimate([m.values for m in measurements], rows)


TurnedTable = tuple[NDArray[np.intp], tuple[LinearAxis | None, ...]]
"""A table with a matrix along some axes: the places of its coefficients, and the bases along its axes."""


def _turned_tables(
    schema: Schema, keys: NDArray[Any], linear: Mapping[str, LinearAxis], measured: Sequence[Names]
) -> tuple[TurnedTable, ...]:
    """The largest measured tables that have a matrix; raises when a part of one is not measured."""
    layout = Layout.of(schema.shape)
    wanted = {schema.ordered(names) for names in measured if any(name in linear for name in names)}
    largest = [names for names in wanted if not any(set(names) < set(other) for other in wanted)]
    out = []
    for names in sorted(largest):
        places, found = find(keys, layout.keys([[schema.positions[name] for name in names]])[0])
        if not found.all():
            raise _not_all_measured(names)
        out.append((places.reshape(schema.sizes(names)), tuple(linear.get(name) for name in names)))
    return tuple(out)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedBlocks:
    """The blocks of some measurements, and where the coefficients of each stand among sorted keys.

    For each block the places of its unknowns: (coefficients of B, unknowns).
    """

    axes: MixedAxes
    places: Mapping[Names, NDArray[np.intp]]

    @staticmethod
    def keys(axes: MixedAxes) -> Iterator[NDArray[np.uint64]]:
        """The keys of all coefficients of the blocks."""
        layout = Layout.of(axes.schema.shape)
        for block in axes.blocks.values():
            for name in block.sizes:
                yield _own_keys(axes.schema, layout, block.part, name).ravel()

    @classmethod
    def of(cls, axes: MixedAxes, keys: NDArray[np.uint64]) -> PlacedBlocks:
        """The places among these keys; raises when a table is measured and a part of it is not."""
        layout, out = Layout.of(axes.schema.shape), {}
        for each in axes.readings.values():
            others = max(each.parts, key=len)
            for part in (part for order in range(len(others)) for part in combinations(others, order)):
                if part not in axes.blocks or each.mixed[0] not in axes.blocks[part].sizes:
                    raise _not_all_measured((*others, *each.mixed))
        for part, block in axes.blocks.items():
            own = {name: find(keys, _own_keys(axes.schema, layout, part, name))[0] for name in block.sizes}
            out[part] = np.concatenate(
                [next(iter(own.values()))[:, :1], *(each[:, 1:] for each in own.values())], axis=1
            )
        return cls(axes, out)

    def _covariance(self, block: Block, precision: Floats, *, total_known: bool = False) -> Floats:
        p = float(precision[self.places[block.part][0, 0]])
        found = self.axes.covariance(block, p, total_known=total_known)
        if found is None:
            raise _not_all_measured((*block.part, next(iter(block.sizes))))
        return found

    def means(self, sums: Floats, precision: Floats, values: Sequence[NDArray[np.float64]]) -> Floats:
        """The least squares estimate, from precisions and precision times mean of what others say about each place."""
        out = np.divide(sums, precision, out=np.zeros_like(sums), where=precision > 0)
        right = {part: np.zeros(places.shape) for part, places in self.places.items()}
        for part, places in self.places.items():
            right[part][:, 0] = sums[places[:, 0]]
        for i, reading in self.axes.readings.items():
            table = reading.information(values[i])
            for part in reading.parts:
                at = self.axes.blocks[part].at(*reading.mixed)
                right[part][:, at] += reading.of_part(table, part)
        for part, places in self.places.items():
            out[places] = right[part] @ self._covariance(self.axes.blocks[part], precision)
        return out

    def variances(self, precision: Floats, *, total_known: bool = False) -> Floats:
        """The variance of each coefficient."""
        out = np.divide(1.0, precision, out=np.zeros_like(precision), where=precision > 0)
        for part, places in self.places.items():
            covariance = self._covariance(self.axes.blocks[part], precision, total_known=total_known)
            out[places] = np.diagonal(covariance)
        return out

    def with_total(self, means: Floats, precision: Floats, total: float) -> Floats:
        """The same estimate with the number of rows known: what T and the others of the empty set share moves along."""
        out, (places,) = means.copy(), self.places[()]
        covariance = self._covariance(self.axes.blocks[()], precision)
        out[places] += covariance[:, 0] / covariance[0, 0] * (total - means[places[0]])
        out[places[0]] = total
        return out


def _not_all_measured(names: Names) -> QueryError:
    told = " x ".join(names)
    return QueryError(f"{told} is measured by a matrix, so all tables inside it and the total must be too")


def _own_keys(schema: Schema, layout: Layout, part: Names, name: str) -> NDArray[np.uint64]:
    """The keys of B and of B with a: (coefficients of B, values of a), T first."""
    positions = [schema.positions[each] for each in (*part, name)]
    shape = schema.sizes((*part, name))
    keys = layout.keys([positions])[0].reshape(shape)
    inside = keys[tuple(slice(1, None) for _ in part)]
    return np.asarray(inside.reshape(math.prod(n - 1 for n in shape[:-1]), shape[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class Averages:
    """How the values of some measurements are averaged into coefficients, whatever the values are."""

    schema: Schema
    groups: Groups | None
    keys: NDArray[Any]
    variances: NDArray[np.float64]
    _kinds: tuple[tuple[Kind, list[int]], ...]
    _places: NDArray[np.intp]
    _own_variances: NDArray[np.float64]
    _mixed: PlacedBlocks | None
    _turned: tuple[TurnedTable, ...]
    _nested: tuple[PlacedNesting, ...] = ()

    @classmethod
    def of(cls, schema: Schema, measurements: Sequence[Measurement], groups: Groups | None = None) -> Averages:
        """The averages of these measurements.

        Where values are in groups, schema and measurements are the extended ones, put together (``nested``).
        """
        layout = Layout.of(schema.shape)
        queries = [m.query for m in measurements]
        linear = linear_axes(matrices_of(queries))
        mixed = MixedAxes(schema, [(m.query, m.variance) for m in measurements]) if mixed_of(queries) else None
        kinds: dict[Kind, list[int]] = {}
        for i, m in enumerate(measurements):
            if mixed is None or i not in mixed.readings:
                kinds.setdefault(_kind(m.query, schema), []).append(i)
        parts = [_keys(schema, layout, kind, [measurements[i] for i in group]) for kind, group in kinds.items()]
        keys = [layout.keys([()])[0][:0], *(part[0] for part in parts)]
        variances = np.concatenate([part[1] for part in parts] or [np.empty(0)])
        if mixed is not None:
            keys += PlacedBlocks.keys(mixed)
        unique, places = np.unique(np.concatenate(keys), return_inverse=True)
        tables = [query.attributes for query in queries]
        out = cls(
            schema,
            groups,
            unique,
            np.empty(0),
            _kinds=tuple(kinds.items()),
            _places=places[: len(variances)],
            _own_variances=variances,
            _mixed=None if mixed is None else PlacedBlocks.of(mixed, unique),
            _turned=_turned_tables(schema, unique, linear, tables) if linear else (),
        )
        out = replace(out, variances=out._combined_variances())
        return out if groups is None else replace(out, _nested=out._nestings(groups))

    @property
    def _precision(self) -> Floats:
        """One over the variance of each average: the sum over the measurements that hold the coefficient."""
        return np.asarray(np.bincount(self._places, 1 / self._own_variances, len(self.keys)), np.float64)

    def _combined_variances(self, *, total_known: bool = False) -> Floats:
        """The variances of the coefficients of the residual basis."""
        precision = self._precision
        averaged = 1 / precision if self._mixed is None else self._mixed.variances(precision, total_known=total_known)
        if total_known:
            averaged[0] = 0.0
        return self._in_basis(averaged, lambda axis: axis.to_helmert**2)

    def _in_basis(self, numbers: Floats, turn: Callable[[LinearAxis], Floats]) -> Floats:
        """Averages in the bases of matrices as coefficients of the residual basis, or back: table by table.

        Along an axis with a matrix, the coefficients of a set and of the same set without that axis turn together
        (``LinearAxis.to_helmert``).
        """
        out = numbers.copy()
        for places, axes in self._turned:
            table = numbers[places]
            for place, axis in enumerate(axes):
                if axis is not None:
                    table = map_axis(turn(axis), table, place)
            out[places] = table
        return out

    def _nestings(self, groups: Groups) -> tuple[PlacedNesting, ...]:
        """The attributes in groups that were measured in full too; their variances are put in place."""
        layout, positions = Layout.of(self.schema.shape), self.schema.positions
        nested = []
        for name, full in groups.full_names.items():
            of_groups, _ = find(self.keys, layout.keys([[positions[name]]])[0])
            of_values, found = find(self.keys, layout.keys([[positions[full]]])[0])
            if found.all():
                p, q = (1 / float(self.variances[places[1]]) for places in (of_groups, of_values))
                nesting = Nesting(groups.codes[name], p, q)
                nested.append(PlacedNesting(nesting, int(of_groups[0]), of_groups[1:], of_values[1:]))
        for each in nested:
            each.put_variances(self.variances)
        return tuple(nested)

    def estimate(self, values: Sequence[NDArray[Any]], rows: int | None = None) -> Estimate:
        """The estimate from these values, one array for each measurement, with the number of rows where it is known."""
        means = self.of_values(values)
        found = Estimate(self.schema, self.keys, coefficients=means, variances=self.variances, groups=self.groups)
        return found if rows is None else self.with_total(found, rows)

    def with_total(self, combined: Estimate, total: float) -> Estimate:
        """An estimate made by these averages, with the number of rows known."""
        if self._turned or self._mixed is not None:  # then T is measured, and has the first of all keys
            means = self._in_basis(combined.coefficients, lambda axis: axis.from_helmert)
            if self._mixed is not None:
                means = self._mixed.with_total(means, self._precision, total)
            means[0] = total
            means = self._in_basis(means, lambda axis: axis.to_helmert)
            return replace(combined, coefficients=means, variances=self._combined_variances(total_known=True))
        known = combined.with_total(total)
        for each in self._nested:
            each.move_total(known.coefficients, total - float(combined.coefficients[each.total]))
            each.put_variances(known.variances)
        return known

    def of_values(self, values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """The coefficients for these values, one array for each measurement, in their order."""
        parts = [_coefficients(kind, np.stack([values[i] for i in group])) for kind, group in self._kinds]
        own = np.concatenate(parts or [np.empty(0)])
        sums = np.asarray(np.bincount(self._places, own / self._own_variances, len(self.keys)), np.float64)
        precision = self._precision
        means = sums / precision if self._mixed is None else self._mixed.means(sums, precision, values)
        for each in self._nested:
            each.put_together(means)
        return self._in_basis(means, lambda axis: axis.to_helmert)


Kind = tuple[tuple[Operator, ...], tuple[int, ...]]
"""What is averaged alike: the operator along each attribute, and their sizes."""


def _kind(query: Query, schema: Schema) -> Kind:
    if not query.is_product:
        raise QueryError(f"only cells, contrasts and Kronecker queries combine, got {type(query).__name__}")
    if query.groups:
        raise QueryError("cells in groups are combined in the extended schema, where they are plain cells")
    return query.along, schema.sizes(query.attributes)


def _keys(
    schema: Schema, layout: Layout, kind: Kind, group: Sequence[Measurement]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Keys and variances of all coefficients in measurements of one kind."""
    keys = layout.keys([[schema.positions[name] for name in m.query.attributes] for m in group])
    own = np.array([m.variance for m in group])
    scale, along = 1.0, []
    for reading in map(reading_along, *kind):
        scale *= reading.scale
        along.append(reading.variances)
    variances = outer_product(along)
    said = np.isfinite(variances)
    return keys[:, said].ravel(), ((own * scale**2)[:, None] * variances[said]).ravel()


def _coefficients(kind: Kind, values: NDArray[Any]) -> NDArray[np.float64]:
    """The coefficients of a stack of answers of one kind, in the order of their keys."""
    out = np.array(values, np.float64)  # a copy: readings work in place
    scale = 1.0
    for place, reading in enumerate(map(reading_along, *kind), start=1):
        scale *= reading.scale
        out = reading.read(out, place)
    return (out * scale).ravel()


def by_shape(shapes: Sequence[Any]) -> Mapping[Any, list[int]]:
    """The positions at which each shape stands."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, shape in enumerate(shapes):
        groups[shape].append(i)
    return groups
