"""One number, one uncertainty: the same cell has the same interval and the same error through every door."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

import crosstally as ct
from cli_runs import run
from crosstally.browser.explorer.app import create_app
from crosstally.browser.explorer.served import Served
from crosstally.exports.csv_table import csv_text

SCHEMA = ct.Schema.from_dict(
    {
        "attributes": [
            {"name": "sex", "values": ["F", "M"]},
            {"name": "age", "values": [str(n) for n in range(14)]},
            {"name": "town", "values": ["A", "B", "C", "D"]},
        ]
    }
)
Cell = tuple[Any, ...]
"""The number, and the ends of its interval."""


def rows() -> pa.Table:
    random = np.random.default_rng(1)
    age = random.geometric(0.25, 4_000).clip(1, 14) - 1
    codes = {"sex": random.integers(0, 2, 4_000), "age": age, "town": (age + random.integers(0, 3, 4_000)) % 4}
    return pa.table({name: [SCHEMA[name].labels[code] for code in each] for name, each in codes.items()})


@cache
def release(kind: str) -> ct.Release:
    """Corrected and shrunk; as least squares has it; of pairs alone, so that the three together were not measured."""
    if kind == "linear":
        return release("shrunk").refit(nonnegative="none")
    pairs = ct.Workload.all_ways(SCHEMA, 2)
    strategy = ct.strategies.Direct() if kind == "unmeasured" else "auto"
    return ct.release(rows(), SCHEMA, epsilon=1, workload=pairs, strategy=strategy)


NAMES = {"shrunk": ("sex", "age"), "linear": ("sex", "age"), "unmeasured": ("sex", "age", "town")}
PICKED = {"sex": "M", "age": "3", "town": "B"}


def cell(answer: ct.Marginal, **labels: str) -> Cell:
    one = answer.sel(labels)
    low, high = one.interval()
    return float(one.value), float(low), float(high)


def by_marginal(made: ct.Release, names: tuple[str, ...]) -> Cell:
    return cell(made.marginal(*names), **{name: PICKED[name] for name in names})


def by_other_order(made: ct.Release, names: tuple[str, ...]) -> Cell:
    table = made.marginal(*names).transpose(*names[::-1])
    return cell(table, **{name: PICKED[name] for name in names})


def by_crosstab(made: ct.Release, names: tuple[str, ...]) -> Cell:
    return cell(made.crosstab(names[0], names[1:]), **{name: PICKED[name] for name in names})


def by_crosstab_with_totals(made: ct.Release, names: tuple[str, ...]) -> Cell:
    return cell(made.crosstab(names[0], names[1:], margins=True), **{name: PICKED[name] for name in names})


def by_where(made: ct.Release, names: tuple[str, ...]) -> Cell:
    return cell(
        made.marginal(names[0], where={name: PICKED[name] for name in names[1:]}), **{names[0]: PICKED[names[0]]}
    )


def by_count(made: ct.Release, names: tuple[str, ...]) -> Cell:
    return cell(made.count({name: PICKED[name] for name in names}))


def by_sql(made: ct.Release, names: tuple[str, ...]) -> Cell:
    picked = " AND ".join(f"{name} = '{PICKED[name]}'" for name in names[1:])
    found = made.sql(f"SELECT {names[0]}, count(*) AS n FROM people WHERE {picked} GROUP BY {names[0]}")
    at = found.columns[names[0]].index(PICKED[names[0]])
    return tuple(found.columns[column][at] for column in ("n", "n_low", "n_high"))


def by_grouped_sql(made: ct.Release, names: tuple[str, ...]) -> Cell:
    found = made.sql(f"SELECT {', '.join(names)}, count(*) AS n FROM people GROUP BY ALL")
    wanted = tuple(PICKED[name] for name in names)
    at = list(zip(*(found.columns[name] for name in names), strict=True)).index(wanted)
    return tuple(found.columns[column][at] for column in ("n", "n_low", "n_high"))


def by_csv(made: ct.Release, names: tuple[str, ...]) -> Cell:
    lines = [line.split(",") for line in csv_text(made.marginal(*names)).splitlines()]
    at = {name: place for place, name in enumerate(lines[0])}
    (line,) = (line for line in lines[1:] if all(line[at[name]] == PICKED[name] for name in names))
    return tuple(float(line[at[column]]) for column in ("count", "count_low", "count_high"))


def by_arrow(made: ct.Release, names: tuple[str, ...]) -> Cell:
    (row,) = (row for row in made.marginal(*names).to_arrow().to_pylist() if all(row[n] == PICKED[n] for n in names))
    return row["count"], row["count_low"], row["count_high"]


DOORS: dict[str, Callable[[ct.Release, tuple[str, ...]], Cell]] = {
    name.removeprefix("by_"): door for name, door in list(globals().items()) if name.startswith("by_")
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", NAMES)
def test_the_same_cell_has_the_same_interval(kind: str, door: str) -> None:
    made, names = release(kind), NAMES[kind]
    assert DOORS[door](made, names) == pytest.approx(by_marginal(made, names), rel=1e-9, abs=1e-8)


def test_through_the_command_line_and_over_http(tmp_path: Path) -> None:
    made = release("shrunk")
    made.save(tmp_path / "people.release.parquet")
    ran = run("table", tmp_path / "people.release.parquet", "sex", "age", "--format", "json")
    assert ran.code == 0, ran.err
    cells = json.loads(ran.out)["cells"]
    (found,) = (
        each for each in cells if each["labels"] == ["M", "3"] or (each.get("sex") == "M" and each.get("age") == "3")
    )
    expected = by_marginal(made, ("sex", "age"))
    assert (found["count"], found["low"], found["high"]) == pytest.approx(expected, rel=1e-9, abs=1e-8)
    served = Served(made, name="people", file="people.release.parquet", digest="0" * 64)
    client = TestClient(create_app(served), base_url="http://localhost")
    said: Any = client.get("/api/v2/tables/people/data?valueCodes[sex]=*&valueCodes[age]=*&outputFormat=csv").text
    lines = [line.split(",") for line in said.splitlines()]
    at = {name: place for place, name in enumerate(lines[0])}
    (line,) = (line for line in lines[1:] if (line[at["sex"]], line[at["age"]]) == ("M", "3"))
    over_http = tuple(float(line[at[column]]) for column in ("count", "count_low", "count_high"))
    assert over_http == pytest.approx(expected, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("kind", NAMES)
def test_the_error_and_the_interval_are_of_the_same_number(kind: str) -> None:
    """Half of a 95% interval is about two standard errors: ends are whole, cut at zero and hold the fitted truth."""
    table = release(kind).marginal(*NAMES[kind])
    low, high = table.interval()
    inside = low > 0
    assert inside.sum() > 10
    ratio = (high - low)[inside] / 2 / table.std_error[inside]
    assert np.median(ratio) == pytest.approx(2, rel=0.15)
    assert (ratio > 1.3).all()


def test_the_error_of_the_noise_is_apart() -> None:
    shrunk, linear = release("shrunk").marginal("sex", "age"), release("linear").marginal("sex", "age")
    np.testing.assert_array_equal(shrunk.noise_std_error, linear.noise_std_error)
    np.testing.assert_array_equal(linear.std_error, linear.noise_std_error)
    # of 40 releases the mean ratio was .96, with a standard deviation of .05: the limits are eight of them away
    assert 0.56 < np.mean(shrunk.std_error / linear.std_error) < 1.36
    assert (shrunk.std_error != linear.std_error).all()
    assert np.isnan(release("unmeasured").marginal("sex", "age", "town").noise_std_error).all()
