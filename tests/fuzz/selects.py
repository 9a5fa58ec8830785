"""Random SELECTs, each asked of a release without noise and of its rows in DuckDB: refused, or the same answer.

The grammar is wider than what a release answers: a clause that is overlooked instead of refused gives a wrong answer.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import crosstally as ct
from crosstally.strategies import Flat

__all__ = ["check_select", "random_select", "write_select"]

_BINS = {"[0, 18)": 7, "[18, 40)": 30, "[40, 65)": 50, "[65, 120]": 80}
_LABELS: dict[str, list[str | None]] = {
    "sex": ["Female", "Male"],
    "age": list(_BINS),
    "region": ["East", "North", "South"],
    "rooms": ["1", "2", "3"],
    "job": ["none", "paid", None],
}
_TEXTS = ("sex", "region", "job")
_SCHEMA = ct.Schema(
    [
        ct.Attribute("sex", ["Female", "Male"]),
        ct.Attribute("age", edges=[0, 18, 40, 65, 120]),
        ct.Attribute("region", ["East", "North", "South"]),
        ct.Attribute("rooms", ["1", "2", "3"]),
        ct.Attribute("job", ["none", "paid"], missing=True),
    ]
)
# Clauses that nobody promises to answer, each put where it fits.
_WILD = {
    "condition": (
        "sex NOT LIKE 'F!%' ESCAPE '!'",
        "region LIKE 'N!%' ESCAPE '!'",
        "rooms BETWEEN SYMMETRIC 3 AND 1",
        "job IS DISTINCT FROM 'paid'",
        "job IS NOT DISTINCT FROM NULL",
        "sex NOT IN ('Male', NULL)",
        "region SIMILAR TO 'N.*'",
        "region GLOB 'N*'",
        "region NOT GLOB 'N*'",
        "region ~ 'N.*'",
        "region !~~ 'N%'",
        "region IN (SELECT region FROM people WHERE rooms = 1)",
        "EXISTS (SELECT 1 FROM people WHERE rooms = 9)",
        "rooms % 2 = 1",
        "(sex, region) = ('Male', 'East')",
        "(sex = 'Male') = (region = 'East')",
        "rooms = ANY (SELECT 1)",
        "xor(rooms, 1) = 0",
        "job IS NOT TRUE",
        "starts_with(region, 'N')",
        "NULL",
    ),
    "after": (
        "LIMIT 50%",
        "LIMIT 40 PERCENT",
        "USING SAMPLE 1 ROWS",
        "LIMIT (1)",
        "FETCH FIRST 1 ROWS ONLY",
        "LIMIT ALL",
        "QUALIFY count(*) OVER () > 100",
        "UNION ALL SELECT 1",
        "WINDOW w AS (PARTITION BY 1)",
        "ORDER BY ALL DESC",
        "ORDER BY 1 COLLATE NOCASE",
    ),
    "number": (
        "count(DISTINCT sex)",
        "avg(rooms)",
        "max(rooms)",
        "sum(rooms)",
        "count(*) // 7",
        "count(*) % 7",
        "count(*) ^ 2",
        "count(*)::DECIMAL(9, 1) / 7",
        "count(*)::VARCHAR",
        "count(*)::TINYINT",
        "TRY_CAST(count(*) AS TINYINT)",
        "round_even(count(*) / 2, 0)",
        "count(*) OVER ()",
        "sum(count(*)) OVER (ORDER BY count(*))",
        "sum(count(*)) OVER (ROWS 1 PRECEDING)",
        "sum(count(*)) FILTER (WHERE count(*) > 5) OVER ()",
        "sum(DISTINCT count(*)) OVER ()",
        "(SELECT count(*) FROM people LIMIT 0)",
        "(SELECT count(*) FROM people OFFSET 1)",
        "(SELECT count(*) FROM people HAVING count(*) < 0)",
        "coalesce(count(*), 0)",
        "coalesce(nullif(count(*), 1), 0, 5)",
        "sum(CASE sex WHEN 'Male' THEN 1 ELSE 0 END)",
        "sum(CASE WHEN sex = 'Male' THEN 2 ELSE 0 END)",
        "sum(CASE WHEN sex = 'Male' THEN 1 ELSE 1 END)",
        "count(CASE WHEN sex = 'Male' THEN 1 END)",
        "count(*) FILTER (WHERE sex = 'Male') FILTER (WHERE rooms = 1)",
        "greatest(count(*), 7)",
        "abs(-count(*))",
        "if(count(*) > 5, 1, 0)",
    ),
    "select": ("DISTINCT ", "DISTINCT ON (1) ", "ALL ", "* EXCLUDE (sex), "),
    "from": (
        "people TABLESAMPLE 1 ROWS",
        "people AS p(sx)",
        "people, people AS q",
        "people JOIN people AS q USING (sex)",
        "(SELECT * FROM people WHERE rooms = 1) AS people",
        "people PIVOT (count(*) FOR sex IN ('Male'))",
    ),
    "group": ("DISTINCT ROLLUP (sex), ROLLUP (sex)", "ROLLUP (sex), CUBE (sex)", "sex, ()", "upper(sex)"),
}


class _Selects:
    """One random statement. ``AGE`` in capitals is a number of years, which the rows have in a column of its own."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.wild = random.random() < 0.3

    def _is(self, probability: float) -> bool:
        return self.random.random() < probability

    def _strange(self, place: str) -> str | None:
        return self.random.choice(_WILD[place]) if self.wild and self._is(0.3) else None

    def statement(self) -> str:
        keys = self.random.sample(list(_LABELS), self.random.choice([0, 1, 1, 2, 2, 3]))
        cases = [self._case() for _ in range(int(self._is(0.2)))]
        items = [*self._keys(keys), *(f"{case} AS c{i}" for i, case in enumerate(cases))]
        self.random.shuffle(items)
        depth = self.random.choice([0, 2])
        items += [f"{self._number(depth, keys)} AS n{i}" for i in range(self.random.choice([1, 1, 1, 2]))]
        first = (
            len(items) if depth == 0 else max(0, len(items) - 2)
        )  # equal ratios differ in their last digits: sorted by last
        text = f"SELECT {self._strange('select') or ''}{', '.join(items)} FROM {self._strange('from') or 'people'}"
        where = self._is(0.6)
        text += f" WHERE {self._condition(3)}" if where else ""
        group = [*keys, *(f"c{i}" for i in range(len(cases)))]
        if group:
            text += f" GROUP BY {self._strange('group') or self._group(group)}"
        having = [self._having(2, keys)] if self._is(0.3) else []
        if group and (where or cases):
            having.append("count(*) > 0.5")  # a release does not know which groups nobody is in
        text += f" HAVING {' AND '.join(having)}" if having else ""
        return text + self._end(self._places(first, len(items)))

    def _keys(self, keys: list[str]) -> list[str]:
        shown = [f"coalesce({key}, 'zz') AS k_{key}" if self._is(0.1) else key for key in keys]
        return [*shown, *(f"grouping({key}) AS g_{key}" for key in keys if self._is(0.1))]

    def _group(self, keys: list[str]) -> str:
        listed = ", ".join(keys)
        nested = f"({', '.join(keys[:2])}), ({keys[-1]}), ()"
        kinds = [listed, listed, listed, f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS ({nested})"]
        kinds += [f"{keys[0]}, ROLLUP ({', '.join(keys[1:])})" if keys[1:] else listed]
        return self.random.choice(kinds)

    def _places(self, first: int, items: int) -> list[int]:
        """All columns in a random order, those behind the first ones behind them."""
        places = list(range(1, items + 1))
        return [*self.random.sample(places[:first], first), *places[first:]]

    def _end(self, places: list[int]) -> str:
        """An order by all columns, so that a limit leaves the same rows."""
        text = ""
        if self._is(0.5):
            directions = ("", " DESC", " NULLS FIRST", " NULLS LAST", " DESC NULLS LAST", " DESC NULLS FIRST", " ASC")
            text += " ORDER BY " + ", ".join(f"{place}{self.random.choice(directions)}" for place in places)
            if self._is(0.4):
                text += f" LIMIT {self.random.randrange(6)}"
            if self._is(0.2):
                text += f" OFFSET {self.random.randrange(4)}"
        strange = self._strange("after")
        return f"{text} {strange}" if strange else text

    def _case(self) -> str:
        labels = self.random.choice([("'x'", "'y'", "'a'"), ("3", "10", "2"), ("'x'", "'x'", "NULL")])
        if self._is(0.2):
            return f"CASE region WHEN 'East' THEN {labels[0]} ELSE {labels[1]} END"
        more = f" WHEN {self._condition(1)} THEN {labels[1]}" if self._is(0.4) else ""
        other = f" ELSE {labels[2]}" if self._is(0.7) else ""
        return f"CASE WHEN {self._condition(1)} THEN {labels[0]}{more}{other} END"

    def _condition(self, depth: int) -> str:
        if depth and self._is(0.6):
            first = self._condition(depth - 1)
            if self._is(0.3):
                return f"NOT ({first})"
            return f"({first} {self.random.choice(['AND', 'OR'])} {self._condition(depth - 1)})"
        return self._strange("condition") or self._leaf()

    def _leaf(self) -> str:
        text, negated = self.random.choice(_TEXTS), "NOT " if self._is(0.4) else ""
        label = self.random.choice([each for each in _LABELS[text] if each])
        pattern = self.random.choice([f"{label[0]}%", f"%{label[-1]}", f"_{label[1:]}", "%", "", label, label.lower()])
        number = self.random.choice(["0", "1", "2", "3", "4"])
        compared = self.random.choice(["<", "<=", ">", ">=", "=", "<>"])
        listed = ", ".join(f"'{each}'" for each in _LABELS[text] if each and self._is(0.6)) or f"'{label}'"
        return self.random.choice(
            [
                f"{text} {self.random.choice(['=', '<>', '!='])} '{label}'",
                f"'{label}' = {text}",
                f"{text} {negated}{self.random.choice(['LIKE', 'ILIKE'])} '{pattern}'",
                f"{text} {negated}{self.random.choice(['LIKE', 'ILIKE'])} '{pattern}'",
                f"{text} {negated}IN ({listed})",
                f"rooms {compared} {number}" if compared not in ("=", "<>") or number in "123" else "rooms = 2",
                f"{number} < rooms",
                f"rooms {negated}BETWEEN {self.random.choice('123')} AND {self.random.choice('123')}",
                f"rooms {negated}IN (1, 3)",
                f"AGE {self.random.choice(['<', '>='])} {self.random.choice([18, 40, 65])}",
                f"{self.random.choice(_TEXTS)} IS {negated}NULL",
                self.random.choice(["TRUE", "FALSE"]),
            ]
        )

    def _count(self) -> str:
        condition = self._condition(1)
        return self.random.choice(
            [
                "count(*)",
                "count(*)",
                "count(1)",
                f"count({self.random.choice(list(_LABELS))})",
                f"count(*) FILTER (WHERE {condition})",
                f"count_if({condition})",
                f"sum(CASE WHEN {condition} THEN 1 ELSE 0 END)",
            ]
        )

    def _number(self, depth: int, keys: list[str]) -> str:
        strange = self._strange("number")
        if strange:
            return strange
        if not depth or self._is(0.5):
            return self._count()
        one, other = self._number(depth - 1, keys), self._number(depth - 1, keys)
        by = f"PARTITION BY {self.random.choice(keys)}" if keys and self._is(0.6) else ""
        total = self._count()
        return self.random.choice(
            [
                f"{one} + {other}",
                f"({one}) - ({other})",
                f"({one}) * {self.random.choice(['2', '0.5', '100.0', '-1'])}",
                f"-({one})",
                f"({one}) / nullif({other}, 0)",
                f"{total} / nullif(sum({total}) OVER ({by}), 0)",
                f"sum(nullif({total}, 0)) OVER ({by})",
                f"round(({one}) / 7, {self.random.choice(['0', '1', '2'])})",
                f"round({one}, -1)",
                f"CAST(({one}) AS {self.random.choice(['DOUBLE', 'FLOAT', 'INTEGER', 'BIGINT'])})",
                f"({one}) / (SELECT count(*) FROM people{' WHERE rooms = 2' if self._is(0.5) else ''})",
                f"({one}) / 4.0",
            ]
        )

    def _having(self, depth: int, keys: list[str]) -> str:
        if depth and self._is(0.5):
            first = self._having(depth - 1, keys)
            if self._is(0.4):
                return f"NOT ({first})"
            return f"({first} {self.random.choice(['AND', 'OR'])} {self._having(depth - 1, keys)})"
        count = f"{self._count()} {self.random.choice(['<', '<=', '>', '>=', '=', '<>'])} {self.random.randrange(90)}"
        kinds = [count, f"{self._count()} BETWEEN 9 AND 99", f"nullif({self._count()}, 5) IS NULL"]
        kinds.append(f"nullif({self._count()}, 0) < {self.random.randrange(90)}.5")
        if keys:
            key = self.random.choice(keys)
            label = self.random.choice([each for each in _LABELS[key] if each])
            kinds += [f"{key} = '{label}'", f"{key} <> '{label}'", f"{key} IS NULL", f"{key} IS NOT NULL"]
            kinds += [f"{key} IN ('{label}')", f"{key} NOT IN ('{label}')", f"coalesce({key}, 'zz') = 'zz'"]
            kinds += [f"{key} NOT LIKE '{label}'"]
        return self.random.choice(kinds)


def random_select(random: Random) -> str:
    """One statement."""
    return _Selects(random).statement()


def write_select(random: Random, path: Path) -> None:
    """The same in a file."""
    path.write_text(random_select(random), encoding="utf-8")


@cache
def _rows() -> pa.Table:
    """From 1 to 3 people of each combination: a release says of a group that nobody is in that it has no people."""
    random, columns = Random(31), {name: [] for name in _LABELS}
    for index in np.ndindex(*(len(labels) for labels in _LABELS.values())):
        for _ in range(random.randrange(1, 4)):
            for (name, labels), code in zip(_LABELS.items(), index, strict=True):
                columns[name].append(labels[code])
    years = [_BINS[each] for each in columns["age"]]
    return pa.table({**columns, "years": years})


@cache
def _release() -> ct.Release:
    table = _rows()
    given = table.set_column(table.column_names.index("age"), "age", table["years"]).drop_columns("years")
    return ct.release(given, _SCHEMA, epsilon=100_000, strategy=Flat())


@cache
def _database() -> Any:
    connection, given = duckdb.connect(), _rows()  # DuckDB finds it by its name
    assert given.num_rows > 100
    connection.execute("SET ieee_floating_point_ops = false")  # a division by zero is NULL
    connection.execute("CREATE MACRO count_of(x) AS count(*) FILTER (WHERE x)")
    connection.execute("CREATE MACRO sum_of(x) AS coalesce(sum(x), 0)")
    connection.execute("CREATE TABLE people AS SELECT * REPLACE (rooms::INTEGER AS rooms) FROM given")
    return connection


def _of_the_rows(text: str) -> str:
    """The statement over the rows: years in their own column, and of nobody a count and a sum of zero, not NULL."""
    text = re.sub(r"\bAGE\b", "years", text)
    return text.replace("count_if(", "count_of(").replace("sum(CASE", "sum_of(CASE")


def check_select(text: str) -> bool:
    """Whether the rows have an answer too.

    Raises what the release raises where it refuses, and AssertionError where its answer is not that of the rows.
    """
    answer = _release().sql(text)
    try:
        true = _database().execute(_of_the_rows(text)).fetchall()
    except duckdb.Error:
        return False
    names = [name for name in answer.columns if not name.endswith(("_low", "_high"))]
    found = [tuple(row) for row in zip(*(answer.columns[name] for name in names), strict=True)]
    own, other = ([tuple(map(_cell, row)) for row in rows] for rows in (found, true))
    if " ORDER BY " not in text:
        own, other = sorted(own, key=_place), sorted(other, key=_place)
    if len(own) != len(other) or not all(map(_alike, own, other)):
        raise AssertionError(f"{text}\n  answered {own[:8]}\n  rows say {other[:8]}")
    return True


def _cell(cell: Any) -> str | float | None:
    """A label or a number; a missing value is NULL."""
    if cell is None or cell == "(missing)":
        return None
    if isinstance(cell, str) and not cell.isdigit():
        return cell
    return float(cell) + 0.0 if math.isfinite(float(cell)) else None


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The labels of a row first: numbers may differ in their last digits."""
    texts = tuple("" if each is None else each for each in row if not isinstance(each, float))
    return texts, tuple(float(f"{each:.6g}") for each in row if isinstance(each, float))


def _alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in pairs
    )
