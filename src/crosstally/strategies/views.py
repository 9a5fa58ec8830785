"""Views: middle-sized tables that cover all pairs, triples or quadruples of attributes (PriView, SIGMOD 2014)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from crosstally.budget import Noise
from crosstally.designs import covering_design, covering_views, design_if_known
from crosstally.errors import PlanError
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule
from crosstally.query.queries import MAX_CELLS, Cells, sensitivity_of_tables
from crosstally.strategies.strategy import Strategy, Task, known_total, rows_share_of
from crosstally.workload import Workload

LOW_ERROR, HIGH_ERROR = 0.001, 0.003
"""Noise errors between which PriView's rule wants to be: below it one may cover more, above it noise dominates."""

RULE_VERSION = 1
"""The version of the rule by which ``next`` plans. Approved plans depend on it: a different choice of cover or of view
size is a new version, and this one stays."""

_MOST_COVERED = 3
"""Named tables of up to this many attributes are covered. Those over four of 32 attributes need 620 views, which
the rule takes only for many rows; over six no design is small enough."""
COVERS = (2, 3, 4)  # covers that the rule chooses from, as in PriView (section 4.5): pairs, triples, quadruples
BINARY_SIZE = 8  # attributes of a binary view: PriView's choice (section 4.5), for any number of attributes
# PriView's guideline for attributes of b values (section 4.7), the last for all b above 4: the least and the most cells
# of a view.
_CELL_LIMITS = {2: (100, 1000), 3: (150, 2000), 4: (200, 3200), 5: (250, 5000)}


@dataclass(frozen=True, slots=True)
class Views(Strategy):
    """Measure a covering design of views with equal budgets; any table of any size is then answered from them.

    Args:
        size: How many attributes a view has, when all attributes have two values; 8 by default.
        cover: Any this many attributes are together in some view. By default the least that covers named tables over up
            to three attributes; without any, or for wider ones, what PriView's rule allows for the number of rows.
        max_cells: How many cells a view has at most, when attributes have different numbers of values; by default the
            ends or the middle of the paper's guideline (section 4.7), whichever is best for pairs; for triples and
            more its upper end.
        rows_share: The share of the budget that buys the number of rows, where the rule needs it and it is not public.
        rows: About how many rows there are, if that is public: the rule then goes by it and buys nothing.
    """

    size: int | None = None
    cover: int | None = None
    max_cells: int | None = None
    rows_share: Fraction = Fraction(1, 100)
    rows: int | None = None
    name: ClassVar[str] = "views"
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field, least in (("size", 2), ("cover", 1), ("max_cells", 4), ("rows", 0)):
            number = getattr(self, field)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
                raise PlanError(f"{field} must be a whole number of at least {least}, got {number!r}")
        object.__setattr__(self, "rows_share", rows_share_of(self.rows_share))

    def planned(self, task: Task) -> Plan:
        """A request for each view; or one for the number of rows, where the choice of views rests on it, and a rule."""
        views = self._views(task, self.rows)
        if views is not None:
            return task.measuring(self.name, map(task.names, views))
        parameters = {"size": self.size, "cover": self.cover, "max_cells": self.max_cells}
        rule = Rule(self.name, RULE_VERSION, parameters=parameters, share=1 - self.rows_share)
        staged = task.planned(self.name, task.part(self.rows_share).requests([Cells(())]), later=(rule,))
        self._following(staged, rows=0)  # raises if there are no views: before the number of rows is paid for
        return staged

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        """A request for each view, chosen by the number of rows among what was seen."""
        rows = known_total(seen)
        if rows is None:
            raise PlanError("the views of a later stage are chosen by the number of rows, which was not measured")
        return self._following(plan, rows)

    def with_rows(self, rows: int) -> Views:
        """The same strategy with an approximate number of rows."""
        return replace(self, rows=rows) if self.rows is None else self

    def _following(self, plan: Plan, rows: float) -> Plan:
        """The views after a first stage. There is one only where no tables were named."""
        task = Task.after(plan)
        views = self._views(replace(task, asked=None), rows)
        assert views is not None  # the number of rows is known
        return task.measuring(self.name, map(task.names, views))

    def _views(self, task: Task, rows: float | None) -> tuple[tuple[int, ...], ...] | None:
        """The views, as attribute positions; None when the number of rows must be known first.

        Attribute i of the schema is point i of the design: the assignment depends on the schema's order alone.
        """
        schema = task.schema
        d = len(schema.names)
        if self.size is None and self.max_cells is None and d <= BINARY_SIZE and schema.cells <= 2**BINARY_SIZE:
            return (tuple(range(d)),)
        binary = set(schema.shape) == {2} and self.max_cells is None
        if not binary:
            return self._mixed_views(task)
        size = min(self.size or BINARY_SIZE, d)
        cover = self.cover or _covered(task.asked)
        if cover is not None:
            return covering_design(d, size, min(cover, d))

        def error(cover: int) -> float:
            number = _number_of_views(d, size, cover)
            return math.inf if number is None else _error(task, size, number)

        if schema.cells <= MAX_CELLS // 10:
            flat = _error(task, d, 1)
            if flat <= error(2) or (rows is not None and flat <= LOW_ERROR * rows):
                return (tuple(range(d)),)
        if rows is None:
            return None
        covers = [t for t in COVERS if t <= size and _may_be_small(d, size, t)] or [COVERS[0]]
        return covering_design(d, size, choose_cover(covers, lambda cover: error(cover) / max(rows, 1)))

    def _mixed_views(self, task: Task) -> tuple[tuple[int, ...], ...]:
        schema = task.schema
        cover = min(self.cover or _covered(task.asked) or COVERS[0], len(schema.names))
        if self.max_cells:
            return covering_views(schema.shape, self.max_cells, cover)
        limits = cell_limits(schema.shape, cover)
        candidates = [
            views for limit in limits if (views := design_if_known(covering_views, schema.shape, limit, cover))
        ]
        if not candidates:
            return covering_views(schema.shape, limits[-1], cover)
        if schema.cells <= MAX_CELLS // 10:
            candidates.append((tuple(range(len(schema.names))),))
        if len(candidates) == 1:
            return candidates[0]
        return min(candidates, key=lambda views: _pair_error(task, views))


def noise_error(*, attributes: int, size: int, views: int, rows: float, epsilon: float) -> float:
    """The normalised noise error of a pair of binary attributes, PriView's equation (5).

    >>> round(noise_error(attributes=32, size=8, views=20, rows=900_000, epsilon=1), 6)
    0.000473
    """
    variance = 2 * (views / epsilon) ** 2
    return _pair_noise(attributes, size, views, variance) / rows


def size_score(size: int, cover: int) -> float:
    """What to minimise in the choice of a view's size: 2^(l/2) over l (l - 1), times (l - 2) for triples, and so on.

    >>> [round(size_score(size, 2), 3) for size in (6, 7, 8, 9)]
    [0.267, 0.269, 0.286, 0.314]
    """
    return 2 ** (size / 2) / math.perm(size, cover)


def choose_cover(covers: Sequence[int], error: Callable[[int], float]) -> int:
    """How many attributes to cover together, given the noise error of each choice, which grows with it (section 4.5).

    The smallest whose error lies between 0.001 and 0.003; if none does, the largest with an error below 0.001; if
    there is none either, the smallest.

    >>> choose_cover([2, 3, 4], {2: 0.000473, 3: 0.001089, 4: 0.002635}.__getitem__)
    3
    """
    chosen = covers[0]
    for cover in covers:
        noise = error(cover)
        if noise <= HIGH_ERROR:
            chosen = cover
        if noise >= LOW_ERROR:
            break
    return chosen


def cell_limits(sizes: Sequence[int], cover: int) -> list[int]:
    """Limits to try for the cells of a view: ends and middle of the paper's guideline, by the mean number of values.

    The best size grows with the cover (the scores of section 4.5): above pairs only the upper end is tried.
    """
    low, high = _CELL_LIMITS[min(5, max(2, round(sum(sizes) / len(sizes))))]
    return [low, round(math.sqrt(low * high)), high] if cover <= 2 else [high]


def _pair_noise(attributes: int, size: int, views: int, variance: float) -> float:
    covering = views * size * (size - 1) / (attributes * (attributes - 1)) if attributes > 1 else 1
    return math.sqrt(2**size * variance / covering)


def _error(task: Task, size: int, views: int) -> float:
    """Equation (5) times the number of rows, with the noise that this budget, unit and relation really need."""
    sensitivity, pure = sensitivity_of_tables(1, task.schema, task.neighbours), task.budget.pure
    noise = Noise.affordable(sensitivity, task.budget.amount / views, currency=task.budget.currency)
    return _pair_noise(len(task.schema.names), size, views, 2 * noise.scale**2 if pure else noise.scale**2)


def _pair_error(task: Task, views: tuple[tuple[int, ...], ...]) -> float:
    """The exact predicted error over all tables of one and two attributes."""
    return replace(task, asked=None).measuring("views", map(task.names, views)).rms_error


def _covered(workload: Workload | None) -> int | None:
    """How many attributes of named tables are covered together: all, up to three.

    Wider tables are answered from the views that serve all tables: covering their whole width would make them Direct,
    which is what PriView's section 4.1 avoids.
    """
    widest = max(map(len, workload.tables), default=1) if workload else math.inf
    return max(1, int(widest)) if widest <= _MOST_COVERED else None


def _may_be_small(attributes: int, size: int, cover: int) -> bool:
    """Whether a design may stay below the limit of 20,000 views, by counting."""
    return math.comb(attributes, cover) / math.comb(size, cover) < 20_000


def _number_of_views(attributes: int, size: int, cover: int) -> int | None:
    """How many views a design has; None where none is known that can be measured."""
    number = len(design_if_known(covering_design, attributes, size, cover))
    return number if 0 < number * 2**size <= MAX_CELLS else None
