"""The release that somebody has in mind: what it may cost, whom it protects and which tables matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from crosstally.budget import Budget, Neighbours, Objective
from crosstally.errors import PlanError
from crosstally.plans.plan import Plan
from crosstally.schema import Schema
from crosstally.strategies import Strategy
from crosstally.strategies.advice import with_merged
from crosstally.strategies.planner import AUTO_STRATEGIES, DEFAULT, Comparison, compare, for_workload
from crosstally.workload import Workload

__all__ = ["Proposal"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A release before there is a plan of it; pages, commands and advice ask what error to expect of it.

    The tables that matter are all over so many ``ways``, some ``tables`` by their names, or a ``named`` workload; all
    of one and two attributes if none is said. ``cells`` are the attributes whose values would be merged, into how many.
    """

    budget: Budget
    _: KW_ONLY
    rows: int | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    objective: Objective = Objective.TABLES
    ways: int | None = None
    tables: tuple[tuple[str, ...], ...] = ()
    named: Workload | None = None
    cells: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "objective", Objective(self.objective))

    def schema(self, schema: Schema) -> Schema:
        """The schema with neighbouring values merged where that is proposed; which ones costs the same."""
        return with_merged(schema, self.cells) if self.cells else schema.public()

    def workload(self, schema: Schema) -> Workload | None:
        """The tables that matter; None for all of one and two attributes. Raises for attributes that there are not."""
        if self.ways is not None:
            return Workload.all_ways(schema, self.ways)
        return Workload(self.tables).for_schema(schema) if self.tables else self.named

    def compared(
        self, schema: Schema, strategies: Sequence[Strategy] = DEFAULT, *, currency: str | None = None
    ) -> Comparison:
        """What strategies would measure, and the error to expect. Free. See ``compare``."""
        return compare(
            schema,
            self.workload(schema),
            self.budget,
            neighbours=self.neighbours,
            strategies=strategies,
            rows=self.rows,
            objective=self.objective,
            currency=currency,
        )

    def rests_on_rows(self, schema: Schema, strategies: Sequence[Strategy] = AUTO_STRATEGIES) -> bool:
        """Whether some strategy would plan otherwise without the number of rows. Free."""
        if self.rows is None:
            return False
        workload = self.workload(schema)

        def planned(strategy: Strategy) -> Plan | None:
            try:
                return strategy.plan(schema, workload, self.budget, neighbours=self.neighbours)
            except PlanError:
                return None

        told = ((strategy, strategy.with_rows(self.rows)) for strategy in for_workload(strategies, workload))
        return any(strategy != informed and planned(strategy) != planned(informed) for strategy, informed in told)

    def options(self) -> list[str]:
        """The same as options of a command, except merged values, which belong in the schema."""
        out = [text for name, number in self.budget.to_dict().items() for text in (f"--{name}", number)]
        out += [] if self.rows is None else ["--rows", str(self.rows)]
        out += [] if self.neighbours == Neighbours.ADD_REMOVE else ["--neighbours", self.neighbours.value]
        out += [] if self.ways is None else ["--ways", str(self.ways)]
        return out + [text for table in self.tables for text in ("--tables", ",".join(table))]
