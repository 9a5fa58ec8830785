"""Plans, costs, measurements, estimates, answers and their errors are those that were written down."""

from __future__ import annotations

import json
import math

import pytest

from frozen.cases import CASES
from frozen.compare import FILE, differences

KEPT = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_case_is_written_down() -> None:
    assert list(KEPT) == list(CASES)


@pytest.mark.parametrize("name", list(KEPT))
def test_nothing_moved(name: str) -> None:
    found = json.loads(json.dumps(CASES[name]()))
    assert differences(KEPT[name], found) == []


def test_a_difference_is_found() -> None:
    kept = {"values": [1.0, 2.0], "drawn low": [1.0], "name": "a", "n": 3, "nothing": math.nan}
    assert differences(kept, {**kept, "values": [1.0, 2.0 + 1e-13]}) == []
    assert differences(kept, {**kept, "values": [1.0, 2.0 + 1e-11]}) == ["/values[1]: 2.0 became 2.00000000001"]
    assert differences(kept, {**kept, "drawn low": [1.0 + 1e-10]}) == []
    assert len(differences(kept, {**kept, "drawn low": [1.0 + 1e-8], "name": "b", "n": 4, "nothing": 0.0})) == 4
    assert differences(kept, {**kept, "more": 1}) == ["/more: None became 1"]
