"""The counting kernels against one row at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crosstally.kernels.counting import count_large, count_small, count_weighted

Kernel = Callable[..., None]
KERNELS = [(count_small, np.uint8), (count_large, np.uint32)]


def plain(codes: NDArray[Any], rows: int, sizes: list[int], tables: list[list[int]]) -> list[int]:
    counts: list[int] = []
    for table in tables:
        shape = [sizes[a] for a in table]
        cells = np.zeros(shape, int)
        for row in range(rows):
            cells[tuple(codes[a, row] for a in table)] += 1
        counts += cells.ravel().tolist()
    return counts


def run(
    kernel: Kernel, codes: NDArray[Any], sizes: list[int], tables: list[list[int]], *, rows: Any, start: int = 0
) -> list[int]:
    ends = np.cumsum([0, *(len(table) for table in tables)])
    offsets = np.cumsum([0, *(int(np.prod([sizes[a] for a in table])) for table in tables)])
    counts = np.full(offsets[-1], start, np.int64)
    members = np.array([a for table in tables for a in table], np.int64)
    kernel(codes, rows, np.array(sizes), members, ends, offsets, counts)
    return counts.tolist()


@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 4_095, 4_096, 4_097, 8_200])
def test_every_number_of_rows(kernel: Callable[..., None], dtype: Any, rows: int) -> None:
    draw = np.random.default_rng(rows)
    sizes = [2, 5, 3, 256, 17]
    codes = np.array([draw.integers(0, size, 8_300) for size in sizes]).astype(dtype)
    tables = [[0], [3], [2, 0], [0, 1, 2], [4, 3], [3, 3]]  # the last two and a half are past the interleaved ones
    assert run(kernel, codes, sizes, tables, rows=rows) == plain(codes, rows, sizes, tables)


@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
def test_the_largest_key_of_a_small_table(kernel: Callable[..., None], dtype: Any) -> None:
    codes = np.full((2, 10), 255, dtype)
    counts = run(kernel, codes, [256, 256], [[0, 1]], rows=10)
    assert (counts[-1], sum(counts)) == (10, 10)


def test_the_largest_key_of_a_large_table() -> None:
    codes = np.array([[1_999] * 5, [2_499] * 5], np.uint32)
    counts = run(count_large, codes, [2_000, 2_500], [[0, 1]], rows=5)
    assert (len(counts), counts[-1], sum(counts)) == (5_000_000, 5, 5)


@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
@pytest.mark.parametrize("start", [2**31 - 2, 2**32 - 1, 2**53, 2**62])
def test_a_batch_is_added_exactly_to_counts_of_any_size(kernel: Callable[..., None], dtype: Any, start: int) -> None:
    codes = np.array([[0, 0, 1, 0, 0, 0, 1]], dtype)
    assert run(kernel, codes, [3], [[0]], rows=7, start=start) == [start + 5, start + 2, start]


@pytest.mark.parametrize("rows", [0, 1, 4_096, 4_097])
def test_rows_that_stand_for_many(rows: int) -> None:
    """Each row as often as its weight says, which need not fit into 32 bits."""
    draw = np.random.default_rng(rows)
    sizes, tables = [2, 300, 3], [[0], [1, 2], [2, 0]]
    codes = np.array([draw.integers(0, size, 5_000) for size in sizes]).astype(np.uint32)
    weights = draw.integers(1, 2**40, rows)
    expected: list[int] = []
    for table in tables:
        cells = np.zeros([sizes[a] for a in table], object)
        for row in range(rows):
            cells[tuple(codes[a, row] for a in table)] += int(weights[row])
        expected += cells.ravel().tolist()
    assert run(count_weighted, codes, sizes, tables, rows=weights) == expected
