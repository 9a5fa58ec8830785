"""Generated people: a small causal model of nine attributes, for the demo and for comparisons.

The module also checks the number of rows asked for, resamples the rows of a table, and turns codes into synthetic data
with labels, which can be shared in place of confidential rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Schema


@dataclass(frozen=True, slots=True)
class _Trait:
    """One variable of the causal model: its labels, and for each cause the weights that the cause gives them.

    A cause's table has one row for each of its values. The weights of all causes are multiplied, so a row of equal
    numbers says that a value has no influence.
    """

    name: str
    labels: tuple[str, ...]
    causes: Mapping[str, Sequence[Sequence[float]]]


_YOUNGEST, _OLDEST = 16, 95  # ages of generated people; see the pyramid. As of adults in a census, invented
# Invented: how many people there are of an age, in those of 16 years, with straight lines between.
_PYRAMID = ((16, 1.0), (30, 1.15), (45, 1.1), (60, 1.15), (75, 0.7), (95, 0.03))
_EDGES = (16, 25, 35, 45, 55, 65, 75, 95)  # ages at which bins begin, and the end of the last
_AGES = (*(f"{a}-{b - 1}" for a, b in pairwise(_EDGES[:-1])), f"{_EDGES[-2]} and over")
_SEX_BY_AGE = ((49, 51), (50, 50), (50, 50), (50, 50), (51, 49), (54, 46), (60, 40))  # per cent, Female and Male

_TRAITS = (
    _Trait(
        "region",
        ("North", "East", "South", "West", "Capital"),
        {
            "age": (
                (18, 16, 22, 18, 26),
                (16, 14, 20, 18, 32),
                (18, 16, 22, 20, 24),
                (20, 18, 24, 20, 18),
                (20, 18, 24, 20, 18),
                (20, 18, 24, 20, 18),
                (20, 18, 24, 20, 18),
            ),
        },
    ),
    _Trait(
        "education",
        ("Basic", "Secondary", "Vocational", "Degree"),
        {
            "age": (
                (38, 42, 10, 10),
                (10, 30, 24, 36),
                (11, 28, 26, 35),
                (14, 30, 28, 28),
                (20, 32, 28, 20),
                (32, 32, 22, 14),
                (46, 30, 15, 9),
            ),
            "region": (
                (1.1, 1, 1.1, 0.8),
                (1.2, 1, 1.1, 0.7),
                (1, 1, 1, 1),
                (1, 1, 1.1, 0.9),
                (0.7, 0.9, 0.7, 1.7),
            ),
        },
    ),
    _Trait(
        "employment",
        ("Employed", "Self-employed", "Unemployed", "Student", "Retired", "At home"),
        {
            "age": (
                (38, 2, 8, 48, 0, 4),
                (74, 6, 7, 5, 0, 8),
                (75, 9, 5, 1, 0.5, 9.5),
                (74, 11, 5, 0.3, 2, 8),
                (56, 11, 5, 0.1, 19, 9),
                (7, 4, 0.3, 0, 84, 5),
                (1, 1, 0, 0, 95, 3),
            ),
            "education": (
                (0.7, 0.8, 2, 0.9, 1.1, 1.6),
                (1, 1, 1, 1, 1, 1),
                (1.1, 1.3, 0.8, 0.6, 1, 0.8),
                (1.3, 1.2, 0.5, 1.3, 1, 0.5),
            ),
            "sex": (
                (0.95, 0.7, 0.9, 1, 1, 2.2),
                (1.05, 1.3, 1.1, 1, 1, 0.4),
            ),
        },
    ),
    _Trait(
        "income",
        ("under 15k", "15k to 30k", "30k to 50k", "50k to 80k", "80k or more"),
        {
            "employment": (
                (7, 27, 38, 21, 7),
                (17, 27, 27, 17, 12),
                (62, 30, 6, 2, 0.2),
                (80, 16, 3, 1, 0.1),
                (28, 43, 21, 6, 2),
                (72, 19, 6, 2, 1),
            ),
            "education": (
                (1.7, 1.4, 0.8, 0.4, 0.2),
                (1.1, 1.1, 1, 0.8, 0.6),
                (0.8, 1, 1.2, 1, 0.7),
                (0.5, 0.6, 1.1, 1.9, 3),
            ),
            "sex": (
                (1.2, 1.1, 1, 0.8, 0.6),
                (0.8, 0.9, 1, 1.2, 1.4),
            ),
            "region": (
                (1.1, 1.1, 1, 0.9, 0.8),
                (1.1, 1.1, 1, 0.9, 0.8),
                (1, 1, 1, 1, 1),
                (1, 1, 1, 1, 1),
                (0.8, 0.9, 1, 1.2, 1.6),
            ),
        },
    ),
    _Trait(
        "household",
        ("Alone", "Couple", "Couple with children", "Single parent", "Shared"),
        {
            "age": (
                (14, 10, 6, 2, 68),
                (22, 26, 30, 6, 16),
                (14, 14, 56, 11, 5),
                (15, 25, 46, 10, 4),
                (20, 54, 18, 4, 4),
                (28, 62, 5, 1, 4),
                (52, 38, 1, 1, 8),
            ),
            "sex": (
                (1, 1, 1, 1.8, 0.9),
                (1, 1, 1, 0.3, 1.1),
            ),
            "income": (
                (1.2, 0.8, 0.7, 1.5, 1.3),
                (1.1, 0.9, 0.9, 1.2, 1.1),
                (1, 1, 1, 1, 1),
                (1, 1, 1, 1, 1),
                (0.8, 1.2, 1.3, 0.6, 0.5),
            ),
        },
    ),
    _Trait(
        "home",
        ("Owner", "Tenant"),
        {
            "age": (
                (55, 45),
                (38, 62),
                (60, 40),
                (68, 32),
                (74, 26),
                (76, 24),
                (72, 28),
            ),
            "income": (
                (0.5, 1.4),
                (0.8, 1.1),
                (1, 1),
                (1.3, 0.8),
                (1.8, 0.5),
            ),
            "household": (
                (0.7, 1.2),
                (1.3, 0.8),
                (1.5, 0.7),
                (0.5, 1.5),
                (0.8, 1.2),
            ),
            "region": (
                (1.2, 0.9),
                (1.2, 0.9),
                (1.2, 0.9),
                (1.2, 0.9),
                (0.6, 1.4),
            ),
        },
    ),
    _Trait(
        "health",
        ("Very good", "Good", "Fair", "Poor"),
        {
            "age": (
                (55, 37, 6, 2),
                (46, 43, 9, 2),
                (38, 46, 12, 4),
                (28, 47, 19, 6),
                (20, 45, 26, 9),
                (15, 43, 31, 11),
                (8, 34, 39, 19),
            ),
            "income": (
                (0.7, 0.9, 1.3, 1.8),
                (0.9, 1, 1.1, 1.2),
                (1, 1, 1, 1),
                (1.2, 1, 0.8, 0.6),
                (1.5, 1, 0.6, 0.4),
            ),
            "employment": (
                (1, 1, 1, 0.6),
                (1, 1, 1, 0.6),
                (0.7, 0.9, 1.3, 1.8),
                (1.1, 1, 0.9, 0.8),
                (1, 1, 1, 1),
                (0.7, 0.9, 1.3, 2.2),
            ),
        },
    ),
)

PEOPLE = Schema(
    (
        Attribute("sex", ("Female", "Male")),
        Attribute("age", edges=_EDGES, bins=_AGES),
        *(Attribute(trait.name, trait.labels) for trait in _TRAITS),
    )
)
"""The schema of generated people: nine attributes, age in years counted in seven groups."""


def people(
    rows: int, random: np.random.Generator, *, attributes: Sequence[str] = PEOPLE.names
) -> tuple[pa.Table, Schema]:
    """Generated people, and the schema of the attributes named.

    A small causal model: age makes sex and region, those make education, then employment, income, household, home and
    health. Columns are text, and ``age`` whole years. The same seed gives the same people, whichever attributes are
    kept.

    >>> table, schema = people(3, np.random.default_rng(1), attributes=["sex", "age"])
    >>> table.num_rows, str(schema)
    (3, 'sex:2 age:7')
    """
    check_rows(rows)
    schema = PEOPLE.subset(*attributes)
    ages = _ages(rows, random)
    codes = {"age": np.searchsorted(_EDGES[1:-1], ages, side="right")}
    codes["sex"] = _choose(random, np.asarray(_SEX_BY_AGE, dtype=np.float64)[codes["age"]])
    for trait in _TRAITS:
        weights = np.ones((rows, len(trait.labels)))
        for cause, table in trait.causes.items():
            weights *= np.asarray(table, dtype=np.float64)[codes[cause]]
        codes[trait.name] = _choose(random, weights)
    columns = {name: _labelled(schema[name], codes[name]) for name in schema.names if name != "age"}
    columns["age"] = pa.array(ages.astype(np.int16))
    return pa.table({name: columns[name] for name in schema.names}), schema


def _ages(rows: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Whole years of age that follow the population pyramid."""
    years = np.arange(_YOUNGEST, _OLDEST + 1)
    at, height = zip(*_PYRAMID, strict=True)
    weights = np.interp(years, at, height)
    return random.choice(years, size=rows, p=weights / weights.sum())


def _choose(random: np.random.Generator, weights: NDArray[np.float64]) -> NDArray[np.intp]:
    """One column for each row, with probability proportional to its weight."""
    steps = np.cumsum(weights, axis=1)
    drawn = random.random(len(weights)) * steps[:, -1]
    return np.asarray((drawn[:, None] >= steps[:, :-1]).sum(axis=1))


def _labelled(attribute: Attribute, codes: NDArray[np.intp]) -> pa.Array:
    return pa.array(attribute.values).take(pa.array(codes))


def check_rows(rows: int) -> None:
    """Refuse a negative number of rows."""
    if rows < 0:
        raise CrosstallyError(f"rows must not be negative, got {rows}")


def resample(table: pa.Table, rows: int, random: np.random.Generator) -> pa.Table:
    """As many rows as asked, drawn from the table with replacement."""
    check_rows(rows)
    if table.num_rows == 0 and rows > 0:
        raise CrosstallyError("a table without rows cannot be resampled")
    return table.take(pa.array(random.integers(max(table.num_rows, 1), size=rows)))


def labelled_rows(schema: Schema, codes: NDArray[np.integer]) -> pa.Table:
    """A row for each line of codes: a dictionary column for each attribute, its labels in the schema's order.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 120])])
    >>> labelled_rows(schema, np.array([[1, 0], [0, 1]])).to_pylist()
    [{'sex': 'Male', 'age': '[0, 18)'}, {'sex': 'Female', 'age': '[18, 120]'}]
    """
    if codes.ndim != 2 or codes.shape[1] != len(schema.names):
        raise CrosstallyError(f"codes must have a column for each of {len(schema.names)} attributes, got {codes.shape}")
    columns = []
    for i, attribute in enumerate(schema.attributes):
        column = codes[:, i].astype(np.int32)
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < attribute.size:
            raise CrosstallyError(f"codes of {attribute.name!r} must be from 0 to {attribute.size - 1}")
        columns.append(pa.DictionaryArray.from_arrays(pa.array(column), pa.array(attribute.labels, pa.string())))
    return pa.Table.from_arrays(columns, names=list(schema.names))
