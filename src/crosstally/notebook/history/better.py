"""New questions: mix the kernel method and maximum entropy by how well each predicts the noisy answers.

The kernel method (``record``) models the rows' deviation from the prior as normal. Maximum entropy knows that no cell
is negative, which helps much if there are few answers about attributes with many values. Both estimate every answer
from the others (``held_out``), and the mixture with the least error is used for new questions: m is the share of
maximum entropy, 0 if the kernel alone is better and 1 if maximum entropy alone is. Let s^2 be the kernel's expected
squared error for a question and t^2 the typical noise variance of an answer. Then

    new     = 1 - t^2 / s^2  where s > t, else 0     (the part of s^2 beyond the noise of an answer; chosen: 0 where
                                                      the question is known as well as by an answer, near 1
                                                      where s is far above t)
    value   = kernel + new m (maximum entropy - kernel)
    error^2 = s^2 (1 - new) + ratio s^2 new          (ratio: the mixture's squared error over the kernel's, both from
                                                      answers left out, drawn towards 1)

A squared error is convex, so a value that goes a part ``new`` of the way from the kernel's to the mixture's has at most
this error, if the mixture errs on this question as on average. A question that was asked has its own answer: new = 0,
and value and error are the kernel's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.alpha import folds_of
from crosstally.notebook.history.ascent import Ascent
from crosstally.notebook.history.bundles import Batch
from crosstally.notebook.history.constraints import problem
from crosstally.notebook.history.correlated import Correlated
from crosstally.notebook.history.held_out import FOLDS, LEAST, held_out, share_of, squared_error
from crosstally.notebook.history.record import Estimates, History
from crosstally.questions.queries import Linear
from crosstally.schema import Schema
from crosstally.tables import Measurement
from crosstally.typing import Floats

__all__ = ["BetterOfBoth"]

# Linear answers up to which maximum entropy is tried: more would take minutes, and the kernel has learned by then how
# attributes go together.
_MOST = 1_000
_MOST_NUMBERS = 20_000_000  # limits time and memory: queries times the cells of their tables
# Rows of the fit, and sweeps at most. Chosen on 600 ranges of census-9: after 60 sweeps large alphas have not settled,
# and new questions have 1.25 times the error of those after 200; five times the rows change them by 5%.
_LEARNERS, _SWEEPS = 20_000, 200
_TOLERANCE = 1.0  # the violation at which the fit ends sooner: one scale of the noise plus one standard error
# The ratio of errors is shrunk towards 1, as if this many more answers had been left out on which both methods have the
# same error: few answers do not determine the ratio.
_DOUBT = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class _Entropy:
    """Rows from the maximum entropy distribution, and how many people they represent.

    ``share`` is its share in the mixture, ``ratio`` the squared error of the mixture divided by the kernel's.
    """

    rows: NDArray[np.int32]
    size: float
    _: KW_ONLY
    share: float
    ratio: float

    def values(self, queries: Sequence[Linear], schema: Schema) -> Floats:
        batch = Batch.of(queries, schema)
        out = np.zeros(batch.size)
        for bundle in batch.bundles:
            sizes = [schema.shape[p] for p in bundle.positions]
            if sizes:
                cells = np.ravel_multi_index([self.rows[:, p] for p in bundle.positions], sizes)
                shares = np.bincount(cells, minlength=math.prod(sizes)) / len(self.rows)
            else:
                shares = np.ones(1)
            out[bundle.rows] = self.size * (bundle.tables.reshape(len(bundle.rows), -1) @ shares)
        return out


class BetterOfBoth:
    """Past measurements of one schema, ready to answer any linear query by a mixture of both methods."""

    def __init__(
        self,
        schema: Schema,
        measurements: Iterable[Measurement],
        *,
        total: float | None = None,
        correlated: Sequence[Correlated] = (),
    ) -> None:
        """Take in all measurements, as ``History`` does. Maximum entropy knows variances only."""
        self._measured, self._total, self._correlated = tuple(measurements), total, tuple(correlated)
        self.kernel = History(schema, self._measured, total=total, correlated=correlated)

    def estimates(self, queries: Sequence[Linear]) -> Estimates:
        """The estimate of each query and its standard error."""
        found = self.kernel.estimates(queries)
        linear = self.kernel.linear
        if not linear:
            return found
        asked, typical = {m.query for m in linear}, float(np.median([m.variance for m in linear]))
        squares = found.std_errors**2
        new = np.where([query in asked for query in queries], 0.0, 1 - typical / np.maximum(squares, typical))
        if not new.any() or self._entropy is None:
            return found
        moved = self._entropy.values(queries, self.kernel.schema) - found.values
        return replace(
            found,
            values=found.values + self._entropy.share * new * moved,
            std_errors=np.sqrt(squares * (1 - new + self._entropy.ratio * new)),
        )

    @cached_property
    def _entropy(self) -> _Entropy | None:
        """Maximum entropy, if it is worth trying and predicts left-out answers better."""
        linear = self.kernel.linear
        if not (LEAST <= len(linear) <= _MOST) or self._too_large():
            return None
        random = np.random.default_rng(0)  # the same history gives the same estimates
        posed = problem(self.kernel.schema, self._measured, total=self._total, alpha=1.0)
        # Every answer has noise of its own, answers to one request too; correlated ones are left out together
        group = {id(each): -1 - i for i, some in enumerate(self._correlated) for each in some.answers}
        folds = folds_of([group.get(id(each), i) for i, each in enumerate(linear)], FOLDS, random)
        found = held_out(posed, folds, random=random)
        answers, noise = (np.array([getattr(m, name) for m in linear], float) for name in ("values", "variance"))
        noise[[not m.query.attributes for m in linear]] = math.inf  # the number of rows, which both take as given
        # Past questions are left to the kernel, so that alpha is the best one for new questions alone
        best = int(np.argmin(found.new))
        kernel, entropy = self.kernel.left_out(folds), found.estimates[best]
        share = share_of(entropy, answers, kernel, noise)
        before, after = (squared_error(answers, kernel + s * (entropy - kernel), noise) for s in (0.0, share))
        if not 0 < after < before:
            return None
        ascent = Ascent(posed.with_alpha(found.alphas[best]), _LEARNERS, _TOLERANCE, random)
        ascent.climb(_SWEEPS)
        ascent.settle()
        ratio = (after / before * len(linear) + _DOUBT) / (len(linear) + _DOUBT)
        return _Entropy(ascent.chain.codes, posed.size, share=share, ratio=ratio)

    def _too_large(self) -> bool:
        """Whether tables of several attributes were measured, which the kernel uses exactly, or questions are wide."""
        if any(not isinstance(m.query, Linear) and len(m.query.attributes) > 1 for m in self._measured):
            return True
        shape, positions = self.kernel.schema.sizes, self.kernel.schema.ordered
        cells = (math.prod(shape(positions(m.query.attributes))) for m in self.kernel.linear)
        return sum(cells) > _MOST_NUMBERS
