"""Linear queries, which questions resolve to: one number, a sparse sum of products of factors, summed over all rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Sensitivity
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.query.operators import whole
from crosstally.query.queries import MAX_CELLS, Query
from crosstally.schema import Schema

_MAX_FACTOR = 2**31  # in size: with up to 2^31 rows sums stay within int64
_MAX_TERMS = 2**22  # so that their sum is exact in doubles


@dataclass(frozen=True, slots=True)
class Term:
    """A weight times a product of factors: for each attribute named, a whole number for each of its values."""

    weight: int
    factors: tuple[tuple[str, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", whole(self.weight, "weight"))
        read = ((name, tuple(whole(f, f"the factor of {name!r}") for f in values)) for name, values in self.factors)
        object.__setattr__(self, "factors", tuple(sorted(read)))
        if len(set(dict(self.factors))) < len(self.factors):
            raise QueryError("a term must name each attribute once")


@dataclass(frozen=True, slots=True)
class Linear(Query):
    """One number: the sum over all rows of a sum of terms in product form (weights and factors whole numbers)."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        if not 1 <= len(self.terms) < _MAX_TERMS:
            raise QueryError(f"a linear query must have at least one term and fewer than {_MAX_TERMS:,}")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that some term names."""
        return tuple(sorted({name for term in self.terms for name, _ in term.factors}))

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """A single number; raises unless its factors fit the schema and its values the limits."""
        self._check(schema)
        return ()

    def row_values(self, schema: Schema) -> NDArray[np.int64]:
        """What one row adds, for each combination of the values of ``attributes``."""
        return self._row_values(self._check(schema))

    def _check(self, schema: Schema) -> tuple[int, ...]:
        sizes = schema.sizes(self.attributes)
        if math.prod(sizes) > MAX_CELLS:
            raise TooManyCellsError(
                f"a linear query must be over at most {MAX_CELLS:,} cells, got {math.prod(sizes):,}"
            )
        for term in self.terms:
            for name, factor in term.factors:
                if len(factor) != schema[name].size:
                    raise QueryError(f"the factor of {name!r} must have {schema[name].size} numbers, got {len(factor)}")
            if abs(term.weight) * math.prod(max(map(abs, factor)) for _, factor in term.factors) >= _MAX_FACTOR:
                raise QueryError("each term must stay below 2^31 for every row")
        return sizes

    def _row_values(self, sizes: tuple[int, ...]) -> NDArray[np.int64]:
        """The sum over terms of outer products, as one product of matrices: the first attributes by the others.

        Doubles are exact here: what a term adds is a whole number below 2^31, and a query has fewer than 2^22 terms.
        """
        half = next(i for i in range(len(sizes) + 1) if math.prod(sizes[:i]) ** 2 >= math.prod(sizes))
        first, others = self._products(sizes, range(half)), self._products(sizes, range(half, len(sizes)))
        weights = np.array([term.weight for term in self.terms], np.float64)
        return np.asarray((first * weights[:, None]).T @ others).astype(np.int64).reshape(sizes)

    def _products(self, sizes: tuple[int, ...], axes: range) -> NDArray[np.float64]:
        """For each term the product of its factors, for each combination of the values of some attributes."""
        out = np.ones((len(self.terms), 1))
        factors = [dict(term.factors) for term in self.terms]
        for axis in axes:
            name = self.attributes[axis]
            own = np.array([each.get(name, (1,) * sizes[axis]) for each in factors], np.float64)
            out = (out[:, :, None] * own[:, None, :]).reshape(len(self.terms), -1)
        return out

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """The most rows times the largest value of a row, or under replacement the widest gap between two units."""
        values, m = self.row_values(schema), schema.max_rows
        low, high = int(values.min()), int(values.max())
        if Neighbours(neighbours) == Neighbours.ADD_REMOVE:
            change = m * max(abs(low), abs(high))
        elif schema.may_drop:
            change = m * (max(high, 0) - min(low, 0))
        else:
            change = high - low
        return Sensitivity(change, change**2)

    def worst_shifts(self, schema: Schema, neighbours: Neighbours | str) -> list[int] | None:
        """Its one number moves by the sensitivity, in whole numbers unless units are divided."""
        return None if schema.divided else [self.sensitivity(schema, neighbours).l1]

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum over all rows; counts are over ``attributes`` in their order."""
        return np.asarray((self._row_values(counts.shape) * counts).sum(dtype=np.int64))

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""
        terms = [{"weight": t.weight, "factors": {name: list(f) for name, f in t.factors}} for t in self.terms]
        return {"linear": terms}


def linear_among(queries: Iterable[Query]) -> list[Linear]:
    """The queries that are single numbers: they are charged and stored separately from tables."""
    return [query for query in queries if isinstance(query, Linear)]
