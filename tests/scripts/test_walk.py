"""The script that walks: it runs, and it sees a call that goes upwards."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import crosstally as ct
from crosstally.generate.people import people

WALK = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "walk.py"))


def test_no_call_goes_upwards(capsys) -> None:
    assert WALK["main"](["--files"]) == 0
    printed = capsys.readouterr().out
    numbers = [int(number) for number in re.findall(r": (\d+) files", printed)]
    assert len(numbers) == 9
    assert min(numbers) >= 15
    assert len(re.findall(r"^    [a-z_/]+\.py$", printed, re.MULTILINE)) == sum(numbers)
    assert "no call goes upwards" in printed
    for name in WALK["HANDED_DOWN"]:
        assert f"-> {name} (" in printed, f"nothing calls {name} from below any more: drop its explanation"


def test_a_call_that_goes_upwards_is_told(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval asks its release for replicates; without its explanation that is refused."""
    rows, schema = people(200, np.random.default_rng(1), attributes=["sex", "home"])
    release = ct.release(rows, schema, epsilon=1.0, strategy="flat")
    marginal, _ = release.marginal("sex"), release.marginal("home").interval()
    with WALK["traced"]() as trace:
        assert marginal.interval()[1].min() > 0
    found = WALK["upward"](trace, WALK["layers"]())
    assert {(call.caller, call.name) for call in found} == {
        ("answers/intervals.py", "releases.release:Release._bootstrap")
    }
    assert WALK["_tell"](found) == 0
    monkeypatch.setitem(WALK["_tell"].__globals__, "HANDED_DOWN", {})
    assert WALK["_tell"](found) == 1
    assert "UPWARDS: answers/intervals.py -> releases.release:Release._bootstrap\n" in capsys.readouterr().out


def test_layers_are_those_of_the_contract() -> None:
    """Rows and noise lie side by side and are kept apart; charts and text tables may know each other."""
    placed = WALK["layers"]()
    assert placed["cli"].height < placed["pipeline"].height < placed["privacy"].height < placed["errors"].height
    assert placed["sources"] == placed["privacy"]
    assert placed["privacy"].apart
    assert not placed["charts"].apart
    assert WALK["child_of"]("releases/file/reader.py") == "releases"
    assert WALK["child_of"]("schema.py") == "schema"
