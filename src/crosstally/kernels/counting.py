"""Counting: codes of a batch of rows in, counts of many tables out.

Tables are outermost, so that the histogram of one stays in the nearest cache; rows go by in blocks, so that their keys
do too. The loops that must become vector instructions stand in functions of their own: inside the larger one they do
not. The three kernels leave the interpreter's lock (``nogil``): several threads count at once, each into counts of its
own.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.typing import Integers

SMALL_SIZE = 256
"""Attributes of a small table have at most this many cells: a code is one byte."""
SMALL_CELLS = 65_536
"""A small table has at most this many cells: a key is two bytes."""
# Tables up to this are counted in four copies (64 kB), so that consecutive rows of one cell do not delay each other.
_INTERLEAVED_CELLS = 4_096
# Rows whose keys are made at once: 8 kB stay in the cache. A multiple of four, the number of keys in a word.
_BLOCK = 4_096


@njit("void(uint16[::1], uint8[::1])", cache=True)
def _begin_small(keys: NDArray[np.uint16], codes: NDArray[np.uint8]) -> None:
    for i in range(codes.size):
        keys[i] = codes[i]


@njit("void(uint16[::1], uint8[::1], uint16)", cache=True)
def _extend_small(keys: NDArray[np.uint16], codes: NDArray[np.uint8], size: np.uint16) -> None:
    for i in range(codes.size):
        keys[i] = np.uint16(keys[i] * size + codes[i])


@njit("void(uint64[::1], uint32[::1])", cache=True)
def _add_interleaved(words: NDArray[np.uint64], lanes: NDArray[np.uint32]) -> None:
    # Four keys a word, four histograms side by side: equal neighbouring keys do not wait for each other's store.
    mask, one = np.uint64(0xFFFF), np.uint32(1)
    for i in range(words.size):
        word = words[i]
        lanes[(word & mask) * np.uint64(4)] += one
        lanes[((word >> np.uint64(16)) & mask) * np.uint64(4) + np.uint64(1)] += one
        lanes[((word >> np.uint64(32)) & mask) * np.uint64(4) + np.uint64(2)] += one
        lanes[(word >> np.uint64(48)) * np.uint64(4) + np.uint64(3)] += one


@njit("void(uint8[:, ::1], int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def count_small(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    codes: NDArray[np.uint8],
    rows: int,
    sizes: Integers,
    members: Integers,
    starts: Integers,
    offsets: Integers,
    counts: Integers,
) -> None:
    """Add a batch to the counts of small tables, in place.

    Args:
        codes: One line for each attribute, of which the first ``rows`` codes count (fewer than 2^32).
        rows: How many rows there are.
        sizes: How many cells each attribute has.
        members: The attributes of all tables, one table after another.
        starts: Where each table begins in ``members``, and where the last one ends. No table is empty.
        offsets: Where each table begins in ``counts``, and where the last one ends.
        counts: The cells of all tables.
    """
    words = np.empty(_BLOCK // 4, np.uint64)
    keys = words.view(np.uint16)
    lanes = np.empty(4 * _INTERLEAVED_CELLS, np.uint32)
    for table in range(starts.size - 1):
        first, last = starts[table], starts[table + 1]
        offset, cells = offsets[table], offsets[table + 1] - offsets[table]
        interleaved = cells <= _INTERLEAVED_CELLS
        if interleaved:
            lanes[: 4 * cells] = 0
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            _begin_small(keys, codes[members[first], start:stop])
            for j in range(first + 1, last):
                _extend_small(keys, codes[members[j], start:stop], np.uint16(sizes[members[j]]))
            done = 0
            if interleaved:
                done = (stop - start) // 4 * 4
                _add_interleaved(words[: done // 4], lanes)
            for i in range(done, stop - start):
                counts[offset + keys[i]] += 1
        if interleaved:
            for cell in range(cells):
                for lane in range(4):
                    counts[offset + cell] += lanes[4 * cell + lane]


@njit("void(uint32[::1], uint32[::1], uint32)", cache=True)
def _extend_large(keys: NDArray[np.uint32], codes: NDArray[np.uint32], size: np.uint32) -> None:
    for i in range(codes.size):
        keys[i] = np.uint32(keys[i] * size + codes[i])


@njit("void(uint32[:, ::1], int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def count_large(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    codes: NDArray[np.uint32],
    rows: int,
    sizes: Integers,
    members: Integers,
    starts: Integers,
    offsets: Integers,
    counts: Integers,
) -> None:
    """Add a batch to the counts of tables of fewer than 2^32 cells, in place. Arguments as for ``count_small``."""
    keys = np.empty(_BLOCK, np.uint32)
    for table in range(starts.size - 1):
        offset = offsets[table]
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            keys[:] = 0
            for j in range(starts[table], starts[table + 1]):
                _extend_large(keys, codes[members[j], start:stop], np.uint32(sizes[members[j]]))
            for i in range(stop - start):
                counts[offset + keys[i]] += 1


@njit(
    "void(uint32[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    cache=True,
    nogil=True,
)
def count_weighted(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    codes: NDArray[np.uint32],
    weights: Integers,
    sizes: Integers,
    members: Integers,
    starts: Integers,
    offsets: Integers,
    counts: Integers,
) -> None:
    """The same for rows that each stand for as many as ``weights`` say, of which there are as many as rows."""
    keys = np.empty(_BLOCK, np.uint32)
    rows = weights.size
    for table in range(starts.size - 1):
        offset = offsets[table]
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            keys[:] = 0
            for j in range(starts[table], starts[table + 1]):
                _extend_large(keys, codes[members[j], start:stop], np.uint32(sizes[members[j]]))
            for i in range(stop - start):
                counts[offset + keys[i]] += weights[start + i]
