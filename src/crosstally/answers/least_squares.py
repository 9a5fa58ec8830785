"""Tables straight from an estimate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.residuals import Estimate

__all__ = ["least_squares"]


def least_squares(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
    """The tables of least squares that agree with the estimate: what was never measured is taken as zero.

    A covered table is the estimate itself. Of all tables that agree with what was measured about one that is not
    covered, this is the flattest: it has the least sum of squares (PriView's CLN).
    """
    return estimate.tables(tables)
