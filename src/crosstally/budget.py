"""How much privacy may be spent, between which tables it is measured, and the noise it buys.

Numbers that a guarantee rests on are exact fractions; they enter through their decimal text, so that 10 x 0.1 is 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NoReturn

from crosstally.errors import BudgetError, PlanError, did_you_mean, must_be_one_of
from crosstally.gaussian_curve import gaussian_cost, gaussian_scale_squared, mu2_within, ratio_cost

_DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_AMOUNT = re.compile(rf"{_DECIMAL}(?:[eE][+-]?[0-9]{{1,3}})?|[+-]?[0-9]+/[0-9]+")
_FAR_OUTSIDE = re.compile(rf"{_DECIMAL}[eE][+-]?[0-9]{{4,}}")
_MAX_TYPED = 4_000  # characters of a budget
_MOST_DIGITS = 10**1800  # above and below the line: a ledger may count in the square, and Python writes 4,300 digits
_MAX_AMOUNT = 8_700  # characters of what a ledger keeps: a fraction of up to 4,300 digits above and below
# Rho is found as a multiple of epsilon / 2^40, rounded down: below 1e-12 of the budget is lost. Plans rest on it.
_RHO_STEPS = 2**40
_DIGITS = 50  # of the conversion from zCDP: far more than a double's 17, so that its result is the next double up
_UP, _DOWN = Context(prec=_DIGITS, rounding=ROUND_CEILING), Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_LEAST_VARIANCE = 1e-300  # variances that underflow count as this: least squares divides by them
_BUDGET_FIELDS = ["epsilon", "delta", "rho", "mu2", "rule"]
_MOST_DECIMALS = 3_600  # after the point; what needs more is written as a ratio. With 300 digits before it still typed

MOST_EPSILON = 10
"""Above it the terminal asks and statements warn; births were published at 9.98 (how-to/choose-a-budget.md)."""
Currency = Literal["epsilon", "rho", "mu2"]
"""What is added up: epsilon, rho (zero-concentrated), or mu^2 (Gaussian differential privacy)."""
SIGNS: Mapping[str, str] = {"epsilon": "ε", "rho": "ρ", "mu2": "μ²"}
"""What is added up, as it is shown."""
Amount = str | float | Fraction | Decimal
"""Types accepted as an epsilon, a delta or a rho: ``exact`` reads the decimal text."""


def check_currency(given: object) -> None:
    """Raise unless it is one that is added up."""
    if given not in tuple(SIGNS):
        raise BudgetError(must_be_one_of("currency", SIGNS, given))


def fraction_of_text(text: object) -> Fraction | None:
    """The exact number in a text, a decimal or a fraction in ASCII digits; None if it is not one.

    Every amount that is read from a file or from the command line comes through here. Python alone would take ``1_0``,
    blanks and the digits of other scripts, and would fill the memory with ``1e30000000``.

    >>> fraction_of_text("0.1"), fraction_of_text("1/3"), fraction_of_text("1_0"), fraction_of_text("1e30000000")
    (Fraction(1, 10), Fraction(1, 3), None, None)
    """
    if not isinstance(text, str) or len(text) > _MAX_AMOUNT or not _AMOUNT.fullmatch(text):
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):  # more digits than Python reads, or 1/0
        return None


def exact(number: object, field: str) -> Fraction:
    """The positive fraction equal to the decimal text of a number.

    >>> 10 * exact(0.1, "epsilon")
    Fraction(1, 1)
    """
    outside = f"{field} must be between 1e-300 and 1e300"
    try:
        text = str(number) if isinstance(number, str | int | float | Fraction | Decimal) else ""
    except ValueError:  # an int of more digits than Python writes
        raise BudgetError(f"{outside}, got a number of very many digits") from None
    if len(text) > _MAX_TYPED or _FAR_OUTSIDE.fullmatch(text):
        raise BudgetError(f"{outside}, got {text[:40]}")
    fraction = fraction_of_text(text)
    if fraction is None:
        raise BudgetError(f"{field} must be a number, got {number!r}")
    if fraction <= 0:
        raise BudgetError(f"{field} must be positive, got {number}")
    if not Fraction(1, 10**300) <= fraction <= 10**300:
        raise BudgetError(f"{outside}, got {text[:40]}")
    if max(fraction.numerator, fraction.denominator) >= _MOST_DIGITS:
        raise BudgetError(f"{field} must be a fraction of at most 1,800 digits, got more")
    return fraction


def decimal_text(fraction: Fraction) -> str:
    """The fraction as people write it, without loss.

    >>> decimal_text(Fraction(1, 10)), decimal_text(Fraction(1, 3)), decimal_text(Fraction(1, 10**9))
    ('0.1', '1/3', '1e-09')
    """
    short = repr(float(fraction))
    if Fraction(short) == fraction:
        return short.removesuffix(".0")
    twos, other = _powers(fraction.denominator, 2)
    fives, other = _powers(other, 5)
    digits = max(twos, fives)
    if other != 1 or digits > _MOST_DECIMALS:
        return str(fraction)
    # In whole numbers: Decimal rounds to the 28 digits of its context.
    text = f"{fraction.numerator * 10**digits // fraction.denominator:0{digits + 1}d}"
    return f"{text[:-digits]}.{text[-digits:]}"


def _powers(number: int, prime: int) -> tuple[int, int]:
    """How often a prime divides a number, and the remaining factor."""
    times = 0
    while number % prime == 0:
        number //= prime
        times += 1
    return times, number


def float_above(fraction: Fraction) -> float:
    """The smallest double that is not below the fraction."""
    number = float(fraction)
    while Fraction(number) < fraction:
        number = math.nextafter(number, math.inf)
    return number


class Neighbours(StrEnum):
    """The neighbour relation: which data sets must be hard to distinguish.

    You can pass its text instead of the member: every function with an argument ``neighbours`` converts it before
    it compares. Compare with ``==``: a text is never identical (``is``) to a member.

    >>> Neighbours("replace") == Neighbours.REPLACE
    True
    """

    ADD_REMOVE = "add-remove"
    """One unit more or less."""
    REPLACE = "replace"
    """One unit changed; the number of units is the same."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Called by ``Neighbours(value)`` where no member has this value."""
        raise BudgetError(must_be_one_of("neighbours", cls, value))


class Objective(StrEnum):
    """What planning minimises with a budget.

    All but "cells" are geometric means over the numbers of attributes of tables; they differ in what a table counts for
    among those of as many attributes.
    """

    BALANCED = "balanced"
    """Squared errors of cells and shares of misplaced rows alike: near the best that is possible in both."""
    TABLES = "tables"
    """The squared error of a cell: all tables count alike."""
    L1 = "l1"
    """The share of rows that are misplaced: tables of many cells, which have most of them, count for more."""
    CELLS = "cells"
    """The weighted sum of the variances of all cells of the workload, as in the papers."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """As for ``Neighbours``."""
        raise PlanError(must_be_one_of("objective", cls, value))


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget: epsilon, rho (zero-concentrated), mu^2 (Gaussian), or epsilon and delta.

    What is bought with epsilon and delta is added up by their ``rule``, mu^2 by default: Gaussian noise then has the
    least variance. By the rule rho Laplace noise costs less than by mu^2.

    >>> print(Budget(epsilon=0.1), "|", Budget(rho=0.5), "|", Budget(epsilon=1, delta=1e-6))
    ε = 0.1 | ρ = 0.5 | ε = 1, δ = 1e-06
    >>> print(*(f"{float(Budget(epsilon=1, delta=1e-6, rule=rule).amount):.5f}" for rule in ("rho", "mu2")))
    0.02436 0.05603
    """

    _: KW_ONLY
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    mu2: Fraction | None = None
    rule: Currency | None = None

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        rho: Amount | None = None,
        mu2: Amount | None = None,
        rule: str | None = None,
    ) -> None:
        for name, number in (("epsilon", epsilon), ("delta", delta), ("rho", rho), ("mu2", mu2)):
            object.__setattr__(self, name, None if number is None else exact(number, name))
        if [self.epsilon, self.rho, self.mu2].count(None) != 2:
            raise BudgetError("a budget must be epsilon, or rho, or epsilon and delta")
        if self.delta is not None and self.epsilon is None:
            raise BudgetError("delta must come with epsilon; rho stands alone")
        if self.delta is not None and self.delta >= 1:
            raise BudgetError(f"delta must be below 1, got {decimal_text(self.delta)}")
        if rule is not None and (self.delta is None or rule not in ("rho", "mu2")):
            raise BudgetError(f"the rule must be mu2 or rho, and comes with epsilon and delta; got {rule!r}")
        object.__setattr__(self, "rule", "mu2" if rule is None and self.delta is not None else rule)

    @property
    def pure(self) -> bool:
        """Whether the guarantee is a pure epsilon, which Laplace noise gives."""
        return self.currency == "epsilon"

    @property
    def currency(self) -> Currency:
        """What is added up when it is spent."""
        if self.rule is not None:
            return self.rule
        return "epsilon" if self.epsilon is not None else "rho" if self.rho is not None else "mu2"

    @property
    def amount(self) -> Fraction:
        """The amount to spend, of what is added up."""
        given = self.epsilon or self.rho or self.mu2
        assert given is not None
        if self.delta is None:
            return given
        found = (zcdp_within if self.rule == "rho" else mu2_within)(given, self.delta)
        if found is None:
            raise BudgetError(f"epsilon and delta are too small to be spent, got {self}")
        return found

    @property
    def nearly_rho(self) -> Fraction:
        """The rho of Gaussian noise that the amount buys, to find shares by: half of mu^2, unless noise is small."""
        return self.amount / 2 if self.currency == "mu2" else self.amount

    def part(self, share: Fraction) -> Budget:
        """A part of it, of what is added up."""
        return self if share == 1 else Budget.from_dict({self.currency: self.amount * share})

    def counted_in(self, currency: str) -> Budget:
        """The same epsilon and delta by the rule of an account that adds up this; other budgets as they are."""
        if self.delta is None or currency == "epsilon":
            return self
        return Budget(epsilon=self.epsilon, delta=self.delta, rule=currency)

    def price_in(self, currency: str) -> Fraction:
        """What it costs an account that adds up this; raises where no such amount stands for the budget.

        Epsilon-DP is epsilon^2 / 2 in rho (mu-GDP is mu^2 / 2), and nearly pi / 2 epsilon^2 in mu^2.
        """
        if currency == self.currency:
            return self.amount
        if currency == "rho":
            return self.amount**2 / 2 if self.pure else self.amount / 2
        if currency == "mu2" and self.pure:
            return ratio_cost(2 * self.amount)
        if currency == "epsilon":
            raise BudgetError(f"counts pure epsilon and cannot pay {self}; give epsilon alone")
        raise BudgetError(f"counts mu^2, of which rho says nothing, and cannot pay {self}; give epsilon and delta")

    def to_dict(self) -> dict[str, str]:
        """The budget as JSON, its numbers as exact text; without its rule epsilon and delta are counted in rho."""
        numbers = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu2": self.mu2}
        texts = {field: decimal_text(number) for field, number in numbers.items() if number is not None}
        return {**texts, "rule": "mu2"} if self.rule == "mu2" else texts

    @classmethod
    def from_dict(cls, given: object) -> Budget:
        """A budget from its JSON."""
        if not isinstance(given, Mapping):
            raise BudgetError(f"budget must be an object, got {type(given).__name__}")
        for key in given:
            if key not in _BUDGET_FIELDS:
                raise BudgetError(f"budget: unknown field {key!r}{did_you_mean(str(key), _BUDGET_FIELDS)}")
        fields: dict[str, Any] = dict(given)
        if "delta" in fields:
            fields.setdefault("rule", "rho")
        return cls(**fields)

    def __str__(self) -> str:
        signs = {**SIGNS, "delta": "δ"}
        return ", ".join(f"{signs[field]} = {text}" for field, text in self.to_dict().items() if field != "rule")


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> float:
    """The least epsilon at which rho-zCDP is (epsilon, delta)-private, rounded up to a double.

    Every order alpha > 1 gives a valid epsilon (Canonne, Kamath and Steinke 2020, corollary 13, solved for epsilon):

        epsilon(alpha) = alpha rho + ln(1 - 1 / alpha) + (ln(1 / delta) - ln(alpha)) / (alpha - 1)

    So the best order may be found in floating point: a poor one gives a larger epsilon, never one that is too small.
    What is claimed rests on one evaluation of this formula, in which every step is rounded up.

    >>> zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6))
    5.221534444530169
    """
    if rho <= 0 or delta >= 1:
        return 0.0
    most_rho = _UP.divide(Decimal(rho.numerator), Decimal(rho.denominator))
    least_delta = _DOWN.divide(Decimal(delta.numerator), Decimal(delta.denominator))
    most_log = _DOWN.next_minus(_DOWN.ln(least_delta)).copy_negate()  # ln(1 / delta)
    step = _UP.exp(Decimal(_best_order(float(_UP.ln(most_rho)), float(most_log))))  # alpha - 1, from here on exact
    least_ln = _DOWN.next_minus(_DOWN.ln(_DOWN.add(Decimal(1), step)))  # ln(alpha)
    terms = (
        _UP.multiply(_UP.add(Decimal(1), step), most_rho),
        _UP.subtract(_UP.next_plus(_UP.ln(step)), least_ln),
        _UP.divide(_UP.subtract(most_log, least_ln), step),
    )
    epsilon = _UP.add(_UP.add(terms[0], terms[1]), terms[2])
    return float_above(max(Fraction(epsilon), Fraction(0)))


def _best_order(log_rho: float, log_inverse: float) -> float:
    """ln(alpha - 1) for the order alpha of the least epsilon; ``log_inverse`` is ln(1 / delta).

    The derivative of epsilon(alpha) is rho - (ln(1 / delta) - ln(alpha)) / (alpha - 1)^2, so the least epsilon is where
    rho (alpha - 1)^2 + ln(alpha) = ln(1 / delta). The left side increases with alpha. Its two terms are both at most
    half of the right side at ``low``, and one of them is all of it at ``high``.
    """
    low, high = (
        min((math.log(each) - log_rho) / 2, each + math.log(-math.expm1(-each)))
        for each in (log_inverse / 2, log_inverse)
    )
    for _ in range(64):  # doubles have 53 bits
        middle = (low + high) / 2
        left = math.exp(2 * middle + log_rho) + math.log1p(math.exp(middle))
        low, high = (middle, high) if left < log_inverse else (low, middle)
    return high


@lru_cache(maxsize=256)
def zcdp_within(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """The largest rho whose zCDP implies (epsilon, delta), in steps of epsilon / 2^40; None if that is too small."""
    low, high = 0, _RHO_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        implied = zcdp_epsilon(epsilon * Fraction(middle, _RHO_STEPS), delta)
        low, high = (middle, high) if Fraction(implied) <= epsilon else (low, middle)
    return epsilon * Fraction(low, _RHO_STEPS) if low else None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The sensitivity of an answer to one unit: in L1, and in squared L2 (so that both are exact)."""

    l1: int
    l2_squared: int


class NoiseKind(StrEnum):
    """Discrete Laplace or discrete Gaussian noise on the integers; Gumbel noise on the scores of a private choice."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    GUMBEL = "gumbel"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """As for ``Neighbours``."""
        raise BudgetError(must_be_one_of("the kind of noise", cls, value))


_NOISE_KINDS = frozenset(each.value for each in NoiseKind)


@dataclass(frozen=True, slots=True)
class Noise:
    """Integer noise: P(k) is proportional to exp(-|k| / scale) or exp(-k^2 / (2 scale^2)).

    Gumbel noise is not added to published numbers but to the scores of a choice; only which score is largest is
    published. So the candidate of score s is chosen with a probability proportional to exp(s / scale).

    With ``parts`` the noise is a multiple of 1 / parts: ``whole`` is the same noise as whole numbers of parts.

    >>> round(Noise(NoiseKind.LAPLACE, 1.0).variance, 4), round(Noise(NoiseKind.GAUSSIAN, 10.0).variance, 4)
    (1.8413, 100.0)
    """

    kind: NoiseKind
    scale: float
    parts: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", NoiseKind(self.kind))
        if isinstance(self.scale, bool) or not isinstance(self.scale, int | float) or not 0 < self.scale < 2**52:
            raise BudgetError(f"the scale of noise must be positive and below 2^52, got {self.scale!r}")
        object.__setattr__(self, "scale", float(self.scale))
        if self.parts > 1 and self.scale * self.parts >= 2**52:
            raise BudgetError(f"the scale of noise in {self.parts:,} parts must be below 2^52, got {self.scale:,.4g}")

    def in_parts(self, parts: int) -> Noise:
        """Noise of this scale in multiples of 1 / parts."""
        return self if parts == self.parts else replace(self, parts=parts)

    @property
    def whole(self) -> Noise:
        """The noise in whole numbers of parts. Its scale is rounded up, so that it never costs more."""
        return self if self.parts == 1 else Noise(self.kind, float_above(Fraction(self.scale) * self.parts))

    @property
    def variance(self) -> float:
        """The exact variance of the discrete noise (at least 1e-300, so that one can divide by it)."""
        if self.parts > 1:
            return max(self.whole.variance / self.parts**2, _LEAST_VARIANCE)
        if self.kind is NoiseKind.GUMBEL:
            return max((math.pi * self.scale) ** 2 / 6, _LEAST_VARIANCE)
        if self.kind is NoiseKind.LAPLACE:
            ratio = math.exp(-1 / self.scale)
            return max(2 * ratio / math.expm1(-1 / self.scale) ** 2, _LEAST_VARIANCE)
        if self.scale > 5:  # the discrete and the continuous variance agree to the last bit
            return self.scale**2
        twice = max(2 * self.scale**2, math.ulp(0.0))  # the square of a scale below 1e-162 is no double
        weights = [math.exp(-(k**2) / twice) for k in range(1, 80)]
        return max(2 * sum(k**2 * w for k, w in enumerate(weights, 1)) / (1 + 2 * sum(weights)), _LEAST_VARIANCE)

    def cost(self, sensitivity: Sensitivity) -> Fraction:
        """The privacy cost of an answer with this noise: epsilon for Laplace and Gumbel, rho for Gaussian. Exact."""
        scale = Fraction(self.scale)
        if self.kind is NoiseKind.GUMBEL:
            return 2 * sensitivity.l1 / scale
        if self.kind is NoiseKind.LAPLACE:
            return sensitivity.l1 / scale
        return sensitivity.l2_squared / (2 * scale**2)

    def unit_cost(self, currency: Currency) -> Fraction:
        """What an answer costs that moves by one in one number; epsilon grows with its L1, rho and mu^2 with a square.

        That is the square of its L2 for Gaussian noise, of its L1 for Laplace noise and choices, whose rho is
        epsilon^2 / 2 and epsilon^2 / 8: the loss of a choice ranges over epsilon, not 2 epsilon.
        """
        check_currency(currency)
        if currency == "mu2" and self.kind is NoiseKind.GAUSSIAN:
            return gaussian_cost(self.scale)
        scale = Fraction(self.scale)
        if currency == "epsilon":
            return (2 if self.kind is NoiseKind.GUMBEL else 1) / scale
        return 1 / (2 * scale**2) if currency == "rho" else ratio_cost(2 / scale)

    @classmethod
    def affordable(cls, sensitivity: Sensitivity, amount: Fraction, *, currency: Currency) -> Noise:
        """The least noise whose cost does not exceed the amount: Laplace noise for epsilon, otherwise Gaussian."""
        check_currency(currency)
        if currency == "epsilon":
            return cls(NoiseKind.LAPLACE, float_above(sensitivity.l1 / amount))
        if currency == "rho":
            return cls(NoiseKind.GAUSSIAN, _root_above(sensitivity.l2_squared / (2 * amount)))
        each = amount / sensitivity.l2_squared
        scale = _root_above(gaussian_scale_squared(each))
        while scale < 2**52 and gaussian_cost(scale) > each:  # it is rounded up; once or twice
            scale = math.nextafter(scale, math.inf)
        return cls(NoiseKind.GAUSSIAN, scale)

    @classmethod
    def affordable_choice(cls, sensitivity: Sensitivity, amount: Fraction, *, currency: Currency) -> Noise:
        """The least noise on the scores of a choice that costs no more; its epsilon is 2 Delta / scale."""
        check_currency(currency)
        if currency == "epsilon":
            return cls(NoiseKind.GUMBEL, float_above(2 * sensitivity.l1 / amount))
        squared = sensitivity.l1**2 / amount
        return cls(
            NoiseKind.GUMBEL, _root_above(squared / 2 if currency == "rho" else squared * ratio_cost(Fraction(2)))
        )

    def to_dict(self) -> dict[str, Any]:
        """The noise as JSON; the scale is written so that it reads back as the same double."""
        return {"kind": self.kind.value, "scale": self.scale}

    @classmethod
    def from_dict(cls, given: object) -> Noise:
        """Noise from its JSON."""
        if not isinstance(given, dict) or given.keys() != {"kind", "scale"}:
            raise BudgetError("noise must be an object with kind and scale")
        kind, scale = given["kind"], given["scale"]
        if not isinstance(kind, str) or kind not in _NOISE_KINDS:
            raise BudgetError(f"noise: kind must be laplace, gaussian or gumbel, got {kind!r}")
        return _noise(kind, scale) if type(scale) is float else cls(NoiseKind(kind), scale)

    def __str__(self) -> str:
        return f"{self.kind.value} noise of scale {self.scale:,.4g}"


@lru_cache(maxsize=256)
def _noise(kind: str, scale: float) -> Noise:
    """A plan may hold a hundred thousand requests, and has few kinds of noise."""
    return Noise(NoiseKind(kind), scale)


def _root_above(fraction: Fraction) -> float:
    """A double not below the square root of a fraction."""
    root = math.sqrt(fraction)
    while Fraction(root) ** 2 < fraction:
        root = math.nextafter(root, math.inf)
    return root
