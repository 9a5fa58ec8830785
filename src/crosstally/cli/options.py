"""The options that several commands share, and the functions that read them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.budget import Budget, Neighbours, Objective
from crosstally.errors import BudgetError, CrosstallyError, SchemaError, WorkloadError
from crosstally.json_text import JsonError, read_json_file
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.workload import Workload

__all__ = [
    "Delta",
    "Epsilon",
    "Force",
    "Json",
    "Output",
    "PlanObjective",
    "Quiet",
    "Ranges",
    "Relation",
    "Rho",
    "Rows",
    "StrategyName",
    "Tables",
    "Ways",
    "WorkloadFile",
    "check_output",
    "check_reviewed",
    "read_budget",
    "read_workload",
]

_BUDGET = "Privacy budget"
_TABLES = "Tables that matter"

Epsilon = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER", rich_help_panel=_BUDGET, help="ε: a smaller value is more private; 1 is common, 10 is weak."
    ),
]
Delta = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER",
        rich_help_panel=_BUDGET,
        help="δ, together with --epsilon: use Gaussian noise; ε may be exceeded with this small probability.",
    ),
]
Rho = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER",
        rich_help_panel=_BUDGET,
        help="ρ, instead of --epsilon: use Gaussian noise and zero-concentrated privacy.",
    ),
]
Relation = Annotated[
    Neighbours | None,
    typer.Option(
        "--neighbours",
        rich_help_panel=_BUDGET,
        help="Which data sets must be hard to tell apart: one unit is added or removed (the default), or changed.",
    ),
]
Ways = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        rich_help_panel=_TABLES,
        help="Every table of exactly K attributes that has at most 5,000,000 cells.",
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--tables", metavar="NAMES", rich_help_panel=_TABLES, help="A table, such as 'sex,age'; may be repeated."
    ),
]
WorkloadFile = Annotated[
    Path | None,
    typer.Option(
        "--workload",
        metavar="FILE",
        rich_help_panel=_TABLES,
        help="A JSON file that lists tables, with weights if you like.",
    ),
]
Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--ranges",
        metavar="NAME",
        rich_help_panel=_TABLES,
        help="Ranges of this ordered attribute matter, not its single values; may be repeated.",
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_TABLES,
        help="flat, direct, ...; the default, stepwise, measures one-way tables and then decides what else to measure.",
    ),
]
PlanObjective = Annotated[
    Objective | None,
    typer.Option(
        "--objective",
        rich_help_panel=_TABLES,
        help="What to minimise: the errors of tables of every size (the default), or the sum over all cells.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_BUDGET, help="The number of rows. Give it only if it is public."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]


def read_budget(epsilon: str | None, delta: str | None, rho: str | None) -> Budget:
    """The budget that the options state, with the exact decimals that were typed."""
    if epsilon is None and rho is None:
        raise BudgetError("say how much privacy may be spent: --epsilon, --rho, or --epsilon and --delta")
    return Budget(epsilon=epsilon, delta=delta, rho=rho)


def read_workload(
    schema: Schema,
    ways: int | None,
    tables: list[str] | None,
    file: Path | None,
    ranges: list[str] | None = None,
) -> Workload | None:
    """The tables that matter, and the attributes whose ranges matter; None when no option was given."""
    from crosstally.workload import Workload

    named = _read_tables(schema, ways, tables, file)
    if not ranges:
        return named
    asked = (named or Workload.small_tables(schema)).asking(dict.fromkeys(ranges, "ranges"))
    return asked.for_schema(schema)


def _read_tables(schema: Schema, ways: int | None, tables: list[str] | None, file: Path | None) -> Workload | None:
    from crosstally.workload import Workload

    if sum(option is not None for option in (ways, tables or None, file)) > 1:
        raise WorkloadError("say in one way which tables matter: --ways, --tables or --workload")
    if ways is not None:
        return Workload.all_ways(schema, ways)
    if tables:
        named = tuple(tuple(name.strip() for name in table.split(",")) for table in tables)
        return Workload(named).for_schema(schema)
    return None if file is None else _load_workload(file).for_schema(schema)


def _load_workload(path: Path) -> Workload:
    from crosstally.workload import Workload

    try:
        return Workload.from_dict(read_json_file(path))
    except (OSError, JsonError) as error:
        reason = getattr(error, "strerror", None) or f"it {error}"
        raise WorkloadError(f"cannot read the workload {str(path)!r}: {reason}") from None
    except WorkloadError as error:
        raise WorkloadError(f"{str(path)!r}: {error}") from None


def check_reviewed(schema: Schema, path: Path) -> None:
    """Raise when a schema is still a draft: no release accepts one."""
    if schema.draft:
        raise SchemaError(
            f"{str(path)!r} is a draft: review its labels, which would become public, then remove the line "
            '"draft": true'
        )


def check_output(path: Path, *, force: bool) -> None:
    """Raise unless a file can be written there, before anything is spent on making it."""
    folder = path.parent
    if not folder.is_dir():
        raise CrosstallyError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}; create it first")
    if path.is_dir():
        raise CrosstallyError(f"cannot write {str(path)!r}: it is a folder; name a file")
    if path.exists() and not force:
        raise CrosstallyError(f"{str(path)!r} exists already; choose another name, or write over it with --force")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise CrosstallyError(f"cannot write into the folder {str(folder)!r}: {reason}") from None
