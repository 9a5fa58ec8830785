"""The range of errors that a plan calls likely, beside default releases of real tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.errors import Names, rms
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.real_tables import RealTable, present_tables
from crosstally.strategies.planner import Comparison
from crosstally.strategies.rules import likely_errors

CHOSEN, CHECKED = ("fars-16", "acs"), ("adult", "census-9", "kosarak", "msnbc")
"""The tables on which the constants of ``strategies.likely`` were chosen, and those on which the range is checked."""
DELTAS, ORDERS, RELEASES = (None, 1e-9), (1, 2, 3), 3
TARGET = 0.8
"""The part of all figures of checked tables that should lie inside."""
_TRIPLES, _SEED = 60, 11


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:  # noqa: ARG001 (so many releases for each)
    """A line for each table, budget and order; then the part of the figures inside, of the checked tables."""
    inside: list[bool] = []
    for table in present_tables(CHECKED[:1] if quick else (*CHOSEN, *CHECKED)):
        for delta in DELTAS:
            found = ct.plan(table.schema, epsilon=1, delta=delta, rows=table.number, strategy="two-stage")
            likely = likely_errors(found.chosen, table.number)
            for order, figures in _figures(table, found).items():
                low, high = likely[order]
                held = [low <= figure <= high for figure in figures]
                inside += held if table.name in CHECKED else []
                yield line(
                    f"likely, {table.name}{', δ = 1e-9' if delta else ''}, {order} attributes: RMS of releases",
                    float(np.mean(figures)),
                    math.sqrt(low * high),
                    None,
                    unit="rows",
                    note=f"{low:.1f} to {high:.1f}; releases {', '.join(f'{each:.1f}' for each in figures)}",
                )
    if inside:
        part = sum(inside) / len(inside)
        yield line(
            "likely, tables not used for choosing: figures inside the range",
            part,
            1.0,
            TARGET,
            unit="of all",
            met=part >= TARGET,
            note=f"{sum(inside)} of {len(inside)}",
        )


def asked(schema: ct.Schema) -> dict[int, list[Names]]:
    """All tables of one and two attributes, and some triples at random, the same in every run."""
    triples = list(combinations(schema.names, 3))
    chosen = np.random.default_rng(_SEED).permutation(len(triples))[:_TRIPLES]
    return {
        1: [(name,) for name in schema.names],
        2: list(combinations(schema.names, 2)),
        3: [triples[i] for i in sorted(chosen.tolist())],
    }


def _figures(table: RealTable, found: Comparison) -> dict[int, list[float]]:
    """The RMS error of each release, by number of attributes."""
    tables = asked(table.schema)
    truth = {order: [table.counts(names) for names in tables[order]] for order in ORDERS}
    out: dict[int, list[float]] = {order: [] for order in ORDERS}
    for _ in range(RELEASES):
        release = ct.release(table.rows, plan=found.chosen)
        for order in ORDERS:
            out[order].append(rms((each.values for each in release.marginals(tables[order])), truth[order]))
    return out
