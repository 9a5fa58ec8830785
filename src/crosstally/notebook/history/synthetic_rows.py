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
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.checks import is_whole
from crosstally.errors import QueryError
from crosstally.generate.people import labelled_rows
from crosstally.measurements import Measurement, read_only
from crosstally.notebook.history.constraints import Problem, problem
from crosstally.notebook.history.held_out import FOLDS, LEAST, folds_of, held_out
from crosstally.notebook.history.newton import MOST_QUERIES, WINDOW, Ascent
from crosstally.schema import Schema
from crosstally.typing import Floats

# The paper's alpha, whose value it does not give, where answers cannot choose it: chosen on generated rows. More trusts
# noisy answers further.
_ALPHA = 1e-3
SWEEPS = 100  # by default; ``converged`` says whether they were enough. Thousands of overlapping queries need more
# Rows that weights are learned with; above 200 attributes fewer, down to a tenth. More take longer and know the means
# better, by the root.
_LEARNERS = 100_000
# The part of the sweeps that is left for rows beyond the learners, once they were copied from these. Chosen.
_GROWN = 0.2
# The violation that counts as converged: one scale of the noise plus one standard error of the sample.
_TOLERANCE = 1.0
_MAX_ROWS = 10_000_000  # limits memory: rows that can be drawn. More are refused
_MAX_CODES = 20_000_000  # limits memory: codes of learners, rows times attributes


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
    alpha: float | None = None,
    sweeps: int = SWEEPS,
    random: np.random.Generator | None = None,
) -> Synthetic:
    """Synthetic data from raw measurements of any kind. Free: it reads no rows and spends nothing.

    Args:
        schema: The schema of the measurements.
        measurements: Tables, contrasts and linear answers, as they were drawn.
        total: The number of rows, where that is public.
        rows: How many rows to make; about as many as there are when None.
        alpha: The weight of the answers against the entropy: weights are at most alpha n / b. By cross-validation of
            linear answers when None, where there are at least 20; else 0.001.
        sweeps: How often all rows are moved at most.
        random: The random generator of the moves; it has no role in privacy.
    """
    random = np.random.default_rng() if random is None else random
    posed = problem(schema, measurements, total=total, alpha=_ALPHA if alpha is None else alpha)
    if alpha is None:
        posed = _validated(posed, random)
    number = round(posed.size) if rows is None else rows
    return maximum_entropy(posed, rows=number, sweeps=sweeps, random=random)


def _validated(posed: Problem, random: np.random.Generator) -> Problem:
    """With the alpha chosen by cross-validation; unchanged if there are few answers or large tables."""
    answers = sum(len(each.rows) for each in posed.constraints)
    if answers < LEAST or sum(each.targets.size for each in posed.constraints) > MOST_QUERIES:
        return posed
    last = max(int(each.rows.max()) for each in posed.constraints if len(each.rows))
    folds = folds_of(range(last + 1), FOLDS, random)  # every answer has independent noise
    return posed.with_alpha(held_out(posed, folds, random=random).alpha)


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
        if not is_whole(given, 1, most, numpy=True):
            raise QueryError(f"{name} must be a whole number from 1 to {most:,}, got {given!r}")
    random = np.random.default_rng() if random is None else random
    learners = min(_LEARNERS, max(_LEARNERS // 10, _MAX_CODES // len(posed.schema.shape)))
    ascent = Ascent(posed, learners, tolerance, random)
    grown = math.ceil(_GROWN * sweeps) if rows > learners else 0
    if sweeps > grown:
        ascent.climb(sweeps - grown)
    if grown:
        ascent.chain.grow(rows)
        ascent.run(grown, least=WINDOW)
    elif rows < len(ascent.chain.codes):
        ascent.chain.keep(random.choice(len(ascent.chain.codes), rows, replace=False))
    ascent.settle()
    codes = ascent.chain.codes
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
