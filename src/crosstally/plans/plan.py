"""A plan: what will be measured, with how much noise. It never sees data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from crosstally.budget import Budget, Neighbours, Noise, Objective
from crosstally.errors import OTHER_VERSION, CrosstallyError, PlanError, TooManyCellsError
from crosstally.html_text import html_facts
from crosstally.json_text import JsonError, read_json_file
from crosstally.plans.joint_cost import groups_cost
from crosstally.plans.request import (
    Request,
    RequestGroup,
    Rule,
    first_share,
    grouped,
    requests_in_parts,
    rest_of,
    sum_of_stages,
)
from crosstally.platform_files import write_text, writing
from crosstally.query.operators import Matrices, Matrix, read_group_maps, read_matrices
from crosstally.query.queries import MAX_CELLS, Query, check_contrast_cells, too_many_cells
from crosstally.query.query_json import query_from_dict
from crosstally.query.summed import ROWS
from crosstally.query.unit_table import CountedTable
from crosstally.query.ways import Groups, matrices_of, mixed_of
from crosstally.schema import Schema
from crosstally.workload import Workload

FORMAT = 1
_FIELDS = {
    "crosstally-plan",
    "strategy",
    "budget",
    "neighbours",
    "schema",
    "workload",
    "requests",
    "later",
    "groups",
    "objective",
    "matrices",
}
_FREE_CELLS = 2**18  # of contrasts: all sets of 11 binary attributes, or one set of 18
_MOST_ROWS = 2**63  # the limit of 64-bit numbers in a release file
_MOST_REPEATED = 1_000  # requests of a plan file that repeat another one: its release could not be opened with more


class Forecast(Protocol):
    """The error to expect of a plan: plain numbers."""

    @property
    def errors(self) -> Mapping[tuple[str, ...], float]:
        """The error of each table of the workload."""

    @property
    def covers(self) -> bool:
        """Whether all of them follow from what is measured."""

    @property
    def rms_error(self) -> float:
        """The error over all cells of the workload."""

    @property
    def order_errors(self) -> Mapping[int, float]:
        """The error by the number of attributes of a table."""

    @property
    def score(self) -> float:
        """The score by the objective of the plan."""


@dataclass(frozen=True)
class Plan:
    """What will be measured, for which workload, at what cost. A plan file can be approved and then run exactly.

    ``requests`` are those of the stage at hand. ``later`` has a rule for each stage after it. ``budget`` is that of all
    these stages together: what the rules leave of it is this stage's own. ``matrices`` are those of attributes that are
    measured in one way, ``mixed`` the attributes that are measured in more than one.
    """

    schema: Schema
    requests: Sequence[Request]
    _: KW_ONLY
    strategy: str
    workload: Workload
    budget: Budget
    neighbours: Neighbours
    later: tuple[Rule, ...] = ()
    objective: Objective = Objective.CELLS
    matrices: Matrices = field(init=False, repr=False, compare=False)
    mixed: frozenset[str] = field(init=False, repr=False, compare=False)
    forecaster: ClassVar[Callable[[Plan], Forecast] | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.schema.public())  # how rows are read concerns the steward only
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "objective", Objective(self.objective))
        object.__setattr__(self, "workload", self.workload.for_schema(self.schema))
        if self.schema.divided:
            object.__setattr__(self, "requests", requests_in_parts(self.requests, self.schema))
        for group in self.groups:
            for table in group.query.tables:
                if math.prod(shape := table.shape(self.schema)) > MAX_CELLS:
                    advice = "put values into groups, or measure fewer attributes together"
                    raise TooManyCellsError(too_many_cells(table.attributes, shape, advice))
        Groups.of(self.schema, (group.query for group in self.groups))
        object.__setattr__(self, "matrices", matrices_of(self._ways))
        object.__setattr__(self, "mixed", frozenset(mixed_of(self._ways)))  # refuses two of them in one table
        self._check_contrasts(4 * _FREE_CELLS)
        subsets = sum(len(group) * 2 ** len(group.query.attributes) for group in self.measuring)
        if subsets > MAX_CELLS:
            raise TooManyCellsError(f"a plan must be over at most {MAX_CELLS:,} sets of attributes, got {subsets:,}")
        object.__setattr__(self, "later", tuple(self.later))
        if self.later and not self.requests:
            raise PlanError("a plan with later stages must measure something first, for their rules to go by")
        if self.share <= 0:
            raise PlanError("the shares of later stages must leave a part of the budget to the first one")
        if self.cost > self.own_budget.amount:
            raise PlanError(f"the plan costs more than its budget of {self.own_budget}")

    def __repr__(self) -> str:
        later = f", {len(self.later)} later stages" if self.later else ""
        measured = f"{len(self.requests):,} requests, {self.cells:,} numbers{later}"
        return f"Plan({self.strategy}, {self.budget}, {self.neighbours.value}: {measured})"

    def _repr_html_(self) -> str:
        facts = {
            "budget": f"{self.budget}, {self.neighbours.value}",
            "measures": f"{len(self.requests):,} requests, {self.cells:,} numbers",
            "later stages": str(len(self.later)),
            **{f"error over {order} attributes": f"{error:,.1f}" for order, error in self.order_errors.items()},
        }
        return html_facts(f"Plan by {self.strategy}", facts)

    @cached_property
    def share(self) -> Fraction:
        """This stage's share of the budget: what later stages leave."""
        return first_share(self.later)

    @cached_property
    def own_budget(self) -> Budget:
        """What this stage may spend."""
        return self.budget.part(self.share)

    @property
    def stage_budgets(self) -> tuple[Budget, ...]:
        """What each stage may spend, this one first; together never more than the budget."""
        return (self.own_budget, *(self.budget.part(rule.share) for rule in self.later))

    @property
    def budget_left(self) -> Budget:
        """What this stage leaves to all later ones."""
        return self.budget.part(1 - self.share)

    @property
    def units_share(self) -> Fraction:
        """The share of the budget that measures units by number of rows."""
        return self._share_of([group for group in self.groups if group.query.of_units])

    @property
    def totals_share(self) -> Fraction:
        """The share that measures totals, and the rows that have a value."""
        return self._share_of([group for group in self.groups if group.query.summed != ROWS])

    def _share_of(self, groups: Sequence[RequestGroup]) -> Fraction:
        return groups_cost(groups, self.schema, self.neighbours, currency=self.budget.currency) / self.budget.amount

    def is_followed_by(self, stage: Plan) -> bool:
        """Whether a plan may be the next stage of this one: same schema and neighbours, remaining budget and rules.

        It may also be the last: then it spends what the stages after it were meant for.
        """
        return (
            bool(self.later)
            and (stage.schema.identity(), stage.neighbours) == (self.schema.identity(), self.neighbours)
            and stage.budget == self.budget_left
            and stage.later in {rest_of(self.later), ()}
        )

    @cached_property
    def cost(self) -> Fraction:
        """The privacy that this stage costs, exactly, of what its budget adds up."""
        return groups_cost(self.groups, self.schema, self.neighbours, currency=self.budget.currency)

    @cached_property
    def groups(self) -> tuple[RequestGroup, ...]:
        """The requests in groups of similar ones."""
        return grouped(self.requests, self.schema)

    @property
    def measuring(self) -> tuple[RequestGroup, ...]:
        """The groups that measure something: a choice only says which table is worth measuring."""
        return tuple(group for group in self.groups if group.query.is_linear)

    @property
    def _ways(self) -> list[Query]:
        """Queries from which follows how each attribute is measured: all, if there are matrices."""
        if any(group.query.matrices for group in self.groups):
            return [request.query for request in self.requests]
        return [group.query for group in self.groups]

    @cached_property
    def cells(self) -> int:
        """How many numbers are measured."""
        return sum(len(group) * math.prod(group.query.shape(self.schema)) for group in self.groups)

    def check_countable(self) -> None:
        """Raise unless its tables can be counted, and a file of what it measures read: a plan may be larger."""
        counted = [(table, len(group)) for group in self.groups for table in group.query.tables]
        cells = [math.prod(table.shape(self.schema)) for table, _ in counted]
        needed = sum(times * each for (_, times), each in zip(counted, cells, strict=True))
        if needed > MAX_CELLS:
            largest = counted[cells.index(max(cells))][0].attributes
            raise TooManyCellsError(
                f"at most {MAX_CELLS:,} cells can be measured at once, got {needed:,}, the largest table is "
                f"{' x '.join(largest)}: name fewer tables, or another strategy"
            )
        self._check_contrasts(_FREE_CELLS)

    def _check_contrasts(self, free: int) -> None:
        """Raise where contrasts are over far more cells than they have numbers."""
        own = [group for group in self.groups if group.query.is_residual]
        cells = sum(len(each) * math.prod(each.query.tables[0].shape(self.schema)) for each in own)
        check_contrast_cells(cells, sum(len(e) * math.prod(e.query.shape(self.schema)) for e in own), free=free)

    @cached_property
    def tables(self) -> tuple[CountedTable, ...]:
        """The tables that must be counted to answer the requests."""
        return tuple(dict.fromkeys(table for request in self.requests for table in request.query.tables))

    # What error to expect

    @cached_property
    def forecast(self) -> Forecast:
        """The expected error, filled in by planning (``strategies.forecast``); no charge depends on it."""
        if Plan.forecaster is None:
            raise PlanError("the error to expect of a plan is known where crosstally.strategies is imported")
        return Plan.forecaster(self)

    @property
    def errors(self) -> Mapping[tuple[str, ...], float]:
        """For each table of the workload the RMS error of what is asked of it; NaN when the plan does not cover it."""
        return self.forecast.errors

    @property
    def covers(self) -> bool:
        """Whether every table of the workload follows from the measurements."""
        return self.forecast.covers

    @property
    def rms_error(self) -> float:
        """The root of the mean variance over all that the workload asks, its cells or ranges, whatever its weights."""
        return self.forecast.rms_error

    @property
    def order_errors(self) -> Mapping[int, float]:
        """For each number of attributes the RMS error of the workload's tables, and of those inside them.

        Within an order all tables count alike, whatever their cells; NaN where one is not covered.
        """
        return self.forecast.order_errors

    @property
    def score(self) -> float:
        """What planning minimised: the geometric mean of the orders' errors, or the weighted root mean over cells."""
        return self.forecast.score

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        groups = dict(each for request in self.requests for each in request.query.groups)
        return {
            "crosstally-plan": FORMAT,
            "strategy": self.strategy,
            "budget": self.budget.to_dict(),
            "neighbours": self.neighbours.value,
            "schema": self.schema.to_dict(),
            "workload": self.workload.to_dict(),
            "requests": [{"query": self._query_dict(r.query), "noise": r.noise.to_dict()} for r in self.requests],
            "later": [rule.to_dict() for rule in self.later],
            "groups": {name: list(maps) for name, maps in sorted(groups.items())},
            "objective": self.objective.value,
            "matrices": {name: [list(row) for row in each] for name, each in self.matrices},
        }

    @classmethod
    def from_dict(cls, given: object) -> Plan:
        """A plan from its JSON; its cost is computed again and must not exceed its budget."""
        number = given.get("crosstally-plan") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or type(number) is not int or number != FORMAT:
            raise PlanError(f"not a crosstally plan of format {FORMAT}; if it is a plan, {OTHER_VERSION}")
        if set(given) != _FIELDS:
            raise PlanError(f"a plan must have exactly the fields {', '.join(sorted(_FIELDS))}")
        if given["neighbours"] not in list(Neighbours) or not isinstance(given["strategy"], str):
            raise PlanError("a plan must name its strategy and its neighbours (add-remove or replace)")
        if given["objective"] not in list(Objective):
            raise PlanError("the objective of a plan must be balanced, tables, l1 or cells")
        if not isinstance(given["requests"], list) or not isinstance(given["later"], list):
            raise PlanError("requests and later stages must be lists")
        groups, matrices = dict(read_group_maps(given["groups"])), read_matrices(given["matrices"])
        plan = cls(
            Schema.from_dict(given["schema"]),
            tuple(_read_request(each, groups, dict(matrices)) for each in given["requests"]),
            strategy=given["strategy"],
            workload=Workload.from_dict(given["workload"]),
            budget=Budget.from_dict(given["budget"]),
            neighbours=Neighbours(given["neighbours"]),
            later=tuple(map(Rule.from_dict, given["later"])),
            objective=Objective(given["objective"]),
        )
        if plan.matrices != matrices:
            raise PlanError("the matrices of a plan must be those of its requests")
        return plan

    def _query_dict(self, query: Query) -> dict[str, Any]:
        """The query as JSON; groups and matrices are named, since the plan holds them once for all.

        A matrix of an attribute that is measured in more than one way stands in the query itself.
        """
        if query.matrices:
            if self.mixed.intersection(name for name, _ in query.matrices):
                return query.to_dict()
            return {"kronecker": list(query.attributes), "matrices": [name for name, _ in query.matrices]}
        named = {"groups": [name for name, _ in query.groups]} if query.groups else {}
        return {**query.to_dict(), **named}

    def save(self, path: str | Path) -> None:
        """Write the plan as a JSON file; if its schema is a draft, as one that only its owner can read."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        with writing(path):
            write_text(Path(path), text, private=self.schema.draft)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """A plan from a JSON file."""
        try:
            content = read_json_file(path)
            _check_repeated(content)
            return cls.from_dict(content)
        except (OSError, JsonError) as error:
            reason = getattr(error, "strerror", None) or f"it {error}"
            raise PlanError(f"cannot read the plan {str(path)!r}: {reason}") from None
        except CrosstallyError as error:
            raise PlanError(f"{str(path)!r}: {error}") from None


def spent_by(stages: Sequence[Plan]) -> Budget:
    """The budget of a release whose stages, from the first one, were these: as it was given, if none is missing."""
    complete = len(stages) == 1 + len(stages[0].later)
    return stages[0].budget if complete else sum_of_stages([stage.own_budget for stage in stages])


def _check_repeated(given: object) -> None:
    """Raise when a plan file repeats the same request too often, before any of it is processed."""
    requests = given.get("requests") if isinstance(given, dict) else None
    if isinstance(requests, list) and len(requests) > _MOST_REPEATED:
        repeated = len(requests) - len(set(map(repr, requests)))
        if repeated > _MOST_REPEATED:
            raise PlanError(f"at most {_MOST_REPEATED:,} requests of a plan may repeat another one, got {repeated:,}")


def _read_request(given: object, groups: Mapping[str, tuple[int, ...]], matrices: Mapping[str, Matrix]) -> Request:
    if not isinstance(given, dict) or given.keys() != {"query", "noise"}:
        raise PlanError("each request must be an object with query and noise")
    return Request(query_from_dict(given["query"], groups, matrices), Noise.from_dict(given["noise"]))


def check_plan(given: object) -> None:
    """Raise unless this is a plan: neither the path of its file nor a comparison is one."""
    if not isinstance(given, Plan):
        what = type(given).__name__
        raise PlanError(f"plan must be a Plan, got {what}: read a file with Plan.load, or take .chosen of ct.plan(...)")


def check_rows(rows: object) -> None:
    """Raise unless it is a number of rows that a release may state, or None: before anything is planned or spent."""
    if rows is None:
        return
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise PlanError(f"rows must be a whole number of at least 0, got {rows!r}")
    if rows >= _MOST_ROWS:
        raise PlanError(f"rows must be below 2^63, got {rows}")
