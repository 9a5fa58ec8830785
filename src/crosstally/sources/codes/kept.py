"""Codes of rows, kept to be read more than once: in memory first, then in a file without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import SourceError

__all__ = ["KeptCodes"]

MEMORY_BYTES = 256 * 2**20
"""The codes of so many bytes stay in memory; those that come after are written to a file. 8 million rows of 32
attributes need no file."""


class KeptCodes:
    """Batches of codes, one to four bytes for each row and attribute; confidential.

    A batch is stored attribute by attribute. The file has no name from the moment it is made (or, where the system
    cannot do that, from the next one), its mode is 0600, and it is gone when it is closed or the process ends, however
    that comes about.
    """

    def __init__(
        self, sizes: Sequence[int], *, work_dir: str | Path | None = None, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        """Room for attributes of these numbers of cells.

        Args:
            sizes: How many cells each attribute has.
            work_dir: The folder of the file; the system's folder for temporary files by default.
            memory_bytes: How many bytes stay in memory.
        """
        self._types = [np.min_scalar_type(size - 1) for size in sizes]
        self._folder = tempfile.gettempdir() if work_dir is None else str(work_dir)
        self._memory_left = memory_bytes
        self._in_memory: list[tuple[int, bytes, bool]] = []  # the last says whether there are weights
        self._in_file: list[tuple[int, int, bool]] = []
        self._file: FileIO | None = None

    def add(self, rows: int, codes: Sequence[NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Keep a batch: the number of its rows, the codes of each attribute, and what each row counts for, if not 1."""
        typed = [np.ascontiguousarray(column, kind) for column, kind in zip(codes, self._types, strict=True)]
        if weights is not None:
            typed.append(np.ascontiguousarray(weights, np.int64))
        packed = b"".join([column.data for column in typed])
        if self._file is None and len(packed) <= self._memory_left:
            self._in_memory.append((rows, packed, weights is not None))
            self._memory_left -= len(packed)
            return
        try:
            if self._file is None:
                # Unbuffered: what could not be written is known at once, not when the file is closed.
                self._file = tempfile.TemporaryFile("w+b", buffering=0, dir=self._folder)  # noqa: SIM115 (see close)
            _write(self._file, packed)
        except OSError as error:
            raise self._lost("keep", error) from None
        self._in_file.append((rows, len(packed), weights is not None))

    def close(self) -> None:
        """Let go of everything."""
        self._in_memory.clear()
        self._in_file.clear()
        if self._file is not None:
            self._file.close()

    def batches(self) -> Iterator[tuple[int, list[NDArray[Any]], NDArray[np.int64] | None]]:
        """The batches as they were added."""
        for rows, packed, weighted in self._in_memory:
            yield self._batch(rows, packed, weighted=weighted)
        start = 0
        for rows, length, weighted in self._in_file:
            yield self._batch(rows, self._read(start, length), weighted=weighted)
            start += length

    def _read(self, start: int, length: int) -> bytes:
        assert self._file is not None  # something was written to it
        parts, left = [], length
        try:
            self._file.seek(start)
            while left:
                parts.append(self._file.read(left) or b"")
                left -= len(parts[-1])
                if not parts[-1]:
                    raise SourceError(f"cannot read the codes of rows in {self._folder!r}: the file was cut short")
        except OSError as error:
            raise self._lost("read", error) from None
        return b"".join(parts)

    def _batch(
        self, rows: int, packed: bytes, *, weighted: bool
    ) -> tuple[int, list[NDArray[Any]], NDArray[np.int64] | None]:
        columns = self._columns(rows, packed)
        return rows, columns, np.frombuffer(packed[-8 * rows :], np.int64) if weighted and rows else None

    def _columns(self, rows: int, packed: bytes) -> list[NDArray[Any]]:
        out, start = [], 0
        for kind in self._types:
            out.append(np.frombuffer(packed, kind, rows, start))
            start += rows * kind.itemsize
        return out

    def _lost(self, action: str, error: OSError) -> SourceError:
        reason = os.strerror(error.errno) if error.errno else "the system refuses"
        return SourceError(
            f"cannot {action} the codes of rows in {self._folder!r}: {reason}; "
            "give a folder with more room (work_dir, --work-dir)"
        )


def _write(file: FileIO, packed: bytes) -> None:
    """Write everything: a nearly full disk takes a part, and only the next write is an error."""
    view = memoryview(packed)
    while view:
        view = view[file.write(view) :]
