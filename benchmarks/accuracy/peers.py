"""OpenDP's AIM and MST on the same tables, in a Python of their own; kept by data, budget, tables and version.

``make bench`` installs them (``benchmarks/peers-opendp.txt``) and names their Python in CROSSTALLY_PEERS_OPENDP. What
was drawn before with the same version is read from where results are kept; ``make bench-peers`` draws all of it again.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.errors import Truth
from benchmarks.accuracy.kept import forget, kept, table_digest
from benchmarks.accuracy.settings import Setting, truth_of

__all__ = ["PeerJob", "peer_draws", "peers_python", "version"]

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
    """For each draw L1, RMS, seconds, and whether the fit converged; an ``error`` where the peer gave up."""
    truth = truth_of(job.setting.table, (job.order,))
    task = {
        "algorithm": job.algorithm,
        "rho": float(job.setting.budget.amount),
        "sizes": list(truth.table.schema.shape),
        "trained": [list(t) for t in itertools.combinations(range(len(truth.table.schema.names)), job.order)],
        "answers": [[truth.table.schema.positions[name] for name in names] for names in truth.asked[job.order]],
    }
    digest = table_digest(job.setting.table)
    # one file for each draw: a run that is stopped goes on where it was
    return [
        kept("peers", {**task, "table": digest, "version": version(), "draw": draw}, lambda: _drawn(task, truth))
        for draw in range(job.draws)
    ]


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


def renew() -> None:
    """Draw all of it again, one after the other."""
    from benchmarks.accuracy.named import peer_jobs

    forget("peers")
    for job in peer_jobs():
        for each in peer_draws(job):
            print(f"{job}: {each}", flush=True)


if __name__ == "__main__":
    renew()
