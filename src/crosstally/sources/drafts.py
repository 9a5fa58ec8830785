"""A first schema from data, for the steward to review: it is not public until that is done.

Each column is read batch by batch into a summary, from which an attribute is proposed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.errors import SchemaError, SourceError
from crosstally.schema import (
    MAX_ATTRIBUTES,
    MISSING,
    OTHER,
    About,
    Attribute,
    ColumnReading,
    Outside,
    RowReading,
    Schema,
    Unit,
)
from crosstally.sources.codes.arrays import is_readable, rows_of_each
from crosstally.sources.codes.encode import Encoder, canonical_texts
from crosstally.sources.codes.values import number_of
from crosstally.sources.drafting.edges import (
    AGE_EDGES,
    AGE_NAMES,
    Dates,
    bin_names,
    edges_from_rows,
    is_crowded,
    round_edges,
)
from crosstally.sources.drafting.words import (
    grouped,
    in_order,
    missing_tokens,
    names_age,
    names_code,
    names_id,
    names_weight,
)
from crosstally.sources.inspection import BOUNDS, BoundLoss, losses_of_bounds
from crosstally.sources.kinds import source_of
from crosstally.sources.reading_options import NO_OPTIONS, Reading
from crosstally.sources.source import ANY_UNIT, Scan

# Whole numbers that are codes: of a classification, or for what is missing.


_FAR_APART = 5  # times as many numbers between the first and the last as occur
_RUNS = 0.2
"""The share of numbers whose successor occurs too. Numbers scattered over five times their number have 0.2 at most, if
they are amounts; classifications are numbered in runs. Seen: 0.25 to 0.34 for the drugs of a register of accidents,
0.00 to 0.04 for amounts of money."""
MOST_CODES = 5
"""At most this many numbers may stand for reasons why a value is missing."""
_GAP = 5  # codes such as 96 to 99 stand apart from all numbers by more than this. Less takes a long tail for codes
_NINES = re.compile(r"9+[0-9]?")
_BELOW_ZERO = re.compile(r"-(1|([7-9])\2*)")  # surveys' codes for missing values: -1, -7, -8, -9, -99, -888


def are_codes(numbers: Sequence[int]) -> bool:
    """Whether different numbers, in order, look like a classification: far apart as a whole, and in runs.

    The last ones may stand apart, as codes for missing values do among ages, and do not count.

    >>> are_codes([0, 1, 100, 101, 102, 200, 201, 300, 301, 999]), are_codes([0, 155, 213, 323, 1902, 1977])
    (True, False)
    """
    numbers = numbers[: len(numbers) - len(standing_apart(numbers))]
    if len(numbers) < 2 or numbers[-1] - numbers[0] <= _FAR_APART * len(numbers):
        return False
    return sum(b - a == 1 for a, b in pairwise(numbers)) > _RUNS * (len(numbers) - 1)


def standing_apart(numbers: Sequence[int]) -> tuple[int, ...]:
    """The last few of different numbers, in order, if a gap parts them from all others and all begin with nines.

    >>> standing_apart([*range(61), 96, 97, 99]), standing_apart(range(100)), standing_apart([0, 114, 41310, 99999])
    ((96, 97, 99), (), (99999,))
    """
    for place in range(max(1, len(numbers) - MOST_CODES), len(numbers)):
        last = tuple(numbers[place:])
        if last[0] - numbers[place - 1] > _GAP and all(_NINES.fullmatch(str(number)) for number in last):
            return last
    return ()


def below_zero(numbers: Collection[str]) -> tuple[str, ...]:
    """All numbers below zero of a column, as codes for missing values, if they are few and each is written like one.

    >>> below_zero({"-99", "-9"}), below_zero({"-99", "-98.5"}), below_zero({"-3"})
    (('-9', '-99'), (), ())
    """
    if len(numbers) > MOST_CODES or not all(map(_BELOW_ZERO.fullmatch, numbers)):
        return ()
    return tuple(sorted(numbers, key=int, reverse=True))


# A column of ids that come again: the unit of protection it suggests, and how many rows units have.


_LADDER = (*BOUNDS, 50, 100, 200, 500, 1000)  # round bounds that are suggested
_MOST_OF_ONE = 1_000  # rows of an id on average: values of more are kinds of people, whatever their column is called
_PANEL = 20  # rows of an id at most, if few ids in many rows are those of people seen again, not of places


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RowsOfUnits:
    """Confidential: how many rows each unit has, in order."""

    each: NDArray[np.int64]

    @property
    def median(self) -> int:
        """The rows of a unit in the middle."""
        return int(self.each[len(self.each) // 2])

    @property
    def most(self) -> int:
        """The most rows of a unit."""
        return int(self.each[-1])

    @property
    def is_panel(self) -> bool:
        """Whether units are seen equally often, or all of them a few times."""
        return self.most <= _PANEL or self.most == int(self.each[0])

    def bound(self, sizes: Sequence[int]) -> BoundLoss:
        """The round bound with the least error of a typical cell at epsilon 1, if attributes have these sizes.

        Rows left out take their share of the cells of a pair of attributes of median size; noise is that of one-way
        tables which share epsilon 1, sqrt(2) times bound times attributes.
        """
        cells, deviation = float(np.median(sizes)) ** min(2, len(sizes)), math.sqrt(2) * len(sizes)
        losses = losses_of_bounds(self.each, [min(bound, self.most) for bound in _LADDER])
        return min(losses, key=lambda each: each.lost / cells + deviation * each.max_rows)


_FEW_NUMBERS = 20
"""Up to this many different numbers are labels, as codes, grades and rooms are."""
# Words that a column of numbers may hold, such as n/a; the same in ``detection``. With more it is one of words.
_MOST_WORDS = 5
# Limits memory: different values that are counted. A column with more is no attribute, but a name or an id.
_MOST_TRACKED = 10_000
_TOO_LARGE = Decimal(10) ** 290  # beyond it a schema takes no edges
_SAMPLE = 4_096  # rows of a batch whose numbers are kept, for the shape of their distribution
_MOST_SAMPLED = 1_000_000  # limits memory: 8 MB of numbers. Beyond it later rows do not shape the bins
_LEADING_ZERO = re.compile(r"0[0-9]+")

WEIGHT = "it looks like the weights of a survey: tables count records, not the population"


@dataclass(frozen=True, slots=True, repr=False)
class DraftedColumn:
    """Confidential: an attribute, how its column is read, the rows of each of its labels, and words for the steward.

    ``frequencies`` is empty where there were too many different values to count each.
    """

    attribute: Attribute
    reading: ColumnReading | None
    _: KW_ONLY
    frequencies: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        return f"DraftedColumn({self.attribute.name!r})"  # these values never reach a log

    def rare(self, fewest: int = 10) -> tuple[tuple[str, int], ...]:
        """The labels of fewer rows than this: so few people that a label may reveal one of them."""
        return tuple((label, rows) for label, rows in self.frequencies if 0 < rows < fewest)


class Column:
    """The summary of a column so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._times: Counter[str] = Counter()
        self._words: set[str] = set()
        self._negative: set[str] = set()
        self._ends: tuple[Decimal, Decimal] | None = None
        self._least: Decimal | None = None  # from zero on
        self._sample: list[float] = []
        self._dates = Dates()
        self._ids: list[pa.Array] = []
        self._rows = 0
        self._missing = self._too_many = False
        self._whole = True
        self._kind = ""

    def add(self, place: str, values: pa.Array) -> None:
        """Add a batch; an error says the place of the column, since its name may be a person's."""
        if not is_readable(values.type):
            self._kind = str(values.type).split("<")[0]
            return
        texts = canonical_texts(place, values)
        self._missing |= texts.null_count > 0
        known = pc.drop_null(texts)
        self._rows += len(known)
        counted = known.value_counts()
        distinct = counted.field("values").to_pylist()
        self._dates.add([text for text in distinct if not missing_tokens([text])] if self._dates.possible else [])
        self._add_numbers(distinct, known)
        if names_id(self._name):
            self._ids.append(known)
        if not self._too_many:
            self._times.update(dict(zip(distinct, counted.field("counts").to_pylist(), strict=True)))
            self._too_many = len(self._times) > _MOST_TRACKED

    def _add_numbers(self, values: Sequence[str], texts: pa.Array) -> None:
        if len(self._words) > _MOST_WORDS + len(missing_tokens(self._words)):
            return
        numbers = [number_of(text) for text in values]
        known = [number for number in numbers if number is not None and abs(number) < _TOO_LARGE]
        words = (text for text, n in zip(values, numbers, strict=True) if n is None or abs(n) >= _TOO_LARGE)
        self._words.update(islice(words, 2 * _MOST_WORDS))
        negative = (text for text, n in zip(values, numbers, strict=True) if n is not None and n < 0)
        self._negative.update(islice(negative, MOST_CODES + 1))
        if not known:
            return
        low, high = self._ends or (known[0], known[0])
        self._ends = min(low, *known), max(high, *known)
        least = min((number for number in known if number >= 0), default=None)
        self._least = self._least if least is None else least if self._least is None else min(least, self._least)
        self._whole &= all(number == number.to_integral_value() for number in known)
        if len(self._sample) < _MOST_SAMPLED:
            step = max(1, len(texts) // _SAMPLE)
            some = (number_of(text) for text in texts.take(pa.array(range(0, len(texts), step))).to_pylist())
            self._sample += [float(n) for n in some if n is not None and abs(n) < _TOO_LARGE]

    # What it may be

    @property
    def _tokens(self) -> tuple[str, ...]:
        return missing_tokens(self._times.keys() | self._words)

    @property
    def _known(self) -> Counter[str]:
        tokens = set(self._tokens)
        return Counter({text: rows for text, rows in self._times.items() if text not in tokens})

    @property
    def _other_words(self) -> set[str]:
        return self._words - set(self._tokens)

    @property
    def _is_numeric(self) -> bool:
        """Whether all values are numbers, except a few words that stand for something else."""
        few = len(self._other_words) <= _MOST_WORDS and len(self._known) - len(self._other_words) > _FEW_NUMBERS
        return self._ends is not None and (few or not self._other_words)

    @property
    def _is_code(self) -> bool:
        """Whether numbers are codes without a size, by the name, by leading zeros, or because they come in runs."""
        if names_code(self._name) or any(map(_LEADING_ZERO.fullmatch, self._known)):
            return True
        return self._whole and not self._too_many and are_codes(self._numbers)

    @property
    def _numbers(self) -> list[int]:
        """The whole numbers among the values."""
        numbers = (number_of(text) for text in self._known)
        return sorted({int(n) for n in numbers if n is not None and abs(n) < _TOO_LARGE and n == int(n)})

    @property
    def _is_measure(self) -> bool:
        return self._is_numeric and len(self._known) > _FEW_NUMBERS and not self._is_code

    @property
    def is_weight(self) -> bool:
        """Whether the column holds the weights of a survey."""
        return self._is_measure and names_weight(self._name)

    def units(self, max_values: int) -> RowsOfUnits | None:
        """How many rows units have, if the column's values are ids that come again; None otherwise."""
        distinct, rows = len(self._times), RowsOfUnits(np.sort(rows_of_each(self._ids)))
        few = distinct <= max_values and 4 * distinct < self._rows
        if distinct <= _FEW_NUMBERS or not len(rows.each) or (few and not rows.is_panel):
            return None
        return rows if rows.most > 1 else None

    @property
    def comes_again(self) -> bool:
        """Whether a value may be in several rows."""
        return self._too_many or self._times.total() > len(self._times)

    @property
    def may_be_ids(self) -> bool:
        """Whether values are not of many rows each, as those of a kind of person are."""
        return self._too_many or _MOST_OF_ONE * len(self._times) >= self._rows

    def reason_to_leave_out(self, max_values: int) -> str | None:
        """Why the column cannot be an attribute; None when it can. No reason holds a value."""
        max_values = min(max_values, _MOST_TRACKED)  # beyond it not all are known, and a schema's error would name them
        distinct = len(self._known)
        if self._kind:
            return f"its type is {self._kind}"
        if not self._name:
            return "it has no name"
        if not distinct:
            return "it has no values"
        if distinct + (self._missing or bool(self._tokens)) < 2:
            return "it has a single value"
        if self._times.keys() & {OTHER, MISSING}:
            return f"it holds {OTHER} or {MISSING}, which are reserved"
        if self.is_weight:
            return WEIGHT
        if len(self._dates.formats) > 1:
            return "its dates can be read in two ways: say which in the schema's reading"
        if self._dates.formats:
            return None
        if self._is_measure:
            return None if self.comes_again or not self._whole else "every row has a different number, like an id"
        if self._too_many:
            return f"it has more than {_MOST_TRACKED:,} different values, like a name or an id"
        labels = len(grouped(self._known)[0])
        if labels > _FEW_NUMBERS and 2 * labels > self._rows:
            return "most of its values occur in one row, like a name or an id"
        if labels > max_values:
            return f"it has more than {max_values} different values: group them, or raise --max-values"
        return None

    def drafted(self) -> DraftedColumn:
        """The column as an attribute."""
        missing, tokens = self._missing or bool(self._tokens), self._tokens
        rule, remarks = ColumnReading(missing=tokens), []
        dates = self._dates.column()
        if dates is not None:
            reading, values, edges = dates
            named = bin_names(edges) if edges else ()
            attribute = Attribute(self._name, values, edges=edges, bins=named, missing=missing)
            rule = ColumnReading(missing=tokens, date=reading)
            remarks.append(f"dates are counted by {reading.into}")
        elif self._is_measure:
            codes = (*self._codes_below_zero, *self._codes_of_missing_ages)
            tokens += codes
            rule = ColumnReading(missing=tokens)
            attribute, remarks = self._binned(missing=missing or bool(codes))
        else:
            labels, groups = grouped(self._known)
            attribute = Attribute(self._name, in_order(labels), missing=missing)
            rule = ColumnReading(missing=tokens, groups=groups)
            if groups:
                remarks.append("spellings that differ in case or blanks are one label")
        if tokens:
            remarks.append(f"counted as missing: {', '.join(token.strip() or 'blanks' for token in tokens)}")
        own = rule if rule.to_dict() else None
        return DraftedColumn(attribute, own, frequencies=self._frequencies(attribute, own), remarks=tuple(remarks))

    @property
    def _codes_below_zero(self) -> tuple[str, ...]:
        """Numbers such as -99, where all others are zero or more."""
        return () if self._least is None else below_zero(self._negative)

    @property
    def _codes_of_missing_ages(self) -> tuple[str, ...]:
        """Numbers such as 999 that stand apart, where all others are ages."""
        if not names_age(self._name) or not self._whole or self._too_many:
            return ()
        numbers = [number for number in self._numbers if str(number) not in self._codes_below_zero]
        apart = standing_apart(numbers)
        others_are_ages = numbers[0] >= 0 and numbers[-1 - len(apart)] <= AGE_EDGES[-1] < numbers[-1]
        return tuple(map(str, apart)) if others_are_ages else ()

    def _binned(self, *, missing: bool) -> tuple[Attribute, list[str]]:
        """Bins for the numbers; codes for missing values are ignored."""
        assert self._ends is not None
        (low, high), whole = self._ends, self._whole
        if self._codes_below_zero and self._least is not None:
            low = self._least
        outside = Outside.OTHER if self._other_words else Outside.REFUSE
        if names_age(self._name) and whole and low >= 0 and (self._codes_of_missing_ages or high <= AGE_EDGES[-1]):
            years = Attribute(
                self._name, edges=AGE_EDGES, bins=AGE_NAMES, missing=missing, outside=outside, measured_in="years"
            )
            return years, []
        edges, sample, remarks = round_edges(low, high), np.array([n for n in self._sample if n >= low]), []
        crowded = is_crowded(edges, sample)
        if crowded:
            edges = edges_from_rows(low, high, sample, whole=whole)
            remarks.append('edges follow the quantiles of the data, which epsilon does not cover ("from": "data")')
        else:
            remarks.append("bins cover what occurs: give them the range that is publicly known")
        apart = standing_apart(self._numbers) if whole and not self._too_many else ()
        if apart:
            numbers = ", ".join(map(str, apart))
            remarks.append(f"standing apart: {numbers}; if they mean that a value is missing, list them in the reading")
        named = bin_names(edges) if whole and all(isinstance(edge, int) for edge in edges) else ()
        return Attribute(
            self._name, edges=edges, bins=named, missing=missing, outside=outside, from_data=crowded
        ), remarks

    def _frequencies(self, attribute: Attribute, reading: ColumnReading | None) -> tuple[tuple[str, int], ...]:
        if self._too_many:
            return ()
        columns = {} if reading is None else {attribute.name: reading}
        encoder = Encoder.of(attribute, rule=RowReading(columns=columns).rule(attribute.name, attribute))
        times = dict.fromkeys(attribute.labels, 0)
        for text, rows in self._times.items():
            cell = encoder.cell(encoder.raw_scalar(text))
            if cell is not None:
                times[attribute.labels[cell]] += rows
        return tuple((label, rows) for label, rows in times.items() if label != MISSING)


@dataclass(frozen=True, slots=True, repr=False)
class Draft:
    """A draft schema, the columns behind it, and the columns left out of it, each with the reason.

    Confidential: labels and frequencies come from the data. ``units`` are the rows of the units that are suggested;
    without one ``ids`` are the columns named like an id, and whether their values come again.
    """

    schema: Schema
    left_out: tuple[tuple[str, str], ...]
    _: KW_ONLY
    columns: tuple[DraftedColumn, ...] = ()
    units: RowsOfUnits | None = None
    ids: Mapping[str, bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Draft({len(self.schema.attributes)} attributes, {len(self.left_out)} left out)"


def draft(rows: Any, *, max_values: int = 100, reading: Reading = NO_OPTIONS) -> Draft:
    """A schema that fits the data, marked as a draft, for the steward to review.

    Columns with at most ``max_values`` different values become labels, in their order if they have one; numbers with
    more than a few become bins with round edges, dates become years, quarters or months. Spellings that differ in case
    or blanks become one label, a column of ids that come again becomes the unit, and the weights of a survey are left
    out. Labels, edges and bounds are taken from confidential data: before anything is released the steward replaces
    them by what is publicly known.
    """
    columns: dict[str, Column] = {}
    for batch in source_of(rows).batches(Scan(None, reading, ANY_UNIT)):
        for place, (name, values) in enumerate(zip(batch.schema.names, batch.columns, strict=True), 1):
            # An error gives the column's position: its name may be a person's, where a file has no header.
            columns.setdefault(name, Column(name)).add(f"number {place}", values)
    chosen, units, left_out = _unit(columns, max_values)
    drafted: list[DraftedColumn] = []
    for name, column in columns.items():
        if name in left_out:
            continue
        reason = column.reason_to_leave_out(max_values)
        if reason is None and len(drafted) >= MAX_ATTRIBUTES:
            reason = f"a schema has at most {MAX_ATTRIBUTES} attributes"
        if reason is None:
            try:
                drafted.append(column.drafted())
            except SchemaError:  # its message may hold values; one column must not end the draft of all others
                reason = "its values fall into a single cell, or into cells that no schema may have"
        left_out |= {} if reason is None else {name: reason}
    if not drafted:
        raise SourceError("no column can be an attribute: each has a single value, too many texts, or no rows at all")
    attributes = [each.attribute for each in drafted]
    bound = None if units is None else units.bound([each.size for each in attributes]).max_rows
    schema = Schema(
        attributes,
        None if bound is None else Unit(chosen, bound, from_data=True),
        draft=True,
        about=About(counts="records") if any(column.is_weight for column in columns.values()) else None,
        reading=_reading({each.attribute.name: each.reading for each in drafted}, reading),
    )
    reasons = tuple((name, left_out[name]) for name in columns if name in left_out)
    may_be = {name: column for name, column in columns.items() if units is None and names_id(name)}
    ids = {name: column.comes_again for name, column in may_be.items() if column.may_be_ids}
    return Draft(schema, reasons, columns=tuple(drafted), units=units, ids=ids)


def _unit(columns: dict[str, Column], max_values: int) -> tuple[str, RowsOfUnits | None, dict[str, str]]:
    """The column with most ids that come again, for the unit; all such columns are left out of the attributes."""
    found = {name: units for name, column in columns.items() if (units := column.units(max_values)) is not None}
    if not found:
        return "", None, {}
    chosen = max(found, key=lambda name: len(found[name].each))
    left_out = dict.fromkeys(found, "its ids come again, as those of the unit do; the unit may be this one instead")
    left_out[chosen] = "it is the id of the unit: one person, or whoever it is, has several rows"
    return chosen, found[chosen], left_out


def _reading(columns: dict[str, ColumnReading | None], written: Reading) -> RowReading | None:
    """The draft's reading with the options the source was read with, so that it is always read in the same way."""
    own, options = {name: each for name, each in columns.items() if each is not None}, written.to_dict()
    return RowReading(file=options, columns=own) if own or options else None
