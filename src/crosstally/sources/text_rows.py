"""Arrow's reader of text rows, stopped before whatever ended the reading goes on.

Arrow reads ahead in threads of its own, which call the Python object that the text comes from and hold blocks that
belong to Python. A thread that still does so when the file is closed, the reader is dropped or the interpreter ends
waits for ever or aborts the process. So all that was lent to Arrow is counted, and nothing goes on before it is back:
not the last row, not an error, not an interrupt.
"""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Iterator
from itertools import count
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from crosstally.sources.encodings import Utf8Stream

__all__ = ["TextRows"]

T = TypeVar("T")
# Seconds until threads that were told the text has ended are given up: they have at most a block in hand, of which
# they read some 100 MB a second. Reached only where Arrow itself hangs.
_PATIENCE = 60
_PAUSE = 0.001  # seconds between two looks at what is not back yet


class TextRows:
    """The rows of a text as record batches, inside of a ``with`` that ends when no thread reads the text any more.

    ``failure`` is what reading the text raised. Arrow is told only that the text has ended: its own errors say less,
    and would carry rows.
    """

    def __init__(self, text: Utf8Stream, *options: Any) -> None:
        self.failure: Exception | None = None
        self._text, self._options = text, options
        self._lent: dict[int, weakref.ref[Any]] = {}
        self._places = count()
        self._is_over = False
        self._reader: Any = None

    def __enter__(self) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        atexit.register(self._end)  # for rows that nobody closes: the interpreter must not end before its threads
        try:
            # Through Arrow's stream interface, whose close drops the reader without holding Python's lock: dropping
            # waits for a thread that may be waiting for that lock.
            self._reader = pa.RecordBatchReader.from_stream(csv.open_csv(self._lend(_Door(self)), *self._options))
        except BaseException:
            self._end()
            raise
        return iter(self._reader)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def block(self, size: int) -> Any:
        """The next block of the text, none when the reading is over; called by Arrow's threads."""
        found: Any = b""
        if not self._is_over:
            try:
                found = self._text.read(size)
            except Exception as error:  # noqa: BLE001 (raised again by whoever reads the rows)
                self.failure = error.with_traceback(None)  # its frames would keep what was lent
        return self._lend(pa.py_buffer(found))

    def _lend(self, thing: T) -> T:
        place = next(self._places)
        self._lent[place] = weakref.ref(thing, lambda _: self._lent.pop(place))
        return thing

    def _end(self) -> None:
        self._is_over = True
        if self._reader is not None:
            self._reader.close()
        given_up = time.monotonic() + _PATIENCE
        while self._lent and time.monotonic() < given_up:
            time.sleep(_PAUSE)
        atexit.unregister(self._end)


class _Door:
    """What Arrow takes for a file. It dies when no thread can read any more."""

    closed = False

    def __init__(self, rows: TextRows) -> None:
        self._rows = rows

    def read(self, size: int) -> Any:
        """At most so many bytes."""
        return self._rows.block(size)
