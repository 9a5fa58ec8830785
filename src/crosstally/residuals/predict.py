"""The variances that combining will give, before anything is measured: one number for each attribute set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.questions.queries import Cells, Contrast, Query
from crosstally.residuals.combine import by_shape
from crosstally.residuals.layout import Layout, find, outer_product
from crosstally.schema import Schema

__all__ = ["PredictedVariances"]


class PredictedVariances:
    """The exact variance of every coefficient and table, from queries and the variance of their noise.

    All coefficients of one attribute set B share a variance, so the basis is only asked which sets there are: a layout
    in which every attribute has one bit.
    """

    def __init__(self, schema: Schema, measured: Sequence[tuple[Query, float]]) -> None:
        self.schema = schema
        self._layout = Layout.of((2,) * len(schema.names))
        groups = by_shape([(type(query), schema.sizes(query.attributes)) for query, _ in measured])
        parts = [self._group([measured[i] for i in group]) for group in groups.values()]
        keys = np.concatenate([self._subsets([()])[0, :0], *(part[0].ravel() for part in parts)])
        precisions = np.concatenate([np.empty(0), *(1 / part[1].ravel() for part in parts)])
        self.keys, places = np.unique(keys, return_inverse=True)
        self.variances = 1 / np.bincount(places, precisions, len(self.keys))

    def _group(self, measured: Sequence[tuple[Query, float]]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The sets that queries of one kind and shape measure, a row each, and the variance of their coefficients."""
        query = measured[0][0]
        sizes = self.schema.sizes(query.attributes)
        keys = self._subsets([query.attributes for query, _ in measured])
        own = np.array([[variance] for _, variance in measured])
        match query:
            case Cells():
                return keys, own * outer_product([[n, 1] for n in sizes])
            case Contrast():
                return keys[:, -1:], own * query.map(self.schema).variance_factor
            case _:
                raise QueryError(f"only cells and contrasts can be combined, got {type(query).__name__}")

    def replacing(self, known: Mapping[tuple[str, ...], float]) -> PredictedVariances:
        """The same with other variances for the coefficients of some sets, as far as these are measured at all."""
        out = copy(self)
        if known and len(self.keys):
            places, found = find(self.keys, np.array([self._subsets([names])[0, -1] for names in known]))
            out.variances = self.variances.copy()
            out.variances[places[found]] = np.array(list(known.values()))[found]
        return out

    def _subsets(self, tables: Sequence[Sequence[str]]) -> NDArray[Any]:
        return self._layout.keys([[self.schema.positions[name] for name in names] for names in tables])

    def single(self, query: Query, variance: float) -> NDArray[np.float64]:
        """The variance of the coefficients of each subset from one query alone; infinite where it does not measure it.

        Subsets are in the order of ``of_subsets``: the last attribute fastest.
        """
        variances = self._group([(query, variance)])[1][0]
        missing = 2 ** len(query.attributes) - len(variances)
        return np.concatenate([np.full(missing, math.inf), variances])

    def of_subsets(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The combined variance of the coefficients of each subset; NaN where it is not measured."""
        return np.asarray(self._of_subsets([names])[0])

    def _of_subsets(self, tables: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        places, found = find(self.keys, self._subsets(tables))
        return np.where(found, self.variances[places], math.nan) if len(self.keys) else np.full(found.shape, math.nan)

    def of(self, names: Sequence[str]) -> float:
        """The variance of each cell of a table; NaN where it is not covered."""
        return self.of_all([names])[0]

    def of_all(self, tables: Sequence[Sequence[str]]) -> list[float]:
        """The variance of each cell of many tables; those of one shape share the work."""
        out = [math.nan] * len(tables)
        for sizes, group in by_shape([self.schema.sizes(names) for names in tables]).items():
            parts = self._of_subsets([tables[i] for i in group])
            variances = parts @ outer_product([[1 / n**2, 1 - 1 / n] for n in sizes])
            for i, variance in zip(group, variances, strict=True):
                out[i] = float(variance)
        return out
