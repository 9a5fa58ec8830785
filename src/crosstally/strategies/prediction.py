"""Predictions for any table from the measurements so far: the model with which ``adaptive`` chooses.

A table that is covered is its least-squares estimate in the residual basis. One that is not starts from the product of
its one-way tables and is raked to the largest tables inside it that are covered: what these say and nothing else
(maximum entropy, near enough to choose by). Cells below zero count as zero, and every table has the same total.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from crosstally.residuals import Estimate
from crosstally.typing import Floats

__all__ = ["predicted_tables"]

_SWEEPS = 10
"""How often a table is raked to all tables inside it. Only its distance from the truth matters, far above what is left
after ten."""


def predicted_tables(combined: Estimate, tables: Sequence[tuple[str, ...]], total: float) -> list[Floats]:
    """Each table as the measurements predict it, without negative cells; their one-way tables must be covered.

    Args:
        combined: What was measured.
        tables: The attributes of each, in the schema's order.
        total: The sum that each has.
    """
    needed = {part for names in tables for k in range(1, len(names) + 1) for part in combinations(names, k)}
    asked = sorted(needed)
    covered = [names for names, inside in zip(asked, combined.covered(asked), strict=True) if inside]
    known = {names: _scaled(table, total) for names, table in zip(covered, combined.tables(covered), strict=True)}
    return [known[names] if names in known else _raked(names, known, total) for names in tables]


def _scaled(table: Floats, total: float) -> Floats:
    """The table without what is below zero, with this total; the same everywhere if nothing is above."""
    above = np.maximum(table, 0.0)
    return above * (total / above.sum()) if above.sum() > 0 else np.full(table.shape, total / table.size)


def _raked(names: tuple[str, ...], known: dict[tuple[str, ...], Floats], total: float) -> Floats:
    table = np.array(total)
    for name in names:
        table = np.multiply.outer(table, known[(name,)] / total)
    margins = _largest_inside(names, known)
    if all(len(part) == 1 for part in margins) or len(margins) == 0:
        return table
    for _ in range(_SWEEPS):
        for part in margins:
            outside = tuple(axis for axis, name in enumerate(names) if name not in part)
            own = table.sum(axis=outside, keepdims=True)
            wanted = known[part].reshape(own.shape)
            table = table * np.divide(wanted, own, out=np.zeros_like(own), where=own > 0)
    return table


def _largest_inside(names: tuple[str, ...], known: dict[tuple[str, ...], Floats]) -> list[tuple[str, ...]]:
    """The covered tables inside a table that lie in no other such table."""
    found: list[tuple[str, ...]] = []
    for k in range(len(names) - 1, 0, -1):
        found += [
            part
            for part in combinations(names, k)
            if part in known and not any(set(part) <= set(larger) for larger in found)
        ]
    return found
