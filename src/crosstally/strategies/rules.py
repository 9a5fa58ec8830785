"""The strategies that plan later stages, by the name and version of their rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crosstally.budget import exact
from crosstally.errors import PlanError
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule
from crosstally.strategies import adaptive, mwem, two_stage, views
from crosstally.strategies.adaptive import Adaptive
from crosstally.strategies.likely import likely_of_one_stage
from crosstally.strategies.mwem import MWEM
from crosstally.strategies.strategy import Strategy
from crosstally.strategies.two_stage import TwoStage
from crosstally.strategies.views import Views


def _views(*, size: int | None, cover: int | None, max_cells: int | None) -> Strategy:
    return Views(size=size, cover=cover, max_cells=max_cells)


def _two_stage(
    *,
    named: bool,  # noqa: ARG001 (``next`` reads them from the plan)
    look: bool = False,  # noqa: ARG001
    hedged: bool = False,  # noqa: ARG001
    one_ways: str | None = None,
) -> Strategy:
    if one_ways is not None:
        exact(one_ways, "one_ways")
    return TwoStage()


def _adaptive(*, rounds: int) -> Strategy:
    return Adaptive(rounds=rounds)


def _mwem(*, rounds: int, rows: int | None, replays: int = 0) -> Strategy:
    return MWEM(rounds=rounds, rows=rows, replays=replays)


RULES: dict[tuple[str, int], Callable[..., Strategy]] = {
    (Views.name, views.RULE_VERSION): _views,
    (TwoStage.name, two_stage.RULE_VERSION): _two_stage,
    (MWEM.name, mwem.RULE_VERSION): _mwem,
    (Adaptive.name, adaptive.RULE_VERSION): _adaptive,
}
"""For each rule's name and version a function that makes its strategy from its parameters. A user's strategy that has
later stages is entered here before its plans are run."""


def check_rules(plan: Plan) -> None:
    """Raise unless every later stage of the plan can be planned here."""
    for rule in plan.later:
        _strategy_of(rule)


def next_stage(plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
    """What to measure after the current stage of a plan; None if nothing is left."""
    if not plan.later:
        return None
    stage = _strategy_of(plan.later[0]).next(
        plan, [each for each in seen if each.query.is_linear or each.query.is_choice]
    )
    if stage is not None and not plan.is_followed_by(stage):
        raise PlanError(f"rule {plan.later[0].name!r} must keep schema, neighbours, budget and rules that are left")
    return stage


def outlook(plan: Plan) -> Plan:
    """What all stages of a plan may measure together, as far as its rule knows beforehand; else the first stage."""
    return _strategy_of(plan.later[0]).outlook(plan) if plan.later else plan


def likely_errors(plan: Plan, rows: int) -> Mapping[int, tuple[float, float]]:
    """The ends of the likely errors of a release, by number of attributes; nothing where they are not known."""
    if rows <= 0:
        return {}
    return _strategy_of(plan.later[0]).likely_errors(plan, rows) if plan.later else likely_of_one_stage(plan, rows)


def _strategy_of(rule: Rule) -> Strategy:
    made = RULES.get((rule.name, rule.version))
    if made is None:
        known = ", ".join(f"{name} version {version}" for name, version in RULES)
        raise PlanError(
            f"the plan has a stage by rule {rule.name!r} version {rule.version}, which is not known here; known are"
            f" {known}: plan again, or use the version of crosstally that made the plan"
        )
    parameters: dict[str, Any] = dict(rule.parameters)
    try:
        return made(**parameters)
    except TypeError:
        raise PlanError(f"rule {rule.name!r} has other parameters than {', '.join(parameters) or 'none'}") from None
