"""Contingency tables about people, published under differential privacy: one file, any table, honest error bars.

>>> import crosstally as ct
>>> schema = ct.Schema.from_dict({"attributes": [{"name": "sex", "values": ["Female", "Male"]}]})
>>> print(schema)
sex:2
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosstally import analysis, errors, local, strategies
    from crosstally.answers.integer_tables import IntegerTables
    from crosstally.answers.marginal import ErrorKind, Marginal
    from crosstally.budget import Budget, Neighbours
    from crosstally.errors import CrosstallyError
    from crosstally.exports.private_pgm import to_mbi
    from crosstally.measurements import Measurement
    from crosstally.notebook.history.synthetic_rows import Synthetic
    from crosstally.notebook.notebook import Notebook, open_notebook
    from crosstally.notebook.results import Answer, Improvement, Price, TableImprovement
    from crosstally.pipeline import count_part, release
    from crosstally.plans.plan import Plan
    from crosstally.privacy.ledger import Entry, Ledger
    from crosstally.query.question import Question, count, total
    from crosstally.releases import Release, Statement, open_release
    from crosstally.schema import Attribute, Outside, Schema, Unit
    from crosstally.sources.databases import Database
    from crosstally.sources.detection import Detected, detect_reading
    from crosstally.sources.files import Parts
    from crosstally.sources.reading_options import Reading
    from crosstally.sources.spark import SparkTable
    from crosstally.sql import SqlAnswer
    from crosstally.strategies.planner import Comparison, plan
    from crosstally.synthesis import SyntheticData
    from crosstally.workload import Workload

__version__ = "0.3.0.dev0"

_HOMES = {
    "Answer": "notebook.results",
    "Attribute": "schema",
    "Budget": "budget",
    "Comparison": "strategies.planner",
    "CrosstallyError": "errors",
    "Database": "sources.databases",
    "Detected": "sources.detection",
    "Entry": "privacy.ledger",
    "ErrorKind": "answers.marginal",
    "Improvement": "notebook.results",
    "IntegerTables": "answers.integer_tables",
    "Ledger": "privacy.ledger",
    "Marginal": "answers.marginal",
    "Measurement": "measurements",
    "Neighbours": "budget",
    "Notebook": "notebook.notebook",
    "Outside": "schema",
    "Parts": "sources.files",
    "Plan": "strategies.goal",
    "Price": "notebook.results",
    "Question": "query.question",
    "Reading": "sources.reading_options",
    "Release": "releases",
    "Schema": "schema",
    "SparkTable": "sources.spark",
    "SqlAnswer": "sql",
    "Statement": "releases",
    "Synthetic": "notebook.history.synthetic_rows",
    "SyntheticData": "synthesis",
    "TableImprovement": "notebook.results",
    "Unit": "schema",
    "Workload": "workload",
    "count": "query.question",
    "count_part": "pipeline",
    "detect_reading": "sources.detection",
    "open_notebook": "notebook.notebook",
    "open_release": "releases",
    "plan": "strategies.planner",
    "release": "pipeline",
    "to_mbi": "exports.private_pgm",
    "total": "query.question",
}
_MODULES = ("analysis", "errors", "local", "strategies")

__all__ = [
    "Answer",
    "Attribute",
    "Budget",
    "Comparison",
    "CrosstallyError",
    "Database",
    "Detected",
    "Entry",
    "ErrorKind",
    "Improvement",
    "IntegerTables",
    "Ledger",
    "Marginal",
    "Measurement",
    "Neighbours",
    "Notebook",
    "Outside",
    "Parts",
    "Plan",
    "Price",
    "Question",
    "Reading",
    "Release",
    "Schema",
    "SparkTable",
    "SqlAnswer",
    "Statement",
    "Synthetic",
    "SyntheticData",
    "TableImprovement",
    "Unit",
    "Workload",
    "analysis",
    "count",
    "count_part",
    "detect_reading",
    "errors",
    "local",
    "open_notebook",
    "open_release",
    "plan",
    "release",
    "strategies",
    "to_mbi",
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
