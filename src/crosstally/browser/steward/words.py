"""A budget in words that cannot be misread: what someone can learn about one person, as odds, and what adds up."""

from __future__ import annotations

import math
from fractions import Fraction

from crosstally.budget import Budget, Neighbours, decimal_text
from crosstally.schema import Schema

__all__ = ["budget_in_words"]

_TELLING = Fraction(1, 1000)
"""Rows on average that a delta would allow to be published outright; from here on the page warns."""


def budget_in_words(budget: Budget, schema: Schema, neighbours: Neighbours | str, rows: int | None) -> list[str]:
    """What the budget bounds, for people who have never seen an epsilon.

    The odds follow from Bayes' rule: outputs have probabilities that differ by a factor of at most e^epsilon, and so
    odds of one to one become at most e^epsilon to one. Under add-remove a changed row is one removed and one added,
    which doubles epsilon.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("sex", ["Female", "Male"])])
    >>> words = budget_in_words(Budget(epsilon=1), schema, Neighbours.ADD_REMOVE, None)
    >>> words[0][:73]
    'Someone is undecided, 50 to 50, whether one person is in the data at all.'
    >>> words[0][74:]
    'Whatever the release shows, it cannot make them surer than 74% that they are, or 74% that they are not.'
    """
    assert budget.epsilon is not None
    epsilon, neighbours = budget.epsilon, Neighbours(neighbours)
    who = "one person" if schema.unit is None else f"one {schema.unit.id}"
    exception = "" if budget.delta is None else " (apart from the chance δ below)"
    sentences = []
    if neighbours == Neighbours.ADD_REMOVE:
        sure = _percent(epsilon)
        sentences.append(
            f"Someone is undecided, 50 to 50, whether {who} is in the data at all. Whatever the release shows, it "
            f"cannot make them surer than {sure} that they are, or {sure} that they are not{exception}."
        )
    else:
        sentences.append(f"Who is in the data, and how many, is not protected: only what is known about {who} is.")
    inner = 2 * epsilon if neighbours == Neighbours.ADD_REMOVE else epsilon
    whose = "in a row" if schema.unit is None else "in their rows"
    sentences.append(
        f"Someone knows that {who} is in the data and is undecided, 50 to 50, between two things that may stand "
        f"{whose}: they cannot become surer than {_percent(inner)} of either{exception}."
    )
    if schema.unit is None:
        sentences.append("One person must be one row: for whoever has two, read these sentences with twice the ε.")
    sentences.append(
        "A smaller ε protects better and makes numbers less exact. 50% in the sentences above would be perfect."
    )
    if budget.delta is not None:
        sentences += _delta_in_words(budget.delta, rows)
    twice = decimal_text(2 * epsilon)
    sentences.append(
        f"It is spent for good. A second release about the same people at the same ε makes it {twice} in all, whoever "
        "makes it and whenever: the ledger keeps that sum."
    )
    return sentences


def _delta_in_words(delta: Fraction, rows: int | None) -> list[str]:
    chance = f"{decimal_text(delta)} (1 in {math.floor(1 / delta):,})"
    sentences = [f"With a chance of at most {chance} for each person, all of this may fail."]
    if rows and delta * rows >= _TELLING:
        sentences.append(
            f"That is too much for {rows:,} rows: a program that published {float(delta * rows):.2g} of them outright, "
            "on average, would keep this promise. Take a δ far below one over the number of people."
        )
    return sentences


def _percent(epsilon: Fraction) -> str:
    """How sure one can become who began with 50%; rounded up, since it is a bound."""
    odds = math.exp(-float(epsilon))
    percent = 100 / (1 + odds)
    if percent > 99.9:
        return "99.9% and more"
    return f"{math.ceil(percent)}%" if percent <= 99 else f"{math.ceil(10 * percent) / 10}%"
