"""Answers of other mechanisms and public numbers: used beside what a ledger paid for, and never charged to it.

They are noisy in their own way and protected, or not, by somebody else's promise. So each says where it comes from, and
whatever rests on them names that: the ledger's budget does not cover them. They stay in a file of their own, since a
ledger holds what was spent and nothing else.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosstally.errors import CrosstallyError, QueryError
from crosstally.questions.queries import Cells, Linear
from crosstally.questions.question import query_of
from crosstally.schema import Schema
from crosstally.tables import Measurement

__all__ = ["FIELDS", "foreign_answer", "origins_of", "read_foreign"]

FIELDS = ("question", "value", "variance", "origin")
"""The columns of a file of foreign answers, in any order."""

_MOST_ANSWERS = 100_000  # limits memory: a file of more is refused before it is read to its end
_MOST_ORIGIN = 200  # characters: it is printed beside answers


def foreign_answer(asked: Any, value: Any, *, variance: float, origin: str, schema: Schema) -> Measurement:
    """An answer that no ledger paid for, checked."""
    query: Cells | Linear = asked if isinstance(asked, Cells) else query_of(asked, schema)
    if isinstance(query, Cells) and query.groups:
        raise QueryError("a foreign table must be about values, not about groups of them")
    try:
        values = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise QueryError("the value of a foreign answer must be a number, or a table of numbers") from None
    if values.shape != query.shape(schema) or not np.isfinite(values).all():
        wanted = " x ".join(map(str, query.shape(schema))) or "one number"
        raise QueryError(f"the value of this foreign answer must be finite and {wanted}, got shape {values.shape}")
    if isinstance(variance, bool) or not isinstance(variance, int | float) or not 0 < variance < math.inf:
        raise QueryError(f"the variance of a foreign answer must be a positive number, got {variance!r}")
    if not isinstance(origin, str) or not origin.strip() or len(origin) > _MOST_ORIGIN or not origin.isprintable():
        raise QueryError(
            f"the origin of a foreign answer must say in up to {_MOST_ORIGIN} characters where it comes from"
        )
    return Measurement(query, values, variance=float(variance), noise=None, origin=origin.strip())


def read_foreign(path: str | Path, schema: Schema) -> tuple[Measurement, ...]:
    """Foreign answers from a CSV file with the columns ``FIELDS``."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if sorted(reader.fieldnames or ()) != sorted(FIELDS):
                raise QueryError(f"{str(path)!r} must have the columns {', '.join(FIELDS)}, separated by commas")
            found: list[Measurement] = []
            for line in reader:
                if len(found) == _MOST_ANSWERS:
                    raise QueryError(f"{str(path)!r} must hold at most {_MOST_ANSWERS:,} answers")
                found.append(_read_line(line, f"{str(path)!r}, line {reader.line_num}", schema))
    except OSError as error:
        raise QueryError(f"cannot read {str(path)!r}: {(error.strerror or 'unknown reason').lower()}") from None
    except (UnicodeDecodeError, csv.Error):
        raise QueryError(f"{str(path)!r} must be a CSV file in UTF-8") from None
    return tuple(found)


def _read_line(line: dict[str | None, Any], where: str, schema: Schema) -> Measurement:
    if None in line or None in line.values():
        raise QueryError(f"{where}: there must be {len(FIELDS)} fields; questions with commas stand in quotes")
    try:
        value, variance = (float(line[field]) for field in ("value", "variance"))
    except ValueError:
        raise QueryError(f"{where}: value and variance must be numbers") from None
    try:
        return foreign_answer(line["question"], value, variance=variance, origin=line["origin"], schema=schema)
    except CrosstallyError as error:
        raise QueryError(f"{where}: {error}") from None


def origins_of(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Where some answers come from, each once."""
    return tuple(dict.fromkeys(each.origin for each in measurements))
