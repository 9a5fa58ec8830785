"""Text files of rows: CSV and its kin, with any separator, in any encoding, compressed or not.

How a file is read follows from what its reader says and from the names it begins with, never from its rows: one
person's row cannot change how another's is read. Where the rows do not fit, nothing is read at all.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import csv
import io
import re
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources.guard import NOT_UTF8, how_to_say
from crosstally.sources.reading_options import Reading
from crosstally.sources.source import OpenedFile

# A file as a stream of UTF-8, whatever it is encoded in.


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


# Arrow's reader of text rows, stopped before whatever ended the reading goes on. Arrow reads ahead in threads of its
# own, which call the Python object that the text comes from and hold blocks that belong to Python. A thread that still
# does so when the file is closed, the reader is dropped or the interpreter ends waits for ever or aborts the process.
# So all that was lent to Arrow is counted, and nothing goes on before it is back: not the last row, not an error, not
# an interrupt.


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


DELIMITERS = (",", ";", "\t", "|", "^", "~", "\x1f", "\x01")
"""What may stand between fields without being said; a blank or a colon, which texts and times hold, must be said."""
_SEP_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # the line by which Excel is told the separator


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """How one text file is written, with nothing left open. The names may be a person's, where there is no header."""

    names: tuple[str, ...]
    delimiter: str
    quote: str
    encoding: str
    mark: int
    """The size of the byte order mark."""
    skipped: int
    """How many lines stand before the names, or before the first row when there are no names."""
    has_names: bool
    has_rows: bool

    def __repr__(self) -> str:
        return f"TextFormat({len(self.names)} columns)"


def _rows(lines: Iterable[str], delimiter: str, quote: str, *, strict: bool = False) -> Any:
    if not quote:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=strict)
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=strict)


def _first_row(lines: Iterable[str], delimiter: str, quote: str) -> list[str]:
    """The fields of the first row that is not blank; none when there is no such row."""
    return next(filter(None, _rows(lines, delimiter, quote)), [])


def open_text(path: Path, reading: Reading, needed: Sequence[str] | None) -> OpenedFile:
    """The names of a text file's columns, and a function that reads some of them."""
    form = format_of(path, reading, needed)
    return list(form.names), lambda chosen: _read(path, form, chosen) if form.has_rows else iter(())


# How it is written


def format_of(path: Path, reading: Reading, needed: Sequence[str] | None) -> TextFormat:
    """How a file is written, by what is said and by its first lines; the needed names are looked for in them."""
    head, is_all = read_head(path)
    encoding, mark = encoding_of(head, reading.encoding)
    is_guess = encoding is None and not _is_utf8(_line_of_names(head, reading.header))
    encoding = encoding or (GUESS if is_guess else "utf-8")
    text = decoded_head(head, encoding, mark)
    hint = _SEP_LINE.match(text)
    skipped = (hint is not None) + max((reading.header or 1) - 1, 0)
    text = after_lines(text, skipped)
    quote = '"' if reading.quote is None else reading.quote
    delimiter = reading.delimiter or (hint.group(1) if hint else None)
    if delimiter is None:
        delimiter = _delimiter(path, text, quote, needed)
    lines = io.StringIO(text, newline="")
    first = _first_row(lines, delimiter, quote)
    if not first:
        raise SourceError(f"cannot read {str(path)!r}: it is empty, without even a header")
    has_names = reading.header != 0
    names = first if has_names else [f"column_{place}" for place in range(1, len(first) + 1)]
    accented = {name for name in needed or () if not name.isascii()}
    if is_guess and not (accented and accented <= set(names)):  # names that must be there show that the guess is right
        raise SourceError(f"cannot read {str(path)!r}: {NOT_UTF8}")
    return TextFormat(
        names=tuple(names),
        delimiter=delimiter,
        quote=quote,
        encoding=encoding,
        mark=mark,
        skipped=skipped,
        has_names=has_names,
        has_rows=not has_names or not is_all or bool(lines.read().strip("\r\n")),
    )


def _line_of_names(head: bytes, header: int | None) -> bytes:
    """The bytes that alone may say how a file is encoded: no row is among them."""
    if header is not None:
        return b"".join(head.splitlines()[header - 1 : header]) if header else b""
    filled = (line.group() for line in re.finditer(rb"[^\r\n]+", head))
    return next((line for line in filled if not line.lower().startswith(b"sep=")), b"")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def after_lines(text: str, number: int) -> str:
    """The text without its first lines."""
    if not number:
        return text
    lines = io.StringIO(text, newline="")
    for _ in range(number):
        lines.readline()
    return lines.read()


def _delimiter(path: Path, text: str, quote: str, needed: Sequence[str] | None) -> str:
    """The separator that parts the needed names from each other; without any, the one that makes most fields."""
    found = {each: set(_first_row(io.StringIO(text, newline=""), each, quote)) for each in DELIMITERS}
    fitting = [each for each in DELIMITERS if needed is not None and set(needed) <= found[each]]
    ranked = sorted(fitting or DELIMITERS, key=lambda each: -len(found[each]))
    if len(fitting) > 1 and len(found[ranked[0]]) == len(found[ranked[1]]) > 1:
        raise SourceError(
            f"cannot read {str(path)!r}: two separators part its names equally well; say {how_to_say('delimiter')}"
        )
    return ranked[0]


# Its rows


def _read(path: Path, form: TextFormat, chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
    from pyarrow import csv as arrow_csv

    # Every field stays the text it is: types guessed from a block would make 01 and 1 the same.
    convert = arrow_csv.ConvertOptions(include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()))
    options = arrow_csv.ReadOptions(
        block_size=BLOCK_BYTES, skip_rows=form.skipped, column_names=None if form.has_names else form.names
    )
    parse = arrow_csv.ParseOptions(delimiter=form.delimiter, quote_char=form.quote or False, newlines_in_values=True)
    count, is_ragged = 0, False
    with pa.OSFile(str(path)) as file, open_bytes(path, file) as stream:
        text = Utf8Stream(path, stream, form.encoding, form.mark)
        rows = TextRows(text, options, parse, convert)
        try:
            with rows as batches:
                for batch in batches:
                    count += batch.num_rows
                    yield batch, file.tell()
        except pa.ArrowInvalid as error:
            is_ragged = "columns, got" in str(error)
            if not is_ragged and rows.failure is None:
                raise
    if rows.failure is not None:
        raise rows.failure  # outside of the clause above: Arrow's error may quote rows and must not be its context
    text.check_encoding()
    # With more lines than rows some field holds a line feed, or some line is blank. A quote where none belongs may have
    # swallowed all rows up to the next one: a slower reader sees that, as it sees which row is ragged.
    if is_ragged or text.lines != count + form.skipped + form.has_names:
        reason = _broken_row(path, form) or ("a row has more or fewer fields than the header" if is_ragged else "")
        if reason:
            raise SourceError(f"cannot read {str(path)!r}: {reason}")


def _broken_row(path: Path, form: TextFormat) -> str:
    """Where the first row stands that has other fields than the names or a stray quote, never what is in it."""
    with open_bytes(path) as stream, _long_fields():
        recoded = Utf8Stream(path, stream, form.encoding, form.mark)
        text = io.TextIOWrapper(io.BufferedReader(recoded, BLOCK_BYTES), "utf-8", errors="replace", newline="")
        for _ in range(form.skipped):
            text.readline()
        reader = _rows(text, form.delimiter, form.quote, strict=True)
        with contextlib.suppress(csv.Error):
            for row in reader:
                if row and len(row) != len(form.names):
                    return (
                        f"the row at line {form.skipped + reader.line_num} has {_fields(len(row))}, the names have "
                        f"{len(form.names)}; mend it, or say --delimiter if the separator is another, --header if the "
                        "names stand elsewhere"
                    )
            return ""
        return (
            f"a quote in the row at line {form.skipped + reader.line_num} does not end where its field ends; mend it, "
            f"or say {how_to_say('quote')} if quotes are other characters or none"
        )


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let Python's reader take fields as long as a block, as the fast one does."""
    before = csv.field_size_limit(BLOCK_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _fields(number: int) -> str:
    return f"{number} field{'s' * (number != 1)}"
