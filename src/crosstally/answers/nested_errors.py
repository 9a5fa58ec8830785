"""The error of a one-way table that was measured in full while larger tables count groups of its values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.marginal import ErrorKind
from crosstally.residuals.nested import Nesting

__all__ = ["NestedError"]


class NestedError:
    """Standard errors, exact for the linear estimate; noise of many tables is in them and counts as normal."""

    kind = ErrorKind.ESTIMATED

    def __init__(self, std_error: float | NDArray[np.float64]) -> None:
        self.std_error = std_error

    @classmethod
    def of_cells(cls, nesting: Nesting, total_variance: float) -> NestedError:
        """The errors of all cells."""
        return cls(np.sqrt(nesting.cell_variances(total_variance)))

    @classmethod
    def of_sum(cls, nesting: Nesting, total_variance: float, chosen: NDArray[np.bool_]) -> NestedError:
        """The error of the sum of some cells."""
        return cls(math.sqrt(nesting.variance(chosen.astype(np.float64), total_variance)))

    def half_width(self, level: float) -> float | NDArray[np.float64]:
        """The h such that normal noise stays within plus or minus h with this probability."""
        from scipy.special import ndtri

        return float(ndtri((1 + level) / 2)) * self.std_error
