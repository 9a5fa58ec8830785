"""Answers whose noise is correlated: split into independent noise and shared errors, which the fast path has as a part.

Let S be the covariance of the noise of some answers and d its diagonal. With k the smallest eigenvalue of the
correlation matrix, S - k diag(d) is positive semidefinite, so that

    noise = e + G u,    e ~ N(0, k diag(d)) independent,    G G' = S - k diag(d),    u ~ N(0, I)

G u enters the answers as the features of a set of attributes do (``components``), with variance 1. No question has it,
so no estimate contains it.

>>> independent, shared = split_noise(np.array([[4.0, 1.0], [1.0, 1.0]]))
>>> independent.tolist(), (shared @ shared.T + np.diag(independent)).round(12).tolist()
([2.0, 0.5], [[4.0, 1.0], [1.0, 1.0]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.measurements import Measurement, read_only
from crosstally.typing import Floats

_ROUNDING = 1e-12  # eigenvalues below this part of the largest are rounding, and their shared errors are left out


@dataclass(frozen=True, slots=True, eq=False)
class Correlated:
    """Answers to linear queries, each with its variance, and the covariance of the noise of all of them."""

    answers: tuple[Measurement, ...]
    covariance: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", read_only(self.covariance, np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class SharedErrors:
    """Which of the past answers share errors, and how much of each they have: ``columns`` is G, a row for an answer."""

    rows: NDArray[np.intp]
    columns: Floats

    def chosen(self, marks: NDArray[np.bool_]) -> SharedErrors:
        """Those of the answers that are marked, numbered among all that are."""
        kept = marks[self.rows]
        return SharedErrors((np.cumsum(marks) - 1)[self.rows[kept]], self.columns[kept])


def split_noise(covariance: Floats) -> tuple[Floats, Floats]:
    """The variances of the independent noise, and G: how much of each shared error is in each answer."""
    variances = np.diag(covariance)
    roots = np.sqrt(variances)
    values, vectors = np.linalg.eigh(covariance / roots / roots[:, None])
    left = values - values[0]
    kept = left > _ROUNDING * values[-1]
    return np.asarray(values[0] * variances), np.asarray(roots[:, None] * vectors[:, kept] * np.sqrt(left[kept]))


def shared_errors(
    linear: Sequence[Measurement], correlated: Sequence[Correlated]
) -> tuple[Floats, tuple[SharedErrors, ...]]:
    """The variance of the independent noise of each linear answer, and the errors that some of them share."""
    places = {id(each): i for i, each in enumerate(linear)}
    noise = np.array([each.variance for each in linear])
    found = []
    for group in correlated:
        rows = np.array([places[id(each)] for each in group.answers], np.intp)
        noise[rows], columns = split_noise(group.covariance)
        if columns.shape[1]:
            found.append(SharedErrors(rows, columns))
    return noise, tuple(found)
