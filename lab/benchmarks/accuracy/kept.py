"""Results that took long are kept, each under a digest of all that it rests on: the same work is never done twice.

They lie in ``.bench`` in the folder where the benchmark runs, or where CROSSTALLY_BENCH_KEPT says. What rests on
crosstally's own code is keyed by a digest of that code, so a change renews it; comments are not code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import crosstally
import crosstally_lab
from benchmarks.accuracy.real_tables import real_table

_Job = TypeVar("_Job")

YARDSTICKS = (
    "coverage.py",
    "errors.py",
    "figures.py",
    "intervals.py",
    "large_tables.py",
    "local_intervals.py",
    "notebook_intervals.py",
    "real_tables.py",
    "references.py",
    "settings.py",
)

DOORS = (
    "audit",
    "cli",
    "commands",
    "exports",
    "local",
    "notebook",
    "pages",
    "papers",
    "plan_page",
    "review",
    "sql",
    "synthesis",
    "web",
)
"""Packages that no central release and none of its answers goes through."""


def folder(part: str) -> Path:
    """Where results of one kind lie."""
    return Path(os.environ.get("CROSSTALLY_BENCH_KEPT", ".bench")) / part


def kept(part: str, key: Mapping[str, Any], work: Callable[[], Any] | None) -> Any:
    """What the work gives, as JSON; from the file of the same key where there is one. Without work None if not."""
    path = folder(part) / f"{digest_of(key)}.json"
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


def kept_draws(
    line: str, job: _Job, work: Callable[[_Job], Any], *, table: str | None = None, doors: Sequence[str] = ()
) -> Any:
    """What the work gives for a job of a line, which rests on the code and, where it has one, on a real table."""
    key = {"line": line, "job": repr(job), "code": code_digest(*doors)}
    if table is not None:
        key["table"] = table_digest(table)
    return kept("draws", key, lambda: work(job))


def digest_of(key: Mapping[str, Any]) -> str:
    """The name under which a result is kept."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]


@lru_cache
def code_digest(*doors: str) -> str:
    """A digest of the code that a central release and its answers rest on, and of what is asked and compared here.

    Doors are packages that a result rests on beside that.
    """
    roots, here = [Path(path) for path in (*crosstally.__path__, *crosstally_lab.__path__)], Path(__file__).parent
    left_out = {root / name for root in roots for name in DOORS if name not in doors}
    sources = [path for root in roots for path in sorted(root.rglob("*.py")) if left_out.isdisjoint(path.parents)]
    found = hashlib.sha256()
    for path in (*sources, *(here / name for name in YARDSTICKS)):
        found.update(path.name.encode() + b"\0" + ast.unparse(ast.parse(path.read_bytes())).encode())
    return found.hexdigest()


@lru_cache
def table_digest(name: str) -> str:
    """A digest of a real table's codes and sizes."""
    table = real_table(name)
    return hashlib.sha256(repr(table.schema.shape).encode() + table.codes.tobytes()).hexdigest()
