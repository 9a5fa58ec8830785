"""What to measure. A strategy only plans: it never sees data, and a plan is free until it is run."""

from crosstally.designs import covering_design
from crosstally.errors import PlanError, did_you_mean
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.queries import Cells, Contrast
from crosstally.strategies.adaptive import Adaptive
from crosstally.strategies.clustered import GreedyMerge
from crosstally.strategies.direct import Direct, Flat, Uniform
from crosstally.strategies.fourier import Fourier
from crosstally.strategies.linear_strategies import LinearStrategies
from crosstally.strategies.mwem import MWEM
from crosstally.strategies.optimum import ViewSearch
from crosstally.strategies.residual import Residual
from crosstally.strategies.strategy import Strategy, Task
from crosstally.strategies.two_stage import TwoStage
from crosstally.strategies.views import Views

__all__ = [
    "MWEM",
    "NAMED",
    "Adaptive",
    "Cells",
    "Contrast",
    "Direct",
    "Flat",
    "Fourier",
    "GreedyMerge",
    "LinearStrategies",
    "Plan",
    "Request",
    "Residual",
    "Strategy",
    "Task",
    "TwoStage",
    "Uniform",
    "ViewSearch",
    "Views",
    "covering_design",
    "named",
]

NAMED: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Flat(),
        Views(),
        Direct(),
        Direct(budgets="uniform"),
        GreedyMerge(),
        ViewSearch(),
        Residual(),
        Fourier(),
        MWEM(),
        Adaptive(),
        TwoStage(),
        LinearStrategies(),
        Uniform(),
    )
}


def named(name: str) -> Strategy:
    """The strategy of this name, with its default options."""
    if name not in NAMED:
        raise PlanError(f"unknown strategy {name!r}{did_you_mean(name, ['auto', *NAMED])}")
    return NAMED[name]
