"""What is promised in all: the sum of an account, or of releases that no account adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from crosstally.budget import Budget, Currency, Neighbours, decimal_text, zcdp_epsilon
from crosstally.errors import ReleaseError
from crosstally.gaussian_curve import gaussian_epsilon
from crosstally.releases.release import Release
from crosstally.releases.statement import belief, guarantee, unit_sentence
from crosstally.schema import Schema

_DIGITS = 6  # of a long sum, which is rounded up: the promise is then a little weaker than what was spent


Account = Any
"""A ``Ledger``, which nothing here may import, since it could spend: what is read of it says the same as its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A release and the file that it is in."""

    name: str
    digest: str
    release: Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What is promised to each of the people, of everything that ``what`` names."""

    what: str
    budget: Budget
    neighbours: Neighbours
    schema: Schema
    model: str
    protected: tuple[str, ...]
    sentences: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))


def total_of_account(account: Account) -> Total:
    """The promise of all that an account has paid for, whatever it was published as."""
    spent, cap, schema = _spent_by(account), account.budget, account.schema
    unit, several = "person" if schema.unit is None else schema.unit_word, len(account.schemas) > 1
    tables = f", in all {len(account.schemas)} tables of the account together" if several else ""
    whose = f" ({account.people})" if account.people else ""
    whole = f"This protects everything about one {unit} of the account{whose} in all of its tables."
    at_cap = belief(cap, account.neighbours, schema).removeprefix("In chances: ")
    own = unit_sentence(schema) + (f" The account is that of {account.people}." if account.people else "")
    return Total(
        what="everything that the account has paid for so far",
        budget=spent,
        neighbours=account.neighbours,
        schema=schema,
        model="central",
        protected=(whole if several else own, *_assertions(account)),
        sentences=(
            f"Spent so far on each {unit}, in all releases and answers together: {spent}, of at most {cap}.",
            *_chances_first(guarantee(spent, account.neighbours, schema, tables=tables)),
            *(() if spent == cap else (f"At the cap of {cap}, in chances: {at_cap}",)),
        ),
    )


def _assertions(account: Account) -> list[str]:
    """What was asserted of how the people of an account are in its other tables."""
    asserted = [(number, each) for number, each in enumerate(account.schemas, start=1) if each.asserted]
    units = ["row" if each.schema.unit is None else each.schema.unit.id for _, each in asserted]
    return [
        f"In table {number} of the account one person is at most {each.times:,} {unit}{'s' * (each.times > 1)}: that "
        "was asserted, spends on it were charged for it, and the promise rests on it."
        for (number, each), unit in zip(asserted, units, strict=True)
    ]


def _spent_by(account: Account) -> Budget:
    """What an account has spent, as a budget; never less than that."""
    if not account.spent:
        raise ReleaseError("nothing was spent from this ledger: there is nothing to sign yet")
    return _as_budget(account.currency, account.spent, account.budget.delta)


def _as_budget(currency: Currency, amount: Fraction, delta: Fraction | None) -> Budget:
    """What was added up as a budget, with epsilon where there is a delta; never less than that."""
    if delta is None:
        return Budget.from_dict({currency: _above(amount)})
    epsilon = (zcdp_epsilon if currency == "rho" else gaussian_epsilon)(amount, delta)
    return Budget(epsilon=_above(Fraction(epsilon)), delta=delta, rule=currency)


def _above(amount: Fraction) -> Fraction:
    """The amount if it is short, otherwise the next number above it of a few digits."""
    if len(decimal_text(amount)) <= _DIGITS + 2:
        return amount
    unit = Fraction(10) ** (math.floor(math.log10(amount)) + 1 - _DIGITS)
    return math.ceil(amount / unit) * unit


def total_of_releases(files: Sequence[File]) -> Total:
    """The promise of some releases together, as if each person were in all of them. Others are not known."""
    statements = [each.release.statement for each in files]
    if len({(each.model, each.neighbours, each.unit and each.unit.id) for each in statements}) > 1:
        raise ReleaseError(
            "these releases have different units, neighbours or models, and their sum is that of an account: say which "
            "with --ledger, or write a statement for each"
        )
    spends = dict.fromkeys(
        (each.entry or file.digest, each.budget) for file, each in zip(files, statements, strict=True)
    )
    bins = [each.release.schema.bought for each in files if each.release.schema.bought is not None]
    bought = dict.fromkeys((each.entry, Budget(epsilon=each.epsilon)) for each in bins)
    budget = _sum([each for _, each in (*spends, *bought)])
    first, one = files[0].release, len(files) == 1
    others = "Other releases about the same people, if there are any, add to it: an account (a ledger) would know them."
    number = len(spends) + len(bought)
    together = f"{number} spends on the same people together: {budget}." if number > 1 else f"The budget is {budget}."
    local = () if first.statement.model == "central" else _LOCAL
    return Total(
        what="this release" if one else f"these {len(files)} releases",
        budget=budget,
        neighbours=first.statement.neighbours,
        schema=first.schema,
        model=first.statement.model,
        protected=(*first.statement.model_sentences, unit_sentence(first.schema), *local),
        sentences=(
            together,
            *_chances_first(guarantee(budget, first.statement.neighbours, first.schema)),
            f"This is about {'this release' if one else 'these releases'} alone. {others}",
        ),
    )


def _chances_first(sentences: Sequence[str]) -> tuple[str, ...]:
    """What a budget means in chances, before what it means for probabilities."""
    factors, *others = sentences
    return (*others, f"Exactly: {factors[0].lower()}{factors[1:]}")


_LOCAL = (
    (
        "The promise holds against the collector too, for each report; several reports of one person add up, on "
        "their own device."
    ),
    "That somebody sent a report is not hidden from the collector.",
)


def _sum(budgets: Sequence[Budget]) -> Budget:
    """What budgets are together: in the one thing that all of them can be added up in, at the largest delta.

    Or the sums of epsilons and of deltas, where that is a smaller epsilon: pure ones count for much in mu^2.
    """
    kinds = {each.currency for each in budgets if not each.pure}
    currency: Currency = (
        "epsilon" if not kinds else "rho" if "rho" in kinds else "mu2"
    )  # mu^2 has a rho, not in reverse
    deltas = [each.delta for each in budgets if each.delta is not None]
    together = sum((each.price_in(currency) for each in budgets), Fraction(0))
    whole = _as_budget(currency, together, max(deltas, default=None))
    if not deltas or any(each.epsilon is None for each in budgets):
        return whole
    epsilon = _above(sum((each.epsilon for each in budgets if each.epsilon is not None), Fraction(0)))
    separate = Budget(epsilon=epsilon, delta=sum(deltas, Fraction(0)), rule="rho")
    return whole if whole.epsilon is not None and whole.epsilon <= epsilon else separate
