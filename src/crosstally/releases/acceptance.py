"""Acceptance criteria: how large the errors of some tables may be, judged before spending and after.

Before, the forecast of a plan gives two ends for each error: what inference is likely to leave of it at best, and the
noise before inference. A criterion passes if the upper end is within its limit, is unlikely to be met if only the lower
end is, and fails otherwise. After, errors are those of the release's own draws. Neither looks at the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from crosstally.answers.joint_draws import side_by_side
from crosstally.errors import CrosstallyError, QueryError, must_be_one_of
from crosstally.inference.bootstrap import noise_of_coefficients
from crosstally.json_text import JsonError, read_json_file
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.releases.release import Release
from crosstally.residuals.axes import rebuild
from crosstally.residuals.combining import Averages
from crosstally.residuals.variances import closure_of
from crosstally.schema import Schema
from crosstally.strategies.goal import known_variances
from crosstally.strategies.rules import likely_errors, outlook
from crosstally.strategies.verdicts import expected_errors
from crosstally.typing import Floats

FORMAT = 1
DRAWS = 1_000
"""Draws behind the quantile of a largest error: of 1,000 the 99% quantile is the tenth largest."""
_MOST_CELLS = 50_000  # of all tables together whose largest error is forecast: draws then take 400 MB
_ERRORS, _OF = ("typical", "largest"), ("rows", "average count")
_FIELDS = {"name", "ways", "tables", "error", "at_most", "of", "level"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A limit for an error of some tables: all over ``ways`` attributes, or ``tables`` by their names.

    A ``typical`` error is the root mean square over the cells of each table; the ``largest`` is that of any cell of
    all of the tables, which is within the limit with probability ``level``. The limit is a share of all ``rows``, or
    of the ``average count`` of the table's cells.
    """

    name: str
    ways: int | None
    tables: tuple[tuple[str, ...], ...] | None
    error: str
    at_most: float
    of: str
    level: float | None

    def __post_init__(self) -> None:
        where = f"criterion {self.name!r}"
        for field, known in (("error", _ERRORS), ("of", _OF)):
            if getattr(self, field) not in known:
                raise QueryError(must_be_one_of(f"{where}: {field}", known, getattr(self, field)))
        if (self.ways is None) == (self.tables is None):
            raise QueryError(f"{where} must name its tables, or say of how many ways all are meant, not both")
        if not 0 < self.at_most < math.inf:
            raise QueryError(f"{where}: at_most must be a positive share such as 0.02, got {self.at_most!r}")
        if (self.level is not None) != (self.error == "largest") or not 0 < (self.level or 0.5) <= 1 - 1 / DRAWS:
            raise QueryError(f"{where}: a largest error has a level up to {1 - 1 / DRAWS}, a typical one has null")

    def of_schema(self, schema: Schema) -> list[tuple[str, ...]]:
        """The tables that it is about."""
        if self.tables is None:
            return list(combinations(schema.names, self.ways or 0))
        for names in self.tables:
            schema.check(names)
        return list(self.tables)

    def scale(self, schema: Schema, names: Sequence[str], rows: float) -> float:
        """The count of which errors are a share."""
        return rows if self.of == "rows" else rows / math.prod(schema.sizes(names))


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a release has to meet, and about how many rows there are, if the steward says so."""

    criteria: tuple[Criterion, ...]
    rows: int | None = None

    @classmethod
    def load(cls, path: str | Path) -> Criteria:
        """Criteria from a JSON file; errors name the field."""
        try:
            given = read_json_file(path)
        except (OSError, JsonError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise QueryError(f"cannot read the criteria {str(path)!r}: {reason}") from None
        try:
            return cls._read(given)
        except CrosstallyError as error:
            raise QueryError(f"{str(path)!r}: {error}") from None

    @classmethod
    def _read(cls, given: Any) -> Criteria:
        if not isinstance(given, Mapping) or given.get("crosstally-criteria") != FORMAT or len(given) != 3:
            raise QueryError(f"criteria must have crosstally-criteria {FORMAT}, rows (or null) and a list of criteria")
        rows, listed = given.get("rows"), given.get("criteria")
        if not (rows is None or (type(rows) is int and rows > 0)) or not isinstance(listed, list) or not listed:
            raise QueryError("rows must be a whole number or null, criteria a list of at least one")
        for each in listed:
            if not isinstance(each, Mapping) or set(each) != _FIELDS:
                raise QueryError(f"each criterion must have {', '.join(sorted(_FIELDS))}; null where it has none")
            numbers = (each["at_most"], each["level"] or 0, each["ways"] or 0)
            if not isinstance(each["name"], str) or any(type(number) not in (int, float) for number in numbers):
                raise QueryError("a criterion: name must be a text; at_most, level and ways must be numbers")
            tables = [] if each["tables"] is None else each["tables"]
            if not isinstance(tables, list) or not all(isinstance(names, list) for names in tables):
                raise QueryError("a criterion: tables must be null or a list of lists of attributes")
        read = ({**each, "tables": each["tables"] and tuple(map(tuple, each["tables"]))} for each in listed)
        return cls(tuple(Criterion(**each) for each in read), rows)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one criterion: the ends of the error that was found, as shares, and pass, unlikely, fail or unknown."""

    criterion: Criterion
    low: float
    high: float

    @property
    def word(self) -> str:
        """The verdict."""
        if math.isnan(self.high):
            return "unknown"
        limit = self.criterion.at_most
        return "pass" if self.high <= limit else "unlikely" if self.low <= limit else "fail"

    def row(self) -> tuple[str, str, str]:
        """The criterion, what was found, and the verdict, for people."""
        asked, with_level = self.criterion, f" with {self.criterion.level:.1%}" if self.criterion.level else ""
        limit = f"{asked.error} error at most {asked.at_most:.3g} of {asked.of}{with_level}"
        ends = [f"{end:.2%}" if math.isfinite(end) else "not known" for end in (self.low, self.high)]
        return (f"{asked.name} ({limit})", " to ".join(dict.fromkeys(ends)), self.word)

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return {"criterion": self.criterion.name, "low": low, "high": high, "verdict": self.word}


def judge_release(release: Release, wanted: Criteria) -> tuple[Verdict, ...]:
    """What the errors of a release are, by its own draws: at least 1,000, or the verdict is unknown."""
    drawn = replace(release, replicates=DRAWS)
    rows = _rows_of(release.rows if math.isfinite(release.rows) else wanted.rows)
    return tuple(_judged(each, drawn, rows) for each in wanted.criteria)


def _judged(asked: Criterion, release: Release, rows: float) -> Verdict:
    tables = asked.of_schema(release.schema)
    scales = [asked.scale(release.schema, names, rows) for names in tables]
    if asked.error == "largest":
        found = _largest(release, tables, scales, asked.level or 0.0)
    else:
        errors = [each.std_error for each in release.marginals(tables)]
        found = max(math.sqrt(np.mean(each**2)) / scale for each, scale in zip(errors, scales, strict=True))
    return Verdict(asked, found, found)


def _largest(release: Release, tables: Sequence[tuple[str, ...]], scales: Sequence[float], level: float) -> float:
    """The quantile of the largest error over all cells of all tables; NaN where there are too few draws."""
    joints = [each.joint for each in release.marginals(tables)]
    known = [each for each in joints if each is not None]
    if len(known) < len(joints):
        return math.nan
    return _quantile(
        ((each[1:] - each[0]) / scale for each, scale in zip(side_by_side(known), scales, strict=True)), level
    )


def _quantile(errors: Iterable[Floats], level: float) -> float:
    """The quantile over draws, the first axis, of the largest error in all tables: the next draw above it."""
    largest = np.max([np.abs(each).reshape(len(each), -1).max(axis=1) for each in errors], axis=0)
    return math.nan if len(largest) < DRAWS else float(np.sort(largest)[math.ceil((len(largest) + 1) * level) - 1])


def judge_plan(plan: Plan, wanted: Criteria, rows: int | None = None) -> tuple[Verdict, ...]:
    """What the forecast of a plan says of the errors, before anything is spent."""
    about = int(_rows_of(rows or wanted.rows))
    seen = outlook(plan)
    expected = {each.order: each for each in expected_errors(seen, about, likely_errors(plan, about))}
    ends = {order: (each.error, each.at_best, each.likely) for order, each in expected.items()}
    return tuple(_forecast(each, plan, seen, ends, about) for each in wanted.criteria)


def _forecast(
    asked: Criterion, plan: Plan, seen: Plan, ends: Mapping[int, tuple[float, float, float]], rows: int
) -> Verdict:
    tables = asked.of_schema(seen.schema)
    closure = closure_of(seen.schema, tuple(tables))
    firsts, errors = (np.sqrt(known_variances(each, closure).of_tables).tolist() for each in (plan, seen))
    scales = [asked.scale(seen.schema, names, rows) for names in tables]
    believed = [ends.get(len(names), (math.nan, math.nan, math.nan)) for names in tables]
    if asked.error == "typical":
        found = [_ends(first, error, *each) for first, error, each in zip(firsts, errors, believed, strict=True)]
        low, high = (
            max(end / scale for end, scale in zip(each, scales, strict=True)) for each in zip(*found, strict=True)
        )
        return Verdict(asked, low, high)
    noise = None if any(map(math.isnan, errors)) else _noise_alone(seen, tables)
    if noise is None:
        return Verdict(asked, 0.0, math.inf)
    found = [_ends(first, error, *each) for first, error, each in zip(firsts, errors, believed, strict=True)]
    factors = [(low / error, high / error) for (low, high), error in zip(found, errors, strict=True)]
    low, high = (
        _quantile(
            (n * factor / scale for n, factor, scale in zip(noise, each, scales, strict=True)), asked.level or 0.0
        )
        for each in zip(*factors, strict=True)
    )
    return Verdict(asked, low, high)


def _ends(first: float, own: float, error: float, best: float, likely: float) -> tuple[float, float]:
    """The ends of a table's error, given that of noise alone and what is believed of tables of its order.

    A table that is not measured has what is believed. The others have their noise, less what inference takes away at
    best. At worst later stages add nothing to what the first says of a table (``first``), or leave it what is believed.
    """
    if math.isnan(own):
        return (0.0, math.inf) if math.isnan(best) else (best, likely)
    high = own if math.isnan(first) else max(own, first)
    if math.isnan(best) or not error > 0:
        return own, high
    return own * min(1.0, best / error), max(high, own * likely / error if best > error else 0.0)


def _noise_alone(seen: Plan, tables: Sequence[tuple[str, ...]]) -> list[Floats] | None:
    """What the noise of a plan leaves of tables by least squares, drawn as often as is needed; None where too large."""
    places_wanted = sum(math.prod(seen.schema.sizes(names)) for names in tables)
    if seen.matrices or seen.mixed or any(each.query.groups for each in seen.groups) or places_wanted > _MOST_CELLS:
        return None
    measured = [
        Measurement(query, np.zeros(query.shape(seen.schema)), variance=noise.variance, noise=noise, origin="")
        for query, noise in ((each.query, each.noise) for each in seen.requests)
        if query.is_linear
    ]
    averages = Averages.of(seen.schema, measured, None)
    known = averages.estimate([each.values for each in measured], None)
    places = [known.places([names])[0][0] for names in tables]
    drawn = np.array(
        [each[np.concatenate(places)] for each in noise_of_coefficients(averages, measured, seed=0, number=DRAWS)]
    )
    parts = np.split(drawn, np.cumsum([len(each) for each in places])[:-1], axis=1)
    shapes = [seen.schema.sizes(names) for names in tables]
    return [rebuild(part.reshape(-1, *shape), len(shape)) for part, shape in zip(parts, shapes, strict=True)]


def _rows_of(rows: float | None) -> float:
    if not rows or rows < 1:
        raise QueryError("criteria are shares of counts: say about how many rows there are, with rows or --rows")
    return rows
