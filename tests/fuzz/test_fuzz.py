"""A short run of the fuzzer, and files that were aimed at what is expensive; ``make fuzz`` is the long run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from fuzz.aimed import AIMED
from fuzz.limits import Cost, cost_of, most
from fuzz.run import Outcome, open_forged, run
from fuzz.structures import STRUCTURES
from fuzz.targets import TARGETS

_NUMBERS = {"ledger": 50, **dict.fromkeys(STRUCTURES, 6)}  # each waits for the disk, or for a process
_SLACK = 2.5  # tests run beside others, where CPU seconds are longer; the long run has none


@pytest.mark.parametrize("name", TARGETS)
def test_forged_files_are_refused_in_a_line_or_opened_within_the_limits(name: str, tmp_path: Path) -> None:
    number = _NUMBERS.get(name, 150)
    outcome = run(name, range(number), tmp_path, slack=_SLACK)
    assert outcome.wrong == []
    assert outcome.opened + outcome.refused == number
    assert outcome.opened > 0, "forged files that nobody opens do not come far"


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in AIMED.items() for case in cases])
def test_files_that_ask_for_more_than_they_hold(name: str, case: str, tmp_path: Path) -> None:
    path = tmp_path / TARGETS[name][0]
    AIMED[name][case](path)
    assert open_forged(name, path, Outcome(), slack=_SLACK) == ""


def test_the_fuzzer_would_notice() -> None:
    """192 MiB stand three times above what an empty file may cost (64), and far below what 16 MiB may (384).

    A closer call would fail by chance: Linux adds memory up processor by processor and reads the sum without
    waiting for all of them (tens of MiB on a large host), and libraries give memory back in between.
    """

    def large() -> None:
        np.ones(192 * 2**20, np.uint8)

    assert cost_of(large).exceeds(most(0))
    assert not cost_of(large).exceeds(most(16 * 2**20))
    assert Cost(0.7, 0).exceeds(most(1_000_000))
    assert not Cost(0.7, 0).exceeds(most(3_000_000))


def test_a_bare_error_and_a_canary_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fuzz import targets

    def bare(_: Path) -> None:
        raise KeyError("reports")

    path = tmp_path / "s.json"
    path.write_text("{}")
    monkeypatch.setitem(TARGETS, "schema", ("s.json", targets.Target(TARGETS["schema"][1].forge, bare)))
    assert "KeyError" in open_forged("schema", path, Outcome())

    def telling(_: Path) -> None:
        raise CrosstallyError(f"got {targets.CANARY}")

    monkeypatch.setitem(TARGETS, "schema", ("s.json", targets.Target(TARGETS["schema"][1].forge, telling)))
    assert open_forged("schema", path, Outcome()) == "the canary is seen"
