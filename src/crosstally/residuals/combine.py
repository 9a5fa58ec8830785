"""Measurements to an estimate: generalised least squares as an average, coefficient by coefficient."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.questions.choice import Choice
from crosstally.questions.contrast_map import ContrastMap
from crosstally.questions.groups import Groups
from crosstally.questions.queries import Cells, Contrast
from crosstally.residuals.basis import decompose, rebuild
from crosstally.residuals.layout import Layout, find, outer_product
from crosstally.residuals.nested import Nesting, PlacedNesting
from crosstally.residuals.variances import cell_variance
from crosstally.schema import Schema
from crosstally.tables import Measurement

__all__ = ["Averages", "Estimate", "by_shape", "combine"]


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
        return bool(self.places([names])[1].all())

    def covered(self, wanted: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """For each of many tables whether it is covered."""
        out = np.zeros(len(wanted), np.bool_)
        for group in by_shape([self.schema.sizes(names) for names in wanted]).values():
            out[group] = self.places([wanted[i] for i in group])[1].all(axis=1)
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
        """The variance of each cell of a table before any correction; NaN where it is not covered."""
        places, found = self.places([names])
        if not found.all():
            return math.nan
        sizes = self.schema.sizes(names)
        of_subsets = self.variances[places[0]].reshape(sizes)[np.ix_(*[(0, 1)] * len(sizes))]  # shared within a set
        return cell_variance(of_subsets.ravel(), sizes)

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


def combine(schema: Schema, measurements: Sequence[Measurement], groups: Groups | None = None) -> Estimate:
    """The best linear unbiased estimate of everything that was measured.

    For each coefficient the average over the measurements that hold it, weighted by inverse variance. A view of cell
    variance v gives the coefficient of B the variance v x prod(n_i, i outside B). Where values are in ``groups``,
    schema and measurements are the extended ones. Choices say nothing about counts, and are passed over.
    """
    measurements = [m for m in measurements if not isinstance(m.query, Choice)]
    averages = Averages.of(schema, measurements) if groups is None else Averages.in_groups(groups, measurements)
    means = averages.of_values([m.values for m in measurements])
    return Estimate(schema, averages.keys, coefficients=means, variances=averages.variances, groups=groups)


@dataclass(frozen=True, slots=True, eq=False)
class Averages:
    """How the values of some measurements are averaged into coefficients, whatever the values are."""

    keys: NDArray[Any]
    variances: NDArray[np.float64]
    _groups: tuple[tuple[type, tuple[int, ...], list[int]], ...]
    _places: NDArray[np.intp]
    _own_variances: NDArray[np.float64]
    _nested: tuple[PlacedNesting, ...] = ()

    @classmethod
    def of(cls, schema: Schema, measurements: Sequence[Measurement]) -> Averages:
        """The averages of these measurements."""
        layout = Layout.of(schema.shape)
        shapes = by_shape([(type(m.query), schema.sizes(m.query.attributes)) for m in measurements])
        parts = [_keys(schema, layout, [measurements[i] for i in group]) for group in shapes.values()]
        keys = np.concatenate([part[0] for part in parts]) if parts else layout.keys([()])[0][:0]
        variances = np.concatenate([part[1] for part in parts] or [np.empty(0)])
        unique, places = np.unique(keys, return_inverse=True)
        groups = tuple((kind, sizes, group) for (kind, sizes), group in shapes.items())
        return cls(unique, 1 / np.bincount(places, 1 / variances, len(unique)), groups, places, variances)

    @classmethod
    def in_groups(cls, groups: Groups, measurements: Sequence[Measurement]) -> Averages:
        """The same where values are in groups: of measurements of the extended schema, put together (``nested``)."""
        plain = cls.of(groups.extended, measurements)
        layout, positions = Layout.of(groups.extended.shape), groups.extended.positions
        nested = []
        for name, full in groups.full_names.items():
            of_groups, _ = find(plain.keys, layout.keys([[positions[name]]])[0])
            of_values, found = find(plain.keys, layout.keys([[positions[full]]])[0])
            if found.all():  # otherwise it was not measured in full
                p, q = (1 / float(plain.variances[places[1]]) for places in (of_groups, of_values))
                nesting = Nesting(groups.codes[name], p, q)
                nested.append(PlacedNesting(nesting, int(of_groups[0]), of_groups[1:], of_values[1:]))
        variances = plain.variances.copy()
        for each in nested:
            each.put_variances(variances)
        return replace(plain, variances=variances, _nested=tuple(nested))

    def with_total(self, combined: Estimate, total: float) -> Estimate:
        """An estimate made by these averages, with the number of rows known."""
        known = combined.with_total(total)
        for each in self._nested:
            each.move_total(known.coefficients, total - float(combined.coefficients[each.total]))
            each.put_variances(known.variances)
        return known

    def of_values(self, values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """The coefficients for these values, one array for each measurement, in their order."""
        parts = [
            _coefficients(kind, sizes, np.stack([values[i] for i in group])) for kind, sizes, group in self._groups
        ]
        own = np.concatenate(parts or [np.empty(0)])
        number = len(self.keys)
        precision = np.bincount(self._places, 1 / self._own_variances, number)
        means = np.asarray(np.bincount(self._places, own / self._own_variances, number) / precision)
        for each in self._nested:
            each.put_together(means)
        return means


def _keys(schema: Schema, layout: Layout, group: Sequence[Measurement]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Keys and variances of all coefficients in measurements of one kind and shape."""
    query = group[0].query
    sizes = schema.sizes(query.attributes)
    keys = layout.keys([[schema.positions[name] for name in m.query.attributes] for m in group])
    own = np.array([m.variance for m in group])
    match query:
        case Cells() if query.groups:
            raise QueryError("cells in groups are combined in the extended schema, where they are plain cells")
        case Cells():
            variances = own[:, None] * outer_product([[n] + [1] * (n - 1) for n in sizes])
        case Contrast():
            inside = outer_product([[0] + [1] * (n - 1) for n in sizes]) > 0
            keys = keys[:, inside]
            scale = query.map(schema).coefficient_scale
            variances = np.broadcast_to((own * scale**2)[:, None], keys.shape)
        case _:
            raise QueryError(f"only cells and contrasts can be combined, got {type(query).__name__}")
    return keys.ravel(), variances.ravel()


def _coefficients(kind: type, sizes: Sequence[int], values: NDArray[Any]) -> NDArray[np.float64]:
    """The coefficients of a stack of answers of one kind and shape, in the order of their keys."""
    if kind is Contrast:
        return (_contrast_coefficients(values) * ContrastMap(tuple(sizes)).coefficient_scale).ravel()
    return decompose(values, len(sizes)).ravel()


def _contrast_coefficients(values: NDArray[Any]) -> NDArray[np.float64]:
    """The inner products with Helmert's vectors; an axis of one number holds its only one already."""
    out = np.asarray(values, np.float64)
    for axis, numbers in enumerate(values.shape[1:], start=1):
        if numbers > 1:
            out = np.moveaxis(decompose(np.moveaxis(out, axis, -1), 1)[..., 1:], -1, axis)
    return out.reshape(len(out), -1)


def by_shape(shapes: Sequence[Any]) -> Mapping[Any, list[int]]:
    """The positions at which each shape stands."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, shape in enumerate(shapes):
        groups[shape].append(i)
    return groups
