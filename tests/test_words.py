"""Options that take a few words: a text is taken as its enum member, and anything else is refused in one line."""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Noise, NoiseKind, Sensitivity
from crosstally.privacy.ledger_records import Entry
from crosstally.query.queries import Cells, Contrast, sensitivity_of_tables
from crosstally.query.question import query_of
from crosstally.releases import Statement
from crosstally.releases.totals import Total
from crosstally.schema import Measure
from crosstally.strategies import recovery

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "lab/evidence").glob("*.md"))]
WORDS = tuple[str, ...]


def public_things() -> list[Any]:
    """What users call: the public packages, the modules whose names the docs import, and the types of the reference."""
    modules = [ct, ct.analysis, ct.local, ct.strategies, importlib.import_module("crosstally.budget")]
    imported = re.findall(
        r"^from (crosstally(?:_lab)?\.[\w.]+) import", "\n".join(p.read_text() for p in PAGES), re.MULTILINE
    )
    modules += [importlib.import_module(name) for name in sorted(set(imported)) if ".cli" not in name]
    found = [getattr(module, name) for module in modules for name in names_of(module)]
    for page in (ROOT / "docs/reference/api").glob("*.md"):
        for home, name in re.findall(r"^::: (crosstally\.[\w.]+)\.(\w+)$", page.read_text(), re.MULTILINE):
            found.append(getattr(importlib.import_module(home), name))
    return [each for each in found if callable(each) and _is_ours(each)]


def names_of(module: Any) -> list[str]:
    """What a package names as public, or what a module defines without an underscore."""
    own = [name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def _is_ours(thing: Any) -> bool:
    return getattr(thing, "__module__", "").startswith("crosstally") and hasattr(thing, "__qualname__")


def functions(thing: Any) -> Iterator[Any]:
    """A function, or how a class is made and its public methods."""
    if inspect.isfunction(thing):
        yield thing
    elif inspect.isclass(thing) and not issubclass(thing, enum.Enum) and not getattr(thing, "_is_protocol", False):
        for own, method in inspect.getmembers(thing, inspect.isroutine):
            plain = inspect.unwrap(getattr(method, "__func__", method))
            if (own == "__init__" or not own.startswith("_")) and inspect.isfunction(plain) and _is_ours(plain):
                yield plain


def words_of(hint: Any) -> WORDS:
    """The words that an argument of this type takes, if it takes words."""
    if inspect.isclass(hint) and issubclass(hint, enum.StrEnum):
        return tuple(hint)
    if typing.get_origin(hint) is typing.Literal:
        return tuple(each for each in typing.get_args(hint) if isinstance(each, str))
    return tuple(word for part in typing.get_args(hint) for word in words_of(part))


class Names(dict[str, Any]):
    """The names of a module; those that are imported for type checkers alone stand for no words."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, list)  # a list of anything can be written, too


def options() -> dict[str, WORDS]:
    """Every argument of a public function that takes words."""
    out = {}
    for plain in (plain for thing in public_things() for plain in functions(thing)):
        for argument, hint in plain.__annotations__.items():
            meant = eval(hint, {}, Names(plain.__globals__, np=np)) if isinstance(hint, str) else hint
            if argument != "return" and (words := words_of(meant)):
                out[f"{plain.__qualname__.removesuffix('.__init__')} {argument}"] = words
    return out


# How each is called with a word; what comes back tells members apart


SCHEMA = schema_of(3, 2)
BUDGET = ct.Budget(epsilon=1)
MOVED = Sensitivity(2, 2)
ROWS = pa.table({"a0": ["0", "1"], "a1": ["0", "0"]})
PLAN = {"strategy": "x", "workload": ct.Workload([()]), "budget": BUDGET, "neighbours": "add-remove"}
ENTRY = {"number": 1, "key": "k", "strategy": "x", "cost": Fraction(1), "when": datetime(2026, 1, 1, tzinfo=UTC)}
QUERIES, STRATEGY = np.array([[1, 1], [1, 0]]), np.array([[1, 1], [1, 0], [0, 1]])


@cache
def release() -> ct.Release:
    return ct.release(ROWS, SCHEMA, epsilon=50, strategy="flat")


def planned(**given: Any) -> Any:
    return ct.plan(SCHEMA, epsilon=1, strategy="optimum", **given).chosen.to_dict()


def released(**given: Any) -> Any:
    return ct.release(ROWS, SCHEMA, epsilon=1, strategy="direct", **given).statement.neighbours


def marginal(kind: Any) -> Any:
    table = release().marginal("a0")
    own = None if kind == "none" else table.uncertainty
    return ct.Marginal(SCHEMA.subset("a0"), table.values, method="x", error_kind=kind, uncertainty=own).error_kind


def numbers(found: recovery.MatrixPlan) -> Any:
    return found.budgets.tolist()


CALLS: dict[str, Callable[[Any], Any]] = {
    "Measure missing": lambda word: Measure("x", 0, 1, missing=word),
    "Measure outside": lambda word: Measure("x", 0, 1, outside=word),
    "Attribute outside": lambda word: ct.Attribute("x", ["a", "b"], outside=word),
    "GreedyMerge budgets": lambda word: ct.strategies.GreedyMerge(budgets=word),
    "Direct budgets": lambda word: ct.strategies.Direct(budgets=word),
    "Entry state": lambda word: Entry(**ENTRY, state=word, hash="", request="").state,
    "Fourier budgets": lambda word: ct.strategies.Fourier(budgets=word),
    "Fourier encoding": lambda word: ct.strategies.Fourier(encoding=word),
    "Fourier sensitivity": lambda word: ct.strategies.Fourier(sensitivity=word),
    "Ledger.create neighbours": lambda word: (
        ct.Ledger.create(Path(mkdtemp()) / "l", schema=SCHEMA, budget=BUDGET, neighbours=word).neighbours
    ),
    "Ledger.in_memory neighbours": lambda word: (
        ct.Ledger.in_memory(schema=SCHEMA, budget=BUDGET, neighbours=word).neighbours
    ),
    "LinearStrategies along": lambda word: ct.strategies.LinearStrategies(along=word),
    "Marginal error_kind": marginal,
    "Marginal.interval of": lambda word: str(release().marginal("a0").interval(of=word)),
    "Noise.affordable currency": lambda word: Noise.affordable(MOVED, Fraction(1, 2), currency=word),
    "Noise.affordable_choice currency": lambda word: Noise.affordable_choice(MOVED, Fraction(1, 2), currency=word),
    "Noise.unit_cost currency": lambda word: Noise("gaussian", 2.0).unit_cost(word),
    "Noise kind": lambda word: Noise(word, 2.0).kind,
    "Plan neighbours": lambda word: ct.Plan(SCHEMA, (), **{**PLAN, "neighbours": word}).neighbours,
    "Plan objective": lambda word: ct.Plan(SCHEMA, (), **PLAN, objective=word).objective,
    "Product.sensitivity neighbours": lambda word: [
        query.sensitivity(SCHEMA, word) for query in (Cells(()), Contrast(("a0",)), query_of("a0 = 1", SCHEMA))
    ],
    "Product.worst_shifts neighbours": lambda word: Contrast(("a0",)).worst_shifts(SCHEMA, word),
    "Release.crosstab normalize": lambda word: str(release().crosstab("a0", "a1", normalize=word).values),
    "Release.integers method": lambda word: type(release().integers(method=word)),
    "Release.synthesize method": lambda word: type(release().synthesize(method=word, rows=2)),
    "Residual objective": lambda word: ct.strategies.Residual(objective=word),
    "Schema reading": lambda word: ct.Schema(SCHEMA.attributes, reading=word).reading,
    "Statement neighbours": lambda word: Statement(strategy="x", budget=BUDGET, neighbours=word).neighbours,
    "Strategy.plan neighbours": lambda word: ct.strategies.Flat().plan(SCHEMA, None, BUDGET, neighbours=word).to_dict(),
    "Total neighbours": lambda word: (
        Total(what="", budget=BUDGET, schema=SCHEMA, model="", protected=(), sentences=(), neighbours=word).neighbours
    ),
    "Task neighbours": lambda word: ct.strategies.Task(SCHEMA, None, budget=BUDGET, neighbours=word).neighbours,
    "Task objective": lambda word: (
        ct.strategies.Task(SCHEMA, None, budget=BUDGET, neighbours="replace", objective=word).objective
    ),
    "crosstab normalize": lambda word: str(
        ct.analysis.crosstab(release().marginal("a0", "a1"), "a0", "a1", normalize=word).values
    ),
    "demands kind": lambda word: recovery.demands(QUERIES, kind=word).tolist(),
    "group_budgets kind": lambda word: recovery.group_budgets([4, 8], [1, 2], amount=1, kind=word).tolist(),
    "least_objective kind": lambda word: recovery.least_objective([4, 8], [1, 2], amount=1, kind=word),
    "plan neighbours": lambda word: planned(neighbours=word),
    "plan objective": lambda word: planned(objective=word),
    "plan_matrix budgets": lambda word: numbers(recovery.plan_matrix(QUERIES, STRATEGY, amount=1, budgets=word)),
    "plan_matrix kind": lambda word: numbers(recovery.plan_matrix(QUERIES, STRATEGY, amount=1, kind=word)),
    "program_budgets kind": lambda word: recovery.program_budgets(STRATEGY, [1, 1, 2], amount=1, kind=word).tolist(),
    "release neighbours": lambda word: released(neighbours=word),
    "release objective": lambda word: released(objective=word),
    "sensitivity_of_tables neighbours": lambda word: sensitivity_of_tables(2, SCHEMA, word),
    "test of": lambda word: ct.analysis.test(release().marginal("a0", "a1"), of=word),
    "uniform_budgets kind": lambda word: recovery.uniform_budgets(STRATEGY, amount=1, kind=word).tolist(),
}
NOISE_OF_TABLES = ("demands", "group_budgets", "least_objective", "plan_matrix", "program_budgets", "uniform_budgets")
"""Gumbel noise, which is for choices, is refused there like nonsense."""


def test_every_option_is_called() -> None:
    assert set(options()) == set(CALLS)


@pytest.mark.parametrize("option", sorted(CALLS))
def test_a_word_is_its_member_and_nonsense_is_refused_in_one_line(option: str) -> None:
    call, words = CALLS[option], options()[option]
    gumbel = {NoiseKind.GUMBEL} if option.split(maxsplit=1)[0] in NOISE_OF_TABLES else set()
    taken = [word for word in words if word not in gumbel]
    found = [call(word) for word in taken]
    assert [call(str(word)) for word in taken] == found
    for nonsense in ("nonsense", "", 7, ["a", "list"], *(gumbel and {"gumbel", *gumbel})):
        with pytest.raises(ct.CrosstallyError) as refused:
            call(nonsense)
        assert "\n" not in str(refused.value)
        assert "must be" in str(refused.value)


def test_budgets_of_laplace_noise_do_not_overspend() -> None:
    """Three rows, of which two meet in each cell: their budgets add up to the amount, for Gaussian noise in squares."""
    laplace, gaussian = (CALLS["plan_matrix kind"](kind) for kind in ("laplace", "gaussian"))
    assert max(np.abs(STRATEGY.T) @ laplace) == pytest.approx(1)
    assert max(STRATEGY.T**2 @ np.square(gaussian)) == pytest.approx(1)
