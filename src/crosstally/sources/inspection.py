"""Inspection of data by a steward before a release: how well they fit a schema, and how rows spread over its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.schema import MISSING, Outside, Schema
from crosstally.sources.codes.arrays import rows_of_each
from crosstally.sources.codes.encode import Encoder, canonical_texts
from crosstally.sources.kinds import source_of
from crosstally.sources.reading_options import NO_OPTIONS, Reading
from crosstally.sources.source import RowEncoding

# How well data fit a schema: a report for the steward's own terminal.


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


BOUNDS = (1, 2, 3, 5, 10, 20)
"""Bounds whose losses a steward is shown. Chosen: noise grows with the bound."""


@dataclass(frozen=True, slots=True, repr=False)
class BoundLoss:
    """Confidential: how many rows a bound keeps and leaves out."""

    max_rows: int
    kept: int
    lost: int

    def __repr__(self) -> str:
        return f"BoundLoss({self.max_rows})"  # what was found never reaches a log

    @property
    def share(self) -> float:
        """The share of rows that is left out."""
        return self.lost / max(1, self.kept + self.lost)


def losses_of_bounds(rows: NDArray[np.int64], bounds: Iterable[int]) -> tuple[BoundLoss, ...]:
    """What each bound, once, keeps and leaves out, from the number of rows of each unit."""
    kept = [(bound, int(np.minimum(rows, bound).sum())) for bound in sorted(set(bounds))]
    return tuple(BoundLoss(bound, each, int(rows.sum()) - each) for bound, each in kept)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Confidential: how well data fit a schema. For the steward's own terminal, never to be stored or published.

    Of the ``rows`` read, ``dropped`` are left out by an attribute's rule, ``without_id`` because their unit is not
    known, and ``beyond_bound`` because their unit, one of ``units_over_bound``, has more rows than count.
    ``losses`` are those of this bound and others.
    """

    columns: tuple[ColumnReport, ...]
    rows: int
    _: KW_ONLY
    dropped: int
    without_id: int
    beyond_bound: int
    units_over_bound: int
    losses: tuple[BoundLoss, ...] = ()

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
    encoding = RowEncoding.of(schema, reading)
    columns = [_Findings(encoder) for encoder in encoding.encoders()]
    read = dropped = 0
    ids: list[pa.Array] = []
    for batch in encoding.batches(source_of(rows)):
        lost = np.zeros(batch.num_rows, np.bool_)
        for findings in columns:
            lost |= findings.add(batch)
        read += batch.num_rows
        dropped += int(lost.sum())
        if schema.unit is not None:
            ids.append(encoding.ids(batch).filter(pa.array(~lost)))
    without_id = sum(part.null_count for part in ids)
    of_each = rows_of_each(ids)
    excess = np.maximum(of_each - schema.max_rows, 0) * (not schema.divided)
    return Report(
        tuple(findings.report() for findings in columns),
        read,
        dropped=dropped,
        without_id=without_id,
        beyond_bound=int(excess.sum()),
        units_over_bound=int(np.count_nonzero(excess)),
        losses=() if schema.unit is None or schema.divided else losses_of_bounds(of_each, (*BOUNDS, schema.max_rows)),
    )


class _Findings:
    """The findings in one column so far."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._seen = np.zeros(encoder.matcher.labels + 2, np.int64)
        self._has_lost = False
        self._examples: dict[str, None] = {}

    def add(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Add a batch; returns which of its rows the attribute's rule drops."""
        raw, labels = self._encoder.raw(batch), self._encoder.matcher.labels
        self._seen += np.bincount(raw, minlength=labels + 2)
        if self._seen[labels] and len(self._examples) < _MOST_EXAMPLES:
            texts = canonical_texts(self._encoder.attribute.name, batch.column(self._encoder.column))
            outside = pc.unique(texts.filter(pa.array(raw == labels)))
            self._examples.update(dict.fromkeys(outside.to_pylist()))
        lost = self._encoder.lost(raw)
        self._has_lost |= bool(lost.any())
        return lost & (self._encoder.attribute.outside is Outside.DROP)

    def report(self) -> ColumnReport:
        """The column's part of the report."""
        attribute, labels = self._encoder.attribute, self._encoder.matcher.labels
        outside, missing = int(self._seen[labels]), int(self._seen[labels + 1])
        return ColumnReport(
            attribute.name,
            outside,
            missing=missing,
            never=tuple(label for label, rows in zip(attribute.labels, self._seen[:labels], strict=False) if not rows),
            examples=tuple(self._examples)[:_MOST_EXAMPLES],
            refused=attribute.outside is Outside.REFUSE and self._has_lost,
        )


# How the rows of a table are spread over the cells of its attributes, for the steward's own eyes. A table is read once.
# What is kept is, for each column, how often each text occurs; the cells are then found again whenever the steward
# changes a label, an edge or a group, by the same rules as for a release.


FEW_ROWS = 10
"""A label of fewer rows, or of fewer people where people have several rows, may reveal that one of them is there."""
MOST_TEXTS = 200_000
"""Different texts of a column that are counted one by one: about 20 MB. Columns of numbers with more are rare."""
MOST_WITH_PEOPLE = 20_000
"""Distinct texts of a column whose first people are remembered; with more, few people are detected by rows."""


@dataclass(frozen=True, slots=True, repr=False)
class Distribution:
    """Confidential: the rows of each cell of an attribute, in the order of its labels.

    ``few`` says for each cell whether it has at least one and fewer than ten people. ``texts`` are the texts of the
    source that mean each label, the most frequent first; ``outside`` those that mean none and have no cell, with their
    rows, and ``missing`` the rows without a value where these have no cell.
    """

    rows: tuple[int, ...]
    _: KW_ONLY
    few: tuple[bool, ...]
    texts: tuple[tuple[str, ...], ...]
    outside: tuple[tuple[str, int], ...]
    missing: int

    def __repr__(self) -> str:
        return f"Distribution({len(self.rows)} cells)"  # what was found never reaches a log


class Distributions:
    """Confidential: how often each text occurs in each column. None of it is printed, pickled or written."""

    def __init__(
        self,
        rows: int,
        columns: Mapping[str, Counter[str | None] | None],
        people: Mapping[str, FirstPeople],
        rows_of_units: NDArray[np.int64] | None = None,
    ) -> None:
        self.rows = rows
        self._rows_of_units = rows_of_units
        self._columns, self._people = columns, people

    def __repr__(self) -> str:
        return f"Distributions({len(self._columns)} columns)"

    def __reduce__(self) -> NoReturn:
        raise CrosstallyError("distributions are confidential and cannot be pickled or copied to another process")

    def losses(self, schema: Schema) -> tuple[BoundLoss, ...]:
        """What the schema's bound and others leave out; nothing where it has no unit."""
        of_each = self._rows_of_units
        return () if of_each is None or schema.divided else losses_of_bounds(of_each, (*BOUNDS, schema.max_rows))

    def of(self, schema: Schema, name: str) -> Distribution | None:
        """The rows of each cell of an attribute; None where its column has too many different texts to count each."""
        encoder = RowEncoding.of(schema).encoder(schema[name])
        counted = self._columns.get(encoder.column)
        return None if counted is None else _distribution(encoder, counted, self._people.get(encoder.column))


class FirstPeople:
    """Confidential: for each text of a column the first people who have it, up to the number that is no longer few."""

    def __init__(self) -> None:
        self._ids: dict[str, set[str]] = {}
        self._many: list[str] = []

    def add(self, texts: pa.Array, ids: pa.Array) -> None:
        """Add a batch; rows of texts that many people have are skipped."""
        known = pc.and_(pc.is_valid(texts), pc.is_valid(ids))
        wanted = pc.and_(known, pc.invert(pc.is_in(texts, pa.array(self._many, pa.large_string()))))
        if len(self._ids) > MOST_WITH_PEOPLE or not pc.any(wanted).as_py():
            return
        pairs = (
            pa.table({"text": texts.filter(wanted), "id": ids.filter(wanted)}).group_by(["text", "id"]).aggregate([])
        )
        for text, one in zip(pairs.column("text").to_pylist(), pairs.column("id").to_pylist(), strict=True):
            some = self._ids.setdefault(text, set())
            if len(some) < FEW_ROWS:
                some.add(one)
                if len(some) == FEW_ROWS:
                    self._many.append(text)

    def are_few(self, texts: Iterable[str]) -> bool | None:
        """Whether at least one and fewer than ten people have one of these texts; None where that was not kept."""
        if len(self._ids) > MOST_WITH_PEOPLE:
            return None
        return 0 < len(set().union(*(self._ids.get(text, ()) for text in texts))) < FEW_ROWS


def read_distributions(rows: Any, schema: Schema, *, reading: Reading = NO_OPTIONS) -> Distributions:
    """How often each text occurs in each column that the schema needs. Spends nothing, and is confidential."""
    encoding = RowEncoding.of(schema, reading)
    counted: dict[str, Counter[str | None] | None] = {encoding.rules.column(name): Counter() for name in schema.names}
    people = {} if schema.unit is None else {name: FirstPeople() for name in counted}
    total = 0
    all_ids: list[pa.Array] = []
    for batch in encoding.batches(source_of(rows)):
        total += batch.num_rows
        ids = None if schema.unit is None else encoding.ids(batch)
        all_ids += [] if ids is None else [ids]
        for name, times in counted.items():
            if times is not None:
                texts = canonical_texts(name, batch.column(name))
                if ids is not None:
                    people[name].add(texts, ids)
                counts = texts.value_counts()
                pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
                times.update(dict(pairs))
                if len(times) > MOST_TEXTS:
                    counted[name] = None
    return Distributions(total, counted, people, None if schema.unit is None else rows_of_each(all_ids))


def _distribution(encoder: Encoder, counted: Counter[str | None], people: FirstPeople | None) -> Distribution:
    attribute = encoder.attribute
    rows, texts = [0] * attribute.size, [Counter[str]() for _ in attribute.labels]
    outside: Counter[str] = Counter()
    missing = 0
    for text, times in counted.items():
        raw = encoder.raw_scalar(text)
        cell = encoder.cell(raw)
        if cell is not None:
            rows[cell] += times
            if text is not None and attribute.labels[cell] != MISSING:
                texts[cell][text] += times
        elif raw > encoder.matcher.labels or text is None:
            missing += times
        else:
            outside[text] += times
    return Distribution(
        tuple(rows),
        few=tuple(_are_few(times, each, people) for times, each in zip(rows, texts, strict=True)),
        texts=tuple(tuple(text for text, _ in each.most_common()) for each in texts),
        outside=tuple(outside.most_common()),
        missing=missing,
    )


def _are_few(rows: int, texts: Iterable[str], people: FirstPeople | None) -> bool:
    """Whether few people have one of the texts: by their ids where people have several rows, else by rows."""
    known = None if people is None else people.are_few(texts)
    return 0 < rows < FEW_ROWS if known is None else known
