"""Generated rows for any schema: hidden classes, through which every attribute depends on every other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.generate.people import check_rows
from crosstally.schema import Attribute, Impossible, PublicCounts, Schema

CLASSES = 12
"""Enough that pairs do not say all about triples, few enough that attributes depend visibly on each other."""
SPREAD = 1.0
"""The standard deviation, over classes, of the logarithm of a value's share: half of the values are at least twice as
common, or half as common, in a class as overall. The median of Cramér's V over pairs of the demo's schema is then 0.07
to 0.10 (three seeds), that of Adult 0.10 and of FARS-16 0.11; pairs as strong as their strongest are not made."""
TRIES = 50
"""How often rows that nobody can have are drawn again."""


def shape_of(schema: Schema, rows: int) -> Schema:
    """The schema with numbers for its labels: as many values, in order where it has bins, the same unit.

    Combinations that nobody can have stay so. Of public counts only the total stays, where it is the number of rows:
    generated rows have no others.

    >>> print(shape_of(Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])]), 100))
    sex:2 age:3
    """
    plain = [
        Attribute(each.name, edges=range(each.size + 1)) if each.edges else Attribute(each.name, range(each.size))
        for each in schema.attributes
    ]
    numbered = dict(zip(schema.names, plain, strict=True))
    facts: list[Impossible | PublicCounts] = []
    for fact in schema.facts:
        if isinstance(fact, Impossible):
            codes = {name: [schema[name].labels.index(label) for label in fact.values[name]] for name in fact.values}
            facts.append(
                Impossible({name: tuple(numbered[name].labels[i] for i in own) for name, own in codes.items()})
            )
    if schema.public_rows == rows:
        facts.append(PublicCounts(None, (rows,)))
    return Schema(plain, schema.unit, facts=facts)


def hidden_classes(schema: Schema, rows: int, random: np.random.Generator) -> tuple[pa.Table, Schema]:
    """So many rows, and the schema by which they are read: that of ``shape_of``.

    Each row belongs to one of a few classes that no column shows. Given its class its attributes are independent; a
    value's share is Zipf's times a log-normal factor of its class. So attributes are skewed, each depends on all
    others, and tables of every order have interactions. Every row is a unit of its own.

    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> table, shape = hidden_classes(schema, 4, np.random.default_rng(1))
    >>> table.column_names, table.num_rows
    (['sex', 'age'], 4)
    """
    check_rows(rows)
    shape = shape_of(schema, rows)
    sizes = random.dirichlet(np.full(CLASSES, 2.0))
    shares = [_shares(size, random) for size in shape.shape]
    codes = _draw(rows, sizes, shares, random)
    for _ in range(TRIES):
        wrong = np.flatnonzero(_impossible(shape, codes))
        if not len(wrong):
            break
        codes[wrong] = _draw(len(wrong), sizes, shares, random)
    else:
        raise CrosstallyError(
            "rows cannot be generated: the schema's facts say of nearly all that nobody can have them"
        )
    columns = {name: codes[:, i] for i, name in enumerate(shape.names)}
    if shape.unit is not None:
        columns[shape.unit.id] = np.arange(rows)
    return pa.table(columns), shape


def _shares(size: int, random: np.random.Generator) -> NDArray[np.float64]:
    """The cumulative shares of an attribute's values in each class: classes x values."""
    common = random.permutation(1 / np.arange(1.0, size + 1))
    weights = common * np.exp(SPREAD * random.standard_normal((CLASSES, size)))
    return np.asarray(np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True))


def _draw(
    rows: int, sizes: NDArray[np.float64], shares: list[NDArray[np.float64]], random: np.random.Generator
) -> NDArray[np.int64]:
    """Codes: rows x attributes."""
    classes = random.choice(CLASSES, rows, p=sizes)
    codes = np.empty((rows, len(shares)), np.int64)
    for i, own in enumerate(shares):
        drawn = random.random(rows)
        for j in range(CLASSES):
            inside = classes == j
            codes[inside, i] = np.searchsorted(own[j, :-1], drawn[inside], side="right")
    return codes


def _impossible(schema: Schema, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row whether a fact says that nobody can have its values."""
    out = np.zeros(len(codes), np.bool_)
    for fact in schema.facts:
        if isinstance(fact, Impossible):
            own = np.ones(len(codes), np.bool_)
            for name, labels in fact.values.items():
                numbers = [schema[name].labels.index(label) for label in labels]
                own &= np.isin(codes[:, schema.positions[name]], numbers)
            out |= own
    return out
