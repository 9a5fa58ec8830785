"""The header of a release file, read: the schema, the statement and what was measured.

A header may come from anywhere, so sizes are added up exactly and checked before anything is read for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Noise
from crosstally.errors import ReleaseError
from crosstally.inference.estimate import CORRECTED
from crosstally.json_text import JsonError, read_json
from crosstally.questions.queries import MAX_CELLS, Cells, Contrast
from crosstally.releases.file.writer import FORMAT, MAX_HEADER, Mechanism
from crosstally.releases.release import Statement, check_variance
from crosstally.schema import Schema

__all__ = ["Header", "read_header"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """All that the header says, checked; a measurement is its mechanism, its query and the shape of its values."""

    schema: Schema
    statement: Statement
    nonnegative: str
    rounds: int
    corrected: str
    variances_left: Mapping[tuple[str, ...], float]
    measurements: tuple[tuple[Mechanism, Cells | Contrast, tuple[int, ...]], ...]

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(mechanism.values == "whole" for mechanism, _, _ in self.measurements)

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
    fields = _fields(fields, "header", ("format", "schema", "statement", "estimate", "mechanisms", "measurements"))
    schema, statement = Schema.from_dict(fields["schema"]), Statement.from_dict(fields["statement"])
    if statement.unit != schema.unit:
        raise ReleaseError("the unit of the statement must be that of the schema")
    if not isinstance(fields["mechanisms"], list) or not isinstance(fields["measurements"], list):
        raise ReleaseError("mechanisms and measurements must be lists")
    mechanisms = [_read_mechanism(each, f"mechanism {i}") for i, each in enumerate(fields["mechanisms"])]
    measurements = _read_measurements(fields["measurements"], mechanisms, schema, rows)
    fit = _read_fit(fields["estimate"], ("variances",) if fields["format"] == FORMAT else ())
    left = _read_variances(fit.pop("variances", []), schema)
    if left and statement.model != "local":
        raise ReleaseError(
            "estimate: only a release of the local model has variances of its own; others have their noise's"
        )
    return Header(schema=schema, statement=statement, measurements=measurements, variances_left=left, **fit)


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


def _read_fit(given: Any, more: Sequence[str]) -> dict[str, Any]:
    fields = _fields(given, "estimate", ("nonnegative", "rounds", "corrected", *more))
    rounds = fields["rounds"]
    if fields["nonnegative"] not in list(CORRECTED):
        raise ReleaseError(f"estimate: nonnegative must be one of {', '.join(CORRECTED)}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ReleaseError("estimate: rounds must be a whole number of at least 1")
    if fields["corrected"] not in ("none", fields["nonnegative"]):
        raise ReleaseError("estimate: corrected must be none or what nonnegative says")
    return fields


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


def _read_mechanism(given: Any, where: str) -> Mechanism:
    fields = _fields(given, where, ("query", "values", "noise", "variance", "origin"))
    if fields["query"] not in ("cells", "contrast") or fields["values"] not in ("whole", "real"):
        raise ReleaseError(f"{where}: query must be cells or contrast, and values whole or real")
    if not isinstance(fields["origin"], str):
        raise ReleaseError(f"{where}: origin must be a text")
    variance = fields["variance"]
    if isinstance(variance, bool) or not isinstance(variance, int | float) or not 0 < variance < math.inf:
        raise ReleaseError(f"{where}: variance must be a positive number")
    noise = None
    if fields["noise"] is not None:
        noise = Noise.from_dict(fields["noise"])
        check_variance(float(variance), noise.variance, where)
        variance = noise.variance
    return Mechanism(**{**fields, "noise": noise, "variance": float(variance)})


def _read_measurements(
    given: list[Any], mechanisms: Sequence[Mechanism], schema: Schema, rows: int
) -> tuple[tuple[Mechanism, Cells | Contrast, tuple[int, ...]], ...]:
    """All measurements; their sizes are added up exactly and must make the number of rows that the file has."""
    out = []
    cells = values = 0
    for i, numbers in enumerate(given):
        where = f"measurement {i}"
        if not isinstance(numbers, list) or not numbers or not all(type(n) is int for n in numbers):
            raise ReleaseError(f"{where} must be a list of whole numbers: its mechanism, then its attributes")
        if not 0 <= numbers[0] < len(mechanisms) or not all(0 <= n < len(schema.names) for n in numbers[1:]):
            raise ReleaseError(f"{where} must name mechanisms and attributes that are there")
        mechanism, names = mechanisms[numbers[0]], tuple(schema.names[n] for n in numbers[1:])
        cells += math.prod(schema.sizes(names))
        if cells > MAX_CELLS:
            raise ReleaseError(f"a release must hold at most {MAX_CELLS:,} cells; {where} goes beyond")
        query = Cells(names) if mechanism.query == "cells" else Contrast(names)
        shape = query.shape(schema)
        values += math.prod(shape)
        out.append((mechanism, query, shape))
    if values != rows:
        raise ReleaseError(f"its measurements have {values:,} numbers, but it has {rows:,} rows")
    return tuple(out)
