"""Repeat the inference of a release: draw its measurements again around a smooth truth and infer again (a bootstrap).

t is the smoothed estimate (``shrinkage.smoothed``), l are the combined coefficients, v their variances, x the estimate.
For each replicate r,

    l*r = t + noise like that measured (``replicates``),        x*r = the same inference of l*r,

with the mixture and the blends that the release's own measurements chose. The deviations x*r - t have the distribution
of the error of x if t is like the truth. But t is smoother than the truth, so the real error of shrinkage is larger.
How much larger is estimated without the truth, for each order, by the risk estimate of ``risk``,

    E sum (x - truth)^2 / v  =  E [ sum (x - l)^2 / v  +  2 sum cov(x - l, l) / v  +  n ],

n the number of coefficients: x - truth is x - l plus l - truth, and the latter has the mean square v. (With cov(x, l)
instead, which is larger by v, the last term is -n, as in ``risk``.) The covariance comes from the replicates. This risk
is itself uncertain: its excess over the mean square of the deviations is replaced by its mean under a normal law about
the estimate, cut off below zero (``_beyond``), and the deviations are stretched accordingly.

Everything here is public: it is computed from what is published. This noise does not protect anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.inference.estimates import Inference
from crosstally.inference.joint_correction import LEAST_VARIANCE, view_orders
from crosstally.inference.bootstrap import noise_of_coefficients, seed_of
from crosstally.inference.shrink import smoothed
from crosstally.residuals import Estimate
from crosstally.typing import Floats

__all__ = ["REPEATS", "Repeats", "repeated"]

REPEATS = 20
"""How many replicates at least: the root of a mean of 20 squares is known to about 16%, and neighbouring cells share
theirs."""

_MOST_REPEATS = 100
"""Replicates of small releases, which are cheap: 100 know the root of a mean square to 7%. Figures do not share what
they know as cells do. With 20 their 95% intervals were 7% wider than errors call for, because Student's quantile is."""

_NUMBERS = 100_000
"""Replicates times coefficients up to which there are more than ``REPEATS``: releases of 1,000 coefficients have 100,
those of 5,000 have 20. Twice as many would take up to twice the time of a first interval."""

# Replicates even of the largest releases: with 6 a standard deviation is known to about 29%. Fewer would say little.
_LEAST_REPEATS = 6
_MOST_NUMBERS = 40_000_000
"""Deviations are kept in four bytes each; releases of more than 2,000,000 coefficients get fewer replicates."""

_MOST_STRETCH = 3.0
"""Deviations are stretched at most by this; 1.00 to 1.35 was seen on real tables."""

# An estimate so many standard errors below what is possible leaves a thirtieth of one beyond it; less would overflow.
_FAR_BELOW = -30.0

_STREAM = 0x696E74657276616C
"""Added to the seed, so that these replicates are not those that chose the blends: there the blend knows them."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """The smooth truth and, for each replicate, the deviation of its estimate from that truth.

    Both are coefficients in the places of the estimate; ``deviations`` has a row for each replicate. ``stretches`` says
    by what the deviations of each order were multiplied, and ``left`` how large their mean square is after that, in
    units of the variances of least squares. ``linear`` are the combined coefficients of the release itself, ``views``
    the attributes of its measurements, and ``seed`` is for further draws.
    """

    truth: Floats
    deviations: NDArray[np.float32]
    stretches: Floats
    left: Floats
    _: KW_ONLY
    linear: Floats
    views: tuple[tuple[str, ...], ...]
    seed: int

    def at(self, places: NDArray[np.intp]) -> Floats:
        """Coefficients at some places: the truth first, then those of each replicate."""
        truth = self.truth[places]
        return np.concatenate([truth[None], truth + self.deviations[:, places]])


def repeated(inference: Inference, *, number: int | None = None) -> Repeats:
    """The inference repeated ``number`` times, or less often where the release is very large.

    Args:
        inference: Of the release.
        number: Replicates; by default 20 to 100, the more the smaller the release is.
    """
    linear, found = inference.linear, inference.estimate.coefficients
    size = len(found)
    number = int(np.clip(_NUMBERS // max(size, 1), REPEATS, _MOST_REPEATS)) if number is None else number
    number = max(min(number, _MOST_NUMBERS // max(size, 1)), min(number, _LEAST_REPEATS))
    truth = smoothed(linear, inference.views, found)
    variances = np.maximum(linear.variances, LEAST_VARIANCE)
    orders = _orders(inference)
    deviations = np.empty((number, size), np.float32)
    covariances, squares = np.zeros(size), np.zeros(size)
    for row, noise in zip(deviations, _noises(inference, number), strict=True):
        start = _with_total_above_zero(truth + noise, inference)
        deviation = inference.again(start) - truth
        row[:] = deviation
        # of x - l with l, not of x: the noise that x keeps would only add error
        covariances += noise * (deviation - noise) / number
        squares += deviation**2 / number
    # coefficient by coefficient what the header's identity has the expectation of
    risks = ((found - linear.coefficients) ** 2 + 2 * covariances) / variances + 1
    own: Floats = np.bincount(orders, squares / variances).astype(np.float64)
    stretches = np.sqrt(1 + _beyond(risks, own, orders) / np.maximum(own, LEAST_VARIANCE)).clip(max=_MOST_STRETCH)
    stretches[0] = 1.0  # the total, and what no view holds, are as they were measured
    deviations *= stretches[orders].astype(np.float32)
    left = own * stretches**2 / np.maximum(np.bincount(orders), 1)
    views = tuple(sorted({m.query.attributes for m in inference.measurements}))
    seed = seed_of(linear.schema, inference.measurements) + 2 * _STREAM
    return Repeats(truth, deviations, stretches, left, linear=linear.coefficients, views=views, seed=seed)


def _beyond(risks: Floats, own: Floats, orders: NDArray[np.int64]) -> Floats:
    """For each order the expected excess of its risk over that of the replicates, given that it is not negative.

    The sum of estimated risks is about normal; its variance is the sum of the squares of what each coefficient has
    beyond the mean. d being what it has beyond ``own``, in its standard errors, a normal law cut off below zero has the
    mean d + phi(d) / Phi(d): d where it is large, and about 0.8 where it is zero.
    """
    from scipy.special import log_ndtr

    numbers = np.maximum(np.bincount(orders), 1)
    sums = np.bincount(orders, risks)
    errors = np.sqrt(np.bincount(orders, (risks - (sums / numbers)[orders]) ** 2))
    units = np.maximum(errors, LEAST_VARIANCE)
    apart = np.maximum((sums - own) / units, _FAR_BELOW)
    ratio = np.exp(-0.5 * apart**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(apart))
    return np.asarray(np.maximum(apart + ratio, 0.0) * units)


def _orders(inference: Inference) -> NDArray[np.int64]:
    """How many attributes each coefficient holds; those outside all views, which nothing corrects, count as none."""
    orders = np.zeros(len(inference.linear.keys), np.int64)
    for view in inference.views:
        orders[view.places] = np.rint(view_orders(view.shape)).astype(np.int64)
    return orders


def _noises(inference: Inference, number: int) -> Iterator[Floats]:
    """Noise of the combined coefficients, drawn anew; where the number of rows is known the total has none."""
    linear, averages, measurements = inference.linear, inference.averages, inference.measurements
    seed = (seed_of(linear.schema, measurements) + _STREAM) % 2**128

    for drawn in noise_of_coefficients(averages, measurements, seed=seed, number=number):
        noise = Estimate(linear.schema, averages.keys, coefficients=drawn, variances=averages.variances)
        if not linear.variances[linear.places([()])[0]].any():  # a public number of rows
            noise = averages.with_total(noise, 0.0)
        yield noise.coefficients


def _with_total_above_zero(coefficients: Floats, inference: Inference) -> Floats:
    total = inference.linear.places([()])[0]
    coefficients[total] = np.maximum(coefficients[total], 0.0)
    return coefficients
