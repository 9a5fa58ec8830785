"""The experiments of EDBT 2012 on integrating past answers (section 5.1, figures 2 to 5)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from crosstally.notebook.history.alpha import cross_validated, one_alpha
from crosstally.notebook.history.bundles import Batch, Bundle, parts_of, projected
from crosstally.notebook.history.components import Past, Solution, Structure
from crosstally.notebook.history.likelihood import Belief, fit
from crosstally.notebook.history.prior import Prior
from crosstally.papers.charts import LINE, category, chart, layer, quantity
from crosstally.papers.edbt12.census import Census, census
from crosstally.papers.edbt12.eigenqueries import Eigenqueries
from crosstally.papers.edbt12.products import kernel_of_tables
from crosstally.papers.outcomes import Claim, Experiment, Outcome, Settings, Value
from crosstally.typing import Floats

__all__ = ["EXPERIMENTS"]

# Past queries (and as many new ones) and the scale of their Laplace noise, as in section 5.1; draws of the noise, over
# which figures are means. Fewer draws make them less steady.
_QUERIES, _SCALE, _DRAWS = 5000, 5000.0, 5
# What all tables of single attributes cost together, as in section 5.1: each has noise of their number over this.
_PRIOR_EPSILON = 0.02
# The grid of alphas is refined to such steps about its best: errors are flat there, and a finer one changes nothing.
_STEP = 1.1
_UNIFORM, _BOUGHT = "uniform", "bought"
_RANGES, _ARBITRARY = "2-D ranges", "arbitrary 2-D counts"


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Queries and their true answers."""

    batch: Batch
    truth: Floats
    _: KW_ONLY
    kind: str


def _asked(data: Census, kind: str, number: int, random: np.random.Generator) -> _Asked:
    """Random queries of a kind: every pair of attributes is as likely, and so is every range or every set of cells."""
    pairs = list(data.pairs)
    which = random.integers(0, len(pairs), number)
    truth = np.zeros(number)
    bundles = []
    for p, (i, j) in enumerate(pairs):
        rows = np.flatnonzero(which == p)
        if not len(rows):
            continue
        sizes = data.schema.shape[i], data.schema.shape[j]
        if kind == _RANGES:
            first, second = (_intervals(n, len(rows), random) for n in sizes)
            tables = first[:, :, None] * second[:, None, :]
        else:
            tables = random.integers(0, 2, (len(rows), *sizes)).astype(np.float64)
        bundles.append(Bundle((i, j), rows, tables))
        truth[rows] = np.tensordot(tables, data.pairs[i, j], axes=2)
    return _Asked(Batch(data.schema, tuple(bundles), number), truth, kind=kind)


def _intervals(size: int, number: int, random: np.random.Generator) -> Floats:
    ends = np.sort(random.integers(0, size, (2, number)), axis=0)
    values = np.arange(size)
    return np.asarray((values >= ends[0][:, None]) & (values <= ends[1][:, None]), np.float64)


def _priors(data: Census, random: np.random.Generator) -> dict[str, Prior]:
    """Nothing believed, and all counts of single attributes bought for 0.02 of epsilon, once."""
    scale = len(data.codes) / _PRIOR_EPSILON
    noisy = {
        name: data.counts(i) + random.laplace(0, scale, data.schema.shape[i])
        for i, name in enumerate(data.schema.names)
    }
    variances = dict.fromkeys(noisy, 2 * scale**2)
    return {
        _UNIFORM: Prior.uniform(data.schema),
        _BOUGHT: Prior.of(data.schema, noisy),
        "default": Prior.of(data.schema, noisy, variances),
    }


def _expected(batch: Batch, prior: Prior, rows: float) -> Floats:
    """The answers were the rows as the prior says; the number of rows is public, as in the paper."""
    out = np.zeros(batch.size)
    for bundle in batch.bundles:
        out[bundle.rows] = rows * projected(bundle, (), prior)[:, 0]
    return out


def _rms(gaps: Floats) -> float:
    return math.sqrt(float(np.mean(gaps**2)))


def _alphas(quick: bool) -> list[float]:
    """From 3,000 to 300,000 in steps of at most 1.1 x, of 1.6 x when quick; the best is then refined."""
    steps = 11 if quick else 49
    return [float(alpha) for alpha in np.geomspace(3e3, 3e5, steps)]


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """For each alpha the root mean squared error of past and of new queries, over all draws."""

    alphas: list[float]
    past: list[float]
    new: list[float]


class _Trial:
    """Past and new queries with several draws of noise under one prior."""

    def __init__(
        self, data: Census, prior: Prior, asked: tuple[_Asked, _Asked], answers: Floats, scale: float = _SCALE
    ) -> None:
        past, new = self.past, self.new = asked
        self.prior, self.answers = prior, answers
        self.noise = np.full(past.batch.size, 2 * scale**2)
        self.scale, self.rows = scale, float(data.rows)
        self.known = _expected(past.batch, prior, self.rows)
        self.known_new = _expected(new.batch, prior, self.rows)
        self.structure = Structure(past.batch, prior, known=[()])
        self.new_parts = [
            (bundle.rows, part, projected(bundle, part, prior))
            for bundle in new.batch.bundles
            for part in parts_of(bundle.positions)
            if part
        ]

    def past_answers(self, draw: int) -> Past:
        return Past(self.answers[draw] - self.known, noise=self.noise)

    def gaps(self, solution: Solution) -> tuple[Floats, Floats]:
        """How far estimates of past and new queries are from the truth."""
        past = solution.past.answers - solution.past.noise * solution.weights + self.known - self.past.truth
        new = self.known_new - self.new.truth
        for rows, part, features in self.new_parts:
            if part in solution.coefficients:
                new[rows] += features @ solution.coefficients[part]
        return past, new

    def at(self, alpha: float, draws: Sequence[int]) -> tuple[float, float]:
        """The errors of a single alpha."""
        first = one_alpha(self.structure, self.past_answers(draws[0]), alpha)
        found = [self.gaps(first.with_answers(self.past_answers(draw).answers)) for draw in draws]
        return tuple(math.sqrt(np.mean([_rms(each[i]) ** 2 for each in found])) for i in (0, 1))  # type: ignore[return-value]

    def curve(self, alphas: Sequence[float], draws: Sequence[int]) -> _Curve:
        """The errors of a grid of alphas, refined about the best for past queries to steps of 1.1 x."""
        found = {alpha: self.at(alpha, draws) for alpha in alphas}
        best = min(found, key=lambda alpha: found[alpha][0])
        step = alphas[1] / alphas[0]
        if step > _STEP:
            parts = math.ceil(math.log(step) / math.log(_STEP))
            around = [best * step ** (k / parts) for k in range(-parts, parts + 1) if k]
            found |= {alpha: self.at(alpha, draws) for alpha in around}
        ordered = sorted(found)
        return _Curve(ordered, [found[a][0] for a in ordered], [found[a][1] for a in ordered])

    def default(self, draw: int) -> Solution:
        """What a notebook does: variances and how attributes go together are learned, Laplace noise used in full."""
        past, fixed = self.past_answers(draw), self.prior.known_variances
        scales = np.full(len(past.answers), self.scale)
        belief = Belief((0.1 * self.rows) ** 2, 4.0)
        return fit(self.structure, past, scales=scales, fixed=fixed, belief=belief).solution


def _draws(truth: Floats, scale: float, random: np.random.Generator) -> Floats:
    return np.asarray(truth + random.laplace(0, scale, (_DRAWS, len(truth))))


# Figures


def _figure_2(settings: Settings) -> Outcome:
    random = np.random.default_rng(2012)
    data = census(random, path=settings.data)
    priors = _priors(data, random)
    rows: list[dict[str, Value]] = []
    claims: list[Claim] = []
    done = 0
    for past_kind, new_kind in ((_RANGES, _RANGES), (_ARBITRARY, _RANGES)):
        past, new = (_asked(data, kind, _QUERIES, random) for kind in (past_kind, new_kind))
        answers = _draws(past.truth, _SCALE, random)
        curves = {}
        for name in (_UNIFORM, _BOUGHT):
            trial = _Trial(data, priors[name], (past, new), answers)
            curves[name] = trial.curve(_alphas(settings.quick), range(_DRAWS))
            rows += _curve_rows(curves[name], past, new, name)
            settings.progress(done := done + 1, 6)
        trial = _Trial(data, priors["default"], (past, new), answers)
        found = list(_default_rows(trial, past, new))
        rows += [row for row, _ in found]
        claims += _default_claims(
            past.kind, [each for _, each in found], min(curves[_BOUGHT].past), answers - past.truth
        )
        settings.progress(done := done + 1, 6)
    chart = _chart(rows, "RMSE with varying alpha (EDBT 2012, figure 2)")
    return Outcome("edbt12-figure-2", tuple(rows), claims=(*claims, *_shape_claims(rows)), chart=chart)


def _curve_rows(curve: _Curve, past: _Asked, new: _Asked, prior: str) -> Iterator[dict[str, Value]]:
    for alpha, before, after in zip(curve.alphas, curve.past, curve.new, strict=True):
        yield {
            "past": past.kind, "new": new.kind, "method": "kernel PCA", "prior": prior, "alpha": alpha,
            "RMSE past": before, "RMSE new": after,
        }  # fmt: skip


def _default_rows(trial: _Trial, past: _Asked, new: _Asked) -> Iterator[tuple[dict[str, Value], tuple[float, ...]]]:
    for draw in range(_DRAWS):
        solution = trial.default(draw)
        gaps = trial.gaps(solution)
        errors = np.sqrt(solution.errors(new.batch, {}, known=[()]))
        inside = float(np.mean(np.abs(gaps[1]) <= 1.959964 * errors + 1e-6))
        oracle = float(np.quantile(np.abs(gaps[1]), 0.95))
        width = 1.959964 * float(np.mean(errors)) / oracle
        row: dict[str, Value] = {
            "past": past.kind, "new": new.kind, "method": "crosstally", "prior": _BOUGHT, "alpha": None,
            "RMSE past": _rms(gaps[0]), "RMSE new": _rms(gaps[1]), "draw": draw + 1, "coverage": inside,
            "width of oracle's": width,
        }  # fmt: skip
        yield row, (_rms(gaps[0]), _rms(gaps[1]), inside, width)


def _default_claims(kind: str, found: Sequence[tuple[float, ...]], best: float, noise: Floats) -> Iterator[Claim]:
    mean = math.sqrt(float(np.mean([each[0] ** 2 for each in found])))
    yield Claim(
        f"the default has at most 0.85 x the RMSE of the best single alpha, chosen on the truth (past {kind})",
        of="crosstally",
        holds=mean <= 0.85 * best,
        figure=f"{mean:,.0f} against {best:,.0f}: {mean / best:.3f} x; raw answers {_rms(noise):,.0f}",
    )
    if kind == _RANGES:
        inside = float(np.mean([each[2] for each in found]))
        width = float(np.mean([each[3] for each in found]))
        yield Claim(
            "95% error bars of new queries cover 92% to 98%, their mean width at most 1.5 x the oracle's",
            of="crosstally",
            holds=0.92 <= inside <= 0.98 and width <= 1.5,
            figure=f"{inside:.1%}, {width:.2f} x",
        )


def _shape_claims(rows: Sequence[dict[str, Value]]) -> Iterator[Claim]:
    least = {
        (row["past"], row["prior"]): min(
            float(each["RMSE past"] or 0)
            for each in rows
            if (each["past"], each["prior"], each["method"]) == (row["past"], row["prior"], "kernel PCA")
        )
        for row in rows
    }
    for kind in (_RANGES, _ARBITRARY):
        ratio = least[kind, _BOUGHT] / least[kind, _UNIFORM]
        yield Claim(
            f"the prior gives a significant boost to kernel PCA, at its best alpha (past {kind})",
            of="paper",
            holds=ratio < 0.9,
            figure=f"{least[kind, _BOUGHT]:,.0f} against {least[kind, _UNIFORM]:,.0f}: {ratio:.2f} x",
        )


def _figure_3(settings: Settings) -> Outcome:
    """Errors estimated by five-fold cross-validation against true ones, for new queries."""
    random = np.random.default_rng(3)
    data = census(random, path=settings.data)
    priors = _priors(data, random)
    past, new = (_asked(data, _RANGES, _QUERIES, random) for _ in range(2))
    answers = _draws(past.truth, _SCALE, random)
    folds = random.integers(0, 5, _QUERIES)
    alphas = np.geomspace(3e3, 3e5, 9 if settings.quick else 25).tolist()
    rows: list[dict[str, Value]] = []
    picks = []
    for name in (_UNIFORM, _BOUGHT):
        trial = _Trial(data, priors[name], (past, new), answers)
        draws = range(_DRAWS)
        true = [trial.at(alpha, draws)[1] for alpha in alphas]
        squares = [
            cross_validated(trial.structure, trial.past_answers(draw), folds, alphas, known=[()]) for draw in draws
        ]
        validated = np.sqrt(np.maximum(np.mean(squares, axis=0), 0)).tolist()
        rows += [
            {"prior": name, "alpha": a, "RMSE new": t, "cross-validated": v}
            for a, t, v in zip(alphas, true, validated, strict=True)
        ]
        picks.append((name, true[int(np.argmin(validated))] / min(true)))
        settings.progress(len(picks), 2)
    claims = [
        Claim(
            f"the alpha that cross-validation chooses is as good as the best one, to 5% ({name} prior)",
            of="paper",
            holds=ratio <= 1.05,
            figure=f"{ratio:.3f} x",
        )
        for name, ratio in picks
    ]
    chart = _chart(
        [
            {**row, "method": m, "RMSE past": row[c]}
            for row in rows
            for m, c in (("true", "RMSE new"), ("cross-validated", "cross-validated"))
        ],
        "Errors of new queries, true and cross-validated (EDBT 2012, figure 3)",
    )
    return Outcome("edbt12-figure-3", tuple(rows), claims=tuple(claims), chart=chart)


def _figure_4(settings: Settings) -> Outcome:
    """Errors of past ranges with a bought prior, for other numbers of queries and other noise."""
    random = np.random.default_rng(4)
    data = census(random, path=settings.data)
    priors = _priors(data, random)
    cases = [
        (_QUERIES // 5, _SCALE),
        (_QUERIES // 2, _SCALE),
        (_QUERIES, _SCALE),
        (_QUERIES, 1250.0),
        (_QUERIES, 20_000.0),
    ]
    rows: list[dict[str, Value]] = []
    draws = range(_DRAWS)
    for number, scale in cases:
        past, new = (_asked(data, _RANGES, number, random) for _ in range(2))
        answers = _draws(past.truth, scale, random)
        for name in (_UNIFORM, _BOUGHT):
            trial = _Trial(data, priors[name], (past, new), answers, scale)
            curve = trial.curve(np.geomspace(3e3, 3e5, 9).tolist(), draws)
            best = int(np.argmin(curve.past))
            rows.append(
                {
                    "queries": number, "noise scale": scale, "prior": name, "alpha": curve.alphas[best],
                    "raw": math.sqrt(2) * scale, "RMSE past": curve.past[best], "RMSE new": curve.new[best],
                }
            )  # fmt: skip
        settings.progress(len(rows) // 2, len(cases))
    better = [float(rows[i + 1]["RMSE past"] or 0) < float(rows[i]["RMSE past"] or 0) for i in range(0, len(rows), 2)]
    claim = Claim(
        "with the best alpha the prior lowers the error for every number of queries and every noise",
        of="paper",
        holds=all(better),
        figure=f"{sum(better)} of {len(better)} settings",
    )
    return Outcome("edbt12-figure-4", tuple(rows), claims=(claim,))


def _figure_5(settings: Settings) -> Outcome:
    """CPU seconds of the paper's kernel principal components and of the fast path, the same estimates."""
    random = np.random.default_rng(5)
    data = census(random, path=settings.data)
    prior = _priors(data, random)[_BOUGHT]
    numbers = [_QUERIES // 10, _QUERIES // 5, 2 * _QUERIES // 5] + [_QUERIES] * (not settings.quick)
    rows: list[dict[str, Value]] = []
    for number in numbers:
        asked = _asked(data, _RANGES, number, random)
        answers = _draws(asked.truth, _SCALE, random)[0] - _expected(asked.batch, prior, data.rows)
        noise = np.full(number, 2 * _SCALE**2)
        dense, slow = _timed(lambda: _dense(asked.batch, prior, answers, noise))  # noqa: B023
        fast, quick = _timed(lambda: _fast(asked.batch, prior, answers, noise))  # noqa: B023
        gap = float(np.abs(dense - fast).max() / np.abs(dense).max())
        rows.append({"queries": number, "kernel PCA": slow, "fast path": quick, "ratio": slow / quick, "gap": gap})
        settings.progress(len(rows), len(numbers))
    gap = max(float(row["gap"] or 0) for row in rows)
    claims = [Claim("the fast path gives the same estimates", of="crosstally", holds=gap <= 1e-8, figure=f"{gap:.1e}")]
    if numbers[-1] == _QUERIES:  # the dense path is cubic: with fewer queries, as in a quick run, it is not so slow
        claims.append(
            Claim(
                f"the fast path needs at most a fortieth of the time at {_QUERIES:,} queries",
                of="crosstally",
                holds=float(rows[-1]["ratio"] or 0) >= 40,
                figure=f"{rows[-1]['ratio']:.0f} x",
            )
        )
    return Outcome("edbt12-figure-5", tuple(rows), claims=tuple(claims))


def _dense(batch: Batch, prior: Prior, answers: Floats, noise: Floats) -> Floats:
    products = kernel_of_tables(batch, batch, prior)
    universal = _expected(batch, prior, 1.0)
    products -= np.multiply.outer(universal, universal)
    eigen = Eigenqueries.of(products, answers, noise)
    return eigen.estimate(products, np.diag(products), 3e4)[0]


def _fast(batch: Batch, prior: Prior, answers: Floats, noise: Floats) -> Floats:
    structure = Structure(batch, prior, known=[()])
    return one_alpha(structure, Past(answers, noise=noise), 3e4).estimates(batch, known=[()])


def _timed(work: Callable[[], Floats]) -> tuple[Floats, float]:
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
        if best > 5:
            break
    return found, best


def _chart(rows: Sequence[dict[str, Value]], title: str) -> dict[str, Any]:
    lines = layer(
        LINE,
        x=quantity("alpha", log=True),
        y=quantity("RMSE past", log=True, title="RMSE"),
        color=category("prior"),
        strokeDash=category("method"),
    )
    drawn = [row for row in rows if row.get("alpha") is not None]
    return chart(drawn, lines, title=title, panels={"column": category("past")})


EXPERIMENTS = (
    Experiment("edbt12-figure-2", "past and new queries with varying alpha (EDBT 2012, 5.1)", _figure_2),
    Experiment("edbt12-figure-3", "errors estimated by cross-validation (EDBT 2012, 5.1)", _figure_3),
    Experiment("edbt12-figure-4", "other numbers of queries and other noise (EDBT 2012, 5.1)", _figure_4),
    Experiment("edbt12-figure-5", "running time of kernel PCA and of the fast path (EDBT 2012, 5.1)", _figure_5),
)
