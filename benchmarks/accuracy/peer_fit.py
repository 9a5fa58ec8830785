"""Run by the peers' own Python: one draw of OpenDP's AIM or MST on codes, its marginals written to a file.

``python peer_fit.py TASK.json ANSWERS.npz``; the task names a file of codes (rows x attributes), the sizes, rho, the
algorithm, the tables it is trained on and the tables to answer. Nothing of crosstally is imported.
"""

import json
import math
import sys
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import polars as pl

NUDGES = 1_000
DEVIATIONS = 6
"""A fit is said not to have converged when its squared error, in units of the noise, is above what the truth itself
would have by this many standard deviations: the truth is one of the fits that are possible."""


def main(task_file, answer_file):
    task = json.loads(Path(task_file).read_text())
    codes = np.load(task["codes"])
    names = [f"a{i}" for i in range(codes.shape[1])]
    frame = pl.DataFrame({name: codes[:, i].astype(np.int32) for i, name in enumerate(names)}).lazy()
    wall, cpu = time.perf_counter(), time.process_time()
    table = released(frame, names, task)
    answers = [np.asarray(table.project([names[i] for i in positions])) for positions in task["answers"]]
    note = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "misfit": misfit(table)}
    note["converged"] = bool(all(np.isfinite(each).all() for each in answers) and note["misfit"] <= DEVIATIONS)
    arrays = {str(place): each for place, each in enumerate(answers)}
    np.savez(answer_file, note=np.array(json.dumps(note)), **arrays)


def released(frame, names, task):
    """One release by OpenDP: rho-zCDP, one row more or less, bins as cuts so that no cell for nulls is added."""
    rho = task["rho"] if task["algorithm"] == "AIM" else affordable(task["rho"], len(names) - 1)
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
    )
    # bins are open to the left: (-inf, 0], (0, 1], ..., (n-2, inf)
    cuts = {name: list(range(size - 1)) for name, size in zip(names, task["sizes"], strict=True)}
    return context.query(rho=rho).contingency_table(cuts=cuts, algorithm=algorithm(names, task)).release()


def algorithm(names, task):
    if task["algorithm"] == "MST":
        return dp.mbi.MST()
    return dp.mbi.AIM(queries=[dp.mbi.Count(tuple(names[i] for i in table)) for table in task["trained"]])


def affordable(rho, selections):
    """The least budget from rho on, in relative steps of 1e-12, whose parts MST can pay.

    OpenDP 0.16 splits the budget of MST's selections in floating point, and adds the parts up with rounding upwards:
    for some budgets they exceed the whole, and MST is refused ("insufficient budget"); for 8 or 16 selections always.
    """
    for nudge in range(NUDGES):
        tried = rho * (1 + nudge * 1e-12)
        rest = prior(prior(tried - tried * 0.5))  # half is for one-way tables
        whole = prior(prior(rest - rest * 0.9))  # a tenth of the rest is for selection
        part, spent = prior(whole / selections), 0.0
        for _ in range(selections):
            spent = sum_rounded_up(spent, part)
        if spent <= whole:
            return tried
    return rho


def prior(number):
    return math.nextafter(number, -math.inf)


def sum_rounded_up(first, second):
    rounded = first + second
    return math.nextafter(rounded, math.inf) if Fraction(rounded) < Fraction(first) + Fraction(second) else rounded


def misfit(table):
    """How many standard deviations the fit's squared error is above what the truth would have."""
    squares, numbers = 0.0, 0
    for measured in table.marginals.flatten():
        fit = np.asarray(measured.query(table.model.project(measured.clique))).ravel()
        squares += float((((fit - np.asarray(measured.noisy_measurement).ravel()) / measured.stddev) ** 2).sum())
        numbers += fit.size
    return (squares - numbers) / math.sqrt(2 * numbers)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    main(*sys.argv[1:])
