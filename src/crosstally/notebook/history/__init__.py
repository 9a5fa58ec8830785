"""Past answers made useful: estimates of any linear query from all that was ever measured. No rows, no budget."""

from crosstally.notebook.history.bundles import MOST_ASKED_TOGETHER
from crosstally.notebook.history.record import Estimates, History

__all__ = ["MOST_ASKED_TOGETHER", "Estimates", "History"]
