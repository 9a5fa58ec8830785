"""Draws of peers: what is kept, for which order, and that nothing is drawn twice. A stand-in takes their place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from benchmarks.accuracy import peers, real_tables
from benchmarks.accuracy.peers import PeerJob, draw_missing, peer_draws
from benchmarks.accuracy.real_tables import RealTable
from benchmarks.accuracy.settings import Setting
from peer_stand_in import a_peer

SETTING = Setting("four rows", "1", "1e-9")


def four_rows() -> RealTable:
    codes = np.array([[0, 0, 1], [1, 2, 0], [1, 2, 1], [1, 1, 1]], np.uint8)
    schema = ct.Schema([ct.Attribute(name, list("abc"[:size])) for name, size in (("x", 2), ("y", 3), ("z", 2))])
    return RealTable("four rows", schema, rows=pa.table({}), codes=codes)


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_tables, "TABLES", {"four rows": four_rows})
    monkeypatch.setattr(peers, "DRAWN", tmp_path / "draws.jsonl")
    monkeypatch.setattr(peers, "version", lambda: "opendp 9.9")
    python = a_peer(tmp_path)
    monkeypatch.setattr(peers, "peers_python", lambda: python)


def test_a_draw_of_aim_is_kept_for_the_tables_it_was_trained_on() -> None:
    """In the first draw each of 6, 4 and 6 cells is half too high, in the second one and a half; rows are four."""
    job = PeerJob("AIM", SETTING, 2, draws=2)
    assert [each["l1"] for _, each in draw_missing([job], 1.0)] == pytest.approx([2 / 3, 2.0])
    assert [each["l1"] for each in peer_draws(job)] == pytest.approx([2 / 3, 2.0])
    assert peer_draws(PeerJob("AIM", SETTING, 3, draws=2)) == []
    assert list(draw_missing([job], 1.0)) == []


def test_a_draw_of_mst_is_kept_for_pairs_and_triples() -> None:
    """The triple has 12 cells."""
    pairs, triples = (PeerJob("MST", SETTING, order, draws=1) for order in (2, 3))
    ((job, drawn),) = draw_missing([triples, pairs], 1.0)
    assert (job, drawn["l1"], drawn["rms"]) == (triples, 1.5, 0.5)
    assert peer_draws(triples) == [drawn]
    assert [each["l1"] for each in peer_draws(pairs)] == pytest.approx([2 / 3])


def test_what_fails_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "peers_python", lambda: str(tmp_path / "absent"))
    job = PeerJob("AIM", SETTING, 2, draws=3)
    assert [each["error"][-13:] for _, each in draw_missing([job], 1.0)] == ["cannot be run"] * 3
    assert [json.loads(line)["draw"] for line in peers.DRAWN.read_text().splitlines()] == [0, 1, 2]
    assert list(draw_missing([job], 1.0)) == []


def test_nothing_is_drawn_when_the_time_is_over() -> None:
    assert list(draw_missing([PeerJob("AIM", SETTING, 2, draws=1)], 0.0)) == []
