"""An answer as a Parquet file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from crosstally.exports.formats import number_names, pieces

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal


def parquet_pieces(marginal: Marginal, *, level: float | None = None, draws: bool = False) -> Iterator[bytes]:
    """The bytes of the file, a row for each cell as CSV has them: texts for labels, null where an error is unknown."""
    names = number_names(marginal, draws=draws)
    fields = [(name, pa.string()) for name in marginal.attributes] + [(name, pa.float64()) for name in names]
    about = {"crosstally.source": marginal.caption, "crosstally.counted": marginal.schema.counted}
    sink = io.BytesIO()
    with pyarrow.parquet.ParquetWriter(sink, pa.schema(fields, metadata=about)) as writer:
        for codes, numbers in pieces(marginal, level=level, draws=draws):
            texts = [
                pa.array(attribute.labels, pa.string()).take(pa.array(axis))
                for attribute, axis in zip(marginal.schema.attributes, codes, strict=True)
            ]
            columns = [pa.array(column, pa.float64(), from_pandas=True) for column in numbers]
            writer.write_table(pa.Table.from_arrays([*texts, *columns], schema=writer.schema))
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()
