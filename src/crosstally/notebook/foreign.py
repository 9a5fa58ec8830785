"""Answers of other mechanisms and public numbers: used beside what a ledger paid for, and never charged to it.

They are noisy in their own way and protected, or not, by somebody else's promise. So each says where it comes from, and
whatever rests on them names that: the ledger's budget does not cover them. They stay in a file of their own, since a
ledger holds what was spent and nothing else.

Tables that OpenDP or mbi measured, as foreign answers of a notebook.

OpenDP's ``ContingencyTable`` holds its measurements in the form of mbi: the noisy table as a vector, the names of its
attributes, the standard deviation of its noise, and the query. Neither package is imported: whatever has these members
will do.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosstally.checks import is_number, several
from crosstally.errors import CrosstallyError, QueryError
from crosstally.measurements import Measurement
from crosstally.notebook.history.correlated import Correlated
from crosstally.query.queries import Cells, Product, Query
from crosstally.query.question import query_of
from crosstally.schema import Schema
from crosstally.typing import Floats

FIELDS = ("question", "value", "variance", "origin")
"""The columns of a file of foreign answers, in any order."""

_MOST_ANSWERS = 100_000  # limits memory: a file of more is refused before it is read to its end
_MOST_ORIGIN = 200  # characters: it is printed beside answers
# A guard of time: errors that answers share are columns of a matrix that is factored at each step, cubic in them.
_MOST_CORRELATED = 1_000
_SYMMETRIC = 1e-9  # the part by which two entries of a covariance may differ: texts of numbers are rounded
# The least eigenvalue of a correlation matrix: below it some sum of the answers would have no noise but rounding.
_LEAST_EIGENVALUE = 1e-9


def foreign_answers(questions: Any, values: Any, *, covariance: Any, origin: Any, schema: Schema) -> Correlated:
    """Answers that no ledger paid for, whose noise is correlated, checked; an origin for each, or one for all."""
    if isinstance(questions, str) or not isinstance(questions, Sequence):
        raise QueryError("a covariance goes with a list of questions, added together with a list of their values")
    if not isinstance(values, Sequence | np.ndarray) or len(values) != len(questions):
        raise QueryError("there must be a value for each of the questions that are added together")
    matrix = _covariance(covariance, len(questions))
    origins = [origin] * len(questions) if isinstance(origin, str) else origin
    if any(map(_is_table, questions)):
        raise QueryError("a covariance goes with questions, and a table has many numbers: ask for each cell")
    found = [
        foreign_answer(question, value, variance=float(variance), origin=where, schema=schema)
        for question, value, variance, where in zip(questions, values, np.diag(matrix), origins, strict=True)
    ]
    return Correlated(tuple(found), matrix)


def _covariance(given: Any, number: int) -> Floats:
    try:
        matrix = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise QueryError("the covariance of foreign answers must be a matrix of numbers") from None
    if not 0 < number <= _MOST_CORRELATED:
        raise QueryError(f"a covariance must be over 1 to {_MOST_CORRELATED:,} answers, got {number:,}")
    if matrix.shape != (number, number) or not np.isfinite(matrix).all():
        raise QueryError(f"the covariance of {number} answers must be {number} x {number} finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=_SYMMETRIC, atol=0.0):
        raise QueryError("the covariance of foreign answers must be symmetric")
    matrix = (matrix + matrix.T) / 2
    roots = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if roots.min() <= 0 or np.linalg.eigvalsh(matrix / roots / roots[:, None])[0] < _LEAST_EIGENVALUE:
        raise QueryError("the covariance of foreign answers must be positive definite")
    return matrix


def foreign_answer(asked: Any, value: Any, *, variance: float, origin: str, schema: Schema) -> Measurement:
    """An answer that no ledger paid for, checked."""
    query: Query = asked if _is_table(asked) else query_of(asked, schema)
    if query.groups:
        raise QueryError("a foreign table must be about values, not about groups of them")
    try:
        values = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise QueryError("the value of a foreign answer must be a number, or a table of numbers") from None
    if values.shape != query.shape(schema) or not np.isfinite(values).all():
        wanted = " x ".join(map(str, query.shape(schema))) or "one number"
        raise QueryError(f"the value of this foreign answer must be finite and {wanted}, got shape {values.shape}")
    if not is_number(variance) or not 0 < variance < math.inf:
        raise QueryError(f"the variance of a foreign answer must be a positive number, got {variance!r}")
    if not isinstance(origin, str) or not origin.strip() or len(origin) > _MOST_ORIGIN or not origin.isprintable():
        raise QueryError(
            f"the origin of a foreign answer must say in up to {_MOST_ORIGIN} characters where it comes from"
        )
    return Measurement(query, values, variance=float(variance), noise=None, origin=origin.strip())


def _is_table(asked: Any) -> bool:
    return isinstance(asked, Product) and asked.is_table


def read_foreign(path: str | Path, schema: Schema) -> tuple[Measurement, ...]:
    """Foreign answers from a CSV file with the columns ``FIELDS``."""
    found = []
    for where, line in _lines(path, FIELDS):
        value, variance = _number(line, "value", where), _number(line, "variance", where)
        try:
            found.append(
                foreign_answer(line["question"], value, variance=variance, origin=line["origin"], schema=schema)
            )
        except CrosstallyError as error:
            raise QueryError(f"{where}: {error}") from None
    return tuple(found)


def read_correlated(path: str | Path, covariance: Any, schema: Schema) -> Correlated:
    """Foreign answers from a CSV file with the columns ``FIELDS`` but for the variance, and their covariance.

    The covariance is a matrix, or the path of a CSV file of numbers alone, a line for each answer.
    """
    if isinstance(covariance, str | Path):
        covariance = _read_matrix(covariance)
    lines = list(_lines(path, tuple(field for field in FIELDS if field != "variance")))
    values = [_number(line, "value", where) for where, line in lines]
    questions, origins = ([line[field] for _, line in lines] for field in ("question", "origin"))
    try:
        return foreign_answers(questions, values, covariance=covariance, origin=origins, schema=schema)
    except CrosstallyError as error:
        raise QueryError(f"{str(path)!r}: {error}") from None


def _read_matrix(path: str | Path) -> list[list[float]]:
    """The numbers of a CSV file without names of columns."""
    name = repr(str(path))
    out: list[list[float]] = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for line in reader:
                if len(out) == _MOST_CORRELATED or len(line) > _MOST_CORRELATED:
                    raise QueryError(f"{name} must hold the covariance of at most {_MOST_CORRELATED:,} answers")
                try:
                    out.append([float(text) for text in line])
                except ValueError:
                    raise QueryError(f"{name}, line {reader.line_num}: a covariance must be numbers alone") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _not_readable(name, error) from None
    return out


def _not_readable(name: str, error: OSError | UnicodeDecodeError | csv.Error) -> QueryError:
    if isinstance(error, OSError):
        return QueryError(f"cannot read {name}: {(error.strerror or 'unknown reason').lower()}")
    return QueryError(f"{name} must be a CSV file in UTF-8")


def _lines(path: str | Path, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The lines of a CSV file with these columns, in any order, and where each stands."""
    name = repr(str(path))
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if sorted(reader.fieldnames or ()) != sorted(fields):
                raise QueryError(f"{name} must have the columns {', '.join(fields)}, separated by commas")
            for number, line in enumerate(reader):
                where = f"{name}, line {reader.line_num}"
                if number == _MOST_ANSWERS:
                    raise QueryError(f"{name} must hold at most {_MOST_ANSWERS:,} answers")
                if None in line or None in line.values():
                    raise QueryError(
                        f"{where}: there must be {len(fields)} fields; questions with commas stand in quotes"
                    )
                yield where, line
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _not_readable(name, error) from None


def _number(line: dict[str, str], field: str, where: str) -> float:
    try:
        return float(line[field])
    except ValueError:
        raise QueryError(f"{where}: {field} must be a number") from None


def origins_of(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Where some answers come from, each once."""
    return tuple(dict.fromkeys(each.origin for each in measurements))


_WHOLE_TABLES = ("datavector", "DatavectorQuery")  # how mbi 1 and mbi 2 call the query for all cells of a table


def foreign_tables(given: Any, schema: Schema, origin: str) -> tuple[Measurement, ...]:
    """The tables of OpenDP's contingency table, or some measurements of mbi, checked; cells in the schema's order."""
    _check_labels(getattr(given, "keys", None), schema)
    marginals = getattr(given, "marginals", given)
    measured: Iterable[Any] = marginals.flatten() if hasattr(marginals, "flatten") else marginals
    return tuple(_table(each, schema, origin) for each in several(measured, "tables"))


def _check_labels(keys: Any, schema: Schema) -> None:
    """Raise where OpenDP has other values than the schema, or the same ones in another order."""
    for name, values in keys.items() if isinstance(keys, Mapping) else ():
        labels, found = schema[name].labels, [str(value) for value in values]
        if len(found) != len(labels) or (sorted(found) == sorted(labels) and found != list(labels)):
            raise QueryError(
                f"the values of {name!r} must be those of the schema, in its order: {', '.join(labels[:6])}; "
                f"got {len(found)} of {len(labels)} values, or another order"
            )


def _table(measured: Any, schema: Schema, origin: str) -> Measurement:
    if not hasattr(measured, "query"):
        raise QueryError(f"tables must be those of OpenDP's ContingencyTable or of mbi, got {type(measured).__name__}")
    query = measured.query
    if getattr(query, "__name__", type(query).__name__) not in _WHOLE_TABLES:
        raise QueryError(f"only whole tables can be taken over, {', '.join(measured.clique)} was measured in part")
    names = tuple(measured.clique)
    values = np.asarray(measured.noisy_measurement, np.float64)
    sizes = schema.sizes(names)
    if values.size != math.prod(sizes):
        raise QueryError(f"the table of {' x '.join(names)} must have {math.prod(sizes):,} cells, got {values.size:,}")
    ordered = schema.ordered(names)
    table = values.reshape(sizes).transpose([names.index(name) for name in ordered])
    return foreign_answer(Cells(ordered), table, variance=float(measured.stddev) ** 2, origin=origin, schema=schema)
