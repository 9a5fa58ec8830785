"""The default release against PriView exactly as in its paper, the cover chosen with hindsight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.comparison import Ratio, regret
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import line, never_above, refused
from benchmarks.accuracy.real_tables import real_table
from benchmarks.accuracy.settings import Setting, in_processes, present
from crosstally.errors import CrosstallyError
from crosstally_lab.papers.data import Rows
from crosstally_lab.papers.metrics import normalised_l2
from crosstally_lab.papers.priview.trials import Case, Design, case_of, random_tables, read, released

TABLE, WAYS, ASKED = "kosarak-resampled", (4, 6, 8), 200
EPSILONS = ("1", "0.1")
COVERS = (2, 3, 4)
DEFAULT = "default"
TARGETS = {4: 0.75, 6: None, 8: 0.65}
LIMIT = 1.02


@dataclass(frozen=True, slots=True)
class Trial:
    """Draws of the default, or of PriView's views of eight attributes with a cover."""

    setting: Setting
    cover: int | None
    draws: int


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Mean normalised L2 over random tables, for each epsilon and order."""
    wanted, _ = present([Setting(TABLE, epsilon) for epsilon in (EPSILONS[:1] if quick else EPSILONS)])
    covers = COVERS[:2] if quick else COVERS
    jobs = [Trial(setting, cover, draws) for setting in wanted for cover in (None, *covers)]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    for k in WAYS:
        ratios: dict[str, Ratio] = {}
        work = f"k={k}, 32 binary attributes, pure, mean normalised L2 over PriView as in the paper"
        for setting in wanted:
            ours = found[Trial(setting, None, draws)]
            if "refused" in ours:
                yield refused(work, TARGETS[k], ours["refused"])
                continue
            theirs = {f"t={c}": found[Trial(setting, c, draws)][str(k)] for c in covers}
            best, ratio = regret(ours[str(k)], theirs)
            ratios[f"{setting} (best {best})"] = ratio
            own, other = np.mean(ours[str(k)]), np.mean(theirs[best])
            note = f"{ratio}, {draws} draws, best {best}"
            yield line(f"{work}, {setting}", float(own), float(other), TARGETS[k], unit="L2/N", note=note)
        if ratios:
            yield never_above(f"{work}, never above", ratios, LIMIT)


def _case(table: str) -> Case:
    real = real_table(table)
    random = np.random.default_rng(20_261_117)
    asked = {k: random_tables(real.schema.names, k, ASKED, random) for k in WAYS}
    return case_of(Rows(real.rows, real.schema, label=table), asked)


def _kept(trial: Trial) -> Any:
    return kept_draws("priview", trial, errors_of, table=trial.setting.table, doors=["papers"])


def errors_of(trial: Trial) -> dict[str, Any]:
    """By order the mean normalised L2 of each draw; or why there is no release."""
    case = _case(trial.setting.table)
    found: dict[str, Any] = {str(k): [] for k in WAYS}
    for _ in range(trial.draws):
        try:
            if trial.cover is None:
                release = ct.release(case.data.table, case.data.schema, epsilon=trial.setting.epsilon)
            else:
                release = released(case, Design(8, trial.cover), float(trial.setting.epsilon))
        except CrosstallyError as error:
            return {"refused": str(error)}
        answers = read(release)
        for k, tables in case.tables.items():
            pairs = zip(answers(tables), (case.truth[names] for names in tables), strict=True)
            found[str(k)].append(float(np.mean([normalised_l2(a, t, rows=case.rows) for a, t in pairs])))
    return found
