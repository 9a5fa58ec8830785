"""AIM's choice by the formulas of its paper, slowly: the estimate by raking, one cell after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import pi, prod, sqrt
from typing import Any

import numpy as np

Tables = dict[tuple[str, ...], "np.ndarray[Any, Any]"]


def slow_prediction(names: tuple[str, ...], known: Tables, total: float) -> np.ndarray[Any, Any]:
    """The product of one-way tables, each cell multiplied by wanted / own for each known table inside, ten times."""
    sizes = [known[(name,)].size for name in names]
    cells = list(product(*map(range, sizes)))
    table = {c: total * prod(known[(n,)][v] / total for n, v in zip(names, c, strict=True)) for c in cells}
    inside = [part for k in range(len(names) - 1, 0, -1) for part in combinations(names, k) if part in known]
    largest = [part for part in inside if not any(set(part) < set(other) for other in inside)]
    for _ in range(10):
        for part in largest:
            axes = [names.index(name) for name in part]
            own: dict[tuple[int, ...], float] = {}
            for c, value in table.items():
                key = tuple(c[axis] for axis in axes)
                own[key] = own.get(key, 0.0) + value
            for c in cells:
                key = tuple(c[axis] for axis in axes)
                table[c] *= float(known[part][key]) / own[key] if own[key] > 0 else 0.0
    return np.array([table[c] for c in cells]).reshape(sizes)


def slow_choice(
    sizes: Sequence[int],
    seen: Sequence[Any],
    wanted: Sequence[tuple[str, ...]],
    *,
    amount: float,
    pure: bool,
    relation: str,
) -> dict[tuple[str, ...], tuple[np.ndarray[Any, Any], float, float]]:
    """For each candidate, smallest first: the estimate's cells, AIM's weight over the largest, the mean L1 of noise."""
    size = {f"a{i}": n for i, n in enumerate(sizes)}
    full, covered = _least_squares(sizes, [each for each in seen if not hasattr(each.query, "candidates")])
    total = max(float(full.sum()), 1.0)
    inside = {part for table in wanted for k in range(2, len(table) + 1) for part in combinations(table, k)}
    known = {}
    for part in [p for k in range(1, len(sizes) + 1) for p in combinations(size, k)]:
        if covered(part):
            above = np.maximum(_margin(full, part), 0.0)
            known[part] = above * total / above.sum()
    moved = 2 if relation == "replace" else 1
    mean = moved / amount if pure else sqrt(moved / (2 * amount)) * sqrt(2 / pi)
    raw = {part: sum(len({*part} & {*table}) for table in wanted) for part in inside}
    out = {}
    for part in sorted(inside, key=lambda names: (prod(size[n] for n in names), names)):
        noise = prod(size[n] for n in part) * mean
        if not pure and all(covered(smaller) for smaller in combinations(part, len(part) - 1)):
            noise *= prod(1 - 1 / size[n] for n in part)
        table = known[part] if part in known else slow_prediction(part, known, total)
        out[part] = (table.ravel(), raw[part], noise)
    kept = {part: each for part, each in out.items() if round(each[2]) < 2 * total} or out
    most = max(raw[part] for part in kept)
    return {part: (table, weight / most, noise) for part, (table, weight, noise) in kept.items()}


def _margin(full: np.ndarray[Any, Any], names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    return np.asarray(full.sum(axis=tuple(i for i in range(full.ndim) if f"a{i}" not in names)))


def _least_squares(sizes: Sequence[int], seen: Sequence[Any]) -> tuple[np.ndarray[Any, Any], Any]:
    """The shortest least-squares table over all attributes, and whether the measurements fix a table."""
    from reference_privacy import answer

    schema = {"attributes": [{"name": f"a{i}", "values": list(range(n))} for i, n in enumerate(sizes)]}
    cells = list(product(*map(range, sizes)))

    def columns(query: dict[str, Any]) -> np.ndarray[Any, Any]:
        return np.array([answer(query, schema, (cell,)) for cell in cells], float).T

    weighted = [columns(each.query.to_dict()) / sqrt(each.variance) for each in seen]
    values = [np.asarray(each.values, float).ravel() / sqrt(each.variance) for each in seen]
    matrix, inverse = np.vstack(weighted), np.linalg.pinv(np.vstack(weighted), rcond=1e-10)

    def covered(names: tuple[str, ...]) -> bool:
        asked = columns({"cells": list(names)})
        return bool(np.allclose(asked @ inverse @ matrix, asked, atol=1e-7))

    return (inverse @ np.concatenate(values)).reshape(tuple(sizes)), covered
