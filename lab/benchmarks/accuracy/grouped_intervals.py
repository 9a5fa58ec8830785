"""How often 95% intervals hold in tables whose values were measured in groups, on real tables.

No real table here is so wide that a default release groups values, so groups are made by hand: each attribute of twelve
and more values is counted in full by itself, and in groups of about a fifth of the rows with every other attribute.
``python -m`` this module prints a line for each table and number of attributes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.coverage import Draw, add, in_words, over_draws
from benchmarks.accuracy.real_tables import RealTable, real_table
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, Statement, publish
from crosstally.strategies.wide_schemas import value_groups

MANY = 12
"""Values from which on an attribute is in groups."""
GROUPS = 5
"""About how many groups it has."""
ATTRIBUTES = 9
"""Attributes of a release, so that its pairs are measured in seconds: every table's first six in groups, and three."""
TRIPLES = 12
"""Tables over three attributes in each draw; all pairs are asked for."""
EPSILON = 1.0


def released(table: RealTable, random: np.random.Generator) -> tuple[Release, Sequence[str], set[str]]:
    """All single attributes and pairs with equal shares of the budget, the names, and those in groups."""
    schema = table.schema
    wide = [name for name in schema.names if schema[name].size >= MANY][: ATTRIBUTES - 3]
    few = [name for name in schema.names if schema[name].size < MANY][: ATTRIBUTES - len(wide)]
    names = schema.ordered([*wide, *few])
    tables = [(), *((name,) for name in names), *combinations(names, 2)]
    noise = Noise(NoiseKind.LAPLACE, len(tables) / EPSILON)
    groups, measured = {}, []
    for attributes in tables:
        own = {name: groups[name] for name in attributes if name in groups and len(attributes) > 1}
        counts = _in_groups(table.counts(attributes), attributes, own)
        noisy = counts + np.rint(random.laplace(0, noise.scale, counts.shape)).astype(np.int64)
        query = Cells(attributes, own)
        measured.append(Measurement(query, noisy, variance=noise.variance, noise=noise, origin="benchmark"))
        if len(attributes) == 1 and attributes[0] in wide:
            found = value_groups(schema[attributes[0]], noisy, table.number / GROUPS)
            groups |= {} if found is None else {attributes[0]: found}
    statement = Statement(strategy="benchmark", budget=Budget(epsilon=EPSILON), neighbours=Neighbours.ADD_REMOVE)
    return publish(schema.subset(*names), measured, statement), names, set(groups)


def _in_groups(
    counts: NDArray[np.int64], names: Sequence[str], groups: dict[str, tuple[int, ...]]
) -> NDArray[np.int64]:
    for axis, name in enumerate(names):
        if name in groups:
            moved = np.moveaxis(counts, axis, 0)
            summed = np.zeros((max(groups[name]) + 1, *moved.shape[1:]), np.int64)
            np.add.at(summed, np.array(groups[name]), moved)
            counts = np.moveaxis(summed, 0, axis)
    return counts


def draw_of(name: str, draw: int) -> Draw:
    """The tables of one release that hold an attribute in groups, by number of attributes."""
    table, random, out = real_table(name), np.random.default_rng(draw), Draw()
    release, names, groups = released(table, random)
    triples = list(combinations(names, 3))
    chosen = [triples[i] for i in random.choice(len(triples), TRIPLES, replace=False)]
    for attributes in (*combinations(names, 2), *chosen):
        if not groups & set(attributes):
            continue
        answer, truth = release.marginal(*attributes), table.counts(attributes)
        cells = np.stack([each.ravel() for each in (truth, answer.values, *answer.interval(0.95))]).astype(float)
        classes = {"all": cells[0] >= 0, "above 20": cells[0] > 20, "non-empty": cells[0] > 0}
        add(out, f"{len(attributes)} attributes", cells, classes)
    return out


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table and number of attributes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=("adult", "fars"))
    options = parser.parse_args(given)
    for name in options.tables:
        for kind, found in over_draws([draw_of(name, draw) for draw in range(options.draws)]).items():
            print(f"{name}, {kind}: {in_words(found)}", flush=True)


if __name__ == "__main__":
    main()
