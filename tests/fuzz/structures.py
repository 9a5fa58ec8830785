"""Files that are rightly built and ask for too much: far cells, deep nesting, texts that unpack to very much more.

Bytes that are changed at random seldom come past a checksum; these come to the reader itself. Each is opened with
limits of 1 GB and 5 s, so that what goes beyond them is a line and not the end of the machine.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosstally.schema import Schema
from crosstally.sources import count
from crosstally.sources.apart import MEMORY, SECONDS

__all__ = ["STRUCTURES", "far_cell", "open_limited"]

_OFFICE = "http://schemas.openxmlformats.org/"
_MAIN = f"{_OFFICE}spreadsheetml/2006/main"
_PARTS = {
    "[Content_Types].xml": (
        f'<Types xmlns="{_OFFICE}package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>'
    ),
    "_rels/.rels": (
        f'<Relationships xmlns="{_OFFICE}package/2006/relationships"><Relationship Id="r1" Target="xl/workbook.xml" '
        f'Type="{_OFFICE}officeDocument/2006/relationships/officeDocument"/></Relationships>'
    ),
    "xl/workbook.xml": (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}officeDocument/2006/relationships"><sheets>'
        '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{_OFFICE}package/2006/relationships"><Relationship Id="r1" Target="worksheets/s.xml" '
        f'Type="{_OFFICE}officeDocument/2006/relationships/worksheet"/></Relationships>'
    ),
}
_EXTREMES = (0, 1, -1, 2**16, 2**24, 2**31 - 1, -(2**31))


def _zipped(path: Path, parts: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)


def _text_cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def far_cell(path: Path, column: str = "XFD", row: int = 1_048_576, *, text: str = "f", depth: int = 0) -> None:
    """A workbook of two filled rows, and a cell far away from them; a text in it, and elements around the sheet."""
    rows = f'<row r="1">{_text_cell("A1", "sex")}</row><row r="2">{_text_cell("A2", text)}</row>'
    rows += f'<row r="{row}"><c r="{column}{row}"><v>1</v></c></row>'
    sheet = f'<worksheet xmlns="{_MAIN}">{"<x>" * depth}{"</x>" * depth}<sheetData>{rows}</sheetData></worksheet>'
    _zipped(path, {**_PARTS, "xl/worksheets/s.xml": sheet})


def _workbook(random: Random, path: Path) -> None:
    column, row = random.choice([("B", 9), ("Z", 900), ("ALL", 100_000), ("XFD", 1_048_576), ("A", 4_294_967_295)])
    far_cell(
        path,
        column,
        row,
        text=random.choice(["f", "m" * 1_000_000, "f" * 20_000_000]),
        depth=random.choice([0, 0, 1_000, 300_000]),
    )


def _open_document(random: Random, path: Path) -> None:
    across, down = (random.choice([1, 9, 16_384, 2**31 - 1]) for _ in range(2))
    cell = '<table:table-cell office:value-type="string"{}><text:p>{}</text:p></table:table-cell>'
    repeated = f' table:number-columns-repeated="{across}"'
    body = f"<table:table-row>{cell.format('', 'sex')}</table:table-row>"
    body += f'<table:table-row table:number-rows-repeated="{down}">{cell.format(repeated, "f")}</table:table-row>'
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    inside = f'<office:spreadsheet><table:table table:name="S">{body}</table:table></office:spreadsheet>'
    content = f"<office:document-content{names}><office:body>{inside}</office:body></office:document-content>"
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    entry = f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
    manifest = f'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{entry}'
    parts = {"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": f"{manifest}</manifest:manifest>"}
    _zipped(path, parts)


def _statistics(writer: str) -> Callable[[Random, Path], None]:
    @cache
    def seed(path: Path) -> bytes:
        import pandas as pd
        import pyreadstat

        getattr(pyreadstat, writer)(pd.DataFrame({"sex": ["f", "m"] * 50}), str(path))
        return path.read_bytes()

    def forge(random: Random, path: Path) -> None:
        """Numbers of rows and columns, sizes and offsets in the first 400 bytes, made extreme."""
        data = bytearray(seed(path))
        for _ in range(random.choice([0, 1, 1, 2])):
            place = 4 * random.randrange(100)
            data[place : place + 4] = struct.pack(random.choice("<>") + "i", random.choice(_EXTREMES))
        path.write_bytes(data)

    return forge


def _parquet(random: Random, path: Path) -> None:
    columns, rows, group = (random.choice(each) for each in ((1, 2_000), (1, 100_000), (1_000, 100_000)))
    if columns > 1:
        rows = 10
    made = {"sex": ["f"] * rows, **{f"c{i}": pa.nulls(rows, pa.int8()) for i in range(columns - 1)}}
    pq.write_table(pa.table(made), path, row_group_size=group)


STRUCTURES: dict[str, tuple[str, Callable[[Random, Path], None]]] = {
    "workbook": ("s.xlsx", _workbook),
    "OpenDocument": ("s.ods", _open_document),
    "SPSS": ("s.sav", _statistics("write_sav")),
    "Stata": ("s.dta", _statistics("write_dta")),
    "SAS": ("s.xpt", _statistics("write_xport")),
    "Parquet extent": ("s.parquet", _parquet),
}


def open_limited(path: Path) -> object:
    """Count the rows of a file, with small limits."""
    schema = Schema.from_dict({"attributes": [{"name": "sex", "values": ["f", "m"], "outside": "other"}]})
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(MEMORY, "1")
        patched.setenv(SECONDS, "5")
        return count(path, schema, [("sex",)])
