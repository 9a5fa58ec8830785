"""Random linear queries over a small schema, a random prior, and the queries as vectors over the universe."""

from __future__ import annotations

import numpy as np

from crosstally.notebook.history.prior import Prior
from crosstally.query.linear import Linear, Term
from crosstally.schema import Attribute, Schema
from reference_history import query_vector

SIZES = [3, 2, 4, 2]
NAMES = ["a", "b", "c", "d"]
SCHEMA = Schema([Attribute(name, [str(v) for v in range(n)]) for name, n in zip(NAMES, SIZES, strict=True)])


def random_query(rng: np.random.Generator, most: int = 3, terms: int = 2) -> Linear:
    made = []
    for _ in range(rng.integers(1, terms + 1)):
        names = rng.permutation(NAMES)[: rng.integers(0, most + 1)].tolist()
        factors = tuple((name, tuple(rng.integers(0, 3, SCHEMA[name].size).tolist())) for name in names)
        made.append(Term(int(rng.integers(1, 3)), factors))
    return Linear(tuple(made))


def random_prior(rng: np.random.Generator) -> Prior:
    return Prior(SCHEMA, tuple(rng.dirichlet(np.full(n, 3.0)) for n in SIZES))


def vectors(queries: list[Linear]) -> np.ndarray:
    return np.array([query_vector(query.to_dict(), NAMES, SIZES) for query in queries])
