"""Past answers: the claims of crosstally that ``crosstally reproduce`` checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.accuracy.kept import DOORS, code_digest, kept
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.settings import in_processes

EXPERIMENTS = ("edbt12-figure-2",)
"""History against the best single alpha (0.85 x). Local tables against CALM are in ``calm_grid``."""


def run(draws: int = 0, *, quick: bool = False) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """A line for each claim, met when it holds; experiments have their own numbers of repetitions."""
    jobs = [(name, quick) for name in EXPERIMENTS]
    for (name, _), claims in zip(jobs, in_processes(_kept, jobs), strict=True):
        for claim, holds, figure in claims:
            yield line(f"{name}: {claim}", None, None, None, unit="x", met=holds, note=figure)


def _kept(job: tuple[str, bool]) -> Any:
    return kept("draws", {"line": "papers", "job": repr(job), "code": code_digest(*DOORS)}, lambda: claims_of(*job))


def claims_of(name: str, quick: bool) -> list[tuple[str, bool, str]]:
    """The claims of crosstally in an experiment: words, whether they hold, figure."""
    from crosstally.papers import experiments

    found = experiments.run(name, quick=quick).claims
    return [(each.claim, each.holds is True, each.figure) for each in found if each.of == "crosstally"]
