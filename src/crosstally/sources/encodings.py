"""Text files as streams of UTF-8, whatever they are encoded in."""

from __future__ import annotations

import codecs
import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources.guard import how_to_say

__all__ = [
    "BLOCK_BYTES",
    "COMPRESSIONS",
    "GUESS",
    "Utf8Stream",
    "decoded_head",
    "encoding_of",
    "is_utf8",
    "open_bytes",
    "read_head",
]

BLOCK_BYTES = 4 << 20
"""How much of a file is read at once; no row may be longer."""
_HEAD_BYTES = 256 << 10  # how much of a file is looked at for its names
_LINE_FEED = 10  # the byte that ends a line in UTF-8 and in ASCII
GUESS = "cp1252"
"""What text is taken for that is not UTF-8: of the encodings with one byte for a letter the most common by far."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""How a text file may be packed, by the end of its name."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins alike
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def open_bytes(path: Path, file: Any = None) -> Any:
    """The bytes of a file, decompressed; read from the file given, if it is open already."""
    packed = COMPRESSIONS.get(path.suffix.lower())
    return pa.input_stream(str(path) if file is None else file, compression=packed)


def read_head(path: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, decompressed, and whether they are all there are."""
    head = b""
    with open_bytes(path) as stream:
        while len(head) < _HEAD_BYTES:
            block = stream.read(_HEAD_BYTES - len(head))
            if not block:
                return head, True
            head += block
    return head, False


def encoding_of(head: bytes, given: str | None) -> tuple[str | None, int]:
    """The encoding that a file's first bytes or its reader say, if any, and the size of its byte order mark.

    UTF-16 without a mark shows in its first character, which is one of ASCII as a rule.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    if given is not None:
        return {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(given, given), 0
    first, second = head[:1], head[1:2]
    if second == b"\0" and first != b"\0":
        return "utf-16-le", 0
    return ("utf-16-be", 0) if first == b"\0" and second not in (b"\0", b"") else (None, 0)


def decoded_head(head: bytes, encoding: str, mark: int) -> str:
    """The text of a file's first bytes, without a mark and a character that their end cuts in two."""
    return codecs.getincrementaldecoder(encoding)("replace").decode(head[mark:])


def is_utf8(path: Path) -> tuple[bool, bool]:
    """Whether all of a file is UTF-8, and whether all of it is ASCII."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_ascii = True
    with open_bytes(path) as stream:
        while block := stream.read(BLOCK_BYTES):
            is_ascii &= block.isascii()
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                return False, False
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False, False
    return True, is_ascii


class Utf8Stream(io.RawIOBase):
    """The bytes of a text file as UTF-8, without a byte order mark, and the number of line feeds that went by."""

    def __init__(self, path: Path, stream: Any, encoding: str, mark: int) -> None:
        super().__init__()
        self._path, self._stream, self._encoding = path, stream, encoding
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
        # Text of one byte for each letter can be read in many encodings; that it is UTF-8 is no chance, and shows.
        is_single = encoding != "utf-8" and not encoding.startswith(("utf", "gb", "big5", "euc", "shift", "iso2022"))
        self._other: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")() if is_single else None
        self._is_ascii = True
        self._stream.read(mark)
        self._rest = b""
        self._is_at_end = False
        self._ends_in_feed = True
        self.feeds = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1) -> Any:
        """At most so many bytes, none at the end; in Arrow's own memory where nothing needs to be recoded."""
        size = BLOCK_BYTES if size < 0 else size
        found = self._stream.read_buffer(size) if self._decoder is None else self._next_recoded(size)
        bytes_of_block = np.frombuffer(found, np.uint8)
        self.feeds += int(np.count_nonzero(bytes_of_block == _LINE_FEED))  # several times faster than bytes.count
        if len(bytes_of_block):
            self._ends_in_feed = bytes_of_block[-1] == _LINE_FEED
        return found

    def readinto(self, buffer: Any) -> int:
        """The same, into a buffer."""
        found = memoryview(self.read(len(buffer))).cast("B")  # Arrow says its bytes have signs
        buffer[: len(found)] = found
        return len(found)

    def _next_recoded(self, size: int) -> bytes:
        # All that was asked for: Arrow takes a few bytes without a line feed for a row that is longer than a block.
        while len(self._rest) < size and not self._is_at_end:
            block = self._stream.read(size)
            self._is_at_end = not block
            self._try_utf8(block)
            self._rest += self._recoded(block)
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    @property
    def lines(self) -> int:
        """How many lines went by, the last one with or without a line feed."""
        return self.feeds + (not self._ends_in_feed)

    def check_encoding(self) -> None:
        """Raise when all went by, and it was UTF-8 though another encoding was said."""
        if self._other is not None and not self._is_ascii:
            raise SourceError(
                f"cannot read {str(self._path)!r}: it is UTF-8 text and not {self._encoding}; leave the encoding "
                f"out, or say {how_to_say('encoding', 'utf-8')}"
            )

    def _try_utf8(self, block: bytes) -> None:
        if self._other is None:
            return
        self._is_ascii &= block.isascii()
        is_utf8 = False
        with contextlib.suppress(UnicodeError):
            self._other.decode(block, final=not block)
            is_utf8 = True
        if not is_utf8:
            self._other = None

    def _recoded(self, block: bytes) -> bytes:
        assert self._decoder is not None
        text = None
        with contextlib.suppress(UnicodeError):  # it quotes the bytes: what is raised below has no context
            text = self._decoder.decode(block, final=not block)
        if text is None:
            raise SourceError(
                f"cannot read {str(self._path)!r}: it is not {self._encoding} text; say {how_to_say('encoding')}"
            )
        return text.encode()
