"""Shares of a source: which of its rows the i-th of n processes counts, so that each row is counted once.

With a unit, the hash of a row's id decides, so that all rows of a person are in one share. Without one the place in the
source decides: whole files where there is one for every share, and otherwise rows by their number.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.sources.columns import Columns
from crosstally.sources.source import Source
from crosstally.sources.units import id_hashes

__all__ = ["MOST_SHARES", "RowsOfShare", "Share"]

MOST_SHARES = 1 << 16
"""More processes than any scheduler starts for one source, and few enough that sums of counts stay inside 64 bits."""
_SHARE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Share:
    """The i-th of n shares, i from 1.

    >>> Share.read("3/8")
    Share(number=3, of=8)
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if not all(type(each) is int for each in (self.number, self.of)) or not 1 <= self.number <= self.of:
            raise SourceError(f"a share must be i/n with i from 1 to n, such as 3/8, got {self}")
        if self.of > MOST_SHARES:
            raise SourceError(f"a source must have at most {MOST_SHARES:,} shares, got {self.of:,}")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> Share:
        """A share as it is written, 3/8."""
        found = _SHARE.fullmatch(text)
        if found is None:
            raise SourceError(f"a share must be i/n with i from 1 to n, such as 3/8, got {text[:40]!r}")
        return cls(int(found[1]), int(found[2]))

    def has(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these numbers are of this share: those that leave its place when divided by n."""
        return np.asarray(numbers % numbers.dtype.type(self.of) == self.number - 1)


class RowsOfShare:
    """The rows of a source that one share counts; they are read once."""

    def __init__(self, source: Source, columns: Columns, share: Share) -> None:
        """Find out what must be read.

        Args:
            source: The whole source, the same for all shares.
            columns: The schema and its reading.
            share: Which of them.
        """
        self._columns, self._share = columns, share
        self._rows_read = 0
        has_unit = columns.schema.unit is not None
        self.source, self._by, self._files = source.shared(share.number, share.of, by_unit=has_unit)

    def chosen(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of all rows of ``source`` those of the share."""
        for batch in batches:
            start, self._rows_read = self._rows_read, self._rows_read + batch.num_rows
            if self._by == "file" or self._share.of == 1:
                yield batch
                continue
            ours = self._by_unit(batch) if self._by == "unit" else self._share.has(np.arange(start, self._rows_read))
            if ours.any():
                yield batch.filter(pa.array(ours))

    def _by_unit(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Rows without an id count nowhere, but may hold what a rule refuses: the first share sees them."""
        ids = self._columns.ids(batch)
        hashes = id_hashes(ids.drop_null())
        places = np.zeros(batch.num_rows, np.uint64)
        places[ids.is_valid().to_numpy(zero_copy_only=False)] = hashes
        return self._share.has(places)

    @property
    def digest(self) -> str:
        """What all shares must have seen alike, once all was read: files, their sizes, and how many rows."""
        rows = None if self._by == "file" else self._rows_read
        seen = {"by": self._by, "files": self._files, "rows": rows}
        return hashlib.sha256(json.dumps(seen, ensure_ascii=True).encode()).hexdigest()
