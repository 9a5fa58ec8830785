"""Tables as files: which formats there are, and how each is written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from threading import Semaphore

from crosstally.browser.explorer.json_stat import data_text
from crosstally.exports.measured import csv_pieces, parquet_pieces
from crosstally.exports.px import px_text
from crosstally.exports.sdmx_csv import sdmx_csv_text
from crosstally.exports.xlsx import write_xlsx
from crosstally.schema import Schema
from crosstally.tables import Marginal

__all__ = ["AT_ONCE", "FORMATS", "STREAMED", "Format", "Stream", "file_bytes", "written"]

AT_ONCE = 500_000  # limits memory; see below
STREAMED = 5_000_000
"""The most cells of one answer: sent at once, and streamed, which CSV and Parquet allow. More are refused."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what people call it, its media type, the ending of its files, and whether it is sent in pieces."""

    label: str
    media_type: str
    ending: str
    _: KW_ONLY
    streamed: bool = False

    @property
    def most(self) -> int:
        """The most cells of a table in this format."""
        return STREAMED if self.streamed else AT_ONCE


FORMATS = {
    "csv": Format("CSV", "text/csv; charset=utf-8", "csv", streamed=True),
    "xlsx": Format("XLSX", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    "parquet": Format("Parquet", "application/vnd.apache.parquet", "parquet", streamed=True),
    "json-stat2": Format("JSON-stat", "application/json", "json"),
    "px": Format("PX", "text/plain; charset=utf-8", "px"),
    "sdmx-csv": Format("SDMX-CSV", "text/csv; charset=utf-8", "sdmx.csv"),
}


def written(marginal: Marginal, name: str, whole: Schema, *, level: float) -> Iterator[bytes]:
    """The file in a format, in pieces; ``whole`` is the schema of the release."""
    if name == "csv":
        return (piece.encode() for piece in csv_pieces(marginal, level=level))
    if name == "parquet":
        return parquet_pieces(marginal, level=level)
    if name == "xlsx":
        book = io.BytesIO()
        write_xlsx(marginal, book, level=level)
        return iter([book.getvalue()])
    if name == "px":
        return iter([px_text(marginal, level=level).encode()])
    if name == "sdmx-csv":
        return iter([sdmx_csv_text(marginal, level=level).encode()])
    return iter([data_text(marginal, whole, level=level).encode()])


def file_bytes(marginal: Marginal, name: str, whole: Schema, *, level: float) -> bytes:
    """The file in a format, as a whole."""
    return b"".join(written(marginal, name, whole, level=level))


class Stream(Iterator[bytes]):
    """The pieces of a large file, of which only a few are sent at once: each holds a whole table in memory.

    It gives its place back when nobody holds it any longer, whether it was sent to its end, in part or not at all.
    """

    def __init__(self, pieces: Iterator[bytes], places: Semaphore) -> None:
        self._pieces, self._places = pieces, places
        self.begins = places.acquire(blocking=False)

    def __next__(self) -> bytes:
        return next(self._pieces)

    def __del__(self) -> None:
        if self.begins:
            self._places.release()
