"""How strongly two attributes are linked, with an interval that accounts for the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from crosstally.answers.intervals import RepeatedEnds
from crosstally.releases.release import Release
from crosstally.tables import Marginal
from crosstally.typing import Floats

__all__ = ["Association", "cramers_v", "strongest_associations"]

_BATCH = 2_000_000  # cells of pairs that are answered at once
_LARGEST_PAIR = 200_000  # cells; a larger table has too few people in a cell to say anything
_MOST_PAIRS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """Two attributes, Cramér's V of their table, and the ends of its interval, NaN where the noise is not repeated."""

    names: tuple[str, str]
    value: float
    low: float
    high: float


def cramers_v(tables: Floats) -> Floats:
    """Cramér's V of each of a stack of tables of two attributes; 0 where nobody is.

    >>> cramers_v(np.array([[[10.0, 0.0], [0.0, 10.0]], [[5.0, 5.0], [5.0, 5.0]]]))
    array([1., 0.])
    """
    tables = np.maximum(tables, 0.0)
    total = tables.sum(axis=(1, 2))
    expected = tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        # chi-square over the number of people is the sum of p^2 / (row share x column share), less one
        parts = np.where(expected > 0, tables**2 / expected, 0.0)
    squares = (np.maximum(parts.sum(axis=(1, 2)) - 1, 0.0)) / max(min(tables.shape[1:]) - 1, 1)
    return np.where(total > 0, np.sqrt(np.minimum(squares, 1.0)), 0.0)


def strongest_associations(release: Release, number: int) -> tuple[list[Association], int]:
    """The pairs of attributes linked most strongly among those measured, and how many were measured.

    V is never below zero, so noise alone makes it larger. The replicates of the inference show by how much: that is
    taken off. Pairs are ranked before that.
    """
    schema = release.schema
    pairs = [names for names in combinations(schema.names, 2) if math.prod(schema.sizes(names)) <= _LARGEST_PAIR]
    pairs = [names for names, known in zip(pairs, release.estimate.covered(pairs), strict=True) if known][:_MOST_PAIRS]
    found: list[tuple[float, Marginal]] = []
    for batch in _batches(release, pairs):
        found += [(float(cramers_v(each.values[None])[0]), each) for each in release.marginals(batch)]
        found = sorted(found, key=lambda pair: -pair[0])[:number]
    out = [_with_interval(value, each) for value, each in found]
    return sorted(out, key=lambda each: -each.value), len(pairs)


def _batches(release: Release, pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    out: list[list[tuple[str, str]]] = []
    cells = _BATCH
    for names in pairs:
        size = math.prod(release.schema.sizes(names))
        if cells + size > _BATCH:
            out.append([])
            cells = 0
        out[-1].append(names)
        cells += size
    return out


def _with_interval(value: float, marginal: Marginal) -> Association:
    first, second = marginal.attributes
    if not isinstance(marginal.ends, RepeatedEnds):
        return Association(names=(first, second), value=value, low=math.nan, high=math.nan)
    from scipy.special import stdtrit

    again = cramers_v(marginal.ends.tables())
    truth, repeats = float(again[0]), again[1:]
    best = float(np.clip(value - (repeats.mean() - truth), 0.0, 1.0))
    half = float(stdtrit(len(repeats), 0.975)) * float(np.sqrt(((repeats - truth) ** 2).mean()))
    low, high = min(best - half, value, truth), max(best + half, value, truth)
    low, high = float(np.clip(low, 0.0, 1.0)), float(np.clip(high, 0.0, 1.0))
    return Association(names=(first, second), value=best, low=low, high=high)
