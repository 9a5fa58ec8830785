"""``python -m fuzz --count 10000 [NAME ...]``: the long run, with counts printed. A number in a line repeats a file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.limits import Cost
from fuzz.run import Outcome, run
from fuzz.targets import TARGETS

_AT_ONCE = 500  # files of one process
_PATIENCE = 1_800  # seconds for them


def _in_a_process(name: str, first: int, last: int) -> Outcome:
    """A process of its own: a library that crashes on a forged file is found, and takes nobody with it."""
    command = [sys.executable, "-m", "fuzz", "--first", str(first), "--count", str(last - first), "--piece", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return Outcome(wrong=[f"{name} {first} to {last}: not done after {_PATIENCE:,} s"])
    if done.returncode:
        return Outcome(wrong=[f"{name} {first} to {last}: ended with {done.returncode}: {done.stderr[-1_000:]}"])
    fields: dict[str, Any] = json.loads(done.stdout)
    return Outcome(**{**fields, "slowest": Cost(**fields["slowest"])})


def _print_piece(name: str, numbers: range) -> None:
    with tempfile.TemporaryDirectory(prefix="crosstally-fuzz-") as folder:
        print(json.dumps(asdict(run(name, numbers, Path(folder)))))


def _print_line(name: str, count: int, pieces: list[Outcome], seconds: float) -> int:
    lines = [line for piece in pieces for line in piece.wrong]
    opened, refused = sum(p.opened for p in pieces), sum(p.refused for p in pieces)
    slowest, memory = max(p.slowest.seconds for p in pieces), max(p.slowest.memory for p in pieces) / 2**20
    print(
        f"{name:16} {count:7,} forged: {opened:6,} opened, {refused:6,} refused, {len(lines)} wrong; "
        f"most {slowest:.2f} s, {memory:.0f} MB ({seconds:.0f} s)",
        flush=True,
    )
    for line in lines[:20]:
        print("   ", line, flush=True)
    return len(lines)


def main() -> int:
    """Run, print a line for each target, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--piece", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    end, wrong = given.first + given.count, 0
    for name in given.names or TARGETS:
        if given.piece:
            _print_piece(name, range(given.first, end))
            continue
        started = time.monotonic()
        last = given.first + max(1, round(given.count * TARGETS[name][1].share))
        firsts = range(given.first, last, _AT_ONCE)
        with ThreadPoolExecutor(given.processes) as pool:
            lasts = [min(i + _AT_ONCE, last) for i in firsts]
            pieces = list(pool.map(partial(_in_a_process, name), firsts, lasts))
        wrong += _print_line(name, last - given.first, pieces, time.monotonic() - started)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
