"""Answers as CSV, and columns of labels and numbers, which a statement of SQL gives, as CSV and JSON.

A CSV file has no types: a spreadsheet that opens it runs a label such as ``=HYPERLINK(...)`` as a formula. An
apostrophe before it makes it a text. What turns the reading direction around becomes visible, so that no label can
look like another one. Numbers are left alone, negative ones too.

An answer as SDMX-CSV 2.0, which statistical offices exchange.

Identifiers of SDMX are letters, digits and a few signs, so names and labels stand beside them, as ``labels=both`` of
the standard has it: the column ``AGE: âge`` holds ``C0: [0, 18)``. A label that may be a code is its own code.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from crosstally.exports.formats import free_name, measures, number_names, pieces, without_dust
from crosstally.query.conditions import number_of_text

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal
    from crosstally.sql import SqlAnswer


Columns = Mapping[str, Sequence[str | float | None]]

_FORMULA = frozenset("=+-@|%＝＋－＠")
"""What begins a formula or a command in some spreadsheet; the wide forms do in East Asian ones."""

_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates. Plain marks of direction (U+200E, U+200F) belong to Hebrew and Arabic texts."""

_UNSEEN = ("C", "Z")  # general categories: control, format and separator characters


def csv_pieces(
    marginal: Marginal, *, level: float | None = None, raw: bool = False, draws: bool = False
) -> Iterator[str]:
    """One line for each cell: its labels, its count, its standard error and the ends of its interval; names first.

    What is not known is empty. Intervals are of 95% where no level is asked. Labels that a spreadsheet would take for
    a formula are made inert, unless they are wanted ``raw``. With ``draws`` each draw has a column. Where a unit may
    have several rows, the last column says on each line what is counted: a file of CSV has no other place for it, and
    lines go on into other tables.
    """
    text_of = str if raw else inert
    counted = [text_of(_on_one_line(each)) for each in [marginal.schema.bounded_words] if each]
    labels = [[text_of(label) for label in attribute.labels] for attribute in marginal.schema.attributes]
    names = [*map(text_of, marginal.attributes), *number_names(marginal, draws=draws)]
    yield _lines([[*names, *(free_name("counted", names) for _ in counted)]])
    for codes, (counts, *errors) in pieces(marginal, level=level, draws=draws):
        texts = [[own[code] for code in axis.tolist()] for own, axis in zip(labels, codes, strict=True)]
        numbers = [[repr(without_dust(count)) for count in counts.tolist()]]
        numbers += [["" if math.isnan(x) else repr(x) for x in column.tolist()] for column in errors]
        yield _lines((*line, *counted) for line in zip(*texts, *numbers, strict=True))


def csv_text(marginal: Marginal, *, level: float | None = None, raw: bool = False, draws: bool = False) -> str:
    """The whole file of ``csv_pieces``."""
    return "".join(csv_pieces(marginal, level=level, raw=raw, draws=draws))


def _lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def columns_csv(columns: Columns, *, raw: bool = False) -> str:
    """A line for each row; NULL is empty. Labels that a spreadsheet would run are inert, unless wanted ``raw``."""
    text_of = str if raw else inert
    rows = (
        [text_of(cell) if isinstance(cell, str) else "" if cell is None else repr(cell) for cell in row]
        for row in zip(*columns.values(), strict=True)
    )
    return _lines([[text_of(name) for name in columns], *rows])


def columns_json(columns: Columns, about: Mapping[str, str | float]) -> str:
    """An object with what is to be said about the rows, and the rows, each an object."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps({**about, "rows": rows}, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def sql_file(answer: SqlAnswer, name: str, *, raw: bool = False) -> bytes:
    """The answer to a statement as a file in a format: csv, json, parquet or xlsx."""
    if name == "csv":
        name = free_name("counted", answer.columns)
        counted = {name: [_on_one_line(answer.counted)] * len(answer)} if answer.counted else {}
        return columns_csv({**answer.columns, **counted}, raw=raw).encode()
    if name == "json":
        return columns_json(answer.columns, {"level": answer.level, "source": answer.caption}).encode()
    if name == "xlsx":
        from crosstally.exports.xlsx import columns_xlsx

        ends = f"_low and _high are the ends of {100 * answer.level:.4g}% intervals. Empty cells are not known."
        return columns_xlsx(answer.columns, {"source": f"crosstally release, {answer.caption}", "intervals": ends})
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(answer.to_arrow(), file)
    return file.getvalue()


def inert(text: str) -> str:
    r"""The text as it may stand in a CSV file.

    >>> inert("=1+1"), inert("\u200f@SUM(A1)"), inert("-5"), inert("a\u202eb")
    ("'=1+1", "'\u200f@SUM(A1)", '-5', 'a\\u202eb')
    """
    seen = _OVERRIDES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    if number_of_text(text) is not None:
        return seen
    first = next((character for character in seen if unicodedata.category(character)[0] not in _UNSEEN), "")
    return f"'{seen}" if first in _FORMULA or seen[:1] in ("\t", "\r", "\n") else seen


_STRUCTURE = ("STRUCTURE", "STRUCTURE_ID", "ACTION")
_MEASURES = ("OBS_VALUE", "STD_ERROR", "COUNT_LOW", "COUNT_HIGH", "UNIT_MEASURE")
_TAKEN = frozenset((*_STRUCTURE, *_MEASURES, "STRUCTURE_NAME", "SERIES_KEY", "OBS_KEY"))
_CODE = re.compile("[A-Za-z0-9_][A-Za-z0-9_-]*")
"""Labels that are codes as they stand; SDMX takes @ and a dash in the first place too, spreadsheets make formulas of
them."""


def sdmx_csv_text(marginal: Marginal, *, level: float | None = None) -> str:
    """One line for each cell: codes and labels, count, standard error, ends of its interval, and what is counted.

    Line ends within names and labels become blanks. Unknown errors are empty.
    """
    ids = _ids(marginal.attributes)
    columns = [_coded(attribute.labels) for attribute in marginal.schema.attributes]
    flow = f"CROSSTALLY:{'_'.join(ids) or 'TOTAL'}(1.0)"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    headings = [f"{own}: {_on_one_line(name)}" for own, name in zip(ids, marginal.attributes, strict=True)]
    writer.writerow([*_STRUCTURE, *headings, *_MEASURES])
    numbers = zip(*measures(marginal, level=level), strict=True)
    for codes, values in zip(product(*columns), numbers, strict=True):
        texts = ("" if value is None else repr(value) for value in values)
        writer.writerow(["dataflow", flow, "I", *codes, *texts, _on_one_line(marginal.schema.counted)])
    return text.getvalue()


def _ids(names: Sequence[str]) -> list[str]:
    """An identifier for each attribute: its name in capitals without accents where that is one, else its number."""
    out: list[str] = []
    for number, name in enumerate(names, start=1):
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
        own = re.sub("[^A-Z0-9]+", "_", plain.upper()).strip("_")
        own = own if own[:1].isalpha() else f"DIM_{number}"
        while own in _TAKEN or own in out:
            own += "_"
        out.append(own)
    return out


def _coded(labels: Sequence[str]) -> list[str]:
    """Each label with its code before it."""
    own = {label for label in labels if _CODE.fullmatch(label)}
    out = []
    for number, label in enumerate(labels):
        code = label if label in own else f"C{number}"
        while label not in own and code in own:
            code += "_"
        out.append(f"{code}: {_on_one_line(label)}")
    return out


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())
