from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Schema
from crosstally.workload import Workload
from crosstally_lab.papers.side_by_side import (
    OURS,
    Result,
    SideBySide,
    _answered,
    _Rows,
    compare_methods,
)
from peer_stand_in import a_peer, stand_in

SCHEMA = Schema([Attribute("a", range(2)), Attribute("b", range(3)), Attribute("c", edges=[0, 1, 2])])
PURE, GAUSSIAN = Budget(epsilon=1), Budget(epsilon=1, delta="1e-9")
ROWS = "a,b,c\n" + "0,1,0\n" * 300 + "1,2,1\n" * 500


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def by_name(found: SideBySide) -> dict[str, Result]:
    return {each.name: each for each in found.results}


def test_ratios_by_hand() -> None:
    """Errors 1, 2 over 2, 4 in pairs: half, without doubt; over 3, 1 nobody can tell."""
    ours = Result(OURS, "", l1=(1.0, 2.0), rms=(1.0, 1.0), cpu=(9.0, 2.0), compiling=(5.0, 1.0))
    same, other, one = Result("s", "", l1=(2.0, 4.0)), Result("o", "", l1=(3.0, 1.0)), Result("1", "", l1=(4.0,))
    none = Result("n", "", cannot="too large")
    found = SideBySide((("a",),), (ours, same, other, one, none), None)
    half, unclear, single = (found.ratio(each) for each in (same, other, one))
    assert half is not None
    assert unclear is not None
    assert single is not None
    assert (half.estimate, half.low, half.high) == (0.5, 0.5, 0.5)
    assert unclear.estimate == 0.75
    assert 1 in unclear
    assert (single.estimate, single.high) == (0.25, math.inf)
    assert found.ratio(none) is None
    assert (ours.error, ours.seconds, math.isnan(none.error), none.seconds) == (1.5, (2.0, 1.0), True, None)
    told = found.to_dict()["methods"]
    assert [each["our_error_over_it"] for each in told] == [None, 0.5, 0.75, 0.25, None]
    assert told[1]["interval"] == [0.5, 0.5]
    assert (told[3]["interval"], told[4]["cannot"], told[4]["l1"]) == (None, "too large", None)


@pytest.mark.parametrize("delta", [None, "1e-9"])
def test_every_method_answers_the_same_tables_of_public_rows(rows: Path, delta: str | None) -> None:
    """With so large a budget all that measure pairs are right; independence is not: a and b are one attribute here.

    Independent, 300 of 800 rows share a = 0 and 0.375 of them b = 1: |e| is 4 x 187.5 in the table of a and b.
    """
    budget = Budget(epsilon=200, delta=delta)
    told: list[tuple[int, int]] = []
    found = compare_methods(
        SCHEMA, budget, public=rows, releases=2, progress=lambda done, all_of: told.append((done, all_of))
    )
    assert found.tables == (("a", "b"), ("a", "c"), ("b", "c"))
    assert told[-1] == (16, 16)
    results = by_name(found)
    assert found.results[0].name == OURS
    assert results.keys() >= {"nothing named", "noisy tables", "independence", "PriView", "direct+", "clusters+"}
    assert ("Fourier+" in results, "residuals" in results) == (budget.pure, not budget.pure)
    assert results.pop("independence").l1 == pytest.approx((750 / 800, 750 / 800), abs=0.01)
    assert {name: each.cannot for name, each in results.items()} == dict.fromkeys(results)
    assert max(each.error for each in results.values()) < 0.02
    assert [path.name for path in rows.parent.iterdir()] == ["rows.csv"]


def test_generated_rows_and_named_tables() -> None:
    found = compare_methods(SCHEMA, PURE, rows=400, releases=2, workload=Workload([("a", "b", "c")]))
    assert found.tables == (("a", "b", "c"),)
    assert found.versions is None
    ours, drawn = found.ours, by_name(found)["noisy tables"]
    # Laplace noise of scale 1 on 12 cells, E|x| = 2a / (1 - a^2) with a = 1/e: 0.851 x 12 / 400 on average
    assert 0.2 * 0.0255 < drawn.error < 3 * 0.0255
    assert ours.error < 3 * 0.0255
    assert len(ours.l1) == len(ours.cpu) == 2


def test_many_tables_are_sampled_and_large_ones_left_out() -> None:
    wide = Schema([Attribute(f"w{i}", range(2)) for i in range(11)] + [Attribute("x", range(1_500))])
    found = _answered(wide, Workload.all_ways(wide, 2), np.random.default_rng(1))
    assert len(set(found)) == 40
    assert not any("x" in names for names in found)
    assert _answered(wide, Workload([("x", "w0")]), np.random.default_rng(1)) == (("x", "w0"),)


def test_peers_answer_in_a_python_of_their_own(
    rows: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in is off by half a row in each cell: (6 + 4 + 6) / 3 cells x 0.5 / 800."""
    monkeypatch.setenv("CROSSTALLY_PEERS_OPENDP", a_peer(tmp_path_factory.mktemp("peers")))
    monkeypatch.setattr("crosstally_lab.papers.side_by_side.versions", lambda _: "opendp 9.9")
    found = compare_methods(SCHEMA, GAUSSIAN, public=rows, releases=2, peer_seconds=60)
    aim = by_name(found)["AIM"]
    assert aim.l1 == pytest.approx((16 / 3 / 1600,) * 2)
    assert (aim.seconds, found.versions) == ((2.0, 0.5), "opendp 9.9")


@pytest.mark.parametrize(
    ("body", "reason"),
    [(None, "not installed"), ("raise ValueError('insufficient budget for this query')", "insufficient budget")],
)
def test_a_peer_that_cannot_is_told_with_its_reason(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str | None, reason: str
) -> None:
    monkeypatch.setattr("crosstally_lab.papers.side_by_side.versions", lambda _: "opendp 9.9")
    found_python = None if body is None else stand_in(tmp_path, body)
    monkeypatch.setattr("crosstally_lab.papers.side_by_side.peers_python", lambda: found_python)
    found = compare_methods(SCHEMA, GAUSSIAN, public=rows, releases=1, peer_seconds=60)
    for name in ("AIM", "MST", "Fixed"):
        assert reason in str(by_name(found)[name].cannot)


def test_a_fit_that_did_not_converge_does_not_count(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSTALLY_PEERS_OPENDP", a_peer(tmp_path, converged=False, misfit=12.0))
    monkeypatch.setattr("crosstally_lab.papers.side_by_side.versions", lambda _: "opendp 9.9")
    found = compare_methods(SCHEMA, GAUSSIAN, public=rows, releases=1, peer_seconds=60)
    assert by_name(found)["MST"].cannot == "its fit is 12 standard deviations off: it did not converge"


def test_no_rows_and_no_releases_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("a,b,c\n")
    with pytest.raises(CrosstallyError, match="a comparison needs rows, got none"):
        compare_methods(SCHEMA, PURE, public=empty, releases=1)
    with pytest.raises(CrosstallyError, match="releases must be at least 1, got 0"):
        compare_methods(SCHEMA, PURE, rows=10, releases=0)


def test_the_truth_is_counted_by_hand() -> None:
    rows = _Rows(None, SCHEMA, np.array([[0, 2, 1], [1, 0, 0], [0, 2, 0]]))
    assert rows.counts(("b", "a")).tolist() == [[0, 1], [0, 0], [2, 0]]
    assert rows.counts(()).tolist() == 3
