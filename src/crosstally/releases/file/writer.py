"""Write a release to its file: one Parquet file with a row for each measured number and a JSON header in its metadata.

A release is rehearsed before it is paid for, with zeros in place of the measurements. Spent budget cannot be refunded,
so everything that publishing, saving or opening a release could refuse is tried first, by the publishing code itself:
schema, groups, matrices, numbers of cells and the size of the header do not depend on any measured value. Nothing is
solved, so this takes a small part of the time of planning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import ReleaseError
from crosstally.inference.bootstrap import Replicates
from crosstally.measurements import Chosen, Measurement
from crosstally.plans.request import Request
from crosstally.platform_files import whole_file
from crosstally.query.choice import Choice
from crosstally.query.ways import all_matrices_of
from crosstally.releases.file.header import (
    DIGEST_KEY,
    FORMAT,
    HEADER_KEY,
    KEPT,
    MAX_EXACT,
    MAX_HEADER,
    ROOM_KEY,
    TEXTS,
    MeasurementKind,
    arrow_schema,
    content_names,
    digest,
    kept_width,
    least_size,
    places,
    read_header,
)
from crosstally.releases.publication import check_promise, unsolved
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement
from crosstally.schema import Schema

_GROUP_ROWS = 2**17  # rows of a group: readers unpack one group at a time, a megabyte for each column of numbers


def save_release(release: Release, path: str | Path) -> None:
    """Write a release as a Parquet file, atomically."""
    check_promise(release.schema, release.statement, release.bought, release.choices)
    kept, columns = release.replicates_to_keep(), _content(release)
    try:
        with whole_file(path) as stream:
            _write(stream, release, columns, header_bytes(release))
            numbers = None if kept is None else _kept_column(kept, len(columns["value"]))
            # Replicates are left out where they would more than double the file: they can be found again
            if kept is not None and numbers is not None and _packed_size(numbers) <= stream.tell():
                stream.seek(0)
                _write(stream, release, {**columns, KEPT: numbers}, header_bytes(release, kept))
                stream.truncate()
    except OSError as error:
        raise ReleaseError(f"cannot write the release {str(path)!r}: {error.strerror or 'writing failed'}") from None


def _write(stream: Any, release: Release, columns: Mapping[str, NDArray[Any]], header: bytes) -> None:
    """Write the whole file, large enough for its numbers."""
    metadata = {HEADER_KEY: header, DIGEST_KEY: digest(header, columns)}
    _write_parquet(stream, release, columns, metadata)
    missing = least_size(len(columns["value"])) - stream.tell()
    if missing > 0:
        stream.seek(0)
        _write_parquet(stream, release, columns, {**metadata, ROOM_KEY: b" " * missing})


def _kept_column(kept: Replicates, rows: int) -> NDArray[np.uint8]:
    """What replicates came to, byte after byte, in as many rows as the file has: exponents first, zeros at the end."""
    numbers = np.concatenate([kept.exponents, kept.levels.ravel()]).view(np.uint8)
    width = kept_width(len(kept.levels), len(kept.exponents), rows)
    return np.pad(numbers, (0, width * rows - len(numbers))).reshape(rows, width)


def _packed_size(numbers: NDArray[np.uint8]) -> int:
    return len(pa.Codec("zstd").compress(numbers.tobytes()))


def header_bytes(release: Release, kept: Replicates | None = None) -> bytes:
    """The header of a release, whose file keeps these replicates."""
    kinds: dict[MeasurementKind, int] = {}
    positions, matrices = release.schema.positions, all_matrices_of([m.query for m in release.measurements])
    measurements = []
    for measurement in release.measurements:
        number = kinds.setdefault(MeasurementKind.of(measurement, matrices), len(kinds))
        measurements.append([number, *(positions[name] for name in measurement.query.attributes)])
    left = [[variance, *(positions[name] for name in names)] for names, variance in release.variances_left.items()]
    groups = release.estimate.groups
    header: dict[str, Any] = {
        "format": FORMAT,
        "schema": release.schema.to_dict(),
        "statement": release.statement.to_dict(),
        "estimate": {
            "inference": release.nonnegative,
            "rounds": release.rounds,
            "corrected": release.estimate.corrected,
            "variances": left,
        },
        "mechanisms": [kind.to_dict() for kind in kinds],
        "measurements": measurements,
        "groups": {} if groups is None else {name: list(each) for name, each in groups.maps},
        "matrices": {name: [[list(row) for row in matrix] for matrix in each] for name, each in matrices.items()},
        "choices": [_choice_fields(each, positions) for each in release.choices],
        **({} if release.unit_rows is None else {"units": _units_fields(release.unit_rows)}),
        **({} if kept is None else {KEPT: _kept_fields(kept)}),
        **({"totals": [_total_fields(each, positions) for each in release.totals]} if release.totals else {}),
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    encoded = text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes its JSON escape
    if len(encoded) > MAX_HEADER:
        raise ReleaseError(f"a release's schema and list of measurements must fit {MAX_HEADER:,} bytes of JSON")
    return encoded


def _kept_fields(kept: Replicates) -> dict[str, Any]:
    return {"number": len(kept.levels), "stretches": kept.stretches.tolist(), "left": kept.left.tolist()}


def _choice_fields(chosen: Chosen, positions: Mapping[str, int]) -> dict[str, Any]:
    return {
        "tables": [[positions[name] for name in names] for names in chosen.tables],
        "chosen": list(chosen.numbers),
        "noise": chosen.noise.to_dict(),
        "origin": chosen.origin,
        "weight": chosen.weight,
    }


def _units_fields(measured: Measurement) -> dict[str, Any]:
    assert measured.noise is not None
    first = measured.query.to_dict()["units"]
    return {
        "first": first,
        "values": measured.values.tolist(),
        "noise": measured.noise.to_dict(),
        "origin": measured.origin,
    }


def _total_fields(measured: Measurement, positions: Mapping[str, int]) -> dict[str, Any]:
    assert measured.noise is not None  # checked when it was published
    return {
        "measure": measured.query.summed.measure,
        "sums": "values" if measured.query.summed.values else "rows",
        "attributes": [positions[name] for name in measured.query.attributes],
        "values": measured.values.ravel().tolist(),
        "noise": measured.noise.to_dict(),
        "origin": measured.origin,
    }


def _content(release: Release) -> dict[str, NDArray[Any]]:
    """The columns that hold the release, each a flat array."""
    measurements = release.measurements
    sizes = np.array([m.values.size for m in measurements], np.int64)
    groups = release.estimate.groups
    queries = [m.query if groups is None else groups.query(m.query) for m in measurements]
    tables = release.estimate.tables([query.attributes for query in queries])
    answers = [query.answer(table) for query, table in zip(queries, tables, strict=True)]  # type: ignore[arg-type]
    return {
        **places(sizes),
        "value": _values(measurements),
        "estimate": _flat(answers, np.float64),
    }


def _values(measurements: Sequence[Measurement]) -> NDArray[Any]:
    """All values; as integers if all of them are."""
    if all(m.values.dtype == np.int64 for m in measurements):
        return _flat([m.values for m in measurements], np.int64)
    for i, measurement in enumerate(measurements):
        if measurement.values.dtype == np.int64 and np.abs(measurement.values).max(initial=0) > MAX_EXACT:
            raise ReleaseError(f"beside real numbers, whole ones must be at most 2^53; measurement {i} has larger ones")
    return _flat([m.values for m in measurements], np.float64)


def _flat(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.asarray(a, dtype).ravel() for a in arrays] or [np.empty(0, dtype)])


# The columns for people


def _write_parquet(
    stream: Any, release: Release, columns: Mapping[str, NDArray[Any]], metadata: Mapping[bytes, bytes]
) -> None:
    import pyarrow.parquet as pq

    kind = pa.from_numpy_dtype(columns["value"].dtype)
    names, kept = content_names(kept=KEPT in columns), columns.get(KEPT)
    arrow = arrow_schema(release.schema, kind, 0 if kept is None else kept.shape[1])
    numbers = ("value", "estimate", KEPT)
    options = {
        "compression": "zstd",
        "use_dictionary": [name for name in arrow.names if name not in numbers],
        "write_statistics": False,
        "store_schema": False,
        "write_page_checksum": True,
    }
    labels = _labels(release)
    with pq.ParquetWriter(stream, arrow, **options) as writer:
        writer.add_key_value_metadata(metadata)
        for start, pieces in _row_groups(release.measurements):
            stop = start + sum(piece.stop - piece.start for _, piece in pieces)
            content = [_arrow_column(columns[name][start:stop]) for name in names]
            readable = _readable(release, pieces, labels)
            writer.write_table(pa.Table.from_arrays(content + readable, schema=arrow), row_group_size=stop - start)


def _arrow_column(numbers: NDArray[Any]) -> pa.Array:
    """A column of numbers, or of bytes where each row has several."""
    if numbers.ndim == 1:
        return pa.array(numbers)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(numbers.shape[1]), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    )


def _labels(release: Release) -> list[pa.Array]:
    """The labels of each attribute, and after them those of its groups."""
    groups = release.estimate.groups
    out = []
    for attribute in release.schema.attributes:
        in_groups = groups.extended[attribute.name].labels if groups and attribute.name in groups.codes else ()
        texts = [label.encode("utf-8", "replace").decode() for label in (*attribute.labels, *in_groups)]
        out.append(pa.array(texts, pa.string()))
    return out


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
    """For each row its table, its variance, and the label of each attribute, null if it is not in the table."""
    lengths = [len(piece) for _, piece in pieces]
    texts: dict[str, int] = {}
    numbers = [texts.setdefault(table_text(measurement), len(texts)) for measurement, _ in pieces]
    tables = pa.array(np.repeat(np.array(numbers, np.int32), lengths))
    variances = np.repeat([measurement.variance for measurement, _ in pieces], lengths)
    codes, absent = _codes(release.schema, pieces, sum(lengths)), pa.nulls(sum(lengths), TEXTS)
    return [
        pa.DictionaryArray.from_arrays(tables, pa.array(list(texts), pa.string())),
        pa.array(variances),
        *(_labelled(codes[i], labels[i]) if i in codes else absent for i in range(len(labels))),
    ]


def _codes(schema: Schema, pieces: Sequence[tuple[Measurement, range]], rows: int) -> dict[int, NDArray[np.int32]]:
    """For each measured attribute, by its position, the value of each row, -1 where it is not in the table.

    Groups are numbered after all values.
    """
    codes: dict[int, NDArray[np.int32]] = {}
    at = 0
    for measurement, piece in pieces:
        names, grouped = measurement.query.attributes, dict(measurement.query.groups)
        cells = np.arange(piece.start, piece.stop)
        values = np.unravel_index(cells, measurement.values.shape) if names else ()
        by_matrix = dict(measurement.query.matrices)
        for name, value in zip(names, values, strict=True):
            if name in by_matrix:  # a row of its matrix is no value
                continue
            axis = schema.positions[name]
            if axis not in codes:
                codes[axis] = np.full(rows, -1, np.int32)
            codes[axis][at : at + len(piece)] = value + (schema.shape[axis] if name in grouped else 0)
        at += len(piece)
    return codes


def _labelled(codes: NDArray[np.int32], labels: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels)


def table_text(measurement: Measurement) -> str:
    """What was measured, for people."""
    names = " x ".join(measurement.query.attributes).encode("utf-8", "replace").decode()
    if measurement.query.matrices:
        return f"linear queries of {names}"
    return f"contrast of {names}" if measurement.query.is_residual else names or "total"


def rehearse(schema: Schema, measured: Sequence[Measurement], requests: Sequence[Request], promise: Statement) -> None:
    """Raise unless these measurements, and answers to the requests, will make a release whose file can be read.

    ``promise`` is the statement of the release; its ``entry`` is at least as long as that of the charge.
    """
    zeros = (_zero(request, schema, promise.entry or "") for request in requests)
    release = unsolved(schema, (*measured, *zeros), promise)
    read_header(header_bytes(release), sum(each.values.size for each in release.measurements))


def _zero(request: Request, schema: Schema, origin: str) -> Measurement:
    """An answer with the shape and the noise of a request; for a choice the candidates whose indices are longest."""
    query, noise = request.query, request.noise
    values = np.zeros(query.shape(schema), int)
    if isinstance(query, Choice):
        values += len(query.candidates) - 1 - np.arange(query.picks).reshape(values.shape)
    return Measurement.drawn(query, values, noise, origin=origin)
