"""The numbers in a stream of rows: rewritten where their style was said, and watched where it was not."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.errors import AmbiguousNumbersError, SourceError
from crosstally.schema import Schema
from crosstally.sources.codes.arrays import is_text, plain_text
from crosstally.sources.number_texts import NumbersSeen, NumberStyle
from crosstally.sources.option_words import how_to_say
from crosstally.sources.reading import Reading

__all__ = ["Numbers", "how_to_say_decimal", "how_to_say_style", "numeric_columns"]


def numeric_columns(schema: Schema) -> list[str]:
    """The attributes whose texts are read as numbers: those with bins, and those whose labels all are numbers."""
    return [
        attribute.name
        for attribute in schema.attributes
        if attribute.edges or all(_is_number(label) for label in attribute.values)
    ]


def _is_number(label: str) -> bool:
    return label.lstrip("+-").replace(".", "", 1).isdecimal()


class Numbers:
    """The styles of numbers in a stream of rows. What was seen is confidential; errors name columns and no value."""

    def __init__(self, reading: Reading, numeric: Sequence[str], verbatim: Sequence[str]) -> None:
        self._reading = reading
        self._verbatim = frozenset(verbatim)
        self.seen = {name: NumbersSeen() for name in numeric if reading.style(name) is None}
        self._numeric = {name: name for name in numeric}  # by the name in the file, the one that errors may print

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, its numbers written with a decimal point and no groups wherever a style was said."""
        for place, name in enumerate(batch.schema.names):
            style = None if name in self._verbatim else self._reading.style(name)
            if style is not None:
                rewritten = self._rewritten(name, style, batch.column(place))
                batch = batch.set_column(place, name, rewritten)
            elif name in self.seen:
                self.seen[name].add(batch.column(place))
                _check_plain(self._numeric[name], self.seen[name])
        return batch

    def _rewritten(self, name: str, style: NumberStyle, column: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            values = self._rewritten(name, style, column.dictionary)
            return pa.DictionaryArray.from_arrays(column.indices, values)
        if not is_text(column.type):
            return column
        encoded = pc.dictionary_encode(plain_text(column))
        if name in self._numeric and style.is_contradicted(encoded.dictionary):
            known = self._numeric[name]
            raise SourceError(f"column {known!r} holds decimal points beside decimal commas; {_mend(known)}")
        return style.plain(encoded.dictionary).take(encoded.indices)

    def add_seen(self, seen: Sequence[NumbersSeen]) -> None:
        """Take in what others saw in the same columns."""
        for (name, own), other in zip(self.seen.items(), seen, strict=True):
            own.merge(other)
            _check_plain(self._numeric[name], own)

    def check(self) -> None:
        """Raise when some column, of which all was seen by now, holds numbers that may be meant in two ways."""
        unclear = [name for name, seen in self.seen.items() if seen.is_unclear]
        if unclear:
            raise AmbiguousNumbersError(unclear, f"column {unclear[0]!r}", how_to_say_decimal(unclear[0]))


def _check_plain(name: str, seen: NumbersSeen) -> None:
    """Raise when some number has a decimal comma or groups for certain: whatever follows, it will not be plain."""
    if seen.is_mixed:
        raise SourceError(f"column {name!r} holds numbers in several styles; {_mend(name)}")
    if seen.style is not None:
        raise SourceError(f"column {name!r} {_described(seen.style)}; say {how_to_say_style(name, seen.style)}")


def _described(style: NumberStyle) -> str:
    return "holds decimal commas" if style.decimal == "," else f"groups its thousands with {style.thousands!r}"


def _mend(name: str) -> str:
    how = how_to_say("decimal", ".", column=name)
    return f"mend them, or say {how}, and the others are no numbers"


def how_to_say_decimal(name: str) -> str:
    """How to say one or the other decimal separator of a column."""
    return f"{how_to_say('decimal', '.', column=name)} or {how_to_say('decimal', ',', column=name)}"


def how_to_say_style(name: str, style: NumberStyle) -> str:
    """How to say the style of a column."""
    decimal = how_to_say("decimal", style.decimal, column=name)
    if style.thousands in (".", ","):
        return decimal
    thousands = how_to_say("thousands", style.thousands, column=name)
    return thousands if style.decimal == "." else f"{decimal} and {thousands}"
