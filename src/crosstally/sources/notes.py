"""Which reading a spend was counted by: noted beside the ledger, for the steward alone.

A ledger may be shown to others, and a digest of a short reading can be guessed: so it is in none. The file has a line
for each spend and is its owner's alone.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from crosstally.errors import SourceError
from crosstally.schema import Schema
from crosstally.sources.columns import Columns
from crosstally.sources.reading import Reading

__all__ = ["note_reading"]


def note_reading(schema: Schema, given: Reading, ledger: Path | None, key: str) -> None:
    """Add a line with the key of a spend and the digest of its reading; nothing without a reading or a file.

    What was given beside the schema is part of the reading, as if it stood there.
    """
    columns = Columns.of(schema)
    reading = columns.reading
    if given.to_dict():
        reading = replace(reading, file=columns.written(given).to_dict())
    if ledger is None or not reading.to_dict():
        return
    path = ledger.with_name(f"{ledger.name}.readings")
    line = json.dumps({"key": key, "reading": reading.digest}) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "a", encoding="utf-8") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(line)
    except OSError as error:
        raise SourceError(f"cannot note the reading in {str(path)!r}: {error.strerror}; nothing was spent") from None
