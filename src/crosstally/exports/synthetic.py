"""Synthetic data as files. Each row says that it is no person: rows are copied, joined and cut, notes get lost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from crosstally.exports.csv_table import inert
from crosstally.exports.formats import free_name
from crosstally.platform_files import whole_file

if TYPE_CHECKING:
    from crosstally.synthesis import SyntheticData


def write_rows(rows: SyntheticData, path: Path, *, raw: bool = False) -> None:
    """Write rows as Parquet or, where the file's name ends in .csv, as CSV.

    A last column, ``synthetic``, has the warning in short. In CSV labels that a spreadsheet would take for formulas are
    made inert, unless they are wanted ``raw``.
    """
    table = rows.to_arrow()
    name = free_name("synthetic", table.column_names)
    table = table.append_column(name, _note(rows)).replace_schema_metadata(table.schema.metadata)
    if path.suffix.lower() != ".csv":
        with whole_file(path) as file:
            pyarrow.parquet.write_table(table, file)
        return
    columns = [_plain(column.combine_chunks(), raw) for column in table.columns]
    names = table.column_names if raw else [inert(each) for each in table.column_names]
    with whole_file(path) as file:
        pyarrow.csv.write_csv(pa.Table.from_arrays(columns, names=names), file)


def _note(rows: SyntheticData) -> pa.DictionaryArray:
    wider = "" if math.isnan(rows.factor) else f" {max(rows.factor, 1.0):.2g} times"
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(rows), np.int8)), pa.array([f"not a person; widen intervals{wider}"])
    )


def _plain(column: pa.DictionaryArray, raw: bool) -> pa.Array:
    labels = column.dictionary.to_pylist()
    return pa.array(labels if raw else [inert(label) for label in labels], pa.string()).take(column.indices)
