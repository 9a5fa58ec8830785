"""Queries as dense matrices over the full table, and least squares by the book: a slow twin of Kronecker algebra."""

import numpy as np
import pyarrow as pa

import crosstally as ct
from crosstally.measurements import Measurement

AGES = ct.Schema.from_dict(
    {
        "attributes": [
            {"name": "sex", "values": ["Female", "Male"]},
            {"name": "age", "edges": list(range(0, 90, 10))},
            {"name": "region", "values": ["N", "E", "S"]},
        ]
    }
)


def people(number: int = 3_000) -> pa.Table:
    """Synthetic data of ``AGES``, the same each time."""
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "sex": rng.choice(["Female", "Male"], number),
            "age": np.clip(rng.gamma(5, 8, number), 0, 79),
            "region": rng.choice(["N", "E", "S"], number),
        }
    )


def measured(asked, schema: ct.Schema, seed: int = 1) -> list[Measurement]:
    """Queries with variances, answered from a made-up table with rounded normal noise."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 50, schema.shape)
    out = []
    for query, variance in asked:
        exact = answer_of(query, table, schema)
        noisy = exact + np.rint(rng.normal(0, variance**0.5, exact.shape)).astype(int)
        out.append(Measurement(query, noisy, variance=variance, noise=None, origin="test"))
    return out


def numbered(*sizes: int, **more) -> ct.Schema:
    """A schema of attributes a0, a1, ... of these sizes."""
    attributes = [{"name": f"a{i}", "values": [f"v{j}" for j in range(n)]} for i, n in enumerate(sizes)]
    return ct.Schema.from_dict({"attributes": attributes, **more})


def rows_of(query, schema: ct.Schema) -> np.ndarray:
    """The query as a matrix: a row for each number of its answer, a column for each cell of the full table."""
    columns = []
    for cell in range(int(np.prod(schema.shape))):
        table = np.zeros(schema.shape, np.int64)
        table.ravel()[cell] = 1
        columns.append(answer_of(query, table, schema).ravel())
    return np.array(columns, np.float64).T


def answer_of(query, table: np.ndarray, schema: ct.Schema) -> np.ndarray:
    """The answer from counts of the full table."""
    kept = [name for name in schema.names if name in query.attributes]
    marginal = table.sum(axis=tuple(i for i, name in enumerate(schema.names) if name not in kept))
    return np.asarray(query.answer(marginal.transpose([kept.index(name) for name in query.attributes])))


def least_squares(measurements, schema: ct.Schema) -> tuple[np.ndarray, np.ndarray]:
    """The full table by generalised least squares, and its covariance; of what is not measured the least norm."""
    matrix = np.vstack([rows_of(m.query, schema) for m in measurements])
    values = np.concatenate([np.asarray(m.values, float).ravel() for m in measurements])
    precision = np.concatenate([np.full(m.values.size, 1 / m.variance) for m in measurements])
    covariance = np.linalg.pinv(matrix.T @ (precision[:, None] * matrix), hermitian=True)
    return covariance @ matrix.T @ (precision * values), covariance


def widest_move(query, schema: ct.Schema, *, replace: bool) -> tuple[int, int]:
    """L1 and squared L2 sensitivity by trying every row, or every pair of rows."""
    columns = rows_of(query, schema).T
    moves = [a - b for a in columns for b in columns] if replace else list(columns)
    return int(max(np.abs(m).sum() for m in moves)), int(max((m**2).sum() for m in moves))
