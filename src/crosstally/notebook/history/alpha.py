"""Choose a single alpha from noisy answers: by cross-validation, leave-one-out, or Stein's estimate.

Each method estimates the mean squared error for an alpha. Where estimates are compared with answers that they did not
use, the variance of the answers' noise is subtracted (EDBT 2012, theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers, Posterior
from crosstally.typing import Floats

__all__ = ["best_alpha", "cross_validated", "folds_of", "leave_one_out", "one_alpha", "stein"]


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
