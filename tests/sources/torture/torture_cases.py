"""Files as people really have them: what is in each, and what must come of it.

All hold the same six people unless they say otherwise, so that one hand-made count fits them all. Every attribute has
a cell for other values: what is misread is counted there and does not hide behind a refusal.
"""

from __future__ import annotations

import codecs
import gzip
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PEOPLE = [
    ("F", "Köln", "1234.5"),
    ("M", "Zürich", "980"),
    ("F", "Köln", "21740"),
    ("M", "Bern", "15000.25"),
    ("F", "Zürich", "3"),
    ("", "Bern", "2500"),
]
NAMES = ("sex", "town", "income")
SCHEMA: dict[str, Any] = {
    "attributes": [
        {"name": "sex", "values": ["F", "M"], "outside": "other", "missing": True},
        {"name": "town", "values": ["Köln", "Zürich", "Bern"], "outside": "other"},
        {"name": "income", "edges": [0, 1000, 10000, 100000], "outside": "other", "missing": True},
    ]
}
# By hand: F, M, other, missing; Köln, Zürich, Bern, other; three bins, other, missing.
COUNTS = {"sex": [3, 2, 0, 1], "town": [2, 2, 2, 0], "income": [2, 2, 2, 0, 0]}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One file and what must come of it.

    Without a word the file gives ``counts``, or is refused with ``refused`` in the message. With the options in
    ``mended`` it gives ``counts``. What is detected gives them too, and says ``line`` about itself, or is refused with
    ``unsure``.
    """

    content: bytes
    ending: str = ".csv"
    refused: str = ""
    mended: dict[str, Any] = field(default_factory=dict)
    unsure: str = ""
    line: str = ""
    guessed: bool = False
    schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)
    counts: dict[str, list[int]] = field(default_factory=lambda: COUNTS)


def lines(
    people: Sequence[Sequence[str]] = PEOPLE,
    *,
    names: Sequence[str] | None = NAMES,
    delimiter: str = ",",
    end: str = "\n",
    quote: str = "",
) -> str:
    rows = [*([names] if names is not None else []), *people]
    return "".join(delimiter.join(f"{quote}{text}{quote}" for text in row) + end for row in rows)


def incomes(*texts: str) -> list[tuple[str, str, str]]:
    return [(sex, town, text) for (sex, town, _), text in zip(PEOPLE, texts, strict=True)]


GERMAN = incomes("1.234,5", "980", "21.740", "15.000,25", "3", "2.500")
COMMAS = incomes("1234,5", "980", "21740", "15000,25", "3", "2500")
FRENCH = incomes("1\u202f234,5", "980", "21\u00a0740", "15 000,25", "3", "2 500")
SWISS = incomes("1'234.5", "980", "21’740", "15'000.25", "3", "2'500")
ENGLISH = incomes("1,234.5", "980", "21,740", "15,000.25", "3", "2,500")
WITH_NOTES = (*NAMES, "note")


def noted(*notes: str) -> list[tuple[str, ...]]:
    return [(*row, note) for row, note in zip(PEOPLE, notes, strict=True)]


WIDE_40 = tuple(f"q{i}" for i in range(37))
WIDE_120 = tuple(f"frage {i}" for i in range(117))


def wide(extra: Sequence[str]) -> str:
    people = [(*row, *(str((i * j) % 5) for j in range(len(extra)))) for i, row in enumerate(PEOPLE)]
    return lines(people, names=(*NAMES, *extra), delimiter=";")


TWO_OF_EACH = {**SCHEMA, "unit": {"id": "person", "max_rows": 2}}
VISITS = [("7", *PEOPLE[0]), ("7", *PEOPLE[0]), ("7", *PEOPLE[0]), *[(str(i), *PEOPLE[i]) for i in range(1, 6)]]
DATED = {"attributes": [{"name": "born", "values": ["2000-02-29", "1999-12-31"], "outside": "other", "missing": True}]}
CODED = {"attributes": [{"name": "code", "values": ["1", "01", "10", "NA"], "outside": "other", "missing": True}]}
UNNAMED = {
    "attributes": [{**each, "name": f"column_{i}"} for i, each in enumerate(SCHEMA["attributes"], 1)],
}
UNNAMED_COUNTS = {f"column_{i}": COUNTS[name] for i, name in enumerate(NAMES, 1)}

PLAIN = "3 columns, separator ',', UTF-8"
NOT_UTF8 = "it is not UTF-8 text; if it is Windows' text say --encoding cp1252"
NO_NAMES = "a text file must begin with a line of names, else say --header"
STRAY = "does not end where its field ends; mend it, or say --quote"

WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "UTF-8 said to be Windows'": (
        "commas",
        {"encoding": "cp1252"},
        "it is UTF-8 text and not cp1252; leave the encoding",
    ),
    "Windows said to be UTF-8": ("German", {"encoding": "utf-8"}, "it is not UTF-8 text"),
    "Windows said to be ASCII": ("German", {"encoding": "ascii"}, "it is not ascii text; say --encoding"),
    "Windows said to be UTF-16": ("German", {"encoding": "utf-16"}, "has no columns"),
    "semicolons said to be commas": ("semicolons", {"delimiter": ","}, "has no columns"),
    "names said to be lower": ("commas", {"header": 2}, "has no columns"),
    "names said to be none": ("commas", {"header": 0}, "has no columns"),
    "points said to be commas": ("commas", {"decimal": ","}, "holds decimal points beside decimal commas"),
}
"""What is said of a case, and is wrong."""

CASES: dict[str, Case] = {
    # Separators
    "commas": Case(content=lines().encode(), line=PLAIN),
    "semicolons": Case(content=lines(delimiter=";").encode(), line="3 columns, separator ';', UTF-8"),
    "tabs": Case(content=lines(delimiter="\t").encode(), ending=".tsv", line="3 columns, separator tab, UTF-8"),
    "tabs in a csv": Case(content=lines(delimiter="\t").encode(), line="3 columns, separator tab, UTF-8"),
    "bars in a txt": Case(content=lines(delimiter="|").encode(), ending=".txt", line="3 columns, separator '|', UTF-8"),
    "carets": Case(content=lines(delimiter="^").encode()),
    "unit separators": Case(content=lines(delimiter="\x1f").encode()),
    "colons": Case(
        content=lines(delimiter=":").encode(),
        refused="has no columns",
        mended={"delimiter": ":"},
        unsure="or 3 that ':' parts; say --delimiter",
    ),
    "blanks": Case(
        content=lines(delimiter=" ").encode(),
        refused="has no columns",
        mended={"delimiter": " "},
        unsure="or 3 that ' ' parts; say --delimiter",
    ),
    "a line that says the separator": Case(content=("sep=;\r\n" + lines(delimiter=";", end="\r\n")).encode()),
    "commas in the names of a file with semicolons": Case(
        content=lines(noted(*"abcdef"), names=(*NAMES, "note, a, b"), delimiter=";").encode()
    ),
    # Encodings
    "a mark of UTF-8": Case(content=lines().encode("utf-8-sig"), line=PLAIN),
    "UTF-16 little": Case(
        content=codecs.BOM_UTF16_LE + lines().encode("utf-16-le"), line="3 columns, separator ',', UTF-16-LE"
    ),
    "UTF-16 big": Case(content=codecs.BOM_UTF16_BE + lines(delimiter="\t").encode("utf-16-be")),
    "UTF-16 without a mark": Case(content=lines(delimiter=";").encode("utf-16-le")),
    "UTF-32": Case(content=codecs.BOM_UTF32_LE + lines().encode("utf-32-le")),
    "Windows, plain names": Case(
        content=lines(delimiter=";").encode("cp1252"),
        refused=NOT_UTF8,
        mended={"encoding": "cp1252"},
        line="3 columns, separator ';', cp1252",
        guessed=True,
    ),
    "Windows, other names with accents": Case(
        content=lines(noted(*"abcdef"), names=(*NAMES, "größe"), delimiter=";").encode("cp1252"),
        refused=NOT_UTF8,
        mended={"encoding": "cp1252"},
        line="4 columns, separator ';', cp1252",
        guessed=True,
    ),
    "Windows, needed names with accents": Case(
        content=lines(names=("sex", "törn", "income"), delimiter=";").encode("cp1252"),
        schema={"attributes": [{**SCHEMA["attributes"][1], "name": "törn"}]},
        counts={"törn": COUNTS["town"]},
        guessed=True,
    ),
    "Macintosh, needed names with accents": Case(
        content=lines(names=("sex", "törn", "income"), delimiter=";").encode("mac_roman"),
        schema={"attributes": [{**SCHEMA["attributes"][1], "name": "törn"}]},
        counts={"törn": COUNTS["town"]},
        refused=NOT_UTF8,
        mended={"encoding": "mac_roman"},
        guessed=True,
        unsure="a guess that a person sees to be wrong",
    ),
    "Windows, packed": Case(
        content=gzip.compress(lines(delimiter=";").encode("cp1252")),
        ending=".csv.gz",
        refused=NOT_UTF8,
        mended={"encoding": "latin-1"},
        guessed=True,
    ),
    "Macintosh": Case(
        content=lines().encode("mac_roman"),
        refused=NOT_UTF8,
        mended={"encoding": "mac_roman"},
        guessed=True,
        unsure="a guess that a person sees to be wrong",
    ),
    "accents in two parts": Case(content=unicodedata.normalize("NFD", lines()).encode(), line=PLAIN),
    # Lines
    "CRLF": Case(content=lines(end="\r\n").encode(), line=PLAIN),
    "CR alone": Case(content=lines(end="\r").encode()),
    "no end of the last line": Case(content=lines().encode()[:-1], line=PLAIN),
    "blank lines": Case(content=("\n\n" + lines(end="\n\n") + "\n\n").encode()),
    "separators at the end of each line": Case(content=lines(delimiter=";", end=";\n").encode()),
    "separators at the end of each row": Case(
        content=(lines([]) + lines(names=None, end=",\n")).encode(),
        refused="the row at line 2 has 4 fields, the names have 3",
        unsure="the row at line 2 has 4 fields, the names have 3",
    ),
    # Quotes
    "quotes around all": Case(content=lines(quote='"').encode(), line=PLAIN),
    "separators and quotes in quotes": Case(
        content=lines(noted('"a, b"', '"say ""hi"""', "c", '""', "5 inch", "d"), names=WITH_NOTES).encode()
    ),
    "line feeds in quotes": Case(
        content=lines(noted('"a\nb"', '"\r\n"', "c", '"x\n\n\ny"', "", "d"), names=WITH_NOTES).encode()
    ),
    "long texts in quotes": Case(content=lines(noted(f'"a\n{"b" * 200_000}"', *"cdefg"), names=WITH_NOTES).encode()),
    "a quote that is never closed": Case(
        content=lines(noted("a", '"b', *"cdef"), names=WITH_NOTES).encode(), refused=STRAY, unsure=STRAY
    ),
    "two stray quotes": Case(
        content=lines(noted('"a', *"bcd", '"e', "f"), names=WITH_NOTES).encode(), refused=STRAY, unsure=STRAY
    ),
    "inches among tabs": Case(
        content=lines(noted("a", '"b', "c", '"d', "e", "f"), names=WITH_NOTES, delimiter="\t").encode(),
        refused=STRAY,
        mended={"quote": ""},
        unsure=STRAY,
    ),
    "single quotes": Case(
        content=lines([(*row[:2], row[2]) for row in PEOPLE], quote="'").encode(),
        refused=NO_NAMES,
        mended={"quote": "'"},
    ),
    # Numbers
    "decimal commas": Case(
        content=lines(COMMAS, delimiter=";").encode(),
        refused="column 'income' holds decimal commas; say --decimal income=,",
        mended={"decimal": ","},
        line="3 columns, separator ';', UTF-8, decimal comma in 1",
    ),
    "German": Case(
        content=lines(GERMAN, delimiter=";", end="\r\n").encode("cp1252"),
        refused=NOT_UTF8,
        mended={"encoding": "cp1252", "decimal": {"income": ","}},
        line="3 columns, separator ';', cp1252, decimal comma in 1",
        guessed=True,
    ),
    "French": Case(
        content=lines(FRENCH, delimiter=";").encode(),
        refused="column 'income' holds decimal commas; say --decimal income=,",
        mended={"decimal": ",", "thousands": " "},
        line="3 columns, separator ';', UTF-8, decimal comma in 1, thousands with blanks in 1",
    ),
    "Swiss": Case(
        content=lines(SWISS, delimiter=";").encode(),
        refused="column 'income' groups its thousands with \"'\"; say --thousands",
        mended={"thousands": "'"},
        line="3 columns, separator ';', UTF-8, thousands with apostrophes in 1",
    ),
    "English": Case(
        content=lines(ENGLISH, quote='"').encode(),
        refused="column 'income' groups its thousands with ','; say --decimal income=.",
        mended={"decimal": {"income": "."}},
        line=f"{PLAIN}, thousands with commas in 1",
    ),
    "points that may be either, and are thousands": Case(
        content=lines(incomes("1.234", "980", "21.740", "15.000", "3", "2.500"), delimiter=";").encode(),
        refused="column 'income': every number fits two readings",
        mended={"decimal": ","},
        unsure="column number 3: every number fits two readings",
    ),
    "points that may be either, and are decimals": Case(
        content=lines(incomes("1.234", "980", "21.740", "15.000", "3", "2.500")).encode(),
        refused="say --decimal income=. (in Python: Reading(decimal={'income': '.'}))",
        mended={"decimal": "."},
        unsure="column number 3: every number fits two readings",
        counts={**COUNTS, "income": [6, 0, 0, 0, 0]},
    ),
    "commas that may be either, and are thousands": Case(
        content=lines(incomes("1,234", "980", "21,740", "15,000", "3", "2,500"), delimiter=";").encode(),
        refused="column 'income': every number fits two readings",
        mended={"thousands": ","},
        unsure="column number 3: every number fits two readings",
    ),
    "both styles": Case(
        content=lines(incomes("1234,5", "980", "21740", "15000.25", "3", "2500"), delimiter=";").encode(),
        refused="column 'income' holds numbers in several styles; mend them, or say --decimal income=.",
        mended={"decimal": "."},
        counts={**COUNTS, "income": [2, 1, 2, 1, 0]},
        unsure="-",
    ),
    "exponents and signs": Case(
        content=lines(incomes("+1.2345e3", "9.8E2", "2.174e4", "15000.25", "3.", "2500")).encode(), line=PLAIN
    ),
    # Names
    "a name twice, not needed": Case(
        content=lines([(*row, "x", "y") for row in PEOPLE], names=(*NAMES, "note", "note")).encode(),
        unsure="columns 4 and 5 have the same name; rename one",
    ),
    "a name twice, needed": Case(
        content=lines([(*row, "x") for row in PEOPLE], names=(*NAMES, "town")).encode(),
        refused="has more than one column 'town'; rename one of them",
        unsure="columns 2 and 4 have the same name; rename one",
    ),
    "no names": Case(
        content=lines(names=None).encode(),
        refused=NO_NAMES,
        mended={"header": 0},
        unsure="its first line looks like a row, not like names; say --header",
        schema=UNNAMED,
        counts=UNNAMED_COUNTS,
    ),
    "a title above the names": Case(
        content=("Report of the year\n\n" + lines(delimiter=";")).encode(),
        refused="has its names in line 3, after a title: say --header 3",
        mended={"header": 3},
        unsure="say --delimiter if the separator is another, --header if the names stand elsewhere",
    ),
    "names again in the middle": Case(
        content=(lines(PEOPLE[:3]) + lines(PEOPLE[3:])).encode(),
        counts={"sex": [3, 2, 1, 1], "town": [2, 2, 2, 1], "income": [2, 2, 2, 1, 0]},  # as the file has it: a seventh
        unsure="its first line looks like a row, not like names; say --header",
    ),
    "names in capitals": Case(content=lines(names=[n.upper() for n in NAMES]).encode(), refused=NO_NAMES, unsure="-"),
    "names in quotes with line feeds": Case(
        content=lines([(*row, "x") for row in PEOPLE], names=(*NAMES, '"a\nnote"')).encode()
    ),
    "40 columns": Case(content=wide(WIDE_40).encode(), line="40 columns, separator ';', UTF-8"),
    "120 columns": Case(content=wide(WIDE_120).encode("utf-8-sig"), line="120 columns, separator ';', UTF-8"),
    # Rows
    "a row with a field more": Case(
        content=(lines() + "F,Köln,3,4\n").encode(),
        refused="the row at line 8 has 4 fields, the names have 3",
        unsure="the row at line 8 has 4 fields, the names have 3",
    ),
    "a row with a field less": Case(
        content=(lines(delimiter=";") + "F;Köln\n").encode(),
        refused="the row at line 8 has 2 fields, the names have 3",
        unsure="the row at line 8 has 2 fields, the names have 3",
    ),
    "names alone": Case(
        content=lines([]).encode(), counts={"sex": [0] * 4, "town": [0] * 4, "income": [0] * 5}, unsure="-"
    ),
    "nothing at all": Case(content=b"", refused="it is empty, without even a header", unsure="it is empty"),
    "several rows for each person": Case(
        content=lines(VISITS, names=("person", *NAMES), delimiter=";").encode(),
        schema=TWO_OF_EACH,
        counts={"sex": [4, 2, 0, 1], "town": [3, 2, 2, 0], "income": [2, 3, 2, 0, 0]},
    ),
    "dates": Case(
        content=lines(
            [(d,) for d in ("2000-02-29", "1999-12-31", "29.02.2000", "", "2000-02-29")], names=["born"]
        ).encode(),
        schema=DATED,
        counts={"born": [2, 1, 1, 0]},  # the blank line is no row: one column alone cannot say a missing value
    ),
    "missing codes and leading zeros": Case(
        content=lines(
            [(c, "x") for c in ("1", "01", "1.0", "NA", "-", "", "10", "99")], names=["code", "note"]
        ).encode(),
        schema=CODED,
        counts={"code": [2, 1, 1, 1, 2, 1]},
    ),
}
