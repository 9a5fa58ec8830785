"""What PriView's experiments share: cases, releases and exact views, errors, ratios, charts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from priview_scores import scored

from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.charts import stacked, ticks
from crosstally_lab.papers.data import Rows
from crosstally_lab.papers.priview.candlesticks import candlesticks
from crosstally_lab.papers.priview.comparison import cover_of
from crosstally_lab.papers.priview.trials import (
    DISTANCE,
    DIVERGENCE,
    Case,
    Design,
    Scores,
    Steps,
    case_of,
    exact_estimate,
    filled,
    random_tables,
    ratio,
    read,
    released,
    rows_of,
)


def rows_with(attributes: int, number: int = 400) -> Rows:
    random = np.random.default_rng(3)
    schema = Schema([Attribute(f"b{i}", ["0", "1"]) for i in range(attributes)])
    table = pa.table({name: random.integers(2, size=number) for name in schema.names})
    return Rows(table, schema, label="coins")


def sized_case(attributes: int, rows: int) -> Case:
    """A case of which only the sizes matter."""
    schema = Schema([Attribute(f"b{i}", ["0", "1"]) for i in range(attributes)])
    return Case(Rows(pa.table({"b0": pa.nulls(rows)}), schema, label="sizes"), tables={}, truth={})


@pytest.mark.parametrize(
    ("attributes", "rows", "epsilon", "cover"),
    [(32, 900_000, 1.0, 3), (32, 900_000, 0.1, 2), (45, 647_377, 1.0, 2), (64, 1_000_000, 1.0, 2)],
)
def test_the_rule_chooses_as_the_paper(attributes: int, rows: int, epsilon: float, cover: int) -> None:
    assert cover_of(sized_case(attributes, rows), epsilon) == cover


def test_truth_is_counted() -> None:
    data = rows_with(4)
    tables = {2: [("b0", "b2")], 3: [("b1", "b2", "b3")]}
    case = case_of(data, tables)
    first, second = (np.asarray(data.table[name]) for name in ("b0", "b2"))
    assert case.truth["b0", "b2"][1, 0] == int(np.sum((first == 1) & (second == 0)))
    assert case.truth["b1", "b2", "b3"].sum() == case.rows == 400
    assert case.attributes == 4


def test_random_tables_have_different_attributes_in_order() -> None:
    names = tuple("abcdefgh")
    found = random_tables(names, 3, 50, np.random.default_rng(1))
    assert len(found) == 50
    assert all(len(set(table)) == 3 and list(table) == sorted(table) for table in found)
    with pytest.raises(CrosstallyError, match="tables of 8 attributes need rows with more attributes, got 8"):
        random_tables(names, 8, 1, np.random.default_rng(1))


def test_views_without_noise_give_covered_tables_exactly() -> None:
    case = case_of(rows_with(6), {2: [("b0", "b5"), ("b3", "b2")], 5: [("b0", "b1", "b2", "b3", "b4")]})
    exact = exact_estimate(case, Design(3, 2))
    for names, table in zip(case.tables[2], filled(exact, case.tables[2]), strict=True):
        assert np.allclose(table, case.truth[names], rtol=0, atol=1e-9)
    (guessed,) = filled(exact, case.tables[5])
    assert guessed.sum() == pytest.approx(400)
    assert np.allclose(guessed.sum(axis=(2, 3, 4)), filled(exact, [("b0", "b1")])[0], atol=1e-3)


def test_a_release_is_scored_against_the_truth() -> None:
    case = case_of(rows_with(6), {2: [("b0", "b5"), ("b2", "b3")]})
    runs = [read(released(case, Design(3, 2), 1000.0)) for _ in range(5)]
    found = Scores.of("C2(3)", case, runs, epsilon=1000.0, k=2, note="6 views")
    assert found.errors[DISTANCE].shape == found.errors[DIVERGENCE].shape == (5, 2)
    assert found.distance.max() < 1e-6  # noise of scale 0.006: no cell moves but in 1e-60 of runs
    assert found.cell == ("coins", 1000.0, 2)
    assert found.at(0.1).cell == ("coins", 0.1, 2)


def test_rows_are_candlesticks_of_means_over_runs() -> None:
    grid = np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    scores = Scores("m", "data", attributes=9, rows=10, epsilon=1.0, k=4, errors={DISTANCE: grid}, noise=0.5)
    (row,) = rows_of([scores])
    assert (row["p25"], row["p50"], row["p75"], row["mean"]) == (1.5, 2.0, 2.5, 2.0)
    assert (row["tables"], row["runs"], row["noise_error"], row["d"], row["rows"]) == (3, 2, 0.5, 9, 10)


def test_a_ratio_pairs_runs_with_a_method_that_has_one() -> None:
    single = Scores("exact", "x", attributes=9, rows=10, epsilon=1.0, k=4, errors={DISTANCE: np.full((1, 3), 2.0)})
    noisy = Scores("noisy", "x", attributes=9, rows=10, epsilon=1.0, k=4, errors={DISTANCE: np.full((5, 3), 6.0)})
    found = ratio([single, noisy], ("x", 1.0, 4), "noisy", "exact")
    assert (found.estimate, found.low, found.high) == (3.0, 3.0, 3.0)


def test_steps_are_told() -> None:
    told = []
    steps = Steps(2, lambda done, total: told.append((done, total)))
    steps()
    steps()
    assert told == [(1, 2), (2, 2)]


def test_a_chart_shows_zeros_at_the_least_and_stars_only_where_there_are_any() -> None:
    rows = list(rows_of([scored("a", 0.0), scored("b", 0.01, noise=0.02)]))
    chart = candlesticks(rows, title="t", order=["a", "b"], star="noise_error")
    values = chart["data"]["values"]
    assert [value["p50"] for value in values] == [1e-6, 0.01]
    assert ["star" in value for value in values] == [False, True]
    assert len(chart["spec"]["layer"]) == 5  # line, box, mean, triangle and star
    both = stacked([chart, chart])
    assert [set(part) & {"$schema", "config"} for part in both["vconcat"]] == [set(), set()]
    assert {"$schema", "config"} <= set(both)


def test_the_least_mean_of_each_panel_is_marked_and_panels_fit_a_page() -> None:
    rows = list(rows_of([scored(name, error, k=k) for k in (4, 6) for name, error in (("a", 0.01 * k), ("b", 0.05))]))
    chart = candlesticks(rows, title="t", order=["a", "b"])
    found = {(value["ways"], value["method"]) for value in chart["data"]["values"] if value["best"]}
    assert found == {("tables over 4 attributes", "a"), ("tables over 6 attributes", "b")}  # 0.04 and 0.06 against 0.05
    triangle = chart["spec"]["layer"][3]
    assert (triangle["mark"]["shape"], triangle["transform"]) == ("triangle-up", [{"filter": "datum.best"}])
    assert chart["spec"]["width"] == 180
    many = candlesticks(rows, title="t", order=[f"method {i}" for i in range(15)])
    assert many["spec"]["width"] == 235  # not 15 x 17: three panels and 100 pixels of axis are 805


def test_orders_that_are_no_rivals_are_not_marked() -> None:
    rows = list(rows_of([scored("order 1", 0.01), scored("order 2", 0.02)]))
    chart = candlesticks(rows, title="t", order=["order 1", "order 2"], compared=False)
    assert [value["best"] for value in chart["data"]["values"]] == [False, False]
    assert "triangle" not in " ".join(chart["title"]["subtitle"])


def test_ticks_are_close_where_there_are_few_decades() -> None:
    assert ticks(0.0009, 0.003) == [0.001, 0.0015, 0.002, 0.003]
