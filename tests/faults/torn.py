"""A ledger whose file or log is cut off at any length: it shows what was acknowledged, or it is refused."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from crosstally.errors import LedgerError
from crosstally.privacy.ledger import Ledger
from ledgers import TENTH, ledger_in

__all__ = ["torn"]

_ACKNOWLEDGED = 5


def torn(count: int, folder: Path, *, seed: int = 0) -> Counter[str]:
    """Cut the log, or the file, at this many random lengths; raises where something acknowledged is missing.

    One more charge than was acknowledged is in the log, as if the process was killed before the log was written back.
    """
    ledger = ledger_in(folder)
    path, log = folder / "people.ledger", folder / "people.ledger-wal"
    for i in range(_ACKNOWLEDGED):
        ledger.charge(TENTH, f"k{i}")
    reader = sqlite3.connect(path)  # keeps the log in its place
    reader.execute("SELECT * FROM events").fetchall()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("crosstally.privacy.ledger_file.Store._write_back", lambda *_: None)
        ledger.charge(TENTH, "unacknowledged")
    file, frames = path.read_bytes(), log.read_bytes()
    reader.close()
    random, found, copies = Random(seed), Counter[str](), folder / "copies"
    for i in range(count):
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir()
        of_log = i % 2 == 0
        cut = random.randrange(len(frames) if of_log else len(file))
        (copies / "copy").write_bytes(file if of_log else file[:cut])
        (copies / "copy-wal").write_bytes(frames[:cut] if of_log else b"")
        try:
            spent = Ledger.open(copies / "copy").spent
        except LedgerError:
            found["refused"] += 1
            continue
        assert spent in (Fraction(_ACKNOWLEDGED, 10), Fraction(_ACKNOWLEDGED + 1, 10)), (of_log, cut, spent)
        found["whole"] += 1
    return found
