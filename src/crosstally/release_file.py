"""The release file: one Parquet file with a row for each measured number and a JSON header in its metadata.

``docs/release-file.md`` describes format 1 field by field. A file may come from anywhere, so nothing in it is believed:
every size is checked against the schema and the limits before memory is taken for it, variances are computed from the
noise, and whatever does not fit is a ReleaseError in one line.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.parquet_pages import check_pages
from crosstally.queries import MAX_CELLS, Contrast
from crosstally.release_header import FORMAT, Header, header_bytes, read_header
from crosstally.releases import Release
from crosstally.residuals import Estimate, combine
from crosstally.schema import Schema
from crosstally.tables import Measurement

__all__ = ["FORMAT", "open_release", "save_release"]

CONTENT = ("measurement", "cell", "value", "estimate")
READABLE = ("table", "variance")
MAX_FILE = 512 * 2**20
_HEADER_KEY, _DIGEST_KEY = b"crosstally", b"crosstally.sha256"
_GROUP_ROWS = 2**17
_MAX_EXACT = 2**53
_CONSISTENT = 1e-9
_BAD_PARQUET = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


# Saving


def save_release(release: Release, path: str | Path) -> None:
    """Write a release as a Parquet file; whoever looks sees the old file or the whole new one."""
    target = Path(path)
    header, columns = header_bytes(release), _content(release)
    metadata = {_HEADER_KEY: header, _DIGEST_KEY: _digest(header, columns)}
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        try:
            with temporary.open("xb") as stream:
                _write_parquet(stream, release, columns, metadata)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ReleaseError(f"cannot write the release {str(path)!r}: {error.strerror or 'writing failed'}") from None
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; some systems do not let a folder be opened, and need not."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _content(release: Release) -> dict[str, NDArray[Any]]:
    """The columns that hold the release, each a flat array."""
    measurements = release.measurements
    sizes = np.array([m.values.size for m in measurements], np.int64)
    tables = release.estimate.tables([m.query.attributes for m in measurements])
    answers = [m.query.answer(table) for m, table in zip(measurements, tables, strict=True)]  # type: ignore[arg-type]
    return {
        **_places(sizes),
        "value": _values(measurements),
        "estimate": _flat(answers, np.float64),
    }


def _places(sizes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The number of the measurement and of its cell, for each row."""
    starts = np.cumsum(sizes) - sizes
    return {
        "measurement": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        "cell": (np.arange(sizes.sum()) - np.repeat(starts, sizes)).astype(np.int32),
    }


def _values(measurements: Sequence[Measurement]) -> NDArray[Any]:
    """All values: whole numbers, unless some are not."""
    if all(m.values.dtype == np.int64 for m in measurements):
        return _flat([m.values for m in measurements], np.int64)
    for i, measurement in enumerate(measurements):
        if measurement.values.dtype == np.int64 and np.abs(measurement.values).max(initial=0) > _MAX_EXACT:
            raise ReleaseError(f"beside real numbers, whole ones must be at most 2^53; measurement {i} has larger ones")
    return _flat([m.values for m in measurements], np.float64)


def _flat(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.asarray(a, dtype).ravel() for a in arrays] or [np.empty(0, dtype)])


def _digest(header: bytes, columns: Mapping[str, NDArray[Any]]) -> bytes:
    """SHA-256 of the header and the content, little-endian, column after column."""
    digest = hashlib.sha256(header)
    for name in CONTENT:
        array = columns[name]
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return digest.hexdigest().encode()


# The columns for people


def column_names(schema: Schema) -> tuple[str, ...]:
    """The columns of a release of this schema: content, then readable ones, then one for each attribute.

    An attribute's column bears its name. Where the name, or what stands before its first full stop, is that of
    another column, underscores are added.
    """
    fixed = {*CONTENT, *READABLE}
    taken = set(fixed)
    names = []
    for name in schema.names:
        head, dot, tail = name.encode("utf-8", "replace").decode().partition(".")
        while head.lower() in fixed:
            head += "_"
        column = head + dot + tail
        while column.lower() in taken:
            column += "_"
        taken.add(column.lower())
        names.append(column)
    return (*CONTENT, *READABLE, *names)


_TEXTS = pa.dictionary(pa.int32(), pa.string())


def _arrow_schema(schema: Schema, value_type: pa.DataType) -> pa.Schema:
    types = [pa.int32(), pa.int32(), value_type, pa.float64(), _TEXTS, pa.float64()]
    names = column_names(schema)
    plain = [pa.field(name, kind, nullable=False) for name, kind in zip(names[: len(types)], types, strict=True)]
    return pa.schema(plain + [pa.field(name, _TEXTS) for name in names[len(types) :]])


def _write_parquet(
    stream: Any, release: Release, columns: Mapping[str, NDArray[Any]], metadata: Mapping[bytes, bytes]
) -> None:
    import pyarrow.parquet as pq

    kind = pa.from_numpy_dtype(columns["value"].dtype)
    arrow = _arrow_schema(release.schema, kind)
    numbers = ("value", "estimate")
    options = {
        "compression": "zstd",
        "use_dictionary": [name for name in arrow.names if name not in numbers],
        "write_statistics": False,
        "store_schema": False,
        "write_page_checksum": True,
    }
    labels = [
        pa.array([label.encode("utf-8", "replace").decode() for label in attribute.labels], pa.string())
        for attribute in release.schema.attributes
    ]
    with pq.ParquetWriter(stream, arrow, **options) as writer:
        writer.add_key_value_metadata(metadata)
        for start, pieces in _row_groups(release.measurements):
            stop = start + sum(piece.stop - piece.start for _, piece in pieces)
            content = [pa.array(columns[name][start:stop]) for name in CONTENT]
            readable = _readable(release, pieces, labels)
            writer.write_table(pa.Table.from_arrays(content + readable, schema=arrow), row_group_size=stop - start)


def _row_groups(measurements: Sequence[Measurement]) -> Iterator[tuple[int, list[tuple[Measurement, range]]]]:
    """Row groups of bounded size: the first row, and the cells of each measurement in it."""
    first, rows = 0, 0
    pieces: list[tuple[Measurement, range]] = []
    for measurement in measurements:
        done, cells = 0, measurement.values.size
        while done < cells:
            step = min(cells - done, _GROUP_ROWS - rows)
            pieces.append((measurement, range(done, done + step)))
            done, rows = done + step, rows + step
            if rows == _GROUP_ROWS:
                yield first, pieces
                first, rows, pieces = first + rows, 0, []
    if pieces:
        yield first, pieces


def _readable(
    release: Release, pieces: Sequence[tuple[Measurement, range]], labels: Sequence[pa.Array]
) -> list[pa.Array]:
    """For each row its table, its variance, and the label of each attribute, null where it does not take part."""
    lengths = [len(piece) for _, piece in pieces]
    texts: dict[str, int] = {}
    numbers = [texts.setdefault(table_text(measurement), len(texts)) for measurement, _ in pieces]
    tables = pa.array(np.repeat(np.array(numbers, np.int32), lengths))
    variances = np.repeat([measurement.variance for measurement, _ in pieces], lengths)
    codes, absent = _codes(release.schema, pieces, sum(lengths)), pa.nulls(sum(lengths), _TEXTS)
    return [
        pa.DictionaryArray.from_arrays(tables, pa.array(list(texts), pa.string())),
        pa.array(variances),
        *(_labelled(codes[i], labels[i]) if i in codes else absent for i in range(len(labels))),
    ]


def _codes(schema: Schema, pieces: Sequence[tuple[Measurement, range]], rows: int) -> dict[int, NDArray[np.int32]]:
    """For each attribute that takes part, by its position, the value of each row, -1 where it does not."""
    codes: dict[int, NDArray[np.int32]] = {}
    at = 0
    for measurement, piece in pieces:
        axes = [schema.positions[name] for name in measurement.query.attributes]
        cells = np.arange(piece.start, piece.stop)
        values = np.unravel_index(cells, measurement.values.shape) if axes else ()
        for axis, value in zip(axes, values, strict=True):
            if axis not in codes:
                codes[axis] = np.full(rows, -1, np.int32)
            codes[axis][at : at + len(piece)] = value
        at += len(piece)
    return codes


def _labelled(codes: NDArray[np.int32], labels: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels)


def table_text(measurement: Measurement) -> str:
    """What was measured, for people."""
    names = " x ".join(measurement.query.attributes).encode("utf-8", "replace").decode()
    return f"contrast of {names}" if isinstance(measurement.query, Contrast) else names or "total"


# Opening


def open_release(path: str | Path) -> Release:
    """The release in a file. Nothing is inferred again: the estimate is the one that was saved."""
    try:
        return _read_release(_read_bytes(Path(path)))
    except CrosstallyError as error:
        raise ReleaseError(f"cannot read the release {str(path)!r}: {error}") from None


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
            header = read_header(found.get(_HEADER_KEY), file.metadata.num_rows)
            columns = _read_columns(file, data, header)
    except _BAD_PARQUET:
        raise ReleaseError("it is damaged: its Parquet structure cannot be read") from None
    if found.get(_DIGEST_KEY) != _digest(found[_HEADER_KEY], columns):
        raise ReleaseError("it is damaged or was changed: its numbers do not match their checksum")
    _check_columns(columns, header)
    return _release(header, columns)


def _read_columns(file: Any, data: bytes, header: Header) -> dict[str, NDArray[Any]]:
    """The four columns of content, once all that is declared about them is in order."""
    found, expected = file.schema_arrow, _arrow_schema(header.schema, pa.int64() if header.whole else pa.float64())
    if tuple(found.names) != tuple(expected.names) or found.types[:4] != expected.types[:4]:
        raise ReleaseError(f"its columns must be {', '.join(expected.names)}, of the types of format {FORMAT}")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != file.metadata.num_rows or any(g.num_rows < 1 for g in groups):
        raise ReleaseError("it is damaged: its row groups do not make its number of rows")
    for group in groups:
        for column in range(len(CONTENT)):
            check_pages(data, group.column(column), most_bytes=8 * MAX_CELLS + 2**20)
    table = file.read(columns=list(CONTENT), use_threads=False)
    if table.num_rows != file.metadata.num_rows or any(column.null_count for column in table.columns):
        raise ReleaseError("it is damaged: some of its numbers are missing")
    return {name: table.column(name).to_numpy() for name in CONTENT}


def _check_columns(columns: Mapping[str, NDArray[Any]], header: Header) -> None:
    """Raise unless rows are in order and all numbers are what they should be."""
    for name, expected in _places(header.sizes).items():
        if not np.array_equal(columns[name], expected):
            raise ReleaseError(f"its column {name} must count its rows in order")
    for name in ("value", "estimate"):
        if not (np.abs(columns[name].astype(np.float64)) <= 2.0**63).all():
            raise ReleaseError(f"its column {name} must hold finite numbers of at most 2^63")


def _release(header: Header, columns: Mapping[str, NDArray[Any]]) -> Release:
    stops = np.cumsum(header.sizes).tolist()
    measured, fitted = [], []
    for (mechanism, query, shape), stop in zip(header.measurements, stops, strict=True):
        rows = slice(stop - math.prod(shape), stop)
        values = columns["value"][rows].reshape(shape)
        if mechanism.values == "whole" and values.dtype != np.int64:
            values = _whole(values)
        measurement = Measurement(
            query, values, variance=mechanism.variance, noise=mechanism.noise, origin=mechanism.origin
        )
        measured.append(measurement)
        fitted.append(replace(measurement, values=columns["estimate"][rows].reshape(shape)))
    return Release(
        header.schema,
        tuple(measured),
        statement=header.statement,
        estimate=_estimate(header, fitted),
        nonnegative=header.nonnegative,
        rounds=header.rounds,
    )


def _whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    if (values != np.rint(values)).any() or (np.abs(values) > _MAX_EXACT).any():
        raise ReleaseError("its column value must hold whole numbers where the header says so")
    return values.astype(np.int64)


def _estimate(header: Header, fitted: Sequence[Measurement]) -> Estimate:
    """The saved estimate: its answers agree, so averaging gives them back, and noise gives their variances."""
    with np.errstate(all="ignore"):
        combined = combine(header.schema, fitted)
        if header.statement.rows is not None:
            combined = combined.with_total(header.statement.rows)
        tables = combined.tables([m.query.attributes for m in fitted])
        for measurement, table in zip(fitted, tables, strict=True):
            again = measurement.query.answer(table)  # type: ignore[arg-type]
            scale = 1 + float(np.abs(table).max(initial=0)) * table.size
            if not (np.abs(again - measurement.values) <= _CONSISTENT * scale).all():
                raise ReleaseError("its column estimate must hold tables that agree with each other")
    return replace(combined, corrected=header.corrected)
