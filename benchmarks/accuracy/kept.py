"""Results that took long are kept, each under a digest of all that it rests on: the same work is never done twice.

They lie in ``.bench`` in the folder where the benchmark runs, or where CROSSTALLY_BENCH_KEPT says; ``make bench-peers``
draws the peers again. What rests on crosstally's own code is keyed by a digest of that code, so any change renews it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import crosstally
from benchmarks.accuracy.real_tables import real_table

YARDSTICKS = (
    "coverage.py",
    "errors.py",
    "intervals.py",
    "local_intervals.py",
    "notebook_intervals.py",
    "real_tables.py",
    "references.py",
    "settings.py",
)

__all__ = ["code_digest", "folder", "forget", "kept", "table_digest"]


def folder(part: str) -> Path:
    """Where results of one kind lie."""
    return Path(os.environ.get("CROSSTALLY_BENCH_KEPT", ".bench")) / part


def kept(part: str, key: Mapping[str, Any], work: Callable[[], Any] | None) -> Any:
    """What the work gives, as JSON; from the file of the same key where there is one. Without work None if not."""
    text = json.dumps(key, sort_keys=True)
    path = folder(part) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    if path.is_file():
        return json.loads(path.read_text())["result"]
    if work is None:
        return None
    result = work()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({"key": key, "result": result}, indent=1))
    partial.replace(path)
    return result


def forget(part: str) -> None:
    """Delete all results of one kind."""
    for path in folder(part).glob("*.json"):
        path.unlink()


@lru_cache
def code_digest() -> str:
    """A digest of the library's source, and of the files here that say what is asked and what it is compared with."""
    root, here = Path(crosstally.__file__).parent, Path(__file__).parent
    found = hashlib.sha256()
    for path in (*sorted(root.rglob("*.py")), *(here / name for name in YARDSTICKS)):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


@lru_cache
def table_digest(name: str) -> str:
    """A digest of a real table's codes and sizes."""
    table = real_table(name)
    return hashlib.sha256(repr(table.schema.shape).encode() + table.codes.tobytes()).hexdigest()
