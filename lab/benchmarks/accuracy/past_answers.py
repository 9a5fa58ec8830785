"""Past answers, as in EDBT 2012 (section 5.1): the default of a notebook against kernel PCA with its best single alpha.

5,000 noisy answers about pairs of attributes, Laplace noise of scale 5,000, and a prior that was bought. The best alpha
is chosen on the truth, over all draws at once. Both see the same noise. ``crosstally reproduce edbt12-figure-2`` draws
the whole figure, with maximum entropy and other claims, in fewer draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.accuracy.comparison import paired_ratio
from benchmarks.accuracy.kept import DOORS, kept_draws
from benchmarks.accuracy.lines import mean_line
from benchmarks.accuracy.settings import in_processes
from crosstally_lab.papers.edbt12.census import census
from crosstally_lab.papers.edbt12.trials import (
    ARBITRARY,
    BOUGHT,
    DEFAULT,
    RANGES,
    History,
    KernelTrial,
    ask,
    priors_of,
    rms,
)

_QUESTIONS, _SCALE = 5_000, 5_000.0
_QUICK_QUESTIONS = 500
_ALPHAS = np.geomspace(3e3, 3e5, 11).tolist()
"""Steps of 1.6 x, refined to 1.1 x about the best."""
_TARGET = 0.85


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """A line for each kind of question: the error of past questions over that of the best alpha."""
    jobs = [(kind, draws, _QUICK_QUESTIONS if quick else _QUESTIONS) for kind in (RANGES, ARBITRARY)]
    for (kind, _, questions), found in zip(jobs, in_processes(_kept, jobs), strict=True):
        work = f"past answers, {questions:,} {kind}, RMSE over kernel PCA with the best single alpha"
        ratio = paired_ratio(found["default"], found["best alpha"])
        yield mean_line(work, {found["rows"]: ratio}, _TARGET)


def _kept(job: tuple[str, int, int]) -> Any:
    return kept_draws("past answers", job, lambda each: errors_of(*each), doors=DOORS)


def errors_of(kind: str, draws: int, questions: int) -> dict[str, Any]:
    """The RMSE of past questions in each draw, by the default and by the best alpha, and on which rows."""
    random = np.random.default_rng((2012, questions))
    data = census(random)
    priors = priors_of(data, random)
    past, new = (ask(data, each, questions, random) for each in (kind, RANGES))
    history = History.drawn(data, past, new, scale=_SCALE, draws=draws, random=random)
    curve = KernelTrial(history, priors[BOUGHT]).curve(_ALPHAS, draws)
    default = KernelTrial(history, priors[DEFAULT])
    return {
        "rows": data.label,
        "default": [rms(default.gaps(default.default(draw))[0]) for draw in range(draws)],
        "best alpha": curve.past[:, curve.best(curve.past)].tolist(),
    }
