"""OpenDP's AIM and MST on the same tables, in a Python of their own; kept by data, budget, tables and version.

``make bench`` installs them (``../peers-opendp.txt``) and names their Python in CROSSTALLY_PEERS_OPENDP. What
was drawn before with the same version is read from ``peer_draws.jsonl`` beside this file, which is committed: a draw
takes up to minutes and rests on nothing of ours. For a bounded time what is missing is drawn; ``make bench-peers``
draws all of it again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.kept import digest_of, table_digest
from benchmarks.accuracy.settings import Setting, truth_of
from crosstally_lab.papers.peers import PeerDraw, PeerTask, draw_several, peers_python, versions

ORDERS = (2, 3)
"""Pairs and triples, as the targets name them."""

LIMIT = 3_600.0
"""Seconds after which the draws of a job are given up."""

FIT: Final = "joint"
"""How a peer's model is fitted: by mbi's steps without compilation, which is equal up to rounding. The draws whose line
does not say so were fitted by mbi."""

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
    known = _known()
    return [known[key] for number in range(job.draws) if (key := _key(job, number)) in known]


def draw_missing(jobs: Sequence[PeerJob], minutes: float) -> Iterator[tuple[PeerJob, dict[str, Any]]]:
    """Draw what is not kept, job by job, until the time is over; the draws of a job by one process."""
    end = time.monotonic() + 60 * minutes
    for job in jobs:
        known = _known()
        missing = [number for number in range(job.draws) if _key(job, number) not in known]
        if missing and time.monotonic() < end:
            yield from ((job, result) for result in _drawn(job, missing))


def _drawn(job: PeerJob, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Some draws by the peer's Python, each kept by itself, so that a run that is stopped goes on where it was.

    MST is not trained on tables, so that a draw of it is kept for every order.
    """
    jobs = [replace(job, order=order) for order in ORDERS] if job.algorithm == "MST" else [job]
    codes = truth_of(job.setting.table, (job.order,)).table.codes
    drawn = draw_several(_task(jobs), codes, python=peers_python(), seconds=LIMIT, draws=len(numbers), fit=FIT)
    if len(drawn) < len(numbers):  # it failed, and one draw says why: that holds for all, so none is tried again
        drawn = drawn * len(numbers)
    results = []
    with DRAWN.open("a", encoding="utf-8") as file:
        for number, each in zip(numbers, drawn, strict=True):
            for own, result in zip(jobs, _errors(jobs, each), strict=True):
                line = {"job": str(own), "draw": number, "version": version(), "key": _key(own, number)}
                file.write(json.dumps({**line, "result": result}) + "\n")
                results += [result] if own == job else []
        file.flush()
        os.fsync(file.fileno())
    return results


def _key(job: PeerJob, number: int) -> str:
    rests_on = {"table": table_digest(job.setting.table), "version": version(), "draw": number}
    return digest_of({**_task([job]).to_dict(), **rests_on})


def _known() -> dict[str, Any]:
    """All draws that were made, by key."""
    if not DRAWN.is_file():
        return {}
    lines = map(json.loads, DRAWN.read_text(encoding="utf-8").splitlines())
    return {line["key"]: line["result"] for line in lines}


def _task(jobs: Sequence[PeerJob]) -> PeerTask:
    """One draw for jobs that differ in nothing but the order of the tables."""
    job = jobs[0]
    schema = truth_of(job.setting.table, (job.order,)).table.schema
    asked = [each for job in jobs for each in truth_of(job.setting.table, (job.order,)).asked[job.order]]
    return PeerTask(
        algorithm=job.algorithm,
        budget=job.setting.budget,
        sizes=schema.shape,
        trained=tuple(itertools.combinations(range(len(schema.names)), job.order)),
        answers=tuple(tuple(schema.positions[name] for name in table) for table in asked),
    )


def _errors(jobs: Sequence[PeerJob], drawn: PeerDraw) -> list[dict[str, Any]]:
    """For each job the errors of a draw, its time, and whether the fit converged; or an ``error``."""
    if drawn.error is not None:
        return [{"error": drawn.error, "converged": False} for _ in jobs]
    names = ("cpu", "wall", "compiling", "misfit", "measured", "converged")
    note = {**{name: getattr(drawn, name) for name in names}, "fit": FIT}
    results, tables = [], iter(drawn.tables)
    for job in jobs:
        truth = truth_of(job.setting.table, (job.order,))
        own = list(itertools.islice(tables, len(truth.asked[job.order])))
        results.append({**note, "l1": truth.l1(job.order, own), "rms": truth.rms(job.order, own)})
    return results


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
