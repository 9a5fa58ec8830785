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

from crosstally.notebook.history.bundles import Positions
from crosstally.notebook.history.constraints import Problem
from crosstally.notebook.history.prior import Prior
from crosstally.typing import Floats

# The share of the prior in adapted proposals. Chosen: 0 would never propose a value that no row has; more take longer.
_KEPT_PRIOR = 0.2


class CellsOf:
    """The cells of some attributes: combinations of classes of their values (``constraints``).

    ``number`` is how many there are; ``shifts`` has for each attribute what each of its values adds to the number of
    the cell.

    >>> cells = CellsOf((0, 2), (np.array([0, 1]), np.array([0, 0, 1])))
    >>> cells.number, cells.of(np.array([[1, 5, 2], [0, 5, 1]])).tolist()
    (4, [3, 0])
    """

    def __init__(self, positions: Positions, classes: Sequence[NDArray[np.intp]]) -> None:
        self.positions = positions
        sizes = [int(own.max()) + 1 for own in classes]
        self.number = math.prod(sizes)
        self.shifts = tuple(math.prod(sizes[axis + 1 :]) * own for axis, own in enumerate(classes))

    def of(self, codes: NDArray[np.int32]) -> NDArray[np.intp]:
        """The cell of each row."""
        out = np.zeros(len(codes), np.intp)
        for position, own in zip(self.positions, self.shifts, strict=True):
            out += own[codes[:, position]]
        return out

    def counted(self, codes: NDArray[np.int32]) -> NDArray[np.intp]:
        """How many rows are in each cell."""
        return np.bincount(self.of(codes), minlength=self.number)


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
        singles = range(len(shape)) if adaptive else ()
        self.tables = [
            *(CellsOf(each.positions, each.sorting(shape)) for each in posed.constraints),
            *(CellsOf((k,), (np.arange(shape[k]),)) for k in singles),
        ]
        self._tilts = [np.zeros(shape[k]) for k in singles]
        ends = np.cumsum([0, *(each.number for each in self.tables)]).astype(np.int64)
        self.parts = [slice(a, b) for a, b in pairwise(ends)]
        self._attributes, self._moves, self._shifts = _moves(self.tables, ends, shape)
        self._proposals = _proposals(posed.prior)
        self.counts = self._counted()

    def _counted(self) -> NDArray[np.int64]:
        found = [each.counted(self.codes) for each in self.tables]
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
        taken = sweep(moved, self._attributes, self._moves, self._shifts, flat, self.counts, self._proposals, seed)
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
    tables: Sequence[CellsOf], starts: NDArray[np.int64], shape: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    """For each attribute the tables that hold it, and what each of its values adds to their cells (see the kernel)."""
    held: list[list[tuple[int, NDArray[np.intp]]]] = [[] for _ in shape]
    for t, each in enumerate(tables):
        for axis, (position, shifts) in enumerate(zip(each.positions, each.shifts, strict=True)):
            held[position].append((t, shifts if axis else shifts + starts[t]))
    ends = np.cumsum([0, *map(len, held)])
    rows = np.cumsum([0, *(len(own) * n for own, n in zip(held, shape, strict=True))])
    attributes = np.column_stack([ends[:-1], ends[1:], np.array(shape), rows[:-1]]).astype(np.int64)
    moves = np.array([t for own in held for t, _ in own], np.uint32)
    flat = [np.stack([shifts for _, shifts in own], axis=1).ravel() for own in held if own]
    return np.ascontiguousarray(attributes), moves, np.concatenate([*flat, np.empty(0, np.intp)]).astype(np.uint32)


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
