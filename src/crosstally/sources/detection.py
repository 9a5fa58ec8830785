"""How a source seems to be written, for a steward to confirm.

What is found rests on all rows, so that one row may change it: it is shown, and becomes part of a release only when the
steward says so, as options or in a schema. Nothing of it is published.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.errors import AmbiguousNumbersError, SourceError
from crosstally.schema import Schema
from crosstally.sources.codes.arrays import is_text, plain_text
from crosstally.sources.drafting.words import missing_tokens
from crosstally.sources.guard import guarded, how_to_say
from crosstally.sources.kinds import source_of
from crosstally.sources.reading_options import NO_OPTIONS, NumbersSeen, Reading, is_any_number
from crosstally.sources.source import ANY_UNIT, RowEncoding, Scan, Source
from crosstally.sources.text_files import (
    DELIMITERS,
    GUESS,
    TextFormat,
    after_lines,
    decoded_head,
    encoding_of,
    format_of,
    is_utf8,
    read_head,
)

_SAMPLE_CHARACTERS = 64 * 1024  # what CleverCSV looks at: more takes longer and seldom changes its mind
_UNSAID = (":", " ")  # they part fields too, but times and texts hold them
_MOST_WORDS = 5  # a column of numbers may contain this many words beside those for a missing value; the same in a draft
_MOST_WORDS_OF_A_BATCH = 50  # that are looked at: more than there are usual spellings of a missing value, 23
_MOST_SAMPLES = 3  # texts with accents that are shown: a steward sees from a few whether the encoding is right
_LONGEST_SAMPLE = 40  # characters of such a text: longer ones fill the terminal, and may be anything
_MOST_ACCENTS = 1_000  # texts that are kept to choose samples from
_SUSPECT_SHARE = 3  # a first line is taken for a row when a third of its fields look like values
_VALUE = re.compile(r"\s*|[+-]?[\d., ]*\d[\d., ]*|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*")


@dataclass(frozen=True, slots=True, repr=False)
class Detected:
    """How a source seems to be written. Confidential: it rests on rows, and ``samples`` are some of their texts.

    ``guessed`` says that the encoding is a guess; ``samples`` are up to three texts with non-ASCII letters, from which
    a person can tell whether it is right.
    """

    reading: Reading
    columns: int
    _: KW_ONLY
    delimiter: str | None = None
    encoding: str | None = None
    guessed: bool = False
    samples: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Detected({self})"

    def __str__(self) -> str:
        """One line without anything of a row, such as 17 columns, separator ';', cp1252, decimal comma in 2."""
        words = [f"{self.columns} column{'s' * (self.columns != 1)}"]
        if self.delimiter is not None:
            words.append(f"separator {'tab' if self.delimiter == chr(9) else repr(self.delimiter)}")
        if self.encoding is not None:
            words.append(self.encoding.upper() if self.encoding.startswith("utf") else self.encoding)
        if self.reading.quote not in (None, '"'):
            words.append(f"quote {self.reading.quote!r}")
        if self.reading.header == 0:
            words.append("no names")
        if self.reading.decimal == ",":
            words.append("decimal comma")
        styles = Counter(self._styles())
        words += [f"{style} in {number}" for style, number in styles.items()]
        return ", ".join(words)

    def _styles(self) -> list[str]:
        decimals, thousands = (
            given if isinstance(given, dict) else {} for given in (self.reading.decimal, self.reading.thousands)
        )
        commas = ["decimal comma" for mark in decimals.values() if mark == ","]
        groups = {"'": "apostrophes", " ": "blanks", ",": "commas", ".": "points"}
        return commas + [f"thousands with {groups[mark]}" for mark in thousands.values() if mark in groups]


def detect_reading(rows: Any, *, reading: Reading = NO_OPTIONS) -> Detected:
    """How a source seems to be written: what ``reading`` does not say is detected from the whole source.

    Raises:
        AmbiguousNumbersError: All numbers of a column fit two readings.
        SourceError: The source cannot be read, or its first line seems to be a row and not names.
    """
    source = source_of(rows)
    if not source.is_read_again:
        return Detected(reading, 0)  # it can be read once, and that is for whoever counts it
    texts = source.text_files()
    found = [guarded(repr(str(path)), lambda path=path: _detect_text(path, reading)) for path in texts]  # type: ignore[misc]
    encoding, guessed = _common_encoding(found)
    names = found[0].form.names if found else None
    if found:
        _check_same_names(texts, found)
        reading = _with_format(reading, found, encoding)
    columns, accents = _look(source, names, reading)
    if reading.header is None and found and _looks_like_a_row(found[0].form.names, columns):
        raise SourceError(
            f"{str(texts[0])!r}: its first line looks like a row, not like names; say {how_to_say('header')}: 0 when "
            "there are no names, else the line that holds them"
        )
    return Detected(
        _with_styles(reading, columns),
        len(columns),
        delimiter=found[0].form.delimiter if found else None,
        encoding=encoding,
        guessed=guessed,
        samples=tuple(text for text, _ in accents.most_common(_MOST_SAMPLES)),
    )


def describe_reading(rows: Any, schema: Schema, *, reading: Reading = NO_OPTIONS) -> Detected | None:
    """How the first text file among the rows is read by what is said of it and by its names; None without any."""
    encoding = RowEncoding.of(schema, reading)
    texts = source_of(rows).text_files()
    if not texts:
        return None
    form = guarded(repr(str(texts[0])), lambda: format_of(texts[0], encoding.reading, encoding.columns))
    return Detected(encoding.reading, len(form.names), delimiter=form.delimiter, encoding=form.encoding)


# Text files


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class _Text:
    """How one text file seems to be written, and whether its first lines show its delimiter to who knows its names."""

    form: TextFormat
    quote: str | None
    is_ascii: bool
    guessed: bool
    shows_delimiter: bool


def _detect_text(path: Path, reading: Reading) -> _Text:
    head, _ = read_head(path)
    encoding, mark = encoding_of(head, reading.encoding)
    is_ascii = guessed = False
    if encoding is None:
        is_plain, is_ascii = is_utf8(path)
        encoding, guessed = ("utf-8", False) if is_plain else (GUESS, True)
    said = reading
    reading = replace(reading, encoding=encoding)
    if reading.delimiter is None:
        text = after_lines(decoded_head(head, encoding, mark), max((reading.header or 1) - 1, 0))
        reading = _with_dialect(text[:_SAMPLE_CHARACTERS], reading)
    form = format_of(path, reading, None)
    if len(form.names) == 1 and said.delimiter is None:
        _check_single(path, decoded_head(head, encoding, mark)[:_SAMPLE_CHARACTERS])
    # A guess is said, so that who confirms it does so for all that is read later.
    shown = format_of(path, replace(reading, delimiter=said.delimiter), form.names)
    return _Text(
        form=form,
        quote=reading.quote,
        is_ascii=is_ascii,
        guessed=guessed,
        shows_delimiter=shown.delimiter == form.delimiter,
    )


def _with_format(reading: Reading, found: Sequence[_Text], encoding: str | None) -> Reading:
    """The reading with what must be said of text files: what their first lines show is left to them."""
    delimiters = {each.form.delimiter for each in found}
    must_say_delimiter = len(delimiters) == 1 and not all(each.shows_delimiter for each in found)
    return replace(
        reading,
        delimiter=found[0].form.delimiter if must_say_delimiter else reading.delimiter,
        encoding=reading.encoding if not any(each.guessed for each in found) else encoding,
        quote=found[0].quote,
    )


def _with_dialect(sample: str, reading: Reading) -> Reading:
    """The reading with what CleverCSV says of the delimiter; it says nothing where there is one column alone."""
    from clevercsv import Detector

    if sample[:4].lower() == "sep=":
        return reading
    last = sample.rfind("\n") + 1  # a row that is cut off would look ragged
    found = Detector().detect(sample[:last] or sample, delimiters=list(DELIMITERS))
    if found is None or found.delimiter not in DELIMITERS:
        return reading
    is_single = reading.quote is None and found.quotechar == "'" and _only_around_fields("'", found.delimiter, sample)
    return replace(reading, delimiter=found.delimiter, quote="'" if is_single else reading.quote)


def _check_single(path: Path, sample: str) -> None:
    """Raise when a file of one column seems to have more, parted by something that must be said."""
    rows = [line for line in sample.splitlines() if line][:-1]  # the last one may be cut off
    for mark in _UNSAID:
        numbers = {line.count(mark) for line in rows}
        if len(numbers) == 1 and min(numbers) > 0:
            raise SourceError(
                f"{str(path)!r} seems to have one column, or {min(numbers) + 1} that {mark!r} parts; say "
                f"{how_to_say('delimiter')}"
            )


def _only_around_fields(quote: str, delimiter: str, sample: str) -> bool:
    """Whether the character stands at the beginning and at the end of fields alone, and is no apostrophe."""
    inside = rf"[^{re.escape(delimiter)}\r\n]{quote}[^{re.escape(delimiter)}\r\n]"
    return re.search(inside, sample) is None


def _common_encoding(found: Sequence[_Text]) -> tuple[str | None, bool]:
    """The encoding of all files; those of ASCII alone go with any."""
    kinds = {each.form.encoding for each in found if not each.is_ascii}
    if len(kinds) > 1:
        raise SourceError(
            f"the files are in several encodings ({', '.join(sorted(kinds))}): save all of them as UTF-8, or read them "
            "one by one"
        )
    return (min(kinds, default="utf-8"), any(each.guessed for each in found)) if found else (None, False)


def _check_same_names(paths: Sequence[Path], found: Sequence[_Text]) -> None:
    for path, each in zip(paths, found, strict=True):
        if set(each.form.names) != set(found[0].form.names):
            raise SourceError(f"{str(path)!r} has other columns than {str(paths[0])!r}; name files with the same ones")


# All rows


@dataclass(slots=True)
class _Column:
    """What was seen of a column: its numbers, and a few words that are none."""

    numbers: NumbersSeen = field(default_factory=NumbersSeen)
    words: set[str] = field(default_factory=set)
    repeats_name: bool = False

    @property
    def is_numeric(self) -> bool:
        return len(self.words) <= _MOST_WORDS + len(missing_tokens(self.words))


def _looks_like_a_row(names: Sequence[str], columns: Mapping[str, _Column]) -> bool:
    """Whether many of the names are numbers, dates or nothing, or occur again in their own columns."""
    like = sum(bool(_VALUE.fullmatch(name)) or columns[name].repeats_name for name in names)
    return like * _SUSPECT_SHARE >= len(names)


def _look(source: Source, names: Sequence[str] | None, reading: Reading) -> tuple[dict[str, _Column], Counter[str]]:
    """What was seen of each column, and texts with letters beyond ASCII."""
    columns: dict[str, _Column] = {}
    accents: Counter[str] = Counter()
    needed = None if names is None or len(set(names)) < len(names) else names
    for batch in source.batches(Scan(needed, reading, ANY_UNIT)):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            known = columns.setdefault(name, _Column())
            _add(known, accents, name, column, is_said=reading.style(name) is not None)
    for name in names or ():
        columns.setdefault(name, _Column())
    return columns, accents


def _add(known: _Column, accents: Counter[str], name: str, column: pa.Array, *, is_said: bool) -> None:
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not is_text(values.type):
        return
    counted = pc.value_counts(plain_text(values).drop_null())
    texts = counted.field("values")
    known.repeats_name |= bool(pc.any(pc.equal(texts, name), min_count=0).as_py())
    accented = counted.filter(pc.invert(pc.string_is_ascii(texts)))
    for entry in accented.slice(0, max(_MOST_ACCENTS - len(accents), 0)).to_pylist():
        if len(entry["values"]) <= _LONGEST_SAMPLE:
            accents[entry["values"]] += entry["counts"]
    if known.is_numeric and not is_said:
        known.numbers.add(texts)
        words = texts.filter(pc.invert(is_any_number(texts)))
        known.words.update(words.slice(0, _MOST_WORDS_OF_A_BATCH).to_pylist())


def _with_styles(reading: Reading, columns: Mapping[str, _Column]) -> Reading:
    """The reading with the styles of columns of numbers."""
    numeric = {name: column.numbers for name, column in columns.items() if column.is_numeric}
    unclear = [name for name, numbers in numeric.items() if numbers.is_unclear]
    if unclear:
        places = [place for place, name in enumerate(columns, 1) if name in unclear]
        raise AmbiguousNumbersError(
            unclear, f"column number {places[0]}", "--decimal NAME=. or --decimal NAME=, with its name"
        )
    styles = {name: numbers.style for name, numbers in numeric.items() if numbers.style is not None}
    decimal = {name: style.decimal for name, style in styles.items() if style is not None}
    thousands = {
        name: style.thousands
        for name, style in styles.items()
        if style is not None and (style.thousands not in (".", ",") or style.decimal == ".")
    }
    return reading.or_else(Reading(decimal=decimal or None, thousands=thousands or None))
