"""All past measurements, and the estimates that follow from them.

Tables of cells and contrasts enter through the residual basis, where they determine the coefficients of their sets of
attributes; linear queries enter as answers. If the only tables are one-way tables, they become the prior, and their
noise is the prior variance of single attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import NoiseKind
from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.notebook.history.bundles import Positions, QueryBatch, QueryGroup, parts_of, projected
from crosstally.notebook.history.components import CovarianceModel, Features, NoisyAnswers, Posterior
from crosstally.notebook.history.correlated import Correlated, shared_errors
from crosstally.notebook.history.likelihood import LikelihoodFit, VariancePrior, fit
from crosstally.notebook.history.matrix_answers import answers_of_matrices
from crosstally.notebook.history.plausible import Plausible, Scale, plausible
from crosstally.notebook.history.prior import Prior, shares
from crosstally.query.linear import Linear, linear_among
from crosstally.residuals.axes import rebuild
from crosstally.residuals.combining import Estimate, combine
from crosstally.residuals.nested import full_part_measured
from crosstally.schema import Schema
from crosstally.threads import on_one_thread
from crosstally.typing import Floats

# How far the counts deviate from the prior, as a share of the rows: with known tables of single attributes, and
# without. Chosen; this belief matters for short histories, and many answers override it (docs/methods/history.md).
_KNOWN_SPREAD, _UNKNOWN_SPREAD = 0.1, 0.3
# The standard deviation of the logarithm of a variance in the best fit: weaker than the belief of error bars. Chosen.
_BELIEF = 4.0
_WIDE = 100.0  # the variance of an unknown number of rows, in its square: ten times the number itself is within reach
# In the variance that is believed: exact answers count as noisy by this, or the matrix would be singular.
_LEAST_NOISE = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """An estimate for each query and its standard error, which includes possible bias from what was never asked.

    ``tails`` says how likely large errors are: 0 as for a normal distribution, 1 as for a Laplace one. ``student`` is
    the part of the standard error that comes from Student's law (``error_law``). ``converged`` is False if the fit to
    past answers had not converged when it was used.
    """

    values: Floats
    std_errors: Floats
    _: KW_ONLY
    tails: Floats
    student: Floats
    converged: bool


class _Tables:
    """What tables say: for each covered set of attributes the rows' part for it, and its variance."""

    def __init__(self, known: Mapping[Positions, _Part], estimate: Estimate | None = None) -> None:
        self._found: dict[Positions, _Part | None] = dict(known)
        self._estimate = estimate

    def __contains__(self, part: object) -> bool:
        """Whether tables say anything about this set of attributes."""
        return isinstance(part, tuple) and self.part(part) is not None

    def part(self, part: Positions) -> _Part | None:
        """What is known of a set of attributes, in the form in which queries have parts for it; None when nothing."""
        if part not in self._found:
            self._found[part] = None if self._estimate is None else _table_part(self._estimate, part)
        return self._found[part]

    def of(self, batch: QueryBatch, prior: Prior) -> Floats:
        """What is known of each query."""
        out = np.zeros(batch.size)
        for bundle in batch.bundles:
            for part in parts_of(bundle.positions):
                found = self.part(part)
                if found is not None:
                    out[bundle.rows] += projected(bundle, part, prior) @ found.mean
        return out


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The mean of a part of the rows, and the variance of each of its numbers."""

    mean: Floats
    variance: float


class History:
    """Past measurements of one schema, made ready to answer any linear query. It holds noisy numbers only."""

    def __init__(
        self,
        schema: Schema,
        measurements: Iterable[Measurement],
        *,
        total: float | None = None,
        correlated: Sequence[Correlated] = (),
    ) -> None:
        """Take in all measurements, raw as they were drawn.

        Args:
            schema: What they are about.
            measurements: Tables, contrasts and linear queries, in any order. Of tables whose values are in groups it
                takes what they say about values in full. What matrices measured stands after the linear queries that
                were ``asked``, number by number. Choices say nothing, and are passed over.
            total: The number of rows, where that is public.
            correlated: Those of the linear answers whose noise is correlated.
        """
        given = tuple(measurements)
        measured = tuple(full_part_measured(each) for each in given if each.query.is_linear and not each.query.matrices)
        asked = tuple(m for m in measured if not m.query.is_product)
        self.schema = schema
        self.asked = len(asked)
        self.linear = (*asked, *answers_of_matrices(schema, given))
        tables = [m for m in measured if m.query.is_product]
        if not (measured or self.linear) and total is None:
            raise QueryError("nothing was answered yet, so that nothing can be estimated; ask first")
        self.prior, self._tables = _read_tables(schema, tables, total)
        self._noise, self._errors = shared_errors(self.linear, correlated)

    def _known(self) -> tuple[Positions, ...]:
        total = self._tables.part(())
        return ((),) if total is not None and total.variance == 0 else ()

    @cached_property
    def _batch(self) -> QueryBatch:
        return QueryBatch.of(linear_among(m.query for m in self.linear), self.schema)

    @cached_property
    def _size(self) -> float:
        """About how many rows there are, at least 1."""
        total = self._tables.part(())
        if total is not None:
            return max(float(total.mean[0]), 1.0)
        universal = self._universal
        weights = universal / np.array([m.variance for m in self.linear])
        if not weights.any():
            return 1.0
        return max(float(weights @ self._raw / (weights @ universal)), 1.0)

    @property
    def size(self) -> float:
        """About how many rows there are, at least 1: the public number, or what the answers say."""
        return self._size

    @cached_property
    def _reach(self) -> float:
        """How many rows there may plausibly be: the public number, or what the answers and their largest one show."""
        total = self._tables.part(())
        if total is not None:
            return self._size + 2 * math.sqrt(total.variance)
        peaks = np.ones(self._batch.size)
        for bundle in self._batch.bundles:
            peaks[bundle.rows] = np.abs(bundle.tables).reshape(len(bundle.rows), -1).max(axis=1)
        doubt = 2 * np.sqrt([m.variance for m in self.linear])
        needed = (np.abs(self._raw) + doubt) / np.where(peaks > 0, peaks, math.inf)
        return max(self._size, float(needed.max()))

    @property
    def _raw(self) -> Floats:
        return np.array([float(m.values) for m in self.linear])

    @property
    def _universal(self) -> Floats:
        """The answer of each past query for one row drawn from the prior."""
        out = np.zeros(self._batch.size)
        for bundle in self._batch.bundles:
            out[bundle.rows] = projected(bundle, (), self.prior)[:, 0]
        return out

    @property
    def _spread(self) -> float:
        """The prior standard deviation of the rows around the prior, as a share of the rows."""
        return _KNOWN_SPREAD if self.prior.known_variances else _UNKNOWN_SPREAD

    @cached_property
    def _belief(self) -> VariancePrior:
        return VariancePrior((self._spread * self._size) ** 2, _BELIEF)

    def _fixed(self, parts: Iterable[Positions], rows: float) -> dict[Positions, float]:
        """The variances that are known: of what tables say, of single attributes by the prior, of a total unknown.

        The total is then held to be some number of the order of ``rows``. Shared errors have variance 1.
        """
        fixed = {}
        for part in parts:
            if part and part[0] < 0:
                fixed[part] = 1.0
                continue
            found = self._tables.part(part)
            if found is not None:
                fixed[part] = found.variance
            elif part in self.prior.known_variances:
                fixed[part] = self.prior.known_variances[part]
            elif not part:
                fixed[part] = _WIDE * rows**2
        return fixed

    @cached_property
    def _solution(self) -> Posterior:
        return self._fit.solution

    @cached_property
    def _past(self) -> NoisyAnswers:
        """The answers as they were drawn, less what tables say of them."""
        noise = np.maximum(self._noise, _LEAST_NOISE * self._belief.variance)
        return NoisyAnswers(self._raw - self._tables.of(self._batch, self.prior), noise=noise)

    @cached_property
    def _fit(self) -> LikelihoodFit:
        return self._fitted(np.ones(len(self.linear), np.bool_))

    def _fitted(self, used: NDArray[np.bool_]) -> LikelihoodFit:
        """The fit to those of the linear answers that are marked."""
        structure = CovarianceModel(
            self._batch.chosen(used),
            self.prior,
            known=self._known(),
            plain=self._tables,
            errors=[each.chosen(used) for each in self._errors],
        )
        past = NoisyAnswers(self._past.answers[used], noise=self._past.noise[used])
        fixed = self._fixed(structure.parts, self._size)
        return fit(structure, past, scales=_laplace_scales(self.linear)[used], fixed=fixed, belief=self._belief)

    @cached_property
    def _plausible(self) -> tuple[Plausible, ...]:
        most = self._reach**2
        return plausible(
            self._solution,
            NoisyAnswers(self._past.answers, noise=np.maximum(self._past.noise, _LEAST_NOISE * most)),
            scales=_laplace_scales(self.linear),
            fixed=self._fixed(self._solution.variances, self._reach),
            scale=Scale((self._spread * self._reach) ** 2, most=most),
        )

    def left_out(self, folds: NDArray[np.intp]) -> Floats:
        """The estimate of each linear answer from those in other folds alone.

        Variances and matrices are fitted again without the fold: fitted to all answers they know those left out, and
        the errors would be too small.
        """
        out = self._tables.of(self._batch, self.prior)
        for fold in np.unique(folds):
            test = folds == fold
            found = self._fitted(~test).solution
            out[test] += found.estimates(self._batch.chosen(test), known=self._known())
        return out

    def estimates(self, queries: Sequence[Linear]) -> Estimates:
        """The estimate of each query and its standard error."""
        with on_one_thread(len(self.linear)):
            return self._estimates(queries)

    def _estimates(self, queries: Sequence[Linear]) -> Estimates:
        batch = QueryBatch.of(queries, self.schema)
        known = self._known()
        moved, squares = np.zeros(batch.size), np.zeros(batch.size)
        for bundle in batch.bundles:
            features = self._solution.structure.all_features(bundle, known=known)
            if features:
                moved[bundle.rows], squares[bundle.rows] = self._read(bundle, features)
        return Estimates(
            self._tables.of(batch, self.prior) + moved,
            np.sqrt(squares),
            tails=self._tails(queries, squares),
            student=np.zeros(batch.size),
            converged=self._fit.converged,
        )

    def _tails(self, queries: Sequence[Linear], squares: Floats) -> Floats:
        """How far the error of each query is that of its own Laplace noise: by kurtosis, so the square of its share."""
        own: dict[Linear, float] = {}
        for query, measurement in zip(linear_among(m.query for m in self.linear), self.linear, strict=True):
            if measurement.noise is not None and measurement.noise.kind is NoiseKind.LAPLACE:
                own[query] = min(measurement.variance, own.get(query, math.inf))
        noise = np.array([own.get(query, math.inf) for query in queries])
        return np.asarray(np.minimum(squares / noise, 1.0) ** 2)

    def _read(self, bundle: QueryGroup, features: Features) -> tuple[Floats, Floats]:
        """The best fit's estimates, and their expected squared errors averaged over all plausible models."""
        best = self._solution.estimates_of(features)
        fixed = self._fixed(features, self._reach)
        errors = np.zeros_like(best)
        for each in self._plausible:
            structure, own = each.solution.structure, features
            if structure is not self._solution.structure:  # it has matrices of its own
                own = structure.all_features(bundle, known=self._known())
            unseen = {part: each.unseen[len(part)] for part in own if part} | fixed
            gaps = each.solution.estimates_of(own) - best
            errors += each.weight * (each.solution.errors_of(own, unseen) + gaps**2)
        return best, errors


def _laplace_scales(measurements: Sequence[Measurement]) -> Floats:
    return np.array(
        [m.noise.scale if m.noise is not None and m.noise.kind is NoiseKind.LAPLACE else 0.0 for m in measurements]
    )


def _read_tables(schema: Schema, tables: Sequence[Measurement], total: float | None) -> tuple[Prior, _Tables]:
    """The prior and what tables say beyond it."""
    if not tables and total is None:
        return Prior.uniform(schema), _Tables({})
    estimate = combine(schema, tables)
    estimate = estimate if total is None else estimate.with_total(total)
    if all(len(m.query.attributes) <= 1 for m in tables):
        return _single_tables(schema, estimate)
    return Prior.uniform(schema), _Tables({}, estimate)


def _single_tables(schema: Schema, estimate: Estimate) -> tuple[Prior, _Tables]:
    """Tables of single attributes are the prior; what is left for them is where its floor moved it, and the total."""
    names = [name for name in schema.names if estimate.covers((name,))]
    counts = {name: estimate.table((name,)) for name in names}
    noise = {name: float(estimate.variances[estimate.places([(name,)])[0][0, -1]]) for name in names}
    prior = Prior.of(schema, counts, noise)
    if not estimate.covers(()):
        return prior, _Tables({})
    size = max(float(estimate.table(())), 0.0)
    parts: dict[Positions, _Part] = {(): _Part(np.array([size]), float(estimate.variance(())))}
    for name in names:
        place = schema.positions[name]
        moved = size * (shares(counts[name]) - prior.probabilities[place])
        parts[(place,)] = _Part(moved, noise[name])
    return prior, _Tables(parts)


def _table_part(estimate: Estimate, part: Positions) -> _Part | None:
    """What tables say about a set of attributes as a whole, under a uniform prior; None where no table covers it."""
    names = tuple(estimate.schema.names[p] for p in part)
    sizes = estimate.schema.sizes(names)
    places, found = estimate.places([names])
    inside = _inside(sizes)
    if not found[0][inside].all():
        return None
    coefficients = np.where(inside, estimate.coefficients[places[0]], 0.0)
    scale = math.prod(sizes)
    mean = rebuild(coefficients.reshape(sizes), len(sizes)).ravel() * math.sqrt(scale)
    return _Part(mean, float(estimate.variances[places[0]][inside][0]) * scale)


def _inside(sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Which coefficients of a table are of all its attributes together."""
    marks = np.ones(tuple(sizes), np.bool_)
    for axis in range(len(sizes)):
        np.moveaxis(marks, axis, 0)[0] = False
    return marks.ravel()
