"""Groups of values and the values themselves, put together by least squares.

In the extended schema (``query.ways``) an attribute with groups stands twice. Let T be the total, x the counts of
its n values, u those of its G groups and m_g how many values group g has. Averaged as for any schema, measurements say
independently of each other

    T                          with variance tau,
    r = u - T / G              from the tables that count groups, with precision p in every direction,
    rho = x - T / n            from its own table in full, with precision q in every direction.

Given T, least squares minimises p |u - T/G - r|^2 + q |x - T/n - rho|^2 where u are the sums of x over groups and sum
to T. Within a group x differs from rho by a constant only. So, with s the sums of rho over groups, the second term is
q sum_g (u_g - m_g T/n - s_g)^2 / m_g, and

    a_g = 1 / (p + q / m_g),    e_g = a_g (p r_g + q s_g / m_g),    w = a / sum(a),
    u = e + w (T - sum(e)),     x_k = u_g / m_g + rho_k - s_g / m_g   (g the group of k),
    cov(u) = diag(a) - a a' / sum(a) + tau w w'.

T stays what it was. Where groups have unequal sizes, r and rho together would say something about it too; leaving that
out keeps T, and with it all tables without groups, what they are in any schema, with the same exact errors. Where sizes
are equal this is least squares of everything together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crosstally.measurements import Measurement
from crosstally.query.ways import Groups, full_part
from crosstally.residuals.axes import decompose, rebuild
from crosstally.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """One attribute in groups and in full: the group of each value, and the precisions p and q."""

    groups: NDArray[np.intp]
    of_groups: float
    of_values: float

    @property
    def sizes(self) -> Floats:
        """How many values each group has."""
        return np.bincount(self.groups).astype(np.float64)

    @property
    def _spreads(self) -> Floats:
        return 1 / (self.of_groups + self.of_values / self.sizes)

    @property
    def of_total(self) -> Floats:
        """How much of a larger total each group gets: w."""
        return np.asarray(self._spreads / self._spreads.sum())

    def put_together(self, total: float, r: Floats, rho: Floats) -> tuple[Floats, Floats]:
        """The counts of groups and of values; they agree."""
        sizes = self.sizes
        s = np.bincount(self.groups, rho)
        e = self._spreads * (self.of_groups * r + self.of_values * s / sizes)
        u = e + self.of_total * (total - e.sum())
        return u, ((u - s) / sizes)[self.groups] + rho

    def covariance(self, total_variance: float) -> Floats:
        """The covariance of the counts of groups."""
        a, w = self._spreads, self.of_total
        return np.asarray(np.diag(a) - np.outer(a, w) + total_variance * np.outer(w, w))

    def coefficient_variances(self, total_variance: float) -> tuple[Floats, Floats]:
        """The variances of the coefficients of groups and of values, without that of the total."""
        covariance, sizes = self.covariance(total_variance), self.sizes
        of_groups = np.diagonal(decompose(covariance, 2))
        means = np.zeros((len(sizes), len(self.groups)))  # what a group's count is for each value, were they alike
        means[self.groups, np.arange(len(self.groups))] = 1 / sizes[self.groups]
        means = decompose(means, 1).T
        within = (1 - means**2 @ sizes) / self.of_values
        of_values = within + np.einsum("ij,ij->i", means @ covariance, means)
        return of_groups[1:], np.maximum(of_values, 0.0)[1:]

    def variance(self, weights: Floats, total_variance: float) -> float:
        """The variance of a weighted sum of the counts of values."""
        means = np.bincount(self.groups, weights) / self.sizes
        within = float(((weights - means[self.groups]) ** 2).sum()) / self.of_values
        return within + float(means @ self.covariance(total_variance) @ means)

    def cell_variances(self, total_variance: float) -> Floats:
        """The variance of the count of each value."""
        sizes = self.sizes
        of_groups = np.diagonal(self.covariance(total_variance)) / sizes**2
        return np.asarray((of_groups + (1 - 1 / sizes) / self.of_values)[self.groups])


@dataclass(frozen=True, slots=True, eq=False)
class PlacedNesting:
    """A nesting among coefficients: where the total stands, and where those of groups and of values do without it."""

    nesting: Nesting
    total: int
    of_groups: NDArray[np.intp]
    of_values: NDArray[np.intp]

    def put_together(self, coefficients: Floats) -> None:
        """Replace averages by what they say together, in place."""
        r, rho = (rebuild(np.append(0.0, coefficients[places]), 1) for places in (self.of_groups, self.of_values))
        u, x = self.nesting.put_together(float(coefficients[self.total]), r, rho)
        coefficients[self.of_groups], coefficients[self.of_values] = decompose(u, 1)[1:], decompose(x, 1)[1:]

    def move_total(self, coefficients: Floats, change: float) -> None:
        """What a larger total changes, in place; the total itself stays."""
        nesting, w = self.nesting, self.nesting.of_total
        coefficients[self.of_groups] += change * decompose(w, 1)[1:]
        coefficients[self.of_values] += change * decompose((w / nesting.sizes)[nesting.groups], 1)[1:]

    def put_variances(self, variances: Floats) -> None:
        """Replace the variances of averages by those of what they say together, in place."""
        found = self.nesting.coefficient_variances(float(variances[self.total]))
        variances[self.of_groups], variances[self.of_values] = found


def shares_in_groups(groups: NDArray[np.intp], counts: Floats) -> Floats:
    """The share of each value in its group: by its count if that is positive, alike where no count of a group is.

    >>> shares_in_groups(np.array([0, 0, 1, 1]), np.array([3.0, 1.0, -2.0, 0.0])).tolist()
    [0.75, 0.25, 0.5, 0.5]
    """
    positive = np.maximum(counts, 0.0)
    sums, sizes = np.bincount(groups, positive), np.bincount(groups)
    return np.where(sums[groups] > 0, positive / np.where(sums > 0, sums, 1.0)[groups], 1 / sizes[groups])


def extended_measurements(groups: Groups, measured: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Measurements as those of the extended schema."""
    return tuple(replace(each, query=groups.query(each.query)) for each in measured)


def full_part_measured(measured: Measurement) -> Measurement:
    """What a measurement says about tables in full; sums of its noise count as normal."""
    query, cells = full_part(measured.query)
    if cells == 1:
        return measured
    axes = tuple(i for i, name in enumerate(measured.query.attributes) if name not in query.attributes)
    return replace(
        measured, query=query, values=measured.values.sum(axis=axes), variance=measured.variance * cells, noise=None
    )
