"""Contribution bounds: at most so many rows of each unit, chosen by their content alone.

Of each unit the rows with the smallest hashes are kept. Which ones depends on nothing but the unit's own rows: not on
their order, on the size of batches, or on other units. Equal rows are kept as often as they occur, within the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.schema import Unit
from crosstally.sources.codes.encode import canonical_texts

__all__ = ["Bound", "id_hashes", "text_bytes"]

# Limits memory: a million rows wait before they are thinned to the bound. The rows kept do not depend on it.
_PENDING_ROWS = 1 << 20


class Bound:
    """The rows kept so far of each unit; confidential.

    Only as many rows are held as are kept, and as many again before they are thinned out.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._ids = pa.array([], pa.large_string())
        self._units = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._cells: list[NDArray[Any]] | None = None
        self._pending: list[tuple[pa.Array, NDArray[np.uint64], list[NDArray[Any]]]] = []
        self._pending_rows = 0

    def add(self, ids: pa.Array, kept: NDArray[np.bool_] | None, cells: Sequence[NDArray[Any]]) -> None:
        """Take in a batch: the units' ids, which rows no rule dropped (None: all), and the cells of each attribute."""
        texts = canonical_texts(self.unit.id, ids)
        known = texts.is_valid().to_numpy(zero_copy_only=False)
        wanted = known if kept is None else known & kept
        chosen = [codes[wanted] for codes in cells]
        self._pending.append((texts.filter(pa.array(wanted)), row_hashes(chosen, int(wanted.sum())), chosen))
        self._pending_rows += len(self._pending[-1][1])
        if self._pending_rows > max(_PENDING_ROWS, len(self._units)):
            self._thin()

    def kept(self, batch_rows: int) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """The rows kept, a batch at a time: how many, and the cells of each attribute."""
        self._thin()
        for start in range(0, len(self._units), batch_rows):
            size = min(batch_rows, len(self._units) - start)
            yield size, [codes[start : start + size] for codes in self._cells or ()]

    def _thin(self) -> None:
        if not self._pending:
            return
        ids, hashes, cells = zip(*self._pending, strict=True)
        # The units known so far come first and differ, so that their numbers stay what they are.
        encoded = pa.concat_arrays([self._ids, *ids]).dictionary_encode()
        new_units = encoded.indices.to_numpy()[len(self._ids) :]
        units = np.concatenate([self._units, new_units])
        all_hashes = np.concatenate([self._hashes, *hashes])
        before = self._cells or [column[:0] for column in cells[0]]
        columns = [np.concatenate(parts) for parts in zip(before, *cells, strict=True)]
        rows = smallest(units, all_hashes, columns, self.unit.max_rows)
        self._ids, self._units, self._hashes = encoded.dictionary, units[rows], all_hashes[rows]
        self._cells = [column[rows] for column in columns]
        self._pending, self._pending_rows = [], 0


def row_hashes(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[np.uint64]:
    """A hash of each row's cells; equal rows have equal hashes, whatever the width of the codes."""
    hashes = np.full(rows, 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        hashes ^= column
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(32)
    return hashes


def smallest(
    units: NDArray[np.int64], hashes: NDArray[np.uint64], columns: Sequence[NDArray[Any]], most: int
) -> NDArray[np.int64]:
    """Which rows to keep: of each unit those with the smallest hashes, and of equal hashes the smallest cells."""
    order = np.lexsort((hashes, units))
    same = (units[order][1:] == units[order][:-1]) & (hashes[order][1:] == hashes[order][:-1])
    if any((column[order][1:] != column[order][:-1])[same].any() for column in columns):
        order = np.lexsort((*reversed(columns), hashes, units))
    sorted_units = units[order]
    begins = np.flatnonzero(np.append(True, sorted_units[1:] != sorted_units[:-1]))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return order[rank < most]


# Units that are spread over tasks: all rows of one go to the same


def id_hashes(ids: pa.Array) -> NDArray[np.uint64]:
    """A hash of each id, given as canonical texts (large_string) without nulls: equal texts have equal hashes.

    It depends on the bytes of the text alone: not on the machine, the process or the other ids.
    """
    offsets, data = text_bytes(ids)
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(lengths.max(initial=0), 0xBF58476D1CE4E5B9, np.uint64))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[np.arange(len(data)) - np.repeat(offsets[:-1], lengths)]
    # The sum over each text's bytes; sums over all that comes before wrap around, and so do their differences.
    sums = np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64))
    hashes: NDArray[np.uint64] = sums[offsets[1:]] - sums[offsets[:-1]]
    hashes ^= hashes >> np.uint64(31)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    return hashes


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the texts of a large_string array without nulls begin and end, and the bytes of all of them."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends - ends[0], whole[ends[0] : ends[-1]]
