"""Public data for experiments: a real file where there is one, generated rows where not, and a label that says which.

Real files are looked for in the folder that the environment variable ``CROSSTALLY_DATA`` names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.generate.people import resample
from crosstally.schema import Attribute, Schema
from crosstally_lab.generate.transactions import transactions

FOLDER_VARIABLE = "CROSSTALLY_DATA"
_KOSARAK, _MSNBC = "kosarak-100k-top32.parquet", "msnbc-17.parquet"
_VISITORS = 989_818  # of MSNBC: as many rows are generated where there is no file


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that an experiment may show beside its answers, their schema, and what to call them."""

    table: pa.Table
    schema: Schema
    _: KW_ONLY
    label: str


def find(name: str) -> Path | None:
    """The path of a data file in the folder of ``CROSSTALLY_DATA``; None when the folder or the file is absent."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    path = Path(folder) / name
    return path if path.is_file() else None


def read_as(kind: str, path: Path, read: Callable[[Path], pa.Table]) -> pa.Table:
    """The rows that ``read`` finds in a file; a file that is absent or not of this kind is an error that says so."""
    try:
        return read(path)
    except FileNotFoundError:
        raise SourceError(f"there is no file {str(path)!r}") from None
    except (OSError, pa.ArrowInvalid):
        raise SourceError(f"cannot read {str(path)!r} as a {kind}") from None


def read_binary(path: str | Path) -> tuple[pa.Table, Schema]:
    """The rows of a Parquet or CSV file whose columns hold 0 and 1, and a schema of two values for each column."""
    path = Path(path)
    table = read_as(f"{path.suffix} file", path, _read)
    for name in table.column_names:
        if not pa.types.is_integer(table.schema.field(name).type) or table[name].null_count:
            raise SourceError(f"{str(path)!r}: the column {name!r} must hold 0 and 1 only")
    return table, Schema(tuple(Attribute(name, ("0", "1")) for name in table.column_names))


def _read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path)
    if path.suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.read_csv(path)
    raise SourceError(f"a data file must end in .parquet or .csv, got {str(path)!r}")


def clicks(rows: int, random: np.random.Generator, *, attributes: int = 32, path: str | Path | None = None) -> Rows:
    """Click streams: the file given, else Kosarak where it is found, resampled to so many rows; else generated ones."""
    source = find(_KOSARAK) if path is None else Path(path)
    if source is None:
        table, schema = transactions(rows, attributes, random)
        return Rows(table, schema, label="generated transactions")
    table, schema = read_binary(source)
    names = schema.names[:attributes]
    name = "Kosarak" if path is None else source.name
    return Rows(resample(table.select(names), rows, random), schema.subset(*names), label=f"{name}, resampled")


def searches(rows: int, random: np.random.Generator, *, attributes: int = 45) -> Rows:
    """Generated rows that stand in for AOL's search log, of which no file may be had, with as many categories."""
    table, schema = transactions(rows, attributes, random)
    return Rows(table, schema, label="generated, in place of AOL")


def visits(attributes: int, random: np.random.Generator, *, path: str | Path | None = None) -> Rows:
    """Visits of the most visited pages: of the file given, else of MSNBC where it is found; else generated ones."""
    source = find(_MSNBC) if path is None else Path(path)
    if source is None:
        table, schema = transactions(_VISITORS, attributes, random)
        return Rows(table, schema, label="generated, in place of MSNBC")
    table, schema = read_binary(source)
    visitors = {name: int(table[name].to_numpy().sum()) for name in schema.names}
    most = sorted(schema.names, key=lambda name: -visitors[name])[:attributes]
    names = tuple(name for name in schema.names if name in most)
    return Rows(table.select(names), schema.subset(*names), label="MSNBC" if path is None else source.name)
