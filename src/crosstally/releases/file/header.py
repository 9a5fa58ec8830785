"""The header of a release file: what its JSON says, checked field by field.

Nothing in it is believed: sizes are added up exactly and checked against the schema, the limits and the number of rows
that the file declares before memory is taken for them, and variances are computed from the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.inference.estimate import CORRECTED, ROUNDS, SHRUNK
from crosstally.inference.shrinkage import VERSION
from crosstally.json_text import JsonError, read_json
from crosstally.query.groups import Groups
from crosstally.query.kronecker import Kronecker, Matrix, matrices_of, mixed_of, read_matrices, read_matrix
from crosstally.query.queries import MAX_CELLS, Cells, Contrast, check_contrast_cells, read_group_maps
from crosstally.releases.file.format import (
    CHOICE_FIELDS,
    CHOSEN_FIELDS,
    CHOSEN_WEIGHT_FIELDS,
    ESTIMATE_FIELDS,
    FORMAT,
    GROUP_FIELDS,
    HEADER_FIELDS,
    INFERENCE_FIELDS,
    KIND_FIELDS,
    MATRICES,
    MAX_HEADER,
    MIXED,
    MIXED_KIND_FIELDS,
    MeasurementKind,
)
from crosstally.releases.publish import check_variance
from crosstally.releases.statement import Statement
from crosstally.schema import Schema
from crosstally.tables import Chosen

__all__ = ["Header", "read_header"]

_FREE_CELLS = 2**20  # of contrasts: four times what one stage of a plan may have
_MOST_REPEATED = 1_000  # measurements with the noise, the entry and the table of another one: plans have next to none
_QUERIES = ("cells", "groups", "contrast", "kronecker")

Asked = Cells | Contrast | Kronecker


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
    if statement.joins and number < 5:
        raise ReleaseError("statement: unknown field 'joins'")
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
