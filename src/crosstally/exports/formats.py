"""Every format of a file that holds an answer: the command line, the pages and the API offer what stands here.

A new format is a function in a module beside this one, and an entry in ``FORMATS``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal
    from crosstally.schema import Schema

__all__ = ["FORMATS", "Format", "Written", "written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A table that is to be written: the level of its intervals (95% if None), and labels ``raw`` or inert in CSV.

    ``whole`` is the schema of its release, which has the values that a condition left out.
    """

    table: Marginal
    level: float | None = None
    _: KW_ONLY
    raw: bool = False
    whole: Schema


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what people call it, its media type, the ending of its files, and the function that writes it.

    It is offered at the terminal, on the web, or at both. One that is ``streamed`` is written in pieces, and so may
    hold the largest tables.
    """

    label: str
    media_type: str
    ending: str
    pieces: Callable[[Written], Iterable[str | bytes]]
    _: KW_ONLY
    streamed: bool = False
    terminal: bool = True
    web: bool = True

    @property
    def is_json(self) -> bool:
        """Whether characters may be escaped in it."""
        return self.media_type == "application/json"

    @property
    def is_text(self) -> bool:
        """Whether it may go to a terminal."""
        return self.is_json or self.media_type.startswith("text/")


def written(name: str, asked: Written) -> Iterator[bytes]:
    """The file in a format, in pieces."""
    return (piece.encode() if isinstance(piece, str) else piece for piece in FORMATS[name].pieces(asked))


# What a format needs is imported when it is written


def _csv(asked: Written) -> Iterable[str]:
    from crosstally.exports.csv_table import csv_pieces

    return csv_pieces(asked.table, level=asked.level, raw=asked.raw)


def _json(asked: Written) -> Iterable[str]:
    from crosstally.exports.json_tables import json_text

    yield json_text(asked.table, level=asked.level)


def _json_stat(asked: Written) -> Iterable[str]:
    from crosstally.exports.json_tables import json_stat_text

    yield json_stat_text(asked.table, level=asked.level)


def _json_stat_coded(asked: Written) -> Iterable[str]:
    from crosstally.exports.json_tables import json_stat_coded_text

    yield json_stat_coded_text(asked.table, asked.whole, level=asked.level)


def _parquet(asked: Written) -> Iterable[bytes]:
    from crosstally.exports.parquet_table import parquet_pieces

    return parquet_pieces(asked.table, level=asked.level)


def _xlsx(asked: Written) -> Iterable[bytes]:
    from crosstally.exports.xlsx import write_xlsx

    book = io.BytesIO()
    write_xlsx(asked.table, book, level=asked.level)
    yield book.getvalue()


def _px(asked: Written) -> Iterable[str]:
    from crosstally.exports.px import px_text

    yield px_text(asked.table, level=asked.level)


def _sdmx_csv(asked: Written) -> Iterable[str]:
    from crosstally.exports.sdmx_csv import sdmx_csv_text

    yield sdmx_csv_text(asked.table, level=asked.level)


_CSV, _JSON, _EXCEL = "text/csv; charset=utf-8", "application/json", "spreadsheetml.sheet"

FORMATS: Mapping[str, Format] = {
    "csv": Format("CSV", _CSV, "csv", _csv, streamed=True),
    "json": Format("JSON", _JSON, "json", _json, web=False),
    "json-stat": Format("JSON-stat", _JSON, "json", _json_stat, web=False),
    "parquet": Format("Parquet", "application/vnd.apache.parquet", "parquet", _parquet, streamed=True),
    "xlsx": Format("XLSX", f"application/vnd.openxmlformats-officedocument.{_EXCEL}", "xlsx", _xlsx),
    "json-stat2": Format("JSON-stat", _JSON, "json", _json_stat_coded, terminal=False),
    "px": Format("PX", "text/plain; charset=utf-8", "px", _px),
    "sdmx-csv": Format("SDMX-CSV", _CSV, "sdmx.csv", _sdmx_csv),
}
"""All formats by the names that options and addresses have, in the order in which they are offered."""
