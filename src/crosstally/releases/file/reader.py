"""A release from its file.

A file may come from anywhere, so nothing in it is believed: what its columns declare is checked against the header
(``header``) before memory is taken for them, and whatever does not fit is a ReleaseError in one line.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.estimates import smallest_cell
from crosstally.measurements import Measurement
from crosstally.releases.file.format import (
    CONTENT,
    DIGEST_KEY,
    HEADER_KEY,
    MAX_EXACT,
    arrow_schema,
    digest,
    least_size,
    places,
)
from crosstally.releases.file.header import ReleaseHeader, read_header
from crosstally.releases.file.pages import PAGE_ROWS, check_pages, chunks_of
from crosstally.releases.promise import check_promise
from crosstally.releases.release import Release
from crosstally.residuals import Estimate, combine
from crosstally.residuals.nested import extended_measurements

__all__ = ["open_release"]

MAX_FILE = 512 * 2**20  # limits memory: the file is read as a whole. ``MAX_CELLS`` numbers take a tenth of it
_MORE_GROUPS = 16  # groups of rows of a small file; each takes some tenths of a millisecond to open
_PIECE = 2**18  # numbers looked at at once
# In proportion to the largest cell and their number: rounding of doubles, and nothing that anybody would see.
_CONSISTENT = 1e-9

_BAD_PARQUET = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


def open_release(path: str | Path) -> Release:
    """The release in a file. Nothing is inferred again: the estimate is the one that was saved."""
    try:
        return _read_release(_read_bytes(_as_path(path)))
    except CrosstallyError as error:
        raise ReleaseError(f"cannot read the release {str(path)!r}: {error}") from None


def _as_path(given: object) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ReleaseError(f"its path must be a text or a Path, got {type(given).__name__}; say the name of its file")
    return Path(given)


def _read_bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ReleaseError("it is not a file")
        if path.stat().st_size > MAX_FILE:
            raise ReleaseError(f"it must be at most {MAX_FILE:,} bytes, this has more")
        return path.read_bytes()
    except OSError as error:
        raise ReleaseError(error.strerror or "reading failed") from None
    except ValueError:
        raise ReleaseError("its name is not the name of a file") from None


def _read_release(data: bytes) -> Release:
    import pyarrow.parquet as pq

    if data[:4] != b"PAR1":
        raise ReleaseError("it is not a Parquet file")
    if len(data) < 12 or data[-4:] != b"PAR1":
        raise ReleaseError("it is cut short")
    try:
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True) as file:
            found = file.metadata.metadata or {}
            header = read_header(found.get(HEADER_KEY), file.metadata.num_rows)
            if len(data) < (least := least_size(file.metadata.num_rows)):
                raise ReleaseError(f"with {file.metadata.num_rows:,} rows it must have at least {least:,} bytes")
            columns = _read_columns(file, data, header)
    except _BAD_PARQUET:
        raise ReleaseError("it is damaged: its Parquet structure cannot be read") from None
    if found.get(DIGEST_KEY) != digest(found[HEADER_KEY], columns):
        raise ReleaseError("it is damaged or was changed: its numbers do not match their checksum")
    _check_columns(columns, header)
    return _release(header, {name: columns.pop(name) for name in ("value", "estimate")})


def _read_columns(file: Any, data: bytes, header: ReleaseHeader) -> dict[str, NDArray[Any]]:
    """The four columns of content, once all that is declared about them is in order."""
    found, expected = file.schema_arrow, arrow_schema(header.schema, pa.int64() if header.whole else pa.float64())
    if tuple(found.names) != tuple(expected.names) or found.types[:4] != expected.types[:4]:
        raise ReleaseError(f"its columns must be {', '.join(expected.names)}, of the types of a release")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != file.metadata.num_rows or any(g.num_rows < 1 for g in groups):
        raise ReleaseError("it is damaged: its row groups do not make its number of rows")
    most_groups = _MORE_GROUPS + file.metadata.num_rows // PAGE_ROWS  # crosstally writes 2^17 rows to a group
    if len(groups) > most_groups:
        raise ReleaseError(f"it must have at most {most_groups:,} groups of rows, got {len(groups):,}")
    chunks = chunks_of(data, columns=len(found.names))
    if len(chunks) != len(groups) or any(len(each) != len(found.names) for each in chunks):
        raise ReleaseError("it is damaged: its row groups do not have its columns")
    for group, own in zip(groups, chunks, strict=True):
        for chunk in own[: len(CONTENT)]:
            check_pages(data, chunk, rows=group.num_rows)
    columns = {}
    for name in CONTENT:  # one by one: Arrow's copy of a column goes before the next one comes
        table = file.read(columns=[name], use_threads=False)
        if table.num_rows != file.metadata.num_rows or table.column(0).null_count:
            raise ReleaseError("it is damaged: some of its numbers are missing")
        columns[name] = table.column(0).to_numpy()
    return columns


def _check_columns(columns: Mapping[str, NDArray[Any]], header: ReleaseHeader) -> None:
    """Raise unless rows are in order and all numbers are what they should be."""
    for name, expected in places(header.sizes).items():
        if not np.array_equal(columns[name], expected):
            raise ReleaseError(f"its column {name} must count its rows in order")
    for name in ("value", "estimate"):
        column = columns[name]
        pieces = (column[start : start + _PIECE].astype(np.float64) for start in range(0, len(column), _PIECE))
        if not all((np.abs(piece) <= 2.0**63).all() for piece in pieces):
            raise ReleaseError(f"its column {name} must hold finite numbers of at most 2^63")


def _release(header: ReleaseHeader, columns: Mapping[str, NDArray[Any]]) -> Release:
    stops = np.cumsum(header.sizes).tolist()
    measured, fitted = [], []
    for (kind, query, shape), stop in zip(header.measurements, stops, strict=True):
        rows = slice(stop - math.prod(shape), stop)
        values = columns["value"][rows].reshape(shape)
        if kind.values == "whole" and values.dtype != np.int64:
            values = _whole(values)
        measurement = Measurement(query, values, variance=kind.variance, noise=kind.noise, origin=kind.origin)
        measured.append(measurement)
        fitted.append(replace(measurement, values=columns["estimate"][rows].reshape(shape)))
    check_promise(header.schema, header.statement, measured, header.choices)
    return Release(
        header.schema,
        tuple(measured),
        statement=header.statement,
        estimate=_estimate(header, fitted),
        nonnegative=header.nonnegative,
        rounds=header.rounds,
        variances_left=header.variances_left,
        choices=header.choices,
    )


def _whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    if (values != np.rint(values)).any() or (np.abs(values) > MAX_EXACT).any():
        raise ReleaseError("its column value must hold whole numbers where the header says so")
    return values.astype(np.int64)


def _estimate(header: ReleaseHeader, fitted: Sequence[Measurement]) -> Estimate:
    """The saved estimate: its answers agree, so averaging gives them back, and noise gives their variances."""
    groups = header.groups
    schema, fitted = (
        (header.schema, fitted) if groups is None else (groups.extended, extended_measurements(groups, fitted))
    )
    with np.errstate(all="ignore"):
        linear = any(m.query.matrices for m in fitted)
        combined = combine(schema, fitted, groups, rows=header.statement.rows if linear else None)
        if header.statement.rows is not None:
            combined = combined.with_total(header.statement.rows)
        tables = combined.tables([m.query.attributes for m in fitted])
        for measurement, table in zip(fitted, tables, strict=True):
            again = measurement.query.answer(table)  # type: ignore[arg-type]
            largest = max(float(np.abs(each).max(initial=0)) for each in (table, again))
            scale = 1 + largest * table.size
            if not (np.abs(again - measurement.values) <= _CONSISTENT * scale).all():
                raise ReleaseError("its column estimate must hold tables that agree with each other")
    smallest = smallest_cell(combined, [m.query.attributes for m in fitted])
    return replace(combined, corrected=header.corrected, smallest=smallest)
