"""Rows as the cells they count in, after every attribute's rule and the contribution bounds."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.schema import Attribute
from crosstally.sources.codes.encode import Encoder
from crosstally.sources.columns import Columns
from crosstally.sources.source import WEIGHT
from crosstally.sources.tally import Kept
from crosstally.sources.units import Bound
from crosstally.threads import in_order

__all__ = ["cells_of", "kept_rows"]


def kept_rows(
    read: Iterable[pa.RecordBatch], columns: Columns, attributes: Sequence[Attribute], batch_rows: int
) -> Generator[Kept]:
    """The rows that count, after rules and contribution bounds, a batch at a time: how many, and each one's cells.

    The third are the numbers of rows that each of them stands for, None where that is one. Batches are encoded in
    threads and come in the order in which they were read.
    """
    encoders = list(map(columns.encoder, attributes))
    unit = columns.schema.unit
    if unit is None:
        yield from in_order(partial(_encoded, encoders=encoders), read)
        return
    bound = Bound(unit)
    for ids, kept, cells in in_order(lambda batch: (columns.ids(batch), *cells_of(batch, encoders)), read):
        bound.add(ids, kept, cells)
    for size, cells in bound.kept(batch_rows):
        yield size, cells, None


def _encoded(batch: pa.RecordBatch, encoders: Sequence[Encoder]) -> Kept:
    kept, cells = cells_of(batch, encoders)
    weights = batch.column(WEIGHT).to_numpy() if WEIGHT in batch.schema.names else None
    if kept is None:
        return batch.num_rows, cells, weights
    return int(kept.sum()), [codes[kept] for codes in cells], None if weights is None else weights[kept]


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
