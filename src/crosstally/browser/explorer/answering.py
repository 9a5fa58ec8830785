"""What is asked of a release, and what that costs, known before it is answered: in cells that follow from measurements.

Such a cell with its interval takes about 4 CPU microseconds; the most that is answered takes about 20 seconds. Tables
and statements are answered in a process of their own, which opens the release for itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from crosstally.analysis.regrouping import AS_IT_IS, Regrouping
from crosstally.answers.changes import Change
from crosstally.answers.joint_draws import Joint
from crosstally.answers.marginal import USUAL_LEVEL, Marginal
from crosstally.answers.uncertainty import Bounds, LinearLaw
from crosstally.browser.explorer.solver import PLACES, Worker
from crosstally.errors import PlanError, ReleaseError
from crosstally.exports.csv_table import sql_file
from crosstally.query.question import Question, Where
from crosstally.releases import Release, open_release
from crosstally.sql import answer_sql
from crosstally.sql.group_by import Tables
from crosstally.typing import Floats

MOST = 5_000_000
"""The highest cost that is answered: the largest table that follows from measurements, once."""

LARGE = 250_000
"""What costs more, a second or so, waits in a place of its own and does not keep small tables waiting."""

_TABLE = 100  # a table of few cells: what is done once for each
_UNMEASURED = 25
"""A cell of a table that nobody measured, whose gaps are filled in every replicate: 22 to 130 CPU microseconds in
tables of made-up people and in those where only pairs were measured, over 3 to 8 attributes."""
_VALUE = 3
"""A label in a row of SQL: less time than a cell, but objects of Python, which take a hundred bytes each."""


class TooDearError(PlanError):
    """The question costs more than is answered."""

    def __init__(self, message: str = "", cost: int = 0) -> None:
        super().__init__(message)
        self.cost = cost

    @classmethod
    def of(cls, cost: int) -> TooDearError:
        """The error that says what it costs and what to do."""
        return cls(
            f"this question costs {cost:,}, at most {MOST:,} is answered (a cell costs 1, or {_UNMEASURED} in a table "
            "that is modelled): ask for fewer attributes, values or groupings",
            cost,
        )


def price(
    release: Release, tables: Sequence[Sequence[str]], where: Where | None = None, *, labels: bool = False
) -> int:
    """What some tables of a release under one condition cost together.

    With labels they are rows of SQL, each of which has a column for every key of any table.
    """
    added = () if where is None else where.attributes
    keys = len({name for names in tables for name in names}) if labels else 0
    total = 0
    for names in tables:
        joint = tuple(dict.fromkeys((*names, *added)))
        cells = math.prod(release.schema.sizes(joint))
        each = _UNMEASURED if cells <= MOST and _is_modelled(release, joint) else 1
        total += max(_TABLE, each * cells) + _VALUE * keys * math.prod(release.schema.sizes(tuple(names)))
    return total


def _is_modelled(release: Release, names: Sequence[str]) -> bool:
    """Whether intervals of a table fill its gaps in every replicate. Tables with bounds are filled once."""
    if release.nonnegative == "none" or release.covers(*names):
        return False
    return release.estimate.groups is not None or bool(release.estimate.covered([(name,) for name in names]).all())


def metered(release: Release, spent: int = 0) -> Tables:
    """Answers tables of a release for SQL so long as all of them together stay below the highest cost.

    They are refused before they are computed where they cost too much.
    """

    def tables(wanted: Sequence[tuple[str, ...]], where: Question | None) -> list[Marginal]:
        nonlocal spent
        read = None if where is None else Where.of(where, release.schema)
        spent += price(release, wanted, read, labels=True)
        if spent > MOST:
            raise TooDearError.of(spent)
        return release.marginals(wanted, where=where)

    return tables


# What is solved


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A release file, and the SHA-256 digest of the one that is served: a process that starts later opens no other."""

    path: Path
    digest: str


@lru_cache(maxsize=1)
def _opened(source: ReleaseFile) -> Release:
    try:
        found = hashlib.sha256(source.path.read_bytes()).hexdigest()
    except OSError:
        found = ""
    if found != source.digest:
        raise ReleaseError(f"{source.path.name} changed while it is served; start the server again")
    return open_release(source.path)


def opened(source: ReleaseFile | Release) -> Release:
    """The release: a file is opened once in each process."""
    return source if isinstance(source, Release) else _opened(source)


@dataclass(frozen=True, slots=True)
class ErrorsWanted:
    """What the errors of a table are to be about, the rows or the population, and whether its draws are wanted."""

    of: str = "table"
    design_effect: float | None = None
    fraction: float = 0.0
    draws: bool = False

    def __call__(self, table: Marginal) -> Marginal:
        """The table with such errors."""
        if self.of == "table":
            return table
        return table.of_population(design_effect=self.design_effect, fraction=self.fraction)


USUAL_ERRORS = ErrorsWanted()


@dataclass(frozen=True, slots=True, eq=False)
class _At:
    """Errors of a table at some levels, as numbers: they need neither the release nor its replicates."""

    std_error: float | Floats
    halves: Mapping[float, float | Floats]

    def half_width(self, level: float) -> float | Floats:
        return self.halves[level]


def _ends_at(
    found: Mapping[float, tuple[Floats, Floats]], _: Change | None, __: Floats, level: float
) -> tuple[Floats, Floats]:
    return found[level]


def solved(
    source: ReleaseFile | Release,
    names: tuple[str, ...],
    where: str,
    level: float,
    *,
    regrouping: Regrouping = AS_IT_IS,
    within: tuple[str, ...] | None = None,
    errors: ErrorsWanted = USUAL_ERRORS,
) -> tuple[Marginal, Marginal]:
    """A table of a release, and its shares within some attributes or itself again, both computed at one level.

    What is shown and written of them costs no solve, and they can be sent from one process to another.
    """
    release = opened(source)
    table = errors(regrouping(release.marginal(*names, where=where or None)))
    counts = _computed(table, level, draws=errors.draws)
    return counts, counts if within is None else _computed(table.shares(*within), level)


def _computed(table: Marginal, level: float, *, draws: bool = False) -> Marginal:
    """The table at a level, and at the one by which signs of reliability are given; with its draws where wanted."""
    own, levels = table.uncertainty, {level, USUAL_LEVEL}
    if own is None:
        return table
    table.draw_columns() if draws else None  # refuses what is too large
    joint = Joint((), partial(np.asarray, table.draws())) if draws else None
    if isinstance(own, LinearLaw) and not own.whole:
        at = _At(own.std_error, {each: own.half_width(each) for each in levels})
        return replace(table, uncertainty=LinearLaw(joint, at))
    # Nobody asks for half widths where cells have intervals of their own, and they take a while
    ends = partial(_ends_at, {each: table.interval(each) for each in levels})
    return replace(table, uncertainty=Bounds(joint, ends=ends, error=_At(own.std_error, {})))


def sql_bytes(source: ReleaseFile | Release, statement: str, name: str, level: float) -> bytes:
    """The answer to a statement as a file; every table that it needs is priced before it is computed."""
    release = opened(source)
    caption = str(release.statement)
    return sql_file(answer_sql(statement, release.schema, metered(release), level=level, caption=caption), name)


def table_bytes(found: tuple[Marginal, Marginal]) -> int:
    """About how many bytes solved tables hold: values, errors, both ends at two levels, and a thousand for the rest."""
    counts, shown = found
    drawn = 0 if counts.joint is None else counts.joint.draws.nbytes
    return (6 if counts is shown else 12) * counts.values.nbytes + drawn + 1_000


def workers(source: ReleaseFile, names: Sequence[str]) -> dict[str, list[Worker]]:
    """Processes for every place. Those that solve open the release, and what every interval needs, before the first."""
    first = partial(solved, source, tuple(names[:1]), "", 0.95)
    solve = ("tables", "large", "sql")
    return {name: [Worker(first if name in solve else None) for _ in range(number)] for name, number in PLACES.items()}
