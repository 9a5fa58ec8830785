"""The sizes that a Parquet file declares, checked before anything is unpacked.

A page of a few kilobytes may claim to unpack to gigabytes, and readers take the memory before they notice. Page headers
are Thrift structures in the compact protocol; only their sizes are read here.
"""

from __future__ import annotations

from typing import Any

from crosstally.errors import ReleaseError

__all__ = ["PAGE_ROWS", "check_pages"]

# Arrow closes a page at 1 MiB, looking after every 1,024 rows, so every page but the last of a column has at least as
# many rows. Beside them a column has a dictionary and, where that grew too large, one page more.
PAGE_ROWS = 1024
# Beside those of 1,024 rows: the last one, the dictionary, and the one where the dictionary was given up.
_MORE_PAGES = 3
# Bytes for each row: a number of 8 in the dictionary, its place there, and the same in full once the dictionary is
# given up. For each page: lengths of its parts.
_ROW_BYTES, _PAGE_BYTES = 24, 64
# How a frame of Zstandard begins. It is looked for in the pages: pyarrow ends the process when it is asked for a codec
# that it does not know.
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
# A limit: page headers of Parquet are structs two or three deep, and a forged one must not fill the stack.
_MAX_DEPTH = 8
_DAMAGED = "it is damaged: a page of numbers has no sound header"
# The types of Thrift's compact protocol, by their numbers in its specification.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


def check_pages(data: bytes, chunk: Any, *, rows: int) -> None:
    """Raise unless the pages of a column chunk lie within the file, and are no more and no larger than its rows need.

    Args:
        data: The whole file.
        chunk: The chunk's metadata, as pyarrow gives it.
        rows: How many numbers the chunk has.
    """
    most_pages = _MORE_PAGES + rows // PAGE_ROWS
    most_bytes = _ROW_BYTES * rows + _PAGE_BYTES * most_pages
    first, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    at = dictionary if dictionary is not None and 0 < dictionary < first else first
    end = at + chunk.total_compressed_size
    if not 0 < at <= end <= len(data):
        raise ReleaseError("it is damaged: a column lies outside the file")
    pages = together = 0
    while at < end:
        reader = _Reader(data, at, end)
        unpacked, packed = reader.page_sizes()
        at = reader.at + packed
        if unpacked < 0 or packed < 0:
            raise ReleaseError(_DAMAGED)
        pages, together = pages + 1, together + unpacked
        if together > most_bytes:
            raise ReleaseError(f"a column of {rows:,} numbers must unpack to at most {most_bytes:,} bytes, got more")
        if pages > most_pages:
            raise ReleaseError(f"a column of {rows:,} numbers must have at most {most_pages:,} pages, got more")
        if at > end:
            raise ReleaseError(_DAMAGED)
        if not data.startswith(_ZSTANDARD, reader.at, at):
            raise ReleaseError("its numbers must be compressed with Zstandard")


class _Reader:
    """A place in a Thrift structure of the compact protocol."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def page_sizes(self) -> tuple[int, int]:
        """The unpacked and the packed size of a page; afterwards the reader stands behind its header."""
        sizes = {2: -1, 3: -1}
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._number()
            if field in sizes and head & 15 == _I32:
                sizes[field] = self._number()
            else:
                self._skip(head & 15, 1)
        return sizes[2], sizes[3]

    def _byte(self) -> int:
        if self.at >= self.end:
            raise ReleaseError(_DAMAGED)
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ReleaseError(_DAMAGED)

    def _number(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ReleaseError(_DAMAGED)
        if kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            length = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self._unsigned()
            self.at += length
        elif kind == _STRUCT:
            while (head := self._byte()) != _STOP:
                if not head >> 4:
                    self._number()
                self._skip(head & 15, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ReleaseError(_DAMAGED)  # page headers hold no lists and no maps
