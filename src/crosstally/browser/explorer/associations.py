"""Which pairs of attributes are linked most strongly."""

from __future__ import annotations

import math
from itertools import combinations

from crosstally.analysis.association import cramers_v, squared_v
from crosstally.releases.release import Release
from crosstally.tables import Marginal

__all__ = ["strongest_associations"]

_BATCH = 2_000_000  # cells of pairs that are answered at once
_LARGEST_PAIR = 200_000  # cells; a larger table has too few people in a cell to say anything
_MOST_PAIRS = 20_000  # limits time: all pairs of 200 attributes. Later ones are not ranked


def strongest_associations(release: Release, number: int) -> tuple[list[tuple[tuple[str, ...], Marginal]], int]:
    """The pairs linked most strongly among those measured, with Cramér's V of each, and how many were measured.

    V is never below zero, so noise alone makes it larger; that is taken off. Pairs are ranked before that.
    """
    schema = release.schema
    pairs = [names for names in combinations(schema.names, 2) if math.prod(schema.sizes(names)) <= _LARGEST_PAIR]
    pairs = [names for names, known in zip(pairs, release.estimate.covered(pairs), strict=True) if known][:_MOST_PAIRS]
    found: list[tuple[float, Marginal]] = []
    for batch in _batches(release, pairs):
        found += [(float(squared_v(each.values[None])[0]), each) for each in release.marginals(batch)]
        found = sorted(found, key=lambda pair: -pair[0])[:number]
    out = [(each.attributes, cramers_v(each)) for _, each in found]
    return sorted(out, key=lambda each: -each[1].value), len(pairs)


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
