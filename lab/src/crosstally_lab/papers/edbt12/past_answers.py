"""The experiments of EDBT 2012 on integrating past answers (section 5.1, figures 2 to 5), with both of its methods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crosstally.notebook.history.bundles import QueryBatch
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers
from crosstally.notebook.history.constraints import Problem
from crosstally.notebook.history.held_out import one_alpha
from crosstally.notebook.history.prior import Prior
from crosstally.typing import Floats
from crosstally_lab.papers import charts
from crosstally_lab.papers.charts import Look
from crosstally_lab.papers.edbt12 import past_claims as claims
from crosstally_lab.papers.edbt12 import trials
from crosstally_lab.papers.edbt12.census import Census, census
from crosstally_lab.papers.edbt12.eigenqueries import Eigenqueries
from crosstally_lab.papers.edbt12.many_answers import ManyAnswers, constraints_of
from crosstally_lab.papers.edbt12.products import kernel_of_tables
from crosstally_lab.papers.edbt12.trials import Curve, Effort, EntropyTrial, History, KernelTrial
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value

# NoisyAnswers queries (and as many new ones) and the scale of their Laplace noise, as in section 5.1.
_QUERIES, _SCALE = 5000, 5000.0
# Draws of noise, over which intervals are. A quick run has fewer of maximum entropy, which takes seconds for each:
# most of its claims are then open.
_DRAWS, _FEW_DRAWS = 8, 2
# Bounds beta on the weights of maximum entropy, quick and full: from little trust to answers that are nearly met.
_BOUNDS_QUICK, _BOUNDS = (0.3, 1.0, 4.0), (0.03, 0.06, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0)
# Rows and sweeps of maximum entropy, quick and full. More of both come nearer to the optimum. Chosen for time.
_EFFORT_QUICK, _EFFORT = Effort(5_000, 30), Effort(20_000, 80)
_FOLDS = 5  # of cross-validation, as in the paper
_RAW, _OURS = "raw answers", "crosstally"
_LOOKS = charts.looks([_OURS, trials.BOUGHT, trials.UNIFORM, _RAW])
_DASHED = (5, 3)  # pixels drawn and left out
_PANEL = 330  # pixels of a panel where two stand side by side
_RMSE = "root mean square error, people"
_WIDTH, _HEIGHT = 640, 200  # pixels of a panel: as wide as the longest title


def _alphas(quick: bool) -> list[float]:
    """From 3,000 to 300,000 in steps of at most 1.1 x, of 1.6 x when quick; the best is then refined."""
    steps = 11 if quick else 49
    return [float(alpha) for alpha in np.geomspace(3e3, 3e5, steps)]


def _bounds(quick: bool) -> tuple[float, ...]:
    return _BOUNDS_QUICK if quick else _BOUNDS


def _few(quick: bool) -> int:
    return _FEW_DRAWS if quick else _DRAWS


def _effort(quick: bool) -> Effort:
    return _EFFORT_QUICK if quick else _EFFORT


def _drawn(seed: int, settings: Settings) -> tuple[np.random.Generator, Census, dict[str, Prior]]:
    """What every figure begins with: its own random numbers, the people, and the priors, one of them bought."""
    random = np.random.default_rng(seed)
    data = census(random, path=settings.data)
    return random, data, trials.priors_of(data, random)


def _prior_chart(
    values: Sequence[Mapping[str, Any]],
    kinds: Mapping[str, str],
    field: str,
    *,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    title: str,
) -> dict[str, Any]:
    """A line for each prior and each kind, which a field names: colours tell priors, dashes kinds, shapes both."""
    shapes = iter(("square", "diamond", "triangle-up", "cross"))
    styles = {
        f"{prior} prior, {words}": Look(_LOOKS[prior].colour, next(shapes), _DASHED if dashed else (1, 0))
        for prior in (trials.BOUGHT, trials.UNIFORM)
        for dashed, words in enumerate(kinds.values())
    }
    lines = [{**each, "line": f"{each['prior']} prior, {kinds[each[field]]}"} for each in values]
    marks = charts.curves("line", styles, width=_WIDTH, nested=True, x=x, y=y)
    return charts.chart(
        charts.in_order(lines, "line", styles), *marks, title=title, pale_grid=True, width=_WIDTH, height=_HEIGHT
    )


# Figure 2


def _figure_2(settings: Settings) -> Outcome:
    random, data, priors = _drawn(2012, settings)
    rows: list[dict[str, Value]] = []
    found: list[Claim] = []
    done = 0
    for past_kind, new_kind in ((trials.RANGES, trials.RANGES), (trials.ARBITRARY, trials.RANGES)):
        past, new = (trials.ask(data, kind, _QUERIES, random) for kind in (past_kind, new_kind))
        history = History.drawn(data, past, new, scale=_SCALE, draws=_DRAWS, random=random)
        curves: dict[tuple[str, str], Curve] = {}
        for prior in (trials.UNIFORM, trials.BOUGHT):
            kernel = KernelTrial(history, priors[prior])
            curves[trials.KERNEL, prior] = kernel.curve(_alphas(settings.quick), _DRAWS)
            entropy = EntropyTrial(history, priors[prior], _effort(settings.quick))
            curves[trials.ENTROPY, prior] = entropy.curve(_bounds(settings.quick), _few(settings.quick))
            settings.progress(done := done + 1, 6)
        for (method, prior), curve in curves.items():
            rows += _curve_rows(curve, history, method, prior)
        ours = list(_default_rows(KernelTrial(history, priors[trials.DEFAULT])))
        rows += ours
        raw = np.array([trials.rms(each - past.truth) for each in history.answers])
        found += claims.alpha_claims(past_kind, curves)
        found += claims.default_claims(past_kind, ours, curves, raw)
        settings.progress(done := done + 1, 6)
    return Outcome("edbt12-figure-2", tuple(rows), claims=tuple(found), chart=_alpha_chart(rows))


def _curve_rows(curve: Curve, history: History, method: str, prior: str) -> Iterator[dict[str, Value]]:
    past, new = curve.over_draws(curve.past), curve.over_draws(curve.new)
    for place, alpha in enumerate(curve.alphas):
        yield {
            "past": history.past.kind, "new": history.new.kind, "method": method, "prior": prior, "alpha": alpha,
            "RMSE past": float(past[place]), "RMSE new": float(new[place]), "draws": len(curve.past),
        }  # fmt: skip


def _default_rows(trial: KernelTrial) -> Iterator[dict[str, Value]]:
    history = trial.history
    for draw in range(_DRAWS):
        solution = trial.default(draw)
        gaps = trial.gaps(solution)
        errors = np.sqrt(solution.errors(history.new.batch, {}, known=[()]))
        oracle = float(np.quantile(np.abs(gaps[1]), 0.95))
        yield {
            "past": history.past.kind, "new": history.new.kind, "method": _OURS, "prior": trials.BOUGHT, "alpha": None,
            "RMSE past": trials.rms(gaps[0]), "RMSE new": trials.rms(gaps[1]), "draws": 1, "draw": draw + 1,
            "coverage": float(np.mean(np.abs(gaps[1]) <= 1.959964 * errors + 1e-6)),
            "width of oracle's": 1.959964 * float(np.mean(errors)) / oracle,
        }  # fmt: skip


def _alpha_chart(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    """Panels (a) to (d) of the paper for each method: alphas of the two have different units."""
    return charts.stacked(
        _curves_chart(
            list(_panels([row for row in rows if row["method"] in (method, _OURS)])),
            title=f"Error of queries with varying alpha, {method} (EDBT 2012, figure 2)",
        )
        for method in (trials.KERNEL, trials.ENTROPY)
    )


def _panels(rows: Sequence[Mapping[str, Value]]) -> Iterator[dict[str, Value]]:
    """The points of all lines. What has no alpha, our default and raw answers, is a line from the first to the last."""
    alphas = [float(row["alpha"]) for row in rows if isinstance(row["alpha"], float)]
    for row in rows:
        for column in ("past", "new"):
            after = "" if column == "past" else f", after {row['past']}"
            point = {"panel": f"{column} {row[column]}{after}", "RMSE": row[f"RMSE {column}"]}
            if row["alpha"] is not None:
                yield {**point, "line": row["prior"], "alpha": row["alpha"]}
            elif row["draw"] == 1:
                yield from ({**point, "line": _OURS, "alpha": end} for end in (min(alphas), max(alphas)))
    for kind in dict.fromkeys(row["past"] for row in rows):
        raw: dict[str, Value] = {"panel": f"past {kind}", "RMSE": math.sqrt(2) * _SCALE, "line": _RAW}
        yield from ({**raw, "alpha": end} for end in (min(alphas), max(alphas)))


def _curves_chart(values: Sequence[Mapping[str, Any]], *, title: str) -> dict[str, Any]:
    place: dict[str, Any] = {
        "x": charts.logarithmic("alpha", _numbers(values, "alpha"), title="parameter alpha"),
        "y": charts.logarithmic("RMSE", _numbers(values, "RMSE"), title=_RMSE),
    }
    names = sorted({each["panel"] for each in values}, key=lambda name: (not name.startswith("past"), name))
    marks = [*charts.curves("line", _LOOKS, width=2 * _PANEL, nested=True, **place), charts.rings(**place)]
    return charts.chart(
        charts.least(charts.in_order(values, "line", _LOOKS), "RMSE", within=["panel"]),
        *marks,
        title=title,
        caption=[
            "bought and uniform are priors; ring: the least error of a panel",
            "crosstally and raw answers have no alpha and are level lines",
        ],
        panels=charts.category("panel", title=None, sort=names),
        across=2,
        pale_grid=True,
        width=_PANEL,
        height=170,
    )


# Figure 3


def _figure_3(settings: Settings) -> Outcome:
    """Errors estimated by five-fold cross-validation against true ones, for new queries."""
    random, data, priors = _drawn(3, settings)
    past, new = (trials.ask(data, trials.RANGES, _QUERIES, random) for _ in range(2))
    history = History.drawn(data, past, new, scale=_SCALE, draws=_DRAWS, random=random)
    folds = random.integers(0, _FOLDS, _QUERIES)
    alphas = np.geomspace(3e3, 3e5, 9 if settings.quick else 25).tolist()
    few = _few(settings.quick)
    rows: list[dict[str, Value]] = []
    found: list[Claim] = []
    for done, prior in enumerate((trials.UNIFORM, trials.BOUGHT), start=1):
        kernel = KernelTrial(history, priors[prior])
        entropy = EntropyTrial(history, priors[prior], _effort(settings.quick))
        for method, curve, squares in (
            (trials.KERNEL, kernel.curve(alphas, _DRAWS, refined=False), kernel.validated(alphas, _DRAWS, folds)),
            (
                trials.ENTROPY,
                entropy.curve(_bounds(settings.quick), few),
                entropy.validated(_bounds(settings.quick), few, folds),
            ),
        ):
            validated = np.sqrt(np.maximum(squares, 0.0))
            rows += [
                {
                    "method": method,
                    "prior": prior,
                    "alpha": a,
                    "RMSE new": t,
                    "cross-validated": v,
                    "draws": len(squares),
                }
                for a, t, v in zip(
                    curve.alphas,
                    curve.over_draws(curve.new).tolist(),
                    curve.over_draws(validated).tolist(),
                    strict=True,
                )
            ]
            found += claims.validation_claims(method, prior, curve, validated)
        settings.progress(done, 2)
    return Outcome("edbt12-figure-3", tuple(rows), claims=tuple(found), chart=_validation_chart(rows))


def _validation_chart(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    """Solid lines are true errors and dashed ones cross-validated, as in the paper."""
    values = [
        {**row, "RMSE": row[column], "error": error}
        for row in rows
        for error, column in (("true", "RMSE new"), ("cross-validated", "cross-validated"))
        if row[column]  # where less than the noise was seen, the estimate is 0 and has no place on the axis
    ]
    return charts.stacked(
        _prior_chart(
            own := [each for each in values if each["method"] == method],
            {"true": "true error", "cross-validated": "cross-validated"},
            "error",
            x=charts.logarithmic("alpha", _numbers(own, "alpha"), title="parameter alpha"),
            y=charts.logarithmic("RMSE", _numbers(own, "RMSE"), title=_RMSE),
            title=f"Error of new queries, true and cross-validated, {method} (EDBT 2012, figure 3)",
        )
        for method in (trials.KERNEL, trials.ENTROPY)
    )


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


# Figure 4


def _figure_4(settings: Settings) -> Outcome:
    """Errors of past ranges at the best alpha, for other numbers of queries and other noise."""
    random, data, priors = _drawn(4, settings)
    fewer, more = (_QUERIES // 5, _QUERIES // 2), (1250.0, 20_000.0)
    cases = [*((number, _SCALE) for number in (*fewer, _QUERIES)), *((_QUERIES, scale) for scale in more)]
    few = _few(settings.quick)
    rows: list[dict[str, Value]] = []
    curves: dict[claims.Setting, Curve] = {}
    for done, (number, scale) in enumerate(cases, start=1):
        past, new = (trials.ask(data, trials.RANGES, number, random) for _ in range(2))
        history = History.drawn(data, past, new, scale=scale, draws=_DRAWS, random=random)
        for prior in (trials.UNIFORM, trials.BOUGHT):
            kernel = KernelTrial(history, priors[prior]).curve(np.geomspace(3e3, 3e5, 9).tolist(), _DRAWS)
            trial = EntropyTrial(history, priors[prior], _effort(settings.quick))
            for method, curve in ((trials.KERNEL, kernel), (trials.ENTROPY, trial.curve(_bounds(settings.quick), few))):
                curves[number, scale, method, prior] = curve
                best = curve.best(curve.past)
                rows.append(
                    {
                        "queries": number, "noise scale": scale, "method": method, "prior": prior,
                        "alpha": curve.alphas[best], "raw": math.sqrt(2) * scale,
                        "RMSE past": float(curve.over_draws(curve.past)[best]),
                        "RMSE new": float(curve.over_draws(curve.new)[best]), "draws": len(curve.past),
                    }
                )  # fmt: skip
        settings.progress(done, len(cases))
    return Outcome(
        "edbt12-figure-4", tuple(rows), claims=tuple(claims.setting_claims(curves)), chart=_settings_chart(rows)
    )


def _settings_chart(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    """Above by the number of queries, below by the noise; dashes tell the methods apart."""
    varied = {
        "queries": [row for row in rows if row["noise scale"] == _SCALE],
        "noise scale": [row for row in rows if row["queries"] == _QUERIES],
    }
    return charts.stacked(
        _prior_chart(
            own,
            {trials.KERNEL: trials.KERNEL, trials.ENTROPY: trials.ENTROPY},
            "method",
            x=charts.logarithmic(name, _numbers(own, name), marked=_numbers(own, name), title=f"{name} ({words})"),
            y=charts.logarithmic("RMSE past", _numbers(own, "RMSE past"), title=_RMSE),
            title=f"Error of past queries at the best alpha, by {name} (EDBT 2012, figure 4)",
        )
        for (name, own), words in zip(
            varied.items(), (f"noise of scale {_SCALE:,.0f}", f"{_QUERIES:,} queries"), strict=True
        )
    )


# Figure 5


def _figure_5(settings: Settings) -> Outcome:
    """CPU seconds of the paper's kernel principal components, of the fast path (the same estimates), and of rows."""
    random, data, priors = _drawn(5, settings)
    prior = priors[trials.BOUGHT]
    numbers = [_QUERIES // 10, _QUERIES // 5, 2 * _QUERIES // 5] + [_QUERIES] * (not settings.quick)
    rows: list[dict[str, Value]] = []
    for number in numbers:
        asked = trials.ask(data, trials.RANGES, number, random)
        history = History.drawn(data, asked, asked, scale=_SCALE, draws=1, random=random)
        answers = history.answers[0] - trials.expected(asked.batch, prior, data.rows)
        noise = np.full(number, 2 * _SCALE**2)
        dense, slow = _timed(lambda: _dense(asked.batch, prior, answers, noise))  # noqa: B023
        fast, quick = _timed(lambda: _fast(asked.batch, prior, answers, noise))  # noqa: B023
        _, sampled = _timed(lambda: _sampled(history, prior, settings.quick))  # noqa: B023
        gap = float(np.abs(dense - fast).max() / np.abs(dense).max())
        rows.append(
            {
                "queries": number, trials.KERNEL: slow, "fast path": quick, trials.ENTROPY: sampled,
                "ratio": slow / quick, "gap": gap,
            }
        )  # fmt: skip
        settings.progress(len(rows), len(numbers))
    return Outcome(
        "edbt12-figure-5",
        tuple(rows),
        claims=tuple(claims.time_claims(rows, whole=numbers[-1] == _QUERIES)),
        chart=_times_chart(rows),
    )


def _dense(batch: QueryBatch, prior: Prior, answers: Floats, noise: Floats) -> Floats:
    products = kernel_of_tables(batch, batch, prior)
    universal = trials.expected(batch, prior, 1.0)
    products -= np.multiply.outer(universal, universal)
    eigen = Eigenqueries.of(products, answers, noise)
    return eigen.estimate(products, np.diag(products), 3e4)[0]


def _fast(batch: QueryBatch, prior: Prior, answers: Floats, noise: Floats) -> Floats:
    structure = CovarianceModel(batch, prior, known=[()])
    return one_alpha(structure, NoisyAnswers(answers, noise=noise), 3e4).estimates(batch, known=[()])


def _sampled(history: History, prior: Prior, quick: bool) -> Floats:
    """Maximum entropy at one alpha."""
    batch, effort = history.past.batch, _effort(quick)
    limits = constraints_of(batch, history.answers[0], rows=history.rows, scale=history.scale)
    posed = Problem(history.data.schema, limits, prior=prior, size=history.rows)
    law = ManyAnswers(posed, batch, rows=effort.rows, random=np.random.default_rng(0))
    law.climb(history.scale / history.rows, 2 * effort.sweeps)
    return law.means(limits, batch.size)


def _timed(work: Callable[[], Floats]) -> tuple[Floats, float]:
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
        if best > 5:
            break
    return found, best


def _times_chart(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    styles = charts.looks(["fast path", trials.KERNEL, trials.ENTROPY])
    values = [{"queries": row["queries"], "method": name, "seconds": row[name]} for row in rows for name in styles]
    numbers = _numbers(values, "queries")
    place: dict[str, Any] = {
        "x": charts.logarithmic("queries", numbers, marked=numbers, title="past queries"),
        "y": charts.logarithmic("seconds", _numbers(values, "seconds"), title="CPU seconds here"),
    }
    return charts.chart(
        charts.least(charts.in_order(values, "method", styles), "seconds", within=["queries"]),
        *charts.curves("method", styles, width=_WIDTH, nested=True, **place),
        charts.rings(**place),
        title="Running time of both methods (EDBT 2012, figure 5)",
        caption=[
            "fast path: the same estimates as kernel PCA; ring: the shortest time",
            "the paper's seconds are of other hardware",
        ],
        pale_grid=True,
        width=_WIDTH,
        height=240,
    )


EXPERIMENTS = (
    Experiment("edbt12-figure-2", "past and new queries with varying alpha (EDBT 2012, 5.1)", _figure_2),
    Experiment("edbt12-figure-3", "errors estimated by cross-validation (EDBT 2012, 5.1)", _figure_3),
    Experiment("edbt12-figure-4", "other numbers of queries and other noise (EDBT 2012, 5.1)", _figure_4),
    Experiment("edbt12-figure-5", "running time of both methods and of the fast path (EDBT 2012, 5.1)", _figure_5),
)
