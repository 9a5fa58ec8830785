"""A release from its file.

A file may come from anywhere, so nothing in it is believed: sizes are added up exactly and checked against the schema
and the limits before memory is taken for them, variances are computed from the noise, and whatever does not fit is a
ReleaseError in one line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.estimate import CORRECTED, ROUNDS, SHRUNK, smallest_cell
from crosstally.inference.shrinkage import VERSION
from crosstally.json_text import JsonError, read_json
from crosstally.questions.groups import Groups
from crosstally.questions.kronecker import Kronecker, Matrix, matrices_of, mixed_of, read_matrices, read_matrix
from crosstally.questions.queries import MAX_CELLS, Cells, Contrast, check_contrast_cells, read_group_maps
from crosstally.releases.file.format import (
    CHOICE_FIELDS,
    CHOSEN_FIELDS,
    CHOSEN_WEIGHT_FIELDS,
    CONTENT,
    DIGEST_KEY,
    ESTIMATE_FIELDS,
    FORMAT,
    GROUP_FIELDS,
    HEADER_FIELDS,
    HEADER_KEY,
    INFERENCE_FIELDS,
    KIND_FIELDS,
    MATRICES,
    MAX_EXACT,
    MAX_HEADER,
    MIXED,
    MIXED_KIND_FIELDS,
    MeasurementKind,
    arrow_schema,
    digest,
    least_size,
    places,
)
from crosstally.releases.file.pages import PAGE_ROWS, check_pages, chunks_of
from crosstally.releases.promise import check_promise
from crosstally.releases.publish import check_variance
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement
from crosstally.residuals import Estimate, combine
from crosstally.residuals.nested import extended_measurements
from crosstally.schema import Schema
from crosstally.tables import Chosen, Measurement

__all__ = ["open_release"]

MAX_FILE = 512 * 2**20  # limits memory: the file is read as a whole. ``MAX_CELLS`` numbers take a tenth of it
_MORE_GROUPS = 16  # groups of rows of a small file; each takes some tenths of a millisecond to open
_FREE_CELLS = 2**20  # of contrasts: four times what one stage of a plan may have
_PIECE = 2**18  # numbers looked at at once
_MOST_REPEATED = 1_000  # measurements with the noise, the entry and the table of another one: plans have next to none
# In proportion to the largest cell and their number: rounding of doubles, and nothing that anybody would see.
_CONSISTENT = 1e-9
_QUERIES = ("cells", "groups", "contrast", "kronecker")

Asked = Cells | Contrast | Kronecker

_BAD_PARQUET = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


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
            header = read_header(found.get(HEADER_KEY), file.metadata.num_rows)
            if len(data) < (least := least_size(file.metadata.num_rows, header.number)):
                raise ReleaseError(f"with {file.metadata.num_rows:,} rows it must have at least {least:,} bytes")
            columns = _read_columns(file, data, header)
    except _BAD_PARQUET:
        raise ReleaseError("it is damaged: its Parquet structure cannot be read") from None
    if found.get(DIGEST_KEY) != digest(found[HEADER_KEY], columns):
        raise ReleaseError("it is damaged or was changed: its numbers do not match their checksum")
    _check_columns(columns, header)
    return _release(header, {name: columns.pop(name) for name in ("value", "estimate")})


def _read_columns(file: Any, data: bytes, header: Header) -> dict[str, NDArray[Any]]:
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


def _check_columns(columns: Mapping[str, NDArray[Any]], header: Header) -> None:
    """Raise unless rows are in order and all numbers are what they should be."""
    for name, expected in places(header.sizes).items():
        if not np.array_equal(columns[name], expected):
            raise ReleaseError(f"its column {name} must count its rows in order")
    for name in ("value", "estimate"):
        column = columns[name]
        pieces = (column[start : start + _PIECE].astype(np.float64) for start in range(0, len(column), _PIECE))
        if not all((np.abs(piece) <= 2.0**63).all() for piece in pieces):
            raise ReleaseError(f"its column {name} must hold finite numbers of at most 2^63")


def _release(header: Header, columns: Mapping[str, NDArray[Any]]) -> Release:
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


def _estimate(header: Header, fitted: Sequence[Measurement]) -> Estimate:
    """The saved estimate: its answers agree, so averaging gives them back, and noise gives their variances."""
    groups = header.groups
    schema, fitted = (
        (header.schema, fitted) if groups is None else (groups.extended, extended_measurements(groups, fitted))
    )
    with np.errstate(all="ignore"):
        linear = any(isinstance(m.query, Kronecker) for m in fitted)
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


# The header


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """All that the header says, checked; a measurement is its kind, its query and the shape of its values.

    ``number`` is that of the format.
    """

    number: int
    schema: Schema
    statement: Statement
    nonnegative: str
    rounds: int
    corrected: str
    variances_left: Mapping[tuple[str, ...], float]
    measurements: tuple[tuple[MeasurementKind, Asked, tuple[int, ...]], ...]
    groups: Groups | None
    choices: tuple[Chosen, ...]

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(kind.values == "whole" for kind, _, _ in self.measurements)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many values each measurement has."""
        return np.array([math.prod(shape) for _, _, shape in self.measurements], np.int64)


def read_header(text: bytes | None, rows: int) -> Header:
    """What a header says, checked against the number of rows that the file declares."""
    fields = _read_json(text)
    _check_format(fields)
    try:
        return _read_fields(fields, rows)
    except OverflowError:
        raise ReleaseError("its header must hold numbers of a sensible size") from None


def _read_fields(fields: Any, rows: int) -> Header:
    number = fields["format"]
    newest = (
        *(CHOICE_FIELDS if "choices" in fields else GROUP_FIELDS),
        *([MATRICES] if number >= 6 else []),
        *([MIXED] if number >= 7 else []),
    )
    fields = _fields(fields, "header", newest if number >= 4 else HEADER_FIELDS)
    schema, statement = Schema.from_dict(fields["schema"]).public(), Statement.from_dict(fields["statement"])
    if statement.unit != schema.unit:
        raise ReleaseError("the unit of the statement must be that of the schema")
    if statement.rows_are_units and number < 4:
        raise ReleaseError("statement: unknown field 'rows_are_units'")
    if (statement.plan is None) != (number < 5):
        raise ReleaseError("statement: from format 5 on, and not before, it must have the field 'plan'")
    if not isinstance(fields["mechanisms"], list) or not isinstance(fields["measurements"], list):
        raise ReleaseError("mechanisms and measurements must be lists")
    if len(fields["mechanisms"]) > len(fields["measurements"]):  # reading each takes time
        raise ReleaseError("there must be at most as many mechanisms as measurements")
    names = MIXED_KIND_FIELDS if number >= 7 else KIND_FIELDS
    kinds = [_read_kind(each, f"mechanism {i}", names) for i, each in enumerate(fields["mechanisms"])]
    maps = read_group_maps(fields.get("groups", {}))
    schema.check([name for name, _ in maps])
    matrices = read_matrices(fields.get(MATRICES, {}))
    schema.check([name for name, _ in matrices])
    mixed = _read_mixed(fields.get(MIXED, {}), schema)
    known = _Known(dict(maps), dict(matrices), mixed)
    measurements = _read_measurements(fields["measurements"], kinds, known, schema, rows)
    asked = [query for _, query, _ in measurements]
    if matrices_of(asked) != matrices or (number == 6 and not matrices):
        raise ReleaseError("matrices must be those of its measurements")
    if mixed_of(asked) != mixed or (number == 7 and not mixed):
        raise ReleaseError("mixed must be the matrices of attributes that its measurements measure in several ways")
    groups = Groups.of(schema, (query for _, query, _ in measurements))
    choices = _read_choices(fields.get("choices", []), schema, CHOSEN_FIELDS if number < 5 else CHOSEN_WEIGHT_FIELDS)
    of_format_4 = groups is not None or bool(choices) or statement.rows_are_units
    if maps != (() if groups is None else groups.maps) or (number == 4 and not of_format_4):
        raise ReleaseError("groups must be those of its measurements")
    fit = _read_made_by(fields["estimate"], number)
    left = _read_variances(fit.pop("variances", []), schema)
    if left and statement.model != "local":
        raise ReleaseError(
            "estimate: only a release of the local model has variances of its own; others have their noise's"
        )
    return Header(
        number=number,
        schema=schema,
        statement=statement,
        measurements=measurements,
        variances_left=left,
        groups=groups,
        choices=choices,
        **fit,
    )


def _read_json(text: bytes | None) -> Any:
    if text is None:
        raise ReleaseError("it is a Parquet file, but not a crosstally release")
    if len(text) > MAX_HEADER:
        raise ReleaseError(f"its header must be at most {MAX_HEADER:,} bytes, this has more")
    try:
        return read_json(text)
    except JsonError as error:
        raise ReleaseError(f"its header {error}") from None


def _check_format(fields: Any) -> None:
    number = fields.get("format") if isinstance(fields, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ReleaseError("its header has no format number")
    if number > FORMAT:
        raise ReleaseError(f"it has format {number}, made by a newer crosstally; this one reads up to format {FORMAT}")


def _fields(given: Any, where: str, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(given, dict) or set(given) != set(names):
        raise ReleaseError(f"{where} must be an object with exactly the fields {', '.join(names)}")
    return given


def _read_fit(given: Any, names: Sequence[str]) -> dict[str, Any]:
    fields = _fields(given, "estimate", names)
    rounds = fields["rounds"]
    known = [name for name in CORRECTED if name != SHRUNK]
    if fields["nonnegative"] not in known:
        raise ReleaseError(f"estimate: nonnegative must be one of {', '.join(known)}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ReleaseError("estimate: rounds must be a whole number of at least 1")
    if fields["corrected"] not in ("none", fields["nonnegative"]):
        raise ReleaseError("estimate: corrected must be none or what nonnegative says")
    return fields


def _read_made_by(given: Any, number: int) -> dict[str, Any]:
    """What made the estimate. Format 3 names the newer inference, format 4 every one, by name and version."""
    names = ESTIMATE_FIELDS[number]
    if number < 3:
        return _read_fit(given, names)
    fields = _fields(given, "estimate", names)
    inference = _fields(fields["inference"], "estimate: inference", INFERENCE_FIELDS)
    if number == 3 or inference["name"] == SHRUNK or inference["version"] != 1:
        return _read_shrunk(fields, inference)
    options = _fields(inference["options"], "estimate: options", ("rounds",))
    older = {"nonnegative": inference["name"], **options, "corrected": fields["corrected"]}
    return _read_fit(older, ESTIMATE_FIELDS[1])


def _read_shrunk(fields: Mapping[str, Any], inference: Mapping[str, Any]) -> dict[str, Any]:
    """The inference that has a version. Newer ones may have other options."""
    if (inference["name"], inference["version"]) != (SHRUNK, VERSION) or type(inference["version"]) is not int:
        raise ReleaseError(
            f"estimate: its inference must be {SHRUNK} of version {VERSION}; a newer crosstally may read it"
        )
    if inference["options"] != {}:
        raise ReleaseError(f"estimate: {SHRUNK} has no options")
    if fields["corrected"] not in ("none", SHRUNK):
        raise ReleaseError("estimate: corrected must be none or the name of its inference")
    return {"nonnegative": SHRUNK, "rounds": ROUNDS, "corrected": fields["corrected"]}


def _read_variances(given: Any, schema: Schema) -> dict[tuple[str, ...], float]:
    """For sets of attributes the variances that are left of their coefficients."""
    if not isinstance(given, list):
        raise ReleaseError("estimate: variances must be a list")
    out = {}
    for i, numbers in enumerate(given):
        where = f"estimate: variance {i}"
        if not isinstance(numbers, list) or len(numbers) < 2 or not all(type(n) is int for n in numbers[1:]):
            raise ReleaseError(f"{where} must be a list: a number, then the positions of its attributes")
        variance, positions = numbers[0], numbers[1:]
        if isinstance(variance, bool) or not isinstance(variance, int | float) or not 0 <= variance < math.inf:
            raise ReleaseError(f"{where} must be a number that is not negative")
        if positions != sorted(set(positions)) or not 0 <= positions[0] <= positions[-1] < len(schema.names):
            raise ReleaseError(f"{where} must name attributes that are there, in the schema's order")
        out[tuple(schema.names[n] for n in positions)] = float(variance)
    if len(out) < len(given):
        raise ReleaseError("estimate: variances must name each set of attributes once")
    return out


def _read_choices(given: Any, schema: Schema, names: Sequence[str]) -> tuple[Chosen, ...]:
    """What was chosen privately. Whether there is such a field at all says whether there is a choice."""
    if not isinstance(given, list):
        raise ReleaseError("choices must be a list")
    out = []
    for i, each in enumerate(given):
        where = f"choice {i}"
        fields = _fields(each, where, names)
        tables = fields["tables"]
        if not isinstance(tables, list) or not all(isinstance(places, list) and places for places in tables):
            raise ReleaseError(f"{where}: tables must be a list of lists of positions")
        if not all(type(n) is int and 0 <= n < len(schema.names) for places in tables for n in places):
            raise ReleaseError(f"{where} must name attributes that are there")
        if not isinstance(fields["origin"], str):
            raise ReleaseError(f"{where}: origin must be a text")
        candidates = tuple(tuple(schema.names[n] for n in places) for places in tables)
        noise, origin, weight = Noise.from_dict(fields["noise"]), fields["origin"], fields.get("weight")
        if weight is None and "weight" in fields:
            raise ReleaseError(f"{where}: weight must be a whole number of at least 1")
        try:
            out.append(Chosen(tables=candidates, number=fields["chosen"], noise=noise, origin=origin, weight=weight))
        except CrosstallyError as error:
            raise ReleaseError(f"{where}: {error}") from None
    return tuple(out)


def _read_mixed(given: Any, schema: Schema) -> dict[str, tuple[Matrix, ...]]:
    """The matrices of attributes that are measured in more than one way."""
    if not isinstance(given, dict) or not all(isinstance(each, list) and each for each in given.values()):
        raise ReleaseError("mixed must map names of attributes to lists of matrices")
    schema.check(list(given))
    return {name: tuple(read_matrix(matrix, name) for matrix in each) for name, each in given.items()}


def _read_numbers(given: Any, where: str) -> tuple[tuple[str, int], ...]:
    if not isinstance(given, dict) or not all(type(number) is int and number >= 0 for number in given.values()):
        raise ReleaseError(f"{where}: matrices must map names of attributes to numbers")
    return tuple(sorted(given.items()))


def _read_kind(given: Any, where: str, names: Sequence[str]) -> MeasurementKind:
    fields = _fields(given, where, names)
    if fields["query"] not in _QUERIES or fields["values"] not in ("whole", "real"):
        raise ReleaseError(
            f"{where}: query must be {', '.join(_QUERIES[:-1])} or {_QUERIES[-1]}, and values whole or real"
        )
    if not isinstance(fields["origin"], str):
        raise ReleaseError(f"{where}: origin must be a text")
    variance = fields["variance"]
    if isinstance(variance, bool) or not isinstance(variance, int | float) or not 0 < variance < math.inf:
        raise ReleaseError(f"{where}: variance must be a positive number")
    noise = None
    if fields["noise"] is not None:
        noise = Noise.from_dict(fields["noise"])
        if noise.kind is NoiseKind.GUMBEL:
            raise ReleaseError(f"{where}: noise must be laplace or gaussian")
        check_variance(float(variance), noise.variance, where)
        variance = noise.variance
    numbers = _read_numbers(fields.get("matrices", {}), where)
    return MeasurementKind(**{**fields, "noise": noise, "variance": float(variance), "matrices": numbers})


class _Known(NamedTuple):
    """What measurements refer to by the name of an attribute: its groups, its one matrix, or its several ones."""

    groups: Mapping[str, tuple[int, ...]]
    matrices: Mapping[str, Matrix]
    mixed: Mapping[str, Sequence[Matrix]]

    def kronecker(self, names: Sequence[str], kind: MeasurementKind, where: str) -> Kronecker:
        """The query of a kind over some attributes."""
        own = {name: self.matrices[name] for name in names if name in self.matrices}
        for name, number in kind.matrices:
            if name not in names or number >= len(self.mixed.get(name, ())):
                raise ReleaseError(f"{where} must name matrices that are there, of its own attributes")
            own[name] = self.mixed[name][number]
        return Kronecker(names, own)


def _read_measurements(
    given: list[Any],
    kinds: Sequence[MeasurementKind],
    known: _Known,
    schema: Schema,
    rows: int,
) -> tuple[tuple[MeasurementKind, Asked, tuple[int, ...]], ...]:
    """All measurements; their sizes are added up exactly and must make the number of rows that the file has."""
    out = []
    cells = values = 0
    maps = known.groups
    repeated = len(given) - len(
        {tuple(each) for each in given if isinstance(each, list) and set(map(type, each)) == {int}}
    )
    if repeated > _MOST_REPEATED:
        raise ReleaseError(f"at most {_MOST_REPEATED:,} of its measurements may repeat another one, got {repeated:,}")
    for i, numbers in enumerate(given):
        where = f"measurement {i}"
        if not isinstance(numbers, list) or not numbers or not all(type(n) is int for n in numbers):
            raise ReleaseError(f"{where} must be a list of whole numbers: its mechanism, then its attributes")
        if not 0 <= numbers[0] < len(kinds) or not all(0 <= n < len(schema.names) for n in numbers[1:]):
            raise ReleaseError(f"{where} must name mechanisms and attributes that are there")
        kind, names = kinds[numbers[0]], tuple(schema.names[n] for n in numbers[1:])
        grouped = {name: maps[name] for name in names if name in maps} if kind.query == "groups" else {}
        table = Cells(names, grouped)
        cells += math.prod(table.shape(schema))
        if cells > MAX_CELLS:
            raise ReleaseError(f"a release must hold at most {MAX_CELLS:,} cells; {where} goes beyond")
        query: Asked = Contrast(names) if kind.query == "contrast" else table
        if kind.query == "kronecker":
            query = known.kronecker(names, kind, where)
        elif kind.matrices:
            raise ReleaseError(f"{where}: only a kronecker query names matrices")
        shape = query.shape(schema)
        values += math.prod(shape)
        out.append((kind, query, shape))
    check_contrast_cells(cells, values, free=_FREE_CELLS)
    if values != rows:
        raise ReleaseError(f"its measurements have {values:,} numbers, but it has {rows:,} rows")
    return tuple(out)
