"""The law of the error of a cell, against the dense recovery matrix and simulated noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations

import numpy as np
import pytest

import reference_noise
from conftest import schema_of
from crosstally.answers.error_bars import ErrorBars, ErrorLaw
from crosstally.answers.marginal import ErrorKind
from crosstally.budget import Noise, NoiseKind
from crosstally.inference import estimate
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.schema import Schema
from reference_residuals import DenseLeastSquares, contrast_matrix, marginal_matrix

DOMAINS = [(2, 2, 2, 2), (3, 2, 4), (5, 2, 3, 2), (2, 3, 3, 2, 2)]


def measured(schema: Schema, query: Query, noise: Noise | None, variance: float | None = None) -> Measurement:
    own = variance if noise is None else noise.variance
    return Measurement(query, np.zeros(query.shape(schema), np.int64), variance=own, noise=noise, origin="test")


def random_measurements(schema: Schema, rng: np.random.Generator) -> list[Measurement]:
    noises = [Noise(NoiseKind.LAPLACE, 3.0), Noise(NoiseKind.LAPLACE, 0.5), Noise(NoiseKind.GAUSSIAN, 2.0)]
    out = []
    for _ in range(rng.integers(2, 7)):
        names = tuple(rng.permutation(schema.names)[: rng.integers(0, len(schema.names) + 1)].tolist())
        query = Contrast(names) if names and rng.random() < 0.4 else Cells(names)
        out.append(measured(schema, query, noises[rng.integers(0, 3)]))
    return out


def dense(schema: Schema, measurements: Sequence[Measurement], rows: int | None) -> DenseLeastSquares:
    parts = []
    for m in measurements:
        matrix = marginal_matrix if m.query.is_table else contrast_matrix
        axes = [schema.positions[name] for name in m.query.attributes]
        parts.append((matrix(schema.shape, axes), np.zeros(m.values.size), m.variance))
    return DenseLeastSquares(schema.cells, parts, rows)


def tables_of(schema: Schema) -> list[tuple[str, ...]]:
    return [names for k in range(len(schema.names) + 1) for names in combinations(schema.names, k)]


def law_of(bars: ErrorBars, names: Sequence[str]) -> ErrorLaw | None:
    """The error of each cell of a table; None where it is not covered."""
    law = bars.covered_law(names)
    return law if isinstance(law, ErrorLaw) and not math.isnan(law.std_error) else None


def weights_of(law: ErrorLaw, noise: Noise) -> np.ndarray:
    """All weights of one noise, each as often as it occurs, in order."""
    return np.sort([t.weight for t in law.terms[0] if t.noise == noise for _ in range(int(t.count))])


@pytest.mark.parametrize("rows", [None, 100])
@pytest.mark.parametrize("sizes", DOMAINS)
@pytest.mark.parametrize("seed", range(5))
def test_weights_are_those_of_dense_least_squares(sizes: tuple[int, ...], seed: int, rows: int | None) -> None:
    """The weights of all noisy numbers in a cell: its row of the recovery matrix, signs and zeros aside."""
    schema = schema_of(*sizes)
    measurements = random_measurements(schema, np.random.default_rng([seed, *sizes]))
    bars, reference = ErrorBars(schema, measurements, rows), dense(schema, measurements, rows)
    noises = np.array([str(m.noise) for m in measurements for _ in range(m.values.size)])
    for names in tables_of(schema):
        matrix = marginal_matrix(schema.shape, [schema.positions[name] for name in names])
        law = law_of(bars, names)
        assert (law is not None) == reference.covers(matrix)
        if law is not None:
            for row in np.abs(matrix @ reference.recovery):
                for noise in {m.noise for m in measurements}:
                    own = np.sort(row[(noises == str(noise)) & (row > 1e-9)])
                    if len(own) or any(t.noise == noise for t in law.terms[0]):
                        assert np.allclose(weights_of(law, noise), own, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("rows", [None, 100])
@pytest.mark.parametrize("sizes", DOMAINS)
def test_the_standard_error_is_that_of_the_estimate(sizes: tuple[int, ...], rows: int | None) -> None:
    schema = schema_of(*sizes)
    measurements = random_measurements(schema, np.random.default_rng([9, *sizes]))
    bars, combined = ErrorBars(schema, measurements, rows), estimate(schema, measurements, rows=rows)
    assert any(map(combined.covers, tables_of(schema)))
    for names in tables_of(schema):
        law = law_of(bars, names)
        assert (law is not None) == combined.covers(names)
        if law is not None:
            assert law.std_error == pytest.approx(math.sqrt(combined.variance(names)), rel=1e-10)
            assert math.sqrt(sum(t.share for t in law.terms[0])) == pytest.approx(law.std_error, rel=1e-10)


def chosen_cells(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Some cells: a box, or any."""
    if kind == "any":
        return rng.random(shape) < 0.5
    sides = [np.isin(np.arange(n), rng.permutation(n)[: rng.integers(1, n + 1)]) for n in shape]
    return reduce(np.logical_and.outer, sides)


def dense_sum(schema: Schema, names: Sequence[str], summed: Sequence[str], chosen: np.ndarray) -> np.ndarray:
    """A row for each cell of ``names``: 1 for the cells of the whole table that are added up to it, otherwise 0."""
    out = []
    for cell in np.ndindex(*schema.sizes(names)):
        whole = np.zeros(schema.shape)
        for place in np.ndindex(*schema.shape):
            value = dict(zip(schema.names, place, strict=True))
            own = tuple(value[name] for name in names) == cell
            whole[place] = own and chosen[tuple(value[name] for name in summed)]
        out.append(whole.ravel())
    return np.array(out)


@pytest.mark.parametrize("rows", [None, 100])
@pytest.mark.parametrize("kind", ["box", "any"])
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (3, 2, 4), (3, 2, 3, 2)])
def test_sums_of_cells_have_the_weights_of_dense_least_squares(
    sizes: tuple[int, ...], kind: str, rows: int | None
) -> None:
    """Two and three attributes, each split in all ways into those asked and those summed over chosen cells."""
    schema, rng, tried = schema_of(*sizes), np.random.default_rng([3, *sizes]), 0
    measurements = [
        *random_measurements(schema, rng),
        measured(schema, Cells(schema.names[:3]), Noise(NoiseKind.LAPLACE, 3.0)),
        measured(schema, Contrast(schema.names[1:]), Noise(NoiseKind.GAUSSIAN, 2.0)),
        measured(schema, Cells(schema.names[1:]), Noise(NoiseKind.LAPLACE, 0.5)),
    ]
    bars, reference = ErrorBars(schema, measurements, rows), dense(schema, measurements, rows)
    noises = np.array([str(m.noise) for m in measurements for _ in range(m.values.size)])
    variances = np.concatenate([np.full(m.values.size, m.variance) for m in measurements])
    for table in tables_of(schema):
        for k in range(1, len(table) + 1):
            summed, names = table[-k:], tuple(reversed(table[:-k]))
            if law_of(bars, table) is None or len(table) > 3:
                continue
            chosen = chosen_cells(schema.sizes(summed), kind, rng)
            law = bars.sums(names, summed, chosen[(None,) * len(names)])
            assert isinstance(law, ErrorLaw)
            for row in np.abs(dense_sum(schema, names, summed, chosen) @ reference.recovery)[:, : len(noises)]:
                assert law.std_error == pytest.approx(math.sqrt(row**2 @ variances), rel=1e-9, abs=1e-9)
                assert law.std_error == pytest.approx(math.sqrt(sum(t.share for t in law.terms[0])), rel=1e-9, abs=1e-9)
                for noise in {m.noise for m in measurements}:
                    own = np.sort(row[(noises == str(noise)) & (row > 1e-9)])
                    found = weights_of(law, noise)
                    assert np.allclose(found[found > 1e-9], own, rtol=1e-7, atol=1e-12)
            tried += 1
    assert tried >= 8


def test_a_condition_on_what_is_asked_gives_each_cell_its_own_law() -> None:
    """One view of 3 x 2 cells, scale 2: the first value adds up both cells, the second one, the third none."""
    schema, noise = schema_of(3, 2), Noise(NoiseKind.LAPLACE, 2.0)
    bars = ErrorBars(schema, [measured(schema, Cells(("a0", "a1")), noise)])
    errors = bars.sums(("a0",), ("a1",), np.array([[True, True], [False, True], [False, False]]))
    assert errors.std_error == pytest.approx(np.sqrt(noise.variance * np.array([2, 1, 0])), rel=1e-12)
    exact = [reference_noise.half_width([("laplace", 2.0, 1, count)], 0.9) for count in (2, 1)]
    assert errors.half_width(0.9) == pytest.approx([*exact, 0.0], rel=1e-5)


def test_one_view_is_a_plain_sum_of_its_cells() -> None:
    """Scale 2 on a 3 x 2 table: a cell is one draw, a marginal cell 2 or 3 of them, the total 6."""
    schema = schema_of(3, 2)
    bars = ErrorBars(schema, [measured(schema, Cells(("a0", "a1")), Noise(NoiseKind.LAPLACE, 2.0))])
    for names, count in [(("a1", "a0"), 1), (("a0",), 2), (("a1",), 3), ((), 6)]:
        law = law_of(bars, names)
        assert law is not None
        assert [(t.weight, t.count) for t in law.terms[0]] == [(pytest.approx(1.0, rel=1e-12), count)]
        for level in (0.5, 0.9, 0.95, 0.99):
            exact = reference_noise.half_width([("laplace", 2.0, 1, count)], level)
            assert exact <= law.half_width(level) <= exact + 2e-6 * law.std_error


@pytest.mark.parametrize("rows", [40, 3_000_000])
def test_an_interval_that_ends_on_the_truth_holds_it(rows: int) -> None:
    """At scale 2 the interval of 95% is 6 wide; the noise is put at plus and minus 6, so that rounding could decide."""
    schema = schema_of(3, 2, 5)
    truth = np.random.default_rng(rows).multinomial(rows, np.full(30, 1 / 30)).reshape(3, 2, 5)
    noisy = truth + np.where(np.indices((3, 2, 5)).sum(axis=0) % 2, 6, -6)
    noise = Noise(NoiseKind.LAPLACE, 2.0)
    view = Measurement(Cells(schema.names), noisy, variance=noise.variance, noise=noise, origin="test")
    law = law_of(ErrorBars(schema, [view]), schema.names)
    assert law is not None
    values = estimate(schema, [view], nonnegative="none").table(schema.names)
    assert (np.abs(values - truth) <= law.half_width(0.95)).all()
    assert law.half_width(0.95) == pytest.approx(6, rel=1e-6)


def test_views_measured_twice_and_many_alike_go_together() -> None:
    schema = schema_of(2, 2, 2, 2)
    noise = Noise(NoiseKind.LAPLACE, 4.0)
    pairs = [measured(schema, Cells(names), noise) for names in combinations(schema.names, 2)]
    law = law_of(ErrorBars(schema, pairs * 2), ())
    assert law is not None
    assert [(t.weight, t.count) for t in law.terms[0]] == [(pytest.approx(1 / 12, rel=1e-12), 48)]


def test_a_public_number_of_rows_has_no_error() -> None:
    schema = schema_of(3, 2)
    law = law_of(ErrorBars(schema, [measured(schema, Cells(("a0",)), Noise(NoiseKind.LAPLACE, 2.0))], rows=12), ())
    assert law is not None
    assert law.std_error == 0.0
    assert law.half_width(0.95) == 0.0
    alone = ErrorBars(schema, [], rows=12)
    assert law_of(alone, ()) is not None
    assert law_of(alone, ("a0",)) is None


def test_nothing_measured_covers_nothing() -> None:
    assert law_of(ErrorBars(schema_of(3, 2), []), ()) is None


def test_noise_of_the_local_model_is_taken_as_normal() -> None:
    schema = schema_of(3, 2)
    bars = ErrorBars(schema, [measured(schema, Cells(("a0", "a1")), None, 9.0)])
    law = law_of(bars, ("a0",))
    assert law is not None
    assert law.kind is ErrorKind.ESTIMATED
    assert law.std_error == pytest.approx(math.sqrt(18), rel=1e-12)
    assert law.half_width(0.95) == pytest.approx(1.959964 * math.sqrt(18), rel=4e-3)
    exact = law_of(ErrorBars(schema, [measured(schema, Cells(("a0",)), Noise(NoiseKind.LAPLACE, 2.0))]), ("a0",))
    assert exact is not None
    assert exact.kind is ErrorKind.EXACT


def test_laws_are_kept() -> None:
    schema = schema_of(3, 2)
    bars = ErrorBars(schema, [measured(schema, Cells(("a0", "a1")), Noise(NoiseKind.LAPLACE, 2.0))])
    assert law_of(bars, ("a0", "a1")) is law_of(bars, ("a1", "a0"))


def coverage(kind: str, scale: float, level: float, *, drawn: float = 1.0, number: int = 20_000) -> list[float]:
    """How often the interval of a cell holds the truth, for six tables from five views of one schema.

    Errors are the dense recovery matrix times drawn noise, whose scale is ``drawn`` times the one said.
    """
    schema = schema_of(3, 2, 4)
    noise = Noise(NoiseKind(kind), scale)
    views = [
        Cells(("a0", "a1")),
        Cells(("a1", "a2")),
        Cells(("a0", "a2")),
        Contrast(("a0", "a1", "a2")),
        Cells(("a2",)),
    ]
    measurements = [measured(schema, query, noise) for query in views]
    bars, reference = ErrorBars(schema, measurements), dense(schema, measurements, None)
    rng = np.random.default_rng([int(100 * scale), int(1000 * level)])
    drawn_noise = reference_noise.draw(kind, scale * drawn, (reference.recovery.shape[1], number), rng)
    out = []
    for names in [(), ("a0",), ("a2",), ("a0", "a1"), ("a1", "a2"), ("a0", "a1", "a2")]:
        matrix = marginal_matrix(schema.shape, [schema.positions[name] for name in names])
        errors = (matrix @ reference.recovery)[-1] @ drawn_noise
        law = law_of(bars, names)
        assert law is not None
        out.append(float(np.mean(np.abs(errors) <= law.half_width(level))))
    return out


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str, scale: float, level: float) -> None:
    """20,000 draws; bounds 5.7 standard deviations out: false alarms below 1e-7 for each table, 1e-6 for all six.

    From a scale of 5 on there are no heavy atoms, so an interval must not hold the truth much more often either.
    """
    slack = 5.7 * math.sqrt(level * (1 - level) / 20_000)
    found = coverage(kind, scale, level)
    assert min(found) >= level - slack
    if scale >= 5:
        assert max(found) <= level + slack + 0.012
    if level == 0.95:
        assert min(found) >= 0.93
        assert max(found) <= 0.97 or scale < 5


@pytest.mark.parametrize(("drawn", "fits"), [(1.0, True), (1.3, False), (0.7, False)])
def test_intervals_of_sums_hold_the_truth_as_often_as_they_say(drawn: float, fits: bool) -> None:
    """20,000 draws of the noise of four views; three sums at 95%, as above: 0.0087 is 5.7 standard deviations."""
    schema, noise = schema_of(3, 2, 4), Noise(NoiseKind.LAPLACE, 5.0)
    views = [Cells(("a0", "a1")), Cells(("a0", "a1", "a2")), Contrast(("a1", "a2")), Cells(("a2",))]
    measurements = [measured(schema, query, noise) for query in views]
    bars, reference = ErrorBars(schema, measurements), dense(schema, measurements, None)
    size = (reference.recovery.shape[1], 20_000)
    draws = reference_noise.draw("laplace", 5.0 * drawn, size, np.random.default_rng(4))
    odd = np.array([[True, False, False, True], [True, True, False, False]])
    for names, summed, chosen in [
        (("a0",), ("a1", "a2"), odd),
        ((), ("a2",), np.array([False, True, True, False])),
        (("a2", "a0"), ("a1",), np.array([True, False])),
    ]:
        law = bars.sums(names, summed, chosen[(None,) * len(names)])
        errors = (dense_sum(schema, names, summed, chosen) @ reference.recovery)[-1] @ draws
        inside = float(np.mean(np.abs(errors) <= law.half_width(0.95)))
        assert (0.95 - 0.0087 <= inside <= 0.95 + 0.0087 + 0.012) is fits


@pytest.mark.parametrize(("drawn", "fits"), [(1.0, True), (1.3, False), (0.7, False)])
def test_a_wrong_scale_would_be_noticed(drawn: float, fits: bool) -> None:
    """False alarm as above; noise of 1.3 or 0.7 times the scale leaves 93% to 97% in every table."""
    found = coverage("laplace", 5.0, 0.95, drawn=drawn)
    assert all((0.93 <= share <= 0.97) is fits for share in found)


@pytest.mark.verify
@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0, 100.0])
def test_intervals_over_half_a_million_draws(scale: float) -> None:
    """The same with a slack of 5.7 standard deviations of 500,000 draws: false alarms below 1e-6."""
    for level in (0.9, 0.95, 0.99):
        slack = 5.7 * math.sqrt(level * (1 - level) / 500_000)
        assert min(coverage("laplace", scale, level, number=500_000)) >= level - slack


def test_variances_that_are_left_take_the_place_of_those_of_the_noise() -> None:
    """Two binary attributes, 100 rows: 8 (1/2)(1/4) + 16 (1/4)(1/2) + 4 (1/2)(1/2) = 4, a standard error of 2."""
    schema = schema_of(2, 2, 2)
    views = [measured(schema, Cells(names), None, 2.5) for names in (("a0", "a1"), ("a2",))]
    left = {("a0",): 8.0, ("a1",): 16.0, ("a0", "a1"): 4.0, ("a1", "a2"): 1.0}
    bars = ErrorBars(schema, views, 100, variances_left=left)
    law = law_of(bars, ("a1", "a0"))
    assert law is not None
    assert law.std_error == pytest.approx(2)
    assert law.half_width(0.95) == pytest.approx(1.959964 * 2, rel=3e-3)
    assert law.kind == "estimated"
    assert law_of(bars, ("a2",)).std_error == law_of(ErrorBars(schema, views, 100), ("a2",)).std_error
    assert law_of(bars, ("a1", "a2")) is None  # never measured, whatever is said of it
