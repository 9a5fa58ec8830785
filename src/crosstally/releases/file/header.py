"""The format of a release file (header, columns and checksum), and its JSON header, checked field by field.

Reader and writer share the format; ``docs/reference/release-file.md`` describes it. The header is untrusted: sizes are
added up exactly and checked against the schema, the limits and the declared number of rows before memory is allocated,
and variances are computed from the noise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.errors import OTHER_VERSION, CrosstallyError, ReleaseError
from crosstally.inference.bootstrap import LEAST_REPLICATES, REPLICATES
from crosstally.inference.estimates import CORRECTED
from crosstally.json_text import JsonError, read_json
from crosstally.measurements import Chosen, Measurement
from crosstally.plans.request import Request
from crosstally.query.operators import Matrix, read_group_maps, read_matrix
from crosstally.query.queries import MAX_CELLS, Cells, Contrast, Kronecker, Product, check_contrast_cells
from crosstally.query.summed import Summed
from crosstally.query.unit_table import UnitTable
from crosstally.query.ways import Groups, all_matrices_of
from crosstally.releases.publication import check_variance, totals_of
from crosstally.releases.statement import Statement
from crosstally.releases.unit_counts import unit_rows_of
from crosstally.schema import Schema
from crosstally.typing import Floats

FORMAT = 1
CONTENT = ("measurement", "cell", "value", "estimate")  # the columns that hold the release
KEPT = "replicates"  # the column of what replicates came to, beside the content where a release keeps them
READABLE = ("table", "variance")  # columns for people: they repeat what the header says
HEADER_KEY, DIGEST_KEY = b"crosstally", b"crosstally.sha256"  # entries of the Parquet metadata
_FOR_ALL = ("groups", "matrices", "choices")  # groups and matrices of attributes, and what was chosen privately
HEADER_FIELDS = ("format", "schema", "statement", "estimate", "mechanisms", "measurements", *_FOR_ALL)
UNITS_FIELDS = ("first", "values", "noise", "origin")  # of units by number of rows, where they were measured
TOTAL_FIELDS = ("measure", "sums", "attributes", "values", "noise", "origin")  # of sums of measures, where measured
CHOSEN_FIELDS = ("tables", "chosen", "noise", "origin", "weight")
KEPT_FIELDS = ("number", "stretches", "left")  # of replicates, where the file keeps them
ESTIMATE_FIELDS = ("inference", "rounds", "corrected", "variances")
KIND_FIELDS = ("query", "values", "noise", "variance", "origin", "matrices")
MAX_HEADER = 32 * 2**20  # bytes of JSON
MAX_EXACT = 2**53  # up to here a double holds every whole number
ROOM_KEY = b"crosstally.room"  # padding, in a file that would be too small for its numbers
# This many numbers need no bytes; each further one needs 4 bytes of the file. A reader's time and memory grow with
# the numbers, and equal ones compress to nothing. Releases have 8 to 13 bytes for each number (65,536 cells at
# epsilon 100 and 1), so hardly any needs padding. With fewer free numbers, small releases would need it.
_FREE_NUMBERS, _BYTES_A_NUMBER = 500_000, 4
TEXTS = pa.dictionary(pa.int32(), pa.string())


def least_size(numbers: int) -> int:
    """The least size in bytes of a release file with this many numbers."""
    return max(0, numbers - _FREE_NUMBERS) * _BYTES_A_NUMBER


@dataclass(frozen=True, slots=True)
class MeasurementKind:
    """What measurements share: the kind of query, the noise, and the ledger entry (the header's ``mechanisms``)."""

    query: str
    values: str
    noise: Noise | None
    variance: float
    origin: str
    matrices: tuple[tuple[str, int], ...] = ()
    """For each attribute with a matrix, the index of that matrix among the attribute's matrices."""

    @classmethod
    def of(cls, measurement: Measurement, matrices: Mapping[str, Sequence[Matrix]]) -> MeasurementKind:
        """The kind of a measurement, where attributes have these matrices."""
        asked = measurement.query
        query = "groups" if asked.groups else asked.kind
        values = "whole" if measurement.values.dtype == np.int64 else "real"
        numbers = tuple((name, matrices[name].index(matrix)) for name, matrix in asked.matrices)
        return cls(query, values, measurement.noise, measurement.variance, measurement.origin, numbers)

    def to_dict(self) -> dict[str, Any]:
        """The kind as JSON."""
        noise = None if self.noise is None else self.noise.to_dict()
        return {
            "query": self.query,
            "values": self.values,
            "noise": noise,
            "variance": self.variance,
            "origin": self.origin,
            "matrices": dict(self.matrices),
        }


def places(sizes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The number of the measurement and of its cell, for each row."""
    starts = (np.cumsum(sizes) - sizes).astype(np.int32)  # a release has at most 5,000,000 cells
    return {
        "measurement": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        "cell": np.arange(sizes.sum(), dtype=np.int32) - np.repeat(starts, sizes),
    }


def digest(header: bytes, columns: Mapping[str, NDArray[Any]]) -> bytes:
    """SHA-256 of the header and the content, little-endian, column after column."""
    state = hashlib.sha256(header)
    for name in content_names(kept=KEPT in columns):
        array = columns[name]
        state.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return state.hexdigest().encode()


def kept_width(number: int, coefficients: int, rows: int) -> int:
    """How many bytes of each row hold the levels of so many replicates and the exponents of their coefficients."""
    return -(-(1 + number) * coefficients // rows)


def content_names(*, kept: bool) -> tuple[str, ...]:
    """The columns that hold a release, with or without replicates."""
    return (*CONTENT, KEPT) if kept else CONTENT


def column_names(schema: Schema, *, kept: bool = False) -> tuple[str, ...]:
    """The columns of a release of this schema: content, then readable ones, then one for each attribute.

    An attribute's column bears its name. Underscores are added if the name, or its part before the first full
    stop, is that of another column.
    """
    fixed = {*CONTENT, KEPT, *READABLE}
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
    return (*content_names(kept=kept), *READABLE, *names)


def arrow_schema(schema: Schema, value_type: pa.DataType, width: int = 0) -> pa.Schema:
    """The columns with their types; ``value_type`` is that of the measured numbers.

    ``width`` is how many bytes of what replicates came to stand in a row; zero where they are not kept.
    """
    own = [pa.binary(width)] if width else []
    types = [pa.int32(), pa.int32(), value_type, pa.float64(), *own, TEXTS, pa.float64()]
    names = column_names(schema, kept=width > 0)
    plain = [pa.field(name, kind, nullable=False) for name, kind in zip(names[: len(types)], types, strict=True)]
    return pa.schema(plain + [pa.field(name, TEXTS) for name in names[len(types) :]])


_FREE_CELLS = 2**20  # of contrasts: four times what one stage of a plan may have
_MOST_REPEATED = 1_000  # measurements with the same noise, entry and table as an earlier one: plans have hardly any
_QUERIES = ("cells", "groups", "contrast", "kronecker")


class KeptReplicates(NamedTuple):
    """What the header says of the replicates that a file keeps: how many, and two numbers for each order."""

    number: int
    stretches: Floats
    left: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHeader:
    """The checked content of the header; a measurement is its kind, its query and the shape of its values."""

    schema: Schema
    statement: Statement
    nonnegative: str
    rounds: int
    corrected: str
    variances_left: Mapping[tuple[str, ...], float]
    measurements: tuple[tuple[MeasurementKind, Product, tuple[int, ...]], ...]
    groups: Groups | None
    choices: tuple[Chosen, ...]
    unit_rows: Measurement | None
    kept: KeptReplicates | None
    totals: tuple[Measurement, ...]

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(kind.values == "whole" for kind, _, _ in self.measurements)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many values each measurement has."""
        return np.array([math.prod(shape) for _, _, shape in self.measurements], np.int64)


def read_header(text: bytes | None, rows: int) -> ReleaseHeader:
    """The content of a header, checked against the number of rows that the file declares."""
    fields = _read_json(text)
    _check_format(fields)
    try:
        return _read_fields(fields, rows)
    except OverflowError:
        raise ReleaseError("its header must hold numbers of a sensible size") from None


def _read_fields(fields: Any, rows: int) -> ReleaseHeader:
    given = isinstance(fields, dict)
    units, kept = (fields.pop(name, None) if given else None for name in ("units", KEPT))
    totals = fields.pop("totals", []) if given else []
    fields = _fields(fields, "header", HEADER_FIELDS)
    schema, statement = Schema.from_dict(fields["schema"]).public(), Statement.from_dict(fields["statement"])
    if statement.unit != schema.unit:
        raise ReleaseError("the unit of the statement must be that of the schema")
    if not isinstance(fields["mechanisms"], list) or not isinstance(fields["measurements"], list):
        raise ReleaseError("mechanisms and measurements must be lists")
    if len(fields["mechanisms"]) > len(fields["measurements"]):  # reading each takes time
        raise ReleaseError("there must be at most as many mechanisms as measurements")
    kinds = [_read_kind(each, f"mechanism {i}", schema.parts) for i, each in enumerate(fields["mechanisms"])]
    maps = read_group_maps(fields["groups"])
    schema.check([name for name, _ in maps])
    matrices = _read_matrices(fields["matrices"], schema)
    known = _Known(dict(maps), matrices)
    measurements = _read_measurements(fields["measurements"], kinds, known, schema, rows)
    if all_matrices_of([query for _, query, _ in measurements]) != matrices:
        raise ReleaseError("matrices must be those of its measurements")
    groups = Groups.of(schema, (query for _, query, _ in measurements))
    choices = _read_choices(fields["choices"], schema)
    if maps != (() if groups is None else groups.maps):
        raise ReleaseError("groups must be those of its measurements")
    fit = _read_fit(fields["estimate"])
    left = _read_variances(fit.pop("variances"), schema)
    if left and statement.model != "local":
        raise ReleaseError(
            "estimate: only a release of the local model has variances of its own; others have their noise's"
        )
    return ReleaseHeader(
        schema=schema,
        statement=statement,
        measurements=measurements,
        variances_left=left,
        groups=groups,
        choices=choices,
        unit_rows=None if units is None else _read_units(units, schema),
        kept=None if kept is None else _read_kept(kept, measurements),
        totals=_read_totals(totals, schema),
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
        raise ReleaseError(f"it has format {number}, this crosstally reads format {FORMAT}; {OTHER_VERSION}")


def _fields(given: Any, where: str, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(given, dict) or set(given) != set(names):
        raise ReleaseError(f"{where} must be an object with exactly the fields {', '.join(names)}")
    return given


def _read_fit(given: Any) -> dict[str, Any]:
    """The inference that made the estimate."""
    fields = dict(_fields(given, "estimate", ESTIMATE_FIELDS))
    rounds = fields["rounds"]
    fields["nonnegative"] = inference = fields.pop("inference")
    if inference not in CORRECTED:
        raise ReleaseError(f"estimate: inference must be one of {', '.join(CORRECTED)}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ReleaseError("estimate: rounds must be a whole number of at least 1")
    if fields["corrected"] not in ("none", inference):
        raise ReleaseError("estimate: corrected must be none or the name of its inference")
    return fields


def _read_variances(given: Any, schema: Schema) -> dict[tuple[str, ...], float]:
    """The remaining variances of the coefficients of sets of attributes."""
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


def _read_kept(given: Any, measurements: Sequence[tuple[MeasurementKind, Product, tuple[int, ...]]]) -> KeptReplicates:
    """What is said of the replicates that the file keeps."""
    fields = _fields(given, KEPT, KEPT_FIELDS)
    number, orders = fields["number"], 1 + max((len(query.attributes) for _, query, _ in measurements), default=0)
    if type(number) is not int or not LEAST_REPLICATES <= number <= REPLICATES:
        raise ReleaseError(f"{KEPT}: number must be a whole number from {LEAST_REPLICATES} to {REPLICATES}")
    for name in KEPT_FIELDS[1:]:
        each = fields[name]
        if not isinstance(each, list) or len(each) != orders or not all(type(n) in (int, float) for n in each):
            raise ReleaseError(f"{KEPT}: {name} must be a list of {orders} numbers, one for each order")
        if not all(0 <= n <= MAX_EXACT for n in each):
            raise ReleaseError(f"{KEPT}: {name} must hold numbers from 0 to 2^53")
    return KeptReplicates(number, *(np.array(fields[name], np.float64) for name in KEPT_FIELDS[1:]))


def _read_choices(given: Any, schema: Schema) -> tuple[Chosen, ...]:
    """What was chosen privately."""
    if not isinstance(given, list):
        raise ReleaseError("choices must be a list")
    out = []
    for i, each in enumerate(given):
        where = f"choice {i}"
        fields = _fields(each, where, CHOSEN_FIELDS)
        tables = fields["tables"]
        if not isinstance(tables, list) or not all(isinstance(places, list) for places in tables):
            raise ReleaseError(f"{where}: tables must be a list of lists of positions")
        if not all(type(n) is int and 0 <= n < len(schema.names) for places in tables for n in places):
            raise ReleaseError(f"{where} must name attributes that are there")
        if not isinstance(fields["origin"], str):
            raise ReleaseError(f"{where}: origin must be a text")
        if not isinstance(fields["chosen"], list):
            raise ReleaseError(f"{where}: chosen must be a list of numbers")
        candidates = tuple(tuple(schema.names[n] for n in places) for places in tables)
        noise = Noise.from_dict(fields["noise"]).in_parts(schema.parts)
        origin, weight = fields["origin"], fields["weight"]
        try:
            out.append(
                Chosen(tables=candidates, numbers=tuple(fields["chosen"]), noise=noise, origin=origin, weight=weight)
            )
        except CrosstallyError as error:
            raise ReleaseError(f"{where}: {error}") from None
    return tuple(out)


def _read_units(given: Any, schema: Schema) -> Measurement | None:
    """The units by number of rows."""
    fields = _fields(given, "units", UNITS_FIELDS)
    first, values = fields["first"], fields["values"]
    if not isinstance(first, list) or not isinstance(values, list) or not isinstance(fields["origin"], str):
        raise ReleaseError("units: first and values must be lists, and origin a text")
    if len(values) != len(first) or not all(type(n) is int and abs(n) < 2**63 for n in values):
        raise ReleaseError("units must have a whole number for each bin")
    noise = Noise.from_dict(fields["noise"])
    try:
        query = UnitTable(tuple(first))
        Request(query, noise)
        measured = Measurement(
            query, np.array(values, np.int64), variance=noise.variance, noise=noise, origin=fields["origin"]
        )
        return unit_rows_of(schema, [measured])
    except CrosstallyError as error:
        raise ReleaseError(f"units: {error}") from None


def _read_totals(given: Any, schema: Schema) -> tuple[Measurement, ...]:
    """The sums of measures."""
    if not isinstance(given, list):
        raise ReleaseError("totals must be a list")
    out = []
    for i, each in enumerate(given):
        where = f"total {i}"
        fields = _fields(each, where, TOTAL_FIELDS)
        places, values = fields["attributes"], fields["values"]
        if not isinstance(places, list) or not all(type(n) is int and 0 <= n < len(schema.names) for n in places):
            raise ReleaseError(f"{where} must name attributes that are there")
        if not isinstance(values, list) or not all(type(n) is int and abs(n) < 2**63 for n in values):
            raise ReleaseError(f"{where}: values must be a list of whole numbers")
        if not all(isinstance(fields[name], str) for name in ("measure", "origin")):
            raise ReleaseError(f"{where}: measure and origin must be texts")
        if fields["sums"] not in ("values", "rows"):
            raise ReleaseError(f"{where}: sums must be values or rows")
        summed = Summed(fields["measure"], values=fields["sums"] == "values")
        query, noise = Cells([schema.names[n] for n in places], summed=summed), Noise.from_dict(fields["noise"])
        shape = query.shape(schema)
        if math.prod(shape) != len(values):
            raise ReleaseError(f"{where} must have a value for each cell of its table")
        Request(query, noise)
        numbers = np.array(values, np.int64).reshape(shape)
        out.append(Measurement(query, numbers, variance=noise.variance, noise=noise, origin=fields["origin"]))
    return totals_of(schema, out)


def _read_matrices(given: Any, schema: Schema) -> dict[str, tuple[Matrix, ...]]:
    """The matrices by which attributes are measured."""
    if not isinstance(given, dict) or not all(isinstance(each, list) and each for each in given.values()):
        raise ReleaseError("matrices must map names of attributes to lists of matrices")
    schema.check(list(given))
    return {name: tuple(read_matrix(matrix, name) for matrix in each) for name, each in given.items()}


def _read_numbers(given: Any, where: str) -> tuple[tuple[str, int], ...]:
    if not isinstance(given, dict) or not all(type(number) is int and number >= 0 for number in given.values()):
        raise ReleaseError(f"{where}: matrices must map names of attributes to numbers")
    return tuple(sorted(given.items()))


def _read_kind(given: Any, where: str, parts: int) -> MeasurementKind:
    fields = _fields(given, where, KIND_FIELDS)
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
        noise = Noise.from_dict(fields["noise"]).in_parts(parts)
        if noise.kind is NoiseKind.GUMBEL:
            raise ReleaseError(f"{where}: noise must be laplace or gaussian")
        check_variance(float(variance), noise.variance, where)
        variance = noise.variance
    numbers = _read_numbers(fields["matrices"], where)
    return MeasurementKind(**{**fields, "noise": noise, "variance": float(variance), "matrices": numbers})


class _Known(NamedTuple):
    """The groups and matrices of an attribute, to which measurements refer by its name."""

    groups: Mapping[str, tuple[int, ...]]
    matrices: Mapping[str, Sequence[Matrix]]

    def kronecker(self, names: Sequence[str], kind: MeasurementKind, where: str) -> Product:
        """The query of a kind over some attributes."""
        own = {}
        for name, number in kind.matrices:
            if name not in names or number >= len(self.matrices.get(name, ())):
                raise ReleaseError(f"{where} must name matrices that are there, of its own attributes")
            own[name] = self.matrices[name][number]
        return Kronecker(names, own)


def _read_measurements(
    given: list[Any],
    kinds: Sequence[MeasurementKind],
    known: _Known,
    schema: Schema,
    rows: int,
) -> tuple[tuple[MeasurementKind, Product, tuple[int, ...]], ...]:
    """All measurements; their sizes, added up exactly, must equal the file's number of rows."""
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
        query = Contrast(names) if kind.query == "contrast" else table
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
