"""Whether the public number of rows that a release states agrees with its own noisy counts.

Only published numbers are compared: the noisy measurements of the release and the number that its statement holds. So
it costs nothing, and anyone with the file can do the same.
"""

from __future__ import annotations

import math

from crosstally.measurements import PUBLIC
from crosstally.releases.release import Release

__all__ = ["noisy_total", "rows_in_doubt"]

_FAR = 5.0
"""Standard errors between the noisy total and the asserted number. Chosen: one Laplace number is further away in
exp(-5 sqrt(2)) = 1 of 1,200 releases, a Gaussian one in 1 of 1.7 million; a wrong assertion is mostly hundreds away. A
smaller number would raise false alarms; a larger one passes over assertions that are slightly wrong."""


def noisy_total(release: Release) -> tuple[float, float] | None:
    """The number of rows by the noisy measurements alone, and its standard error; None where none has a total.

    The n cells of a measured table have independent noise of variance v: their sum has the variance n v. Sums of
    several tables are averaged with weights 1 / (n v).
    """
    sums = [
        (float(each.values.sum()), each.variance * each.values.size)
        for each in release.measurements
        if each.query.is_table and each.origin != PUBLIC and each.noise is not None
    ]
    if not sums:
        return None
    precision = sum(1 / variance for _, variance in sums)
    return sum(total / variance for total, variance in sums) / precision, 1 / math.sqrt(precision)


def rows_in_doubt(release: Release) -> str | None:
    """What to tell whoever asserted a number of rows that the noisy total contradicts; None where it does not."""
    asserted, found = release.statement.rows, noisy_total(release)
    if asserted is None or found is None:
        return None
    total, error = found
    if abs(total - asserted) <= _FAR * error:
        return None
    return (
        f"the release's own noisy total is {total:,.0f} (standard error {error:,.2g}), far from the {asserted:,} rows "
        "you asserted as public: all tables were made to add up to that number"
    )
