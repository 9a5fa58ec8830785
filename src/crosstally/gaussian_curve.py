"""Gaussian differential privacy, of which accounts add up mu^2: what noise costs in it, and what a sum implies.

A mechanism is mu-GDP if telling two neighbours apart by it is no easier than telling a standard normal number from one
with mean mu. ``docs/methods/tight-accounting.md`` proves each bound that is used here; all of them are rounded to the
safe side.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

_DIGITS = 50  # a double's 17, what tails lose by cancellation (16 for the least mu^2), and room
_UP, _DOWN = Context(prec=_DIGITS, rounding=ROUND_CEILING), Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_ROOT_TWO_PI = (  # the root of 2 pi, below and above
    Decimal("2.506628274631000502415765284811045253006986740609938316"),
    Decimal("2.506628274631000502415765284811045253006986740609938317"),
)
_BITS = 64  # of what a shift of one costs, rounded up: scales have 53, so that the least one is found
_HALF_PI = Fraction(11, 7)  # above pi / 2 by a part in 2,484
_CAP_BITS = 40  # of the largest mu^2 within a cap, rounded down: below 1e-12 of the budget is lost
_LEAST = 2.0**-104  # of mu^2: less needs noise of a scale above 2^52, which no sampler has
_NOTHING = Decimal("1e-310")  # stands for any smaller delta: below what a budget may name, and short as a fraction
_FAR = 4  # where tails go over from the series to the continued fraction; it loses 5 digits, the fraction has 34
_TERMS = 120  # of the continued fraction: at 4 an error of 1e-34; with fewer, bounds are wider and never wrong


# What noise costs


@lru_cache(maxsize=4096)
def gaussian_cost(scale: float) -> Fraction:
    """The mu^2 of a discrete Gaussian number that moves by one, rounded up; moved by s it costs s^2 times as much.

    The solution y of y - y^2 / 12 = 1 / scale^2, nearly 1 / (scale^2 - 1 / 12); for tiny scales 4 / scale^2.

    >>> round(float(gaussian_cost(1.0)), 4), round(float(gaussian_cost(10.0)), 7)
    (1.101, 0.0100083)
    """
    squared = Fraction(scale) ** 2
    if 3 * squared < 1:
        return _short_above(4 / squared)
    third = 1 / (3 * squared)
    root = Fraction(math.isqrt(math.floor((1 - third) * 2**256)), 2**128)  # of 1 - third, rounded down
    return _short_above(6 * third / (1 + root))


def gaussian_scale_squared(cost: Fraction) -> Fraction:
    """The square of the least scale at which a move by one costs no more."""
    return 12 / (cost * (12 - cost)) if cost <= 6 else min(Fraction(1, 3), 4 / cost)


def ratio_cost(spread: Fraction) -> Fraction:
    """The mu^2 of a mechanism whose log-likelihood ratio of two neighbours varies by no more than this, rounded up.

    It is 2 epsilon for pure epsilon, and epsilon for a choice.
    """
    return _HALF_PI * spread**2 / 4


def _short_above(fraction: Fraction) -> Fraction:
    """The fraction rounded up to few binary digits: sums of many stay short."""
    shift = _BITS - fraction.numerator.bit_length() + fraction.denominator.bit_length()
    return Fraction(math.ceil(fraction * Fraction(2) ** shift)) / Fraction(2) ** shift


# What a sum of costs implies


def gaussian_delta(mu2: Fraction, epsilon: Fraction) -> Decimal:
    """The least delta at which mu-GDP is (epsilon, delta)-private, rounded up.

    It is Q(epsilon / mu - mu / 2) - e^epsilon Q(epsilon / mu + mu / 2), where Q is the upper tail of the normal.
    """
    squared, given = (_UP.divide(Decimal(each.numerator), Decimal(each.denominator)) for each in (mu2, epsilon))
    most = _UP.next_plus(_UP.sqrt(squared))  # a larger mu has a larger delta
    least = _DOWN.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    half = _UP.divide(most, Decimal(2))
    near = _DOWN.subtract(_DOWN.divide(least, most), half)
    far = _UP.add(_UP.divide(given, most), _UP.divide(most, Decimal(2)))
    if near <= -_FAR:
        return Decimal(1)  # a valid delta; the true one is above 0.9999
    return max(_UP.subtract(_tail(near, Decimal(0), _UP), _tail(far, least, _DOWN)), _NOTHING)


@lru_cache(maxsize=256)
def mu2_within(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """The largest mu^2, rounded down, whose guarantee implies (epsilon, delta); None if it is too small to be spent."""

    def fits(mu2: float) -> bool:
        return Fraction(gaussian_delta(Fraction(mu2), epsilon)) <= delta

    log = math.log(delta.denominator) - math.log(delta.numerator)
    found = max(2 * (float(epsilon) / (math.sqrt(log + float(epsilon)) + math.sqrt(log))) ** 2, _LEAST)
    while not fits(found):
        found /= 2
        if found < _LEAST:
            return None
    found = math.ldexp(1.0, math.frexp(found)[1] - 1)
    while fits(2 * found):
        found *= 2
    step = found / 2
    for _ in range(_CAP_BITS):
        found, step = (found + step if fits(found + step) else found), step / 2
    return Fraction(found)


def gaussian_epsilon(mu2: Fraction, delta: Fraction) -> float:
    """The least epsilon at which mu-GDP is (epsilon, delta)-private, rounded up to a double."""

    def fits(epsilon: float) -> bool:
        return Fraction(gaussian_delta(mu2, Fraction(epsilon))) <= delta

    if fits(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not fits(high):
        low, high = high, 2 * high
    for _ in range(60):  # doubles have 53 bits
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def chance_of_guessing(mu2: Fraction) -> float:
    """The chance of guessing right which of two neighbours it was, 50 to 50 before: Phi(mu / 2), rounded up."""
    half = _UP.divide(_UP.next_plus(_UP.sqrt(_UP.divide(Decimal(mu2.numerator), Decimal(mu2.denominator)))), Decimal(2))
    return math.nextafter(float(_UP.subtract(Decimal(1), _tail(half, Decimal(0), _DOWN))), 2.0)


def _tail(x: Decimal, power: Decimal, rounded: Context) -> Decimal:
    """e^power times the upper tail of the normal beyond x > -4, rounded up or down."""
    if x >= _FAR:
        return rounded.multiply(_density(x, power, rounded), _mills(x, rounded))
    within = rounded if x < 0 else _opposite(rounded)  # phi(x) S(|x|) is added to a half, or subtracted from it
    area = within.multiply(_density(x, Decimal(0), within), _series(x.copy_abs(), within))
    tail = rounded.add(Decimal("0.5"), area if x < 0 else area.copy_negate())
    return rounded.multiply(_exp(power, rounded), max(tail, Decimal(0)))


def _density(x: Decimal, power: Decimal, rounded: Context) -> Decimal:
    """e^power times the density of the normal."""
    other = _opposite(rounded)
    found = _exp(rounded.subtract(power, other.divide(other.multiply(x, x), Decimal(2))), rounded)
    return rounded.divide(found, _ROOT_TWO_PI[rounded is _DOWN])


def _opposite(rounded: Context) -> Context:
    return _DOWN if rounded is _UP else _UP


def _exp(power: Decimal, rounded: Context) -> Decimal:
    """Decimal's own exponential is rounded to nearest, whatever the context says."""
    found = rounded.exp(power)
    return rounded.next_plus(found) if rounded is _UP else max(rounded.next_minus(found), Decimal(0))


def _series(x: Decimal, rounded: Context) -> Decimal:
    """Sum of x^(2n+1) / (1 3 5 ... (2n+1)): all terms are positive, what is left out is below the last one."""
    term, total, n = x, x, 0
    while term > Decimal("1e-70") or 2 * x * x > 2 * n + 3:
        n += 1
        term = rounded.divide(rounded.multiply(term, rounded.multiply(x, x)), Decimal(2 * n + 1))
        total = rounded.add(total, term)
    return rounded.add(total, term) if rounded is _UP else total


def _mills(x: Decimal, rounded: Context) -> Decimal:
    """The tail over the density, 1 / (x + 1 / (x + 2 / (x + ...))): the n-th x + ... lies between x and x + n / x."""
    low, high = x, _UP.add(x, _UP.divide(Decimal(_TERMS), x))
    for n in range(_TERMS - 1, 0, -1):
        number = Decimal(n)
        low, high = _DOWN.add(x, _DOWN.divide(number, high)), _UP.add(x, _UP.divide(number, low))
    return rounded.divide(Decimal(1), low if rounded is _UP else high)
