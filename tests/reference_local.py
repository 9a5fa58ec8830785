"""Slow plain versions for the tests of ``crosstally.local``; nothing of it is imported here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np


def exponential_below(epsilon: Fraction) -> Fraction:
    """A fraction below e^epsilon that differs from it by less than 1e-50, by the decimal module."""
    with localcontext() as context:
        context.prec = 80
        value = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        return Fraction(value.quantize(Decimal(10) ** -60, rounding=ROUND_FLOOR))


class Branches:
    """A source of randomness that follows one path through all that could be drawn, and knows its probability."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path = path
        self.taken: list[int] = []
        self.open: list[tuple[int, ...]] = []
        self.probability = Fraction(1)

    def _step(self, weights: list[Fraction]) -> int:
        possible = [i for i, weight in enumerate(weights) if weight > 0]
        place = len(self.taken)
        if place < len(self.path):
            chosen = self.path[place]
        else:
            chosen = possible[0]
            self.open += [(*self.taken, other) for other in possible[1:]]
        self.taken.append(chosen)
        self.probability *= weights[chosen]
        return chosen

    def below(self, number: int) -> int:
        return self._step([Fraction(1, number)] * number)

    def chance(self, probability: Fraction) -> bool:
        return self._step([1 - probability, Fraction(probability)]) == 1


def distribution(draw: Callable[[Any], Any]) -> dict[Any, Fraction]:
    """The exact probability of everything that a function of a source of randomness may return."""
    found: dict[Any, Fraction] = defaultdict(Fraction)
    open_paths: list[tuple[int, ...]] = [()]
    while open_paths:
        source = Branches(open_paths.pop())
        found[draw(source)] += source.probability
        open_paths += source.open
    return dict(found)


def worst_ratio(laws: list[dict[Any, Fraction]]) -> Fraction:
    """The largest ratio of the probabilities of one report under two rows."""
    worst = Fraction(0)
    for first, second in product(laws, repeat=2):
        for report, probability in first.items():
            worst = max(worst, probability / second[report])
    return worst


def helmert(n: int) -> np.ndarray:
    """Rows of orthonormal vectors that sum to zero, by Gram-Schmidt."""
    rows: list[np.ndarray] = []
    for j in range(1, n):
        vector = np.zeros(n)
        vector[:j], vector[j] = 1, -j
        rows.append(vector / np.linalg.norm(vector))
    return np.array(rows)


def coefficient_covariance(
    laws: list[dict[Any, Fraction]], estimate: Callable[[Any], np.ndarray], frequencies: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the covariance of basis @ estimate(report) when rows are drawn with these frequencies."""
    mean, square = np.zeros(len(basis)), np.zeros((len(basis), len(basis)))
    for frequency, law in zip(frequencies, laws, strict=True):
        for report, probability in law.items():
            vector = basis @ estimate(report)
            mean += frequency * float(probability) * vector
            square += frequency * float(probability) * np.outer(vector, vector)
    return mean, square - np.outer(mean, mean)
