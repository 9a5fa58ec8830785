"""Maximum entropy for thousands of linear answers (EDBT 2012, section 4), by the curvature of independent attributes.

``newton`` of the history computes the covariance of all queries from rows, which is too much for thousands of them.
Under a law with independent attributes that covariance is the kernel of the paper, C = sum over sets S of F_S F_S',
and ``components`` inverts it by blocks. So a step here is

    d = (C + K + damping)^-1 (pi - p[f] - K w)

with K the softness of the penalties (``constraints``). The fixed point does not depend on C or on the damping: there
the gradient is zero, or a weight is at its bound. Only the way there does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from crosstally.notebook.history.bundles import QueryBatch
from crosstally.notebook.history.chain import Chain
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers, Posterior
from crosstally.notebook.history.constraints import Constraints, Problem
from crosstally.notebook.history.held_out import means_over
from crosstally.notebook.history.prior import Prior
from crosstally.typing import Floats

# Added to the curvature of every query, whose own is at most 1/4 for counts: rows follow the weights with a delay, and
# attributes are not independent. Chosen on census-9 with the next two: with 2 and steps of 0.08 the weights of 5,000
# arbitrary counts swing under a uniform prior. More is slower.
_DAMPING = 6.0
_TRUST = 0.03  # the longest step: the root of d' C d over that of the number of attributes. Chosen, see above
_AGAIN = 6  # steps for which a curvature is kept; a fresh one takes about as long as eight sweeps
_SWEEPS = 2  # sweeps before each step, whose means are averaged; as in ``newton``
_MEANS = 8  # sweeps over which the answers of the law are averaged: fewer add the noise of a sample


def constraints_of(batch: QueryBatch, answers: Floats, *, rows: float, scale: float) -> tuple[Constraints, ...]:
    """What noisy answers, all with Laplace noise of one scale, say about the means of their queries; alpha is 1."""
    found = []
    for bundle in batch.bundles:
        noise = np.full(len(bundle.rows), scale / rows)
        tables = bundle.tables.reshape(len(bundle.rows), -1)
        found.append(
            Constraints(
                bundle.positions,
                answers[bundle.rows] / rows,
                noise=noise,
                bounds=1 / noise,
                tables=tables,
                rows=bundle.rows,
            )
        )
    return tuple(found)


class ManyAnswers:
    """The maximum entropy law of many answers, as weights of the queries and a sample of rows that follows them."""

    def __init__(self, posed: Problem, batch: QueryBatch, *, rows: int, random: np.random.Generator) -> None:
        """Start from the prior.

        Args:
            posed: The problem, whose constraints are all linear answers.
            batch: The same queries.
            rows: Rows of the sample.
            random: Where the rows come from; this has nothing to do with privacy.
        """
        self._posed, self._batch = posed, batch
        self._constraints = posed.constraints
        self._chain = Chain(posed, rows, random, adaptive=True)
        self.weights = np.zeros(batch.size)

    def climb(self, alpha: float, sweeps: int) -> None:
        """Move on towards the law of this alpha, from the weights so far."""
        self._constraints = self._posed.with_alpha(alpha).constraints
        softness, bounds, targets = (self._flat(name) for name in ("softness", "bounds", "targets"))
        damping = softness + _DAMPING
        self.weights = np.clip(self.weights, -bounds, bounds)
        longest = _TRUST * math.sqrt(len(self._posed.schema.shape))
        for done in range(math.ceil(sweeps / _SWEEPS)):
            if done % _AGAIN == 0:
                curvature = self._curvature(damping)
            gradient = targets - self._swept() - softness * self.weights
            step = curvature.inverse_times(gradient)
            divergence = math.sqrt(max(float(step @ (gradient - damping * step)), 0.0))  # the root of d' C d
            part = min(1.0, longest / divergence) if divergence else 1.0
            self.weights = np.clip(self.weights + part * step, -bounds, bounds)
            self._chain.adapt()  # rows that are proposed what they may become follow the weights sooner

    def means(self, asked: Sequence[Constraints], size: int) -> Floats:
        """The mean of each of so many queries under the law."""
        found = means_over((self._moved() for _ in range(_MEANS)), asked, self._posed.schema.shape)
        out = np.zeros(size)
        out[np.concatenate([each.rows for each in asked])] = found
        return out

    def _curvature(self, damping: Floats) -> Posterior:
        """C + damping, factored, for independent attributes with the rows' own shares of values."""
        structure = CovarianceModel(self._batch, self._single_attributes(), known=[()])
        return structure.solve(NoisyAnswers(np.zeros_like(damping), noise=damping), dict.fromkeys(structure.parts, 1.0))

    def _flat(self, name: str) -> Floats:
        """A property of all constraints, in the order of the queries."""
        out = np.zeros(self._batch.size)
        for each in self._constraints:
            out[each.rows] = getattr(each, name)
        return out

    def _moved(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        """The rows after one more sweep."""
        self._chain.sweep([each.log_weights(self.weights[each.rows]) for each in self._constraints])
        return self._chain.codes

    def _swept(self) -> Floats:
        """The means of all queries over the next sweeps."""
        out = np.zeros(self._batch.size)
        for _ in range(_SWEEPS):
            self._moved()
            for each, shares in zip(self._constraints, self._chain.shares(), strict=True):
                out[each.rows] += each.means(shares) / _SWEEPS
        return out

    def _single_attributes(self) -> Prior:
        """The rows' shares of each attribute's values."""
        schema, codes = self._posed.schema, self._chain.codes
        counts = {
            name: np.bincount(codes[:, i], minlength=schema.shape[i]).astype(np.float64)
            for i, name in enumerate(schema.names)
        }
        return Prior.of(schema, counts)
