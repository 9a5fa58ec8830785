"""Tables that OpenDP or mbi measured, as foreign answers of a notebook.

OpenDP's ``ContingencyTable`` holds its measurements in the form of mbi: the noisy table as a vector, the names of its
attributes, the standard deviation of its noise, and the query. Neither package is imported: whatever has these members
will do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from crosstally.checks import several
from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.notebook.foreign import foreign_answer
from crosstally.query.queries import Cells
from crosstally.schema import Schema

__all__ = ["foreign_tables"]

_WHOLE_TABLES = ("datavector", "DatavectorQuery")  # how mbi 1 and mbi 2 call the query for all cells of a table


def foreign_tables(given: Any, schema: Schema, origin: str) -> tuple[Measurement, ...]:
    """The tables of OpenDP's contingency table, or some measurements of mbi, checked; cells in the schema's order."""
    _check_labels(getattr(given, "keys", None), schema)
    marginals = getattr(given, "marginals", given)
    measured: Iterable[Any] = marginals.flatten() if hasattr(marginals, "flatten") else marginals
    return tuple(_table(each, schema, origin) for each in several(measured, "tables"))


def _check_labels(keys: Any, schema: Schema) -> None:
    """Raise where OpenDP has other values than the schema, or the same ones in another order."""
    for name, values in keys.items() if isinstance(keys, Mapping) else ():
        labels, found = schema[name].labels, [str(value) for value in values]
        if len(found) != len(labels) or (sorted(found) == sorted(labels) and found != list(labels)):
            raise QueryError(
                f"the values of {name!r} must be those of the schema, in its order: {', '.join(labels[:6])}; "
                f"got {len(found)} of {len(labels)} values, or another order"
            )


def _table(measured: Any, schema: Schema, origin: str) -> Measurement:
    if not hasattr(measured, "query"):
        raise QueryError(f"tables must be those of OpenDP's ContingencyTable or of mbi, got {type(measured).__name__}")
    query = measured.query
    if getattr(query, "__name__", type(query).__name__) not in _WHOLE_TABLES:
        raise QueryError(f"only whole tables can be taken over, {', '.join(measured.clique)} was measured in part")
    names = tuple(measured.clique)
    values = np.asarray(measured.noisy_measurement, np.float64)
    sizes = schema.sizes(names)
    if values.size != math.prod(sizes):
        raise QueryError(f"the table of {' x '.join(names)} must have {math.prod(sizes):,} cells, got {values.size:,}")
    ordered = schema.ordered(names)
    table = values.reshape(sizes).transpose([names.index(name) for name in ordered])
    return foreign_answer(Cells(ordered), table, variance=float(measured.stddev) ** 2, origin=origin, schema=schema)
