"""Peers run elsewhere; here a stand-in takes their place, a small program that reads the task and writes tables."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crosstally.budget import Budget
from crosstally_lab.papers import peers
from crosstally_lab.papers.peers import PeerTask, draw, draw_several, peers_python, versions
from peer_stand_in import a_peer, stand_in

CODES = np.array([[0, 0], [1, 2], [1, 2], [1, 1]])
TASK = PeerTask(algorithm="AIM", budget=Budget(rho="1/8"), sizes=(2, 3), trained=((0, 1),), answers=((0,), (0, 1)))


def test_tables_and_notes_come_back(tmp_path: Path) -> None:
    drawn = draw(TASK, CODES, python=a_peer(tmp_path), seconds=60)
    assert [each.tolist() for each in drawn.tables] == [[1.5, 3.5], [[1.5, 0.5, 0.5], [0.5, 1.5, 2.5]]]
    assert (drawn.error, drawn.converged, drawn.cpu, drawn.compiling, drawn.measured) == (None, True, 2.0, 0.25, 3)


def test_one_process_makes_several_draws(tmp_path: Path) -> None:
    drawn = draw_several(TASK, CODES, python=a_peer(tmp_path, cpu=1.0), seconds=60, draws=2, fit="joint")
    assert [each.tables[0].tolist() for each in drawn] == [[1.5, 3.5], [2.5, 4.5]]
    assert [each.cpu for each in drawn] == [1.0, 1.0]
    failing = stand_in(tmp_path, "raise ValueError('queries must not be empty')")
    (failed,) = draw_several(TASK, CODES, python=failing, seconds=60, draws=2)
    assert failed.error == "ValueError: queries must not be empty"


def test_the_task_says_all_that_the_peer_needs() -> None:
    assert TASK.to_dict() == {
        "algorithm": "AIM",
        "currency": "rho",
        "amount": 0.125,
        "sizes": [2, 3],
        "trained": [[0, 1]],
        "answers": [[0], [0, 1]],
        "unit_rows": 1,
    }
    pure = PeerTask(algorithm="MST", budget=Budget(epsilon="0.5"), sizes=(2,), trained=(), answers=(), unit_rows=3)
    assert [pure.to_dict()[key] for key in ("currency", "amount", "unit_rows")] == ["epsilon", 0.5, 3]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import time; time.sleep(60)", "not done after 0 seconds"),
        ("raise ValueError('queries must not be empty')", "ValueError: queries must not be empty"),
        ("raise ValueError('cannot open /home/me/file')", "it failed"),
    ],
)
def test_what_goes_wrong_is_told_without_paths(tmp_path: Path, body: str, reason: str) -> None:
    drawn = draw(TASK, CODES, python=stand_in(tmp_path, body), seconds=0.4 if "sleep" in body else 60)
    assert (drawn.error, drawn.converged, drawn.tables) == (reason, False, ())


def test_a_python_that_is_not_there_is_an_answer_too(tmp_path: Path) -> None:
    drawn = draw(TASK, CODES, python=str(tmp_path / "python"), seconds=60)
    assert drawn.error is not None
    assert drawn.error.endswith("cannot be run")


def test_the_peers_python_is_the_one_named_or_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSTALLY_PEERS_OPENDP", "/somewhere/python")
    assert peers_python() == "/somewhere/python"
    monkeypatch.delenv("CROSSTALLY_PEERS_OPENDP")
    monkeypatch.setattr(peers, "find_spec", lambda name: name != "jax")
    assert peers_python() is None
    monkeypatch.setattr(peers, "find_spec", lambda name: name)
    assert peers_python() == sys.executable


def test_versions_are_those_of_the_other_python(tmp_path: Path) -> None:
    assert versions(stand_in(tmp_path, "print('opendp 9.9')")) == "opendp 9.9"


# The program that runs elsewhere: it needs no peer to be loaded


def elsewhere() -> Any:
    spec = importlib.util.spec_from_file_location("opendp_tables", peers._SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_fit_as_far_off_as_the_truth_has_no_misfit() -> None:
    """Four numbers, each two standard deviations off: (16 - 4) / sqrt(8)."""
    measured = SimpleNamespace(
        clique=("a",), noisy_measurement=np.array([3.0, 5.0, 7.0, 9.0]), stddev=2.0, query=lambda table: table + 4.0
    )
    fit = SimpleNamespace(project=lambda _: np.array([3.0, 5.0, 7.0, 9.0]))
    table = SimpleNamespace(marginals=SimpleNamespace(flatten=lambda: [measured]), model=fit)
    assert elsewhere()._misfit(table) == pytest.approx(12 / 8**0.5)


@pytest.mark.parametrize("selections", [3, 7, 8, 16])
def test_a_budget_is_raised_by_next_to_nothing_where_its_parts_cannot_be_paid(selections: int) -> None:
    amount = 0.014973057672250434
    assert amount <= elsewhere()._affordable(amount, selections) < amount * (1 + 1e-9)


def test_nothing_of_crosstally_is_imported_there() -> None:
    text = peers._SCRIPT.read_text(encoding="utf-8")
    assert "import crosstally" not in text
    assert "from crosstally" not in text
    assert not peers._SCRIPT.with_name("__init__.py").exists()  # so no module of the package can import it
    assert json.dumps(TASK.to_dict())
