"""How often 95% intervals of default releases hold, and how wide they are, on real tables: ``python -m`` this module.

Width is the mean over cells divided by the oracle's, 3.92 x RMS error of the same cells.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.accuracy.real_tables import RealTable, real_table

__all__ = ["held", "line", "main"]

TABLES = ("adult", "fars-16", "acs", "census-9", "msnbc", "kosarak")
BUDGETS = {"pure": {"epsilon": "1"}, "delta": {"epsilon": "1", "delta": "1e-9"}}
MOST_TABLES = 25
"""Tables asked of each order, drawn anew for every release."""
MOST_CELLS = 4_000
CLASSES = {"0": (0, 0), "1-20": (1, 20), ">20": (21, math.inf)}

Cells = NDArray[np.float64]


def held(table: RealTable, release: ct.Release, rng: np.random.Generator) -> Iterator[tuple[str, Cells]]:
    """For tables of one to six attributes their kind and (truth, answer, low, high) of their cells."""
    names = table.schema.names
    for order in (1, 2, 3, 4, 6):
        seen: dict[str, int] = {}
        for _ in range(40 * MOST_TABLES):
            asked = [names[i] for i in sorted(rng.choice(len(names), order, replace=False))]
            kind = "covered" if release.estimate.covers(asked) else "not measured"
            if seen.get(kind, 0) >= MOST_TABLES or math.prod(table.schema.sizes(asked)) > MOST_CELLS:
                continue
            seen[kind] = seen.get(kind, 0) + 1
            answer = release.marginal(*asked)
            ends = answer.interval(0.95)
            numbers = (table.counts(asked), answer.values, *ends)
            shown = "bounds" if answer.error_kind is ct.ErrorKind.BOUNDS else kind
            yield f"{order} {shown}", np.stack([np.asarray(each, float).ravel() for each in numbers])


def line(cells: Cells) -> str:
    """Coverage and width over the oracle's, of all cells and by their size."""
    truth, values, low, high = cells
    out = []
    for name, (least, most) in {"all": (0, math.inf), **CLASSES}.items():
        inside = (truth >= least) & (truth <= most)
        if inside.any():
            ok = ((low <= truth) & (truth <= high))[inside].mean()
            oracle = 3.92 * math.sqrt(((values - truth)[inside] ** 2).mean())
            out.append(f"{name}: {100 * ok:.1f}% {(high - low)[inside].mean() / max(oracle, 1e-9):.2f}")
    return " | ".join(out)


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table, budget, order and kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args(given)
    for name in options.tables:
        table = real_table(name)
        for budget, amounts in BUDGETS.items():
            found: dict[str, list[Cells]] = {}
            for draw in range(options.draws):
                release = ct.release(table.rows, table.schema, **amounts)
                for kind, cells in held(table, release, np.random.default_rng(draw)):
                    found.setdefault(kind, []).append(cells)
            for kind, parts in sorted(found.items()):
                print(f"{name} {budget} {kind}: {line(np.concatenate(parts, axis=1))}", flush=True)


if __name__ == "__main__":
    main()
