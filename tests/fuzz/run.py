"""Runs of the fuzzer: so many forged files of a target, each opened and its cost looked at."""

from __future__ import annotations

import shutil
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz.limits import Cost, cost_of, most
from fuzz.targets import CANARY, TARGETS

__all__ = ["Outcome", "open_forged", "run"]


@dataclass
class Outcome:
    """How many files were opened and how many refused; what went wrong, by the number of its file."""

    opened: int = 0
    refused: int = 0
    slowest: Cost = field(default_factory=lambda: Cost(0.0, 0))
    wrong: list[str] = field(default_factory=list)


def run(name: str, numbers: range, folder: Path, *, slack: float = 1.0, most_wrong: int = 20) -> Outcome:
    """Forge and open the files of these numbers: a number gives the same file every time."""
    file, target = TARGETS[name]
    outcome = Outcome()
    for number in numbers:
        place = folder / "forged"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        path = place / file
        target.forge(Random(f"{name} {number}"), path)
        found = open_forged(name, path, outcome, slack=slack)
        if found:
            outcome.wrong.append(f"{name} {number}: {found}")
            if len(outcome.wrong) >= most_wrong:
                break
    return outcome


def open_forged(name: str, path: Path, outcome: Outcome, *, slack: float = 1.0) -> str:
    """What is wrong with how a file was opened; empty where nothing is."""
    _, target = TARGETS[name]
    raised: list[BaseException] = []

    def work() -> None:
        try:
            target.open(path)
        except Exception as error:  # noqa: BLE001 - whatever comes is looked at below
            raised.append(error)

    size = path.stat().st_size
    cost = cost_of(work)
    outcome.slowest = Cost(max(cost.seconds, outcome.slowest.seconds), max(cost.memory, outcome.slowest.memory))
    for _ in range(2):
        if cost.exceeds(most(size, slack)):
            cost = cost_of(work)  # the first of a kind loads what it needs, and other processes take their share
    if cost.exceeds(most(size, slack)):
        return f"{size:,} bytes took {cost.seconds:.2f} s and {cost.memory / 2**20:.0f} MB: {raised[-1:]!r:.150}"
    if not raised:
        outcome.opened += 1
        return ""
    outcome.refused += 1
    error = raised[-1]
    if not isinstance(error, target.errors):
        return "".join(traceback.format_exception(error))[-1_500:]
    if "\n" in str(error) or len(str(error)) > 1_000:
        return f"not one line, or a long one: {str(error)[:300]!r}"
    if CANARY in "".join(traceback.format_exception(error)):
        return "the canary is seen"
    return ""
