"""Past answers made useful: estimates of any linear query from all that was ever measured. No rows, no budget."""

from crosstally.notebook.history.bundles import MAX_ATTRIBUTES
from crosstally.notebook.history.record import Estimates, History

__all__ = ["MAX_ATTRIBUTES", "Estimates", "History"]
