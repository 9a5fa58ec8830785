"""What the accuracy benchmarks ask for, and how they measure; by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

import crosstally as ct
from benchmarks.accuracy import named
from benchmarks.accuracy.comparison import paired_ratio
from benchmarks.accuracy.errors import asked_tables, l1, rms
from benchmarks.accuracy.kept import kept
from benchmarks.accuracy.lines import mean_line, never_above
from benchmarks.accuracy.references import weighted


def schema_of(*sizes: int) -> ct.Schema:
    return ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])


def test_rms_weighs_tables_and_not_cells() -> None:
    """Mean squares 4 of one cell and 1 of four: the root of 2.5; over all five cells it would be the root of 1.6."""
    answers, truth = [np.array([5.0]), np.array([1.0, 3.0, 1.0, 3.0])], [np.array([3]), np.array([2, 2, 2, 2])]
    assert rms(answers, truth) == pytest.approx(math.sqrt(2.5))
    assert l1(answers, truth, rows=10) == pytest.approx((2 + 4) / 2 / 10)


def test_asked_tables_are_all_of_one_and_a_fixed_sample_above() -> None:
    schema = schema_of(50, 41, 40, *[3] * 12)
    assert asked_tables(schema, 1) == [(name,) for name in schema.names]
    pairs = asked_tables(schema, 2)
    assert pairs == asked_tables(schema, 2)
    assert len(set(pairs)) == len(pairs) == 40
    triples = asked_tables(schema, 3, number=10_000)
    # of 455 those are too large that hold two of the first three: 50 x 41, 50 x 40 and 41 x 40, times 3, exceed 2,000
    assert len(triples) == 455 - (1 + 3 * 12)
    assert all(math.prod(schema.sizes(names)) <= 2_000 for names in triples)
    assert asked_tables(schema_of(*[2] * 60), 6) == asked_tables(schema_of(*[2] * 60), 6)


def test_an_order_of_tables_has_its_weight_whatever_their_number_and_size() -> None:
    schema = schema_of(2, 3, 5)
    workload = weighted(schema, {1: 3, 2: 1})
    cells = [math.prod(schema.sizes(names)) for names in workload.tables]
    whole = [weight * n for weight, n in zip(workload.weights, cells, strict=True)]
    assert whole == pytest.approx([1, 1, 1, 1 / 3, 1 / 3, 1 / 3])


def test_results_are_kept_by_their_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSTALLY_BENCH_KEPT", str(tmp_path))
    done = []

    def work() -> int:
        done.append(1)
        return len(done)

    assert kept("draws", {"a": 1}, None) is None
    assert [kept("draws", {"a": 1}, work), kept("draws", {"a": 1}, work)] == [1, 1]
    assert kept("draws", {"a": 2}, work) == 2
    assert kept("others", {"a": 1}, work) == 3


def test_a_line_is_missed_only_beyond_doubt() -> None:
    doubtful = paired_ratio([0.9, 1.3, 1.1, 1.0], np.ones(4))
    sure = paired_ratio([1.30, 1.31, 1.32, 1.31], np.ones(4))
    assert never_above("work", {"a": doubtful}, 1.02)["met"] is True
    both = never_above("work", {"a": doubtful, "b": sure}, 1.02)
    assert both["met"] is False
    assert "above in 1: b" in both["note"]
    assert mean_line("work", {"a": doubtful, "b": sure}, 1.1)["met"] is False
    assert mean_line("work", {"a": doubtful, "b": sure}, 1.3)["met"] is True


def test_naming_is_not_judged_where_no_table_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one of the three tables has tables over six attributes that are asked for: two budgets, two measures."""
    errors = {"l1": [1.0, 2.0, 3.0], "rms": [1.0, 2.0, 3.0]}

    def found(_, jobs):
        return [
            {str(k): errors for k in job.asked if k < 6 or job.setting.table == named.NAMING_TABLES[0]} for job in jobs
        ]

    monkeypatch.setattr(named, "present", lambda wanted: (wanted, []))
    monkeypatch.setattr(named, "in_processes", found)
    lines = {each["work"][:3]: each["note"] for each in named._against_nothing(3, quick=False)}
    assert {order: note.split(";")[0] for order, note in lines.items()} == {
        "k=2": "3 draws, 12 settings",
        "k=3": "3 draws, 12 settings",
        "k=4": "3 draws, 12 settings",
        "k=6": "3 draws, 4 settings",
    }
