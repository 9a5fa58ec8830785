"""Linear queries as arrays: bundles of queries about the same attributes, split by sets of these attributes.

Under a product prior p0 a query splits into orthogonal parts, one for each set B of attributes: averaged over the
attributes outside B and centred along those inside, both by p0. The inner product of two queries is the sum over B of
the inner products of their parts (EDBT 2012, equations 12, 15 and 19, put in the residual basis).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError, TooManyCellsError
from crosstally.notebook.history.prior import Prior
from crosstally.query.linear import Linear
from crosstally.schema import Schema

# Limits memory: 1.6 GB of doubles, a number for each query and each cell of its table. More are refused.
_MAX_NUMBERS = 200_000_000
MOST_ASKED_TOGETHER = 8  # a query over k attributes has 2^k parts: 256 at most. More are refused

Positions = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueryGroup:
    """Queries about the same attributes: for each query a table of what one row in each cell adds.

    ``rows`` says where each query stands among all queries of its batch.
    """

    positions: Positions
    rows: NDArray[np.intp]
    tables: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QueryBatch:
    """All queries of one call, in bundles; ``size`` is their number."""

    schema: Schema
    bundles: tuple[QueryGroup, ...]
    size: int

    @classmethod
    def of(cls, queries: Sequence[Linear], schema: Schema) -> QueryBatch:
        """The queries, in order."""
        members: dict[Positions, list[int]] = {}
        for i, query in enumerate(queries):
            names = schema.ordered(query.attributes)
            members.setdefault(tuple(schema.positions[name] for name in names), []).append(i)
        numbers = sum(len(rows) * math.prod(schema.shape[p] for p in where) for where, rows in members.items())
        if numbers > _MAX_NUMBERS:
            raise TooManyCellsError(f"queries must be over at most {_MAX_NUMBERS:,} cells in all, got {numbers:,}")
        bundles = [
            QueryGroup(where, np.array(rows, np.intp), _tables([queries[i] for i in rows], where, schema))
            for where, rows in members.items()
        ]
        return cls(schema, tuple(bundles), len(queries))

    def chosen(self, rows: NDArray[np.bool_]) -> QueryBatch:
        """The queries that are marked, in the same order."""
        places = np.cumsum(rows) - 1
        kept = []
        for bundle in self.bundles:
            mask = rows[bundle.rows]
            if mask.any():
                kept.append(QueryGroup(bundle.positions, places[bundle.rows[mask]], bundle.tables[mask]))
        return QueryBatch(self.schema, tuple(kept), int(rows.sum()))


def _tables(queries: Sequence[Linear], where: Positions, schema: Schema) -> NDArray[np.float64]:
    sizes = tuple(schema.shape[p] for p in where)
    axes = {schema.names[p]: axis for axis, p in enumerate(where)}
    out = np.zeros((len(queries), *sizes))
    if all(len(query.terms) == 1 for query in queries):
        out += np.array([query.terms[0].weight for query in queries]).reshape(-1, *[1] * len(sizes))
        for name, axis in axes.items():
            factors = np.array([dict(query.terms[0].factors)[name] for query in queries], np.float64)
            out *= factors.reshape(len(queries), *[-1 if i == axis else 1 for i in range(len(sizes))])
        return out
    order = np.argsort([schema.positions[name] for name in queries[0].attributes])
    for i, query in enumerate(queries):
        out[i] = query.row_values(schema).transpose(order)
    return out


def parts_of(where: Positions) -> Iterator[Positions]:
    """The sets of attributes that queries over these have parts for: all subsets, the empty one first."""
    if len(where) > MOST_ASKED_TOGETHER:
        raise QueryError(f"history takes questions over at most {MOST_ASKED_TOGETHER} attributes, got {len(where)}")
    for size in range(len(where) + 1):
        yield from combinations(where, size)


def projected(bundle: QueryGroup, part: Positions, prior: Prior) -> NDArray[np.float64]:
    """The part of each query for a set of attributes, as a row; inner products of parts are those of the rows."""
    table = bundle.tables
    axis = 1
    for position in bundle.positions:
        p = prior.probabilities[position]
        mean = np.tensordot(table, p, axes=(axis, 0))
        if position in part:
            shape = [-1 if i == axis else 1 for i in range(table.ndim)]
            weights = np.ones(len(p)) if part in prior.known_variances else np.sqrt(p)
            table = (table - np.expand_dims(mean, axis)) * weights.reshape(shape)
            axis += 1
        else:
            table = mean
    return table.reshape(len(table), -1)
