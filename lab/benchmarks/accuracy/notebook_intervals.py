"""How often 95% intervals of free answers in a notebook hold, after few and many questions, on real tables.

Past answers are drawn here with Laplace noise of a fixed size and handed to the notebook's history: what is judged is
what it makes of them. ``python -m`` this module prints a line for each table and length of the history.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.accuracy.coverage import Aim, Draw, add, coverage_line, in_words, over_draws
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.real_tables import RealTable, present_tables, real_table
from benchmarks.accuracy.settings import in_processes
from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.notebook.history.better import BetterOfBoth
from crosstally.notebook.results import Answer
from crosstally.query.linear import Linear, Term

TABLES = ("adult", "census-9")
PAST = (10, 60, 200, 600)
"""Questions asked before."""
NEW = 60
"""Questions asked of what they say, each draw."""
DRAWS = 10
SCALE = 0.001
"""The scale of past answers' noise, in rows of the table: 49 people for Adult."""
AIM = Aim({"all": (0.92, 0.98), "k=1": (0.92, 0.98)})


@dataclass(frozen=True, slots=True)
class Trial:
    """One history of a table, and new questions."""

    table: str
    past: int
    draw: int

    def __str__(self) -> str:
        return f"{self.table}, {self.past} past answers"


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Width beside the oracle's, and the share held, for each table and length of the history."""
    draws = min(draws, DRAWS)
    wanted = [(table.name, past) for table in present_tables(TABLES) for past in (PAST[:2] if quick else PAST)]
    jobs = [Trial(table, past, draw) for table, past in wanted for draw in range(draws)]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    for table, past in wanted:
        classes = over_draws([found[Trial(table, past, draw)] for draw in range(draws)])["free"]
        work = f"notebook, 95% intervals of free answers, {Trial(table, past, 0)}, width over 3.92 x RMS"
        yield coverage_line(work, classes, AIM, draws=draws)


def _kept(trial: Trial) -> Any:
    return kept_draws("notebook intervals", trial, draw_of, table=trial.table, doors=["notebook"])


def draw_of(trial: Trial) -> Draw:
    """New questions to one history, all and by number of attributes."""
    table = real_table(trial.table)
    random = np.random.default_rng((trial.past, trial.draw))
    noise = Noise(NoiseKind.LAPLACE, SCALE * table.number)
    asked = [question(table.schema, random) for _ in range(trial.past)]
    past = [
        Measurement(
            query,
            np.array(truth(table, query) + round(random.laplace(0, noise.scale))),
            variance=noise.variance,
            noise=noise,
            origin="benchmark",
        )
        for query in asked
    ]
    new = [question(table.schema, random) for _ in range(NEW)]
    found = BetterOfBoth(table.schema, past, total=table.number).estimates(new)
    answers = [
        Answer("", float(value), std_error=float(error), tails=float(tails), student=float(student))
        for value, error, tails, student in zip(found.values, found.std_errors, found.tails, found.student, strict=True)
    ]
    numbers = [
        (truth(table, query), each.value, *each.interval(0.95)) for query, each in zip(new, answers, strict=True)
    ]
    orders = np.array([len(query.terms[0].factors) for query in new])
    out: Draw = {}
    by_order = {f"k={k}": orders == k for k in (1, 2, 3)}
    add(out, "free", np.array(numbers, float).T, {"all": orders > 0, **by_order})
    return out


def question(schema: ct.Schema, random: np.random.Generator) -> Linear:
    """How many have, in each of one to three attributes, a value, one of a range, or one of a set."""
    number = min(int(random.integers(1, 4)), len(schema.names))
    chosen = sorted(random.choice(len(schema.names), number, replace=False).tolist())
    factors = [(schema.names[i], tuple(_values(schema.shape[i], random).astype(int).tolist())) for i in chosen]
    return Linear((Term(1, tuple(factors)),))


def _values(size: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """A value, a range or a set, never empty."""
    kind, values = random.integers(3), np.arange(size)
    if kind == 0:
        return values == random.integers(size)
    if kind == 1:
        low, high = np.sort(random.choice(size + 1, 2, replace=False))
        return (values >= low) & (values < high)
    return (random.random(size) < 0.5) | (values == random.integers(size))


def truth(table: RealTable, query: Linear) -> int:
    """The true answer, counted from the codes and not by the library."""
    inside = np.ones(table.number, np.bool_)
    for name, weights in query.terms[0].factors:
        inside &= np.array(weights, np.bool_)[table.codes[:, table.schema.positions[name]]]
    return int(inside.sum())


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each table and length of the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--past", nargs="*", type=int, default=PAST)
    options = parser.parse_args(given)
    for table in options.tables:
        for past in options.past:
            draws = [draw_of(Trial(table, past, draw)) for draw in range(options.draws)]
            print(f"{Trial(table, past, 0)}: {in_words(over_draws(draws)['free'])}", flush=True)


if __name__ == "__main__":
    main()
