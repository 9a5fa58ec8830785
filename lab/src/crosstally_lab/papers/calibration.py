"""How often the intervals of default releases hold, and how wide they are, where the truth may be known.

The truth is that of generated rows or of rows that somebody asserts to be public. Each release goes through the
pipeline like any other, with a ledger in memory that ends with it: no ledger file is read or written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.pipeline import release
from crosstally.releases import Release
from crosstally.schema import Schema
from crosstally.sources import EncodedRows, encode_rows
from crosstally.typing import Floats
from crosstally_lab.generate.classes import hidden_classes

LEVEL = 0.95  # of the intervals that are counted: the one that people ask for, and releases show
# Attributes of the tables asked: those that default releases cover, and wider ones that they do not.
ORDERS = (1, 2, 3, 4, 6)
MOST_TABLES = 12
"""Tables asked of each order and release, covered and not covered each, drawn anew for every release."""
MOST_CELLS = 2_000
"""Larger tables take seconds each, and nearly all of their cells are empty."""
CLASSES = {"all": (0, math.inf), "0": (0, 0), "1-20": (1, 20), ">20": (21, math.inf)}
"""Classes of cells by their true count: most intervals that fail do so in one of them only."""
WINDOW = {ErrorKind.MODELLED: (0.92, 0.99), ErrorKind.BOUNDS: (0.92, 1.0)}
"""What share of cells is as it should be; bounds may hold always. Covered tables have ``COVERED``."""
# A window about ``LEVEL``: discrete noise and whole ends make covered intervals hold a little more often.
COVERED = (0.93, 0.985)
SURE = 0.999
"""A window is missed only where an interval of this level, by Student's law over releases, lies outside of it."""

Sums = Floats
"""Of some cells, release by release: how many, how many held, the sum of widths, the sum of squared errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Of some cells the share whose intervals held, and how wide these are."""

    _: KW_ONLY
    sums: Sums

    @property
    def cells(self) -> int:
        """How many cells, of all releases."""
        return int(self.sums[:, 0].sum())

    @property
    def held(self) -> float:
        """The share of the cells whose interval has the true count in it."""
        return float(self.sums[:, 1].sum() / self.sums[:, 0].sum())

    @property
    def width(self) -> float | None:
        """The mean width over the oracle's, 3.92 times the RMS error of the same cells; None where none errs."""
        _, _, width, squares = self.sums.sum(axis=0)
        return float(width / self.cells / (3.92 * math.sqrt(squares / self.cells))) if squares else None

    @property
    def std_error(self) -> float:
        """Of the share held; cells of one release err together, so releases are what is counted. NaN for one."""
        counts, held = self.sums[self.sums[:, 0] > 0, :2].T
        if len(counts) < 2:
            return math.nan
        # a ratio of two sums over releases: the spread of what each release adds beyond its due
        beyond = held - self.held * counts
        return float(math.sqrt(len(counts) / (len(counts) - 1) * (beyond**2).sum()) / counts.sum())

    def misses(self, least: float, most: float) -> bool:
        """Whether the share is outside of a window, and chance cannot explain it.

        Releases that happen to agree, as where all cells were held, do not make it surer than as many independent
        cells would.
        """
        edge = least if self.held < least else most
        degrees = np.count_nonzero(self.sums[:, 0]) - 1
        if least <= self.held <= most or degrees < 1:
            return False
        over_releases = stdtrit(degrees, (1 + SURE) / 2) * self.std_error
        over_cells = ndtri((1 + SURE) / 2) * math.sqrt(edge * (1 - edge) / self.cells)
        return bool(abs(self.held - edge) > max(over_releases, over_cells))


@dataclass(frozen=True, slots=True, eq=False)
class Coverage(Held):
    """The cells of one class, in tables of one order and error kind."""

    order: int
    kind: ErrorKind
    size: str

    @property
    def window(self) -> tuple[float, float]:
        """The shares that are as they should be."""
        return WINDOW.get(self.kind, COVERED)

    @property
    def verdict(self) -> str:
        """In words whether the intervals hold as often as they should."""
        least, most = self.window
        if least <= self.held <= most:
            return "as they should"
        if not self.misses(least, most):
            return "too few releases to tell whether they hold as they should"
        return "too seldom" if self.held < least else "more often than they need to: they are too wide"

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        error = self.std_error
        return {
            "order": self.order,
            "error_kind": self.kind.value,
            "cell_size": self.size,
            "cells": self.cells,
            "held": self.held,
            "std_error": None if math.isnan(error) else error,
            "width": self.width,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Coverage by order, error kind and size of cells; ``without`` tables had no intervals."""

    releases: int
    coverage: tuple[Coverage, ...]
    without: int

    def of_kind(self, kind: ErrorKind) -> Coverage | None:
        """All cells of tables of every order with this kind of error; None where there are none."""
        found = [each.sums for each in self.coverage if each.kind is kind and each.size == "all"]
        return Coverage(0, kind, "all", sums=np.sum(found, axis=0)) if found else None

    @property
    def kinds(self) -> tuple[ErrorKind, ...]:
        """The kinds of errors met, the best known first."""
        return tuple(kind for kind in ErrorKind if any(each.kind is kind for each in self.coverage))

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "level": LEVEL,
            "releases": self.releases,
            "tables_without_intervals": self.without,
            "coverage": [each.to_dict() for each in self.coverage],
        }


def _released(
    schema: Schema, budget: Budget, *, rows: int | None, public: Any, releases: int, seed: int
) -> Iterator[tuple[Release, EncodedRows]]:
    """Each release, and the rows that it is of."""

    def made(source: Any, own: Schema) -> Release:
        return release(source, own, epsilon=budget.epsilon, delta=budget.delta, rho=budget.rho)

    if rows is None:
        with closing(encode_rows(public, schema)) as truth:
            for _ in range(releases):
                yield made(public, schema), truth
        return
    for draw in range(releases):
        table, shape = hidden_classes(schema, rows, np.random.default_rng((seed, draw)))
        with closing(encode_rows(table, shape)) as truth:
            yield made(table, shape), truth


def calibrated(
    schema: Schema,
    budget: Budget,
    *,
    rows: int | None = None,
    public: Any = None,
    releases: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """The default release of so many generated rows of the schema's shape, other rows for each release.

    Where no number of rows is given it is that of ``public`` rows, again and again, which the caller asserts to be
    public: what comes out is computed from their true counts, and no budget covers it.
    """
    if releases < 1:
        raise CrosstallyError(f"releases must be at least 1, got {releases}")
    released = _released(schema, budget, rows=rows, public=public, releases=releases, seed=seed)
    found: dict[tuple[int, ErrorKind, str], Sums] = {}
    without = 0
    for draw, (one, truth) in enumerate(released):
        tables = _asked(one, np.random.default_rng((seed, draw, 1)))
        for names, exact in zip(tables, truth.count(tables), strict=True):
            answer = one.marginal(*names)
            if answer.error_kind is ErrorKind.NONE:
                without += 1
                continue
            for size, sums in _by_class(exact.counts, answer):
                key = (len(names), answer.error_kind, size)
                found.setdefault(key, np.zeros((releases, 4)))[draw] += sums
        if progress is not None:
            progress(draw + 1, releases)
    kinds, sizes = list(ErrorKind), list(CLASSES)
    ordered = sorted(found, key=lambda key: (kinds.index(key[1]), key[0], sizes.index(key[2])))
    return Calibration(releases, tuple(Coverage(*key, sums=found[key]) for key in ordered), without)


def _asked(one: Release, random: np.random.Generator) -> list[tuple[str, ...]]:
    """Different tables of each order: some that are covered, some that are not."""
    names, out = one.schema.names, list[tuple[str, ...]]()
    for order in ORDERS:
        if order > len(names):
            break
        seen: dict[tuple[str, ...], bool] = {}
        for _ in range(10 * MOST_TABLES):
            asked = tuple(names[i] for i in sorted(random.choice(len(names), order, replace=False)))
            covered = one.covers(*asked)
            if list(seen.values()).count(covered) < MOST_TABLES and math.prod(one.schema.sizes(asked)) <= MOST_CELLS:
                seen[asked] = covered
        out += seen
    return out


def summed(inside: NDArray[np.bool_], truth: Floats, values: Floats, low: Floats, high: Floats) -> list[float]:
    """Of the cells inside a class how many there are and were held, and the sums of widths and of squared errors."""
    held, width, squares = (low <= truth) & (truth <= high), high - low, (values - truth) ** 2
    return [float(each[inside].sum()) for each in (inside, held, width, squares)]


def _by_class(truth: NDArray[np.int64], answer: Marginal) -> Iterator[tuple[str, list[float]]]:
    """The sums of each class of cells that the table has."""
    low, high = answer.interval(LEVEL)
    for size, (least, most) in CLASSES.items():
        inside = (truth >= least) & (truth <= most)
        if inside.any():
            yield size, summed(inside, truth.astype(np.float64), answer.values, low, high)
