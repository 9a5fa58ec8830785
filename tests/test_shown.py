"""What notebooks and the prompt show: short, and inert whatever labels say."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crosstally as ct
from crosstally.budget import Noise, NoiseKind
from crosstally.generate.people import people
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, Statement, publish

HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><b>', "&lt;i&gt;", "a'b"]
HOSTILE_NAME = "<svg onload=alert(1)>"


def hostile() -> Release:
    schema = ct.Schema([ct.Attribute(HOSTILE_NAME, HOSTILE), ct.Attribute("sex", ["Female", "<u>"])])
    noise = Noise(NoiseKind.LAPLACE, 2.0)
    query, values = Cells(schema.names), np.arange(10).reshape(5, 2) * 10
    measured = Measurement(query, values, variance=noise.variance, noise=noise, origin="<i>entry</i>")
    statement = Statement(
        strategy="<s>", budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE, entry="<i>entry</i>"
    )
    return publish(schema, [measured], statement)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(thing: Any) -> Tags:
    parser = Tags()
    parser.feed(thing._repr_html_())
    return parser


def test_labels_are_inert_in_html() -> None:
    release = hostile()
    things = [
        release,
        release.schema,
        release.statement,
        release.measurements[0],
        release.marginal(*release.attributes),
    ]
    things += [release.marginal(HOSTILE_NAME).shares(), release.marginal("sex").sel(sex="<u>")]
    things += [release.sql("SELECT sex, count(*) FROM x GROUP BY sex"), release.synthesize(20, seed=1)]
    for thing in things:
        found = shown(thing)
        assert found.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
        assert not found.attributes
    assert HOSTILE[0] in shown(release.marginal(HOSTILE_NAME)).text


def test_everything_has_html_and_a_short_text(tmp_path: Path) -> None:
    rows, schema = people(500, np.random.default_rng(1), attributes=["sex", "age", "region", "home"])
    ledger = ct.Ledger.create(tmp_path / "l", schema=schema, budget=ct.Budget(epsilon=3))
    release = ct.release(rows, schema, epsilon=1.0, ledger=ledger, strategy="direct")
    comparison = ct.plan(schema, epsilon=1.0)
    wide = ct.Schema([ct.Attribute(f"attribute {i}", [str(v) for v in range(50)]) for i in range(400)])
    things: list[Any] = [
        release,
        release.marginal("age", "region", "home"),
        release.marginal("age").shares(),
        schema,
        wide,
    ]
    things += [release.sql("SELECT age, region, count(*) FROM x GROUP BY ALL"), release.synthesize(100, seed=1)]
    things += [release.statement, comparison, comparison.chosen, ledger, release.measurements[0]]
    for thing in things:
        assert "table" in shown(thing).tags
    things += [release.estimate, ct.Workload.all_ways(schema, 3), wide.attributes[0], ledger.entries()[0], release.rows]
    for thing in things:
        assert len(repr(thing).splitlines()) <= 12, type(thing)
        assert len(repr(thing)) <= 1200, type(thing)
    related = ct.analysis.association(release.marginal("age", "region"))
    assert repr(related).startswith("age and region: Cramér's V ")
    assert len(repr(related).splitlines()) == 1
    assert "direct" in shown(ledger).text
    assert "(chosen)" in shown(comparison).text
    assert "... 340 more rows" in shown(wide).text


def test_a_release_says_what_it_holds() -> None:
    release = hostile()
    assert release.attributes == (HOSTILE_NAME, "sex")
    assert release.covers("sex", HOSTILE_NAME)
    rows, schema = people(500, np.random.default_rng(1), attributes=["sex", "age", "region"])
    some = ct.release(rows, schema, epsilon=1.0, strategy="direct", workload=ct.Workload([("sex", "age"), ("region",)]))
    assert some.covers("sex")
    assert some.covers("age", "sex")
    assert some.covers()
    assert not some.covers("sex", "region")
    with pytest.raises(ct.CrosstallyError, match="unknown attribute 'sx'"):
        some.covers("sx")
    text = some.describe()
    assert repr(text) == text
    assert "pairs covered  1 of 3" in text
    assert "Adding or removing any one person's row" in text


def test_a_table_is_written_as_csv(tmp_path: Path) -> None:
    answer = hostile().marginal("sex")
    text = answer.to_csv()
    assert text.splitlines()[0] == "sex,count,std_error,count_low,count_high"
    assert len(text.splitlines()) == 3
    answer.to_csv(tmp_path / "sex.csv")
    assert (tmp_path / "sex.csv").read_text(encoding="utf-8") == text
    assert answer.shares().to_csv().startswith("sex,share,std_error,share_low,share_high")


def test_statements_and_made_up_rows_say_what_they_are() -> None:
    release = hostile()
    answer = shown(release.sql("SELECT sex, count(*) AS n FROM x GROUP BY ROLLUP (sex) ORDER BY n", level=0.9))
    assert answer.text.startswith("sexnn_lown_high")
    assert "ends of 90% intervals" in answer.text
    assert "NULL" not in answer.text
    made = shown(release.synthesize(20, seed=1))
    assert "20 rows of synthetic data, 2 attributes" in made.text
    assert "... 15 more rows" in made.text
    assert "none is a real person" in made.text


def test_a_table_is_written_as_a_workbook(tmp_path: Path) -> None:
    answer = hostile().marginal("sex")
    answer.to_excel(tmp_path / "sex.xlsx")
    answer.shares().to_excel(str(tmp_path / "shares.xlsx"))
    counts, shares = (pd.read_excel(tmp_path / name) for name in ("sex.xlsx", "shares.xlsx"))
    assert list(counts.columns) == ["sex", "count", "std_error", "count_low", "count_high"]
    assert list(shares.columns) == ["sex", "share", "std_error", "share_low", "share_high"]
    assert counts["count"].tolist() == pytest.approx(answer.values)
    assert shares["share"].sum() == pytest.approx(1)
    about = pd.read_excel(tmp_path / "shares.xlsx", sheet_name="about", header=None)
    assert "share_low and share_high are the ends" in about.iloc[-1, 1]
