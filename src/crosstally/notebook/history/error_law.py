"""How far estimates of new questions are from the truth: a law with one number, learned from answers left out.

Maximum entropy has a distribution p of rows, and ln p differs from the truth by some function g of a row. To first
order the answer to a question f, over n rows, is then wrong by n Cov_p(f, g). Past answers determine g along the past
questions. The rest of f is what no linear combination of past questions explains; its variance over the rows of p is
r(f) (``Unexplained``). If g shifts the log odds of that rest by u, the answer is wrong by n u r(f). For a count and no
past questions this is u times the derivative of the count by its log odds, n p (1 - p). So

    error = c (n r(f) / |f| + t) x S,      S from Student's law with 3 degrees of freedom,

where |f| is the most that a row can add (1 for a count; twice f has twice the error), and t is the standard deviation
of the noise of a typical answer: smaller counts cannot be told from zero. The error bar of the kernel method says how
much is known about a question, but not that small counts have small errors, and not how far maximum entropy errs.

The factor c is the most likely one for the differences between answers and their estimates from other answers
(``held_out``). Such a difference is the error plus the answer's own noise, whose law is known: its likelihood is the
mean of the density of the error over the quantiles of the noise (``factor``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import NoiseKind
from crosstally.measurements import Measurement
from crosstally.notebook.history.chain import CellsOf
from crosstally.notebook.history.constraints import Constraints
from crosstally.notebook.history.newton import MOST_QUERIES
from crosstally.typing import Floats

FREEDOM = 3.0
"""The degrees of freedom of Student's law.

Chosen on FARS-16, ACS and a generated census (lab/evidence/intervals.md): 2, 3 and 4 fit new questions about as well,
and 95% intervals hold 96.7, 95.6 and 95.1% of them.
"""
DEVIATION = math.sqrt(FREEDOM / (FREEDOM - 2))
"""The standard deviation of Student's law."""
# Added to the variance of each past question, at most 1/4 for a count: similar questions explain each other less than
# wholly, since g need not be linear in them. Chosen on the same tables: 0.01 to 0.05 make no difference. With 0.001,
# 94.6, 95.6 and 96.6% hold of one, two and three attributes (27 histories), with this 96.1, 95.1 and 95.7%.
_RIDGE = 0.02
# Rows that variances are computed from: a share of 0.1% is known to half of itself. More take longer.
_ROWS = 5_000
# The standard deviation of ln c about 0 (log odds wrong by 1). Chosen: from 20 answers on, half or twice as much
# makes no difference to coverage.
_BELIEF = 1.0
_NODES = 41  # quantiles of the noise: neighbours are closer than the least error that can be told from it


class Unexplained:
    """The variance of questions over rows that past questions do not explain."""

    def __init__(
        self, rows: NDArray[np.int32], past: Sequence[Constraints], shape: Sequence[int], *, centred: bool
    ) -> None:
        """Regress on past questions.

        Args:
            rows: From the maximum entropy distribution.
            past: The questions that it was fitted to.
            shape: The number of values of each attribute.
            centred: Whether the number of rows is known. If not, squares take the place of variances: what all rows
                have in common may be wrong too.
        """
        self._rows, self._centred = rows[:: max(len(rows) // _ROWS, 1)], centred
        if sum(each.targets.size for each in past) > MOST_QUERIES:  # then the cells of tables are left out
            past = [each for each in past if each.tables is not None]
        columns = [np.empty((len(self._rows), 0), np.float32)]
        for each in past:
            tables = np.eye(each.targets.size) if each.tables is None else each.tables
            columns.append(self._values(CellsOf(each.positions, each.sorting(shape)), tables)[0])
        self._past = np.hstack(columns)
        products = np.asarray(self._past.T @ self._past, np.float64) / len(self._rows)
        self._inverse = np.linalg.inv(products + _RIDGE * np.eye(len(products)))

    def of(self, cells: CellsOf, tables: Floats) -> Floats:
        """r(f) / |f| of questions about the same attributes; a line of ``tables`` is what a row in each cell adds.

        One row more counts as unexplained: a smaller share cannot be told from zero.
        """
        values, most = self._values(cells, tables)
        products = np.asarray(self._past.T @ values, np.float64) / len(self._rows)
        explained = np.einsum("ij,ij->j", products, self._inverse @ products)
        return np.asarray(most * (np.maximum(np.square(values).mean(axis=0) - explained, 0.0) + 1 / len(self._rows)))

    def _values(self, cells: CellsOf, tables: Floats) -> tuple[NDArray[np.float32], Floats]:
        """What each row adds to each question, over the most that a row can add; and that."""
        most = np.abs(tables).max(axis=1)
        values = (tables / np.where(most > 0, most, 1.0)[:, None]).astype(np.float32).T[cells.of(self._rows)]
        return values - values.mean(axis=0) if self._centred else values, most


def factor(gaps: Floats, spreads: Floats, answers: Iterable[Measurement]) -> float:
    """The most likely c, from answers that were left out.

    Args:
        gaps: Each answer's estimate from other answers, less the answer.
        spreads: The part of the law in brackets, n r(f) / |f| + t.
        answers: With the law of their noise.
    """
    from scipy.optimize import minimize_scalar

    gaps = gaps[:, None] - np.array([_quantiles(each) for each in answers])

    def cost(log_factor: float) -> float:
        scales = math.exp(log_factor) * spreads
        densities = (1 + np.square(gaps / scales[:, None]) / FREEDOM) ** (-(FREEDOM + 1) / 2)
        return 0.5 * (log_factor / _BELIEF) ** 2 - float(np.log(densities.mean(axis=1) / scales).sum())

    return math.exp(minimize_scalar(cost, bounds=(-10.0, 10.0), method="bounded").x)


def _quantiles(answer: Measurement) -> Floats:
    """Equally likely values of an answer's noise."""
    from scipy.special import ndtri

    below = (np.arange(_NODES) + 0.5) / _NODES
    if answer.noise is not None and answer.noise.kind is NoiseKind.LAPLACE:
        tail = np.minimum(below, 1 - below)
        return np.asarray(answer.noise.scale * np.sign(0.5 - below) * np.log(2 * tail))
    return np.asarray(math.sqrt(answer.variance) * ndtri(below))
