"""A release's measurements handed to mbi, which fits a graphical model to them: its error and its time beside ours.

Both start from the same noisy numbers, drawn once for each draw, so that only inference is compared. mbi is an extra of
its own (``pip install 'crosstally[mbi]'``); where it is missing the line says so.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.comparison import paired_ratio
from benchmarks.accuracy.errors import Truth
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.settings import DELTA, Setting, present, truth_of
from crosstally.exports.private_pgm import to_mbi

SETTINGS = tuple(Setting("msnbc-9", epsilon, DELTA) for epsilon in ("0.1", "1"))
"""Nine binary attributes, whose pairs mbi joins in one table of 512 cells: larger tables would time its elimination."""
ORDERS = (1, 2, 3)
"""Tables of one and two attributes, which are measured, and of three, which both infer."""
MOST_DRAWS = 5  # mbi takes seconds for each, and inference of one release differs little from draw to draw
WORK = "pairs handed to mbi"


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """For each budget the error of each order over mbi's, and the CPU seconds of inference and answers."""
    del quick
    if find_spec("mbi") is None:
        yield line(f"{WORK}: not run, pip install 'crosstally[mbi]'", 1, 1, None, unit="x")
        return
    wanted, absent = present(SETTINGS)
    for words in absent:
        yield line(f"{WORK}: not run, {words}", 1, 1, None, unit="x")
    for setting in wanted:
        yield from _lines(setting, min(draws, MOST_DRAWS))


def _lines(setting: Setting, draws: int) -> Iterator[dict[str, Any]]:
    truth = truth_of(setting.table, ORDERS)
    found = [_draw(setting, truth) for _ in range(draws)]
    note = f"{draws} draws, mbi {version('mbi')}"
    for order in ORDERS:
        ours, theirs = ([each[who][order] for each in found] for who in ("crosstally", "mbi"))
        ratio = paired_ratio(ours, theirs)
        words = f"{note}; 95% interval {ratio.low:.3g} to {ratio.high:.3g}"
        work = f"{WORK}, {setting}, RMS of {order}-way tables"
        yield line(work, float(np.mean(ours)), float(np.mean(theirs)), None, unit="rows", note=words)
    own, other = (min(each[who]["seconds"] for each in found) for who in ("crosstally", "mbi"))
    yield line(f"{WORK}, {setting}, inference and {_asked(truth)} tables", own, other, None, unit="CPU s", note=note)


def _asked(truth: Truth) -> int:
    return sum(map(len, truth.asked.values()))


def _draw(setting: Setting, truth: Truth) -> dict[str, dict[Any, float]]:
    """One release of all pairs by plain tables; both inferences of its measurements, in the least seconds of two."""
    schema = truth.table.schema
    workload = ct.Workload.all_ways(schema, 2)
    release = ct.release(truth.table.rows, schema, workload=workload, strategy="direct", **_spent(setting))
    names = [table for tables in truth.asked.values() for table in tables]

    def ours() -> list[Any]:
        return [each.values for each in release.refit().marginals(names)]

    def theirs() -> list[Any]:
        model = mbi.estimation.MirrorDescent().estimate(*to_mbi(release))
        return [np.asarray(model.project(table).datavector()).reshape(schema.sizes(table)) for table in names]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mbi tells of its compiler's cache, and jax of what it cannot do without a GPU
        jax, mbi = import_module("jax"), import_module("mbi")
        jax.config.update("jax_enable_x64", True)  # what mbi asks for with more than 100,000 rows
        return {"crosstally": _measured(ours, truth), "mbi": _measured(theirs, truth)}


def _spent(setting: Setting) -> dict[str, str]:
    return {"epsilon": setting.epsilon, **({} if setting.delta is None else {"delta": setting.delta})}


def _measured(infer: Callable[[], list[Any]], truth: Truth) -> dict[Any, float]:
    """The RMS of each order, and the CPU seconds: the first run compiles, and does not count."""
    seconds = math.inf
    for _ in range(2):
        before = time.process_time()
        answers = iter(infer())
        seconds = min(seconds, time.process_time() - before)
        found = {k: truth.rms(k, [next(answers) for _ in tables]) for k, tables in truth.asked.items()}
    return {**found, "seconds": seconds}
