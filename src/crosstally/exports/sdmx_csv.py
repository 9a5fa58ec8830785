"""An answer as SDMX-CSV 2.0, which statistical offices exchange.

Identifiers of SDMX are letters, digits and a few signs, so names and labels stand beside them, as ``labels=both`` of
the standard has it: the column ``AGE: âge`` holds ``C0: [0, 18)``. A label that may be a code is its own code.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from crosstally.exports.cells import measures

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal

__all__ = ["sdmx_csv_text"]

_STRUCTURE = ("STRUCTURE", "STRUCTURE_ID", "ACTION")
_MEASURES = ("OBS_VALUE", "STD_ERROR", "COUNT_LOW", "COUNT_HIGH")
_TAKEN = frozenset((*_STRUCTURE, *_MEASURES, "STRUCTURE_NAME", "SERIES_KEY", "OBS_KEY"))
_CODE = re.compile("[A-Za-z0-9_][A-Za-z0-9_-]*")
"""Labels that are codes as they stand; SDMX takes @ and a dash in the first place too, spreadsheets make formulas of
them."""


def sdmx_csv_text(marginal: Marginal, *, level: float | None = None) -> str:
    """One line for each cell: its codes and labels, its count, its standard error and the ends of its interval.

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
        writer.writerow(["dataflow", flow, "I", *codes, *("" if value is None else repr(value) for value in values)])
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
