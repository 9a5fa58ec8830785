"""Rows of a source as codes: which columns a schema needs, how each is read, and each row's cells after every rule.

The codes of a row depend on that row alone. What is made of them here is handed to ``counts``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.platform_files import add_private_line
from crosstally.query.queries import Product
from crosstally.schema import Attribute, Outside, RowReading, Schema
from crosstally.sources.codes.encode import Encoder, canonical_texts, read_texts
from crosstally.sources.counts import BATCH_ROWS, CodedRows
from crosstally.sources.reading_options import NO_OPTIONS, Reading, numeric_columns
from crosstally.sources.source import WEIGHT, Scan, Source
from crosstally.threads import in_order

__all__ = ["RowEncoding", "note_reading", "unit_column"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEncoding:
    """How the rows of a source become codes: by a schema, its ``rules`` for values, and how the source is written.

    ``attributes`` are those whose codes are needed. With ``refuse_unclear`` numbers that may be meant in two ways are
    refused; else they have a decimal point. It travels to Spark's workers.
    """

    schema: Schema
    rules: RowReading
    reading: Reading
    attributes: tuple[Attribute, ...]
    refuse_unclear: bool = True
    batch_rows: int = BATCH_ROWS

    @classmethod
    def of(
        cls,
        schema: Schema,
        reading: Reading = NO_OPTIONS,
        *,
        tables: Sequence[Product] | None = None,
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
        written = reading.or_else(remembered)
        return cls(
            schema=schema,
            rules=rules,
            reading=written,
            attributes=attributes,
            refuse_unclear=refuse_unclear,
            batch_rows=batch_rows,
        )

    @property
    def digest(self) -> str | None:
        """The digest of how rows are read, None where nothing is said of it.

        What was given beside the schema is part of the reading, as if it stood there.
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
        return list(dict.fromkeys(map(self.rules.column, (*self.schema.names, *unit))))

    def scan(self, *, may_group: bool = False) -> Scan:
        """What is wanted of a source. Where there are units no rows are grouped: each must come with its id."""
        dates = {name for name, own in self.rules.columns.items() if own.date is not None}
        numeric = [name for name in numeric_columns(self.schema) if name not in dates] if self.refuse_unclear else []
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
        with closing(self.batches(source, progress=progress, may_group=may_group)) as read:
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
        weights = batch.column(WEIGHT).to_numpy() if WEIGHT in batch.schema.names else None
        ids = None if self.schema.unit is None else self.ids(batch)
        rows = CodedRows(batch.num_rows, codes, weights=weights, ids=ids)
        return rows if dropped is None else rows.where(~dropped)

    def ids(self, batch: pa.RecordBatch) -> pa.Array:
        """The id of each row's unit as its canonical text (large_string); null where there is none."""
        assert self.schema.unit is not None
        name = self.schema.unit.id
        column, rule = batch.column(self.rules.column(name)), self.rules.rule(name)
        return canonical_texts(name, column if rule is None else read_texts(name, column, rule))


def unit_column(schema: Schema) -> str | None:
    """The column of the unit's id, where the schema has a unit."""
    rules = schema.reading if isinstance(schema.reading, RowReading) else RowReading()
    return None if schema.unit is None else rules.column(schema.unit.id)


def note_reading(digest: str | None, ledger: Path | None, key: str) -> None:
    """Note beside the ledger, for the steward alone, by which reading a spend was counted: a line with its key.

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
