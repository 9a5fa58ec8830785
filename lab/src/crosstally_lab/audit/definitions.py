"""Privacy loss from the definitions: every unit, every pair of neighbouring tables, in plain loops.

Schemas, queries and noise are read from their JSON. Nothing here calls the code whose promise is audited: no
sensitivity, no cost and no answer of a query comes from there.

An answer to anything but a choice is linear in rows: it is the sum of what each row adds. So neighbouring
tables differ by what one unit adds, whoever else is in the table, and enumerating units is enumerating all pairs. The
scores of a choice are distances, hence not linear: pairs for them share a crowd of other rows (``CROWDS``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = tuple[int, ...]
Rows = tuple[Row, ...]
Json = Mapping[str, Any]

_ORDERS = (1.001, 1.01, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0)
"""Orders of Renyi divergences that are compared with rho: zCDP guarantees at most order x rho at each order above 1."""

CROWDS: tuple[int, ...] = (3, 10)
"""The numbers of other rows in each possible cell when the scores of a choice are compared."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring tables as rows, and the loss between them."""

    before: Rows
    after: Rows
    loss: Fraction


def sizes_of(schema: Json) -> dict[str, int]:
    """How many cells each attribute has: its labels or bins, and one each for others and for missing values."""
    return {
        each["name"]: (len(each["values"]) if "values" in each else len(each["edges"]) - 1)
        + (each.get("outside") == "other")
        + bool(each.get("missing"))
        for each in schema["attributes"]
    }


def units_of(schema: Json, *, may_drop: bool = False) -> list[Rows]:
    """All that one unit may put into the table: every multiset of rows that is allowed, the fewest rows first.

    Args:
        schema: The schema as JSON.
        may_drop: Whether a row may be left out although no attribute says so, as it is with single questions.
    """
    possible = list(product(*(range(size) for size in sizes_of(schema).values())))
    drops = may_drop or any(each.get("outside") == "drop" for each in schema["attributes"])
    most = schema["unit"]["max_rows"] if "unit" in schema else 1
    least = 0 if drops or "unit" in schema else 1
    return [rows for count in range(least, most + 1) for rows in combinations_with_replacement(possible, count)]


# Answers


def answer(query: Json, schema: Json, rows: Rows) -> NDArray[np.int64]:
    """The exact answer to a query: one number after the other; of a choice the whole score of each candidate."""
    if "choice" in query:
        return _scores(query["choice"], schema, rows)
    first = (0,) * len(schema["attributes"])
    total = np.zeros(len(_row_adds(query, schema, first)), np.int64)
    for row in rows:
        total += np.array(_row_adds(query, schema, row), np.int64)
    return total


def _row_adds(query: Json, schema: Json, row: Row) -> list[int]:
    """What one row adds to each number of an answer."""
    sizes = sizes_of(schema)
    value = dict(zip(sizes, row, strict=True))
    if "linear" in query:
        terms = ((t["weight"], [f[value[name]] for name, f in t["factors"].items()]) for t in query["linear"])
        return [sum(weight * math.prod(factors) for weight, factors in terms)]
    if "contrast" in query:
        out = [1]
        for name in query["contrast"]:
            out = [a * b for a in out for b in _contrast_column(sizes[name], value[name])]
        return out
    if "kronecker" in query:
        return _kronecker_column(query, sizes, value)
    groups = query.get("groups", {})
    out = [1]
    for name in query["cells"]:
        place = groups[name][value[name]] if name in groups else value[name]
        size = max(groups[name]) + 1 if name in groups else sizes[name]
        out = [a * int(place == cell) for a in out for cell in range(size)]
    return out


def _contrast_column(size: int, value: int) -> list[int]:
    """A column of n I - J; of two values the first minus the second."""
    if size == 2:
        return [1 - 2 * value]
    return [size * int(cell == value) - 1 for cell in range(size)]


def _kronecker_column(query: Json, sizes: Mapping[str, int], value: Mapping[str, int]) -> list[int]:
    """A column of a Kronecker product: of the matrix where an attribute has one, else of cells or of contrasts.

    Beside matrices of one row less than columns, which leave out the total, stand contrasts.
    """
    matrices = query["matrices"]
    leaves_total_out = any(len(rows) < len(rows[0]) for rows in matrices.values())
    out = [1]
    for name in query["kronecker"]:
        if name in matrices:
            column = [row[value[name]] for row in matrices[name]]
        elif leaves_total_out:
            column = _contrast_column(sizes[name], value[name])
        else:
            column = [int(cell == value[name]) for cell in range(sizes[name])]
        out = [a * b for a in out for b in column]
    return out


def _scores(choice: Json, schema: Json, rows: Rows) -> NDArray[np.int64]:
    """Weight times (distance from the reference - penalty), over the common denominator of all weights."""
    weights = [Fraction(weight) for weight in choice["weights"]]
    common = math.lcm(*(weight.denominator for weight in weights))
    out = []
    for names, reference, weight, owed in zip(
        choice["candidates"], choice["reference"], weights, choice["penalties"], strict=True
    ):
        counts = answer({"cells": names}, schema, rows)
        distance = int(np.abs(counts - np.array(reference, np.int64)).sum())
        out.append(int(weight * common) * (distance - owed))
    return np.array(out, np.int64)


# Losses


Requests = Sequence[tuple[Json, Json]]
"""The requests: each query with its noise, as JSON."""


def choice_probabilities(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """How likely each candidate is chosen: in proportion to exp(score / scale), the last axis that of candidates."""
    weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / scale)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def worst_pairs(requests: Requests, schema: Json, neighbours: str, *, pure: bool, may_drop: bool = False) -> list[Pair]:
    """The pairs of neighbouring tables of the largest loss, all of them where several have it; never none.

    The loss is epsilon when pure, otherwise rho. Discrete Laplace noise of scale b: the largest log ratio is L1 / b.
    Discrete Gaussian noise of scale s: the Renyi divergence of order a is at most a (squared L2) / (2 s^2), which it
    reaches where s is not tiny. A choice: its probabilities are written out.
    """
    units = units_of(schema, may_drop=may_drop)
    before = units if neighbours == "replace" else [()]
    best: list[Pair] = []
    for crowd in _crowds(requests, schema):
        first, second = ([_answers(requests, schema, (*crowd, *rows)) for rows in each] for each in (before, units))
        rough = np.zeros((len(before), len(units)))
        moves = []
        for number, (_, noise) in enumerate(requests):
            own = [np.array([answers[number] for answers in side]) for side in (first, second)]
            moves.append(_moves(noise, own[0], own[1], pure=pure))
            rough += moves[-1] * float(_weight(noise, pure=pure))
        for i, j in np.argwhere(rough >= rough.max() * (1 - 1e-12)).tolist():
            losses = (
                Fraction(each[i, j].item()) * _weight(noise, pure=pure)
                for each, (_, noise) in zip(moves, requests, strict=True)
            )
            best.append(Pair((*crowd, *before[i]), (*crowd, *units[j]), sum(losses, Fraction(0))))
    most = max(pair.loss for pair in best)
    return [pair for pair in best if pair.loss == most]


def _crowds(requests: Requests, schema: Json) -> list[Rows]:
    """Whoever else is in the table: nobody, and where something is chosen also many with equal rows."""
    cells = list(product(*(range(size) for size in sizes_of(schema).values())))
    if not any("choice" in query for query, _ in requests):
        return [()]
    return [(), *((cell,) * many for many in CROWDS for cell in cells)]


def _answers(requests: Requests, schema: Json, rows: Rows) -> list[NDArray[np.int64]]:
    return [answer(query, schema, rows) for query, _ in requests]


def _weight(noise: Json, *, pure: bool) -> Fraction:
    """What a move of one costs; the moves of a choice are losses already."""
    scale = Fraction(noise["scale"])
    if noise["kind"] == "gumbel":
        return Fraction(1)
    if noise["kind"] == "gaussian":
        assert not pure  # Gaussian noise has no epsilon of its own
        return 1 / (2 * scale**2)
    return 1 / scale if pure else 1 / (2 * scale**2)


def _moves(noise: Json, first: NDArray[np.int64], second: NDArray[np.int64], *, pure: bool) -> NDArray[Any]:
    """How far apart answers are, for each row of the first and of the second: L1, squared L2, or a choice's loss."""
    if noise["kind"] == "gumbel":
        return _choice_losses(first, second, noise["scale"], pure=pure)
    steps = np.abs(first[:, None] - second[None])
    if noise["kind"] == "gaussian":
        return np.asarray((steps**2).sum(axis=-1))
    return np.asarray(steps.sum(axis=-1) ** (1 if pure else 2))


def _choice_losses(
    first: NDArray[np.int64], second: NDArray[np.int64], scale: float, *, pure: bool
) -> NDArray[np.float64]:
    """The largest log ratio of the probabilities, or the least rho that all orders allow; both ways round."""
    logs = [np.log(choice_probabilities(scores, scale)) for scores in (first[:, None], second[None])]
    ratio = logs[0] - logs[1]
    if pure:
        return np.asarray(np.abs(ratio).max(axis=-1))
    rho = np.zeros(ratio.shape[:-1])
    for own, sign in ((logs[0], 1.0), (logs[1], -1.0)):
        for order in _ORDERS:
            moments = own + (order - 1) * sign * ratio
            top = moments.max(axis=-1)
            divergence = (top + np.log(np.exp(moments - top[..., None]).sum(axis=-1))) / (order - 1)
            rho = np.maximum(rho, divergence / order)
    return rho
