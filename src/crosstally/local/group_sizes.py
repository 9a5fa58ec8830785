"""Are the groups as large as their shares say? Whoever crowds into one group to move a table shows here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FALSE_ALARM", "GroupSizes"]

FALSE_ALARM = 1e-3
"""How often honest collections are called unusual, at most: in one of a thousand."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupSizes:
    """The reports of each group beside what its share lets expect.

    An honest group's size is binomial, whatever people answer. Each size is compared with both tails of that law, and
    the smallest of all probabilities is multiplied by their number, two for each group (Bonferroni): so an honest
    collection is unusual with a probability of at most ``FALSE_ALARM``, exactly, however small its groups are.
    """

    reports: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, reports: NDArray[np.int64], shares: Sequence[int]) -> GroupSizes:
        """The sizes of groups with these whole shares."""
        whole = np.asarray(shares, np.float64)
        return cls(reports, whole / whole.sum())

    @property
    def expected(self) -> NDArray[np.float64]:
        """How many reports each group is expected to have."""
        return np.asarray(self.shares * self.reports.sum(), np.float64)

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """For each group how likely so large, or so small, a size is, times the number of sizes looked at."""
        from scipy.stats import binom

        number, reports = int(self.reports.sum()), self.reports
        tails = np.minimum(binom.cdf(reports, number, self.shares), binom.sf(reports - 1, number, self.shares))
        return np.asarray(np.minimum(1.0, 2 * len(reports) * tails), np.float64)

    @property
    def unusual(self) -> tuple[int, ...]:
        """The groups whose size chance does not explain, the least likely first; none in an honest collection."""
        found = self.probabilities
        order = np.argsort(found, kind="stable")
        return tuple(order[found[order] < FALSE_ALARM].tolist())
