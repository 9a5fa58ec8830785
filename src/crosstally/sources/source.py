"""What a source of rows is, and how its rows become codes.

A source gives names of columns, batches of rows with some of these columns, and properties such as its key. Readers
know this interface and none of its kinds. Each kind is a class in its own module, which ``kinds.source_of`` finds for
what a user gave. A kind must implement ``streams``; everything else has a default here.

The codes of a row depend on that row alone. They are passed to ``counts``.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.measurements import ExactTable
from crosstally.plans.plan import Plan
from crosstally.platform_files import add_private_line
from crosstally.query.unit_table import CountedTable
from crosstally.schema import Attribute, Measure, Outside, RowReading, Schema
from crosstally.sources.codes.encode import Encoder, canonical_texts, read_texts
from crosstally.sources.codes.steps import steps_of
from crosstally.sources.counts import BATCH_ROWS, CodedRows, EncodedRows
from crosstally.sources.guard import DAMAGED, guarded, how_to_say
from crosstally.sources.parts import MergedParts
from crosstally.sources.reading_options import NO_OPTIONS, Numbers, Reading, numeric_columns
from crosstally.sources.table_parts import Column
from crosstally.threads import in_order

WEIGHT = "crosstally rows"
"""The column by which a source that groups equal rows says how many rows a row stands for."""
_CUT_SHORT = "its rows ended in an error"
_MOST_NAMES = 8  # names of columns in one error: more do not fit a line


class AnyUnit:
    """Stands for the unit of a schema that does not exist yet: joins are not checked, and nothing may be released."""


ANY_UNIT = AnyUnit()


Read = Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]
"""Reads the columns named of a file: each batch, and how many bytes of the file were read by then."""
OpenedFile = tuple[list[str], Read]
"""The names of a file's columns, and what reads some of them."""


class YieldsBatches(Protocol):
    """A source of your own: any object with these two methods may be given as rows.

    As for a table in memory, you are responsible for what its rows are: one for each person, or all rows of a unit with
    its id, none of them depending on other people's.
    """

    def names(self) -> Sequence[str]:
        """The names of its columns."""

    def batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """All rows, each once, with these columns."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What is wanted of a source: the columns needed (None: all), and how they are read.

    ``unit`` is the column of the unit's id, if any. With ``may_group`` equal rows may come once, with ``WEIGHT``. Texts
    in the ``numeric`` columns must be numbers in one way alone, or the reading must say in which. The ``verbatim``
    columns stay as they are written: two ids that a style would make one number belong to two people.
    """

    columns: Sequence[str] | None
    reading: Reading = NO_OPTIONS
    unit: str | AnyUnit | None = None
    may_group: bool = False
    _: KW_ONLY
    numeric: Sequence[str] = ()
    verbatim: Sequence[str] = ()

    def numbers(self) -> Numbers:
        """What rewrites and checks the numbers in the rows."""
        return Numbers(self.reading, self.numeric, self.verbatim)


@dataclass(frozen=True, slots=True)
class RowStream:
    """Batches of one file or query, each with the bytes that were read by then; ``size`` is None where it is no file.

    Closing the generator closes the file or query.
    """

    name: str
    size: int | None
    batches: Generator[tuple[pa.RecordBatch, int]]


class Source:
    """The interface of a source. A kind implements ``streams``, and overrides what differs from the defaults."""

    rows_are_units = False
    """Whether the steward answers for how the rows depend on each other."""
    is_read_again = False
    """Whether the same rows are known to be there when they are read a second time."""
    merged: MergedParts | None = None
    """The counts, where they were made before and there are no rows."""
    needs_plan = False
    """Whether it was counted for a plan, without which it is nothing."""

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """The files or queries one after another, each with the columns wanted, in their order."""
        raise NotImplementedError  # a kind of source is this; kinds without rows refuse here in their own words

    def size(self) -> int | None:
        """The bytes of all files together; None where rows are in no file, or a file cannot be found."""
        return None

    def text_files(self) -> list[Path]:
        """The files that hold rows as text."""
        return []

    def joins(self, unit: str | None) -> Mapping[str, str]:  # noqa: ARG002
        """How each joined table was joined, for a unit with this column of ids."""
        return {}

    def leaves_rows_out(self, unit: str | None) -> bool:  # noqa: ARG002
        """Whether rows of its tables may be left out, which public counts count."""
        return False

    def count(self, encoding: RowEncoding, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...] | None:  # noqa: ARG002
        """The exact counts of each table where the source counts by itself, None where its batches are to be."""
        return None

    def keep(self, encoding: RowEncoding) -> EncodedRows | None:  # noqa: ARG002
        """The rows encoded and kept where the source does so by itself, None where its batches are to be."""
        return None

    def shared(self, number: int, of: int, *, by_unit: bool) -> tuple[Source, str, list[tuple[str, int]]]:  # noqa: ARG002
        """What the i-th of n processes must read, how its rows are shared, and the files, the same for all processes.

        Rows are shared out by "unit" (the hash of the id), by whole "file" or by the number of each "row".
        """
        if not by_unit:
            raise SourceError(
                "rows of a query or of a table in memory have no fixed places by which to share them out: write "
                "them to a file first, or give the schema a unit, whose id decides"
            )
        return self, "unit", []

    def for_plan(self, plan: Plan) -> Source:  # noqa: ARG002
        """The source once the plan is known for which it is counted."""
        return self

    def check_all_rows(self, unit: str | None) -> None:
        """Raise where rows of its tables are left out: public counts are of all rows."""
        if self.leaves_rows_out(unit):
            raise SourceError(
                "public counts (rows, or facts of the schema) are of all rows, and the query leaves rows out: leave "
                "the public counts out, or make a view of the rows that they count"
            )

    def batches(
        self,
        scan: Scan,
        *,
        batch_rows: int = BATCH_ROWS,
        progress: Callable[[int], None] | None = None,
    ) -> Generator[pa.RecordBatch]:
        """The rows, a batch at a time, each with the columns wanted in the order named.

        After the last batch an error says which numbers have two readings. ``progress`` is called with the bytes read
        so far of all files; never for a table in memory, since its bytes would reveal the number of rows.
        """
        before = 0
        numbers = scan.numbers()
        for stream in self.streams(scan):
            otherwise = DAMAGED if stream.size is not None else _CUT_SHORT
            with contextlib.closing(stream.batches):  # also when the counting of rows refuses one
                step = partial(next, stream.batches, None)
                while (read := guarded(stream.name, step, otherwise=otherwise)) is not None:
                    batch, position = read
                    batch = guarded(stream.name, partial(numbers.plain, batch))
                    for start in range(0, batch.num_rows, batch_rows):
                        yield batch.slice(start, batch_rows)
                    if progress is not None and stream.size is not None:
                        progress(before + min(position, stream.size))
            if stream.size is not None:
                before += stream.size
                if progress is not None:
                    progress(before)
        numbers.check()


def chosen_columns(
    source: str, names: Sequence[str], needed: Sequence[str] | None, *, is_text: bool = False
) -> list[str]:
    """The needed columns, all of them there and once.

    An error says no name that was found: without a header, the names are the values of the first person.
    """
    header = f"; a text file must begin with a line of names, else say {how_to_say('header')}" if is_text else ""
    if needed is None:
        first = {name: place for place, name in reversed(list(enumerate(names, 1)))}
        twice = next(((first[name], place) for place, name in enumerate(names, 1) if first[name] < place), None)
        if twice is not None:
            raise SourceError(f"{source}: columns {twice[0]} and {twice[1]} have the same name; rename one{header}")
        return list(names)
    times = Counter(names)
    missing = [name for name in needed if name not in times]
    if missing:
        listed = ", ".join(map(repr, missing[:_MOST_NAMES])) + ", ..." * (len(missing) > _MOST_NAMES)
        which = f"{listed} among its {len(names)}; names must be the same letter by letter{header}"
        raise SourceError(f"{source} has no column{'s' * (len(missing) > 1)} {which}")
    for name in needed:
        if times[name] > 1:
            raise SourceError(f"{source} has more than one column {name!r}; rename one of them")
    return list(needed)


# How rows become codes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEncoding:
    """How the rows of a source become codes: by a schema, its ``rules`` for values, and how the source is written.

    ``attributes`` are those whose codes are needed. With ``refuse_unclear`` numbers with two readings are refused;
    otherwise they have a decimal point. The object is sent to Spark's workers.
    """

    schema: Schema
    rules: RowReading
    reading: Reading
    attributes: tuple[Attribute, ...]
    measures: tuple[Measure, ...] = ()
    refuse_unclear: bool = True
    batch_rows: int = BATCH_ROWS

    @classmethod
    def of(
        cls,
        schema: Schema,
        reading: Reading = NO_OPTIONS,
        *,
        tables: Sequence[CountedTable] | None = None,
        refuse_unclear: bool = True,
        batch_rows: int = BATCH_ROWS,
    ) -> RowEncoding:
        """The encoding by a schema; raises when its reading was left behind, since values would be misread.

        Where ``reading`` is silent the schema's says how the source is written. Codes are made of the attributes that
        the tables need: of those in them, of those whose rule may drop or refuse a row and, to tell the rows of a unit
        apart, of all.
        """
        if schema.reading is not None and not isinstance(schema.reading, RowReading):
            raise SourceError(
                "the schema does not say how its rows are read: its reading is in the steward's own file; "
                "give the schema from that file too (--schema FILE, or schema=...)"
            )
        rules = schema.reading or RowReading()
        try:
            remembered = Reading.from_dict(rules.file)
        except SourceError as error:
            raise SourceError(f"the schema's reading: file: {error}") from None
        used = None if tables is None else {name for table in tables for name in table.attributes}
        attributes = tuple(
            attribute
            for attribute in schema.attributes
            if used is None or schema.unit or attribute.name in used or attribute.outside is not Outside.OTHER
        )
        summed = None if tables is None or schema.unit else {table.summed.measure for table in tables}
        measures = tuple(each for each in schema.measures if summed is None or each.name in summed)
        written = reading.or_else(remembered)
        return cls(
            schema=schema,
            rules=rules,
            reading=written,
            attributes=attributes,
            measures=measures,
            refuse_unclear=refuse_unclear,
            batch_rows=batch_rows,
        )

    @property
    def digest(self) -> str | None:
        """The digest of how rows are read; None where no option is stated.

        Options given in addition to the schema are part of the reading.
        """
        said = self.rules
        if self.reading != Reading.from_dict(said.file):
            said = replace(said, file=self.reading.to_dict())
        return said.digest if said.to_dict() else None

    # Columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns in the source, each once; two attributes may come from one column."""
        unit = () if self.schema.unit is None else (self.schema.unit.id,)
        amounts = (each.name for each in self.measures)
        return list(dict.fromkeys(map(self.rules.column, (*self.schema.names, *amounts, *unit))))

    @property
    def coded_columns(self) -> tuple[Column, ...]:
        """What rows have codes of, in their order."""
        return (*(attribute.name for attribute in self.attributes), *self.measures)

    def scan(self, *, may_group: bool = False) -> Scan:
        """What is wanted of a source. Where there are units no rows are grouped: each must come with its id."""
        dates = {name for name, own in self.rules.columns.items() if own.date is not None}
        numbers = [*numeric_columns(self.schema), *(each.name for each in self.measures)]
        numeric = [name for name in numbers if name not in dates] if self.refuse_unclear else []
        unit = unit_column(self.schema)
        return Scan(
            self.columns,
            self.reading,
            unit,
            may_group and unit is None,
            numeric=tuple(dict.fromkeys(map(self.rules.column, numeric))),
            verbatim=(*map(self.rules.column, dates), *(() if unit is None else (unit,))),
        )

    def batches(
        self, source: Source, *, progress: Callable[[int], None] | None = None, may_group: bool = False
    ) -> Generator[pa.RecordBatch]:
        """The rows of a source with the columns needed, a batch at a time; see ``Source.batches``."""
        return source.batches(self.scan(may_group=may_group), progress=progress, batch_rows=self.batch_rows)

    # Codes

    def rows(
        self,
        source: Source,
        *,
        progress: Callable[[int], None] | None = None,
        may_group: bool = False,
        chosen: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]] = iter,
    ) -> Generator[CodedRows]:
        """The rows of a source that no rule drops, in the order in which they were read, encoded in threads.

        ``chosen`` says which of all rows are encoded.
        """
        with contextlib.closing(self.batches(source, progress=progress, may_group=may_group)) as read:
            yield from in_order(partial(self.coded, encoders=self.encoders()), chosen(read))

    def encoders(self) -> list[Encoder]:
        """What makes codes of the column of each attribute."""
        return [self.encoder(attribute) for attribute in self.attributes]

    def encoder(self, attribute: Attribute) -> Encoder:
        """What makes codes of an attribute's column."""
        rule = self.rules.rule(attribute.name, attribute)
        return Encoder.of(attribute, column=self.rules.column(attribute.name), rule=rule)

    def coded(self, batch: pa.RecordBatch, encoders: Sequence[Encoder]) -> CodedRows:
        """The rows of a batch that no rule drops."""
        dropped: NDArray[np.bool_] | None = None
        codes = []
        for encoder in encoders:
            cells, lost = encoder.cells(batch)
            codes.append(cells)
            if lost is not None:
                dropped = lost if dropped is None else dropped | lost
        codes += [steps_of(measure, self._texts(measure.name, batch)) for measure in self.measures]
        weights = batch.column(WEIGHT).to_numpy() if WEIGHT in batch.schema.names else None
        ids = None if self.schema.unit is None else self.ids(batch)
        rows = CodedRows(batch.num_rows, codes, weights=weights, ids=ids)
        return rows if dropped is None else rows.where(~dropped)

    def ids(self, batch: pa.RecordBatch) -> pa.Array:
        """The id of each row's unit as its canonical text (large_string); null where there is none."""
        assert self.schema.unit is not None
        return canonical_texts(self.schema.unit.id, self._texts(self.schema.unit.id, batch))

    def _texts(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        """The column of a unit's id or of a measure, after its rule where it has one."""
        column, rule = batch.column(self.rules.column(name)), self.rules.rule(name)
        return column if rule is None else read_texts(name, column, rule)


def unit_column(schema: Schema) -> str | None:
    """The column of the unit's id, where the schema has a unit."""
    rules = schema.reading if isinstance(schema.reading, RowReading) else RowReading()
    return None if schema.unit is None else rules.column(schema.unit.id)


def note_reading(digest: str | None, ledger: Path | None, key: str) -> None:
    """Note in a file next to the ledger, for the steward only, the reading of a spend: a line with its key.

    A ledger may be shown to others, and a digest of a short reading can be guessed: so it is in none. Without a reading
    or a file nothing is noted.
    """
    if ledger is None or digest is None:
        return
    path = ledger.with_name(f"{ledger.name}.readings")
    line = json.dumps({"key": key, "reading": digest}) + "\n"
    try:
        add_private_line(path, line)
    except OSError as error:
        raise SourceError(f"cannot note the reading in {str(path)!r}: {error.strerror}; nothing was spent") from None
