"""The variances that combining will give, before anything is measured: one number for each attribute set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.queries import Cells, Contrast, Query
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
        keys, precisions = [self._empty()], [np.empty(0)]
        for query, variance in measured:
            own_keys, own_variances = self.single(query, variance)
            keys.append(own_keys)
            precisions.append(1 / own_variances)
        self.keys, places = np.unique(np.concatenate(keys), return_inverse=True)
        self.variances = 1 / np.bincount(places, np.concatenate(precisions), len(self.keys))

    def single(self, query: Query, variance: float) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The sets that one query measures and the variance it gives their coefficients, subsets in table order."""
        sizes = self.schema.sizes(query.attributes)
        keys = self.subsets(query.attributes)
        match query:
            case Cells():
                return keys, variance * outer_product([[n, 1] for n in sizes])
            case Contrast():
                scale = math.prod(1 / 2 if n == 2 else 1 / n**2 for n in sizes)
                return keys[-1:], np.array([variance * scale])
            case _:
                raise QueryError(f"only cells and contrasts can be combined, got {type(query).__name__}")

    def subsets(self, names: Sequence[str]) -> NDArray[Any]:
        """The keys of all subsets of some attributes, the last attribute fastest."""
        return np.asarray(self._layout.keys([[self.schema.positions[name] for name in names]])[0])

    def of_subsets(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The variance of the coefficients of each subset; NaN where it is not measured."""
        places, found = find(self.keys, self.subsets(names))
        return np.where(found, self.variances[places] if len(self.keys) else math.nan, math.nan)

    def of(self, names: Sequence[str]) -> float:
        """The variance of each cell of a table; NaN where it is not covered."""
        sizes = self.schema.sizes(names)
        return float(self.of_subsets(names) @ outer_product([[1 / n**2, 1 - 1 / n] for n in sizes]))

    def _empty(self) -> NDArray[Any]:
        return np.asarray(self._layout.keys([()])[0][:0])
