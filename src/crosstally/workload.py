"""The tables that matter, and how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, compress
from typing import Any

import numpy as np

from crosstally.errors import TooManyCellsError, WorkloadError, did_you_mean
from crosstally.query.queries import MAX_CELLS, too_many_cells
from crosstally.schema import Schema

MAX_TABLES = 2_000_000  # limits memory: all triples of 229 attributes. More are refused

_SHOWN = 12  # tables at the prompt
_FIELDS = ("tables", "weights", "along")
_KINDS = ("ranges", "prefixes")
_MAX_ENTRIES = 2**20  # of rows asked along an attribute: a row for each query, 8 MB
_MAX_ENTRY = 2**20  # in size: with up to 2^31 rows, sums stay far within int64

Rows = tuple[tuple[int, ...], ...]
Along = tuple[tuple[str, str | Rows], ...]
"""For some attributes, sorted by name, what is asked along them in place of cells: ranges, prefixes, or rows of a
matrix. A table over several attributes asks all products."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Tables, each a tuple of attribute names, and a weight for each: a higher weight asks for more accuracy.

    ``along`` says for which attributes ranges, prefixes or rows of a matrix are asked instead of single values.

    >>> Workload([("sex",), ("sex", "age")], weights=[1, 2]).to_dict()
    {'tables': [['sex'], ['sex', 'age']], 'weights': [1.0, 2.0]}
    """

    tables: tuple[tuple[str, ...], ...]
    weights: tuple[float, ...] = ()
    along: Along = ()
    _fits: Schema | None = field(default=None, init=False, compare=False)
    """The schema that it was last seen to fit: a million tables are not checked again by each part of planning."""

    def __init__(
        self,
        tables: Iterable[Sequence[str]],
        weights: Iterable[float] = (),
        along: Mapping[str, str | Sequence[Sequence[int]]] | Along = (),
    ) -> None:
        object.__setattr__(self, "tables", _read_tables(tuple(tables)))
        if not self.tables:
            raise WorkloadError("tables must not be empty")
        _check_number(len(self.tables))
        object.__setattr__(self, "weights", tuple(map(_read_weight, weights)) or (1.0,) * len(self.tables))
        object.__setattr__(self, "_fits", None)
        if len(self.weights) != len(self.tables):
            raise WorkloadError(f"weights must be one for each table, got {len(self.weights)} for {len(self.tables)}")
        object.__setattr__(self, "along", _read_along(along) if along else ())

    def __repr__(self) -> str:
        shown = ", ".join(" x ".join(names) or "total" for names in self.tables[:_SHOWN])
        more = f", ... ({len(self.tables):,} tables)" if len(self.tables) > _SHOWN else ""
        asked = "".join(f"; {a if isinstance(a, str) else 'a matrix'} of {name}" for name, a in self.along)
        return f"Workload({shown}{more}{asked})"

    @classmethod
    def all_ways(cls, schema: Schema, k: int) -> Workload:
        """Every table of exactly k attributes that has at most 5,000,000 cells."""
        return cls._of(schema, _tables(schema, k, k))

    @classmethod
    def up_to(cls, schema: Schema, k: int) -> Workload:
        """Every table of 1 to k attributes that has at most 5,000,000 cells."""
        return cls._of(schema, _tables(schema, 1, k))

    @classmethod
    def half_more(cls, schema: Schema, k: int) -> Workload:
        """Every table over k attributes and half of those over k + 1 (Q_k* of ICDE 2013).

        The half is every second table in the schema's order, from the second; the paper does not say which it took.
        """
        return cls._of(schema, _tables(schema, k, k) + _tables(schema, k + 1, k + 1)[1::2])

    @classmethod
    def through(cls, schema: Schema, k: int, attribute: str) -> Workload:
        """Every table over k attributes and those over k + 1 that hold one attribute (Q_k^a of ICDE 2013)."""
        schema.check((attribute,))
        more = (table for table in _tables(schema, k + 1, k + 1) if attribute in table)
        return cls._of(schema, (*_tables(schema, k, k), *more))

    @classmethod
    def ranges(cls, schema: Schema, *attributes: str, ways: int = 1) -> Workload:
        """Every range of values of these ordered attributes; with two ways every box of ranges of two of them too.

        >>> schema = Schema.from_dict({"attributes": [{"name": "age", "edges": [0, 18, 30, 65, 120]}]})
        >>> Workload.ranges(schema, "age")
        Workload(age; ranges of age)
        """
        own = schema.subset(*attributes)
        if not attributes:
            raise WorkloadError("ranges must be of at least one attribute")
        return cls(_tables(own, 1, ways), along=dict.fromkeys(attributes, "ranges"))

    def asking(
        self, along: Mapping[str, str | Sequence[Sequence[int]]] | None = None, /, **more: str | Sequence[Sequence[int]]
    ) -> Workload:
        """The same tables, asked along some attributes for "ranges", "prefixes" or rows of whole numbers, not cells.

        >>> Workload([("sex", "age")]).asking(age="prefixes")
        Workload(sex x age; prefixes of age)
        """
        return Workload(self.tables, self.weights, {**dict(self.along), **(along or {}), **more})

    @classmethod
    def small_tables(cls, schema: Schema) -> Workload:
        """Every table of one or two attributes with at most 5,000,000 cells: the default workload."""
        return cls.up_to(schema, min(2, len(schema.names)))

    @classmethod
    def _of(cls, schema: Schema, tables: tuple[tuple[str, ...], ...]) -> Workload:
        """Different tables in the schema's order, which need no check."""
        made = object.__new__(cls)
        for name, value in {"tables": tables, "weights": (1.0,) * len(tables), "along": (), "_fits": schema}.items():
            object.__setattr__(made, name, value)
        return made

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return iter(zip(self.tables, self.weights, strict=True))

    def __len__(self) -> int:
        return len(self.tables)

    def for_schema(self, schema: Schema) -> Workload:
        """The same workload with each table in the schema's order; raises when it does not fit."""
        if self._fits is schema:
            return self
        for name in set(chain.from_iterable(self.tables)):
            schema.check((name,))
        for name, asked in self.along:
            schema.check((name,))
            size = schema[name].size
            if not isinstance(asked, str) and len(asked[0]) != size:
                raise WorkloadError(
                    f"each row asked along an attribute must have {size:,} numbers, got {len(asked[0]):,}"
                )
        known = schema.positions
        positions = np.fromiter(map(known.__getitem__, chain.from_iterable(self.tables)), np.intp)
        lengths = np.fromiter(map(len, self.tables), np.intp, len(self.tables))
        ends = np.cumsum(lengths)
        filled = lengths > 0
        cells = np.multiply.reduceat(np.array(schema.shape, float)[positions], (ends - lengths)[filled])
        if len(positions) and cells.max() > MAX_CELLS:
            largest = self.tables[np.flatnonzero(filled)[cells.argmax()]]
            raise TooManyCellsError(too_many_cells(largest, schema.sizes(largest), "name tables of fewer attributes"))
        rises = np.diff(positions) > 0
        rises[ends[(ends > 0) & (ends < len(positions))] - 1] = True
        fits = self
        if not rises.all():
            ordered = tuple(tuple(sorted(table, key=known.__getitem__)) for table in self.tables)
            fits = Workload(ordered, self.weights, self.along)
        object.__setattr__(fits, "_fits", schema)
        return fits

    def attributes(self, schema: Schema) -> tuple[str, ...]:
        """The attributes of the tables, in the schema's order."""
        used: set[str] = set()
        for table in self.tables:
            used.update(table)
            if len(used) == len(schema.names):  # a million tables over all attributes: a few of them tell
                break
        return tuple(name for name in schema.names if name in used)

    def cells(self, schema: Schema) -> int:
        """How many cells all tables have together."""
        return sum(math.prod(schema.sizes(table)) for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """The workload as JSON."""
        out: dict[str, Any] = {"tables": [list(table) for table in self.tables]}
        if set(self.weights) != {1.0}:
            out["weights"] = list(self.weights)
        if self.along:
            out["along"] = {
                name: asked if isinstance(asked, str) else [list(row) for row in asked] for name, asked in self.along
            }
        return out

    @classmethod
    def from_dict(cls, given: object) -> Workload:
        """A workload from its JSON."""
        if not isinstance(given, Mapping):
            raise WorkloadError(f"workload must be an object, got {type(given).__name__}")
        for key in given:
            if key not in _FIELDS:
                raise WorkloadError(f"workload: unknown field {key!r}{did_you_mean(str(key), _FIELDS)}")
        for key in ("tables", "weights"):
            if not isinstance(given.get(key, []), list):
                raise WorkloadError(f"{key} must be a list, got {type(given[key]).__name__}")
        return cls(given.get("tables", ()), given.get("weights", ()), given.get("along", {}))


def check_workload(given: object) -> None:
    """Raise unless this is a workload, or None: a list of tables, most of all, is none."""
    if given is not None and not isinstance(given, Workload):
        what = type(given).__name__
        raise WorkloadError(f'workload must be a Workload, got {what}: say Workload([("sex",), ("sex", "age")])')


def _check_number(tables: int) -> None:
    if tables > MAX_TABLES:
        raise WorkloadError(f"a workload must have at most {MAX_TABLES:,} tables, got {tables:,}")


def _tables(schema: Schema, least: int, most: int) -> tuple[tuple[str, ...], ...]:
    d = len(schema.names)
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= d:
        raise WorkloadError(f"the number of attributes of a table must be a whole number from 1 to {d}, got {most!r}")
    number = sum(math.comb(d, k) for k in range(least, most + 1))
    _check_number(number)
    held = tuple(table for k in range(least, most + 1) for table in _held(schema, k))
    if not held:
        raise TooManyCellsError(f"no table over {most} attributes has at most {MAX_CELLS:,} cells; ask for fewer")
    return held


def _held(schema: Schema, k: int) -> Iterable[tuple[str, ...]]:
    """The tables over k attributes of at most ``MAX_CELLS`` cells: nobody can read others."""
    tables = combinations(schema.names, k)
    if math.prod(sorted(schema.shape)[-k:]) <= MAX_CELLS:
        return tables
    positions = np.array(list(combinations(range(len(schema.names)), k)))
    cells = np.array(schema.shape, float)[positions].prod(axis=1)
    return compress(tables, cells <= MAX_CELLS)


def _read_tables(tables: tuple[object, ...]) -> tuple[tuple[str, ...], ...]:
    """The tables, checked: many at once, and one by one only to name what is wrong."""
    if set(map(type, tables)) <= {list, tuple}:
        read: tuple[tuple[Any, ...], ...] = tuple(map(tuple, tables))  # type: ignore[arg-type]
        if set(map(type, chain.from_iterable(read))) <= {str} and len(set(read)) == len(read):
            sets = list(map(frozenset, read))
            if len(set(sets)) == len(read) and list(map(len, sets)) == list(map(len, read)):
                return read
    seen, one_by_one = set(), []
    for table in map(_read_table, tables):
        if frozenset(table) in seen:
            raise WorkloadError(f"tables must differ, got {' x '.join(table) or 'the total'} twice")
        seen.add(frozenset(table))
        one_by_one.append(table)
    return tuple(one_by_one)


def _read_table(table: object) -> tuple[str, ...]:
    if isinstance(table, str) or not isinstance(table, list | tuple):
        raise WorkloadError(f"each table must be a list of attribute names, got {table!r}")
    for name in table:
        if not isinstance(name, str):
            raise WorkloadError(f"each table must be a list of attribute names, got {name!r} in one")
    if len(set(table)) < len(table):
        raise WorkloadError(f"a table must name each attribute once, got {' x '.join(table)}")
    return tuple(table)


def _read_along(given: object) -> Along:
    if isinstance(given, tuple):
        given = dict(given)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise WorkloadError("along must map names of attributes to ranges, prefixes or a matrix of whole numbers")
    return tuple(sorted((name, _read_asked(asked, name)) for name, asked in given.items()))


def _read_asked(asked: Any, name: str) -> str | Rows:
    if isinstance(asked, str):
        if asked not in _KINDS:
            raise WorkloadError(f"what is asked along {name!r} must be ranges or prefixes{did_you_mean(asked, _KINDS)}")
        return asked
    if isinstance(asked, np.ndarray):
        asked = asked.tolist()
    listed = isinstance(asked, list | tuple) and all(isinstance(row, list | tuple) and row for row in asked)
    if not listed or len({len(row) for row in asked}) != 1:
        raise WorkloadError(f"what is asked along {name!r} must be ranges, prefixes or rows of whole numbers")
    matrix = tuple(tuple(row) for row in asked)
    entries = [entry for row in matrix for entry in row]
    if set(map(type, entries)) != {int} or max(map(abs, entries)) > _MAX_ENTRY or len(entries) > _MAX_ENTRIES:
        raise WorkloadError(
            f"the rows asked along {name!r} must be whole numbers of at most {_MAX_ENTRY:,} in size, and at most "
            f"{_MAX_ENTRIES:,} of them"
        )
    return matrix


def _read_weight(weight: object) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise WorkloadError(f"each weight must be a positive number, got {weight!r}")
    return float(weight)
