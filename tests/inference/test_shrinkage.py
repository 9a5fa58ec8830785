"""Shrunk estimates: by hand, consistent, the same everywhere, and no worse than least squares on generated people."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.budget import Noise, NoiseKind
from crosstally.inference import estimate
from crosstally.inference.risk import COMPONENTS, mixture_of
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast
from crosstally.residuals import combine
from simulated import margin, measured, people, schema_of

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN


def view_of(values: object, scale: float, names: tuple[str, ...]) -> Measurement:
    noise = Noise(LAPLACE, scale)
    return Measurement(Cells(names), np.asarray(values), variance=noise.variance, noise=noise, origin="test")


def test_a_sparse_one_way_table_by_hand() -> None:
    """40 cells, 4 of them 1,000, noise of variance 50 in the others: the four stay, the others nearly vanish."""
    rng = np.random.default_rng(1)
    truth = np.zeros(40)
    truth[:4] = 1000
    noisy = truth + np.rint(rng.laplace(0, 5, 40))
    found = estimate(schema_of(40), [view_of(noisy.astype(int), 5.0, ("a0",))]).table(("a0",))
    assert found.min() >= -1e-9
    assert found.sum() == pytest.approx(noisy.sum())
    assert np.abs(found[:4] - 1000).max() <= 25  # five scales
    assert (found[4:] ** 2).mean() < 0.6 * ((noisy - truth)[4:] ** 2).mean()


def test_a_dense_table_stays_within_a_fraction_of_its_noise() -> None:
    """Cells of 10,000 to 20,000 with noise of standard deviation 4: there is nothing to gain, and nothing is lost."""
    rng = np.random.default_rng(2)
    values = rng.integers(10_000, 20_000, (4, 5))
    view = view_of(values, 3.0, ("a0", "a1"))
    after = estimate(schema_of(4, 5), [view])
    assert np.abs(after.table(("a0", "a1")) - values).max() <= 0.25 * view.variance**0.5
    assert after.corrected == "shrunk"


def test_exact_cells_stay() -> None:
    values = np.array([[0, 7, 0], [12, 0, 1]])
    after = estimate(schema_of(2, 3), [view_of(values, 0.01, ("a0", "a1"))])
    assert np.allclose(after.table(("a0", "a1")), values, atol=1e-3)


@pytest.mark.parametrize("rows", [None, 900, 0])
def test_the_total_stays(rows: int | None) -> None:
    rng = np.random.default_rng(3)
    views = measured(rng, people(rng, (2, 3, 4), 900, 1.0), [(0, 1), (1, 2), (0, 2)], Noise(LAPLACE, 9.0))
    after = estimate(schema_of(2, 3, 4), views, rows=rows)
    total = float(combine(schema_of(2, 3, 4), views).table(())) if rows is None else rows
    for names in (("a0", "a1"), ("a1", "a2"), ("a2",), ()):
        assert after.table(names).sum() == pytest.approx(total, rel=1e-12, abs=1e-9)
    assert rows is None or after.table(()) == rows


def test_no_rows_at_all() -> None:
    after = estimate(schema_of(2, 3), [view_of([[-3, 1, 0], [0, -4, 2]], 3.0, ("a0", "a1"))])
    assert not after.coefficients.any()
    assert after.corrected == "shrunk"


def test_contrasts_outside_all_views_stay() -> None:
    schema = schema_of(2, 3, 4)
    contrast = Measurement(Contrast(("a0", "a2")), np.array([[3, -1, -1, -1]]), variance=4.0, noise=None, origin="test")
    views = [view_of([[9, -2, 5], [4, 0, 30]], 3.0, ("a0", "a1")), contrast]
    before, after = combine(schema, views), estimate(schema, views)
    outside = before.places([("a0", "a2")])[0][0][-3:]
    assert np.array_equal(after.coefficients[outside], before.coefficients[outside])
    assert not np.allclose(after.coefficients, before.coefficients)


def test_the_same_after_saving_and_after_a_refit(tmp_path) -> None:
    rows = np.random.default_rng(4).integers(0, [3, 4, 2], (300, 3)) ** 2 % [3, 4, 2]
    table = pa.table({f"a{i}": rows[:, i] for i in range(3)})
    release = ct.release(table, schema_of(3, 4, 2), epsilon=1)
    assert release.nonnegative == "shrunk"
    release.save(tmp_path / "a.release.parquet")
    opened = ct.open_release(tmp_path / "a.release.parquet")
    again = release.refit().estimate.coefficients
    assert np.array_equal(again, release.estimate.coefficients)
    assert np.array_equal(opened.refit().estimate.coefficients, again)
    assert np.allclose(opened.estimate.coefficients, again, rtol=1e-9, atol=1e-9)


def errors(sizes, tables, rows, skew, *noise_and_kind, draws) -> dict[tuple[str, int], list[float]]:
    """The mean squared error of all covered tables of each order, draw by draw."""
    (noise, contrasts), rng = noise_and_kind, np.random.default_rng(rows)
    schema, out = schema_of(*sizes), {}
    for _ in range(draws):
        full = people(rng, sizes, rows, skew)
        views = measured(rng, full, tables, noise, contrasts=contrasts)
        for how in ("none", "joint", "shrunk"):
            found = estimate(schema, views, nonnegative=how)
            for k in range(1, max(map(len, tables)) + 1):
                covered = [axes for axes in combinations(range(len(sizes)), k)
                           if found.covers([f"a{i}" for i in axes])]  # fmt: skip
                off = [((found.table([f"a{i}" for i in axes]) - margin(full, axes)) ** 2).mean() for axes in covered]
                out.setdefault((how, k), []).append(float(np.mean(off)))
    return out


SETTINGS = {
    "sparse views": ((4, 5, 6, 3, 8), list(combinations(range(5), 3)), 800, 1.5, Noise(LAPLACE, 20.0), False),
    "dense views": ((2, 3, 2, 3), list(combinations(range(4), 2)), 200_000, 0.5, Noise(LAPLACE, 10.0), False),
    "one sparse table": ((9, 8, 7), [(0, 1, 2)], 600, 1.5, Noise(LAPLACE, 5.0), False),
    "Gaussian contrasts": ((4, 5, 6, 3), [(), *((i,) for i in range(4)), *combinations(range(4), 2)], 2_000, 1.5,
                           Noise(GAUSSIAN, 90.0), True),
    "one-ways alone": ((30, 20, 2, 2), [(i,) for i in range(4)], 500, 1.5, Noise(LAPLACE, 6.0), False),
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("draws", [12, pytest.param(200, marks=pytest.mark.verify)])
def test_no_worse_than_least_squares_or_the_joint_correction(setting: str, draws: int) -> None:
    """Root mean squared errors, order by order; means of paired log-ratios less 4 standard errors, below 1e-4 each."""
    found = errors(*SETTINGS[setting], draws=draws)
    for (how, k), each in found.items():
        if how != "shrunk":
            ratios = (np.log(found["shrunk", k]) - np.log(each)) / 2
            worst = np.exp(ratios.mean() - 4 * ratios.std(ddof=1) / draws**0.5)
            assert worst <= 1.02, (setting, how, k, np.exp(ratios.mean()))


def test_clearly_better_where_most_cells_are_empty() -> None:
    """Seen 0.55 to 0.75 of least squares and 0.75 to 0.95 of the joint correction."""
    found = {key: np.log(each).mean() / 2 for key, each in errors(*SETTINGS["sparse views"], draws=10).items()}
    for k in (1, 2, 3):
        assert found["shrunk", k] - found["none", k] <= np.log(0.9)
    assert np.mean([found["shrunk", k] - found["joint", k] for k in (1, 2, 3)]) <= np.log(0.95)


@pytest.mark.parametrize("number", [60, pytest.param(3_000, marks=pytest.mark.verify)])
def test_hostile_tables(number: int) -> None:
    """Nothing but negative cells, totals below zero, huge and tiny noise: it ends, finite, the total kept or zero."""
    rng = np.random.default_rng(number)
    for _ in range(number):
        schema = schema_of(*rng.integers(2, 4, 3).tolist())
        views = []
        for names in combinations(schema.names, 2):
            values = rng.normal(rng.choice([-1e6, -3, 0, 5]), 10.0 ** rng.integers(-3, 7), schema.sizes(names))
            variance = 10.0 ** rng.integers(-8, 12)
            views.append(Measurement(Cells(names), values, variance=variance, noise=None, origin="test"))
        after = estimate(schema, views)
        total = max(float(combine(schema, views).table(())), 0.0)
        assert np.isfinite(after.coefficients).all()
        assert after.table(()) == pytest.approx(total, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("noisy", "component"), [(0.0, 0), (10.0, 10)])
def test_a_mixture_follows_the_cells(noisy: float, component: int) -> None:
    """Guesses of 5, cells of 0 or of 10 with little noise: the components of lift 0 and of lift 2 have nearly all."""
    weights = mixture_of([np.full((1, 2_000), noisy)], [np.full((1, 2_000), 5.0)], [np.array([0.01])])
    assert COMPONENTS[0, component] == noisy / 5
    assert weights[2, component] > 0.8, "guesses from 1 to 10 are the third stratum"
    assert weights.sum(axis=1) == pytest.approx(np.ones(len(weights)))
