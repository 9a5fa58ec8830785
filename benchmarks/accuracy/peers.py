"""OpenDP's AIM and MST on the same tables, in a Python of their own; kept by data, budget, tables and version.

``make bench`` installs them (``benchmarks/peers-opendp.txt``) and names their Python in CROSSTALLY_PEERS_OPENDP. What
was drawn before with the same version is read from ``peer_draws.jsonl`` beside this file, which is committed: a draw
takes minutes and rests on nothing of ours. For a bounded time what is missing is drawn; ``make bench-peers`` draws all
of it again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy.errors import Truth
from benchmarks.accuracy.kept import digest_of, table_digest
from benchmarks.accuracy.settings import Setting, truth_of
from crosstally.papers.peers import PeerTask, draw, peers_python, versions

__all__ = ["PeerJob", "draw_missing", "peer_draws", "peers_python", "version"]

LIMIT = 3_600.0
"""Seconds after which a draw of a peer is given up."""

DRAWN = Path(__file__).with_name("peer_draws.jsonl")
"""A line for each draw; where several have the same key the last one counts."""


@dataclass(frozen=True, slots=True)
class PeerJob:
    """An algorithm trained on all tables of one order and asked for the same tables as crosstally."""

    algorithm: str
    setting: Setting
    order: int
    draws: int

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.order}-way, {self.setting}"


@lru_cache
def version() -> str:
    """The versions that a result rests on."""
    return versions(peers_python())


def peer_draws(job: PeerJob) -> list[dict[str, Any]]:
    """For each draw that is kept L1, RMS, seconds, and whether the fit converged; or an ``error``."""
    return [each for number in range(job.draws) if (each := _draw(job, number, anew=False)) is not None]


def draw_missing(jobs: Sequence[PeerJob], minutes: float) -> Iterator[tuple[PeerJob, dict[str, Any]]]:
    """Draw what is not kept: the first draw of every job, then the second, until the time is over."""
    end = time.monotonic() + 60 * minutes
    for number in range(max((job.draws for job in jobs), default=0)):
        for job in jobs:
            if time.monotonic() < end and number < job.draws and _draw(job, number, anew=False) is None:
                yield job, _draw(job, number, anew=True)


def _draw(job: PeerJob, number: int, *, anew: bool) -> Any:
    """One draw, each kept by itself, so that a run that is stopped goes on where it was; None if it is not there."""
    truth = truth_of(job.setting.table, (job.order,))
    names, positions = truth.table.schema.names, truth.table.schema.positions
    task = PeerTask(
        algorithm=job.algorithm,
        budget=job.setting.budget,
        sizes=truth.table.schema.shape,
        trained=tuple(itertools.combinations(range(len(names)), job.order)),
        answers=tuple(tuple(positions[name] for name in table) for table in truth.asked[job.order]),
    )
    key = digest_of({**task.to_dict(), "table": table_digest(job.setting.table), "version": version(), "draw": number})
    if not anew:
        return _known().get(key)
    result = _drawn(task, truth)
    with DRAWN.open("a", encoding="utf-8") as file:
        line = {"job": str(job), "draw": number, "version": version(), "key": key, "result": result}
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return result


def _known() -> dict[str, Any]:
    """All draws that were made, by key."""
    if not DRAWN.is_file():
        return {}
    lines = map(json.loads, DRAWN.read_text(encoding="utf-8").splitlines())
    return {line["key"]: line["result"] for line in lines}


def _drawn(task: PeerTask, truth: Truth) -> dict[str, Any]:
    """One draw by the peer's Python: its errors, its time, and whether the fit converged; or an ``error``."""
    drawn = draw(task, truth.table.codes, python=peers_python(), seconds=LIMIT)
    if drawn.error is not None:
        return {"error": drawn.error, "converged": False}
    (order,) = truth.asked
    note = {name: getattr(drawn, name) for name in ("cpu", "wall", "compiling", "misfit", "measured", "converged")}
    return {**note, "l1": truth.l1(order, drawn.tables), "rms": truth.rms(order, drawn.tables)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.peers", description="draw what is not kept")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after the draw in which they are over")
    parser.add_argument("--renew", action="store_true", help="forget what is kept")
    parser.add_argument("--only", default="", metavar="WORDS", help="jobs whose name begins so: 'AIM, 2-way, acs-8'")
    options = parser.parse_args()
    from benchmarks.accuracy.named import peer_jobs

    if options.renew:
        DRAWN.unlink(missing_ok=True)
    jobs = [job for job in peer_jobs() if str(job).startswith(options.only)]
    for job, drawn in draw_missing(jobs, options.minutes):
        print(f"{job}: {drawn}", flush=True)


if __name__ == "__main__":
    main()
