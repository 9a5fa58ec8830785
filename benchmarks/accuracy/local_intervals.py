"""How often 95% intervals of local collections hold, and how wide they are, on real tables: ``python -m`` this module.

Width is the mean over cells divided by the oracle's, 3.92 x RMS error of the same cells.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.accuracy.intervals import MOST_CELLS
from benchmarks.accuracy.real_tables import RealTable, real_table
from crosstally.local import Collector, design
from crosstally.local.bulk import reports

__all__ = ["held", "line", "main"]

TABLES = ("adult", "msnbc", "kosarak")
EPSILONS = ("0.5", "1", "2")
MOST_TABLES = 40
"""Tables asked of each order, drawn anew for every collection."""

Cells = NDArray[np.float64]


def held(table: RealTable, release: ct.Release, rng: np.random.Generator) -> Iterator[tuple[int, Cells]]:
    """For tables of one to three attributes their order and (truth, answer, low, high) of their cells."""
    names = table.schema.names
    for order in (1, 2, 3):
        for _ in range(MOST_TABLES):
            asked = [names[i] for i in rng.choice(len(names), order, replace=False)]
            if math.prod(table.schema.sizes(asked)) <= MOST_CELLS:
                answer = release.marginal(*asked)
                numbers = (table.counts(asked), answer.values, *answer.interval(0.95))
                yield order, np.stack([np.asarray(each, float).ravel() for each in numbers])


def line(cells: Cells, people: int) -> str:
    """Coverage and width over the oracle's, of all cells, and of those of more or less than 1% of the people."""
    truth, values, low, high = cells
    out = []
    for name, inside in {"all": truth >= 0, ">1%": truth > people / 100, "<1%": truth <= people / 100}.items():
        if inside.any():
            ok = ((low <= truth) & (truth <= high))[inside].mean()
            oracle = 3.92 * math.sqrt(((values - truth)[inside] ** 2).mean())
            out.append(f"{name}: {100 * ok:.1f}% {(high - low)[inside].mean() / max(oracle, 1e-9):.2f}")
    return " | ".join(out)


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table, epsilon and order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args(given)
    for name in options.tables:
        table = real_table(name)
        for epsilon in EPSILONS:
            protocol = design(table.schema, epsilon=epsilon, people=table.number, ways=2)
            found: dict[int, list[Cells]] = {}
            for draw in range(options.draws):
                collector = Collector(protocol)
                collector.add_many(reports(protocol, table.codes.T.astype(np.int64)))
                for order, cells in held(table, collector.release(), np.random.default_rng(draw)):
                    found.setdefault(order, []).append(cells)
            for order, parts in sorted(found.items()):
                print(f"{name} {epsilon} {order}: {line(np.concatenate(parts, axis=1), table.number)}", flush=True)


if __name__ == "__main__":
    main()
