"""What a plan asks for: queries with their noise, one by one or in groups that are alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.query.linear import Linear
from crosstally.query.queries import Query
from crosstally.schema import Schema

__all__ = ["GroupedRequests", "Request", "RequestGroup", "grouped"]

_MAX_LINEAR = 200_000_000  # terms times cells of all linear queries of a plan: visiting each takes half a second


@dataclass(frozen=True, slots=True)
class Request:
    """A query and the noise it is answered with."""

    query: Query
    noise: Noise

    def __post_init__(self) -> None:
        if self.query.is_linear == (self.noise.kind is NoiseKind.GUMBEL):
            raise PlanError("a choice must have Gumbel noise on its scores, and nothing else may have it")


@dataclass(frozen=True, slots=True, eq=False)
class RequestGroup:
    """Requests of one kind, with one noise, over tables of one shape: the first query, and all attributes' positions.

    Shape and sensitivity are the same for all of them.
    """

    query: Query
    noise: Noise
    positions: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.positions)

    def requests(self, schema: Schema) -> Iterator[Request]:
        """Each request by itself."""
        names = schema.names
        for row in self.positions.tolist():
            yield Request(self.query.over(tuple([names[i] for i in row])), self.noise)


class GroupedRequests(Sequence[Request]):
    """Very many requests, held as groups: each by itself is made when somebody asks for it.

    Equal to the tuple of the same requests.
    """

    def __init__(self, schema: Schema, groups: Sequence[RequestGroup]) -> None:
        self.schema = schema
        self.groups = tuple(groups)

    @cached_property
    def _all(self) -> tuple[Request, ...]:
        return tuple(request for group in self.groups for request in group.requests(self.schema))

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Request, ...]: ...
    def __getitem__(self, index: int | slice) -> Request | tuple[Request, ...]:
        return self._all[index]

    def __iter__(self) -> Iterator[Request]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == tuple(other) if isinstance(other, tuple | GroupedRequests) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return f"{len(self):,} requests"


def grouped(requests: Sequence[Request], schema: Schema) -> tuple[RequestGroup, ...]:
    """The requests in groups that are alike; raises when a query does not fit the schema."""
    if isinstance(requests, GroupedRequests):
        return requests.groups
    found: dict[tuple[object, Noise], list[Query]] = {}
    for request in requests:
        query = request.query
        alike = (query.along, schema.sizes(query.attributes)) if query.is_symmetric else query
        found.setdefault((alike, request.noise), []).append(query)
    _check_linear(found.values(), schema)
    for queries in found.values():
        queries[0].shape(schema)
    known = schema.positions
    return tuple(
        RequestGroup(queries[0], noise, np.array([[known[name] for name in q.attributes] for q in queries], np.intp))
        for (_, noise), queries in found.items()
    )


def _check_linear(alike: Iterable[Sequence[Query]], schema: Schema) -> None:
    """Raise unless the linear queries can be looked at term by term and cell by cell: a short file may ask for many."""
    linear = ((query, len(queries)) for queries in alike if isinstance(query := queries[0], Linear))
    work = sum(times * len(q.terms) * math.prod(schema.sizes(q.attributes)) for q, times in linear)
    if work > _MAX_LINEAR:
        raise TooManyCellsError(
            f"linear queries must have at most {_MAX_LINEAR:,} cells together, counted for each term, got {work:,}"
        )
