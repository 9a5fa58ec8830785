"""The options that several commands share: single ones and groups.

A group is a frozen dataclass whose fields are options. A command has one parameter of that type; ``with_groups`` shows
Typer the options in its place, and gives the command the group.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from crosstally.budget import Budget, Neighbours, Objective
from crosstally.errors import BudgetError, CrosstallyError, SchemaError, WorkloadError
from crosstally.json_text import JsonError, read_json_file
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.strategies import Strategy
    from crosstally.strategies.planner import Proposal
    from crosstally.workload import Workload


def option(metavar: str | None, words: str, *names: str, panel: str | None = None, **limits: Any) -> Any:
    """An option: its placeholder, description and panel in ``--help``."""
    return typer.Option(*names, metavar=metavar, help=words, rich_help_panel=panel, **limits)


def argument(metavar: str, words: str, **more: Any) -> Any:
    """An argument: its placeholder and description in ``--help``."""
    return typer.Argument(metavar=metavar, help=words, **more)


def flag(words: str, *names: str, panel: str | None = None) -> Any:
    """An option without a value. Its name is explicit: Typer adds ``--no-...`` to names that it derives."""
    return typer.Option(*names, help=words, rich_help_panel=panel)


budget_option = partial(option, panel="Privacy budget")
_tables_option = partial(option, panel="Tables that matter")

Epsilon = Annotated[str | None, budget_option("NUMBER", "ε: a smaller value is more private; 1 is common, 10 is weak.")]
Delta = Annotated[
    str | None,
    budget_option(
        "NUMBER", "δ, together with --epsilon: use Gaussian noise; ε may be exceeded with this small probability."
    ),
]
Rho = Annotated[
    str | None, budget_option("NUMBER", "ρ, instead of --epsilon: use Gaussian noise and zero-concentrated privacy.")
]
Mu2 = Annotated[str | None, budget_option("NUMBER", "μ², in a ledger of epsilon and delta: Gaussian noise.", "--mu2")]
Rule = Annotated[
    str | None,
    budget_option(
        "mu2|rho",
        "What epsilon and delta are counted by, fixed in a ledger: mu2 (the default) for the least Gaussian "
        "noise, rho where Laplace noise or many choices are to be paid too.",
    ),
]
Relation = Annotated[
    Neighbours | None,
    budget_option(
        None, "Which data sets must be hard to tell apart: one unit is added or removed (the default), or changed."
    ),
]
Ways = Annotated[
    int | None, _tables_option("K", "Every table of exactly K attributes that has at most 5,000,000 cells.")
]
Tables = Annotated[list[str] | None, _tables_option("NAMES", "A table, such as 'sex,age'; may be repeated.")]
Accept = Annotated[
    Path | None,
    option("FILE", "Acceptance criteria (JSON) for errors: judged and shown; the exit code is 1 if any fails."),
]
Rows = Annotated[int | None, budget_option("N", "The number of rows. Give it only if it is public.")]
Json = Annotated[bool, flag("Print JSON, for programs to read.", "--json")]
Quiet = Annotated[bool, flag("Print errors only.", "--quiet", "-q")]
ReleaseArgument = Annotated[Path, argument("RELEASE", "A release file.")]
Output = Annotated[Path | None, option("FILE", "The file to write; stdout by default.", "--output", "-o")]
Raw = Annotated[bool, flag("Write CSV labels unchanged, even if a spreadsheet would take them for formulas.", "--raw")]
Force = Annotated[bool, flag("Overwrite a file that exists.", "--force")]


class CheckFailedError(CrosstallyError):
    """A check that the user asked for has failed: one line, exit code 1."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with the parameter of each group replaced by the group's options.

    Typer looks only at the signature, so the options are put there.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind) and isinstance(kind, type)}
    parameters: list[Parameter] = []
    for each in signature(command).parameters.values():
        if each.name in groups:
            parameters += _options_of(groups[each.name])
        else:
            parameters.append(each.replace(annotation=hints[each.name]))

    @wraps(command)
    def taking(*arguments: Any, **given: Any) -> None:
        own = {name: {each.name: given.pop(each.name) for each in fields(kind)} for name, kind in groups.items()}
        command(*arguments, **given, **{name: kind(**own[name]) for name, kind in groups.items()})

    taking.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(taking)["__signature__"] = Signature(parameters)
    return taking


def _options_of(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOptions:
    """What may be spent."""

    epsilon: Epsilon = None
    delta: Delta = None
    rho: Rho = None
    rule: Rule = None

    def budget(self) -> Budget:
        """The budget that the options state, with the exact decimals that were typed."""
        if self.epsilon is None and self.rho is None:
            raise BudgetError("say how much privacy may be spent: --epsilon, --rho, or --epsilon and --delta")
        return Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho, rule=self.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """The tables that matter."""

    ways: Ways = None
    tables: Tables = None
    workload: Annotated[
        Path | None, _tables_option("FILE", "A JSON file that lists tables, with weights if you like.")
    ] = None

    def read(self, schema: Schema) -> Workload | None:
        """The workload; None when no option was given."""
        from crosstally.workload import Workload

        if sum(option is not None for option in (self.ways, self.tables or None, self.workload)) > 1:
            raise WorkloadError("say in one way which tables matter: --ways, --tables or --workload")
        if self.ways is not None:
            return Workload.all_ways(schema, self.ways)
        if self.tables:
            return Workload(read_tables(self.tables)).for_schema(schema)
        return None if self.workload is None else _load_workload(self.workload).for_schema(schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(WorkloadOptions):
    """The workload and how to measure it."""

    ranges: Annotated[
        list[str] | None,
        _tables_option("NAME", "Ranges of this ordered attribute matter, not its single values; may be repeated."),
    ] = None
    strategy: Annotated[
        str | None,
        _tables_option(
            "NAME",
            "flat, direct, ...; the default, two-stage, measures one-way tables and then decides what else to measure.",
        ),
    ] = None
    objective: Annotated[
        Objective | None,
        _tables_option(
            None,
            "What to minimise: errors of tables in both measures (balanced, the default), squared errors (tables), "
            "misplaced rows (l1), or the sum of the variances of all cells (cells).",
        ),
    ] = None
    no_units: Annotated[
        bool,
        flag(
            "Do not measure how many units have how many rows, where the schema has a unit.",
            "--no-units",
            panel="Tables that matter",
        ),
    ] = False

    measure: Annotated[
        list[str] | None,
        _tables_option(
            "NAME",
            "Buy totals of this measure of the schema too, with half of the budget: over the tables that matter, or "
            "over each attribute; may be repeated.",
        ),
    ] = None

    def read(self, schema: Schema) -> Workload | None:
        """The workload and the attributes with range queries; None when no option was given."""
        from crosstally.workload import Workload

        # a class with slots is created twice: super() without arguments would use the first
        named = WorkloadOptions.read(self, schema)
        if not self.ranges:
            return named
        asked = (named or Workload.small_tables(schema)).asking(dict.fromkeys(self.ranges, "ranges"))
        return asked.for_schema(schema)

    @property
    def aim(self) -> Objective:
        """What to minimise."""
        return self.objective or Objective.BALANCED

    def proposal(self, schema: Schema, budget: Budget, neighbours: Neighbours | None, rows: int | None) -> Proposal:
        """The release that the options describe."""
        from crosstally.strategies.planner import Proposal

        relation = neighbours or Neighbours.ADD_REMOVE
        asked: dict[str, Any] = {"objective": self.aim, "named": self.read(schema), "units": not self.no_units}
        asked["measures"] = tuple(self.measure or ())
        return Proposal(budget, rows=rows, neighbours=relation, **asked)

    def strategies(self) -> Sequence[Strategy]:
        """The strategies that may be chosen."""
        from crosstally.strategies.planner import default_strategy

        return default_strategy(self.strategy or "auto", self.aim)

    def given(self) -> list[str]:
        """The options that were given, as a command line spells them."""
        single = {name: getattr(self, name) for name in ("ways", "workload", "strategy", "objective")}
        found = [text for name, value in single.items() if value is not None for text in (f"--{name}", str(value))]
        found += [text for table in self.tables or () for text in ("--tables", table)]
        found += ["--no-units"] if self.no_units else []
        found += [text for name in self.measure or () for text in ("--measure", name)]
        return found + [text for name in self.ranges or () for text in ("--ranges", name)]


def read_tables(given: Sequence[str] | None) -> tuple[tuple[str, ...], ...]:
    """Tables from comma-separated attribute names."""
    return tuple(tuple(name.strip() for name in table.split(",")) for table in given or ())


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
    """Raise if a schema is still a draft, which no release accepts."""
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
