"""Cross-validation over noisy answers: choose alpha for maximum entropy, and decide which method predicts better.

Answers are put into folds; answers that share noise, such as sums of one noisy table, are in the same fold. Noise is
then independent between folds, so the mean of (answer - estimate without its fold)^2, minus the variance of the noise,
estimates the mean squared error of new questions (EDBT 2012, theorem 4). The error of past questions, which were used,
is Stein's estimate (``Ascent.past_error``).

Choose a single alpha from noisy answers: by cross-validation, leave-one-out, or Stein's estimate.

Each method estimates the mean squared error for an alpha. Where estimates are compared with answers that they did not
use, the variance of the answers' noise is subtracted (EDBT 2012, theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.notebook.history.chain import CellsOf
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers, Posterior
from crosstally.notebook.history.constraints import Constraints, Problem
from crosstally.notebook.history.error_law import Unexplained
from crosstally.notebook.history.newton import Ascent
from crosstally.typing import Floats

FOLDS = 5
"""As in section 5.1 of the paper. More cost their number and leave less out."""
LEAST = 20
"""Linear answers from which on anything is chosen by them: a fold of fewer than four tells little."""
STRENGTHS = (1.0, 4.0, 16.0)
"""The bounds on weights that are tried, for an answer with the median noise.

The weight of answer i is at most alpha / b_i, b_i the scale of its noise as a share of the rows; alpha is one of these
numbers times the median of all b_i.

A weight of 1 moves the odds of a row by 2.7, one of 16 by ten million: between them lies all from little trust to
answers that are met nearly exactly. Errors are flat about the best: on the census those of 5 and 16 differ
by 5% at most.
"""
_LEARNERS = 10_000  # rows for each fold: a share has a standard error below 0.5%, less over several sweeps
_FIRST, _NEXT = 32, 20  # sweeps for the first bounds, and for each larger ones, which start from the weights before
_MEANS = 8  # sweeps over which the answers left out are estimated
# Alphas whose root mean squared error of new questions is within this of the least are as good; of them the one with
# the least error of past questions is taken. Less would follow the noise of the estimates.
_NEAR = 1.03
_VARIANCE_OF_SQUARES = 5.0  # of Laplace noise, in squares of its variance: (24 - 4) b^4 over (2 b^2)^2; 2 if normal


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """For each alpha the mean squared errors of new and of past questions, and the best alpha.

    ``new`` is in squared counts, ``past`` over the variance of the answers' own noise. ``estimates`` (alphas, answers)
    has every answer as other folds estimate it, ``unexplained`` what other folds leave unexplained of its question
    (``error_law``).
    """

    alphas: tuple[float, ...]
    estimates: Floats
    _: KW_ONLY
    unexplained: Floats
    new: Floats
    past: Floats
    best: int

    @property
    def alpha(self) -> float:
        """The alpha that was chosen."""
        return self.alphas[self.best]


def squared_error(answers: Floats, estimates: Floats, noise: Floats) -> float:
    """The mean squared error of estimates that did not use the answers, minus the noise variance (theorem 4).

    Answers with more noise than most count less: by 1 over its variance plus the median one; those of infinite variance
    count for nothing.
    """
    told = np.isfinite(noise)
    noise = noise[told]
    counts = 1 / (noise + np.median(noise))
    return float(((answers - estimates)[told] ** 2 - noise) @ counts / counts.sum())


def share_of(other: Floats, answers: Floats, estimates: Floats, noise: Floats) -> float:
    """The share of the other estimates, from 0 to 1, at which the mixture of both has the least error.

    The noise of the answers is independent of both estimates, and so does not pull the share to either.

    >>> share_of(np.array([3.0, 5.0]), np.array([2.0, 4.0]), np.array([1.0, 3.0]), np.ones(2))
    0.5
    """
    told = np.isfinite(noise)
    counts = told / (np.where(told, noise, 0.0) + np.median(noise[told]))
    between = other - estimates
    square = float(counts @ between**2)
    return min(max(float(counts @ ((answers - estimates) * between)) / square, 0.0), 1.0) if square else 0.0


def means_over(rows: Iterable[NDArray[np.int32]], constraints: Sequence[Constraints], shape: Sequence[int]) -> Floats:
    """The mean of each query over several samples of rows, one query after the other."""
    sums, number = np.zeros(sum(each.targets.size for each in constraints)), 0
    cells = [CellsOf(each.positions, each.sorting(shape)) for each in constraints]
    for codes in rows:
        number += 1
        found = [each.means(own.counted(codes) / len(codes)) for each, own in zip(constraints, cells, strict=True)]
        sums += np.concatenate(found)
    return np.asarray(sums / max(number, 1))


def held_out(posed: Problem, folds: NDArray[np.intp], *, random: np.random.Generator, centred: bool = True) -> HeldOut:
    """Maximum entropy with each fold of the linear answers left out, for several alphas.

    Args:
        posed: The problem with all answers.
        folds: The fold of each answer; answers that share noise are in the same.
        random: Where rows come from; this has nothing to do with privacy.
        centred: Whether the number of rows is known.
    """
    linear = [each for each in posed.constraints if len(each.rows)]
    answers, noise = (
        np.zeros(len(folds)),
        np.full(len(folds), math.inf),
    )  # what says nothing of a row counts for nothing
    for each in linear:
        answers[each.rows] = posed.size * each.targets
        noise[each.rows] = 2 * (posed.size * each.noise) ** 2
    typical = float(np.median(np.concatenate([each.noise for each in linear])))
    alphas = tuple(strength * typical for strength in STRENGTHS)
    estimates, unexplained = np.zeros((2, len(alphas), len(folds)))
    past = np.zeros(len(alphas))
    numbers = np.unique(folds)
    for fold in numbers:
        training = posed.answers(folds != fold)
        held = [c for c in posed.answers(folds == fold).constraints if len(c.rows)]
        ascent = Ascent(training.with_alpha(alphas[0]), _LEARNERS, 0.0, random)
        for i, alpha in enumerate(alphas):
            ascent.bound(training.with_alpha(alpha).constraints)
            ascent.run(_NEXT if i else _FIRST)
            if held:
                found = means_over(ascent.walk(_MEANS), held, posed.schema.shape)
                estimates[i, np.concatenate([c.rows for c in held])] = posed.size * found
                left = Unexplained(ascent.chain.codes, training.constraints, posed.schema.shape, centred=centred)
                for c in held:
                    assert c.tables is not None
                    unexplained[i, c.rows] = left.of(CellsOf(c.positions, c.sorting(posed.schema.shape)), c.tables)
            past[i] += ascent.past_error() / len(numbers)
    errors = np.array([squared_error(answers, each, noise) for each in estimates])
    best = best_of(errors, past, noise)
    return HeldOut(alphas, estimates, unexplained=unexplained, new=errors, past=past, best=best)


def best_of(errors: Floats, past: Floats, noise: Floats) -> int:
    """Which alpha is best for past questions among those that are about as good as any for new ones.

    An estimated error below the standard error that noise alone gives it, which may be below zero, counts as that one:
    sqrt(sum of 5 (counts_i noise_i)^2) / (sum of counts), with the counts of ``squared_error``.

    >>> best_of(np.array([81.0, 25.0, 24.5, 36.0]), np.array([40.0, 0.9, 1.0, 0.8]), np.full(20, 4.0))
    1

    Args:
        errors: The mean squared error of new questions for each alpha (``squared_error``).
        past: That of past questions.
        noise: The noise variance of each answer.
    """
    told = noise[np.isfinite(noise)]
    counts = 1 / (told + np.median(told))
    least = math.sqrt(_VARIANCE_OF_SQUARES) * float(np.linalg.norm(counts * told)) / counts.sum()
    roots = np.sqrt(np.maximum(errors, least))
    near = np.flatnonzero(roots <= _NEAR * roots.min())
    return int(near[np.argmin(past[near])])


def one_alpha(
    structure: CovarianceModel, past: NoisyAnswers, alpha: float, *, known: Sequence[tuple[int, ...]] = ()
) -> Posterior:
    """Ridge regression with the same alpha for all sets of attributes: kernel principal components, exactly."""
    if not 0 < alpha < math.inf:
        raise QueryError(f"alpha must be positive, got {alpha}")
    return structure.solve(past, {part: alpha**2 for part in structure.parts if part not in known})


def leave_one_out(solution: Posterior) -> float:
    """The mean squared error of new queries: each answer compared with its estimate from all others, in closed form."""
    left = solution.weights / solution.inverse_diagonal
    return float(np.mean(left**2 - solution.past.noise))


def stein(solution: Posterior) -> float:
    """The mean squared error of past queries: Stein's unbiased estimate for a linear smoother, in closed form."""
    noise = solution.past.noise
    gaps = noise * solution.weights
    own = 1 - noise * solution.inverse_diagonal
    return float(np.mean(gaps**2 - noise + 2 * noise * own))


def folds_of(draws: Sequence[object], folds: int, random: np.random.Generator) -> NDArray[np.intp]:
    """A fold for each answer. Answers of one noise draw share a fold: noise is independent only between folds."""
    if folds < 2:
        raise QueryError(f"cross-validation needs at least 2 folds, got {folds}")
    names, places = np.unique([str(draw) for draw in draws], return_inverse=True)
    numbers = random.permutation(len(names)) % folds
    return np.asarray(numbers[places], np.intp)


def cross_validated(
    structure: CovarianceModel,
    past: NoisyAnswers,
    folds: NDArray[np.intp],
    alphas: Sequence[float],
    *,
    known: Sequence[tuple[int, ...]] = (),
) -> Floats:
    """For each alpha the mean squared error of new queries, estimated from answers in folds that were left out."""
    errors = np.zeros((len(alphas), len(past.answers)))
    for fold in np.unique(folds):
        test = folds == fold
        inner = CovarianceModel(structure.batch.chosen(~test), structure.prior, known=known)
        training = NoisyAnswers(past.answers[~test], noise=past.noise[~test])
        held = structure.batch.chosen(test)
        for i, alpha in enumerate(alphas):
            estimates = one_alpha(inner, training, alpha).estimates(held, known=known)
            errors[i, test] = (past.answers[test] - estimates) ** 2 - past.noise[test]
    return np.asarray(errors.mean(axis=1))


def best_alpha(error: Callable[[float], float], low: float, high: float, *, ratio: float = 1.05) -> float:
    """The alpha of least error, assumed unimodal in log alpha: ternary search until the ends are within a ratio."""
    if not 0 < low < high:
        raise QueryError(f"alpha must be looked for between two positive numbers, got {low} and {high}")
    a, b = math.log(low), math.log(high)
    while b - a > math.log(ratio):
        third = (b - a) / 3
        if error(math.exp(a + third)) <= error(math.exp(b - third)):
            b -= third
        else:
            a += third
    return math.exp((a + b) / 2)
