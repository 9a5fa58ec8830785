"""The distribution of largest entropy that fits the answers, and rows drawn from it (EDBT 2012, section 4).

It has the form p0(t) exp(sum of w_i f_i(t)) / Z, where w maximises sum w_i pi_i - ln Z within |w_i| <= beta_i. The
gradient is pi_i minus the mean of f_i, and the Hessian minus the covariance of the f_i (equation 39 lacks that sign).
The means are those of a sample of rows that is kept and moved on by one sweep of Metropolis-Hastings moves after every
change of the weights. Proposals come from the prior. Nothing grows with the number of possible rows.

The paper moves every weight by gamma = 1e-4 times its gradient after every row; a cell that holds one row in 10,000
then needs 10^8 rows to be learned. Here a step is divided by the variance of its query, or by the scale of its noise
where that is larger, which has the same optimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.generate.labelled import labelled_rows
from crosstally.measurements import Measurement, read_only
from crosstally.notebook.history.constraints import Problem, problem
from crosstally.notebook.history.prior import Prior
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["ALPHA", "SWEEPS", "Synthetic", "maximum_entropy", "synthesize"]

# The paper's alpha, whose value it does not give: chosen on generated rows. More trusts noisy answers further.
ALPHA = 1e-3
SWEEPS = 100  # sweeps unless told: ``converged`` says whether they did. Thousands of overlapping queries need more
# Rows that weights are learned with; above 200 attributes fewer, down to a tenth. More take longer and know the means
# better, by the root.
_LEARNERS = 100_000
# The part of the sweeps that is left for rows beyond the learners, once they were copied from these. Chosen.
_GROWN = 0.2
# Sweeps over which means are averaged before they are judged: single sweeps differ by the noise of the sample.
_WINDOW = 10
# The violation that counts as converged: one scale of the noise plus one standard error of the sample.
_TOLERANCE = 1.0
_MAX_ROWS = 10_000_000  # a guard of memory: rows that can be drawn. More are refused
_MAX_CODES = 20_000_000  # a guard of memory: codes of learners, rows times attributes


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """Rows drawn from the maximum entropy distribution, as codes, and how well that distribution was found.

    ``violation`` is the largest difference between what a query should be and what it is over the last sweeps, in units
    of the scale of its noise plus the sample's own standard error, among queries whose weight is not at a bound that
    explains it. ``gap`` is the duality gap: how far the
    objective, in natural units of entropy, may be from the optimum; the sample's own noise is counted in. ``converged``
    says whether the violation came to the tolerance, 1 unless said otherwise, before the sweeps were over.
    """

    schema: Schema
    codes: NDArray[np.int32]
    _: KW_ONLY
    means: tuple[Floats, ...]
    weights: tuple[Floats, ...]
    violation: float
    gap: float
    sweeps: int
    taken: float
    converged: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes, np.int32))
        for name in ("means", "weights"):
            object.__setattr__(self, name, tuple(read_only(each, np.float64) for each in getattr(self, name)))

    def __repr__(self) -> str:
        found = "converged" if self.converged else "not converged"
        return (
            f"Synthetic({len(self.codes):,} rows of {self.schema}; {found} after {self.sweeps} sweeps, "
            f"largest violation {self.violation:.2g})"
        )

    def to_arrow(self) -> pa.Table:
        """The rows with labels, a dictionary column for each attribute."""
        return labelled_rows(self.schema, self.codes)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def synthesize(
    schema: Schema,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    rows: int | None = None,
    alpha: float = ALPHA,
    sweeps: int = SWEEPS,
    random: np.random.Generator | None = None,
) -> Synthetic:
    """Synthetic rows from raw measurements of any kind. Free: it reads no rows and spends nothing.

    Args:
        schema: What the measurements are about.
        measurements: Tables, contrasts and linear answers, as they were drawn.
        total: The number of rows, where that is public.
        rows: How many rows to make; about as many as there are when None.
        alpha: How much the answers count against the entropy: weights are at most alpha n / b.
        sweeps: How often all rows are moved at most.
        random: Where the moves come from; this has nothing to do with privacy.
    """
    posed = problem(schema, measurements, total=total, alpha=alpha)
    number = round(posed.size) if rows is None else rows
    return maximum_entropy(posed, rows=number, sweeps=sweeps, random=random)


def maximum_entropy(
    posed: Problem,
    *,
    rows: int,
    sweeps: int = SWEEPS,
    tolerance: float = _TOLERANCE,
    random: np.random.Generator | None = None,
) -> Synthetic:
    """Rows from the distribution that solves a problem. The weights are learned on a sample of a fixed size.

    A larger number of rows starts from copies of that sample, which the last fifth of the sweeps moves apart; a smaller
    one is drawn from it. Learning ends early when no violation is above the tolerance.
    """
    for name, given, most in (("rows", rows, _MAX_ROWS), ("sweeps", sweeps, 10**9)):
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 1 <= given <= most:
            raise QueryError(f"{name} must be a whole number from 1 to {most:,}, got {given!r}")
    random = np.random.default_rng() if random is None else random
    learners = min(_LEARNERS, max(_LEARNERS // 10, _MAX_CODES // len(posed.schema.shape)))
    ascent = _Ascent(posed, learners, tolerance, random)
    grown = math.ceil(_GROWN * sweeps) if rows > learners else 0
    if sweeps > grown:
        ascent.run(sweeps - grown)
    if grown:
        ascent.chain.grow(rows)
        ascent.run(grown, least=_WINDOW)
    codes = ascent.chain.codes
    if rows < len(codes):
        codes = codes[random.choice(len(codes), rows, replace=False)]
    return Synthetic(
        posed.schema,
        codes,
        means=ascent.fit.means,
        weights=tuple(ascent.weights),
        violation=ascent.fit.violation,
        gap=ascent.fit.gap,
        sweeps=ascent.sweeps,
        taken=ascent.taken,
        converged=ascent.fit.violation <= tolerance,
    )


class _Chain:
    """Rows, each on its own walk, and in which cells of the constraints' tables they are."""

    def __init__(self, posed: Problem, rows: int, random: np.random.Generator) -> None:
        self.random = random
        shape = posed.schema.shape
        self.codes = np.empty((rows, len(shape)), np.int32)
        for k, probabilities in enumerate(posed.prior.probabilities):
            self.codes[:, k] = random.choice(shape[k], rows, p=probabilities)
        self.tables = [each.positions for each in posed.constraints]
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
        """The share of the rows in each cell, table by table."""
        return [self.counts[part] / len(self.codes) for part in self.parts]

    def sweep(self, log_weights: Sequence[Floats]) -> float:
        """Move every attribute of every row once; which part of the moves was taken."""
        from crosstally.kernels.metropolis_hastings import sweep

        flat = np.concatenate(log_weights) if log_weights else np.empty(0)
        seed = np.uint64(self.random.integers(1, 2**63))
        taken = sweep(self.codes, self._attributes, self._moves, self.offsets, flat, self.counts, self._proposals, seed)
        return float(taken) / max(self.codes.size, 1)

    def grow(self, rows: int) -> None:
        """Copy rows until there are so many."""
        self.codes = np.resize(self.codes, (rows, self.codes.shape[1]))
        self.counts = self._counted()


class _Ascent:
    """Weights on their way to the optimum: each sweep of the rows gives a gradient, each gradient a step."""

    def __init__(self, posed: Problem, rows: int, tolerance: float, random: np.random.Generator) -> None:
        self.constraints, self.tolerance = posed.constraints, tolerance
        self.chain = _Chain(posed, rows, random)
        self.weights = [np.zeros(each.targets.size) for each in posed.constraints]
        self.step = 1 / _overlap(posed)
        self.sweeps, self.taken = 0, 0.0
        self.fit = _Fit((), violation=math.inf, gap=math.inf)

    def run(self, sweeps: int, *, least: int = 1) -> None:
        """So many sweeps; fewer when the constraints are met after the least number of them."""
        sums = [np.zeros(each.targets.size) for each in self.constraints]
        for done in range(1, sweeps + 1):
            log_weights = [each.log_weights(w) for each, w in zip(self.constraints, self.weights, strict=True)]
            self.taken = self.chain.sweep(log_weights)
            means = self._move(self.step * min(1.0, sweeps / (2 * done)))
            self.sweeps += 1
            sums = [total + mean for total, mean in zip(sums, means, strict=True)]
            since = done % _WINDOW or _WINDOW
            if since == _WINDOW or done == sweeps:
                self.fit = self._judged([total / since for total in sums])
                sums = [np.zeros_like(total) for total in sums]
                if done >= least and self.fit.violation <= self.tolerance:
                    return

    def _move(self, step: float) -> list[Floats]:
        """Take a step towards what the queries should be; what they are."""
        found, least = [], 1 / len(self.chain.codes)
        for i, (each, shares) in enumerate(zip(self.constraints, self.chain.shares(), strict=True)):
            means = each.means(shares)
            wanted = np.clip(each.targets, 0, 1) if each.tables is None else 0.0
            spreads = np.maximum(np.maximum(each.spreads(shares), wanted), each.noise + least)
            moved = self.weights[i] + step * (each.targets - means) / spreads
            self.weights[i] = np.clip(moved, -each.bounds, each.bounds)
            found.append(means)
        return found

    def _judged(self, means: Sequence[Floats]) -> _Fit:
        """How far from the optimum: a difference must be nothing, or the weight at the bound towards which it points.

        The primal minus the dual objective at the same weights is the sum of beta |difference| - w difference: the
        partition function cancels.
        """
        violation = gap = 0.0
        for each, shares, weights, mean in zip(self.constraints, self.chain.shares(), self.weights, means, strict=True):
            differences = each.targets - mean
            explained = weights * np.sign(differences) >= each.bounds * (1 - 1e-9)
            unit = each.noise + np.sqrt(each.spreads(shares) / len(self.chain.codes))
            violation = max(violation, float(np.where(explained, 0.0, np.abs(differences) / unit).max(initial=0.0)))
            gap += float(np.sum(each.bounds * np.abs(differences) - weights * differences))
        return _Fit(tuple(means), violation=violation, gap=gap)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """The means of the queries over some sweeps, and how far they and the weights are from the optimum."""

    means: tuple[Floats, ...]
    _: KW_ONLY
    violation: float
    gap: float


def _overlap(posed: Problem) -> float:
    """A bound on the curvature: for the attribute where most is asked, how much its queries say the same thing."""
    stiff = [each.stiffness(posed.prior.joint(each.positions).ravel()) for each in posed.constraints]
    holders = [
        sum(value for each, value in zip(posed.constraints, stiff, strict=True) if k in each.positions)
        for k in range(len(posed.schema.shape))
    ]
    return max([1.0, *holders])


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
