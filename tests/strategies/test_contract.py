"""Every strategy passes the contract; and a new one is a file and a registration."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import crosstally as ct
from crosstally.plans.plan import Plan
from crosstally.strategies import NAMED, Fourier, GreedyMerge, Residual, Strategy, Task, Views
from strategy_contract import BUDGETS, StrategyContract

PACKAGE = Path(ct.__file__).parent
STRATEGIES = [*NAMED.values(), Views(size=2, cover=2), Views(max_cells=6), GreedyMerge("uniform")]
STRATEGIES += [Fourier(budgets="uniform"), Residual(objective="max")]


class TestStrategies(StrategyContract):
    @pytest.fixture(params=STRATEGIES, ids=repr)
    def strategy(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    def payable(self, strategy: Strategy) -> tuple[str, ...]:
        return tuple(name for name in BUDGETS if name != "epsilon") if isinstance(strategy, Residual) else self.pays


@dataclass(frozen=True)
class Overspending(Strategy):
    """Plans for twice its budget: Plan itself refuses that."""

    name = "overspending"

    def planned(self, task: Task) -> Plan:
        whole = task.measuring(self.name, [task.schema.names])
        return task.planned(self.name, (*whole.requests, *whole.requests))


@dataclass(frozen=True)
class Forgetful(Strategy):
    """Ignores the relation that it is asked for."""

    name = "forgetful"

    def planned(self, task: Task) -> Plan:
        return Task(task.schema, task.asked, budget=task.budget, neighbours=ct.Neighbours.ADD_REMOVE).measuring(
            self.name, [task.schema.names]
        )


def test_the_contract_can_fail() -> None:
    contract = TestStrategies()
    with pytest.raises(ct.CrosstallyError, match="costs more than its budget"):
        contract.test_one_attribute(Overspending(), BUDGETS["rho"], ct.Neighbours.REPLACE)
    with pytest.raises(AssertionError):
        contract.test_it_costs_at_most_the_budget_for_what_was_asked(
            Forgetful(), BUDGETS["rho"], ct.Neighbours.REPLACE, None
        )


PLANS = """
import hashlib, json
import crosstally as ct
from crosstally.strategies import NAMED
schema = ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate((2, 3, 4, 2, 5))])
made = [strategy.plan(schema, None, ct.Budget(rho=1), neighbours="replace").to_dict() for strategy in NAMED.values()]
print(json.dumps([hashlib.sha256(json.dumps(each).encode()).hexdigest() for each in made]))
"""


def run_alone(code: str, path: Path, **environment: str) -> Any:
    """What a fresh process prints, as JSON."""
    given = {**os.environ, "PYTHONPATH": str(path), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TOY = '''"""Toy: the first attribute with the whole budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crosstally.plans.plan import Plan
from crosstally.strategies.strategy import Strategy, Task


@dataclass(frozen=True, slots=True)
class Toy(Strategy):
    """Measure the table of the first attribute."""

    name: ClassVar[str] = "toy"

    def planned(self, task: Task) -> Plan:
        """One request."""
        return task.measuring(self.name, [task.schema.names[:1]])
'''

USE_TOY = """
import json
import pyarrow as pa
import crosstally as ct
from crosstally.strategies.planner import read_strategies
schema = ct.Schema([ct.Attribute("sex", ["F", "M"]), ct.Attribute("age", ["young", "old"])])
rows = pa.table({"sex": ["F", "M"] * 20, "age": ["young"] * 40})
plan = ct.plan(schema, epsilon=1, strategy="toy").chosen
release = ct.release(rows, schema, epsilon=1, strategy="toy")
compared = "toy" in [each.name for each in read_strategies("auto")]
tables = [table.attributes for table in plan.tables]
print(json.dumps([ct.__file__, plan.strategy, tables, release.statement.strategy, compared]))
"""


def test_a_toy_strategy_touches_two_files(tmp_path) -> None:
    copy = tmp_path / "crosstally"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "strategies" / "toy.py").write_text(TOY)
    registry = copy / "strategies" / "__init__.py"
    entered = registry.read_text().replace("        Uniform(),\n", "        Uniform(),\n        Toy(),\n")
    last = "from crosstally.strategies.direct import Direct, Flat, Uniform\n"
    registry.write_text(entered.replace(last, "from crosstally.strategies.toy import Toy\n" + last))
    where, planned, tables, released, compared = run_alone(
        USE_TOY, tmp_path, NUMBA_DISABLE_JIT="1"
    )  # a copy would compile
    assert Path(where).parent == copy
    assert (planned, tables, released, compared) == ("toy", [["sex"]], "toy", True)
    assert sorted(changed(PACKAGE, copy)) == ["strategies/__init__.py", "strategies/toy.py"]


def changed(before: Path, after: Path) -> list[str]:
    """Python files that differ, or are in one of the folders only."""
    files = {str(path.relative_to(root)) for root in (before, after) for path in root.rglob("*.py")}
    return sorted(files - set(filecmp.cmpfiles(before, after, files, shallow=False)[0]))


def test_plans_do_not_depend_on_the_order_of_sets() -> None:
    """The same in processes whose hashes of texts differ."""
    first, second = (run_alone(PLANS, PACKAGE.parent, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert len(set(first)) == len(NAMED)
