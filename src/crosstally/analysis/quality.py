"""How reliable numbers are, by their coefficient of variation, as official statistics flag them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.tables import Marginal
from crosstally.typing import Floats

__all__ = ["coefficient_of_variation", "quality", "suppress"]

THRESHOLDS = (0.165, 0.333)
"""As Statistics Canada has them: up to 16.5% as it is, up to 33.3% with care (E), above that not at all (F)."""

FLAGS = ("", "E", "F")
_LEVEL, _NORMAL = 0.95, 1.959964
"""Where there is no standard error, half of a 95% interval over the normal quantile stands for it."""


def coefficient_of_variation(table: Marginal) -> Floats:
    """The standard error of each number over the number; infinite for zero, NaN where the error is not known."""
    errors = table.std_error
    if np.isnan(errors).any() and table.ends is not None:
        low, high = table.interval(_LEVEL)
        errors = np.where(np.isnan(errors), (high - low) / (2 * _NORMAL), errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(table.values == 0, np.inf, errors / np.abs(table.values)))


def quality(
    table: Marginal, *, thresholds: Sequence[float] = THRESHOLDS, flags: Sequence[str] = FLAGS
) -> NDArray[np.str_]:
    """A flag for each number: the first where its coefficient of variation is at most the first threshold, and so on.

    Args:
        table: What is judged.
        thresholds: Increasing.
        flags: One more than thresholds; the last is also for numbers whose error is not known.
    """
    if list(thresholds) != sorted(set(thresholds)) or len(flags) != len(thresholds) + 1:
        raise QueryError("thresholds must increase, and flags be one more than thresholds")
    variation = coefficient_of_variation(table)
    places = np.where(np.isnan(variation), len(thresholds), np.searchsorted(thresholds, variation))
    return np.asarray(np.array(flags)[places])


def suppress(table: Marginal, *, above: float = THRESHOLDS[-1]) -> Marginal:
    """The table without the numbers whose coefficient of variation is above a threshold, or not known: these are NaN.

    It is for reading, not for privacy: whoever has the release can compute them again.
    """
    hidden = ~(coefficient_of_variation(table) <= above)
    return replace(table, values=np.where(hidden, np.nan, table.values))
