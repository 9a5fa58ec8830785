"""Contingency tables about people, published under differential privacy: one file, any table, honest error bars.

>>> import crosstally as ct
>>> schema = ct.Schema.from_dict({"attributes": [{"name": "sex", "values": ["Female", "Male"]}]})
>>> print(schema)
sex:2
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosstally import analysis, errors, local, sources, strategies
    from crosstally.answers.marginal import Marginal
    from crosstally.budget import Budget, Neighbours
    from crosstally.errors import CrosstallyError
    from crosstally.notebook.notebook import Notebook, open_notebook
    from crosstally.pipeline import release
    from crosstally.plans.plan import Plan
    from crosstally.privacy.ledger import Ledger
    from crosstally.query.question import count, total
    from crosstally.releases import Release, open_release
    from crosstally.schema import Attribute, Schema, Unit
    from crosstally.sources.databases import Database
    from crosstally.sources.spark import SparkTable
    from crosstally.strategies.planner import plan
    from crosstally.workload import Workload

__version__ = "0.3.0.dev0"

_HOMES = {
    "Attribute": "schema",
    "Budget": "budget",
    "CrosstallyError": "errors",
    "Database": "sources.databases",
    "Ledger": "privacy.ledger",
    "Marginal": "answers.marginal",
    "Neighbours": "budget",
    "Notebook": "notebook.notebook",
    "Plan": "strategies.goal",
    "Release": "releases",
    "Schema": "schema",
    "SparkTable": "sources.spark",
    "Unit": "schema",
    "Workload": "workload",
    "count": "query.question",
    "open_notebook": "notebook.notebook",
    "open_release": "releases",
    "plan": "strategies.planner",
    "release": "pipeline",
    "total": "query.question",
}
_MODULES = ("analysis", "errors", "local", "sources", "strategies")

__all__ = [
    "Attribute",
    "Budget",
    "CrosstallyError",
    "Database",
    "Ledger",
    "Marginal",
    "Neighbours",
    "Notebook",
    "Plan",
    "Release",
    "Schema",
    "SparkTable",
    "Unit",
    "Workload",
    "analysis",
    "count",
    "errors",
    "local",
    "open_notebook",
    "open_release",
    "plan",
    "release",
    "sources",
    "strategies",
    "total",
]


if not TYPE_CHECKING:  # where types are checked, a name that does not exist is an error and not Any

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used (PEP 562), so that ``import crosstally`` stays fast."""
        if name in _MODULES:
            return import_module(f"crosstally.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'crosstally' has no attribute {name!r}")
        return getattr(import_module(f"crosstally.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
