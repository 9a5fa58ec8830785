"""Sample rows by Metropolis-Hastings moves under tables of log-weights, and count the rows in each cell of the tables.

Rows have the law prod_k p_k(x_k) exp(sum_t L_t[cell_t]) up to a factor: p_k is the prior of attribute k, L_t the
log-weights of table t and cell_t the cell that the row is in. A move of attribute k from x to x' is drawn from q_k and
accepted with probability min(1, a),

    a = exp(change of sum_t L_t) (p_k(x') / q_k(x')) / (p_k(x) / q_k(x)).

At first q_k = p_k and the last factors cancel; later q_k is a mixture of p_k and the shares of values among the rows
(``Chain.adapt``), so that rare values are proposed rarely. The kernel has the exponential only, so log(p_k / q_k) is
added as one more table L for each attribute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.constraints import Problem
from crosstally.notebook.history.prior import Prior
from crosstally.typing import Floats

__all__ = ["Chain"]

# The share of the prior in adapted proposals. Chosen: 0 would never propose a value that no row has; more take longer.
_KEPT_PRIOR = 0.2


class Chain:
    """Sampled rows, and the cells of the constraints' tables in which they are.

    ``codes`` (rows, attributes) are the numbers of values, ``counts`` (cells of all tables, one table after the other)
    the rows in each cell. An adaptive chain has one further table for each attribute after the others: see the module.
    """

    def __init__(self, posed: Problem, rows: int, random: np.random.Generator, *, adaptive: bool = False) -> None:
        self.random, self.prior = random, posed.prior
        shape = posed.schema.shape
        self.codes = np.empty((rows, len(shape)), np.int32)
        for k, probabilities in enumerate(posed.prior.probabilities):
            self.codes[:, k] = random.choice(shape[k], rows, p=probabilities)
        self.asked = len(posed.constraints)
        singles = [(k,) for k in range(len(shape))] if adaptive else []
        self.tables = [*(each.positions for each in posed.constraints), *singles]
        self._tilts = [np.zeros(shape[k]) for (k,) in singles]
        self.sizes = [tuple(shape[p] for p in positions) for positions in self.tables]
        ends = np.cumsum([0, *map(math.prod, self.sizes)]).astype(np.int64)
        self.offsets, self.parts = ends[:-1].copy(), [slice(a, b) for a, b in pairwise(ends)]
        self._attributes, self._moves = _moves(self.tables, self.sizes, shape)
        self._proposals = _proposals(posed.prior)
        self.counts = self._counted()

    def _counted(self) -> NDArray[np.int64]:
        columns = self.codes.T
        found = [
            np.bincount(np.ravel_multi_index([columns[p] for p in where], sizes), minlength=math.prod(sizes))
            for where, sizes in zip(self.tables, self.sizes, strict=True)
        ]
        return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)

    def shares(self) -> list[Floats]:
        """The share of the rows in each cell, table by table of the constraints."""
        return self._shares[: self.asked]

    @property
    def _shares(self) -> list[Floats]:
        return [self.counts[part] / len(self.codes) for part in self.parts]

    def adapt(self) -> None:
        """From now on propose values about as often as rows have them; the distribution of the rows stays the same."""
        prior = self.prior.probabilities
        found = [
            _KEPT_PRIOR * before + (1 - _KEPT_PRIOR) * now
            for before, now in zip(prior, self._shares[self.asked :], strict=True)
        ]
        self._tilts = [np.log(before / now) for before, now in zip(prior, found, strict=True)]
        self._proposals = _proposals(Prior(self.prior.schema, tuple(each / each.sum() for each in found)))

    def sweep(self, log_weights: Sequence[Floats], rows: NDArray[np.intp] | None = None) -> float:
        """Propose a move of every attribute of every row, or of a run of rows, once; return the acceptance rate."""
        from crosstally.kernels.metropolis_hastings import sweep

        flat = np.concatenate([*log_weights, *self._tilts]) if self.tables else np.empty(0)
        seed = np.uint64(self.random.integers(1, 2**63))
        moved = self.codes if rows is None else self.codes[rows[0] : rows[-1] + 1]
        taken = sweep(moved, self._attributes, self._moves, self.offsets, flat, self.counts, self._proposals, seed)
        return float(taken) / max(moved.size, 1)

    def grow(self, rows: int) -> None:
        """Copy rows until there are this many."""
        self.codes = np.resize(self.codes, (rows, self.codes.shape[1]))
        self.counts = self._counted()

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Only these rows."""
        self.codes = np.ascontiguousarray(self.codes[rows])
        self.counts = self._counted()


def _moves(
    tables: Sequence[Sequence[int]], sizes: Sequence[Sequence[int]], shape: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each attribute the tables that hold it, and how far their cells move with its values."""
    held: list[list[tuple[int, int]]] = [[] for _ in shape]
    for t, (positions, lengths) in enumerate(zip(tables, sizes, strict=True)):
        for axis, position in enumerate(positions):
            held[position].append((t, math.prod(lengths[axis + 1 :])))
    ends = np.cumsum([0, *map(len, held)])
    attributes = np.column_stack([ends[:-1], ends[1:], np.array(shape)]).astype(np.int64)
    moves = np.array([move for each in held for move in each], np.int64).reshape(-1, 2)
    return np.ascontiguousarray(attributes), moves


def _proposals(prior: Prior) -> Floats:
    """For each value of each attribute how likely it stands for itself, and what else it stands for (alias method)."""
    out = np.zeros((len(prior.probabilities), max(map(len, prior.probabilities)), 2))
    for k, probabilities in enumerate(prior.probabilities):
        n = len(probabilities)
        left = probabilities * n
        out[k, :n, 0], out[k, :n, 1] = 1.0, np.arange(n)
        low, high = (np.flatnonzero(mask).tolist() for mask in (left < 1, left >= 1))
        while low and high:
            small, large = low.pop(), high[-1]
            out[k, small] = left[small], large
            left[large] -= 1 - left[small]
            if left[large] < 1:
                low.append(high.pop())
    return out
