"""Flat against Direct: from how many attributes on which is better (PriView, SIGMOD 2014, section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.workload import Workload
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.papers.charts import category, chart, dots, layer, legend, quantity
from crosstally_lab.papers.data import Rows
from crosstally_lab.papers.metrics import VERDICT_LEVEL, Interval, decided, mean_interval, sum_of_squared_errors
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Progress, Settings, Value
from crosstally_lab.papers.priview.trials import Case, case_of

if TYPE_CHECKING:
    from crosstally.plans.plan import Plan
    from crosstally.releases import Release
    from crosstally.strategies.strategy import Strategy


# Expected squared errors of one k-way table (section 3), in units of V_u = 2 / epsilon^2


def flat_error(d: int) -> float:
    """Flat: the noise of all 2^d cells adds up, however few attributes are asked for (equation 3).

    >>> flat_error(16)
    65536.0
    """
    return float(2**d)


def direct_error(d: int, k: int) -> float:
    """Direct: C(d, k) tables share epsilon, and each is used as it was drawn (equation 4).

    >>> direct_error(16, 2)
    57600.0
    """
    return float(2**k * math.comb(d, k) ** 2)


def least_squares_error(d: int, k: int) -> float:
    """Direct after least squares: the residual of s attributes is averaged over the C(d-s, k-s) tables that hold it.

    >>> least_squares_error(16, 2)
    16440.0
    """
    kept = sum(math.comb(k, s) / math.comb(d - s, k - s) for s in range(k + 1))
    return direct_error(d, k) / 2.0**k * kept


def crossover(k: int, error: Callable[[int, int], float]) -> int:
    """The smallest d from which on the error is below Flat's.

    Beyond 20 k attributes 2^d has long outgrown every polynomial of degree 2 k.

    >>> crossover(2, direct_error)
    16
    """
    return 1 + max(d for d in range(k, 20 * k) if flat_error(d) <= error(d, k))


# The experiment

# From how many attributes on Direct is better, for each k: the paper's numbers (section 3.2).
_PAPER = {2: 16, 3: 26, 4: 36, 5: 46}
_CONTINUOUS = "continuous Laplace, variance 2 b^2"
_DISCRETE = "discrete Laplace, as released"
_FLAT, _DIRECT, _LEAST_SQUARES = "Flat", "Direct", "Direct + least squares"
_DEFAULT = "crosstally, default"
_DEFAULT_DRAWS = 10  # releases of the default for each size, which no verdict is about
_EPSILON = Fraction(1, 10)  # at scale 1 / 0.1 the discrete noise has 0.9992 of the continuous variance
_UNIT = float(2 / _EPSILON**2)
_QUICK = ((8, 5, 75),)  # attributes, ways and noise draws
# Attributes, ways and noise draws, as above: more draws where tables are few, so that intervals are narrow.
_FULL = ((8, 2, 600), (8, 3, 400), (10, 3, 300), (8, 5, 200))


@dataclass(frozen=True, slots=True)
class Measured:
    """The squared error of one way to answer, as releases showed it, beside what was expected, in V_u."""

    strategy: str
    interval: Interval
    _: KW_ONLY
    d: int
    k: int
    draws: int
    formula: float
    predicted: float

    def to_row(self) -> dict[str, Value]:
        """One row of the experiment."""
        return _row(self.strategy, self.d, self.k, self.formula, _DISCRETE) | {
            "predicted": self.predicted,
            "measured": self.interval.estimate,
            "low": self.interval.low,
            "high": self.interval.high,
            "draws": self.draws,
        }


def _flat_against_direct(settings: Settings) -> Outcome:
    if settings.data is not None:
        raise CrosstallyError("priview-crossover takes no data: the error of linear answers is the same for all data")
    measured = tuple(_measure(_QUICK if settings.quick else _FULL, settings.progress))
    ours = [_default_row(d, k) for d, k, _ in (_QUICK if settings.quick else _FULL)]
    return Outcome(
        "priview-crossover",
        (*_formula_rows(), *(each.to_row() for each in measured), *ours),
        claims=(*_crossover_claims(), *measured_claims(measured)),
        chart=_chart(ours),
    )


def _row(strategy: str, d: int, k: int, formula: float | None, noise: str) -> dict[str, Value]:
    row: dict[str, Value] = {"k": k, "d": d, "strategy": strategy, "unit": "V_u = 2/epsilon^2", "formula": formula}
    return row | {"predicted": None, "measured": None, "low": None, "high": None, "draws": None, "noise": noise}


def _formula_rows() -> Iterator[dict[str, Value]]:
    """The three errors on both sides of each crossover."""
    for k in _PAPER:
        ends = {crossover(k, least_squares_error), crossover(k, direct_error)}
        for d in sorted(ends | {end - 1 for end in ends}):
            for strategy, error in _formulas(d, k).items():
                yield _row(strategy, d, k, error, _CONTINUOUS)


def _formulas(d: int, k: int) -> dict[str, float]:
    return {_FLAT: flat_error(d), _DIRECT: direct_error(d, k), _LEAST_SQUARES: least_squares_error(d, k)}


# Measured on releases


def _case(d: int, k: int) -> Case:
    """Rows of a Markov chain and all their k-way tables."""
    table, schema = markov_chain(1000, d, 3, np.random.default_rng(d))
    return case_of(Rows(table, schema, label="MCHAIN"), {k: Workload.all_ways(schema, k).tables})


def _measure(sizes: Sequence[tuple[int, int, int]], progress: Progress) -> Iterator[Measured]:
    """Flat and Direct, released again and again; the error of a table is averaged over all k-way tables.

    Flat is drawn twice as often: all tables are sums of the same few cells, so one release says less about its error.
    """
    from crosstally.strategies import Direct, Flat

    last = 3 * sum(draws for _, _, draws in sizes)
    steps = iter(range(1, last + 1))
    for d, k, draws in sizes:
        case = _case(d, k)
        flat, direct = _plan(case, Flat()), _plan(case, Direct(budgets="uniform"))
        flat_errors, drawn_errors, fitted_errors = [], [], []
        for _ in range(2 * draws):
            flat_errors.append(_fitted_error(_released(case, flat), case))
            progress(next(steps), last)
        for _ in range(draws):
            released = _released(case, direct)
            drawn_errors.append(_drawn_error(released, case))
            fitted_errors.append(_fitted_error(released, case))
            progress(next(steps), last)
        noise = direct.requests[0].noise.variance
        yield _measured(_FLAT, flat_errors, case, flat_error(d), _predicted(flat, k))
        yield _measured(_DIRECT, drawn_errors, case, direct_error(d, k), 2**k * noise / _UNIT)
        yield _measured(_LEAST_SQUARES, fitted_errors, case, least_squares_error(d, k), _predicted(direct, k))


def _plan(case: Case, strategy: Strategy) -> Plan:
    plan = strategy.plan(case.data.schema, Workload(tuple(case.truth)), Budget(epsilon=_EPSILON))
    if plan is None:
        raise CrosstallyError(f"the strategy {strategy.name} plans nothing")
    return plan


def _released(case: Case, plan: Plan) -> Release:
    """A new release of the rows, negative cells left as they are: the linear estimate."""
    from crosstally.pipeline import release

    return release(case.data.table, plan=plan).refit(nonnegative="none")


def _predicted(plan: Plan, k: int) -> float:
    """What the plan says of the squared error of a k-way table, averaged over all of them."""
    return float(2**k * np.mean([error**2 for error in plan.errors.values()]) / _UNIT)


def _drawn_error(published: Release, case: Case) -> float:
    """The squared error of a table as it was drawn."""
    tables = [(each.values, case.truth[each.query.attributes]) for each in published.measurements]
    return float(np.mean([sum_of_squared_errors(*pair) for pair in tables])) / _UNIT


def _fitted_error(published: Release, case: Case) -> float:
    """The squared error of a table after least squares."""
    answers = published.marginals(list(case.truth))
    pairs = zip((answer.values for answer in answers), case.truth.values(), strict=True)
    return float(np.mean([sum_of_squared_errors(*pair) for pair in pairs])) / _UNIT


def _measured(strategy: str, errors: Sequence[float], case: Case, formula: float, predicted: float) -> Measured:
    interval = mean_interval(errors, level=VERDICT_LEVEL)
    d, (k,) = case.attributes, case.tables
    return Measured(strategy, interval, d=d, k=k, draws=len(errors), formula=formula, predicted=predicted)


def _default_row(d: int, k: int) -> dict[str, Value]:
    """The default release on the same rows: it names no tables and shrinks noise, so that it has no formula."""
    from crosstally.pipeline import release

    case = _case(d, k)
    errors = [
        _fitted_error(release(case.data.table, case.data.schema, epsilon=_EPSILON), case) for _ in range(_DEFAULT_DRAWS)
    ]
    found = mean_interval(errors, level=VERDICT_LEVEL)
    shown = {"measured": found.estimate, "low": found.low, "high": found.high, "draws": _DEFAULT_DRAWS}
    return _row(_DEFAULT, d, k, None, _DISCRETE) | shown


# Verdicts


def _crossover_claims() -> Iterator[Claim]:
    for k, paper in _PAPER.items():
        found = crossover(k, direct_error)
        before, there = (f"{direct_error(d, k) / flat_error(d):.3f} at d = {d}" for d in (found - 1, found))
        yield Claim(
            f"Direct beats Flat from d = {paper} on for k = {k}",
            of="paper",
            holds=found == paper,
            figure=f"from d = {found} on: error of Direct over that of Flat is {before} and {there}",
        )
    earlier = {k: crossover(k, least_squares_error) for k in _PAPER}
    yield Claim(
        "with least squares on its overlapping tables Direct beats Flat earlier",
        of="crosstally",
        holds=all(earlier[k] < crossover(k, direct_error) for k in _PAPER),
        figure="from " + ", ".join(f"d = {d} (k = {k})" for k, d in earlier.items()) + " on",
    )


def measured_claims(measured: Sequence[Measured]) -> Iterator[Claim]:
    """The verdicts that rest on releases: formulas and predictions lie inside the intervals of what was measured."""
    flat, direct, fitted = ([m for m in measured if m.strategy == name] for name in (_FLAT, _DIRECT, _LEAST_SQUARES))
    yield Claim(
        "Flat's expected squared error is 2^d V_u",
        of="paper",
        holds=all(each.formula in each.interval for each in flat),
        figure=_deviation([(each.formula, each.interval) for each in flat]),
    )
    yield Claim(
        "Direct's expected squared error is 2^k C(d,k)^2 V_u, its tables used as drawn",
        of="paper",
        holds=all(each.formula in each.interval for each in direct),
        figure=_deviation([(each.formula, each.interval) for each in direct]),
    )
    yield Claim(
        "the error predicted before anything is spent equals the measured one",
        of="crosstally",
        holds=all(each.predicted in each.interval for each in measured),
        figure=_deviation([(each.predicted, each.interval) for each in measured]),
    )
    gains = {(each.d, each.k): direct_error(each.d, each.k) / each.interval.estimate for each in fitted}
    yield Claim(
        "least squares on Direct's overlapping tables lowers its error below 2^k C(d,k)^2 V_u",
        of="crosstally",
        holds=decided(
            holds=all(each.interval.high < direct_error(each.d, each.k) for each in fitted),
            fails=any(each.interval.low >= direct_error(each.d, each.k) for each in fitted),
        ),
        figure=", ".join(f"{gain:.2f} x lower at d = {d}, k = {k}" for (d, k), gain in gains.items()),
    )


def _deviation(pairs: Sequence[tuple[float, Interval]]) -> str:
    """How far the measured means lie from what was expected, and how far chance alone may take them."""
    off = max(abs(interval.estimate / expected - 1) for expected, interval in pairs)
    width = max((interval.high - interval.estimate) / expected for expected, interval in pairs)
    return f"off by at most {off:.1%}; intervals of ±{width:.1%} hold all but 1e-7 of chance"


# Chart


def _chart(ours: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    """Error against the number of attributes on a logarithmic scale, a line for each k and one for Flat.

    Names stand at the ends of lines. Points by themselves are the default release, as measured.
    """
    lines: list[dict[str, Any]] = [
        {"d": d, "error": error, "strategy": strategy, "line": _FLAT if strategy == _FLAT else f"Direct, k = {k}"}
        for k in _PAPER
        for d in range(6, 51)
        for strategy, error in _formulas(d, k).items()
    ]
    crossings = [{"d": d, "error": direct_error(d, k), "note": f"d = {d}"} for k, d in _PAPER.items()]
    measured: list[dict[str, Any]] = [
        {"d": row["d"], "error": row["measured"], "line": f"Direct, k = {row['k']}", "kind": f"k = {row['k']}"}
        for row in ours
    ]
    last = max(line["d"] for line in lines)
    ends = {line["line"]: line for line in lines if line["d"] == last and line["strategy"] != _LEAST_SQUARES}
    text = {"type": "text", "align": "left", "dx": 8, "dy": 8}
    place = {
        "x": quantity(
            "d", domain=(6, last + 7), title="number of attributes, d", axis={"values": list(range(10, last + 1, 5))}
        ),
        "y": quantity(
            "error",
            log=True,
            title="expected squared error, in noise variances 2/ε²",
            axis={"format": ".0e", "tickCount": 8},
        ),
    }
    colours = category("line", _COLOURS, title=None, legend=None)
    dashes = category("strategy", _DASHES, title=None, legend={**legend(_DASHES), **_STROKES})
    shown = {name: shape for name, shape in _SHAPES.items() if any(each["kind"] == name for each in measured)}
    shapes = category("kind", shown, title="default release", legend={**legend(shown), "titleOrient": "left"})
    return chart(
        lines,
        layer({"type": "line", "strokeWidth": 1.6}, **place, color=colours, strokeDash=dashes),
        layer({"type": "point", "color": "black", "opacity": 1}, crossings, **place),
        layer({**text, "stroke": "white", "strokeWidth": 4}, crossings, **place, text={"field": "note"}),  # above lines
        layer(text, crossings, **place, text={"field": "note"}),
        layer({**text, "dy": 0}, ends.values(), **place, text={"field": "line"}, color=colours),
        layer(dots(70, opacity=1), measured, **place, color=colours, shape=shapes),
        title="Flat against Direct: expected squared error of a k-way table (PriView, 3.2)",
        caption="circles: from here on Direct is better than Flat; filled points: default releases, measured",
        pale_grid=True,
        width=_WIDTH,
        height=400,
    )


_WIDTH = 640  # pixels
_COLOURS = dict(
    zip(
        (_FLAT, *(f"Direct, k = {k}" for k in _PAPER)),
        ("#000000", "#0072B2", "#E69F00", "#D55E00", "#009E73"),
        strict=True,
    )
)
_SHAPES = dict(zip((f"k = {k}" for k in _PAPER), ("square", "triangle-up", "diamond", "cross"), strict=True))
_DASHES = {_FLAT: [10, 2], _DIRECT: [1, 0], _LEAST_SQUARES: [4, 3]}  # pixels drawn and left out of each line
_STROKES = {"symbolType": "stroke", "symbolStrokeWidth": 1.6, "symbolSize": 400}  # long enough for dashes


EXPERIMENTS = (
    Experiment("priview-crossover", "Flat against Direct: which has less error (PriView, 3.2)", _flat_against_direct),
)
