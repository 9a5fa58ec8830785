"""What a statement says in chances is true: no guess is right more often, for mechanisms that spend it all."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.releases.statement import belief
from crosstally.schema import Attribute, Schema, Unit

SCHEMA = Schema([Attribute("sex", ["f", "m"])])


def said(budget: Budget, neighbours: str = "add-remove", schema: Schema = SCHEMA) -> list[float]:
    """The chances in the sentence."""
    found = re.findall(r"at most (?:practically )?([0-9.]+)%", belief(budget, neighbours, schema))
    return [float(each) / 100 for each in found]


def right_at_best(one: np.ndarray, other: np.ndarray) -> float:
    """How often the best guess between two distributions is right, 50 to 50 before."""
    return float(np.maximum(one, other).sum() / 2)


def gaussian(scale: float, shift: int) -> np.ndarray:
    places = np.arange(-600, 602)
    weights = np.exp(-((places - shift) ** 2) / (2 * scale**2))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 9.98])
def test_randomised_response_attains_what_a_pure_epsilon_allows(epsilon: float) -> None:
    """The belief after the likelier answer is e^epsilon / (1 + e^epsilon): what is said, rounded up."""
    likelier = 1 / (1 + math.exp(-epsilon))
    inside, says = said(Budget(epsilon=epsilon))
    assert likelier <= inside <= likelier + 0.01
    assert 1 / (1 + math.exp(-2 * epsilon)) <= says
    (changed,) = said(Budget(epsilon=epsilon), "replace")
    assert changed == inside


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (1.0, 0.05), (0.2, 0.3)])
def test_the_worst_mechanism_of_epsilon_and_delta_is_guessed_as_often_as_said(epsilon: float, delta: float) -> None:
    """It says the truth with probability delta, and otherwise answers by randomised response: four outputs.

    Twice as far apart, the chain x, y, z of three data sets has the distances between neighbours of two releases each.
    """
    told = math.exp(epsilon) / (1 + math.exp(epsilon))
    one = np.array([delta, (1 - delta) * told, (1 - delta) * (1 - told), 0])
    other = one[::-1]
    best = right_at_best(one, other)
    inside, says = said(Budget(epsilon=epsilon, delta=delta, rule="rho"))
    assert best <= inside <= best + 0.01
    twice = min(1.0, delta * (1 + math.exp(epsilon)))
    assert says >= 1 - (1 - twice) / (1 + math.exp(2 * epsilon)) - 1e-12


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.0, 20.0])
def test_discrete_gaussian_noise_is_not_guessed_more_often_than_rho_allows(scale: float) -> None:
    """Neighbours are 1 apart: rho = 1 / (2 scale^2); two of them are 2 apart. Nor is it much less often."""
    rho = Noise(NoiseKind.GAUSSIAN, scale).cost(Sensitivity(1, 1))
    inside, says = said(Budget(rho=rho))
    for stated, apart in ((inside, 1), (says, 2)):
        best = right_at_best(gaussian(scale, 0), gaussian(scale, apart))
        assert best <= stated <= best + 0.15


@pytest.mark.parametrize(("scale", "above"), [(0.7, 0.08), (1.0, 0.05), (3.0, 0.015), (20.0, 0.015)])
def test_by_mu2_the_chances_are_nearly_those_of_the_noise(scale: float, above: float) -> None:
    """One number by the curve of the normal: the best guess between neighbours, and between data twice as far apart."""
    mu2 = Noise(NoiseKind.GAUSSIAN, scale).unit_cost("mu2")
    inside, says = said(Budget(mu2=mu2))
    for stated, apart in ((inside, 1), (says, 2)):
        best = right_at_best(gaussian(scale, 0), gaussian(scale, apart))
        assert best <= stated <= best + above


def test_an_epsilon_of_a_rho_is_not_what_is_guessed_by() -> None:
    """Half a rho is an epsilon of 5.23 at one in a million, which alone would allow 99.5%; guesses are right in 75%."""
    assert said(Budget(rho="0.5")) == [0.75, 0.97]


def test_words_for_people_and_for_their_units() -> None:
    patients = Schema(SCHEMA.attributes, Unit("patient", 3))
    assert "50 to 50 that a patient is in the data becomes" in belief(Budget(epsilon=1), "add-remove", patients)
    assert "which of two things is true of a person, 50 to 50 before, is right at most 75% of the time." in belief(
        Budget(rho="0.5"), Neighbours.REPLACE, SCHEMA
    )


def test_huge_budgets_are_said_to_hide_nothing() -> None:
    for budget in (Budget(epsilon=1000), Budget(rho=10**6), Budget(epsilon=400, delta="1e-9")):
        assert "practically 100%" in belief(budget, "add-remove", SCHEMA)
