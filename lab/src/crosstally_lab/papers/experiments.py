"""The experiments of the papers, by name: what ``crosstally reproduce`` runs."""

from __future__ import annotations

from pathlib import Path

from crosstally.errors import CrosstallyError, did_you_mean
from crosstally_lab.papers.calm import experiment as calm
from crosstally_lab.papers.edbt12 import past_answers as edbt12
from crosstally_lab.papers.edbt12 import publishing as edbt12_publishing
from crosstally_lab.papers.icde13 import experiment as icde13
from crosstally_lab.papers.outcomes import Experiment, Outcome, Progress, Settings
from crosstally_lab.papers.pods07 import experiment as pods07
from crosstally_lab.papers.priview import (
    all_methods,
    chains,
    comparison,
    crossover,
    designs,
    methods,
    other_methods,
    times,
)

_PRIVIEW = (crossover, other_methods, all_methods, comparison, methods, chains, designs, times)  # in the paper's order
EXPERIMENTS: tuple[Experiment, ...] = tuple(
    each for module in (*_PRIVIEW, calm, icde13, pods07, edbt12, edbt12_publishing) for each in module.EXPERIMENTS
)
"""Every experiment, paper by paper."""


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    for each in EXPERIMENTS:
        if each.name == name:
            return each
    raise CrosstallyError(f"unknown experiment {name!r}{did_you_mean(name, [each.name for each in EXPERIMENTS])}")


def run(name: str, *, quick: bool = False, data: str | Path | None = None, progress: Progress | None = None) -> Outcome:
    """The rows, verdicts and chart of an experiment.

    Args:
        name: which experiment.
        quick: seconds instead of minutes: fewer noise draws, hence wider intervals; the claims are the same.
        data: a file to use in place of the experiment's own data; it must be public, since truth is shown.
        progress: told the steps done and the steps in all, now and then.
    """
    settings = Settings(quick=quick, data=None if data is None else Path(data), progress=progress or _silent)
    return experiment(name).run(settings)


def _silent(done: int, steps: int) -> None:
    """Tell nobody."""
