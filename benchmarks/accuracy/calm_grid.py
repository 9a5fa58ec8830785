"""The whole grid of CALM's experiment, a setting at a time: each is kept, so that a run can be stopped and taken up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from benchmarks.accuracy.kept import code_digest, kept
from benchmarks.accuracy.lines import line
from crosstally.papers.calm.experiment import (
    FULL,
    QUICK,
    Case,
    Counts,
    Score,
    alike,
    calm_claims,
    cases,
    choice_claim,
    scores_of,
)


def run(draws: int = 0, *, quick: bool = False, only_kept: bool = False) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """A line for each claim of crosstally; the note of the last has the number of settings."""
    counts = QUICK if quick else FULL
    found, asked = list[Score](), 0
    for case in cases(None, counts):
        for epsilon in counts.epsilons:
            if counts.asks(case, epsilon):
                asked += 1
                found += setting(case, epsilon, counts, only_kept=only_kept)
    settings = len({score.cell for score in found})
    if not settings:
        return
    for claim in calm_claims(found):
        if claim.of == "crosstally":
            note = f"{claim.figure}; {settings} of {asked} settings of the grid"
            yield line(f"calm: {claim.claim}", None, None, None, unit="x", met=claim.holds is True, note=note)
    if not only_kept:
        claim = choice_claim(alike(counts.tables), Fraction(1), counts)
        yield line(f"calm: {claim.claim}", None, None, None, unit="x", met=claim.holds is True, note=claim.figure)


def setting(case: Case, epsilon: Fraction, counts: Counts, *, only_kept: bool = False) -> list[Score]:
    """The scores of one setting, kept or new; none if only what is kept is wanted and it is not."""
    key = {
        "line": "calm",
        "case": [case.data, len(case.schema.names), case.people, case.ways],
        "tables": repr(case.tables),
        "epsilon": str(epsilon),
        # What each setting rests on: how many runs, tables and views; not which other settings there are
        "counts": [counts.runs, counts.screening, len(case.tables), counts.views],
        "code": code_digest("local", "papers"),
    }
    work = None if only_kept else lambda: [asdict(score) for score in scores_of(case, epsilon, counts)]
    found = kept("calm", key, work)
    return [Score(**each) for each in found or ()]
