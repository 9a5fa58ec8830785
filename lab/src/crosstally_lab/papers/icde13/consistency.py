"""Tables that agree, nearest in L1, L2 or the largest difference (ICDE 2013, sections III-C and IV-C).

Tables agree when they come from common coefficients, so the programs have a variable for each coefficient of the
workload and never one for each cell of the full table. The true tables agree, so making noisy ones agree at most
doubles their error in the norm that is minimised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from crosstally.errors import CrosstallyError, QueryError, TooManyCellsError
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.residuals import combine, rebuild
from crosstally.residuals.axes import Layout
from crosstally.schema import Schema
from crosstally.typing import Floats

Norm = Literal["l1", "l2", "largest"]

MAX_ENTRIES = 5_000_000  # limits memory: 40 MB of the program's entries. More are refused for these norms


@dataclass(frozen=True, slots=True, eq=False)
class Agreed:
    """Tables that agree with each other, and their distance from those given, in the norm that was minimised."""

    tables: Mapping[tuple[str, ...], Floats]
    distance: float


def consistent_tables(
    schema: Schema, tables: Mapping[tuple[str, ...], ArrayLike], *, norm: Norm = "l2", time_limit: float = 60.0
) -> Agreed:
    """The tables that agree and are nearest to some that do not.

    Args:
        schema: Their attributes.
        tables: Noisy tables, one axis for each attribute named.
        norm: "l1" (the total difference), "l2" (the root of the sum of squares) or "largest" (the largest difference).
        time_limit: Seconds after which a linear program is given up.
    """
    given = {names: np.asarray(values, float) for names, values in tables.items()}
    for names, values in given.items():
        if values.shape != schema.sizes(names) or not np.isfinite(values).all():
            raise QueryError(f"the table of {' x '.join(names)} must be finite numbers of shape {schema.sizes(names)}")
    if norm == "l2":
        drawn = [Measurement(Cells(n), v, variance=1.0, noise=None, origin="given") for n, v in given.items()]
        agreed = combine(schema, drawn).tables(list(given))
        distance = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(agreed, given.values(), strict=True)))
        return Agreed(dict(zip(given, agreed, strict=True)), distance)
    matrix = _recovery(schema, list(given))
    flat = np.concatenate([values.ravel() for values in given.values()])
    found, distance = _nearest(matrix, flat, norm, time_limit)
    parts = np.split(matrix @ found, np.cumsum([values.size for values in given.values()])[:-1])
    shaped = [part.reshape(values.shape) for part, values in zip(parts, given.values(), strict=True)]
    return Agreed(dict(zip(given, shaped, strict=True)), distance)


def _recovery(schema: Schema, tables: Sequence[tuple[str, ...]]) -> Any:
    """The sparse matrix that gives the cells of all tables from the coefficients of their downward closure."""
    from scipy.sparse import coo_array

    sizes = [math.prod(schema.sizes(names)) for names in tables]
    if sum(n * n for n in sizes) > MAX_ENTRIES:
        raise TooManyCellsError(
            f"tables are too large to be made consistent by a linear program: {sum(n * n for n in sizes):,} entries, "
            f"and at most {MAX_ENTRIES:,} are allowed; use the norm l2"
        )
    layout = Layout.of(schema.shape)
    keys = [layout.keys([[schema.positions[name] for name in names]])[0] for names in tables]
    _, places = np.unique(np.concatenate(keys), return_inverse=True)
    rows, columns, entries, start = [], [], [], 0
    for names, place in zip(tables, np.split(places, np.cumsum(sizes)[:-1]), strict=True):
        shape = schema.sizes(names)
        block = rebuild(np.eye(len(place)).reshape(len(place), *shape), len(shape)).reshape(len(place), -1).T
        cell, coefficient = np.nonzero(np.abs(block) > 1e-15)
        rows.append(start + cell)
        columns.append(place[coefficient])
        entries.append(block[cell, coefficient])
        start += len(place)
    parts = (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
    return coo_array(parts, shape=(start, int(places.max()) + 1)).tocsc()


def consistent_answers(
    queries: ArrayLike, answers: ArrayLike, *, norm: Norm = "l2", time_limit: float = 60.0
) -> Floats:
    """The answers to any queries that some table has, nearest to noisy ones (section III-C): a basis of rows is enough.

    >>> consistent_answers([[1, 1], [1, 0], [0, 1]], [4, 2, 1], norm="l2").round(4)
    array([3.6667, 2.3333, 1.3333])
    """
    matrix, noisy = np.asarray(queries, float), np.asarray(answers, float)
    if matrix.ndim != 2 or noisy.shape != (len(matrix),):
        raise QueryError(f"answers must be one number for each query, got {noisy.shape} for {matrix.shape}")
    left, sizes, _ = np.linalg.svd(matrix, full_matrices=False)
    basis = left[:, sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)]
    if norm == "l2":
        return np.asarray(basis @ (basis.T @ noisy))
    return np.asarray(basis @ _nearest(basis, noisy, norm, time_limit)[0])


def _nearest(matrix: Any, values: Floats, norm: Norm, time_limit: float) -> tuple[Floats, float]:
    """The free variables whose image is nearest to the values, and the distance."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, eye_array, hstack, vstack

    if norm not in ("l1", "largest"):
        raise QueryError(f"norm must be l1, l2 or largest, got {norm!r}")
    numbers, variables = matrix.shape
    slack = eye_array(numbers) if norm == "l1" else csc_array(np.ones((numbers, 1)))
    image = csc_array(matrix)
    found = linprog(
        np.concatenate([np.zeros(variables), np.ones(slack.shape[1])]),
        A_ub=vstack([hstack([image, -slack]), hstack([-image, -slack])], format="csc"),
        b_ub=np.concatenate([values, -values]),
        bounds=[(None, None)] * variables + [(0, None)] * slack.shape[1],
        method="highs",
        options={"time_limit": time_limit},
    )
    if found.status != 0:
        raise CrosstallyError(
            "the linear program for consistency did not finish; give it more time, or use the norm l2"
        )
    return np.asarray(found.x[:variables]), float(found.fun)
