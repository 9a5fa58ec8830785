"""Arrow arrays as numpy's and Python's values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.sources.guard import guarded


def is_readable(kind: pa.DataType) -> bool:
    """Whether the values of a type have a canonical text."""
    if pa.types.is_dictionary(kind):
        return is_readable(kind.value_type)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    is_moment = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return bool(is_text(kind) or is_number or is_moment or pa.types.is_boolean(kind) or pa.types.is_null(kind))


def check_readable(name: str, kind: pa.DataType) -> None:
    """Raise unless the values of the column's type have a canonical text."""
    if not is_readable(kind):
        given = str(kind).split("<")[0].split("[")[0]
        raise SourceError(f"column {name!r} must hold texts, numbers, booleans, dates or times, got {given}")


def plain_values(name: str, column: pa.Array) -> list[object]:
    """The values of a column of decimals, dates or times as Python's."""
    return guarded(f"column {name!r}", lambda: _python_values(column), otherwise="it holds dates beyond the calendar")


def _python_values(column: pa.Array) -> list[object]:
    kind = column.type
    if pa.types.is_time64(kind):
        return list(pc.cast(column, pa.time64("us")).to_pylist())
    if not pa.types.is_timestamp(kind) or kind.unit != "ns":
        return list(column.to_pylist())
    whole, rest = np.divmod(numbers(column), 1000)
    moments = pa.array(whole).cast(pa.timestamp("us", kind.tz)).to_pylist()
    return [_nanosecond_text(moment, each) for moment, each in zip(moments, rest.tolist(), strict=True)]


def _nanosecond_text(moment: datetime, nanoseconds: int) -> str:
    if not nanoseconds:
        return moment.isoformat()
    text = moment.isoformat(timespec="microseconds")
    end = text.index(".") + 7
    return f"{text[:end]}{nanoseconds:03d}{text[end:]}"


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain_text(column: pa.Array) -> pa.Array:
    """The same texts in a layout that every function takes."""
    return pc.cast(column, pa.large_string()) if pa.types.is_string_view(column.type) else column


def numbers(column: pa.Array) -> NDArray[Any]:
    """The numbers of a column without copying; at nulls there may be any."""
    is_moment = pa.types.is_timestamp(column.type)
    dtype = np.dtype(np.int64 if is_moment else column.type.to_pandas_dtype())
    buffer = column.buffers()[1]
    if buffer is None:  # allowed when all are null
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype, len(column), column.offset * dtype.itemsize)


def looked_up(table: NDArray[Any], indices: pa.Array) -> NDArray[Any]:
    """The entry of a table at each index; its last entry is for nulls."""
    if not len(indices):
        return table[:0]
    return np.asarray(table[numbers(pc.fill_null(pc.cast(indices, pa.int64()), len(table) - 1))])


def flags(column: pa.BooleanArray) -> NDArray[np.bool_]:
    """Booleans without nulls as an array."""
    array: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return array


def rows_of_each(texts: Sequence[pa.Array]) -> NDArray[np.int64]:
    """How often each different text occurs in arrays of large_string; nulls are left out."""
    times: NDArray[np.int64] = pa.chunked_array(texts, pa.large_string()).drop_null().value_counts().field(1).to_numpy()
    return times
