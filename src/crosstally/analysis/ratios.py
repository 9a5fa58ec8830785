"""Odds ratios and relative risks."""

from __future__ import annotations

import numpy as np

from crosstally.answers.marginal import Marginal
from crosstally.errors import QueryError
from crosstally.typing import Floats


def odds_ratio(table: Marginal) -> Marginal:
    """The odds of the first column in the first row over those in the second row: (a / b) / (c / d).

    Its interval is that of its logarithm: it errs by factors.

    Args:
        table: Two rows and two columns; select or group labels first, in the order wanted:
            ``m.sel(sex=["Female", "Male"], employed=["yes", "no"])``.
    """
    _check_two_by_two(table)
    return table.statistic(_odds_ratios, "odds ratio")


def relative_risk(table: Marginal) -> Marginal:
    """The share of the first column in the first row over its share in the second row: (a / (a + b)) / (c / (c + d)).

    Its interval is that of its logarithm: it errs by factors.

    Args:
        table: Two rows and two columns, as for ``odds_ratio``.
    """
    _check_two_by_two(table)
    return table.statistic(_relative_risks, "relative risk")


def _odds_ratios(stack: Floats) -> Floats:
    return _divided(stack[:, 0, 0] * stack[:, 1, 1], stack[:, 0, 1] * stack[:, 1, 0])


def _relative_risks(stack: Floats) -> Floats:
    return _divided(stack[:, 0, 0] * stack[:, 1].sum(axis=1), stack[:, 1, 0] * stack[:, 0].sum(axis=1))


def _divided(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _check_two_by_two(table: Marginal) -> None:
    if table.values.shape != (2, 2):
        raise QueryError(f"the table must have two rows and two columns, got {table.values.shape}; use sel or group")
