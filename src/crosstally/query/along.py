"""What a workload may ask along an ordered attribute in place of its cells: ranges, prefixes, or rows of a matrix.

A table of a workload over several attributes asks all products: along age every range and along sex every cell is for
each sex the count of every range of ages. Only the Gram matrix W'W of what is asked and the number of its rows matter
for planning, and of ranges both are known without writing them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosstally.errors import WorkloadError, did_you_mean
from crosstally.typing import Floats

__all__ = ["RANGES", "Along", "AskedAlong", "Rows", "along_as_json", "asked_along", "read_along"]

PREFIXES, RANGES = "prefixes", "ranges"
_KINDS = (RANGES, PREFIXES)
_MAX_ENTRIES = 2**20  # of a matrix that is given: a row for each query, 8 MB
_MAX_ENTRY = 2**20  # in size: with up to 2^31 rows, sums stay far within int64

Rows = tuple[tuple[int, ...], ...]
Along = tuple[tuple[str, str | Rows], ...]
"""For some attributes, sorted by name, what is asked along them."""


@dataclass(frozen=True, slots=True, eq=False)
class AskedAlong:
    """What is asked along an attribute: W'W and the number of rows of W."""

    gram: Floats
    number: int


def asked_along(asked: str | Rows, size: int) -> AskedAlong:
    """What is asked along an attribute of this size.

    A range from a to b holds the values j and k if a <= min(j, k) and b >= max(j, k); a prefix if it ends at or after
    max(j, k).

    >>> asked_along("ranges", 3).gram.astype(int).tolist(), asked_along("ranges", 3).number
    ([[3, 2, 1], [2, 4, 2], [1, 2, 3]], 6)
    """
    if not isinstance(asked, str):
        rows = np.array(asked, np.float64)
        if rows.shape[1] != size:
            raise WorkloadError(f"each row asked along an attribute must have {size:,} numbers, got {rows.shape[1]:,}")
        return AskedAlong(rows.T @ rows, len(rows))
    places = np.arange(size)
    least, most = np.minimum.outer(places, places), np.maximum.outer(places, places)
    if asked == RANGES:
        return AskedAlong((least + 1.0) * (size - most), size * (size + 1) // 2)
    return AskedAlong((size - most).astype(np.float64), size)


def read_along(given: object) -> Along:
    """What is asked along some attributes, checked."""
    if isinstance(given, tuple):
        given = dict(given)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise WorkloadError("along must map names of attributes to ranges, prefixes or a matrix of whole numbers")
    return tuple(sorted((name, _read(asked, name)) for name, asked in given.items()))


def _read(asked: Any, name: str) -> str | Rows:
    if isinstance(asked, str):
        if asked not in _KINDS:
            raise WorkloadError(f"what is asked along {name!r} must be ranges or prefixes{did_you_mean(asked, _KINDS)}")
        return asked
    if isinstance(asked, np.ndarray):
        asked = asked.tolist()
    listed = isinstance(asked, list | tuple) and all(isinstance(row, list | tuple) and row for row in asked)
    if not listed or len({len(row) for row in asked}) != 1:
        raise WorkloadError(f"what is asked along {name!r} must be ranges, prefixes or rows of whole numbers")
    matrix = tuple(tuple(row) for row in asked)
    entries = [entry for row in matrix for entry in row]
    if set(map(type, entries)) != {int} or max(map(abs, entries)) > _MAX_ENTRY or len(entries) > _MAX_ENTRIES:
        raise WorkloadError(
            f"the rows asked along {name!r} must be whole numbers of at most {_MAX_ENTRY:,} in size, and at most "
            f"{_MAX_ENTRIES:,} of them"
        )
    return matrix


def along_as_json(asked: str | Rows) -> Any:
    """What is asked along an attribute, as JSON."""
    return asked if isinstance(asked, str) else [list(row) for row in asked]
