"""Every kind of call that the documentation shows, as a typed program. Nobody runs it: mypy checks it, strictly.

Each line of ``assert_type`` says what a user receives; what users give stands in the forms that they write.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from crosstally.answers.integer_tables import IntegerTables
from crosstally.answers.marginal import ErrorKind
from crosstally.designs import covering_design, covering_views
from crosstally.measurements import Measurement
from crosstally.notebook.history.synthetic_rows import Synthetic
from crosstally.notebook.results import Answer, Improvement, Price, TableImprovement
from crosstally.pipeline import count_part
from crosstally.privacy.ledger_records import Entry
from crosstally.query.question import Question
from crosstally.releases import Statement
from crosstally.schema import Outside
from crosstally.sources import Parts
from crosstally.sql import SqlAnswer
from crosstally.strategies.planner import Comparison
from crosstally.synthesis import SyntheticData


def schemas() -> ct.Schema:
    schema = ct.Schema([ct.Attribute("sex", ["Female", "Male"]), ct.Attribute("age", edges=[0, 18, 65.5])])
    ct.Schema({"age": ct.Attribute("age", edges=(0, 18, 65), missing=True, outside="drop")}.values())
    ct.Schema((ct.Attribute("size", [1, 2.5, "3", True], outside=Outside.OTHER),), ct.Unit("person", 3), draft=True)
    ct.Schema.from_dict({"attributes": [{"name": "sex", "values": ["Female", "Male"]}]})
    ct.Schema.load(Path("adult.schema.json")).save("copy.schema.json")
    assert_type(schema.attributes, tuple[ct.Attribute, ...])
    assert_type(schema["age"].edges, tuple[float, ...])
    assert_type(schema["sex"].values, tuple[str, ...])
    assert_type(schema["sex"].outside, Outside)
    assert_type("age" in schema, bool)
    assert_type(list(schema), list[str])
    assert_type(len(schema), int)
    return ct.Schema.load("adult.schema.json")


def budgets() -> ct.Budget:
    ct.Budget(epsilon=1)
    ct.Budget(epsilon="0.1")
    ct.Budget(epsilon=1, delta=1e-6)
    ct.Budget(rho=Fraction(1, 2))
    ct.Budget(rho=Decimal("0.5"))
    budget = ct.Budget(epsilon=1.0)
    assert_type(budget.epsilon, Fraction | None)
    assert_type(budget.amount, Fraction)
    return budget


def workloads(schema: ct.Schema) -> ct.Workload:
    ct.Workload([("sex",)])
    ct.Workload([["sex"], ("sex", "age")], weights=[1, 2.5])
    ct.Workload(names for names in (["sex"], ["age"]))
    ct.Workload.all_ways(schema, 3)
    workload = ct.Workload.up_to(schema, 2)
    assert_type(workload.tables, tuple[tuple[str, ...], ...])
    assert_type(workload.weights, tuple[float, ...])
    return workload


def plans(schema: ct.Schema, workload: ct.Workload) -> ct.Plan:
    ct.plan(schema, epsilon="1", delta=Fraction(1, 10**6), neighbours="replace")
    ct.plan(schema, rho=0.5, strategy="residual", neighbours=ct.Neighbours.REPLACE)
    comparison = ct.plan(schema, rows=48_842, epsilon=1.0, workload=workload)
    assert_type(comparison, Comparison)
    assert_type(comparison.plans, tuple[ct.Plan, ...])
    planned = ct.strategies.Residual().plan(schema, workload, ct.Budget(rho=0.5))
    assert_type(planned.rms_error, float)
    ct.strategies.Views(size=8).plan(schema, None, ct.Budget(epsilon=1), neighbours="replace")
    assert_type(covering_design(attributes=32, size=8, cover=3), tuple[tuple[int, ...], ...])
    ct.strategies.covering_design(attributes=32, size=8, cover=3)
    covering_views([2, 2, 9, 16, 7], 150, 2)
    return comparison.chosen


class OneTable(ct.strategies.Strategy):
    """A strategy of one's own."""

    @property
    def name(self) -> str:
        return "one-table"

    def planned(self, task: ct.strategies.Task) -> ct.Plan:
        return task.measuring(self.name, [task.schema.names])


def releases(frame: Any, schema: ct.Schema, plan: ct.Plan) -> ct.Release:
    ct.release("adult.csv", schema, epsilon=1.0)
    ct.release(Path("adult.csv"), schema, epsilon="1", delta="1e-6", neighbours="replace")
    ct.release(["a.csv", "b.csv"], schema, rho=Fraction(1, 2), rows=48_842, key="first", progress=print)
    ct.release("adult.csv", plan=plan, ledger="adult.ledger")
    ct.release(ct.Database(query="SELECT * FROM people", url="postgresql://host/name"), schema, epsilon=1)
    count_part("adult.csv", Path("part-1.counts"), plan=plan, share="1/2", schema=schema)
    ct.release(Parts("part-*.counts"), plan=plan, ledger="adult.ledger")
    ct.release(frame, schema, epsilon=1.0, strategy=ct.strategies.Views(size=8, cover=3))
    ct.release(frame, schema, epsilon=1.0, strategy=ct.strategies.Direct(budgets="optimal"))
    ct.release(frame, schema, epsilon=1, strategy=OneTable(), workload=ct.Workload([("sex",)]))
    release = ct.open_release("adult.release.parquet")
    release.save(Path("copy.release.parquet"))
    assert_type(release.refit(nonnegative="ripple", rounds=2), ct.Release)
    assert_type(release.measurements, tuple[Measurement, ...])
    assert_type(release.statement, Statement)
    assert_type(release.integers(ct.Workload.all_ways(schema, 2), method="projection"), IntegerTables)
    return release


def answers(release: ct.Release) -> None:
    answer = release.marginal("sex", "age", "income", method="maximum-entropy")
    assert_type(answer, ct.Marginal)
    release.marginal(["sex", "age"])
    release.marginal(("sex", "age"))
    release.marginal("sex", where="25 <= age < 65 and region != North")
    release.marginal("sex", where=ct.count(age=(25, 65)))
    assert_type(answer.values, NDArray[np.float64])
    assert_type(answer.std_error, NDArray[np.float64])
    ends: tuple[NDArray[np.float64], NDArray[np.float64]] = answer.interval(0.95)
    assert_type(ends[0], NDArray[np.float64])
    assert_type(answer.method, str)
    assert_type(answer.error_kind, ErrorKind)
    answer.to_pandas(), answer.to_polars(), answer.to_xarray(), answer.to_arrow(), answer.plot()
    assert_type(release.sql("SELECT sex, count(*) FROM people GROUP BY sex", level=0.9), SqlAnswer)
    assert_type(release.synthesize(1_000, method="integers", seed=3), SyntheticData)
    assert_type(release.marginals([("sex",), ["sex", "age"]]), list[ct.Marginal])
    release.marginals(names for names in (("sex",), ("age",)))


def ledgers(schema: ct.Schema) -> ct.Ledger:
    ct.Ledger.create("a.ledger", schema=schema, budget=ct.Budget(epsilon=3), neighbours=ct.Neighbours.ADD_REMOVE)
    ct.Ledger.in_memory(schema=schema, budget=ct.Budget(rho="1/2"), neighbours="replace")
    ledger = ct.Ledger.open(Path("adult.ledger"))
    assert_type(ledger.entries(), tuple[Entry, ...])
    assert_type(ledger.remaining, Fraction)
    return ledger


def questions() -> Question:
    ct.count()
    ct.count("25 <= age < 65 and not employed")
    ct.count(age=(18, 30), sex="Female", region=["North", "South"], size=3)
    ct.count(age=(18, None))
    ct.total("children", where="sex = Female")
    ct.total("age", where={"sex": "Female"}, values={"age": [9, 41, 90]})
    ct.total("age", where=ct.count(sex="Female"), values={"age": range(3)})
    return ct.count(sex="Female") - 2 * ct.count(age=(18, 65)) + -ct.count()


def notebooks(frame: Any, ledger: ct.Ledger) -> None:
    ct.open_notebook(ledger)
    notebook = ct.open_notebook("adult.ledger", rows=48_842)
    assert_type(notebook.ask(frame, ct.count(age=(18, 30), sex="Female"), epsilon=0.05), Answer)
    notebook.ask(frame, "age < 18", rho=Fraction(1, 100), key="young")
    notebook.ask_all(frame, ["age < 18", ct.count("age >= 18")], epsilon="0.05")
    notebook.ask_all(frame, (ct.count(sex=each) for each in ("Female", "Male")), epsilon=Decimal("0.05"))
    assert_type(notebook.estimate(questions()).interval(0.95), tuple[float, float])
    assert_type(notebook.improve(), tuple[Improvement, ...])
    assert_type(notebook.improve_tables(), tuple[TableImprovement, ...])
    assert_type(notebook.cost("sex = Female", error=50), Price)
    assert_type(notebook.synthesize(rows=10_000), Synthetic)


def collections(schema: ct.Schema, row: Mapping[str, Any], several: list[bytes]) -> ct.Release:
    ct.local.design(schema, epsilon="1", people=1_000, ways=2, method="views", minimum=100)
    protocol = ct.local.design(schema, epsilon=1.0, people=1_000_000, ways=3)
    assert_type(protocol, ct.local.Protocol)
    report = protocol.report(row, store=ct.local.FileStore("device.json"), cap="4")
    protocol.report({"sex": "Female", "age": 30}, store={}, cap=4)
    collector = ct.local.Collector(protocol)
    collector.add(report)
    collector.add_many(several)
    return collector.release()


def mistakes(frame: Any, schema: ct.Schema) -> str:
    try:
        ct.release(frame, schema, epsilon=1.0, ledger="adult.ledger")
    except ct.errors.OverspendError as error:
        return f"nothing is left: {error}"
    except (ct.errors.SourceError, ct.CrosstallyError) as error:
        return str(error)
    return ""
