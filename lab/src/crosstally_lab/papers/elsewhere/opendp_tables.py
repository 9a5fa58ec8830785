"""Draws of OpenDP's AIM, MST or Fixed on public or generated codes; run by a Python of its own, imported by nobody.

``python opendp_tables.py TASK.json ANSWERS.npz``: the task names a file of codes (rows x attributes), the sizes, the
currency (epsilon or rho) and amount of the budget, the rows of one unit, the algorithm, the tables that it is trained
on, the tables to answer, the number of draws, and who fits: ``mbi`` as OpenDP has it, or ``joint`` (``joint_fit.py``).
Nothing of crosstally is imported: OpenDP's contingency tables pin packages that it cannot live with, and the folder is
no package, so that no module can import this file.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

_NUDGES = 1_000
"""Budgets that are tried for MST, each a part of 1e-12 above the last: together 1e-9, far below any digit reported."""
_DEVIATIONS = 6
"""A fit is said not to have converged when its squared error, in units of the noise, is above what the truth itself
would have by this many standard deviations: the truth is one of the fits that are possible. Chosen; the chance that a
perfect fit is left out is 1e-9."""
_COMPILING = "/jax/core/compile/"
"""The events of jax whose seconds are compilation: tracing, lowering, and the compiler itself."""


def main(task_file: str, answer_file: str) -> None:
    """Do what the task says; write the tables of each draw, and a note about its time and convergence."""
    import polars as pl
    from jax import monitoring

    task = json.loads(Path(task_file).read_text())
    codes = np.load(task["codes"])
    names = [f"a{i}" for i in range(codes.shape[1])]
    frame = pl.DataFrame({name: codes[:, i].astype(np.int32) for i, name in enumerate(names)}).lazy()
    compiled: list[float] = []
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds if event.startswith(_COMPILING) else 0.0)
    )
    notes, arrays, query = list[dict[str, Any]](), dict[str, Any](), None
    for number in range(task["draws"]):
        compiled.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        query = query or _query(frame, names, task)
        table = query.release()
        answers = [np.asarray(table.project([names[i] for i in positions])) for positions in task["answers"]]
        note: dict[str, Any] = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        note["compiling"] = sum(compiled) / note["wall"]
        note["misfit"] = _misfit(table)
        note["measured"] = len(table.marginals.flatten())
        note["converged"] = bool(all(np.isfinite(each).all() for each in answers) and note["misfit"] <= _DEVIATIONS)
        notes.append(note)
        arrays |= {f"{number}-{place}": each for place, each in enumerate(answers)}
    np.savez(answer_file, notes=np.array(json.dumps(notes)), **arrays)


def _query(frame: Any, names: Sequence[str], task: dict[str, Any]) -> Any:
    """What OpenDP releases in each draw: units come or go, bins as cuts so that no cell for nulls is added.

    The compositor may spend twice what all draws need, so that rounding refuses none; a draw spends its amount.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    if task["fit"] == "joint":
        _build_scores_once()
    amount = task["amount"] if task["algorithm"] != "MST" else _affordable(task["amount"], len(names) - 1)
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=task["unit_rows"]),
        privacy_loss=dp.loss_of(**{task["currency"]: 2 * task["draws"] * amount}),
    )
    # bins are open to the left: (-inf, 0], (0, 1], ..., (n-2, inf)
    cuts = {name: list(range(size - 1)) for name, size in zip(names, task["sizes"], strict=True)}
    query = context.query(**{task["currency"]: amount})
    return query.contingency_table(cuts=cuts, algorithm=_algorithm(names, task))


def _algorithm(names: Sequence[str], task: dict[str, Any]) -> Any:
    import opendp.prelude as dp

    options: dict[str, Any] = {}
    if task["fit"] == "joint":
        from joint_fit import estimator

        options["estimator"] = estimator(names, task["sizes"], max(map(len, task["trained"] + task["answers"])))
    if task["algorithm"] == "MST":
        return dp.mbi.MST(**options)
    options["queries"] = [dp.mbi.Count(tuple(names[i] for i in table)) for table in task["trained"]]
    return {"AIM": dp.mbi.AIM, "Fixed": dp.mbi.Fixed}[task["algorithm"]](**options)


def _build_scores_once() -> None:
    """Let AIM build the scores of a model once: its search for the scale of noise asks for the same some 60 times."""
    from opendp.extras.mbi import _aim

    build, built = _aim._make_aim_scores, list[Any]()

    def once(domain: Any, metric: Any, queries: Any, expectations: Any, model: Any) -> Any:
        if not built or built[0] is not model:
            built[:] = [model, build(domain, metric, queries, expectations, model)]
        return built[1]

    _aim._make_aim_scores = once


def _affordable(amount: float, selections: int) -> float:
    """The least budget from the amount on, in relative steps of 1e-12, whose parts MST can pay.

    OpenDP 0.16 splits the budget of MST's selections in floating point, and adds the parts up with rounding upwards:
    for some budgets they exceed the whole, and MST is refused ("insufficient budget"); for 8 or 16 selections always.
    """
    for nudge in range(_NUDGES):
        tried = amount * (1 + nudge * 1e-12)
        rest = _prior(_prior(tried - tried * 0.5))  # half is for one-way tables
        whole = _prior(_prior(rest - rest * 0.9))  # a tenth of the rest is for selection
        part, spent = _prior(whole / selections), 0.0
        for _ in range(selections):
            spent = _sum_rounded_up(spent, part)
        if spent <= whole:
            return tried
    return amount


def _prior(number: float) -> float:
    return math.nextafter(number, -math.inf)


def _sum_rounded_up(first: float, second: float) -> float:
    rounded = first + second
    return math.nextafter(rounded, math.inf) if Fraction(rounded) < Fraction(first) + Fraction(second) else rounded


def _misfit(table: Any) -> float:
    """How many standard deviations the fit's squared error is above what the truth would have."""
    squares, numbers = 0.0, 0
    for measured in table.marginals.flatten():
        fit = np.asarray(measured.query(table.model.project(measured.clique))).ravel()
        squares += float((((fit - np.asarray(measured.noisy_measurement).ravel()) / measured.stddev) ** 2).sum())
        numbers += fit.size
    return (squares - numbers) / math.sqrt(2 * numbers)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
