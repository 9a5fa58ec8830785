"""The sizes that a Parquet file declares, checked before anything is unpacked.

A page of a few kilobytes may claim to unpack to gigabytes, and readers take the memory before they notice. Where the
columns lie is read from the file's footer here as well: asked for the metadata of a column that contradicts itself,
pyarrow ends the process. Both are Thrift structures in the compact protocol; what is not needed is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crosstally.errors import ReleaseError

__all__ = ["PAGE_ROWS", "Chunk", "check_pages", "chunks_of"]

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
# A limit: page headers and footers of Parquet are at most seven deep, and a forged one must not fill the stack.
_MAX_DEPTH = 8
# Limits time: bytes of the footer that are looked at for each column of each group, and beside them. Arrow's have
# below 150; a text counts as one byte, however long it is.
_FOOTER_BYTES, _MORE_FOOTER = 256, 65_536
_DAMAGED = "it is damaged: a page of numbers has no sound header"
_DAMAGED_FOOTER = "it is damaged: its Parquet structure cannot be read"
# Fields of the footer, by their numbers in Parquet's definition: where row groups, columns, their metadata and in these
# the size and the first page of data and of the dictionary stand.
_GROUPS, _COLUMNS, _METADATA, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 4, 1, 3, 7, 9, 11
# The types of Thrift's compact protocol, by their numbers in its specification.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where the column of a row group lies; the dictionary has no place where there is none."""

    size: int
    data_page: int
    dictionary_page: int | None


def chunks_of(data: bytes, *, columns: int) -> list[list[Chunk]]:
    """The column chunks of each row group, by the footer of a file whose groups have at most so many columns."""
    length = int.from_bytes(data[-8:-4], "little")
    if length > len(data) - 12:
        raise ReleaseError(_DAMAGED_FOOTER)
    reader = _Reader(data, len(data) - 8 - length, len(data) - 8, _DAMAGED_FOOTER)
    reader.left = _MORE_FOOTER + _FOOTER_BYTES * columns
    groups: list[list[Chunk]] = []
    for field, kind in reader.fields():
        if (field, kind) != (_GROUPS, _LIST):
            reader.skip(kind, 1)
            continue
        groups = []
        for _ in reader.structs():
            reader.left += _FOOTER_BYTES * columns
            groups.append(_chunks_of_group(reader))
    return groups


def _chunks_of_group(reader: _Reader) -> list[Chunk]:
    chunks: list[Chunk] = []
    for field, kind in reader.fields():
        if (field, kind) != (_COLUMNS, _LIST):
            reader.skip(kind, 2)
            continue
        chunks = []
        for _ in reader.structs():
            found: dict[int, int] = {}
            for inner, inner_kind in reader.fields():
                if (inner, inner_kind) == (_METADATA, _STRUCT):
                    found |= reader.numbers(_I64, (_SIZE, _DATA_PAGE, _DICTIONARY_PAGE), 4)
                else:
                    reader.skip(inner_kind, 3)
            chunks.append(Chunk(found.get(_SIZE, -1), found.get(_DATA_PAGE, -1), found.get(_DICTIONARY_PAGE)))
    return chunks


def check_pages(data: bytes, chunk: Chunk, *, rows: int) -> None:
    """Raise unless the pages of a column chunk lie within the file, and are no more and no larger than its rows need.

    Args:
        data: The whole file.
        chunk: Where it lies.
        rows: How many numbers the chunk has.
    """
    most_pages = _MORE_PAGES + rows // PAGE_ROWS
    most_bytes = _ROW_BYTES * rows + _PAGE_BYTES * most_pages
    first, dictionary = chunk.data_page, chunk.dictionary_page
    at = dictionary if dictionary is not None and 0 < dictionary < first else first
    end = at + chunk.size
    if not 0 < at <= end <= len(data):
        raise ReleaseError("it is damaged: a column lies outside the file")
    pages = together = 0
    while at < end:
        reader = _Reader(data, at, end, _DAMAGED)
        sizes = reader.numbers(_I32, (2, 3), 1)  # afterwards the reader stands behind the header
        unpacked, packed = sizes.get(2, -1), sizes.get(3, -1)
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
    """A place in a Thrift structure of the compact protocol; ``left`` is how many bytes may still be looked at."""

    def __init__(self, data: bytes, at: int, end: int, damaged: str) -> None:
        self.data, self.at, self.end, self.damaged = data, at, end, damaged
        self.left = end - at

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and the type of each field of a struct; whoever asks reads or skips it before the next."""
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._number()
            yield field, head & 15

    def numbers(self, kind: int, wanted: tuple[int, ...], depth: int) -> dict[int, int]:
        """The wanted fields of a struct, whole numbers of one type; the others are skipped."""
        found = {}
        for field, its_kind in self.fields():
            if field in wanted and its_kind == kind:
                found[field] = self._number()
            else:
                self.skip(its_kind, depth)
        return found

    def structs(self) -> range:
        """One turn for each struct of a list, which whoever asks reads."""
        kind, size = self._list()
        if size and kind != _STRUCT:
            raise ReleaseError(self.damaged)
        return range(size)

    def _list(self) -> tuple[int, int]:
        """The type of the elements of a list, and how many there are."""
        head = self._byte()
        return head & 15, head >> 4 if head >> 4 < 15 else self._unsigned()

    def _byte(self) -> int:
        self.left -= 1
        if self.at >= self.end or self.left < 0:
            raise ReleaseError(self.damaged)
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ReleaseError(self.damaged)

    def _number(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def skip(self, kind: int, depth: int) -> None:
        """Go behind a value of this type."""
        if depth > _MAX_DEPTH:
            raise ReleaseError(self.damaged)
        if kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            length = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self._unsigned()  # which moves on by itself
            self.at += length
            self.left -= 1
            if self.at > self.end or self.left < 0:
                raise ReleaseError(self.damaged)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            inner, size = self._list()
            for _ in range(size):
                self.skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ReleaseError(self.damaged)  # neither page headers nor footers hold maps
