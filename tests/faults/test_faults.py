"""A few faults of each kind; ``make faults`` has 200 of each, at random points."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crosstally.privacy import ledger as ledger_module
from crosstally.privacy.ledger import Ledger
from faults.runs import COMMANDS, FAULTS, Place, run
from faults.texts import REFUSALS, refused
from faults.torn import torn
from ledgers import ledger_in, spend

_FEW = {"kill": 3, "interrupt": 3, "full disk": 4, "closed folder": 3, "clock": 2}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_paid_is_delivered_or_can_be_had_again(fault: str, command: str, tmp_path: Path) -> None:
    ended = run(fault, command, _FEW[fault], tmp_path)
    assert sum(ended.values()) == _FEW[fault]
    assert ended.keys() <= {"before", "lost", "kept", "done", "refused"}


def test_a_torn_ledger_shows_what_was_acknowledged_or_is_refused(tmp_path: Path) -> None:
    found = torn(30, tmp_path)
    assert found["whole"] > 0
    assert found["refused"] > 0


def test_a_text_that_is_refused_ends_its_process(tmp_path: Path) -> None:
    """Plain and packed in four ways, once each, while Arrow's threads still read ahead."""
    ended = refused(tmp_path, megabytes=5, times=1)
    assert len(ended) == 5 * len(REFUSALS) - 1  # half a plain text is a text


def test_a_clock_that_goes_backwards_changes_no_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([datetime(2030, 1, 1, tzinfo=UTC) - timedelta(days=400 * i) for i in range(10)])

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            assert tz is UTC
            return next(times)

    made = ledger_in(tmp_path)
    monkeypatch.setattr(ledger_module, "datetime", Clock)
    for key in "abc":
        spend(made, key)
    opened = Ledger.open(tmp_path / "people.ledger")
    opened.verify()
    assert [entry.key for entry in opened.entries()] == ["a", "b", "c"]
    assert [entry.when.year for entry in opened.entries()] == [2030, 2028, 2027]


def test_a_folder_that_cannot_be_written_to_spends_nothing(tmp_path: Path) -> None:
    """In a process without the rights of root, which may write anywhere."""
    place = Place.make(tmp_path / "open" / "place")
    closed = tmp_path / "open" / "closed"
    closed.mkdir(mode=0o755)
    for path in (tmp_path.parent, tmp_path, tmp_path / "open", place.folder):
        path.chmod(0o777)
    for path in place.folder.iterdir():
        path.chmod(0o666)
    closed.chmod(0o555)
    child = os.fork()
    if not child:
        code = 99
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            arguments = [str(each) for each in ("release", place.folder / "people.csv", "--epsilon", "1")]
            arguments += ["--schema", str(place.folder / "people.schema.json"), "--tables", "sex"]
            arguments += ["--ledger", str(place.folder / "people.ledger"), "-o", str(closed / "r.parquet")]
            from crosstally.cli import main

            code = main(arguments)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert place.ledger.entries() == ()
    assert list(closed.iterdir()) == []
