"""Read a release from its file, which is untrusted: any mismatch is a ReleaseError in one line.

The columns are checked against the header (``header``), and the sizes that the Parquet file declares, before memory is
allocated or anything is decompressed. A page of a few kilobytes may claim to decompress to gigabytes, and Parquet
readers allocate the memory before they notice. Column positions are also read from the footer here, because
pyarrow aborts the process when it reads contradictory column metadata. Both are Thrift structures in the compact
protocol; unneeded fields are skipped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.bootstrap import MOST_EXPONENT, Replicates
from crosstally.inference.estimates import smallest_cell
from crosstally.json_text import JsonError, read_json
from crosstally.measurements import Measurement
from crosstally.releases.file.header import (
    DIGEST_KEY,
    HEADER_KEY,
    KEPT,
    MAX_EXACT,
    ReleaseHeader,
    arrow_schema,
    content_names,
    digest,
    kept_width,
    least_size,
    places,
    read_header,
)
from crosstally.releases.publication import check_promise
from crosstally.releases.release import Release
from crosstally.residuals import Estimate, combine
from crosstally.residuals.nested import extended_measurements

# Arrow closes a page at 1 MiB, looking after every 1,024 rows, so every page but the last of a column has at least as
# many rows. In addition a column has a dictionary and, if that grew too large, one more page.
PAGE_ROWS = 1024
# Beside those of 1,024 rows: the last one, the dictionary, and the one where the dictionary was given up.
_MORE_PAGES = 3
# Bytes for each row: a number of 8 in the dictionary, its place there, and the same in full once the dictionary is
# given up. For each page: lengths of its parts.
_ROW_BYTES, _PAGE_BYTES = 24, 64
# The first bytes of a Zstandard frame. The pages are checked for it: pyarrow aborts the process on an unknown codec.
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
# A limit: page headers and footers of Parquet are at most seven deep, and a forged one must not fill the stack.
_MAX_DEPTH = 8
# Limits time: bytes of the footer that are parsed for each column of each group, and in addition. Arrow's have
# below 150; a text counts as one byte, however long it is.
_FOOTER_BYTES, _MORE_FOOTER = 256, 65_536
_DAMAGED = "it is damaged: a page of numbers has no sound header"
_DAMAGED_FOOTER = "it is damaged: its Parquet structure cannot be read"
# Fields of the footer, by their numbers in Parquet's definition: where row groups, columns, their metadata and in these
# the size and the first page of data and of the dictionary stand.
_GROUPS, _COLUMNS, _METADATA, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 4, 1, 3, 7, 9, 11
# The types of Thrift's compact protocol, by their numbers in its specification.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The position of a column chunk; None for a dictionary that does not exist."""

    size: int
    data_page: int
    dictionary_page: int | None


def chunks_of(data: bytes, *, columns: int) -> list[list[Chunk]]:
    """The column chunks of each row group, from the footer of a file whose groups have at most this many columns."""
    length = int.from_bytes(data[-8:-4], "little")
    if length > len(data) - 12:
        raise ReleaseError(_DAMAGED_FOOTER)
    reader = _Reader(data, len(data) - 8 - length, len(data) - 8, _DAMAGED_FOOTER)
    reader.left = _MORE_FOOTER + _FOOTER_BYTES * columns
    groups: list[list[Chunk]] = []
    for field, kind in reader.fields():
        if (field, kind) != (_GROUPS, _LIST):
            reader.skip(kind, 1)
            continue
        groups = []
        for _ in reader.structs():
            reader.left += _FOOTER_BYTES * columns
            groups.append(_chunks_of_group(reader))
    return groups


def _chunks_of_group(reader: _Reader) -> list[Chunk]:
    chunks: list[Chunk] = []
    for field, kind in reader.fields():
        if (field, kind) != (_COLUMNS, _LIST):
            reader.skip(kind, 2)
            continue
        chunks = []
        for _ in reader.structs():
            found: dict[int, int] = {}
            for inner, inner_kind in reader.fields():
                if (inner, inner_kind) == (_METADATA, _STRUCT):
                    found |= reader.numbers(_I64, (_SIZE, _DATA_PAGE, _DICTIONARY_PAGE), 4)
                else:
                    reader.skip(inner_kind, 3)
            chunks.append(Chunk(found.get(_SIZE, -1), found.get(_DATA_PAGE, -1), found.get(_DICTIONARY_PAGE)))
    return chunks


def check_pages(data: bytes, chunk: Chunk, *, rows: int) -> None:
    """Raise unless the pages of a column chunk are within the file, and not more or larger than its rows need.

    Args:
        data: The whole file.
        chunk: Where it lies.
        rows: How many numbers the chunk has.
    """
    most_pages = _MORE_PAGES + rows // PAGE_ROWS
    most_bytes = _ROW_BYTES * rows + _PAGE_BYTES * most_pages
    first, dictionary = chunk.data_page, chunk.dictionary_page
    at = dictionary if dictionary is not None and 0 < dictionary < first else first
    end = at + chunk.size
    if not 0 < at <= end <= len(data):
        raise ReleaseError("it is damaged: a column lies outside the file")
    pages = together = 0
    while at < end:
        reader = _Reader(data, at, end, _DAMAGED)
        sizes = reader.numbers(_I32, (2, 3), 1)  # afterwards the reader is after the header
        unpacked, packed = sizes.get(2, -1), sizes.get(3, -1)
        at = reader.at + packed
        if unpacked < 0 or packed < 0:
            raise ReleaseError(_DAMAGED)
        pages, together = pages + 1, together + unpacked
        if together > most_bytes:
            raise ReleaseError(f"a column of {rows:,} numbers must unpack to at most {most_bytes:,} bytes, got more")
        if pages > most_pages:
            raise ReleaseError(f"a column of {rows:,} numbers must have at most {most_pages:,} pages, got more")
        if at > end:
            raise ReleaseError(_DAMAGED)
        if not data.startswith(_ZSTANDARD, reader.at, at):
            raise ReleaseError("its numbers must be compressed with Zstandard")


class _Reader:
    """A place in a Thrift structure of the compact protocol; ``left`` is how many bytes may still be parsed."""

    def __init__(self, data: bytes, at: int, end: int, damaged: str) -> None:
        self.data, self.at, self.end, self.damaged = data, at, end, damaged
        self.left = end - at

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and the type of each field of a struct; the caller reads or skips it before the next."""
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._number()
            yield field, head & 15

    def numbers(self, kind: int, wanted: tuple[int, ...], depth: int) -> dict[int, int]:
        """The wanted fields of a struct, whole numbers of one type; the others are skipped."""
        found = {}
        for field, its_kind in self.fields():
            if field in wanted and its_kind == kind:
                found[field] = self._number()
            else:
                self.skip(its_kind, depth)
        return found

    def structs(self) -> range:
        """One iteration for each struct of a list; the caller reads it."""
        kind, size = self._list()
        if size and kind != _STRUCT:
            raise ReleaseError(self.damaged)
        return range(size)

    def _list(self) -> tuple[int, int]:
        """The type of the elements of a list, and how many there are."""
        head = self._byte()
        return head & 15, head >> 4 if head >> 4 < 15 else self._unsigned()

    def _byte(self) -> int:
        self.left -= 1
        if self.at >= self.end or self.left < 0:
            raise ReleaseError(self.damaged)
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ReleaseError(self.damaged)

    def _number(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def skip(self, kind: int, depth: int) -> None:
        """Skip a value of this type."""
        if depth > _MAX_DEPTH:
            raise ReleaseError(self.damaged)
        if kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            length = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self._unsigned()  # which moves on by itself
            self.at += length
            self.left -= 1
            if self.at > self.end or self.left < 0:
                raise ReleaseError(self.damaged)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            inner, size = self._list()
            for _ in range(size):
                self.skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ReleaseError(self.damaged)  # neither page headers nor footers hold maps


MAX_FILE = 512 * 2**20  # limits memory: the file is read as a whole. ``MAX_CELLS`` numbers take a tenth of it
_MORE_GROUPS = 16  # groups of rows of a small file; each takes some tenths of a millisecond to open
_PIECE = 2**18  # numbers checked at once
# Relative to the largest cell and the number of cells: rounding of doubles, too small to be visible.
_CONSISTENT = 1e-9

_BAD_PARQUET = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


def open_release(path: str | Path) -> Release:
    """The release in a file. Nothing is inferred again: the estimate is the one that was saved."""
    try:
        return _read_release(_read_bytes(_as_path(path)))
    except CrosstallyError as error:
        raise ReleaseError(f"cannot read the release {str(path)!r}: {error}") from None


def origins_in(path: Path) -> list[str]:
    """Where the measurements of a release file say they come from, unchecked; nothing for other files."""
    import pyarrow.parquet as pq

    try:
        fields = read_json((pq.read_metadata(path).metadata or {}).get(HEADER_KEY, b""))
        return [str(each["origin"]) for each in fields["mechanisms"]]
    except (*_BAD_PARQUET, JsonError, KeyError, TypeError):
        return []


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
            metadata = file.metadata.metadata or {}
            header = read_header(metadata.get(HEADER_KEY), file.metadata.num_rows)
            if len(data) < (least := least_size(file.metadata.num_rows)):
                raise ReleaseError(f"with {file.metadata.num_rows:,} rows it must have at least {least:,} bytes")
            columns = _read_columns(file, data, header)
    except _BAD_PARQUET:
        raise ReleaseError("it is damaged: its Parquet structure cannot be read") from None
    if metadata.get(DIGEST_KEY) != digest(metadata[HEADER_KEY], columns):
        raise ReleaseError("it is damaged or was changed: its numbers do not match their checksum")
    _check_columns(columns, header)
    return _release(header, {name: columns.pop(name) for name in ("value", "estimate", KEPT) if name in columns})


def _read_columns(file: Any, data: bytes, header: ReleaseHeader) -> dict[str, NDArray[Any]]:
    """The four columns of content, after checking everything that is declared about them."""
    found, wanted = file.schema_arrow, content_names(kept=header.kept is not None)
    width = 0 if header.kept is None else _kept_width(found, header.kept.number)
    expected = arrow_schema(header.schema, pa.int64() if header.whole else pa.float64(), width)
    if tuple(found.names) != tuple(expected.names) or found.types[: len(wanted)] != expected.types[: len(wanted)]:
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
        for chunk in own[: len(wanted)]:
            check_pages(data, chunk, rows=group.num_rows)
    columns = {}
    for name in wanted:  # one by one: Arrow's copy of a column is freed before the next one is read
        table = file.read(columns=[name], use_threads=False)
        if table.num_rows != file.metadata.num_rows or table.column(0).null_count:
            raise ReleaseError("it is damaged: some of its numbers are missing")
        columns[name] = _numbers_of(table.column(0))
    return columns


def _kept_width(found: pa.Schema, number: int) -> int:
    """How many bytes of what replicates came to each row says it has: no more than a coefficient for each row needs."""
    index = found.get_field_index(KEPT)
    kind = found.field(index).type if index >= 0 else None
    # the number of rows may be public: then one coefficient has no row
    if not isinstance(kind, pa.FixedSizeBinaryType) or not 0 < kind.byte_width <= number + 2:
        raise ReleaseError(f"its column {KEPT} must have at most {number + 2} bytes in each row")
    return int(kind.byte_width)


def _numbers_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """The numbers of a column without nulls, or the bytes of each row. Arrow's own way would import pandas."""
    wide = isinstance(column.type, pa.FixedSizeBinaryType)
    dtype: np.dtype[Any] = np.dtype(np.uint8 if wide else _NUMBERS[column.type])
    width = column.type.byte_width if wide else 1
    parts = [
        np.frombuffer(each.buffers()[1], dtype, len(each) * width, each.offset * width * dtype.itemsize)
        for each in column.chunks
        if len(each)
    ]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, dtype)])
    return whole.reshape(-1, width) if wide else whole


_NUMBERS = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64}


def _kept(header: ReleaseHeader, columns: Mapping[str, NDArray[Any]], coefficients: int) -> Replicates | None:
    """The replicates that the file keeps, checked."""
    if header.kept is None:
        return None
    number, column = header.kept.number, columns[KEPT]
    if kept_width(number, coefficients, len(column)) != column.shape[1]:
        raise ReleaseError(f"its column {KEPT} must have the bytes of {number} replicates of its estimate")
    numbers = column.ravel().view(np.int8)
    exponents, levels, rest = np.split(numbers, [coefficients, (1 + number) * coefficients])
    if rest.any() or np.abs(exponents.astype(np.int16)).max(initial=0) > MOST_EXPONENT:
        raise ReleaseError(f"its column {KEPT} must end with zeros and hold exponents of at most {MOST_EXPONENT}")
    return Replicates(levels.reshape(number, -1), exponents, header.kept.stretches, header.kept.left)


def _check_columns(columns: Mapping[str, NDArray[Any]], header: ReleaseHeader) -> None:
    """Raise unless rows are in order and all numbers are valid."""
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
    units = () if header.unit_rows is None else (header.unit_rows,)
    check_promise(header.schema, header.statement, (*measured, *units, *header.totals), header.choices)
    estimate = _estimate(header, fitted)
    return Release(
        header.schema,
        tuple(measured),
        statement=header.statement,
        estimate=estimate,
        nonnegative=header.nonnegative,
        rounds=header.rounds,
        variances_left=header.variances_left,
        choices=header.choices,
        unit_rows=header.unit_rows,
        kept=_kept(header, columns, len(estimate.keys)),
        totals=header.totals,
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
