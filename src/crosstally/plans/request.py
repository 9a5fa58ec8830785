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
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Contrast, Linear, Query
from crosstally.schema import Schema

__all__ = ["GroupedRequests", "Request", "RequestGroup", "grouped"]

_MAX_LINEAR = 200_000_000  # terms times cells of all linear queries of a plan: visiting each takes half a second


@dataclass(frozen=True, slots=True)
class Request:
    """A query and the noise it is answered with."""

    query: Query
    noise: Noise

    def __post_init__(self) -> None:
        if isinstance(self.query, Choice) != (self.noise.kind is NoiseKind.GUMBEL):
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
        if not _can_stand_for_others(self.query):
            yield from (Request(self.query, self.noise) for _ in self.positions)
            return
        kind, names = Contrast if isinstance(self.query, Contrast) else Cells, schema.names
        for row in self.positions.tolist():
            yield Request(kind(tuple([names[i] for i in row])), self.noise)


def _can_stand_for_others(query: Query) -> bool:
    """Whether the same query over other attributes of the same sizes is like it: cells without groups and contrasts."""
    return isinstance(query, Contrast) or (isinstance(query, Cells) and not query.groups)


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
    found: dict[object, list[Query]] = {}
    noises: dict[object, Noise] = {}
    for request in requests:
        query = request.query
        alike = (type(query), schema.sizes(query.attributes)) if _can_stand_for_others(query) else query
        key = alike, request.noise
        found.setdefault(key, []).append(query)
        noises[key] = request.noise
    _check_linear((query for queries in found.values() for query in queries), schema)
    for queries in found.values():
        queries[0].shape(schema)
    known = schema.positions
    return tuple(
        RequestGroup(
            queries[0],
            noises[key],
            np.array([[known[name] for name in query.attributes] for query in queries], np.intp),
        )
        for key, queries in found.items()
    )


def _check_linear(queries: Iterable[Query], schema: Schema) -> None:
    """Raise unless the linear queries can be looked at term by term and cell by cell: a short file may ask for many."""
    sizes = ((len(q.terms), math.prod(schema.sizes(q.attributes))) for q in queries if isinstance(q, Linear))
    work = sum(terms * cells for terms, cells in sizes)
    if work > _MAX_LINEAR:
        raise TooManyCellsError(
            f"linear queries must have at most {_MAX_LINEAR:,} cells together, counted for each term, got {work:,}"
        )
