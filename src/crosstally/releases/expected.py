"""How accurate the tables of a release are, by their number of attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from statistics import median

from crosstally.query.queries import Cells
from crosstally.releases.release import Release
from crosstally.residuals import Variances

MOST_TABLES = 10_000
"""Of very many tables the first ones are looked at."""

_LARGEST_WAYS = 3  # tables over one, two and three attributes are summed up. Chosen: what people ask for most
_TINY_VARIANCE = 1e-300  # the variance of a public number of rows; zero has no inverse


@dataclass(frozen=True, slots=True, kw_only=True)
class TableErrors:
    """The standard errors of all tables over so many attributes; NaN when none is covered."""

    ways: int
    tables: int
    covered: int
    least: float
    middle: float
    most: float


def expected_errors(release: Release) -> Iterator[TableErrors]:
    """The standard errors of tables over one, two and three attributes; of very many only the first are looked at."""
    names = release.schema.names
    known_total = [] if release.statement.rows is None else [(Cells(()), _TINY_VARIANCE)]
    measured = [(each.query, each.variance) for each in release.measurements]
    predicted = Variances.of_queries(release.schema, [*measured, *known_total]).replacing(release.variances_left)
    for ways in range(1, min(_LARGEST_WAYS, len(names)) + 1):
        tables = list(islice(combinations(names, ways), MOST_TABLES))
        errors = [math.sqrt(variance) for variance in predicted.of_all(tables)]
        known = [error for error in errors if math.isfinite(error)] or [math.nan]
        yield TableErrors(
            ways=ways,
            tables=len(tables),
            covered=sum(map(math.isfinite, errors)),
            least=min(known),
            middle=median(known),
            most=max(known),
        )
