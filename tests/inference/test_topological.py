"""The residual average is PriView's consistency step (section 4.4); estimates agree, and answers are never negative."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Noise, NoiseKind
from crosstally.inference import estimate
from crosstally.inference.joint_correction import ripple
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.residuals import combine
from crosstally.schema import Schema
from reference_consistency import Table, cells, disagreement, intersections, overall_consistency

View = tuple[str, ...]
NAMES = tuple(f"a{i}" for i in range(1, 17))  # as in the paper, from one


def measured(view: View, values: np.ndarray, scale: float = 3.0) -> Measurement:
    noise = Noise(NoiseKind.LAPLACE, scale)
    return Measurement(Cells(view), values, variance=noise.variance, noise=noise, origin="test")


def plain(values: np.ndarray) -> Table:
    return dict(zip(cells(values.shape), values.ravel().tolist(), strict=True))


def random_views(schema: Schema, size: int, number: int, random: np.random.Generator) -> list[View]:
    """Different views of one size, their attributes in any order."""
    found: dict[frozenset[str], View] = {}
    for _ in range(4 * number):
        view = tuple(schema.names[i] for i in random.permutation(len(schema.names))[:size])
        if len(found) < number:
            found.setdefault(frozenset(view), view)
    return list(found.values())


# The paper's example and its procedure


@pytest.mark.parametrize("made", [combine, lambda *given: estimate(*given, nonnegative="none")], ids=["combine", "all"])
def test_the_example_of_the_paper(made) -> None:
    schema = schema_of(2, 2, 2, names=NAMES)
    views = [
        measured(("a1", "a2"), np.array([[0.3, 0.3], [0.3, 0.1]])),
        measured(("a1", "a3"), np.array([[0.2, 0.3], [0.1, 0.4]])),
    ]
    after = made(schema, views)
    first, second = after.table(("a1", "a2")), after.table(("a1", "a3"))
    assert np.allclose(first.ravel(), [0.275, 0.275, 0.325, 0.125], rtol=0, atol=1e-15)
    assert np.allclose(second.ravel(), [0.225, 0.325, 0.075, 0.375], rtol=0, atol=1e-15)
    assert np.allclose(after.table(("a2",)), [0.6, 0.4], rtol=0, atol=1e-15)
    assert np.allclose(after.table(("a3",)), [0.3, 0.7], rtol=0, atol=1e-15)


def test_the_plain_version_gives_the_example_too() -> None:
    views: list[View] = [("a1", "a2"), ("a1", "a3")]
    tables = [plain(np.array([[0.3, 0.3], [0.3, 0.1]])), plain(np.array([[0.2, 0.3], [0.1, 0.4]]))]
    first, second = overall_consistency(views, tables)
    assert list(first.values()) == pytest.approx([0.275, 0.275, 0.325, 0.125], abs=1e-15)
    assert list(second.values()) == pytest.approx([0.225, 0.325, 0.075, 0.375], abs=1e-15)


def test_intersections_are_in_topological_order() -> None:
    found = intersections([("a", "b", "c"), ("b", "c", "d"), ("c", "d", "a")])
    assert found == [frozenset(names) for names in ("", "c", "ac", "bc", "cd", "abc", "acd", "bcd")]


@pytest.mark.parametrize(
    ("sizes", "size", "number"),
    [
        ((2,) * 4, 2, 4),
        ((2,) * 5, 3, 5),
        ((2,) * 6, 4, 6),
        ((2,) * 8, 4, 12),
        ((2,) * 10, 5, 8),
        ((2,) * 9, 8, 3),
        ((3,) * 5, 3, 5),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_the_residual_average_is_the_topological_procedure(
    sizes: tuple[int, ...], size: int, number: int, seed: int
) -> None:
    random = np.random.default_rng([seed, *sizes, size])
    schema = schema_of(*sizes, names=NAMES)
    views = random_views(schema, size, number, random)
    drawn = [random.normal(20, 30, schema.sizes(view)) for view in views]
    expected = overall_consistency(views, [plain(values) for values in drawn])
    after = estimate(schema, [measured(*pair) for pair in zip(views, drawn, strict=True)], nonnegative="none")
    for view, table in zip(views, expected, strict=True):
        assert np.allclose(after.table(view).ravel(), list(table.values()), rtol=0, atol=1e-9)


# Estimates of releases


def a_release(random: np.random.Generator, **options: object) -> tuple[ct.Release, float]:
    """A release of a few random rows, few enough that most cells are empty, and its noise scale."""
    sizes = [int(n) for n in random.integers(2, 4, size=int(random.integers(3, 7)))]
    schema = schema_of(*sizes, names=NAMES)
    rows = int(random.integers(0, 400))
    table = pa.table({name: random.binomial(n - 1, 0.2, rows) for name, n in zip(schema.names, sizes, strict=True)})
    strategy = ct.strategies.Views(max_cells=max(9, schema.cells // 4), cover=2)
    release = ct.release(table, schema, epsilon=float(random.choice([0.5, 1, 4])), strategy=strategy)
    noise = release.measurements[0].noise
    assert noise is not None
    return release.refit(**options), noise.scale


SMALLEST = 3.0
"""In noise scales, how far below -1 one round may leave a cell. Of 400 releases the least was at -0.75, a hundredth lay
below -0.53 and each further factor of ten adds about 0.2: beyond 3 lies far less than 1e-9 of releases."""


@pytest.mark.parametrize("number", [50, pytest.param(1000, marks=pytest.mark.verify)])
def test_releases_are_consistent_and_the_smallest_cell_is_recorded(number: int) -> None:
    """A false alarm in less than 1e-6 of runs: see SMALLEST. Joint correction stops at about 0.02 noise scales."""
    random = np.random.default_rng(number)
    for _ in range(number):
        nonnegative = str(random.choice(["joint", "ripple"]))
        release, scale = a_release(random, nonnegative=nonnegative, rounds=int(random.integers(1, 4)))
        views = [each.query.attributes for each in release.measurements]
        tables = [release.estimate.table(view) for view in views]
        assert disagreement(views, [plain(table) for table in tables]) <= 1e-9 * max(1.0, np.abs(tables[0]).sum())
        least = min(table.min() for table in tables)
        assert release.estimate.smallest == pytest.approx(least, rel=1e-12, abs=1e-9)
        assert release.estimate.smallest >= (-0.1 * scale if nonnegative == "joint" else -1 - SMALLEST * scale)


def test_the_smallest_cell_by_hand() -> None:
    """Ripple makes a1 x a2 (0, 3 / 1, 9), whose marginal over a1 is (3, 10); a3 x a1 keeps (1, 12).

    With weights 1/32 and 1/12 the marginal becomes (1 + 6/11, 12 - 6/11): each cell of the first row loses 8/11.
    """
    schema = schema_of(2, 2, 3, names=NAMES)
    views = [
        Measurement(Cells(("a1", "a2")), np.array([[-4, 5], [3, 9]]), variance=8.0, noise=None, origin="test"),
        Measurement(Cells(("a3", "a1")), np.array([[0, 4], [1, 4], [0, 4]]), variance=2.0, noise=None, origin="test"),
    ]
    assert estimate(schema, views, nonnegative="ripple").smallest == pytest.approx(-8 / 11, abs=1e-12)
    assert estimate(schema, views, nonnegative="none").smallest == pytest.approx(-4, abs=1e-12)
    assert math.isnan(combine(schema, views).smallest)
    assert math.isnan(estimate(schema, [], rows=7).smallest)


def test_a_release_file_keeps_the_smallest_cell(tmp_path) -> None:
    release, _ = a_release(np.random.default_rng(5))
    release.save(tmp_path / "a.release.parquet")
    opened = ct.open_release(tmp_path / "a.release.parquet")
    assert opened.estimate.smallest == pytest.approx(release.estimate.smallest, rel=1e-9, abs=1e-9)


# What people see


@pytest.mark.parametrize("method", [None, "maximum-entropy", "least-squares", "linear-program"])
@pytest.mark.parametrize("nonnegative", ["joint", "simple", "global", "ripple"])
def test_answers_are_never_negative(method: str | None, nonnegative: str) -> None:
    random = np.random.default_rng(7)
    for _ in range(4):
        release, _ = a_release(random, nonnegative=nonnegative)
        names = release.schema.names
        tables = [tuple(random.permutation(names)[: random.integers(len(names) + 1)].tolist()) for _ in range(6)]
        for answer in release.marginals([names, *tables], method=method):
            assert answer.values.min() >= 0


def test_only_who_asks_for_the_linear_estimate_sees_negative_cells() -> None:
    """Of 20 releases of nearly empty tables all but 1e-6 have a cell that noise takes below zero, each by far."""
    random = np.random.default_rng(8)
    least, filled = [], []
    for _ in range(20):
        release, _ = a_release(random, nonnegative="none")
        least.append(release.marginal(*release.measurements[0].query.attributes).values.min())
        if release.rows > 0:
            filled.append(release.marginal(*release.schema.names, method="maximum-entropy").values.min())
    assert min(least) < 0
    assert min(filled) >= 0


# Ripple


def hostile_table(random: np.random.Generator) -> np.ndarray:
    """A table with nothing to take from, or far away, or in amounts that do not add up in floating point."""
    shape = tuple(int(n) for n in random.integers(2, 5, size=int(random.integers(1, 6))))
    size = 10.0 ** random.integers(-3, 13)
    kind = random.integers(6)
    if kind == 0:
        return -size * random.random(shape)
    table = np.full(shape, -size)
    if kind == 1:  # one cell holds hardly more than all others lack
        table[(0,) * len(shape)] = size * (table.size - 1) + random.choice([0.0, 1e-9, 1.0, size])
    elif kind == 2:  # a total of zero, up to rounding
        table = random.normal(0, size, shape)
        table -= table.mean()
    elif kind == 3:  # neighbours of deep holes are just above the threshold
        table = np.where(np.indices(shape).sum(axis=0) % 2 == 0, -size, size + random.choice([-0.5, 0.5, 2.0]))
    elif kind == 4:  # heavy tails
        table = random.standard_cauchy(shape) * size
    else:  # cells on the threshold
        table = random.choice([-1.0, -1.0 - 1e-6, -1.0 + 1e-6, 0.0, 3.0, size], shape)
    return table


@pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.verify)])
def test_ripple_ends_on_hostile_tables(number: int) -> None:
    random = np.random.default_rng(number)
    for _ in range(number):
        table = hostile_table(random)
        out = ripple(table, table.ndim)
        rounding = 1e-9 * (1 + np.abs(table).sum())
        assert np.isfinite(out).all()
        assert out.min() >= -1 - rounding
        if table.min() >= -1:
            assert np.array_equal(out, table)
        else:
            assert out.sum() == pytest.approx(max(table.sum(), 0.0), abs=rounding)
