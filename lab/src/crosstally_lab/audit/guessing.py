"""A guessing game: a coin says which of two neighbouring tables is answered, and a fixed rule guesses from the answer.

If all answers keep epsilon, then whatever the rule and whatever the answer, a guess is right with probability at most
e^epsilon / (1 + e^epsilon): the two tables are equally likely before, and the answer shifts their odds by at most
e^epsilon. A rule may also keep silent. So the number of right guesses among those made is stochastically at most
binomial, and the Clopper-Pearson bound on the chance of being right gives a bound that epsilon cannot be below.

Rules are fixed before anything is drawn, from the law that is claimed. All of one run share one rate of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

FALSE_ALARMS = 1e-3
"""The probability that a run reports a violation of a true claim, all its rules together."""

Drawn = Sequence[NDArray[np.int64]]
"""For each request of a plan the drawn numbers: a row for each toss of the coin."""

Guess = NDArray[np.int8]
"""For each toss 1 for the first table, -1 for the second, 0 for no guess."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A guess from what was drawn, by its name."""

    name: str
    guess: Callable[[Drawn], Guess]


def accuracy_bound(coins: NDArray[np.bool_], guesses: Guess, alarm: float) -> float:
    """A bound on the chance of a right guess from below, wrong with probability ``alarm`` at most."""
    from scipy.stats import beta

    made = guesses != 0
    right = int((coins[made] == (guesses[made] > 0)).sum())
    number = int(made.sum())
    return float(beta.ppf(alarm, right, number - right + 1)) if right > 0 else 0.0


def epsilon_bound(accuracy: float) -> float:
    """The least epsilon at which a guess may be right so often."""
    return math.inf if accuracy >= 1 else max(0.0, math.log(accuracy / (1 - accuracy))) if accuracy > 0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """What is claimed of one request: the answers to both tables, and the noise on each number."""

    kind: str
    scale: float
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def likelihood_rules(laws: Sequence[Law]) -> tuple[Rule, ...]:
    """The rules for answers with additive noise, from what is claimed of it.

    Laplace noise reaches its whole loss exactly where every number that moves is at or beyond its value in one of the
    tables: there the rule speaks. Gaussian noise has no such place, and the rule says which table is likelier. Two more
    compare a number that moves with one that does not, in the same answer and in the next: noise that is used twice
    cancels there.
    """
    if all(law.kind == "laplace" for law in laws):
        beyond = [
            Rule("beyond the first", lambda drawn: _beyond(laws, drawn, 1)),
            Rule("beyond the second", lambda drawn: _beyond(laws, drawn, -1)),
            Rule("beyond either", lambda drawn: _beyond(laws, drawn, 1) + _beyond(laws, drawn, -1)),
        ]
    else:
        beyond = [Rule("likelier", lambda drawn: likelier(laws, drawn))]
    return (*beyond, *_difference_rules(laws))


def _beyond(laws: Sequence[Law], drawn: Drawn, side: int) -> Guess:
    """Speak for one side where all moving numbers are at its value or farther from that of the other side."""
    speaks = np.ones(len(drawn[0]), np.bool_)
    for law, numbers in zip(laws, drawn, strict=True):
        own, other = (law.first, law.second) if side > 0 else (law.second, law.first)
        for place in np.flatnonzero(own != other):
            up = own[place] > other[place]
            speaks &= numbers[:, place] >= own[place] if up else numbers[:, place] <= own[place]
    return np.where(speaks, side, 0).astype(np.int8)


def likelier(laws: Sequence[Law], drawn: Drawn) -> Guess:
    """The table under which the answer is likelier, for Gaussian noise; never silent."""
    total = np.zeros(len(drawn[0]))
    for law, numbers in zip(laws, drawn, strict=True):
        step = (law.first - law.second) / law.scale**2
        total += (numbers - (law.first + law.second) / 2) @ step
    return np.where(total >= 0, 1, -1).astype(np.int8)


def _difference_rules(laws: Sequence[Law]) -> list[Rule]:
    """Compare the first number that moves with numbers that do not, one in its own answer, one in each other."""
    moving = [(i, int(np.flatnonzero(law.first != law.second)[0])) for i, law in enumerate(laws) if _moves(law)]
    i, place = moving[0]
    rules = []
    for j, law in enumerate(laws):
        still = [int(k) for k in np.flatnonzero(law.first == law.second)]
        alike = [k for k in still if j != i and k == place]
        if still:
            guess = _difference(laws, (i, place), (j, (alike or still)[0]))
            rules.append(Rule(f"difference with answer {j + 1}", guess))
    return rules


def _moves(law: Law) -> bool:
    return bool((law.first != law.second).any())


def _difference(laws: Sequence[Law], moving: tuple[int, int], still: tuple[int, int]) -> Callable[[Drawn], Guess]:
    """Guess the table whose difference between two numbers, each an answer and its place, is the nearer one."""
    (i, place), (j, other) = moving, still
    first, second = (int(each) - int(laws[j].first[other]) for each in (laws[i].first[place], laws[i].second[place]))

    def guess(drawn: Drawn) -> Guess:
        found = drawn[i][:, place] - drawn[j][:, other]
        nearer: Guess = np.sign(np.abs(found - second) - np.abs(found - first)).astype(np.int8)
        return nearer

    return guess


# Gaussian noise: how often the best guess is right, exactly


def best_accuracy(laws: Sequence[Law]) -> float:
    """How often the likelier table is the right one, by summing the discrete Gaussian law over a grid.

    The grid holds all numbers that move, up to ten standard deviations beyond both values.
    """
    densities = []
    for law in laws:
        for place in np.flatnonzero(law.first != law.second):
            low, high = sorted((int(law.first[place]), int(law.second[place])))
            reach = math.ceil(10 * law.scale)
            values = np.arange(low - reach, high + reach + 1)
            densities.append([_gaussian(values, int(each[place]), law.scale) for each in (law.first, law.second)])
    return sum(float(np.maximum(first, second).sum()) for first, second in _blocks(densities)) / 2


def _gaussian(values: NDArray[np.int64], centre: int, scale: float) -> NDArray[np.float64]:
    weights = np.exp(-((values - centre) ** 2) / (2 * scale**2))
    return np.asarray(weights / weights.sum())


def _blocks(
    densities: Sequence[Sequence[NDArray[np.float64]]],
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The joint law of all numbers under both tables, in one array for each value of all but the last two numbers."""
    if len(densities) == 1:
        return [(densities[0][0], densities[0][1])]
    *outer, a, b = densities
    out = []
    for places in product(*(range(len(pair[0])) for pair in outer)):
        shares = [math.prod(pair[side][place] for pair, place in zip(outer, places, strict=True)) for side in (0, 1)]
        out.append((shares[0] * np.outer(a[0], b[0]), shares[1] * np.outer(a[1], b[1])))
    return out
