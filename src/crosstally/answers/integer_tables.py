"""Integer tables: non-negative whole numbers that agree with each other, as marginals of one table of rows.

Barak et al. 2007, section 3: no set of rows has exactly the noisy tables. The nearest table of rows is sparse, so it is
kept as a list of cells with counts, whatever the size of the domain, and can be written as rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.answers.changes import Change
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.operations import COUNT
from crosstally.answers.uncertainty import Bounds
from crosstally.checks import is_whole
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.generate.people import labelled_rows
from crosstally.inference.integers.cell_columns import CellColumns, Target
from crosstally.inference.integers.programs import nearest_table, round_with_total
from crosstally.inference.integers.projection import projected_table, whole_numbers
from crosstally.query.queries import MAX_CELLS, Cells, too_many_cells
from crosstally.query.question import Where
from crosstally.schema import Schema
from crosstally.typing import Floats

Rounding = Literal["linear-program", "projection"]

# Cells up to which linear programs are the default: they prove their optimum. Chosen for time; above it one projects.
SMALL_DOMAIN = 2**13
# Limits memory: rows are written out one by one, 0.8 GB of codes for each attribute. Cells have no such limit.
_MAX_ROWS = 100_000_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntegerTables:
    """One sparse table of whole numbers over all attributes; every table is a sum of its cells.

    Attributes:
        schema: What it is about.
        cells: A row for each non-zero cell: the position of its value for each attribute.
        counts: How many rows are in each.
        distances: For each table it was fitted to, the sum of the differences to the real-valued answer.
        limit: No distance is larger. The optimum of the linear program, plus one for each non-zero cell that rounding
            may have moved; for a projection simply the largest distance found.
        method: How it was fitted.
        gap: How much nearer another table might be, in the distance that was minimised; NaN where it is not known.
    """

    schema: Schema
    cells: NDArray[np.intp]
    counts: NDArray[np.int64]
    _: KW_ONLY
    distances: Mapping[tuple[str, ...], float]
    limit: float
    method: str
    gap: float

    def __post_init__(self) -> None:
        for array in (self.cells, self.counts):
            array.setflags(write=False)

    def __repr__(self) -> str:
        largest = max(self.distances.values(), default=0.0)
        return f"IntegerTables({self.total:,} rows in {len(self.counts):,} cells; largest distance {largest:,.4g})"

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())

    def table(self, *names: str) -> NDArray[np.int64]:
        """The counts over some attributes, one axis for each in the order named."""
        shape = self.schema.sizes(names)
        if math.prod(shape) > MAX_CELLS:
            raise TooManyCellsError(too_many_cells(names, shape, "name tables of fewer attributes"))
        if not names:
            return np.array(self.total)
        out = np.zeros(shape, np.int64)
        np.add.at(out, tuple(self.cells[:, self.schema.positions[name]] for name in names), self.counts)
        return out

    def marginal(self, *names: str) -> Marginal:
        """The same with labels. Its error is not known: it is that of the real-valued answer and of the fit."""
        return Marginal(
            self.schema.subset(*names),
            self.table(*names).astype(np.float64),
            method=f"integers ({self.method})",
            error_kind=ErrorKind.NONE,
            uncertainty=None,
            corrected=True,
        )

    def beside(self, answer: Marginal, regrouping: Callable[[Marginal], Marginal] = lambda table: table) -> Marginal:
        """The whole numbers of the cells of a real-valued answer, under the same condition, with its intervals.

        An interval is about the true count, whichever number is printed with it. So those of the answer stay, widened
        to the whole number where that lies outside.

        Args:
            answer: A table of counts of the same schema, as a release gives it.
            regrouping: Puts values of a table together: those of the answer, and the whole numbers.
        """
        cells = replace(answer.without_error(), values=self._cells_of(answer).astype(np.float64))
        answer = regrouping(answer)
        own = answer.uncertainty
        kind = ErrorKind.CORRECTED if answer.error_kind is ErrorKind.EXACT else answer.error_kind
        return replace(
            answer,
            values=regrouping(cells).values,
            method=f"integers ({self.method})",
            error_kind=kind,
            uncertainty=None if own is None else Bounds(ends=partial(_widened, answer), error=own),
            corrected=True,
            relaxed=0.0,
        )

    def total_variation(self, answer: Marginal) -> float:
        """Half of the sum of the differences to a real-valued answer, as a share of all rows; 0 where there are none.

        Where both have one total, this is the share of rows that would have to move.
        """
        apart = float(np.abs(self._cells_of(answer) - answer.values).sum()) / 2
        return apart / self.total if self.total else 0.0

    def _cells_of(self, answer: Marginal) -> NDArray[np.int64]:
        """The counts of the rows that satisfy the answer's condition, for the labels that it has."""
        names = answer.attributes
        if answer.quantity != COUNT or any(name not in self.schema.names for name in names):
            raise QueryError(
                "whole numbers stand beside a table of counts of the same attributes, as a release gives it"
            )
        kept = [_places(self.schema[name].labels, answer.schema[name].labels) for name in names]
        if not answer.where:
            return self.table(*names)[np.ix_(*kept)] if names else self.table()
        where = Where.of(answer.where, self.schema)
        more = tuple(name for name in where.attributes if name not in names)
        joint = self.table(*names, *more) * where.chosen((*names, *more))
        summed = joint.sum(axis=tuple(range(len(names), joint.ndim)))
        return np.asarray(summed[np.ix_(*kept)] if names else summed)

    def to_arrow(self) -> pa.Table:
        """A row for each non-zero cell: a dictionary column for each attribute, and the count."""
        count = "count"
        while count in self.schema.names:
            count += "_"
        return labelled_rows(self.schema, self.cells).append_column(count, pa.array(self.counts))

    def to_rows(self) -> pa.Table:
        """The table as rows: each cell as many times as it counts."""
        if self.total > _MAX_ROWS:
            raise TooManyCellsError(f"at most {_MAX_ROWS:,} rows can be written out, got {self.total:,}; use to_arrow")
        return labelled_rows(self.schema, np.repeat(self.cells, self.counts, axis=0))


def integer_tables(
    schema: Schema,
    answers: Mapping[tuple[str, ...], Floats],
    *,
    total: int,
    method: Rounding | None = None,
    time_limit: float = 60.0,
) -> IntegerTables:
    """The table of whole numbers with this total whose marginals are near to real-valued answers.

    Args:
        schema: All attributes of the table.
        answers: The real-valued tables it should have.
        total: How many rows it has.
        method: "linear-program" minimises the total difference over all tables and rounds the solution; "projection"
            minimises the sum of squares with cells found by local search, and moves single rows while that helps. By
            default the former up to 8,192 cells in the full table.
        time_limit: Seconds; when they are over, the best table so far is taken.
    """
    if not is_whole(total, 0, numpy=True):
        raise QueryError(f"total must be a whole number of at least 0, got {total!r}")
    chosen = ("linear-program" if schema.cells <= SMALL_DOMAIN else "projection") if method is None else method
    if chosen not in ("linear-program", "projection"):
        raise QueryError(f"method must be linear-program or projection, got {method!r}")
    targets = [Target(Cells(names), values) for names, values in answers.items()]
    if not targets:
        raise QueryError("name at least one table")
    columns = CellColumns(schema, targets)
    if chosen == "linear-program":
        fitted = nearest_table(schema, targets, objective="total", total=total, time_limit=time_limit)
        counts = round_with_total(fitted.weights, int(total))
        limit = fitted.distance + min(len(counts), _independent_numbers(schema, list(answers)))
        cells = fitted.cells
    else:
        fitted = projected_table(schema, targets, time_limit=time_limit)
        cells, counts = whole_numbers(columns, fitted, int(total))
        limit = math.nan
    distances = _distances(columns, list(answers), cells, counts)
    return IntegerTables(
        schema,
        cells[counts > 0],
        counts[counts > 0],
        distances=distances,
        limit=max(distances.values()) if math.isnan(limit) else limit,
        method=chosen,
        gap=fitted.gap if chosen == "linear-program" else math.nan,
    )


def _widened(answer: Marginal, _: Change | None, values: Floats, level: float) -> tuple[Floats, Floats]:
    """The intervals of a real-valued answer, widened to the whole numbers."""
    low, high = answer.interval(level)
    return np.minimum(low, values), np.maximum(high, values)


def _places(labels: Sequence[str], kept: Sequence[str]) -> list[int]:
    place = {label: i for i, label in enumerate(labels)}
    if not all(label in place for label in kept):
        raise QueryError("whole numbers stand beside a table with the labels of the schema, got merged ones")
    return [place[label] for label in kept]


def _independent_numbers(schema: Schema, tables: list[tuple[str, ...]]) -> int:
    """|B|: how many coefficients the tables have together. A vertex has no more non-zero cells."""
    sets = {frozenset(part) for table in tables for k in range(len(table) + 1) for part in combinations(table, k)}
    return sum(math.prod(n - 1 for n in schema.sizes(tuple(each))) for each in sets)


def _distances(
    columns: CellColumns, tables: list[tuple[str, ...]], cells: NDArray[np.intp], counts: NDArray[np.int64]
) -> dict[tuple[str, ...], float]:
    differences = np.abs(columns.of(cells) @ counts - columns.values)
    parts = np.split(differences, np.cumsum([target.values.size for target in columns.targets])[:-1])
    return {table: float(part.sum()) for table, part in zip(tables, parts, strict=True)}
