"""How often the 95% intervals of what people compute from tables hold: shares, differences, ratios, sums, SQL, means.

Each release has a few tables drawn at random, and from each every figure. The truth of a figure is worked out here from
the rows, not by the library. Beside each kind stands the share that would hold if every interval had 0.9 of its width:
a check that would let those pass decides nothing. ``z`` is (value - truth) / std_error of cells above three of them.

``python -m`` this module prints a line for each kind over all tables and budgets. Draws are kept, so that a run that
was stopped goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.accuracy.coverage import Aim, Cells, Draw, add, coverage_line, over_draws
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.real_tables import RealTable, real_table
from benchmarks.accuracy.settings import DELTA, Setting, in_processes, present, print_lines, settings
from crosstally.answers.marginal import ErrorKind, Marginal

TABLES = ("adult", "fars-8", "acs-8", "census-9", "msnbc-9", "people")
QUICK_TABLES = ("people",)
DRAWS = 42
"""Of each of twelve settings: 504 releases."""
PAIRS = 3
"""Pairs asked of each release, drawn anew."""
MOST_CELLS = 2_000
NARROWED = "0.9 x"
QUOTED = 20
"""Readers quote cells whose estimate is at least this."""

LEAST_ROW = 100
"""Nobody compares shares of a handful."""

POINT = Aim({"all": (0.93, 0.98)})
AT_LEAST = Aim({"all": (0.93, 1)})
Z = "z"

Truth = NDArray[np.float64]
Found = Iterator[tuple[str, Cells]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A pair of attributes: the noisy table, and the true one."""

    table: RealTable
    release: ct.Release
    names: tuple[str, str]
    answer: Marginal
    truth: Truth

    def labels(self, axis: int) -> tuple[str, ...]:
        """The labels of one of the two attributes."""
        return self.answer.schema.attributes[axis].labels


def ends(figure: Marginal, truth: Truth) -> Cells:
    """Truth, value, low and high of each figure, in a row; those that are not a number are left out."""
    low, high = figure.interval(0.95)
    cells = np.stack([np.asarray(each, float).ravel() for each in (truth, figure.values, low, high)])
    return cells[:, np.isfinite(cells[:2]).all(axis=0)]


def counts(asked: Asked, _: np.random.Generator) -> Found:
    """Cells of the pair, and those that readers quote."""
    cells = ends(asked.answer, asked.truth)
    yield "cells", cells
    yield f"cells, estimate at least {QUOTED}", cells[:, cells[1] >= QUOTED]


def shares(asked: Asked, random: np.random.Generator) -> Found:
    """Shares of all, of a row, and differences between the rows of two labels."""
    yield "shares of all", ends(asked.answer.shares(), asked.truth / asked.truth.sum())
    first, second = random.choice(len(asked.labels(0)), 2, replace=False)
    rows = asked.answer.sum(asked.names[1]).values
    if min(rows[first], rows[second]) < LEAST_ROW:
        return
    within = asked.answer.shares(asked.names[0])
    true = asked.truth / np.maximum(asked.truth.sum(axis=1, keepdims=True), 1)
    one, other = (within.sel({asked.names[0]: asked.labels(0)[each]}) for each in (first, second))
    yield "shares of a row", ends(one, true[first])
    yield "differences of shares", ends(one - other, true[first] - true[second])


def sums(asked: Asked, random: np.random.Generator) -> Found:
    """Sums over groups of labels, each label in one of two at random."""
    inside = random.random(len(asked.labels(0))) < 0.5
    if not 1 < inside.sum() < len(inside):
        return
    chosen = [label for label, one in zip(asked.labels(0), inside, strict=True) if one]
    grouped = asked.answer.group(asked.names[0], {"some of them": chosen})
    row = grouped.sel({asked.names[0]: "some of them"})
    yield "sums over groups", ends(row, asked.truth[inside].sum(axis=0))


def ratios(asked: Asked, random: np.random.Generator) -> Found:
    """Odds ratios and relative risks of two labels of each attribute, of cells that are at least readable."""
    places = [random.choice(len(asked.labels(axis)), 2, replace=False) for axis in (0, 1)]
    picked = {
        name: [asked.labels(axis)[i] for i in places[axis]]
        for axis, name in enumerate(asked.names)
        if len(asked.labels(axis)) > 1
    }
    four = asked.answer.sel(picked)
    if (four.values < 3 * four.std_error).any():
        return
    (a, b), (c, d) = asked.truth[np.ix_(*places)]
    with np.errstate(divide="ignore", invalid="ignore"):
        yield "odds ratios", ends(ct.analysis.odds_ratio(four), np.array(a * d / (b * c)))
        yield "relative risks", ends(ct.analysis.relative_risk(four), np.array(a * (c + d) / (c * (a + b))))


def sql(asked: Asked, _: np.random.Generator) -> Found:
    """Shares and differences as SQL computes them."""
    first, second = (f'"{name}"' for name in asked.names)
    share = f"count(*) / sum(count(*)) OVER (PARTITION BY {first})"
    found = asked.release.sql(f"SELECT {first}, {second}, {share} AS share FROM people GROUP BY {first}, {second}")
    true = asked.truth / np.maximum(asked.truth.sum(axis=1, keepdims=True), 1)
    places = [{label: i for i, label in enumerate(asked.labels(axis))} for axis in (0, 1)]
    rows = [row for row in found.rows() if None not in row]
    truth = [true[places[0][str(row[0])], places[1][str(row[1])]] for row in rows]
    cells = np.array([[t, *map(float, row[2:])] for t, row in zip(truth, rows, strict=True)]).reshape(-1, 4).T
    yield "SQL shares", cells


def rates(asked: Asked, random: np.random.Generator) -> Found:
    """Counts over public numbers, up to three times the true ones."""
    people = np.maximum(asked.truth, 1) * random.uniform(1, 3, asked.truth.shape)
    yield "rates", ends(asked.answer / people, asked.truth / people)


def associations(asked: Asked, _: np.random.Generator) -> Found:
    """Cramér's V; where its true value is within two standard errors of zero it may hold more often."""
    expected = np.outer(asked.truth.sum(axis=1), asked.truth.sum(axis=0)) / asked.truth.sum()
    parts = np.divide((asked.truth - expected) ** 2, expected, out=np.zeros_like(expected), where=expected > 0)
    truth = math.sqrt(parts.sum() / asked.truth.sum() / (min(asked.truth.shape) - 1))
    found = ct.analysis.cramers_v(asked.answer)
    low, high = found.interval(0.95)
    clear = truth > (float(high) - float(low)) / 2
    yield f"Cramér's V, {'clear of zero' if clear else 'near zero'}", ends(found, np.array(truth))


def numbers(asked: Asked, _: np.random.Generator) -> Found:
    """Means and medians of the numbers behind bins, for each value of the other attribute that has 100 rows."""
    for axis, name in enumerate(asked.names):
        column = asked.table.rows[name]
        if not asked.answer.schema[name].edges or not pa.types.is_integer(column.type):
            continue
        other = asked.names[1 - axis]
        codes, values = asked.table.codes[:, asked.table.schema.positions[other]], column.to_numpy()
        for quantity, function in (("means of bins", np.mean), ("medians of bins", _median)):
            groups = [values[codes == code] for code in range(len(asked.labels(1 - axis)))]
            truth = np.array([float(function(each)) if len(each) >= LEAST_ROW else np.nan for each in groups])
            ask = ct.analysis.mean if quantity.startswith("means") else partial(ct.analysis.quantile, q=0.5)
            yield quantity, ends(ask(asked.answer, name, whole=True), truth)


def _median(values: Truth) -> float:
    """The least number that half of the rows do not exceed."""
    return float(np.quantile(values, 0.5, method="inverted_cdf"))


def computed(asked: Asked, _: np.random.Generator) -> Found:
    """A function of the user's own: the chance that two people differ in both attributes."""
    own = asked.release.compute(_diversity, [asked.names])
    yield "a function of one's own", ends(own, np.array(_diversity(asked.truth)))


def _diversity(table: Truth) -> float:
    shares = table / table.sum()
    same = (float((shares.sum(axis=axis) ** 2).sum()) for axis in (0, 1))
    return 1 - sum(same) + float((shares**2).sum())


FIGURES: Sequence[Callable[[Asked, np.random.Generator], Found]] = (
    counts,
    shares,
    sums,
    ratios,
    sql,
    rates,
    associations,
    numbers,
    computed,
)
AIMS = {
    "cells": Aim({"all": (0.93, 0.99)}),
    "Cramér's V, near zero": AT_LEAST,
    "means of bins": AT_LEAST,
    "medians of bins": AT_LEAST,
}
"""Other kinds have ``POINT``."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One release of a setting."""

    setting: Setting
    draw: int


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """A line for each kind of figure over all settings, and one for z."""
    wanted, _ = present(settings(QUICK_TABLES if quick else TABLES, ["1"], [None, DELTA]))
    yield from lines(wanted, draws if quick else DRAWS)


def lines(wanted: Sequence[Setting], draws: int) -> Iterator[dict[str, Any]]:
    """Draws are the outer loop: a run that stops has some of each setting."""
    jobs = [Trial(setting, draw) for draw in range(draws) for setting in wanted]
    found = list(in_processes(_kept, jobs))
    for kind, classes in over_draws(found).items():
        if kind == Z:
            squares, cells = classes["all"].sums.sum(axis=0)[[3, 0]]
            yield _line_of_z(math.sqrt(squares / cells), int(cells), len(jobs))
            continue
        made = coverage_line(f"95% intervals of {kind}", classes, AIMS.get(kind, POINT), draws=len(jobs))
        yield {**made, "note": made["note"] + _rejected(classes, AIMS.get(kind, POINT))}


def _rejected(classes: Any, aim: Aim) -> str:
    least, most = aim.held["all"]
    return "" if classes[NARROWED].misses(least, most) else "; 0.9 x the widths would pass too"


def _line_of_z(found: float, cells: int, releases: int) -> dict[str, Any]:
    note = f"{releases} draws, {cells:,} cells above three standard errors; aim 0.9 to 1.1"
    met = 0.9 <= found <= 1.1
    return line("RMS of (value - truth) / std_error", found, 1.0, None, unit="x", met=met, note=note)


def _kept(trial: Trial) -> Any:
    return kept_draws("figures", trial, draw_of, table=trial.setting.table, doors=["sql"])


def draw_of(trial: Trial) -> Draw:
    """One release, and what is computed from some of its pairs against the truth."""
    setting, random = trial.setting, np.random.default_rng(trial.draw)
    table, budget = real_table(setting.table), setting.budget
    release = ct.release(table.rows, table.schema, epsilon=budget.epsilon, delta=budget.delta)
    out: Draw = {}
    for asked in pairs(table, release, random):
        for figure in FIGURES:
            for kind, cells in figure(asked, random):
                put(out, kind, cells)
        put_z(out, asked)
    return out


def pairs(table: RealTable, release: ct.Release, random: np.random.Generator) -> Iterator[Asked]:
    """Some pairs of at most 2,000 cells whose error is that of measurements."""
    names, found = table.schema.names, 0
    for _ in range(20 * PAIRS):
        first, second = (names[i] for i in sorted(random.choice(len(names), 2, replace=False)))
        if found == PAIRS or math.prod(table.schema.sizes((first, second))) > MOST_CELLS:
            continue
        answer = release.marginal(first, second)
        if answer.error_kind in (ErrorKind.EXACT, ErrorKind.CORRECTED):
            found += 1
            yield Asked(table, release, (first, second), answer, table.counts((first, second)).astype(float))


def put(draw: Draw, kind: str, cells: Cells) -> None:
    """Add figures to those of their kind, as they are and with 0.9 of their width."""
    if not cells.size:
        return
    truth, values, low, high = cells
    narrowed = [values + 0.9 * (end - values) for end in (low, high)]
    everywhere = np.ones(truth.shape, bool)
    add(draw, kind, cells, {"all": everywhere})
    add(draw, kind, np.stack([truth, values, *narrowed]), {NARROWED: everywhere})


def put_z(draw: Draw, asked: Asked) -> None:
    """The squares of z, as squared errors of a figure of its own."""
    errors = np.broadcast_to(asked.answer.std_error, asked.truth.shape)
    clear = (asked.answer.values > 3 * errors) & (errors > 0)
    z = (asked.answer.values - asked.truth)[clear] / errors[clear]
    if z.size:
        zero = np.zeros_like(z)
        add(draw, Z, np.stack([zero, z, zero, zero]), {"all": np.ones(z.shape, bool)})


def main(given: Sequence[str] | None = None) -> None:
    """Print a line for each kind of figure."""
    print_lines(lines, given, about=__doc__, tables=TABLES)


if __name__ == "__main__":
    main()
