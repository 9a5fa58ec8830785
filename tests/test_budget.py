"""Budgets are exact; noise is the least that a budget buys; variances are those of discrete noise."""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from random import Random

import pytest

from crosstally.budget import (
    Budget,
    Noise,
    NoiseKind,
    Sensitivity,
    decimal_text,
    exact,
    float_above,
    zcdp_epsilon,
    zcdp_within,
)
from crosstally.errors import BudgetError


def test_numbers_enter_through_their_decimal_text() -> None:
    assert sum([Budget(epsilon=0.1).amount] * 10) == 1
    assert sum([Fraction(0.1)] * 10) > 1  # what would happen otherwise
    assert exact("1/3", "epsilon") == Fraction(1, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": -0.5}, "epsilon must be positive, got -0.5"),
        ({"epsilon": 0}, "epsilon must be positive, got 0"),
        ({"epsilon": float("nan")}, "epsilon must be a number, got nan"),
        ({"epsilon": float("inf")}, "epsilon must be a number, got inf"),
        ({"epsilon": "much"}, "epsilon must be a number, got 'much'"),
        ({"epsilon": True}, "epsilon must be a number, got True"),
        ({"rho": -1}, "rho must be positive, got -1"),
        ({}, "a budget must be epsilon, or rho, or epsilon and delta"),
        ({"epsilon": 1, "rho": 1}, "a budget must be epsilon, or rho, or epsilon and delta"),
        ({"delta": 0.1, "rho": 1}, "delta must come with epsilon; rho stands alone"),
        ({"delta": 1, "epsilon": 1}, "delta must be below 1, got 1"),
        ({"delta": 0, "epsilon": 1}, "delta must be positive, got 0"),
    ],
)
def test_what_is_not_a_budget(given, message) -> None:
    with pytest.raises(BudgetError) as error:
        Budget(**given)
    assert str(error.value) == message


def test_json_both_ways() -> None:
    for budget in (Budget(epsilon=0.1), Budget(rho="1/3"), Budget(epsilon=1, delta=1e-9)):
        assert Budget.from_dict(budget.to_dict()) == budget
    with pytest.raises(BudgetError, match="unknown field 'eps'"):
        Budget.from_dict({"eps": 1})
    with pytest.raises(BudgetError, match="must be an object, got int"):
        Budget.from_dict(1)


def test_decimal_text_loses_nothing() -> None:
    assert decimal_text(Fraction(1, 10)) == "0.1"
    assert decimal_text(Fraction(3)) == "3"
    assert decimal_text(Fraction(1, 3)) == "1/3"
    assert decimal_text(Fraction("0.1000000000000000000001")) == "0.1000000000000000000001"
    assert decimal_text(Fraction(12345, 10**40)) == "1.2345e-36"
    assert (
        decimal_text(1 + Fraction(1, 2**20) + Fraction(1, 10**40)) == "1." + "00000095367431640625".ljust(39, "0") + "1"
    )
    assert decimal_text(Fraction("700." + "0" * 60 + "3")) == "700." + "0" * 60 + "3"


def test_budgets_of_many_digits_are_written_without_loss() -> None:
    random = Random(20)
    for digits in (17, 28, 29, 46, 120, 1_000, 1_790):
        for _ in range(4):
            decimal = f"0.{random.randrange(1, 10**digits):0{digits}d}"
            ratio = Fraction(random.randrange(1, 10 ** (digits // 3)), random.randrange(1, 10 ** (digits // 3)))
            if not Fraction(1, 10**300) < ratio < 10**300:
                ratio = Fraction(1, 3)
            for number in (decimal, ratio):
                assert Fraction(Budget(rho=number).to_dict()["rho"]) == Fraction(number)
                assert Budget.from_dict(Budget(epsilon=number).to_dict()) == Budget(epsilon=number)


def test_numbers_too_long_to_be_read_again_are_refused() -> None:
    with pytest.raises(BudgetError, match="rho must be a fraction of at most 1,800 digits"):
        Budget(rho="1." + "3" * 3_980 + "e-250")


def test_float_above_is_the_next_double_up() -> None:
    third = float_above(Fraction(1, 3))
    assert Fraction(third) >= Fraction(1, 3) > Fraction(math.nextafter(third, 0))
    assert float_above(Fraction(5)) == 5.0


def test_discrete_laplace_variance() -> None:
    """By summing k^2 P(k), and the continuous 2 b^2 in the limit."""
    for scale in (0.2, 1.0, 7.5):
        ratio = math.exp(-1 / scale)
        mass = [(1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-2000, 2001)]
        assert sum(mass) == pytest.approx(1)
        direct = sum(k**2 * p for k, p in zip(range(-2000, 2001), mass, strict=True))
        assert Noise(NoiseKind.LAPLACE, scale).variance == pytest.approx(direct, rel=1e-12)
    assert Noise(NoiseKind.LAPLACE, 1000.0).variance == pytest.approx(2e6, rel=1e-6)


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-162, 1e-100])
def test_noise_of_hardly_any_scale_has_the_least_variance(kind: NoiseKind, scale: float) -> None:
    """Squares of such scales are no doubles: a forged file must not end in a division by zero."""
    assert Noise(kind, scale).variance == 1e-300


def test_discrete_gaussian_variance() -> None:
    for scale in (0.3, 1.0, 4.9, 5.1):
        mass = [math.exp(-(k**2) / (2 * scale**2)) for k in range(-200, 201)]
        direct = sum(k**2 * p for k, p in zip(range(-200, 201), mass, strict=True)) / sum(mass)
        assert Noise(NoiseKind.GAUSSIAN, scale).variance == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("amount", ["1", "0.1", "1/3", "2.7"])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_the_least_noise_that_an_amount_buys(amount, currency) -> None:
    """Never more than was charged, and one double less would be too much."""
    amount, sensitivity = Fraction(amount), Sensitivity(6, 12)
    noise = Noise.affordable(sensitivity, amount, currency=currency)
    below = Noise(noise.kind, math.nextafter(noise.scale, 0))
    assert noise.cost(sensitivity) <= amount < below.cost(sensitivity)


def test_costs_by_hand() -> None:
    assert Noise(NoiseKind.LAPLACE, 4.0).cost(Sensitivity(2, 2)) == Fraction(1, 2)
    assert Noise(NoiseKind.GAUSSIAN, 2.0).cost(Sensitivity(2, 2)) == Fraction(1, 4)


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_scales_that_are_none(scale) -> None:
    with pytest.raises(BudgetError, match="scale of noise must be positive"):
        Noise(NoiseKind.LAPLACE, scale)


def test_noise_json_both_ways() -> None:
    noise = Noise(NoiseKind.GAUSSIAN, 0.1 + 0.2)
    assert Noise.from_dict(noise.to_dict()) == noise
    for given in ({}, {"kind": "cauchy", "scale": 1}, 3):
        with pytest.raises(BudgetError):
            Noise.from_dict(given)


def least_log_delta(rho: Fraction, epsilon: Fraction) -> Decimal:
    """ln of the least delta over all orders, with 60 digits, as the paper states it (its corollary 13).

    delta(alpha) = exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) x (1 - 1 / alpha)^alpha. The least is found by
    thirds over ln(alpha - 1). Whatever order it stops at, the delta there is valid.
    """

    def log_delta(order: Decimal) -> Decimal:
        step = order.exp()
        alpha = 1 + step
        return step * (alpha * r - e) - order + alpha * (order - alpha.ln())

    with localcontext() as context:
        context.prec = 60
        r, e = (Decimal(each.numerator) / Decimal(each.denominator) for each in (rho, epsilon))
        low, high = Decimal(-80), Decimal(80)
        for _ in range(170):
            third = (high - low) / 3
            a, b = low + third, high - third
            low, high = (low, b) if log_delta(a) < log_delta(b) else (a, high)
        return log_delta(low)


def least_double(number: float) -> Fraction:
    return Fraction(math.nextafter(number, -math.inf))


CONVERSIONS = [
    *((rho, delta) for rho in ("0.0001", "0.024355970", "0.5", "3", "40") for delta in ("1e-6", "1e-12")),
    ("1/3", "0.01"),
    ("1e-12", "1e-9"),
    ("1e5", "1e-6"),
    ("1e6", "1e-300"),
    ("1e12", "1e-6"),
]


@pytest.mark.parametrize(("rho", "delta"), CONVERSIONS)
def test_the_epsilon_of_a_rho_is_the_next_double_above_the_true_one(rho: str, delta: str) -> None:
    """It is valid: some order proves it. One double less is not: none does."""
    epsilon, target = zcdp_epsilon(Fraction(rho), Fraction(delta)), Decimal(delta).ln(Context(prec=60))
    assert least_log_delta(Fraction(rho), Fraction(epsilon)) <= target
    assert least_log_delta(Fraction(rho), least_double(epsilon)) > target


def test_a_delta_that_needs_no_epsilon() -> None:
    """Nothing was spent, or every output may break the promise, or epsilon = 0 is valid already."""
    assert zcdp_epsilon(Fraction(0), Fraction(1, 10**6)) == 0
    assert zcdp_epsilon(Fraction(3), Fraction(1)) == 0
    assert least_log_delta(Fraction("1e-5"), Fraction(0)) < Decimal("0.9").ln()
    assert zcdp_epsilon(Fraction("1e-5"), Fraction("0.9")) == 0


def test_numbers_of_many_digits_are_rounded_against_the_claim() -> None:
    """Rho up and delta down, beyond the digits that the conversion counts with."""
    rho, delta, tiny = Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**900)
    known = zcdp_epsilon(rho, delta)
    assert zcdp_epsilon(rho - tiny, delta) == zcdp_epsilon(rho + tiny, delta) == known
    assert zcdp_epsilon(Fraction(10**200), 1 - tiny) >= 10**200


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-9"), ("10", "1e-5"), ("1/3", "0.01")])
def test_rho_of_epsilon_and_delta_is_valid_and_nearly_the_largest(epsilon: str, delta: str) -> None:
    rho, target = zcdp_within(Fraction(epsilon), Fraction(delta)), Decimal(delta).ln(Context(prec=60))
    assert least_log_delta(rho, Fraction(epsilon)) <= target
    assert least_log_delta(rho * (1 + Fraction(1, 10**7)), Fraction(epsilon)) > target


def test_rho_is_more_than_the_looser_conversion_allows() -> None:
    """That of Bun and Steinke, epsilon = rho + 2 sqrt(rho log(1 / delta))."""
    looser = (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2
    assert looser < float(zcdp_within(Fraction(1), Fraction(1, 10**6))) < 2 * looser


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, Fraction(1, 10**6)), (3, Fraction(1, 10**9)), (10, Fraction(1, 100))]
)
def test_rho_is_the_largest_that_epsilon_and_delta_allow(epsilon: int, delta: Fraction) -> None:
    """A step of 2^-40 of epsilon more would cost more than epsilon."""
    rho = zcdp_within(Fraction(epsilon), delta)
    assert zcdp_epsilon(rho, delta) <= epsilon < zcdp_epsilon(rho + Fraction(epsilon, 2**40), delta)
