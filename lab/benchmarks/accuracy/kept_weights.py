"""What intervals lose because replicates keep the blends and mixtures of the release instead of choosing them anew.

``python -m`` this module prints for each real table and budget how many cells of covered tables are held: with the
decisions kept, and with all of them made again in each replicate. Releases are the same, and so is the noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import crosstally as ct
from benchmarks.accuracy.coverage import Draw, add, in_words, over_draws
from benchmarks.accuracy.intervals import BUDGETS
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.real_tables import real_table
from benchmarks.accuracy.settings import Setting, in_processes, truth_of
from crosstally.answers.intervals import Covered
from crosstally.inference.bootstrap import REPLICATES, bootstrapped
from crosstally.inference.estimates import Inference, infer
from crosstally.inference.shrink import shrunk
from crosstally.typing import Floats

TABLES = ("acs", "msnbc")
ORDERS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Trial:
    """One release of a setting."""

    setting: Setting
    draw: int


def deciding_anew(inference: Inference) -> Inference:
    """The same inference, except that every repetition chooses its own mixtures and blends."""

    def correct(linear: Floats) -> Floats:
        combined = replace(inference.linear, coefficients=linear)
        return shrunk(combined, inference.measurements, inference.averages, inference.views).coefficients

    return replace(inference, correct=correct)


def held(trial: Trial) -> Draw:
    """Covered tables of one release against the truth, by both kinds of replicates."""
    setting = trial.setting
    table, truth = real_table(setting.table), truth_of(setting.table, ORDERS)
    release = ct.release(table.rows, table.schema, epsilon=setting.epsilon, delta=setting.delta)
    inference = infer(table.schema, release.measurements)
    ways = {"kept": inference, "anew": deciding_anew(inference)}
    found = {name: bootstrapped(way, number=REPLICATES) for name, way in ways.items()}
    out: Draw = {}
    for asked in (names for tables in truth.asked.values() for names in tables if release.covers(*names)):
        exact, values = table.counts(asked).ravel(), release.marginal(*asked).values
        for name, bootstrap in found.items():
            spread = Covered(lambda each=bootstrap: each, inference.estimate, asked).spread(None)  # type: ignore[misc]
            ends = spread.interval_around(values, 0.95)
            cells = np.stack([np.asarray(each, float).ravel() for each in (exact, values, *ends)])
            add(out, name, cells, {"all": np.ones(len(exact), bool), "k=1": np.full(len(exact), len(asked) == 1)})
    return out


def _kept(trial: Trial) -> Draw:
    return kept_draws("kept weights", trial, held, table=trial.setting.table)


def main(given: Sequence[str] | None = None) -> None:
    """Print two lines for each table and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args(given)
    for setting in [Setting(t, e, d) for t in options.tables for e, d in BUDGETS if e == "1"]:
        draws = list(in_processes(_kept, [Trial(setting, draw) for draw in range(options.draws)]))
        for name, classes in over_draws(draws).items():
            print(f"{setting}, decisions {name}: {in_words(classes)}", flush=True)


if __name__ == "__main__":
    main()
