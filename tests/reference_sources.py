"""Counting written down plainly from the rules: one row at a time, Python's own values, nothing of crosstally."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal
from itertools import product

PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
ANY_NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})? *")
MASK = 2**64 - 1


class Refused(Exception):
    """A value that the schema refuses; holds the attribute's name."""


def is_missing(value):
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def text_of(value):
    """The text by which a value is matched; None when missing."""
    if is_missing(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return text_of(Decimal(repr(value)))
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return "0" if digits == "-0" else digits
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if PLAIN_NUMBER.fullmatch(value):
        return text_of(Decimal(value))
    if value in ("True", "False"):
        return value.lower()
    return unicodedata.normalize("NFC", value)


def number_of(value):
    """The number a value stands for; None when it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return Decimal(repr(value)) if abs(value) < float("inf") else None
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    if isinstance(value, str) and ANY_NUMBER.fullmatch(value):
        return Decimal(value.strip())
    return None


def cell_of(attribute, value):
    """The cell of a value in an attribute given as JSON; None when its row is dropped."""
    outside, missing = attribute.get("outside", "refuse"), attribute.get("missing", False)
    if "values" in attribute:
        labels = [text_of(label) for label in attribute["values"]]
        found = labels.index(text_of(value)) if text_of(value) in labels else None
        size = len(labels)
    else:
        edges = [Decimal(repr(edge)) for edge in attribute["edges"]]
        size, found, number = len(edges) - 1, None, number_of(value)
        for i in range(size):
            if number is not None and edges[i] <= number and (number < edges[i + 1] or number == edges[size]):
                found = i
    if is_missing(value) and missing:
        return size + (outside == "other")
    if found is not None:
        return found
    if outside == "refuse":
        raise Refused(attribute["name"])
    return size if outside == "other" else None


def size_of(attribute):
    labels = len(attribute["values"]) if "values" in attribute else len(attribute["edges"]) - 1
    return labels + (attribute.get("outside") == "other") + attribute.get("missing", False)


def hash_of(cells):
    """The 64-bit hash by which rows of a unit are ordered."""
    value = 0x9E3779B97F4A7C15
    for cell in cells:
        value = ((value ^ cell) * 0xBF58476D1CE4E5B9) & MASK
        value ^= value >> 29
    value = (value * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 32)


PARTS = 720_720


def counted_rows(rows, schema):
    """The cells of every row that counts, and how much it counts; rows are dicts, the schema is JSON.

    A unit that is divided has 720,720 parts, of which each of its rows counts as many, and so many as there are.
    """
    unit = schema.get("unit")
    kept, by_unit = [], defaultdict(list)
    for row in rows:
        cells = tuple(cell_of(attribute, row[attribute["name"]]) for attribute in schema["attributes"])
        if None in cells:
            continue
        if unit is None:
            kept.append((cells, 1))
        elif not is_missing(row[unit["id"]]):
            by_unit[text_of(row[unit["id"]])].append(cells)
    for theirs in by_unit.values():
        if unit.get("divided"):
            kept += [(cells, PARTS // len(theirs)) for cells in theirs]
        else:
            least = sorted(theirs, key=lambda cells: (hash_of(cells), cells))
            kept += [(cells, 1) for cells in least[: unit["max_rows"]]]
    return kept


def count(rows, schema, tables):
    """For each table its counts as a nested list, a number for the table over no attributes."""
    names = [attribute["name"] for attribute in schema["attributes"]]
    kept = counted_rows(rows, schema)
    answers = []
    for table in tables:
        places = [names.index(name) for name in table]
        tally = defaultdict(int)
        for cells, weight in kept:
            tally[tuple(cells[place] for place in places)] += weight
        sizes = [size_of(schema["attributes"][place]) for place in places]
        answers.append(_nested(tally, sizes))
    return answers


def _nested(tally, sizes):
    flat = [tally[cell] for cell in product(*map(range, sizes))]
    for size in reversed(sizes):
        flat = [flat[i : i + size] for i in range(0, len(flat), size)]
    return flat[0]
