"""How well data fit a schema: a report for the steward's own terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.schema import Outside, Schema
from crosstally.sources.codes.encode import Encoder
from crosstally.sources.codes.texts import canonical_texts
from crosstally.sources.columns import Columns
from crosstally.sources.kinds import source_of
from crosstally.sources.reading import NO_OPTIONS, Reading

__all__ = ["ColumnReport", "Report", "check"]

_MOST_EXAMPLES = 5  # values outside the schema that are shown to the steward: enough to see what is wrong


@dataclass(frozen=True, slots=True, repr=False)
class ColumnReport:
    """Confidential: how one column fits its attribute.

    ``outside`` and ``missing`` are numbers of rows, ``never`` the labels that do not occur, ``examples`` some values
    outside the labels; ``refused`` says that a release would stop at this column.
    """

    name: str
    outside: int
    _: KW_ONLY
    missing: int
    never: tuple[str, ...]
    examples: tuple[str, ...]
    refused: bool

    def __repr__(self) -> str:
        return f"ColumnReport({self.name!r})"  # what was found never reaches a log


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Confidential: how well data fit a schema. For the steward's own terminal, never to be stored or published.

    Of the ``rows`` read, ``dropped`` are left out by an attribute's rule, ``without_id`` because their unit is not
    known, and ``beyond_bound`` because their unit, one of ``units_over_bound``, has more rows than count.
    """

    columns: tuple[ColumnReport, ...]
    rows: int
    _: KW_ONLY
    dropped: int
    without_id: int
    beyond_bound: int
    units_over_bound: int

    def __repr__(self) -> str:
        return f"Report({len(self.columns)} columns)"  # what was found never reaches a log

    @property
    def kept(self) -> int:
        """How many rows would be counted."""
        return self.rows - self.dropped - self.without_id - self.beyond_bound

    @property
    def ok(self) -> bool:
        """Whether nothing would be refused."""
        return not any(column.refused for column in self.columns)


def check(rows: Any, schema: Schema, *, reading: Reading = NO_OPTIONS) -> Report:
    """How well the rows fit the schema; spends nothing and refuses no value, and is confidential."""
    columns = Columns.of(schema)
    found = [_Findings(columns.encoder(attribute)) for attribute in schema.attributes]
    read = dropped = 0
    ids: list[pa.Array] = []
    for batch in columns.batches(source_of(rows), reading=reading):
        lost = np.zeros(batch.num_rows, np.bool_)
        for findings in found:
            lost |= findings.add(batch)
        read += batch.num_rows
        dropped += int(lost.sum())
        if schema.unit is not None:
            ids.append(columns.ids(batch).filter(pa.array(~lost)))
    without_id = sum(part.null_count for part in ids)
    excess = np.maximum(_rows_of_units(ids) - schema.max_rows, 0)
    return Report(
        tuple(findings.report() for findings in found),
        read,
        dropped=dropped,
        without_id=without_id,
        beyond_bound=int(excess.sum()),
        units_over_bound=int(np.count_nonzero(excess)),
    )


def _rows_of_units(ids: Sequence[pa.Array]) -> NDArray[np.int64]:
    known = pa.chunked_array(ids, pa.large_string()).drop_null()
    rows: NDArray[np.int64] = known.value_counts().field("counts").to_numpy()
    return rows


class _Findings:
    """What was found in one column so far."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._seen = np.zeros(encoder.matcher.labels + 2, np.int64)
        self._examples: dict[str, None] = {}

    def add(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Take in a batch; which of its rows the attribute's rule drops."""
        raw, labels = self._encoder.raw(batch), self._encoder.matcher.labels
        self._seen += np.bincount(raw, minlength=labels + 2)
        if self._seen[labels] and len(self._examples) < _MOST_EXAMPLES:
            texts = canonical_texts(self._encoder.attribute.name, batch.column(self._encoder.column))
            outside = pc.unique(texts.filter(pa.array(raw == labels)))
            self._examples.update(dict.fromkeys(outside.to_pylist()))
        attribute = self._encoder.attribute
        if attribute.outside is not Outside.DROP:
            return np.zeros(len(raw), np.bool_)
        return np.asarray(raw == labels if attribute.missing else raw >= labels)

    def report(self) -> ColumnReport:
        """The column's part of the report."""
        attribute, labels = self._encoder.attribute, self._encoder.matcher.labels
        outside, missing = int(self._seen[labels]), int(self._seen[labels + 1])
        lost = outside if attribute.missing else outside + missing
        return ColumnReport(
            attribute.name,
            outside,
            missing=missing,
            never=tuple(label for label, rows in zip(attribute.labels, self._seen[:labels], strict=False) if not rows),
            examples=tuple(self._examples)[:_MOST_EXAMPLES],
            refused=attribute.outside is Outside.REFUSE and lost > 0,
        )
