"""How far tables are from the truth: which are asked for, and the two distances of the accuracy targets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.real_tables import RealTable
from crosstally.schema import Schema

ORDERS = (1, 2, 3, 4)
SAMPLE, MOST_CELLS, SEED = 40, 2_000, 20_261_116
"""Of each order above one so many tables are asked for, of at most so many cells; the seed says which."""

Names = tuple[str, ...]
Values = NDArray[np.float64]


def asked_tables(schema: Schema, order: int, *, number: int = SAMPLE) -> list[Names]:
    """All tables of one attribute; of a higher order some at random (the same in every run), or all if they are few."""
    if order == 1:
        return [(name,) for name in schema.names]
    random = np.random.default_rng((SEED, order))
    if math.comb(len(schema.names), order) <= 20_000:
        fitting = [t for t in itertools.combinations(schema.names, order) if math.prod(schema.sizes(t)) <= MOST_CELLS]
        chosen = random.permutation(len(fitting))[:number]
        return [fitting[i] for i in sorted(chosen)]
    found: set[tuple[int, ...]] = set()
    for _ in range(10_000):
        if len(found) == number:
            break
        positions = tuple(sorted(random.choice(len(schema.names), order, replace=False).tolist()))
        if math.prod(schema.shape[i] for i in positions) <= MOST_CELLS:
            found.add(positions)
    return [tuple(schema.names[i] for i in positions) for positions in sorted(found)]


def rms(answers: Iterable[Values], truth: Iterable[NDArray]) -> float:
    """The root of the mean over tables of the mean squared error of a cell."""
    return math.sqrt(np.mean([np.mean((a - t) ** 2.0) for a, t in zip(answers, truth, strict=True)]))


def l1(answers: Iterable[Values], truth: Iterable[NDArray], rows: int) -> float:
    """The mean over tables of the sum of absolute errors, over the number of rows."""
    return float(np.mean([np.abs(a - t).sum() for a, t in zip(answers, truth, strict=True)])) / rows


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The tables asked of a real table, by order, and their true counts, each counted once."""

    table: RealTable
    asked: Mapping[int, Sequence[Names]]
    counts: dict[Names, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: RealTable, orders: Sequence[int] = ORDERS) -> Truth:
        """The tables that the targets ask for; none of an order that the table does not have."""
        wanted = {k: asked_tables(table.schema, k) for k in orders if k <= len(table.schema.names)}
        return cls(table, {k: tables for k, tables in wanted.items() if tables})

    def of_tables(self, tables: Sequence[Names]) -> list[NDArray[np.int64]]:
        """The true counts of some tables."""
        for names in tables:
            if names not in self.counts:
                self.counts[names] = self.table.counts(names)
        return [self.counts[names] for names in tables]

    def rms(self, order: int, answers: Sequence[Values]) -> float:
        """The RMS of answers to the tables of an order."""
        return rms(answers, self.of_tables(self.asked[order]))

    def l1(self, order: int, answers: Sequence[Values]) -> float:
        """The L1 of answers to the tables of an order."""
        return l1(answers, self.of_tables(self.asked[order]), self.table.number)
