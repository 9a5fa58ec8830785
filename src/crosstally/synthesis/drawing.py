"""Rows drawn attribute after attribute, then moved until all tables fit.

Drawing follows a tree, so that the tables along its links are right at once: the numbers of rows are those of the
table, rounded at random, and only which row gets which value is drawn. The other tables are fitted by moving rows,
table by table: rows leave cells that hold too many and go to cells that hold too few. A row that moves becomes a copy
of a row already there, which keeps what that row's other values have to do with each other, or takes the values of the
cell alone (Zhang et al., PrivSyn, USENIX Security 2021, section 4.3). Steps become smaller from sweep to sweep, so that
tables that contradict each other settle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

__all__ = ["Wanted", "drawn", "fitted", "whole"]

_SHRINKING = 0.75
"""The step of each sweep, as a share of the one before. Smaller stops too early, larger leaves tables in motion."""

_COPIED = 0.5
"""How often a row that moves becomes a copy: PrivSyn's half."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A table that rows should have: its attributes by position, and its counts, which add up to the rows."""

    axes: tuple[int, ...]
    counts: Floats


def whole(counts: Floats, total: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers that add up to a total, each the nearest below or above its share; alike where all are zero.

    >>> whole(np.array([1.0, 1.0, 2.0]), 4, np.random.default_rng(0))
    array([1, 1, 2])
    """
    weights = np.maximum(counts, 0.0)
    if not weights.sum() > 0:
        weights = np.ones(len(counts))
    # systematic sampling: the ends of all shares, moved by one random number, cut into whole numbers
    ends = np.cumsum(weights) / weights.sum() * total
    ends[-1] = total
    cut = np.floor(ends + random.random()).astype(np.int64)
    cut[-1] = total
    return np.asarray(np.diff(np.minimum(cut, total), prepend=0))


def drawn(
    order: Sequence[tuple[int, int | None]],
    singles: Sequence[Floats],
    pairs: Mapping[tuple[int, int], Floats],
    rows: int,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """Rows along a tree: (rows, attributes).

    Args:
        order: Attributes with what they depend on (``drawing_order``).
        singles: The table of each attribute.
        pairs: The tables along the links, the lower position first.
        rows: How many.
        random: For what is left to chance.
    """
    codes = np.zeros((rows, len(singles)), np.int32)
    for attribute, parent in order:
        if parent is None:
            codes[:, attribute] = _shuffled(singles[attribute], rows, random)
            continue
        table = pairs[min(attribute, parent), max(attribute, parent)]
        table = table if parent < attribute else table.T
        for value, given in enumerate(table):
            own = np.flatnonzero(codes[:, parent] == value)
            codes[own, attribute] = _shuffled(given if given.sum() > 0 else singles[attribute], len(own), random)
    return codes


def _shuffled(counts: Floats, rows: int, random: np.random.Generator) -> NDArray[np.int64]:
    return random.permutation(np.repeat(np.arange(len(counts)), whole(counts, rows, random)))


def fitted(
    codes: NDArray[np.int32], tables: Sequence[Wanted], sweeps: int, random: np.random.Generator
) -> NDArray[np.int32]:
    """The rows, moved so that their tables are near to those wanted: as they were after the best of the sweeps."""
    best, least = codes, _distance(codes, tables)
    codes, step = codes.copy(), 1.0
    for _ in range(sweeps):
        for number in random.permutation(len(tables)):
            _move(codes, tables[number], step, random)
        step *= _SHRINKING
        if (distance := _distance(codes, tables)) < least:
            best, least = codes.copy(), distance
    return best


def _cells(codes: NDArray[np.int32], table: Wanted) -> NDArray[np.intp]:
    """The cell of each row, by its number."""
    return np.asarray(np.ravel_multi_index(tuple(codes[:, axis] for axis in table.axes), table.counts.shape))


def _distance(codes: NDArray[np.int32], tables: Sequence[Wanted]) -> float:
    """The sum of all differences."""
    held = (np.bincount(_cells(codes, table), minlength=table.counts.size) for table in tables)
    return sum(float(np.abs(each - table.counts.ravel()).sum()) for each, table in zip(held, tables, strict=True))


def _move(codes: NDArray[np.int32], table: Wanted, step: float, random: np.random.Generator) -> None:
    shape, axes = table.counts.shape, list(table.axes)
    cells = _cells(codes, table)
    held = np.bincount(cells, minlength=table.counts.size)
    lacking = step * (table.counts.ravel() - held)
    given = _rounded(np.maximum(-lacking, 0.0), random)
    taken = np.repeat(np.arange(table.counts.size), _rounded(np.maximum(lacking, 0.0), random))
    if not len(taken) or not given.any():
        return
    order = random.permutation(len(codes))
    order = order[np.argsort(cells[order], kind="stable")]  # rows by cell, in random order within each
    starts = np.cumsum(held) - held
    place = np.arange(len(codes)) - starts[cells[order]]  # the number of a row within its cell
    movers = random.permutation(order[place < given[cells[order]]])
    number = min(len(movers), len(taken))
    movers, taken = movers[:number], random.permutation(taken)[:number]
    copied = (random.random(number) < _COPIED) & (held[taken] > 0)
    models = order[starts[taken[copied]] + (random.random(int(copied.sum())) * held[taken[copied]]).astype(np.intp)]
    codes[movers[copied]] = codes[models]
    for axis, values in zip(axes, np.unravel_index(taken, shape), strict=True):
        codes[movers, axis] = values


def _rounded(numbers: Floats, random: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers whose means are these."""
    return np.floor(numbers + random.random(numbers.shape)).astype(np.int64)
