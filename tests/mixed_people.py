"""Generated people with nulls, unknown values, dates and several rows each, for sources with types of their own."""

from __future__ import annotations

import random
from typing import Any

SCHEMA: dict[str, Any] = {
    "attributes": [
        {"name": "sex", "values": ["Female", "Male"], "outside": "drop"},
        {"name": "age", "edges": [0, 18, 30.5, 65, 120], "missing": True, "outside": "other"},
        {"name": "height", "edges": [0, 1.5, 1.75, 2.5], "outside": "other"},
        {"name": "town", "values": ["Köln", "Łódź", "Zürich"], "outside": "other"},
        {"name": "children", "values": [0, 1, 2], "missing": True, "outside": "drop"},
        {"name": "born", "values": ["2000-02-29", "1999-12-31"], "missing": True, "outside": "other"},
    ]
}
BOUNDED = {**SCHEMA, "unit": {"id": "person", "max_rows": 2}}
DIVIDED = {**SCHEMA, "unit": {"id": "person", "divided": True}}
TABLES = [(), ("sex",), ("age", "height"), ("town", "children", "born"), ("sex", "age", "height", "town", "children")]


def people(number: int = 400) -> list[dict[str, Any]]:
    draw = random.Random(11)
    return [
        {
            "person": draw.choice([None, *range(number // 4)]),
            "sex": draw.choice(["Female", "Male", "Male", "diverse", None]),
            "age": draw.choice([None, 0, 17.5, 18, 21.745, 30, 30.5, 64, 65, 120, 121, -1]),
            "height": draw.choice([None, 1.49, 1.5, 1.7499, 1.75, 2.5, 3.0]),
            "town": draw.choice(["Köln", "Łódź", "Zürich", "zürich", "Bern", None]),
            "children": draw.choice([0, 1, 2, 3, None]),
            "born": draw.choice(["2000-02-29", "1999-12-31", "1970-01-01", None]),
        }
        for _ in range(number)
    ]


ROWS = people()


GROUPED: dict[str, Any] = {
    "crosstally-schema": 1,
    "attributes": [
        {"name": "sex", "values": ["Woman", "Man"], "outside": "drop"},
        {"name": "region", "values": ["south", "north"], "outside": "other"},
        {"name": "year", "values": ["1999", "2000"], "missing": True, "outside": "other"},
    ],
    "unit": {"id": "person", "max_rows": 2},
    "reading": {
        "columns": {
            "sex": {"groups": {"Woman": ["Female"], "Man": ["Male"]}},
            "region": {"column": "town", "groups": {"south": ["Zürich"], "north": ["Köln", "Łódź"]}},
            "year": {"column": "born", "date": {"into": "year"}},
        }
    },
}
"""The same people by groups of spellings, and dates by their years."""
GROUPED_TABLES = [(), ("sex", "region"), ("sex", "region", "year")]


def grouped(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows as that reading makes them, by hand, and the schema without it: what a reference can count."""
    sexes = {"Female": "Woman", "Male": "Man"}
    regions = {"Zürich": "south", "Köln": "north", "Łódź": "north"}
    read = [
        {
            "person": row["person"],
            "sex": sexes.get(row["sex"], row["sex"]),
            "region": regions.get(row["town"], row["town"]),
            "year": None if row["born"] is None else row["born"][:4],
        }
        for row in rows
    ]
    return read, {key: GROUPED[key] for key in ("attributes", "unit")}
