"""Noisy Fourier coefficients, the nearest table of rows, and the bounds on its error (Barak et al., PODS 2007).

Noise comes from numpy: these are simulations over generated or public rows, and nothing here is a release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.sources import count
from crosstally.typing import Floats
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.papers.charts import category, chart, dots, layer, legend, logarithmic
from crosstally_lab.papers.data import Rows, read_binary
from crosstally_lab.papers.metrics import VERDICT_LEVEL, below, ratio_interval, share_interval, within
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value
from crosstally_lab.papers.pods07.shift import gamma_shift, needed_shift, paper_shift

if TYPE_CHECKING:
    from crosstally.inference.integers.programs import FittedTable


_WAYS = 2  # tables of pairs: the smallest for which coefficients are shared
# Chosen: the theorems hold for all. At this delta a bound may fail in one of twenty draws.
_EPSILON, _DELTA = 1.0, 0.05
_ROWS = 10_000  # generated rows. Chosen: the bounds on noise do not depend on their number
_QUICK, _FULL = ((8, 12),), ((8, 300), (10, 30))  # attributes and draws; 297 without a failure show 5%
_MOST_ATTRIBUTES = 12  # limits time: linear programs over all cells. Of a file, the first attributes are taken
_PAPER, _EXACT, _MARGINALS = "coefficients, scale of the paper", "coefficients, exact scale", "marginals (4.2)"
_DEFAULT = "crosstally, default release"
_DEFAULT_DRAWS = 12  # releases of the default at most, which no verdict is about
_SHIFT_ATTRIBUTES = 16  # of the simulated shift. Chosen: 65,536 cells, which milliseconds transform
_SHIFT_TIMES = (0.25, 0.1)  # t of corollary 1: one where it holds, one where it does not
_QUICK_SHIFTS, _FULL_SHIFTS = 300, 4_000  # draws of the noise table, 7 ms each
_SHIFT_FAILURE = 0.05  # how often the simulated shift may leave a negative cell: delta of the theorems
_SLACK = 1e-6  # of the solver, relative to the largest noise


def bound_of_theorem_7(ways: int, coefficients: int, *, epsilon: float, delta: float) -> float:
    """What the L1 error of every table over so many attributes stays below with probability 1 - delta (equation 12).

    >>> round(bound_of_theorem_7(2, 37, epsilon=1.0, delta=0.05), 1)
    7859.3
    """
    return 2.0**ways * 8 * coefficients * math.log(coefficients / delta) / epsilon + coefficients


def bound_of_theorem_8(ways: int, tables: int, cells: int, *, epsilon: float, delta: float) -> float:
    """The same when tables are measured themselves: so many, with so many cells together (equation 13)."""
    return 2.0**ways * 8 * tables * math.log(cells / delta) / epsilon + cells


def exact_sensitivity(attributes: int, ways: int) -> int:
    """How far all coefficients of up to so many attributes move together when a row is replaced.

    >>> exact_sensitivity(16, 2)
    144
    """
    return 2 * max(
        sum(odd_intersections(attributes, order, changed) for order in range(ways + 1))
        for changed in range(attributes + 1)
    )


def odd_intersections(attributes: int, order: int, changed: int) -> int:
    """How many sets of ``order`` of some attributes hold an odd number of those changed.

    >>> max(sum(odd_intersections(16, order, z) for order in (0, 1, 2)) for z in range(17))
    72
    """
    rest = attributes - changed
    return sum(math.comb(changed, j) * math.comb(rest, order - j) for j in range(1, order + 1, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One draw of noise: how far the nearest table of rows is from the truth, and what bounds it.

    ``errors`` and ``bounds`` are the largest L1 error of a table, and the theorem's bound, by the number of attributes.
    ``most_cells`` is how many non-zero cells a vertex may have.
    """

    measured: str
    attributes: int
    scale: float
    largest_noise: float
    optimum: float
    cells: int
    most_cells: int
    errors: Mapping[int, float]
    bounds: Mapping[int, float]
    rounding: float


def _pods07(settings: Settings) -> Outcome:
    sizes = _QUICK if settings.quick else _FULL
    steps, runs, label = sum(draws for _, draws in sizes), list[Run](), ""
    ours: dict[int, list[dict[int, float]]] = {}
    for attributes, draws in sizes:
        data = _rows(settings, attributes)
        label = data.label
        for draw in range(draws):
            runs += _runs(data, np.random.default_rng([draw, attributes]))
            settings.progress(min(len(runs) // 3, steps), steps)
        ours[len(data.schema.names)] = [_default_errors(data) for _ in range(min(draws, _DEFAULT_DRAWS))]
    shifts = _shifts(_QUICK_SHIFTS if settings.quick else _FULL_SHIFTS)
    return Outcome(
        "pods07",
        (*_rows_of(runs, label), *_default_rows(ours, label), *_sensitivity_rows(), *_shift_rows(shifts)),
        claims=(*run_claims(runs), *_sensitivity_claims(), *shift_claims(shifts)),
        chart=_chart(runs, ours),
    )


def _rows(settings: Settings, attributes: int) -> Rows:
    if settings.data is None:
        table, schema = markov_chain(_ROWS, attributes, 3, np.random.default_rng(attributes))
        return Rows(table, schema, label="generated Markov chain")
    table, schema = read_binary(settings.data)
    if len(schema.names) < 3:
        raise CrosstallyError(f"pods07 needs a file of at least 3 columns, got {len(schema.names)}")
    names = schema.names[: min(attributes, _MOST_ATTRIBUTES)]
    return Rows(table.select(names), schema.subset(*names), label=settings.data.name)


# One draw


def _runs(data: Rows, random: np.random.Generator) -> Iterator[Run]:
    """The three ways to measure, each with its own noise."""
    names, tables = data.schema.names, [*combinations(data.schema.names, 1), *combinations(data.schema.names, 2)]
    counted = count(data.table, data.schema, [names])[0]
    truth = {table: counted.marginal(table).counts for table in ((), *tables)}
    queries: list[Query] = [Contrast(table) if table else Cells(()) for table in truth]
    number, pairs = len(queries), list[Query](Cells(table) for table in tables if len(table) == _WAYS)
    exact = exact_sensitivity(len(names), _WAYS) / _EPSILON
    seventh = {k: bound_of_theorem_7(k, number, epsilon=_EPSILON, delta=_DELTA) for k in (1, 2)}
    eighth = bound_of_theorem_8(_WAYS, len(pairs), 4 * len(pairs), epsilon=_EPSILON, delta=_DELTA)
    for measured, asked, scale, bounds in (
        (_PAPER, queries, 2 * number / _EPSILON, seventh),
        (_EXACT, queries, exact, seventh),
        (_MARGINALS, pairs, 2 * len(pairs) / _EPSILON, {_WAYS: eighth}),
    ):
        yield _run(measured, data, truth=truth, queries=asked, scale=scale, bounds=bounds, random=random)


def _run(
    measured: str,
    data: Rows,
    *,
    truth: Mapping[tuple[str, ...], NDArray[np.int64]],
    queries: Sequence[Query],
    scale: float,
    bounds: Mapping[int, float],
    random: np.random.Generator,
) -> Run:
    from crosstally.inference.integers.cell_columns import Target
    from crosstally.inference.integers.programs import nearest_table

    noise = [_noise(query, data, scale, measured, random) for query in queries]
    targets = [
        Target(query, query.answer(truth[query.attributes]) + error)
        for query, error in zip(queries, noise, strict=True)
    ]
    fitted = nearest_table(data.schema, targets)
    rounded = np.rint(fitted.weights)
    errors = {
        ways: max(_l1_error(fitted, rounded, table, counts) for table, counts in truth.items() if len(table) == ways)
        for ways in bounds
    }
    return Run(
        measured=measured,
        attributes=len(data.schema.names),
        scale=scale,
        largest_noise=max(float(np.abs(each).max()) for each in noise),
        optimum=fitted.distance,
        cells=len(fitted.weights),
        most_cells=sum(each.size for each in noise),
        errors=errors,
        bounds=bounds,
        rounding=float(np.abs(rounded - fitted.weights).sum()),
    )


def _noise(query: Query, data: Rows, scale: float, measured: str, random: np.random.Generator) -> NDArray[np.float64]:
    """Laplace noise for each number; with the exact scale none for the number of rows, which replacing keeps."""
    drawn = random.laplace(0, scale, query.shape(data.schema))
    return np.zeros_like(drawn) if measured == _EXACT and not query.attributes else np.asarray(drawn)


def _l1_error(
    fitted: FittedTable, weights: NDArray[np.float64], table: tuple[str, ...], counts: NDArray[np.int64]
) -> float:
    out = np.zeros(counts.shape)
    np.add.at(out, tuple(fitted.cells[:, fitted.schema.positions[name]] for name in table), weights)
    return float(np.abs(out - counts).sum())


def _default_errors(data: Rows) -> dict[int, float]:
    """The largest L1 error of a table, by its number of attributes, in a default release with the paper's guarantee.

    Neighbours are tables of which one row is replaced, so that the number of rows is public, as in the paper.
    """
    from crosstally.pipeline import release

    tables = {k: list(combinations(data.schema.names, k)) for k in range(1, _WAYS + 1)}
    made = release(data.table, data.schema, epsilon=_EPSILON, neighbours="replace", rows=data.table.num_rows)
    out = {}
    for k, some in tables.items():
        truth = count(data.table, data.schema, some)
        found = made.marginals(some)
        out[k] = max(float(np.abs(a.values - b.counts).sum()) for a, b in zip(found, truth, strict=True))
    return out


# Rows and verdicts


def _default_rows(ours: Mapping[int, Sequence[Mapping[int, float]]], label: str) -> Iterator[dict[str, Value]]:
    for attributes, draws in ours.items():
        for ways in draws[0]:
            errors = [each[ways] for each in draws]
            yield {"data": label, "attributes": attributes, "measured": _DEFAULT, "ways": ways, **_summary(errors)}


def _summary(errors: Sequence[float]) -> dict[str, Value]:
    """The largest errors of all draws."""
    return {
        "draws": len(errors),
        "mean_largest_l1_error": float(np.mean(errors)),
        "q95_largest_l1_error": float(np.quantile(errors, 0.95)),
    }


def _rows_of(runs: Sequence[Run], label: str) -> Iterator[dict[str, Value]]:
    """For each way to measure and number of attributes of a table: errors, bound, and how loose it is."""
    for measured, attributes in dict.fromkeys((run.measured, run.attributes) for run in runs):
        some = [run for run in runs if (run.measured, run.attributes) == (measured, attributes)]
        for ways, bound in some[0].bounds.items():
            errors = [run.errors[ways] for run in some]
            yield {
                "data": label,
                "attributes": attributes,
                "measured": measured,
                "ways": ways,
                "scale": some[0].scale,
                **_summary(errors),
                "bound": bound,
                "times_too_large": bound / float(np.quantile(errors, 0.95)),
                "mean_cells": float(np.mean([run.cells for run in some])),
                "most_cells": some[0].most_cells,
            }


def _sensitivity_rows() -> Iterator[dict[str, Value]]:
    for attributes in (8, 10, 16):
        number = sum(math.comb(attributes, k) for k in range(_WAYS + 1))
        exact = exact_sensitivity(attributes, _WAYS)
        yield {"attributes": attributes, "measured": "sensitivity", "paper_sensitivity": 2 * number, "exact": exact}


def run_claims(runs: Sequence[Run]) -> Iterator[Claim]:
    """The verdicts on the theorems, from all draws."""
    fourier = [run for run in runs if run.measured == _PAPER]
    direct = [run for run in runs if run.measured == _MARGINALS]
    for some, claim in ((fourier, "theorem 7"), (direct, "theorem 8")):
        beyond = share_interval(sum(map(_beyond, some)), len(some), level=VERDICT_LEVEL)
        loose = [run.bounds[ways] / max(run.errors[ways], 1) for run in some for ways in run.bounds]
        yield Claim(
            f"the L1 error of every table is within the bound of {claim}, which may fail in {_DELTA:.0%} of draws",
            of="paper",
            holds=within([beyond], high=_DELTA),
            figure=f"beyond it in {sum(map(_beyond, some))} of {len(some)} draws (at most {beyond.high:.1%}); "
            f"the bound is {min(loose):.0f} to {max(loose):.0f} times the largest error of a draw",
        )
    excess = max(run.optimum / run.largest_noise for run in runs)
    yield Claim(
        "the optimum of the linear program is at most the largest noise",
        of="paper",
        holds=excess <= 1 + _SLACK,
        figure=f"at most {excess:.3f} of it in {len(runs)} programs",
    )
    coefficients = [run for run in runs if run.measured != _MARGINALS]
    most = max(coefficients, key=lambda run: run.cells / run.most_cells)
    yield Claim(
        "a vertex has at most |B| non-zero cells, so that rounding moves at most |B| rows",
        of="paper",
        holds=all(run.cells <= run.most_cells and run.rounding <= run.most_cells for run in coefficients),
        figure=f"at most {most.cells} cells for |B| = {most.most_cells}; "
        f"rounding moved at most {max(run.rounding for run in coefficients):.1f}",
    )
    errors = {name: [run.errors[_WAYS] for run in runs if run.measured == name] for name in (_PAPER, _EXACT)}
    ratio = ratio_interval(errors[_EXACT], errors[_PAPER])
    yield Claim(
        "the exact sensitivity gives tables nearer to the truth than the paper's 2|B|",
        of="crosstally",
        holds=below([ratio], 1),
        figure=f"largest L1 error of a pair: {ratio.estimate:.2f} times that with the paper's "
        f"({ratio.low:.2f} to {ratio.high:.2f})",
    )


def _beyond(run: Run) -> bool:
    return any(run.errors[ways] > bound for ways, bound in run.bounds.items())


def _sensitivity_claims() -> Iterator[Claim]:
    exact = exact_sensitivity(16, _WAYS)
    yield Claim(
        "a replaced row moves the coefficients of up to 2 of 16 attributes by 144 together, not by 2|B| = 274",
        of="crosstally",
        holds=exact == 144,
        figure=f"by at most {exact}: the noise of the paper is {274 / exact:.2f} times what is needed",
    )


# Section 4.3


def _shifts(draws: int) -> Floats:
    """What must be added to the total in each draw of the paper's noise on all coefficients of up to two of 16."""
    places = [place for place in range(2**_SHIFT_ATTRIBUTES) if place.bit_count() <= _WAYS]
    random, noise, out = np.random.default_rng(43), np.zeros(2**_SHIFT_ATTRIBUTES), []
    for _ in range(draws):
        noise[places] = random.laplace(0, 2 * len(places) / _EPSILON, len(places))
        out.append(needed_shift(noise))
    return np.array(out)


def _shift_rows(shifts: Floats) -> Iterator[dict[str, Value]]:
    number = _shift_coefficients()
    shared: dict[str, Value] = {"attributes": _SHIFT_ATTRIBUTES, "draws": len(shifts)}
    for t in _SHIFT_TIMES:
        added = paper_shift(number, _EPSILON, t)
        held = float((shifts <= added).mean())
        yield {**shared, "measured": f"corollary 1, t = {t:g}", "added": added, "non_negative": held}
    gamma = gamma_shift(number, 2 * number / _EPSILON, failure=_SHIFT_FAILURE)
    simulated = float(np.quantile(shifts, 1 - _SHIFT_FAILURE))
    for measured, added in (("Gamma quantile", gamma), ("simulated quantile", simulated)):
        yield {**shared, "measured": measured, "added": added, "non_negative": float((shifts <= added).mean())}


def shift_claims(shifts: Floats) -> Iterator[Claim]:
    """The verdicts on corollary 1: how often the shifted table is non-negative, and which shift is enough."""
    number = _shift_coefficients()
    for t in _SHIFT_TIMES:
        held = int((shifts <= paper_shift(number, _EPSILON, t)).sum())
        share, said = share_interval(held, len(shifts), level=VERDICT_LEVEL), -math.expm1(-t)
        yield Claim(
            f"corollary 1: with 4t|B|^2/epsilon added no cell is negative with probability 1 - exp(-t), t = {t:g}",
            of="paper",
            holds=within([share], low=said),
            figure=f"{share.estimate:.1%} ({share.low:.1%} to {share.high:.1%}) of tables of the noise alone, "
            f"where {said:.1%} are claimed; |B| = {number}",
        )
    gamma = gamma_shift(number, 2 * number / _EPSILON, failure=_SHIFT_FAILURE)
    enough = share_interval(int((shifts <= 0.6 * gamma).sum()), len(shifts), level=VERDICT_LEVEL)
    simulated = float(np.quantile(shifts, 1 - _SHIFT_FAILURE))
    yield Claim(
        "adding 60% of the Gamma quantile of the noise's L1 norm is enough for 95%: cells are sums with signs",
        of="crosstally",
        holds=within([enough], low=1 - _SHIFT_FAILURE),
        figure=f"simulated quantile {simulated:,.0f} against {gamma:,.0f}",
    )


def _shift_coefficients() -> int:
    return sum(math.comb(_SHIFT_ATTRIBUTES, order) for order in range(_WAYS + 1))


_BAR = "M-0.2,-1L0.2,-1L0.2,1L-0.2,1Z"  # a symbol of the legend


def _chart(runs: Sequence[Run], ours: Mapping[int, Sequence[Mapping[int, float]]]) -> dict[str, Any]:
    """The largest error of each draw, and the bounds, on a logarithmic scale."""
    error, bound = "largest error of a pair, a bar for each draw", f"bound that holds with probability {1 - _DELTA:g}"
    values: list[dict[str, Any]] = [
        {"measured": f"{run.measured}, {run.attributes} attributes", "kind": kind, "l1": l1}
        for run in runs
        for kind, l1 in ((error, run.errors[_WAYS]), (bound, run.bounds[_WAYS]))
        if l1 > 0
    ]
    values += [
        {"measured": f"{_DEFAULT}, {attributes} attributes", "kind": error, "l1": each[_WAYS]}
        for attributes, draws in ours.items()
        for each in draws
        if each[_WAYS] > 0
    ]
    place = {
        "x": logarithmic("l1", [float(value["l1"]) for value in values], title="L1 error of a table, rows"),
        "y": category("measured", sort=None, title=None, axis={"labelLimit": 300}),
    }
    shown = legend([error, bound])
    colours = category("kind", {error: "#0072B2", bound: "#D55E00"}, title=None, legend=shown)
    shapes = category("kind", {error: _BAR, bound: "diamond"}, title=None, legend=shown)
    bars = {"type": "tick", "thickness": 2, "opacity": 0.8}
    return chart(
        [],
        layer(bars, [value for value in values if value["kind"] == error], **place, color=colours),
        layer(
            dots(70, opacity=1),
            [value for value in values if value["kind"] == bound],
            **place,
            color=colours,
            shape=shapes,
        ),
        title="Error of tables of two attributes, and the bounds of theorems 7 and 8 (PODS 2007)",
        pale_grid=True,
        width=480,
        height={"step": 34},
    )


EXPERIMENTS = (
    Experiment("pods07", "Noisy Fourier coefficients and the nearest table (Barak et al., PODS 2007)", _pods07),
)
