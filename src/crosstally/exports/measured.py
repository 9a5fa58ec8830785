"""Large tables as CSV and Parquet, a piece at a time, with all measures: count, std_error, count_low, count_high."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from crosstally.exports.cells import MEASURES, free_name, without_dust
from crosstally.exports.inert import inert
from crosstally.tables import USUAL_LEVEL

if TYPE_CHECKING:
    from crosstally.tables import Marginal
    from crosstally.typing import Floats

__all__ = ["csv_pieces", "parquet_pieces"]

_ROWS = 50_000
"""Rows of a piece: a few megabytes of text."""


def csv_pieces(marginal: Marginal, *, level: float | None = None, raw: bool = False) -> Iterator[str]:
    """The lines of a CSV file, the names first. Unknown errors are empty; formulas are inert unless wanted ``raw``."""
    text_of = str if raw else inert
    labels = [[text_of(label) for label in attribute.labels] for attribute in marginal.schema.attributes]
    yield _lines([[*map(text_of, marginal.attributes), *_names(marginal)]])
    for codes, numbers in _pieces(marginal, level):
        texts = [[own[code] for code in axis.tolist()] for own, axis in zip(labels, codes, strict=True)]
        columns = [["" if np.isnan(x) else repr(without_dust(x)) for x in column.tolist()] for column in numbers]
        yield _lines(zip(*texts, *columns, strict=True))


def parquet_pieces(marginal: Marginal, *, level: float | None = None) -> Iterator[bytes]:
    """The bytes of a Parquet file: texts for labels, numbers, null where an error is not known."""
    names = [*marginal.attributes, *_names(marginal)]
    types = [pa.string()] * len(marginal.attributes) + [pa.float64()] * len(MEASURES)
    sink = io.BytesIO()
    with pyarrow.parquet.ParquetWriter(sink, pa.schema(list(zip(names, types, strict=True)))) as writer:
        for codes, numbers in _pieces(marginal, level):
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


def _names(marginal: Marginal) -> list[str]:
    return [free_name(name, marginal.attributes) for name in MEASURES]


def _pieces(marginal: Marginal, level: float | None) -> Iterator[tuple[list[np.ndarray], list[Floats]]]:
    """The codes of each attribute and the numbers of each measure, some rows at a time, the last attribute fastest."""
    low, high = marginal.interval(USUAL_LEVEL if level is None else level)
    numbers = [np.asarray(each).reshape(-1) for each in (marginal.values, marginal.std_error, low, high)]
    for start in range(0, marginal.values.size, _ROWS):
        places = np.arange(start, min(start + _ROWS, marginal.values.size))
        codes = list(np.unravel_index(places, marginal.values.shape)) if marginal.values.ndim else []
        yield codes, [each[places] for each in numbers]


def _lines(rows: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()
