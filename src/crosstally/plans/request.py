"""Requests and stages of a plan.

A request is a query with its noise, or a group of similar queries with the same noise. A later stage has a rule, a part
of the budget, and a key in the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind, decimal_text, exact
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.query.linear import Linear
from crosstally.query.queries import Query
from crosstally.schema import Schema


@dataclass(frozen=True, slots=True)
class Rule:
    """How a later stage follows from what earlier ones measured: a strategy by its name, version and parameters.

    A version stands for one behaviour forever. ``share`` is the exact share of the plan's whole budget that the stage
    may spend.

    >>> Rule("views", 1, parameters={"size": 8}, share=Fraction(99, 100)).to_dict()
    {'rule': 'views', 'version': 1, 'parameters': {'size': 8}, 'share': '0.99'}
    """

    name: str
    version: int
    _: KW_ONLY
    parameters: Mapping[str, str | int | bool | None] = field(hash=False)
    share: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"a rule must have a name, got {self.name!r}")
        if isinstance(self.version, bool) or not isinstance(self.version, int) or self.version < 1:
            raise PlanError(f"the version of rule {self.name!r} must be a whole number of at least 1")
        given = self.parameters
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise PlanError(f"the parameters of rule {self.name!r} must be an object")
        if not all(value is None or isinstance(value, str | int) for value in given.values()):
            raise PlanError(f"the parameters of rule {self.name!r} must be whole numbers, texts, true, false or null")
        object.__setattr__(self, "parameters", dict(given))
        object.__setattr__(self, "share", exact(self.share, "share"))
        if self.share >= 1:
            raise PlanError(f"the share of rule {self.name!r} must be below 1, got {decimal_text(self.share)}")

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON."""
        return {
            "rule": self.name,
            "version": self.version,
            "parameters": dict(self.parameters),
            "share": decimal_text(self.share),
        }

    @classmethod
    def from_dict(cls, given: object) -> Rule:
        """A rule from its JSON. Whether the rule is known is checked when it is run."""
        if not isinstance(given, Mapping) or set(given) != {"rule", "version", "parameters", "share"}:
            raise PlanError("each later stage must be an object with rule, version, parameters and share")
        return cls(given["rule"], given["version"], parameters=given["parameters"], share=given["share"])


# Budgets


def first_share(rules: Sequence[Rule]) -> Fraction:
    """The share of the budget that these later stages leave to the first one."""
    return 1 - sum((rule.share for rule in rules), Fraction(0))


def rest_of(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules after the first one, as the plan of that one's stage holds them: in shares of what all of them get."""
    together = sum((rule.share for rule in rules), Fraction(0))
    return tuple(replace(rule, share=rule.share / together) for rule in rules[1:])


def sum_of_stages(budgets: Sequence[Budget]) -> Budget:
    """The budget of several stages together, of what the first adds up that is not pure epsilon."""
    if len(budgets) == 1:
        return budgets[0]
    currency = next((budget.currency for budget in budgets if not budget.pure), "epsilon")
    return Budget.from_dict({currency: sum((budget.price_in(currency) for budget in budgets), Fraction(0))})


# Keys in a ledger


def stage_key(key: str, stage: int) -> str:
    """The key of a stage of the release with this key.

    >>> stage_key("spring", 1), stage_key("spring", 2)
    ('spring', 'spring/2')
    """
    return key if stage == 1 else f"{key}/{stage}"


def stage_keys(key: str, known: Container[str]) -> tuple[str, ...]:
    """The keys of the stages of a release that are known, from the first to the last without a gap."""
    keys: list[str] = []
    while (name := stage_key(key, len(keys) + 1)) in known:
        keys.append(name)
    return tuple(keys)


def cost_of_stages(key: str, costs: Mapping[str, Fraction]) -> Fraction:
    """What all stages of the release with this key cost together, from the cost of each key in one currency.

    What a ledger counts, epsilon, rho or mu^2, adds up over stages, also where a stage depends on earlier ones.

    >>> cost_of_stages("spring", {"spring": Fraction(1, 4), "spring/2": Fraction(1, 2), "autumn": Fraction(3)})
    Fraction(3, 4)
    """
    return sum((costs[each] for each in stage_keys(key, costs)), Fraction(0))


_MAX_LINEAR = 200_000_000  # terms times cells of all linear queries of a plan: visiting each takes half a second


@dataclass(frozen=True, slots=True)
class Request:
    """A query and the noise it is answered with."""

    query: Query
    noise: Noise

    def __post_init__(self) -> None:
        if self.query.is_choice != (self.noise.kind is NoiseKind.GUMBEL):
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
    """Very many requests, held as groups: single requests are made on demand.

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
    """The requests in groups of similar ones; raises when a query does not fit the schema."""
    if isinstance(requests, GroupedRequests):
        return requests.groups
    kinds: dict[tuple[object, Noise], list[Query]] = {}
    for request in requests:
        query = request.query
        alike = (query.along, query.summed, schema.sizes(query.attributes)) if query.is_symmetric else query
        kinds.setdefault((alike, request.noise), []).append(query)
    _check_linear(kinds.values(), schema)
    for queries in kinds.values():
        queries[0].shape(schema)
    known = schema.positions
    return tuple(
        RequestGroup(queries[0], noise, np.array([[known[name] for name in q.attributes] for q in queries], np.intp))
        for (_, noise), queries in kinds.items()
    )


# Exact answers in parts of a unit must be below 2^62. How many units there are is confidential, so a plan is refused
# where this many (268 million) in one cell would be too many: contrasts along large attributes weigh some rows by
# thousands. A larger number refuses more contrasts; a smaller one lets more people make a count fail before its charge.
_MOST_UNITS = 2**28
_LIMIT = 2**62


def requests_in_parts(requests: Sequence[Request], schema: Schema) -> Sequence[Request]:
    """The requests with noise in the parts that the schema counts in; raises where answers might leave 64 bits."""
    groups = [replace(each, noise=each.noise.in_parts(schema.parts)) for each in grouped(requests, schema)]
    for each in groups:
        moved = each.query.sensitivity(schema, Neighbours.ADD_REMOVE).l1
        if moved * schema.parts * _MOST_UNITS >= _LIMIT:
            raise PlanError(
                f"{each.query.kind} over {' x '.join(each.query.attributes)} would leave 64 bits where a unit is "
                "divided over its rows: name another strategy, such as direct, or count rows up to a bound"
            )
    if isinstance(requests, GroupedRequests):
        return GroupedRequests(schema, groups)
    return tuple(replace(each, noise=each.noise.in_parts(schema.parts)) for each in requests)


def _check_linear(alike: Iterable[Sequence[Query]], schema: Schema) -> None:
    """Raise unless all terms and cells of the linear queries can be visited: a short file may ask for many."""
    linear = ((query, len(queries)) for queries in alike if isinstance(query := queries[0], Linear))
    work = sum(times * len(q.terms) * math.prod(schema.sizes(q.attributes)) for q, times in linear)
    if work > _MAX_LINEAR:
        raise TooManyCellsError(
            f"linear queries must have at most {_MAX_LINEAR:,} cells together, counted for each term, got {work:,}"
        )
