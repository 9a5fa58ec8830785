"""Stages of a plan: the rule of each later one, the part of the budget that it gets, and its key in a ledger."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any

from crosstally.budget import Budget, decimal_text, exact
from crosstally.errors import PlanError

__all__ = ["Rule", "cost_of_stages", "first_share", "part_of", "rest_of", "stage_key", "stage_keys", "sum_of_stages"]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a later stage follows from what earlier ones measured: a strategy by its name, version and parameters.

    A version stands for one behaviour forever. ``share`` is the exact share of the plan's whole budget that the stage
    may spend.

    >>> Rule("views", 1, parameters={"size": 8}, share=Fraction(99, 100)).to_dict()
    {'rule': 'views', 'version': 1, 'parameters': {'size': 8}, 'share': '0.99'}
    """

    name: str
    version: int
    _: KW_ONLY
    parameters: Mapping[str, str | int | bool | None] = field(hash=False)
    share: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"a rule must have a name, got {self.name!r}")
        if isinstance(self.version, bool) or not isinstance(self.version, int) or self.version < 1:
            raise PlanError(f"the version of rule {self.name!r} must be a whole number of at least 1")
        given = self.parameters
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise PlanError(f"the parameters of rule {self.name!r} must be an object")
        if not all(value is None or isinstance(value, str | int) for value in given.values()):
            raise PlanError(f"the parameters of rule {self.name!r} must be whole numbers, texts, true, false or null")
        object.__setattr__(self, "parameters", dict(given))
        object.__setattr__(self, "share", exact(self.share, "share"))
        if self.share >= 1:
            raise PlanError(f"the share of rule {self.name!r} must be below 1, got {decimal_text(self.share)}")

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON."""
        return {
            "rule": self.name,
            "version": self.version,
            "parameters": dict(self.parameters),
            "share": decimal_text(self.share),
        }

    @classmethod
    def from_dict(cls, given: object) -> Rule:
        """A rule from its JSON. Whether anybody knows it is asked when it is run."""
        if not isinstance(given, Mapping) or set(given) != {"rule", "version", "parameters", "share"}:
            raise PlanError("each later stage must be an object with rule, version, parameters and share")
        return cls(given["rule"], given["version"], parameters=given["parameters"], share=given["share"])


# Budgets


def part_of(budget: Budget, share: Fraction) -> Budget:
    """A part of a budget; approximate budgets are shared as the rho they convert to."""
    if share == 1:
        return budget
    return Budget(epsilon=budget.amount * share) if budget.pure else Budget(rho=budget.amount * share)


def first_share(rules: Sequence[Rule]) -> Fraction:
    """The share of the budget that these later stages leave to the first one."""
    return 1 - sum((rule.share for rule in rules), Fraction(0))


def rest_of(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules after the first one, as the plan of that one's stage holds them: in shares of what all of them get."""
    together = sum((rule.share for rule in rules), Fraction(0))
    return tuple(replace(rule, share=rule.share / together) for rule in rules[1:])


def sum_of_stages(budgets: Sequence[Budget]) -> Budget:
    """The budget of several stages together; pure epsilon counts epsilon^2 / 2 where any stage spends rho."""
    if len(budgets) == 1:
        return budgets[0]
    if all(budget.pure for budget in budgets):
        return Budget(epsilon=sum((budget.amount for budget in budgets), Fraction(0)))
    paid = (budget.amount**2 / 2 if budget.pure else budget.amount for budget in budgets)
    return Budget(rho=sum(paid, Fraction(0)))


# Keys in a ledger


def stage_key(key: str, stage: int) -> str:
    """The key of a stage of the release with this key.

    >>> stage_key("spring", 1), stage_key("spring", 2)
    ('spring', 'spring/2')
    """
    return key if stage == 1 else f"{key}/{stage}"


def stage_keys(key: str, known: Container[str]) -> tuple[str, ...]:
    """The keys of the stages of a release that are known, from the first to the last without a gap."""
    found: list[str] = []
    while (name := stage_key(key, len(found) + 1)) in known:
        found.append(name)
    return tuple(found)


def cost_of_stages(key: str, costs: Mapping[str, Fraction]) -> Fraction:
    """What all stages of the release with this key cost together, from the cost of each key in one currency.

    Both currencies of a ledger, epsilon and rho, add up over stages, also where a stage depends on earlier ones.

    >>> cost_of_stages("spring", {"spring": Fraction(1, 4), "spring/2": Fraction(1, 2), "autumn": Fraction(3)})
    Fraction(3, 4)
    """
    return sum((costs[each] for each in stage_keys(key, costs)), Fraction(0))
