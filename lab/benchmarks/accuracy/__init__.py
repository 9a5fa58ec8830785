"""Accuracy against least squares, reference strategies and peers: on real public tables, and where no data are needed.

``run`` gives the lines of the results; ``python -m benchmarks accuracy --quick`` draws less, on fewer tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from benchmarks.accuracy.comparison import DRAWS

__all__ = ["run"]

LINES = (
    "analytic",
    "advice",
    "likely",
    "facts",
    "inference",
    "regret",
    "named",
    "handed_on",
    "priview",
    "wide",
    "board",
    "past_answers",
    "calm_grid",
    "intervals",
    "figures",
    "large_tables",
    "one_ways",
    "local_intervals",
    "notebook_intervals",
)
QUICK_DRAWS = 3


def run(*, quick: bool = False, draws: int | None = None, only: str | None = None) -> Iterator[dict[str, Any]]:
    """All lines, or those of one module; a quick run has too few draws for a verdict that counts, and says how many."""
    if draws is None:
        draws = QUICK_DRAWS if quick else DRAWS
    for name in LINES if only is None else (only,):
        yield from import_module(f"benchmarks.accuracy.{name}").run(draws, quick=quick)
