"""Which reading a spend was counted by: noted beside the ledger, for the steward alone.

A ledger may be shown to others, and a digest of a short reading can be guessed: so it is in none. The file has a line
for each spend and is its owner's alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from crosstally.errors import SourceError
from crosstally.platform_files import add_private_line
from crosstally.schema import Schema
from crosstally.sources.reading_options import Reading
from crosstally.sources.row_cells import RowEncoding

__all__ = ["note_digest", "reading_digest"]


def reading_digest(schema: Schema, given: Reading) -> str | None:
    """The digest of how rows are read, None where nothing is said of it.

    What was given beside the schema is part of the reading, as if it stood there.
    """
    encoding = RowEncoding.of(schema, given)
    rules = encoding.rules
    if given.to_dict():
        rules = replace(rules, file=encoding.reading.to_dict())
    return rules.digest if rules.to_dict() else None


def note_digest(digest: str | None, ledger: Path | None, key: str) -> None:
    """Add a line with the key of a spend and the digest of its reading; nothing without a reading or a file."""
    if ledger is None or digest is None:
        return
    path = ledger.with_name(f"{ledger.name}.readings")
    line = json.dumps({"key": key, "reading": digest}) + "\n"
    try:
        add_private_line(path, line)
    except OSError as error:
        raise SourceError(f"cannot note the reading in {str(path)!r}: {error.strerror}; nothing was spent") from None
