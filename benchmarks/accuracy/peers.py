"""OpenDP's AIM and MST on the same tables, in a Python of their own; kept by data, budget, tables and version.

``make bench`` installs them (``benchmarks/peers-opendp.txt``) and names their Python in CROSSTALLY_PEERS_OPENDP. What
was drawn before with the same version is read from where results are kept, and for a bounded time what is missing is
drawn; ``make bench-peers`` draws all of it again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.errors import Truth
from benchmarks.accuracy.kept import forget, kept, table_digest
from benchmarks.accuracy.settings import Setting, truth_of

__all__ = ["PeerJob", "draw_missing", "peer_draws", "peers_python", "version"]

FIT = Path(__file__).with_name("peer_fit.py")
LIMIT = 3_600.0
"""Seconds after which a draw of a peer is given up."""


@dataclass(frozen=True, slots=True)
class PeerJob:
    """An algorithm trained on all tables of one order and asked for the same tables as crosstally."""

    algorithm: str
    setting: Setting
    order: int
    draws: int

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.order}-way, {self.setting}"


def peers_python() -> str | None:
    """The peers' Python; None when they are not installed."""
    return os.environ.get("CROSSTALLY_PEERS_OPENDP") or None


@lru_cache
def version() -> str:
    """The versions that a result rests on."""
    code = "from importlib.metadata import version as v; print(*(f'{n} {v(n)}' for n in ('opendp', 'mbi', 'jax')))"
    return subprocess.run([peers_python(), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def peer_draws(job: PeerJob) -> list[dict[str, Any]]:
    """For each draw that is kept L1, RMS, seconds, and whether the fit converged; or an ``error``."""
    return [each for draw in range(job.draws) if (each := _draw(job, draw, anew=False)) is not None]


def draw_missing(jobs: Sequence[PeerJob], minutes: float) -> Iterator[tuple[PeerJob, dict[str, Any]]]:
    """Draw what is not kept: the first draw of every job, then the second, until the time is over."""
    end = time.monotonic() + 60 * minutes
    for draw in range(max((job.draws for job in jobs), default=0)):
        for job in jobs:
            if time.monotonic() < end and draw < job.draws and _draw(job, draw, anew=False) is None:
                yield job, _draw(job, draw, anew=True)


def _draw(job: PeerJob, draw: int, *, anew: bool) -> Any:
    """One draw, each kept by itself, so that a run that is stopped goes on where it was; None if it is not there."""
    truth = truth_of(job.setting.table, (job.order,))
    task = {
        "algorithm": job.algorithm,
        "rho": float(job.setting.budget.amount),
        "sizes": list(truth.table.schema.shape),
        "trained": [list(t) for t in itertools.combinations(range(len(truth.table.schema.names)), job.order)],
        "answers": [[truth.table.schema.positions[name] for name in names] for names in truth.asked[job.order]],
    }
    key = {**task, "table": table_digest(job.setting.table), "version": version(), "draw": draw}
    return kept("peers", key, (lambda: _drawn(task, truth)) if anew else None)


def _drawn(task: dict[str, Any], truth: Truth) -> dict[str, Any]:
    """One draw by the peer's Python."""
    with tempfile.TemporaryDirectory() as folder:
        codes, given, answered = (Path(folder) / name for name in ("codes.npy", "task.json", "answers.npz"))
        np.save(codes, truth.table.codes)
        given.write_text(json.dumps({**task, "codes": str(codes)}))
        command = [peers_python(), str(FIT), str(given), str(answered)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {LIMIT:,.0f} seconds", "converged": False}
        if done.returncode:
            return {"error": _reason(done.stderr), "converged": False}
        with np.load(answered) as arrays:
            note = json.loads(str(arrays["note"]))
            answers = [arrays[str(place)].astype(float) for place in range(len(task["answers"]))]
    (order,) = truth.asked
    return {**note, "l1": truth.l1(order, answers), "rms": truth.rms(order, answers)}


def _reason(words: str) -> str:
    """The last line of a traceback that says something, without paths."""
    lines = [line.strip() for line in words.splitlines() if re.search("[a-z]{4} [a-z]{2}", line) and "/" not in line]
    return lines[-1][:200] if lines else "it failed"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.peers", description="draw what is not kept")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after the draw in which they are over")
    parser.add_argument("--renew", action="store_true", help="forget what is kept")
    options = parser.parse_args()
    from benchmarks.accuracy.named import peer_jobs

    if options.renew:
        forget("peers")
    for job, drawn in draw_missing(peer_jobs(), options.minutes):
        print(f"{job}: {drawn}", flush=True)


if __name__ == "__main__":
    main()
