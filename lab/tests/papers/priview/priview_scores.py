"""Made-up scores for tests of verdicts."""

from __future__ import annotations

import numpy as np

from crosstally_lab.papers.priview.trials import DISTANCE, Scores

KOSARAK, AOL = "Kosarak, resampled", "generated, in place of AOL"


def scored(
    method: str, error: float, *, data: str = KOSARAK, epsilon: float = 1.0, k: int = 4, noise: float | None = None
) -> Scores:
    """Scores whose errors are all the same."""
    errors = {DISTANCE: np.full((5, 3), error)}
    return Scores(method, data, attributes=32, rows=1000, epsilon=epsilon, k=k, errors=errors, noise=noise)
