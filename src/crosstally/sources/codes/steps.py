"""The values of a measure as codes: steps above its least value, each row by itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.errors import OutsideValueError
from crosstally.schema import Measure
from crosstally.sources.codes.arrays import check_readable, is_text


def steps_of(measure: Measure, column: pa.Array) -> NDArray[np.uint64]:
    """For each row the steps of its value above the least one, and the last code where it has no value.

    A value is moved into the bounds, then to the nearest whole number of steps.
    """
    values = _numbers(measure.name, column)
    missing, outside = np.isnan(values), (values < measure.lower) | (values > measure.upper)
    values = np.clip(np.where(missing, 0.0, values), measure.lower, measure.upper)
    steps = np.rint(values / float(Fraction(str(measure.step)))) - round(measure.lower / measure.step)
    codes = np.clip(steps.astype(np.int64), 0, measure.size - 2)
    left_out = (missing & (measure.missing == "leave out")) | (outside & (measure.outside == "drop"))
    return np.where(left_out, measure.size - 1, codes).astype(np.uint64)


def _numbers(name: str, column: pa.Array) -> NDArray[np.float64]:
    """The values in double precision, NaN where one is missing; an error says no value."""
    check_readable(name, column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if is_text(column.type):
            texts = pc.utf8_trim_whitespace(pc.cast(column, pa.large_string()))
            column = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.large_string()), texts)
        values: NDArray[Any] = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise OutsideValueError(
            f"column {name!r} holds values that are not numbers, which a measure cannot add up: leave the measure out, "
            "or say in the schema's reading which texts are missing values"
        ) from None
    return np.asarray(values, np.float64)
