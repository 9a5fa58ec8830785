"""Estimates of any linear query from all past measurements. They need no rows and no budget."""

from crosstally.notebook.history.bundles import MOST_ASKED_TOGETHER
from crosstally.notebook.history.record import Estimates, History

__all__ = ["MOST_ASKED_TOGETHER", "Estimates", "History"]
