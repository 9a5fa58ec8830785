"""Totals and means of measures: answers from the sums of a release, and from its counts.

Sums of one measure over several tables are made to agree by least squares, as tables of counts are, without any
correction of negative cells: their noise keeps its exact law. A mean is a ratio of two answers with independent noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crosstally.analysis.associations import independent
from crosstally.answers.changes import shifted
from crosstally.answers.marginal import Marginal
from crosstally.answers.uncertainty import Draws
from crosstally.errors import QueryError, did_you_mean
from crosstally.inference.estimates import ROUNDS, estimate
from crosstally.query.queries import Cells
from crosstally.query.question import Question, Where
from crosstally.query.summed import Summed
from crosstally.schema import Measure

if TYPE_CHECKING:
    from crosstally.releases.release import Release

Condition = str | Mapping[str, object] | Question | None
TOTAL, MEAN = "total", "mean"


def total(release: Release, measure: str, names: tuple[str, ...], where: Condition) -> Marginal:
    """The total of a measure over some attributes, in its own unit."""
    own = _measured(release, measure)
    steps = _sums(release, Summed(measure), names, where)
    found = steps._scaled(own.step, TOTAL)
    if own.centre:
        found, counts = independent(found, _divisor(release, own, names, where))
        found = found._with(counts._scaled(own.centre, TOTAL), np.add, TOTAL, 1.0)
    return _about(found, own, TOTAL)


def mean(release: Release, measure: str, names: tuple[str, ...], where: Condition) -> Marginal:
    """The mean of a measure over some attributes: its total over the number of rows that have a value."""
    own = _measured(release, measure)
    steps, counts = independent(_sums(release, Summed(measure), names, where), _divisor(release, own, names, where))
    found = steps.per(counts, MEAN)._scaled(own.step, MEAN)
    found = found._changed(found.schema, shifted(own.centre), MEAN)
    if isinstance(found.uncertainty, Draws):  # where nobody may be counted the mean can be anything within the bounds
        ends = (float(own.lower), float(own.upper))
        found = replace(found, values=np.clip(found.values, *ends), uncertainty=replace(found.uncertainty, within=ends))
    return _about(found, own, MEAN)


def _measured(release: Release, name: str) -> Measure:
    known = list(dict.fromkeys(each.query.summed.measure or "" for each in release.totals))
    if name not in known:
        raise QueryError(f"the release has no totals of {name!r}{did_you_mean(str(name), known)}")
    return release.schema.measure(name)


def _divisor(release: Release, measure: Measure, names: tuple[str, ...], where: Condition) -> Marginal:
    """The number of rows that have a value: of all rows, unless some may be left out."""
    if measure.leaves_out:
        return _sums(release, Summed(measure.name, values=False), names, where)
    return release.marginal(names, where=where)


def _sums(release: Release, summed: Summed, names: tuple[str, ...], where: Condition) -> Marginal:
    """The sums over some attributes, in steps from the centre."""
    own = [each for each in release.totals if each.query.summed == summed]
    schema = replace(release.schema, facts=(), measures=())
    needed = names if where is None else (*names, *Where.of(where, schema).attributes)
    schema.check(tuple(dict.fromkeys(names)) if len(set(names)) == len(names) else names)
    tables = tuple(replace(each, query=Cells(each.query.attributes)) for each in own)
    fitted = estimate(schema, tables, rows=None, nonnegative="none", rounds=ROUNDS)
    if not fitted.covers(tuple(dict.fromkeys(needed))):
        known = ", ".join(" x ".join(each.query.attributes) or "all" for each in own)
        raise QueryError(
            f"totals of {summed.measure} over {' x '.join(dict.fromkeys(needed))} do not follow from what was measured "
            f"({known}): ask for less, or name the table in the plan"
        )
    statement = replace(release.statement, rows=None)
    beside = replace(
        release, schema=schema, measurements=tables, statement=statement, estimate=fitted, nonnegative="none", totals=()
    )
    return beside.marginal(names, where=where)


def _about(found: Marginal, measure: Measure, quantity: str) -> Marginal:
    """The answer with what it is about in its caption."""
    unit = f" ({measure.unit})" if measure.unit else ""
    return replace(found, caption=f"{quantity} of {measure.name}{unit}; {measure.bounds}; {found.caption}")
