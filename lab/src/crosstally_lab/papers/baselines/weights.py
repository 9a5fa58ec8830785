"""MWEM, by the library's own strategy (PriView, section 3.6)."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from crosstally.pipeline import release
from crosstally.schema import Schema
from crosstally.strategies.mwem import MWEM, multiplicative_weights
from crosstally.typing import Floats
from crosstally.workload import Workload

REPLAYS = 100  # passes through all answers in each round, as in the paper's section 3.6


def mwem_rounds(attributes: int) -> int:
    """T, how many tables are chosen and measured, by the paper's rule (section 5.1).

    >>> mwem_rounds(9)
    15
    """
    return math.ceil(4 * math.log2(attributes)) + 2


def mwem(rows: pa.Table, schema: Schema, *, ways: int, epsilon: float, replays: int = REPLAYS) -> Floats:
    """The distribution over all attributes after each round, times the number of rows, which is told.

    Half of the budget chooses between all tables of so many attributes, half measures. Simplified: the private choice
    adds Gumbel noise to all distances and takes the largest, which is the exponential mechanism; noise is discrete.
    """
    strategy = MWEM(rounds=mwem_rounds(len(schema.names)), rows=rows.num_rows, replays=replays)
    found = release(
        rows,
        schema,
        epsilon=epsilon,
        workload=Workload.all_ways(schema, ways),
        strategy=strategy,
        rows=rows.num_rows,
    )
    return np.asarray(multiplicative_weights(schema, found.measurements, rows=rows.num_rows, replays=replays))
