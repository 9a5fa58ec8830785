"""Rows as the cells they count in, after every attribute's rule and the contribution bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.schema import Attribute
from crosstally.sources.codes.encode import Encoder
from crosstally.sources.columns import Columns
from crosstally.sources.grouped_query import WEIGHT
from crosstally.sources.units import Bound

__all__ = ["cells_of", "kept_rows"]


def kept_rows(
    read: Iterable[pa.RecordBatch], columns: Columns, attributes: Sequence[Attribute], batch_rows: int
) -> Iterator[tuple[int, Sequence[NDArray[Any]], NDArray[np.int64] | None]]:
    """The rows that count, after rules and contribution bounds, a batch at a time: how many, and each one's cells.

    The third are the numbers of rows that each of them stands for, None where that is one.
    """
    encoders = list(map(columns.encoder, attributes))
    bound = None if columns.schema.unit is None else Bound(columns.schema.unit)
    for batch in read:
        kept, cells = cells_of(batch, encoders)
        if bound is None:
            weights = batch.column(WEIGHT).to_numpy() if WEIGHT in batch.schema.names else None
            yield _chosen(kept, cells, batch.num_rows, weights)
        else:
            bound.add(columns.ids(batch), kept, cells)
    if bound is not None:
        for size, cells in bound.kept(batch_rows):
            yield size, cells, None


def cells_of(batch: pa.RecordBatch, encoders: Sequence[Encoder]) -> tuple[NDArray[np.bool_] | None, list[NDArray[Any]]]:
    """Which rows no rule drops (None: all of them), and the cells of each attribute."""
    dropped: NDArray[np.bool_] | None = None
    cells = []
    for encoder in encoders:
        codes, lost = encoder.cells(batch)
        cells.append(codes)
        if lost is not None:
            dropped = lost if dropped is None else dropped | lost
    return None if dropped is None else ~dropped, cells


def _chosen(
    kept: NDArray[np.bool_] | None, cells: Sequence[NDArray[Any]], rows: int, weights: NDArray[np.int64] | None
) -> tuple[int, Sequence[NDArray[Any]], NDArray[np.int64] | None]:
    if kept is None:
        return rows, cells, weights
    return int(kept.sum()), [codes[kept] for codes in cells], None if weights is None else weights[kept]
