"""What figures 2 to 5 of EDBT 2012 have in common: questions, priors, and the errors of both methods by alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.bundles import QueryBatch, QueryGroup, parts_of, projected
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers, Posterior
from crosstally.notebook.history.constraints import Problem
from crosstally.notebook.history.held_out import cross_validated, one_alpha
from crosstally.notebook.history.likelihood import VariancePrior, fit
from crosstally.notebook.history.prior import Prior
from crosstally.typing import Floats
from crosstally_lab.papers.edbt12.census import Census
from crosstally_lab.papers.edbt12.many_answers import ManyAnswers, constraints_of

# What all tables of single attributes cost together, as in section 5.1: each has noise of their number over this.
_PRIOR_EPSILON = 0.02
# The grid of alphas is refined to such steps about its best: errors are flat there, and a finer one changes nothing.
_STEP = 1.1
UNIFORM, BOUGHT, DEFAULT = "uniform", "bought", "bought, its noise known"
RANGES, ARBITRARY = "2-D ranges", "arbitrary 2-D counts"
KERNEL, ENTROPY = "kernel PCA", "maximum entropy"


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Queries and their true answers."""

    batch: QueryBatch
    truth: Floats
    _: KW_ONLY
    kind: str


def ask(data: Census, kind: str, number: int, random: np.random.Generator) -> Asked:
    """Random queries of a kind: every pair of attributes is as likely, and so is every range or every set of cells."""
    pairs = list(data.pairs)
    which = random.integers(0, len(pairs), number)
    truth = np.zeros(number)
    bundles = []
    for p, (i, j) in enumerate(pairs):
        rows = np.flatnonzero(which == p)
        if not len(rows):
            continue
        sizes = data.schema.shape[i], data.schema.shape[j]
        if kind == RANGES:
            first, second = (_intervals(n, len(rows), random) for n in sizes)
            tables = first[:, :, None] * second[:, None, :]
        else:
            tables = random.integers(0, 2, (len(rows), *sizes)).astype(np.float64)
        bundles.append(QueryGroup((i, j), rows, tables))
        truth[rows] = np.tensordot(tables, data.pairs[i, j], axes=2)
    return Asked(QueryBatch(data.schema, tuple(bundles), number), truth, kind=kind)


def _intervals(size: int, number: int, random: np.random.Generator) -> Floats:
    ends = np.sort(random.integers(0, size, (2, number)), axis=0)
    values = np.arange(size)
    return np.asarray((values >= ends[0][:, None]) & (values <= ends[1][:, None]), np.float64)


def priors_of(data: Census, random: np.random.Generator) -> dict[str, Prior]:
    """Nothing believed, and all counts of single attributes bought for 0.02 of epsilon, once."""
    scale = len(data.codes) / _PRIOR_EPSILON
    noisy = {
        name: data.counts(i) + random.laplace(0, scale, data.schema.shape[i])
        for i, name in enumerate(data.schema.names)
    }
    variances = dict.fromkeys(noisy, 2 * scale**2)
    return {
        UNIFORM: Prior.uniform(data.schema),
        BOUGHT: Prior.of(data.schema, noisy),
        DEFAULT: Prior.of(data.schema, noisy, variances),
    }


def expected(batch: QueryBatch, prior: Prior, rows: float) -> Floats:
    """The answers were the rows as the prior says; the number of rows is public, as in the paper."""
    out = np.zeros(batch.size)
    for bundle in batch.bundles:
        out[bundle.rows] = rows * projected(bundle, (), prior)[:, 0]
    return out


def rms(gaps: Floats) -> float:
    """The root of the mean square."""
    return math.sqrt(float(np.mean(gaps**2)))


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Past and new queries, and noisy answers to the past ones: a line for each draw of Laplace noise of one scale."""

    data: Census
    past: Asked
    new: Asked
    _: KW_ONLY
    answers: Floats
    scale: float

    @classmethod
    def drawn(
        cls, data: Census, past: Asked, new: Asked, *, scale: float, draws: int, random: np.random.Generator
    ) -> History:
        """So many draws of noise."""
        answers = past.truth + random.laplace(0, scale, (draws, len(past.truth)))
        return cls(data, past, new, answers=answers, scale=scale)

    @property
    def rows(self) -> float:
        """How many rows there are: public, as in the paper."""
        return float(self.data.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Root mean squared errors of past and of new queries: a line for each draw, a column for each alpha."""

    alphas: tuple[float, ...]
    past: Floats
    new: Floats

    def over_draws(self, errors: Floats) -> Floats:
        """The error of each alpha over all draws."""
        return np.asarray(np.sqrt(np.mean(errors**2, axis=0)))

    def best(self, errors: Floats) -> int:
        """The place of the alpha with the least error over all draws."""
        return int(np.argmin(self.over_draws(errors)))


class KernelTrial:
    """Kernel principal components under one prior."""

    def __init__(self, history: History, prior: Prior) -> None:
        self.history, self.prior = history, prior
        past, new = history.past.batch, history.new.batch
        self.noise = np.full(past.size, 2 * history.scale**2)
        self.known, self.known_new = (expected(batch, prior, history.rows) for batch in (past, new))
        self.structure = CovarianceModel(past, prior, known=[()])
        self.new_parts = [
            (bundle.rows, part, projected(bundle, part, prior))
            for bundle in new.bundles
            for part in parts_of(bundle.positions)
            if part
        ]

    def past_answers(self, draw: int) -> NoisyAnswers:
        """The answers of a draw less what the prior says."""
        return NoisyAnswers(self.history.answers[draw] - self.known, noise=self.noise)

    def gaps(self, solution: Posterior) -> tuple[Floats, Floats]:
        """How far estimates of past and new queries are from the truth."""
        past = solution.past.answers - solution.past.noise * solution.weights + self.known - self.history.past.truth
        new = self.known_new - self.history.new.truth
        for rows, part, features in self.new_parts:
            if part in solution.coefficients:
                new[rows] += features @ solution.coefficients[part]
        return past, new

    def at(self, alpha: float, draws: int) -> tuple[Floats, Floats]:
        """The errors of a single alpha, for each draw."""
        first = one_alpha(self.structure, self.past_answers(0), alpha)
        found = [self.gaps(first.with_answers(self.past_answers(draw).answers)) for draw in range(draws)]
        return tuple(np.array([rms(each[i]) for each in found]) for i in (0, 1))  # type: ignore[return-value]

    def curve(self, alphas: Sequence[float], draws: int, *, refined: bool = True) -> Curve:
        """The errors of a grid of alphas, refined about the best for past queries to steps of 1.1 x."""
        found = {alpha: self.at(alpha, draws) for alpha in alphas}
        best = min(found, key=lambda alpha: rms(found[alpha][0]))
        step = alphas[1] / alphas[0]
        if refined and step > _STEP:
            parts = math.ceil(math.log(step) / math.log(_STEP))
            around = [best * step ** (k / parts) for k in range(1 - parts, parts) if k]
            found |= {alpha: self.at(alpha, draws) for alpha in around}
        ordered = sorted(found)
        return Curve(tuple(ordered), *(np.column_stack([found[a][i] for a in ordered]) for i in (0, 1)))

    def validated(self, alphas: Sequence[float], draws: int, folds: NDArray[np.intp]) -> Floats:
        """For each draw and alpha the mean squared error of new queries by cross-validation."""
        return np.array(
            [
                cross_validated(self.structure, self.past_answers(draw), folds, alphas, known=[()])
                for draw in range(draws)
            ]
        )

    def default(self, draw: int) -> Posterior:
        """What a notebook does: variances and how attributes go together are learned, Laplace noise used in full."""
        past, fixed = self.past_answers(draw), self.prior.known_variances
        scales = np.full(len(past.answers), self.history.scale)
        belief = VariancePrior((0.1 * self.history.rows) ** 2, 4.0)
        return fit(self.structure, past, scales=scales, fixed=fixed, belief=belief).solution


@dataclass(frozen=True, slots=True)
class Effort:
    """Rows of the sample that follows the weights, and sweeps for each alpha; the first has twice as many."""

    rows: int
    sweeps: int


class EntropyTrial:
    """Maximum entropy under one prior, for alphas that rise. Bounds on weights are beta = alpha n / b."""

    def __init__(self, history: History, prior: Prior, effort: Effort) -> None:
        self.history, self.prior, self.effort = history, prior, effort

    def alphas(self, bounds: Sequence[float]) -> tuple[float, ...]:
        """The alphas of these bounds."""
        return tuple(bound * self.history.scale / self.history.rows for bound in bounds)

    def _climbed(self, draw: int, alphas: Sequence[float], kept: NDArray[np.bool_], asked: QueryBatch) -> list[Floats]:
        """For each alpha the answers of the law, learned from those of a draw that are kept, to some queries."""
        history, size = self.history, self.history.rows
        learned = history.past.batch.chosen(kept)
        answers = history.answers[draw][kept]
        posed = Problem(
            history.data.schema,
            constraints_of(learned, answers, rows=size, scale=history.scale),
            prior=self.prior,
            size=size,
        )
        law = ManyAnswers(posed, learned, rows=self.effort.rows, random=np.random.default_rng(draw))
        wanted = constraints_of(asked, np.zeros(asked.size), rows=size, scale=history.scale)
        out = []
        for place, alpha in enumerate(alphas):
            law.climb(alpha, self.effort.sweeps * (1 if place else 2))
            out.append(size * law.means(wanted, asked.size))
        return out

    def curve(self, bounds: Sequence[float], draws: int) -> Curve:
        """The errors of some bounds."""
        history, alphas = self.history, self.alphas(bounds)
        past, new = history.past, history.new
        asked = _together(past.batch, new.batch)
        everything = np.ones(past.batch.size, np.bool_)
        errors = np.zeros((2, draws, len(alphas)))
        for draw in range(draws):
            for place, found in enumerate(self._climbed(draw, alphas, everything, asked)):
                errors[0, draw, place] = rms(found[: past.batch.size] - past.truth)
                errors[1, draw, place] = rms(found[past.batch.size :] - new.truth)
        return Curve(alphas, errors[0], errors[1])

    def validated(self, bounds: Sequence[float], draws: int, folds: NDArray[np.intp]) -> Floats:
        """For each draw and bound the mean squared error of new queries by cross-validation (theorem 4)."""
        history, alphas = self.history, self.alphas(bounds)
        out = np.zeros((draws, len(alphas)))
        for draw in range(draws):
            for fold in np.unique(folds):
                test = folds == fold
                found = self._climbed(draw, alphas, ~test, history.past.batch.chosen(test))
                squares = [((history.answers[draw][test] - each) ** 2).sum() for each in found]
                out[draw] += np.array(squares) / len(folds)
        return np.asarray(out - 2 * history.scale**2)


def _together(first: QueryBatch, second: QueryBatch) -> QueryBatch:
    """The queries of two batches, one after the other."""
    later = tuple(QueryGroup(each.positions, each.rows + first.size, each.tables) for each in second.bundles)
    return QueryBatch(first.schema, (*first.bundles, *later), first.size + second.size)
