"""Every kind of advice of a plan, followed on real tables: the error that was promised, and the error of releases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.accuracy.errors import rms
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.real_tables import RealTable, present_tables
from crosstally.strategies.advice import Advice
from crosstally.strategies.planner import Comparison

TABLES = ("adult", "acs", "fars")
EPSILON, BOUND, ORDER = 1, 2, 2
"""A unit of up to two rows, so that there is advice about its bound as well; each row is a unit of its own."""
BAND = 0.1
_DRAWS_EACH = 10  # one of so many draws is made: cells are many, and a release of FARS takes seconds
_LEAST_CELLS = 2_000  # the standard error of their RMS is 2.5%, with the fourth moment of Laplace noise


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """The RMS error of pairs in releases over the promised one, for the linear estimate; the default's in the note."""
    for table in present_tables(TABLES[:1] if quick else TABLES):
        schema = ct.Schema(table.schema.attributes, ct.Unit("person", BOUND))
        found = ct.plan(schema, epsilon=EPSILON, rows=table.number, strategy="two-stage")
        yield _line(f"{table.name}, as planned", table, found, found.expected[-1].error, draws)
        for advice in found.advice():
            yield _line(f"{table.name}, {advice.kind}", table, _followed(advice), advice.after.error, draws)


def _followed(advice: Advice) -> Comparison:
    """A plan made anew for what the advice says; merged values are numbered."""
    other = advice.alternative
    return ct.plan(
        other.schema,
        epsilon=other.proposal.budget.epsilon,
        delta=other.proposal.budget.delta,
        rows=advice.found.rows,
        workload=other.proposal.named,
        strategy="two-stage",
    )


def _line(work: str, table: RealTable, found: Comparison, promised: float, draws: int) -> dict[str, Any]:
    own = _in_cells_of(table, found.chosen.schema)
    tables = [each for each in found.chosen.workload.tables if len(each) == ORDER]
    cells = sum(math.prod(own.schema.sizes(each)) for each in tables)
    number = max(1, draws // _DRAWS_EACH, _LEAST_CELLS // cells)
    linear = [
        _error(own, ct.release(own.rows, plan=found.outlook).refit(nonnegative="none"), tables) for _ in range(number)
    ]
    default = [_error(own, ct.release(own.rows, plan=found.chosen), tables) for _ in range(number)]
    measured = _mean(linear)
    planned = found.outlook.order_errors[ORDER]
    return line(
        f"advice, {work}: RMS of pairs in releases over what was promised",
        measured,
        promised,
        1 + BAND,
        unit="rows",
        met=abs(measured / promised - 1) <= BAND and math.isclose(planned, promised, rel_tol=1e-9),
        note=f"{number} draws; a release without options has {_mean(default):.4g}",
    )


def _mean(errors: Sequence[float]) -> float:
    return math.sqrt(float(np.mean(np.square(errors))))


def _in_cells_of(table: RealTable, schema: ct.Schema) -> RealTable:
    """The rows in the cells of a schema in which values may be merged: neighbouring ones, as its sizes say."""
    codes = [
        _merged(table.codes[:, i].astype(np.int64), before.size, after)
        for i, (before, after) in enumerate(zip(table.schema.attributes, schema.attributes, strict=True))
    ]
    columns = {each.name: _values(each, code) for each, code in zip(schema.attributes, codes, strict=True)}
    rows = pa.table({"person": np.arange(table.number), **columns})
    return RealTable(table.name, schema, rows=rows, codes=np.stack(codes, axis=1))


def _merged(codes: NDArray[np.int64], cells: int, after: ct.Attribute) -> NDArray[np.int64]:
    """Cells for other and missing values, which come last, stay as they are."""
    extra = after.size - (len(after.values) or len(after.edges) - 1)
    before, kept = cells - extra, after.size - extra
    return np.where(codes < before, codes * kept // before, codes - before + kept)


def _values(attribute: ct.Attribute, codes: NDArray[np.int64]) -> pa.Array:
    """A value of each row's cell: a label, the lower edge of a bin, or none."""
    known = attribute.values or attribute.edges[:-1]
    absent = codes >= len(known)
    return pa.array(list(known)).take(pa.array(np.where(absent, 0, codes), mask=absent))


def _error(table: RealTable, release: ct.Release, tables: Sequence[tuple[str, ...]]) -> float:
    """The root of the mean over tables of the mean squared error of a cell."""
    return rms((each.values for each in release.marginals(tables)), map(table.counts, tables))
