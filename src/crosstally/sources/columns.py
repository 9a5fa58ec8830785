"""The columns of a source that a schema needs, by their names there, and how each of them is read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.schema import Attribute, RowReading, Schema
from crosstally.sources.codes.encode import Encoder
from crosstally.sources.codes.read import read_texts
from crosstally.sources.codes.texts import canonical_texts

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class Columns:
    """A schema and its reading, ready for batches of rows."""

    schema: Schema
    reading: RowReading

    @classmethod
    def of(cls, schema: Schema) -> Columns:
        """The columns of a schema; raises when its reading was left behind, since values would be misread."""
        if isinstance(schema.reading, RowReading) and schema.reading.file:
            raise SourceError("reading: file is not used by this crosstally yet: leave it out")
        if schema.reading is None or isinstance(schema.reading, RowReading):
            return cls(schema, schema.reading or RowReading())
        raise SourceError(
            "the schema does not say how its rows are read: its reading is in the steward's own file; "
            "give the schema from that file too (--schema FILE, or schema=...)"
        )

    @property
    def needed(self) -> list[str]:
        """The names of the columns in the source, each once; two attributes may come from one column."""
        unit = () if self.schema.unit is None else (self.schema.unit.id,)
        return list(dict.fromkeys(self.reading.column(name) for name in (*self.schema.names, *unit)))

    def encoder(self, attribute: Attribute) -> Encoder:
        """What makes cells of an attribute's column."""
        rule = self.reading.rule(attribute.name, attribute)
        return Encoder.of(attribute, column=self.reading.column(attribute.name), rule=rule)

    def ids(self, batch: pa.RecordBatch) -> pa.Array:
        """The id of each row's unit as text (large_string); null where there is none."""
        assert self.schema.unit is not None
        name = self.schema.unit.id
        column, rule = batch.column(self.reading.column(name)), self.reading.rule(name)
        return canonical_texts(name, column) if rule is None else read_texts(name, column, rule)
