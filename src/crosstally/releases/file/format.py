"""The format of a release file: its header, its columns and its checksum, as writer and reader both have them.

``docs/reference/release-file.md`` describes it field by field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.budget import Noise
from crosstally.measurements import Measurement
from crosstally.query.operators import Matrix
from crosstally.schema import Schema

__all__ = [
    "CHOSEN_FIELDS",
    "CONTENT",
    "DIGEST_KEY",
    "ESTIMATE_FIELDS",
    "FORMAT",
    "HEADER_FIELDS",
    "HEADER_KEY",
    "KIND_FIELDS",
    "MAX_EXACT",
    "MAX_HEADER",
    "ROOM_KEY",
    "TEXTS",
    "MeasurementKind",
    "arrow_schema",
    "column_names",
    "digest",
    "least_size",
    "places",
]

FORMAT = 1
CONTENT = ("measurement", "cell", "value", "estimate")  # the columns that hold the release
READABLE = ("table", "variance")  # columns for people: they repeat what the header says
HEADER_KEY, DIGEST_KEY = b"crosstally", b"crosstally.sha256"  # entries of the Parquet metadata
HEADER_FIELDS = (
    "format",
    "schema",
    "statement",
    "estimate",
    "mechanisms",
    "measurements",
    "groups",  # of each attribute whose values are in groups: the group of each value
    "matrices",  # of each attribute that is measured by matrices: these
    "choices",  # what was chosen privately
)
CHOSEN_FIELDS = ("tables", "chosen", "noise", "origin", "weight")
ESTIMATE_FIELDS = ("inference", "rounds", "corrected", "variances")
KIND_FIELDS = ("query", "values", "noise", "variance", "origin", "matrices")
MAX_HEADER = 32 * 2**20  # bytes of JSON
MAX_EXACT = 2**53  # up to here a double holds every whole number
ROOM_KEY = b"crosstally.room"  # blanks, in a file that would be too small for its numbers
# So many numbers need no bytes, each further one needs 4 of the file. What a reader takes in time and memory follows
# the numbers, and equal ones compress to nothing. Releases have 8 to 13 bytes for each number (65,536 cells at
# epsilon 100 and 1), so that next to none needs room. Fewer free numbers would need it in small releases.
_FREE_NUMBERS, _BYTES_A_NUMBER = 500_000, 4
TEXTS = pa.dictionary(pa.int32(), pa.string())


def least_size(numbers: int) -> int:
    """How many bytes a release file of so many numbers must have."""
    return max(0, numbers - _FREE_NUMBERS) * _BYTES_A_NUMBER


@dataclass(frozen=True, slots=True)
class MeasurementKind:
    """What measurements share: the kind of query, the noise, and where it was bought (the header's ``mechanisms``)."""

    query: str
    values: str
    noise: Noise | None
    variance: float
    origin: str
    matrices: tuple[tuple[str, int], ...] = ()
    """For each attribute along which there is a matrix its number among the attribute's matrices."""

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
    for name in CONTENT:
        array = columns[name]
        state.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return state.hexdigest().encode()


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


def arrow_schema(schema: Schema, value_type: pa.DataType) -> pa.Schema:
    """The columns with their types; ``value_type`` is that of the measured numbers."""
    types = [pa.int32(), pa.int32(), value_type, pa.float64(), TEXTS, pa.float64()]
    names = column_names(schema)
    plain = [pa.field(name, kind, nullable=False) for name, kind in zip(names[: len(types)], types, strict=True)]
    return pa.schema(plain + [pa.field(name, TEXTS) for name in names[len(types) :]])
