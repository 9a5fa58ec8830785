"""The outcomes that no change of the code's form may move: what each case gives, through public doors, noise injected.

``outcomes()`` gives for each case its numbers by name. A name that begins with ``drawn`` belongs to what is found by
drawing (ends of intervals); everything else is exact. ``python -m frozen`` writes the file that the test reads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

import crosstally as ct
from crosstally.schema import Impossible, PublicCounts, Schema, Unit
from frozen.people import (
    ADULT,
    BINARY,
    DELTA,
    FIVE,
    HALVES,
    JOB,
    LEVELS,
    OWNS,
    PAIRS,
    PURE,
    REGION,
    RHO,
    SEX,
    SIX,
    TWO,
    bits,
    injected,
    rows,
)

Outcome = dict[str, Any]
CASES: dict[str, Callable[[], Outcome]] = {}
_SHOWN = 60  # numbers of a table that are kept one by one; of more, these and the sum of squares


def case(function: Callable[[], Outcome]) -> Callable[[], Outcome]:
    """Add a case under its function's name."""
    CASES[function.__name__] = function
    return function


def family(name: str, values: Mapping[str, Any]) -> Callable[[Callable[[Any], Outcome]], None]:
    """Add a case for each of some values."""

    def add(function: Callable[[Any], Outcome]) -> None:
        for key, value in values.items():
            CASES[f"{name}: {key}"] = partial(function, value)

    return add


# What is kept of things


def numbers(values: Any) -> dict[str, Any]:
    """The numbers of an array: all where they are few, else the first ones and their sum of squares."""
    flat = np.asarray(values, float).ravel()
    kept: dict[str, Any] = {"shape": list(np.shape(values)), "values": flat[:_SHOWN].tolist()}
    return kept if flat.size <= _SHOWN else {**kept, "squares": float(flat @ flat)}


def table(marginal: ct.Marginal, *, drawn: bool = True) -> Outcome:
    """An answer: values, linear error, ends of intervals."""
    out = {
        "attributes": list(marginal.attributes),
        "method": marginal.method,
        "kind": str(marginal.error_kind),
        "values": numbers(marginal.values),
        "std_error": numbers(marginal.std_error),
    }
    if drawn:
        low, high = marginal.interval(0.9)
        out |= {"drawn low": numbers(low), "drawn high": numbers(high)}
    return out


def planned(plan: ct.Plan) -> Outcome:
    """What a plan buys, and what it expects."""
    noises = sorted((str(request.noise.kind), request.noise.scale) for request in plan.requests)
    return {
        "strategy": plan.strategy,
        "budget": str(plan.budget),
        "own": str(plan.own_budget.amount),
        "requests": len(plan.requests),
        "kinds": [kind for kind, _ in noises][:_SHOWN],
        "scales": numbers([scale for _, scale in noises]),
        "rms_error": plan.rms_error,
        "score": plan.score,
        "cells": plan.cells,
    }


def measured(release: ct.Release) -> Outcome:
    """What was bought."""
    return {
        "measurements": [
            [list(each.query.attributes), str(each.noise), int(np.sum(each.values)), numbers(each.values)["values"][:8]]
            for each in release.measurements[:40]
        ],
        "variances": numbers([each.variance for each in release.measurements]),
        "statement": [str(release.statement.budget), str(release.statement.neighbours), release.statement.rows],
    }


def released(schema: Schema, tables: list[tuple[str, ...]], source: pa.Table | None = None, **options: Any) -> Outcome:
    """A release by a plan: charge, measurements and answers."""
    ledger_budget = ct.Budget(**{key: options[key] for key in ("epsilon", "delta", "rho") if key in options})
    neighbours = options.get("neighbours", "add-remove")
    with injected(11):
        ledger = ct.Ledger.in_memory(schema=schema, budget=ledger_budget, neighbours=neighbours)
        release = ct.release(source or rows(), schema, ledger=ledger, key="frozen", **options)
    out = measured(release)
    out["charged"] = [str(entry.cost) for entry in ledger.entries()]
    for names, answer in zip(tables, release.marginals(tables), strict=True):
        out[" x ".join(names) or "total"] = table(answer)
    return out


ASKED = [(), ("sex",), ("age", "job"), ("sex", "region"), ("sex", "age", "owns")]

# Plans


@family("plan", {
    f"{strategy} {name}": (strategy, budget)
    for name, budget in {"pure": PURE, "delta": DELTA, "rho": RHO}.items()
    for strategy in ("flat", "uniform", "direct", "direct-uniform", "fourier", "residual", "views", "clustered",
                     "optimum", "two-stage", "adaptive")
    if not (name == "pure" and strategy == "residual")
})  # fmt: skip
def plans(given: tuple[str, Mapping[str, Any]]) -> Outcome:
    strategy, budget = given
    return planned(ct.plan(FIVE, rows=4_000, workload=PAIRS, strategy=strategy, **budget).chosen)


@family("plan of all strategies", {"pure": PURE, "delta": DELTA})
def compared(budget: Mapping[str, Any]) -> Outcome:
    comparison = ct.plan(SIX, rows=4_000, **budget)
    return {"chosen": comparison.chosen.strategy, "plans": [planned(each) for each in comparison.plans]}


@family("plan for", {
    "units, replace": (Schema(FIVE.attributes, Unit("person", 3)), {"neighbours": "replace"}),
    "replace": (FIVE, {"neighbours": "replace"}),
    "cells": (FIVE, {"objective": "cells"}),
    "nothing named": (FIVE, {"workload": None}),
    "ranges": (FIVE, {"workload": ct.Workload.ranges(FIVE, "age")}),
    "named weights": (FIVE, {"workload": ct.Workload([("sex", "age"), ("job",)], weights=[1, 3])}),
})  # fmt: skip
def other_plans(given: tuple[Schema, dict[str, Any]]) -> Outcome:
    schema, options = given
    return planned(ct.plan(schema, rows=4_000, epsilon=1, **{"workload": PAIRS, **options}).chosen)


# Releases


@family("release", {
    f"{strategy} {name}": (strategy, budget)
    for name, budget in {"pure": PURE, "delta": DELTA}.items()
    for strategy in ("flat", "direct", "direct-uniform", "fourier", "residual", "views", "clustered", "optimum",
                     "two-stage", "adaptive")
    if not (name == "pure" and strategy == "residual")
})  # fmt: skip
def releases(given: tuple[str, dict[str, Any]]) -> Outcome:
    strategy, budget = given
    return released(FIVE, ASKED, workload=PAIRS, strategy=strategy, **budget)


@case
def release_by_mwem() -> Outcome:
    workload = ct.Workload.all_ways(BINARY, 2)
    return released(BINARY, [("b0",), ("b1", "b2")], bits(), epsilon=1, strategy="mwem", workload=workload)


@family("release of", {
    "nothing named": (FIVE, {}),
    "nothing named with delta": (FIVE, {"delta": "1e-6"}),
    "public rows": (FIVE, {"rows": 4_000}),
    "replace": (FIVE, {"neighbours": "replace"}),
    "units": (Schema(FIVE.attributes, Unit("person", 2)), {}),
    "dropped rows": (Schema([SEX, ADULT, JOB, REGION, OWNS]), {}),
    "many values": (SIX, {}),
    "structural zeros": (Schema(FIVE.attributes, facts=[Impossible({"age": ("[0, 18)",), "job": ("retired",)})]), {}),
    "public totals": (Schema(FIVE.attributes, facts=[HALVES, PublicCounts(None, (4_000,))]), {}),
    "nearly public totals": (Schema(FIVE.attributes, facts=[PublicCounts("sex", (1_990, 2_010), error=15.0)]), {}),
})  # fmt: skip
def other_releases(given: tuple[Schema, dict[str, Any]]) -> Outcome:
    schema, options = given
    return released(schema, ASKED, **{"epsilon": 1, **options})


@case
def release_of_ranges() -> Outcome:
    return released(FIVE, [("age",), ("sex", "age")], epsilon=1, workload=ct.Workload.ranges(FIVE, "age"))


@family("release of ranges", {"pure": PURE, "delta": DELTA, "replace": {**PURE, "neighbours": "replace"}})
def ranges_of_two(options: dict[str, Any]) -> Outcome:
    """Two ordered attributes: matrices along both."""
    workload = ct.Workload.ranges(TWO, "age", "hours")
    return released(TWO, [("age",), ("age", "hours"), ("sex", "age")], workload=workload, **options)


@family("release corrected by", {name: name for name in ("none", "ripple", "joint", "shrunk")})
def corrected(name: str) -> Outcome:
    refit = _release().refit(nonnegative=name)
    return {" x ".join(names): table(refit.marginal(*names)) for names in ASKED[1:]}


@cache
def _release() -> ct.Release:
    with injected(3):
        return ct.release(rows(), FIVE, epsilon=1, workload=PAIRS, strategy="direct")


@cache
def _one_way() -> ct.Release:
    with injected(4):
        return ct.release(rows(), FIVE, epsilon=1, workload=ct.Workload.all_ways(FIVE, 1), strategy="direct")


@cache
def _wide() -> ct.Release:
    with injected(5):
        return ct.release(bits(), BINARY, epsilon=2, strategy="views", workload=ct.Workload.all_ways(BINARY, 3))


# Answers


@family("unmeasured", {
    f"{method} {'x'.join(names)}": (method, names)
    for names in (("sex", "age", "job"), ("sex", "region", "owns", "job"))
    for method in (None, "maximum-entropy", "least-squares", "linear-program")
})  # fmt: skip
def unmeasured(given: tuple[str | None, tuple[str, ...]]) -> Outcome:
    method, names = given
    answer = _release().marginal(*names, method=method)
    if method == "linear-program":  # one of several optima: what it must satisfy
        apart = float(np.abs(answer.sum(*names[2:]).values - _release().marginal(*names[:2]).values).max())
        satisfied = apart <= answer.relaxed + 1e-6 and bool(answer.values.min() >= 0)
        return {"relaxed": round(answer.relaxed, 6), "satisfied": satisfied}
    return table(answer)


@case
def bounds_of_pairs() -> Outcome:
    asked = (("sex", "age"), ("job", "owns", "sex"))
    return {" x ".join(names): table(_one_way().marginal(*names, method="bounds")) for names in asked}


@case
def pairs_left_out() -> Outcome:
    return {" x ".join(names): table(_one_way().marginal(*names)) for names in (("sex", "age"), ("job", "owns", "sex"))}


@case
def wide_views() -> Outcome:
    asked = (("b0",), ("b0", "b3"), ("b1", "b2", "b5"), ("b0", "b1", "b2", "b3", "b4"))
    return {" x ".join(names): table(_wide().marginal(*names)) for names in asked}


@family(
    "where",
    {
        text: text
        for text in ("sex = Female", "30 <= age < 60 and region != North", "not owns = yes or job in {part, full}")
    },
)
def conditions(text: str) -> Outcome:
    return {"count": table(_release().count(text)), "table": table(_release().marginal("job", where=text))}


@case
def derived_figures() -> Outcome:
    m, pair = _release().marginal("sex", "age"), _release().marginal("sex", "owns")
    found = {
        "shares": m.shares(),
        "shares within": m.shares("sex"),
        "difference": m["Female"] - m["Male"],
        "difference of shares": m.shares("sex")["Female"] - m.shares("sex")["Male"],
        "ratio": m["Female"] / m["Male"].sum(),
        "sum": m.sum("age"),
        "grouped": m.group("age", {"young": ["[0, 18)", "[18, 30)"]}),
        "totals": m.with_totals(),
        "weighted": m.weighted_sum("age", [9, 24, 37, 52, 80]),
        "odds ratio": ct.analysis.odds_ratio(pair),
        "relative risk": ct.analysis.relative_risk(pair),
        "mean": ct.analysis.mean(m, "age", at=[9, 24, 37, 52, 80]),
        "crosstab": _release().crosstab("sex", "owns", margins=True, normalize="index"),
        "top": m.top(3),
    }
    return {name: table(each) for name, each in found.items()}


@case
def association() -> Outcome:
    found = ct.analysis.association(_release().marginal("job", "owns"))
    figures = {"chi_square": found.chi_square, "p_value": found.p_value}
    return {**figures, "v": found.cramers_v.value, "information": found.mutual_information.value}


@case
def levels() -> Outcome:
    with injected(12):
        m = ct.release(rows(), LEVELS, epsilon=1, strategy="direct").marginal("sex", "region")
    return {"rolled up": table(m.roll_up("region", "side")), "inside": table(m.drill_down("region", "a"))}


@case
def unmeasured_figures() -> Outcome:
    m = _release().marginal("sex", "age", "job")
    return {"shares": table(m.shares("sex")), "sum": table(m.sum("sex")), "difference": table(m["Female"] - m["Male"])}


# SQL, synthetic data, exports


@family("sql", {text: text for text in (
    "SELECT sex, count(*) FROM people GROUP BY sex",
    "SELECT sex, owns, count(*) AS n FROM people WHERE age >= 18 GROUP BY ROLLUP (sex, owns) ORDER BY n DESC",
    "SELECT job, count(*) / sum(count(*)) OVER () AS share FROM people GROUP BY job HAVING count(*) > 100",
    "SELECT count(*) FILTER (WHERE owns = 'yes') - count(*) FILTER (WHERE owns = 'no') AS d FROM people",
    "SELECT CASE WHEN region IN ('North', 'East') THEN 'a' ELSE 'b' END AS side, count(*) FROM people GROUP BY side",
)})  # fmt: skip
def sql(text: str) -> Outcome:
    found = _release().sql(text).to_arrow()
    out: Outcome = {"columns": found.column_names}
    for name, column in zip(found.column_names, found.columns, strict=True):
        real = pa.types.is_floating(column.type)
        key = f"drawn {name}" if name.endswith(("_low", "_high")) else name
        out[key] = numbers(column.to_numpy()) if real else [str(each) for each in column.to_pylist()]
    return out


@case
def synthetic_rows() -> Outcome:
    made = _release().synthesize(500, seed=2).to_arrow()
    return {name: sorted(map(str, pa.compute.value_counts(made[name]).to_pylist())) for name in made.column_names}


@case
def whole_tables() -> Outcome:
    with injected(6):
        small = ct.release(rows(), FIVE.subset("sex", "job", "owns"), epsilon=1, strategy="direct")
    tables = small.integers(method="projection")
    return {"distances": {" x ".join(names): float(far) for names, far in tables.distances.items()}}


@family("export", {name: name for name in ("csv", "json-stat", "px", "sdmx-csv", "json")})
def exports(name: str) -> Outcome:
    from crosstally.cli import main

    text = _exported(name, main)
    return {"drawn text": text.splitlines()[:40]}


def _exported(name: str, main: Any) -> str:
    import contextlib
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        file = Path(folder) / "r.parquet"
        _release().save(file)
        assert main(["table", str(file), "sex", "owns", "--format", name]) == 0
    return out.getvalue()


@case
def csv_of_a_table() -> Outcome:
    return {"drawn rows": list(csv.reader(io.StringIO(_release().marginal("sex", "job").to_csv())))}


# Notebook


@case
def notebook_answers() -> Outcome:
    with injected(7):
        ledger = ct.Ledger.in_memory(schema=FIVE, budget=ct.Budget(epsilon=5), neighbours="add-remove")
        book = ct.Notebook(ledger)
        asked = [
            "sex = Female",
            "age < 30 and job = none",
            "owns = yes",
            "30 <= age < 60 and sex = Male",
            "region = East",
            "job in {part, full} and owns = yes",
            "age < 45",
            "sex = Female and region = West",
        ]
        bought = [book.ask(rows(), question, epsilon="0.2") for question in asked]
        book.add(ct.count(sex="Female"), 2_010, variance=900, origin="census")
    free = [book.estimate(question) for question in ("sex = Male", "age < 30", "owns = yes and sex = Female")]
    return {
        "bought": numbers([[each.value, each.std_error] for each in bought]),
        "free": numbers([[each.value, each.std_error] for each in free]),
        "drawn intervals": numbers([each.interval(0.9) for each in free]),
        "charged": [str(entry.cost) for entry in ledger.entries()],
    }


@case
def notebook_improvements() -> Outcome:
    with injected(13):
        book = ct.Notebook(ct.Ledger.in_memory(schema=FIVE, budget=ct.Budget(epsilon=5), neighbours="add-remove"))
        for question in ("sex = Female", "age < 30", "owns = yes"):
            book.ask(rows(), question, epsilon="0.2")
    cost = book.cost("sex = Female and owns = yes", error=40)
    return {"cost": str(cost)}


@case
def saved_and_opened() -> Outcome:
    """A file gives the very same answers."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        _release().save(Path(folder) / "r.parquet")
        opened = ct.open_release(Path(folder) / "r.parquet")
    return {" x ".join(names): table(opened.marginal(*names)) for names in ASKED}


@case
def notebook_totals() -> Outcome:
    with injected(8):
        ledger = ct.Ledger.in_memory(schema=FIVE, budget=ct.Budget(rho=1), neighbours="replace")
        book = ct.Notebook(ledger)
        answers = book.ask_all(rows(), ["sex = Female", "owns = yes", "sex = Female and owns = yes"], rho="0.1")
    return {"answers": numbers([[each.value, each.std_error] for each in answers]),
            "charged": [str(entry.cost) for entry in ledger.entries()]}  # fmt: skip


# The local model


@family("local", {f"{epsilon} {ways}": (epsilon, ways) for epsilon in ("1", "4") for ways in (1, 2)})
def local(given: tuple[str, int]) -> Outcome:
    epsilon, ways = given
    schema = FIVE.subset("sex", "job", "owns")
    with injected(9):
        protocol = ct.local.design(schema, epsilon=epsilon, people=1_500, ways=ways)
        collector = ct.local.Collector(protocol)
        for row in rows().select(["sex", "job", "owns"]).slice(0, 1_500).to_pylist():
            collector.add(protocol.report(row, store={}, cap=epsilon))
        release = collector.release()
    asked = [("sex",), ("job", "owns"), ("sex", "job", "owns")]
    return {**measured(release), **{" x ".join(names): table(release.marginal(*names)) for names in asked}}


def outcomes(names: list[str] | None = None) -> dict[str, Outcome]:
    """What each case gives."""
    return {name: CASES[name]() for name in (CASES if names is None else names)}
