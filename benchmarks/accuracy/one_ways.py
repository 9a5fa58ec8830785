"""How often 95% intervals of one-way tables of default releases hold: the first thing that anyone reads.

``python -m benchmarks.accuracy.one_ways --table msnbc --epsilon 1 --draws 60`` prints one line: the share of cells
held, the same of cells above three of their standard errors, and the mean width over the oracle's, 3.92 times the RMS
error.
The cells of a table of two values err together: such a table counts once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import crosstally as ct
from benchmarks.accuracy.real_tables import real_table
from benchmarks.accuracy.settings import Setting
from crosstally.typing import Floats

__all__ = ["Held", "main", "one_ways"]

_LARGE = 3.0
"""Cells above so many standard errors are counted by themselves too."""


@dataclass(frozen=True, slots=True)
class Held:
    """What was seen of a setting: shares held, of how many cells, and the width over the oracle's."""

    all: float
    cells: int
    large: float
    large_cells: int
    width: float

    def __str__(self) -> str:
        return (
            f"{self.all:.1%} of {self.cells:,} held, {self.large:.1%} of {self.large_cells:,} large ones, "
            f"width {self.width:.2f}"
        )


def one_ways(setting: Setting, draws: int) -> Held:
    """Default releases of a setting, one after another."""
    table = real_table(setting.table)
    truth = {name: table.counts((name,)).astype(float) for name in table.schema.names}
    plan = ct.plan(table.schema, epsilon=setting.epsilon, delta=setting.delta).chosen
    parts = [_seen(ct.release(table.rows, plan=plan), truth) for _ in range(draws)]
    held, large, half, squares = (np.concatenate(each) for each in zip(*parts, strict=True))
    width = 2 * half.mean() / (3.92 * np.sqrt(squares.mean()))
    return Held(held.mean(), len(held), held[large > 0].mean(), int((large > 0).sum()), float(width))


def _seen(release: ct.Release, truth: dict[str, Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """For each cell whether it is held, whether it is large, half the width of its interval, its squared error."""
    columns = []
    for name, exact in truth.items():
        answer = release.marginal(name)
        low, high = answer.interval()
        own = [(low <= exact) & (exact <= high), exact > _LARGE * answer.std_error]
        own += [(high - low) / 2, (answer.values - exact) ** 2]
        columns.append(np.stack(own)[:, : 1 if len(exact) == 2 else None])
    return tuple(np.concatenate(columns, axis=1))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description="Intervals of one-way tables of default releases.")
    parser.add_argument("--table", required=True)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta")
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args(arguments)
    setting = Setting(given.table, given.epsilon, given.delta)
    print(f"{setting}: {one_ways(setting, given.draws)}")


if __name__ == "__main__":
    main()
