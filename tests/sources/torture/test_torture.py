"""No file is misread: each is read right, or refused with the reason and the option that mends it."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest
from torture_cases import CASES, WRONG, Case

from crosstally.errors import SourceError
from crosstally.schema import Schema
from crosstally.sources import Reading, count
from crosstally.sources.detection import detect_reading


def written(case: Case, folder: Path) -> Path:
    path = folder / f"people{case.ending}"
    path.write_bytes(case.content)
    return path


def counts(path: Path, case: Case, reading: Reading) -> dict[str, Any]:
    names = list(case.counts)
    tables = count(path, Schema.from_dict(case.schema), [(name,) for name in names], reading=reading)
    return {name: table.counts.tolist() for name, table in zip(names, tables, strict=True)}


def refusal(caught: pytest.ExceptionInfo[SourceError]) -> str:
    """What an error says, after a look at all that is printed with it: no text of a row."""
    shown = re.sub(r", line \d+,", "", "".join(traceback.format_exception(caught.value)))  # places in the code
    assert not any(text in shown for text in ("Köln", "Zürich", "Bern", "234", "740", "980", "Report"))
    assert caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_read_right_or_refused(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = written(case, tmp_path)
    if not case.refused:
        assert counts(path, case, Reading()) == case.counts
        return
    with pytest.raises(SourceError) as caught:
        counts(path, case, Reading())
    assert case.refused in refusal(caught)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.mended])
def test_the_options_mend_it(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert counts(written(case, tmp_path), case, Reading(**case.mended)) == case.counts


@pytest.mark.parametrize("name", CASES)
def test_what_is_detected_is_right_or_not_sure(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = written(case, tmp_path)
    if len(case.unsure) > 1 and not case.guessed:
        with pytest.raises(SourceError) as caught:
            detect_reading(path)
        assert case.unsure in refusal(caught)
        return
    found = detect_reading(path)
    assert found.guessed is case.guessed
    assert case.line in (str(found), "")
    if not case.unsure:
        assert counts(path, case, found.reading) == case.counts


@pytest.mark.parametrize("name", WRONG)
def test_what_is_said_and_wrong_is_refused(name: str, tmp_path: Path) -> None:
    which, options, reason = WRONG[name]
    with pytest.raises(SourceError) as caught:
        counts(written(CASES[which], tmp_path), CASES[which], Reading(**options))
    assert reason in refusal(caught)


def test_there_are_enough() -> None:
    assert len(CASES) >= 40
