"""Synthetic rows with labels: what can be handed on in place of the rows that nobody may see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.schema import Schema

__all__ = ["labelled_rows"]


def labelled_rows(schema: Schema, codes: NDArray[np.integer]) -> pa.Table:
    """A row for each line of codes: a dictionary column for each attribute, its labels in the schema's order.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 120])])
    >>> labelled_rows(schema, np.array([[1, 0], [0, 1]])).to_pylist()
    [{'sex': 'Male', 'age': '[0, 18)'}, {'sex': 'Female', 'age': '[18, 120]'}]
    """
    if codes.ndim != 2 or codes.shape[1] != len(schema.names):
        raise CrosstallyError(f"codes must have a column for each of {len(schema.names)} attributes, got {codes.shape}")
    columns = []
    for i, attribute in enumerate(schema.attributes):
        column = codes[:, i].astype(np.int32)
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < attribute.size:
            raise CrosstallyError(f"codes of {attribute.name!r} must be from 0 to {attribute.size - 1}")
        columns.append(pa.DictionaryArray.from_arrays(pa.array(column), pa.array(attribute.labels, pa.string())))
    return pa.Table.from_arrays(columns, names=list(schema.names))
