"""How often 95% intervals of local collections hold, and how wide they are, on real tables.

``python -m`` this module prints a line for each table, epsilon and order, for as many draws as asked.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.coverage import Aim, Cells, Draw, add, coverage_line, in_words, over_draws
from benchmarks.accuracy.intervals import MOST_CELLS
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.real_tables import RealTable, real_table
from benchmarks.accuracy.settings import Setting, in_processes, present, settings
from crosstally.local import Collector, design
from crosstally.local.bulk import reports

TABLES = ("adult", "msnbc", "kosarak")
EPSILONS = ("0.5", "1", "2")
DRAWS = 10
MOST_TABLES = 40
"""Tables asked of each order, drawn anew for every collection."""
AIM = Aim({"all": (0.92, 0.98), ">1%": (0.92, 0.98)})
"""Of pairs and triples; single attributes have none."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One collection of a setting."""

    setting: Setting
    draw: int


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Width beside the oracle's, and the share held, for each setting and order."""
    wanted, _ = present(settings(TABLES[1:2] if quick else TABLES, EPSILONS[1:2] if quick else EPSILONS, [None]))
    draws = min(draws, DRAWS)
    jobs = [Trial(setting, draw) for setting in wanted for draw in range(draws)]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    for setting in wanted:
        for order, classes in over_draws([found[job] for job in jobs if job.setting == setting]).items():
            work = f"k={order}, local, 95% intervals of {setting}, width over 3.92 x RMS"
            yield coverage_line(work, classes, Aim({}) if order == "1" else AIM, draws=draws)


def _kept(trial: Trial) -> Any:
    return kept_draws("local intervals", trial, draw_of, table=trial.setting.table, doors=["local"])


def draw_of(trial: Trial) -> Draw:
    """One collection, its tables against the truth: all cells, and those of more or less than 1% of the people."""
    table = real_table(trial.setting.table)
    protocol = design(table.schema, epsilon=trial.setting.epsilon, people=table.number, ways=2)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, table.codes.T.astype(np.int64)))
    out: Draw = {}
    for order, cells in held(table, collector.release(), np.random.default_rng(trial.draw)):
        large = cells[0] > table.number / 100
        add(out, str(order), cells, {"all": np.ones_like(large), ">1%": large, "<1%": ~large})
    return out


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


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table, epsilon and order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args(given)
    for setting in settings(options.tables, EPSILONS, [None]):
        draws = [draw_of(Trial(setting, draw)) for draw in range(options.draws)]
        for order, classes in over_draws(draws).items():
            print(f"{setting}, {order}: {in_words(classes)}", flush=True)


if __name__ == "__main__":
    main()
