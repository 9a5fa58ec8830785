"""Synthetic data: their tables, structural zeros, files, and what they say about themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import crosstally as ct
from cli_runs import run
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import LinearLaw
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.exports.synthetic import write_rows
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Statement, publish
from crosstally.schema import Impossible
from crosstally.synthesis import row_fit
from crosstally.synthesis.row_fit import (
    drawing_order,
    drawn,
    fitted,
    impossible_rows,
    repeated,
    rows_to_fit,
    whole,
    without_impossible,
)
from crosstally.synthesis.synthetic_data import narrowness
from released import views
from simulated import margin, measured, people, schema_of

NOISE = Noise(NoiseKind.LAPLACE, 4.0)
SIZES = (2, 3, 4, 3, 2)


def released(sizes: tuple[int, ...] = SIZES, rows: int = 5_000) -> tuple[ct.Release, np.ndarray]:
    rng = np.random.default_rng(5)
    full = people(rng, sizes, rows, 1.0)
    tables = [(i, j) for i in range(len(sizes)) for j in range(i)] + [(0, 1, 2)]
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    return publish(schema_of(*sizes), measured(rng, full, [sorted(t) for t in tables], NOISE), told), full


def distance(codes: np.ndarray, axes: tuple[int, ...], wanted: np.ndarray) -> float:
    """The share of rows that would have to move, by a histogram of our own."""
    own = np.zeros(wanted.shape)
    np.add.at(own, tuple(codes[:, axis] for axis in axes), 1)
    return float(np.abs(own / own.sum() - wanted / wanted.sum()).sum() / 2)


def test_rows_have_the_tables_of_the_release() -> None:
    release, full = released()
    made = release.synthesize()
    assert len(made) == round(release.rows)
    assert set(made.distances) >= {("a0", "a1"), ("a0", "a1", "a2"), ("a3",)}
    for names, told in made.distances.items():
        axes = tuple(int(name[1:]) for name in names)
        assert told == pytest.approx(distance(made.codes, axes, release.marginal(*names).values), abs=1e-9)
        assert told < 0.01 * len(names)
        assert distance(made.codes, axes, margin(full, axes)) < 0.03
    independent = np.random.default_rng(1).permuted(made.codes, axis=0)
    assert distance(independent, (0, 1, 2), release.marginal("a0", "a1", "a2").values) > 0.05


def test_integer_tables_are_nearer() -> None:
    release, _ = released(rows=500)
    made = release.synthesize(method="integers")
    assert len(made) == round(release.rows)
    assert max(made.distances.values()) < 0.02
    with pytest.raises(QueryError, match="integer tables have the release's own number of rows, got 7"):
        release.synthesize(7, method="integers")


def test_the_seed_decides_and_rows_may_be_more() -> None:
    release, _ = released()
    first, again, other = (release.synthesize(300, seed=seed) for seed in (1, 1, 2))
    assert (first.codes == again.codes).all()
    assert (first.codes != other.codes).any()
    assert len(release.synthesize(9_999)) == 9_999
    for rows in (0, -1):
        with pytest.raises(QueryError, match=f"rows must be a whole number of at least 1, got {rows}; leave it out"):
            release.synthesize(rows)
    with pytest.raises(QueryError, match="method must be sampling or integers, got 'magic'"):
        release.synthesize(method="magic")


def test_forty_one_attributes() -> None:
    rng, number = np.random.default_rng(3), 41
    codes = (rng.random((2_000, number)) < 0.3).astype(int)
    codes[:, 1:] = np.where(rng.random((2_000, number - 1)) < 0.8, codes[:, :1], codes[:, 1:])
    schema = schema_of(*[2] * number)
    out = []
    for axes in [(0, i) for i in range(1, number)]:
        values = np.zeros((2, 2), np.int64)
        np.add.at(values, (codes[:, axes[0]], codes[:, axes[1]]), 1)
        query = Cells((f"a{axes[0]}", f"a{axes[1]}"))
        out.append(Measurement(query, values, variance=NOISE.variance, noise=NOISE, origin="test"))
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    made = publish(schema, out, told).synthesize()
    assert made.codes.shape == (2_000, number)
    assert max(made.distances.values()) < 0.01
    # two leaves have to do with each other through the root, as in the rows
    assert np.mean(made.codes[:, 5] * made.codes[:, 9]) == pytest.approx(np.mean(codes[:, 5] * codes[:, 9]), abs=0.03)


# By hand


def test_drawing_follows_the_table() -> None:
    pair = np.array([[30.0, 0.0], [10.0, 60.0]])
    codes = drawn([(1, None), (0, 1)], [pair.sum(1), pair.sum(0)], {(0, 1): pair}, 100, np.random.default_rng(0))
    assert distance(codes, (0, 1), pair) == 0


def tables_of(codes: np.ndarray, shape: tuple[int, ...], ways: int) -> list[tuple[tuple[int, ...], np.ndarray, float]]:
    out = []
    for axes in combinations(range(len(shape)), ways):
        counts = np.zeros([shape[axis] for axis in axes])
        np.add.at(counts, tuple(codes[:, axis] for axis in axes), 1)
        out.append((axes, counts, 1.0))
    return out


def squares(codes: np.ndarray, wanted: list[tuple[tuple[int, ...], np.ndarray, float]]) -> float:
    return sum(
        float(((mine - counts) ** 2).sum())
        for axes, counts, _ in wanted
        for mine in [tables_of(codes[:, list(axes)], counts.shape, len(axes))[0][1]]
    )


@pytest.mark.parametrize("seed", range(5))
def test_tables_that_rows_have_are_found_to_within_rounding(seed: int) -> None:
    """A joint table exists: the mean difference is below one row a cell, from a start that has no association."""
    rng, shape = np.random.default_rng(seed), (3, 4, 5, 2, 6, 3)
    hidden = rng.integers(0, 4, 3_000)
    laws = [rng.dirichlet(np.full(size, 0.4), 4) for size in shape]
    codes = np.stack([(rng.random((3_000, 1)) > law.cumsum(1)[hidden]).sum(1) for law in laws], 1)
    codes = np.minimum(codes, np.array(shape) - 1).astype(np.int32)
    wanted = tables_of(codes, shape, 2)
    start = rng.permuted(codes, axis=0)
    found = fitted(start, shape, wanted, [], rng)
    cells = sum(counts.size for _, counts, _ in wanted)
    assert squares(start, wanted) / cells > 100
    assert squares(found, wanted) / cells < 1  # at least the mean of absolute differences squared


@pytest.mark.parametrize("seed", range(6))
def test_no_rows_are_much_nearer_by_all_there_are(seed: int) -> None:
    """Tables that contradict each other, eight rows of three binary attributes: all 6,435 sets of rows are tried.

    One row in the wrong cell costs at most 2 in each of three tables.
    """
    rng, shape = np.random.default_rng(seed), (2, 2, 2)
    wanted = [(axes, rng.dirichlet(np.ones(4)).reshape(2, 2) * 8, 1.0) for axes in combinations(range(3), 2)]
    cells = np.array(list(product(range(2), repeat=3)))
    sums = np.array([np.concatenate([np.eye(4)[2 * c[a] + c[b]] for (a, b), _, _ in wanted]) for c in cells])
    target = np.concatenate([counts.ravel() for _, counts, _ in wanted])
    sets = np.array([np.bincount(each, minlength=8) for each in combinations_with_replacement(range(8), 8)])
    least = float(((sets @ sums - target) ** 2).sum(axis=1).min())
    found = fitted(rng.integers(0, 2, (8, 3)).astype(np.int32), shape, wanted, [], rng)
    assert least - 1e-9 <= squares(found, wanted) <= least + 6


def test_a_precise_table_counts_more_than_a_noisy_one() -> None:
    """Two tables that contradict each other: the rows have the one whose weight is 100 times that of the other."""
    rng = np.random.default_rng(0)
    start = rng.integers(0, 2, (1_000, 2)).astype(np.int32)
    one, other = np.array([900.0, 100.0]), np.array([[50.0, 50.0], [450.0, 450.0]])
    found = fitted(start, (2, 2), [((0,), one, 1.0), ((0, 1), other, 0.01)], [], rng)
    assert abs((found[:, 0] == 0).sum() - 900) < 20


# Structural zeros

ZEROS = (
    Impossible({"a0": ("0",), "a1": ("1", "2")}),
    Impossible({"a1": ("0",), "a2": ("3",), "a3": ("0", "1")}),
    *(Impossible({"a3": (str(i),), "a4": tuple(str(j) for j in range(3) if j != i)}) for i in range(3)),  # a function
)


def broken(codes: np.ndarray) -> np.ndarray:
    """The rows that the facts above forbid, written out."""
    a0, a1, a2, a3, a4 = codes.T
    return ((a0 == 0) & (a1 >= 1)) | ((a1 == 0) & (a2 == 3) & (a3 <= 1)) | (a3 != a4)


@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_impossible_and_functions_hold(seed: int) -> None:
    rng, sizes = np.random.default_rng(seed), (2, 3, 4, 3, 3)
    codes = np.stack([rng.integers(0, size, 4_000) for size in sizes], 1)
    codes[:, 4] = codes[:, 3]
    codes = codes[~broken(codes)]
    full = np.zeros(sizes)
    np.add.at(full, tuple(codes.T), 1)
    schema = replace(schema_of(*sizes), facts=ZEROS)
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    release = publish(schema, measured(rng, full, [[i, j] for j in range(5) for i in range(j)], NOISE), told)
    made = release.synthesize(seed=seed)
    assert not broken(made.codes).any()
    assert max(made.distances.values()) < 0.03
    assert not broken(release.synthesize(37, seed=seed).codes).any()


def test_impossible_rows_are_changed_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, sizes = np.random.default_rng(0), (2, 3, 4, 3, 3)
    schema = replace(schema_of(*sizes), facts=ZEROS)
    codes = np.stack([rng.integers(0, size, 500) for size in sizes], 1).astype(np.int32)
    bad = broken(codes)
    assert (impossible_rows(schema, codes) == bad).all()
    mended = without_impossible(schema, codes, rng)
    assert not broken(mended).any()
    assert (mended[~bad] == codes[~bad]).all()
    monkeypatch.setattr(row_fit, "_LARGEST_ZEROS", 0)  # as if the tables of zeros were too large: rows are copied
    assert not broken(without_impossible(schema, codes, rng)).any()
    with pytest.raises(QueryError, match="no row without values that the schema calls impossible together was found"):
        without_impossible(schema, codes[bad][:1], rng)


def test_values_of_groups_share_their_rows() -> None:
    """Six values in two groups, measured with another attribute in groups, and in full alone."""
    rng, codes = np.random.default_rng(2), np.zeros((6_000, 2), np.int64)
    codes[:, 0] = rng.choice(6, 6_000, p=[0.4, 0.2, 0.1, 0.1, 0.15, 0.05])
    codes[:, 1] = rng.random(6_000) < np.where(codes[:, 0] < 3, 0.9, 0.2)
    group = np.array([0, 0, 0, 1, 1, 1])
    single, pair = np.bincount(codes[:, 0], minlength=6), np.zeros((2, 2), np.int64)
    np.add.at(pair, (group[codes[:, 0]], codes[:, 1]), 1)
    queries = [(Cells(("a0",)), single), (Cells(("a0", "a1"), {"a0": group.tolist()}), pair)]
    taken = [Measurement(q, v, variance=NOISE.variance, noise=NOISE, origin="test") for q, v in queries]
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    fact = Impossible({"a0": ("0",), "a1": ("0",)})
    for facts in ((), (fact,)):
        made = publish(replace(schema_of(6, 2), facts=facts), taken, told).synthesize()
        assert np.abs(np.bincount(made.codes[:, 0], minlength=6) - single).max() < (150 if facts else 60)
        seen = np.zeros((2, 2))
        np.add.at(seen, (group[made.codes[:, 0]], made.codes[:, 1]), 1)
        zeros = ((made.codes == 0).all(axis=1)).sum()
        assert np.abs(seen - pair).max() < 60
        assert zeros == 0 if facts else zeros > 100


# Many rows


def test_more_rows_than_there_is_time_for_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    release, _ = released()
    monkeypatch.setattr(row_fit, "_WORK", 8 * 5_000 * 1_000)
    made = release.synthesize(20_000)
    assert len(made) == 20_000
    assert max(made.distances.values()) < 0.03
    assert len(np.unique(made.codes, axis=0)) < 1_500
    assert rows_to_fit((2, 3), [(0,), (0, 1)], 10**9) < 10**9
    assert np.unique(repeated(np.arange(3)[:, None].astype(np.int32), 8, np.random.default_rng(0)), return_counts=True)[
        1
    ].tolist() in ([2, 3, 3], [3, 2, 3], [3, 3, 2])


# By hand, the start


@pytest.mark.parametrize("total", [0, 1, 10, 1_000_003])
def test_whole_numbers_are_next_to_their_shares(total: int) -> None:
    weights = np.array([0.0, 1.0, 2.5, 0.25, 0.0])
    numbers = whole(weights, total, np.random.default_rng(total))
    assert numbers.sum() == total
    assert (np.abs(numbers - weights / weights.sum() * total) < 1).all()
    assert (whole(np.zeros(3), 9, np.random.default_rng(0)) == 3).all()


def test_the_tree_takes_the_strongest_links() -> None:
    links = {(0, 1): 0.9, (1, 2): 0.8, (0, 2): 0.7, (2, 3): 0.1, (0, 3): 0.2}
    tree = {frozenset(edge) for edge in drawing_order(4, links) if edge[1] is not None}
    assert tree == {frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 3})}


class Known:
    std_error = 30.0

    def half_width(self, level: float) -> float:
        return 1.959963984540054 * 30.0


def test_the_factor_is_that_of_the_formula() -> None:
    """1,000 people half and half with noise of 30; 4,000 rows that agree: sqrt(250 + 900) / 1000 / sqrt(1/4/4000)."""
    schema = schema_of(2)
    known = LinearLaw(None, Known())
    answer = Marginal(schema, np.array([500.0, 500.0]), method="m", error_kind=ErrorKind.EXACT, uncertainty=known)
    codes = np.repeat([0, 1], 2_000)[:, None].astype(np.int32)
    expected = math.sqrt(250 + 900) / 1_000 / math.sqrt(0.25 / 4_000)
    assert narrowness(schema, codes, {("a0",): answer}) == pytest.approx((expected, expected))


# Files


def test_every_row_of_a_file_says_what_it_is(tmp_path: Path) -> None:
    made = views().synthesize(50)
    write_rows(made, tmp_path / "rows.csv")
    write_rows(made, tmp_path / "rows.parquet")
    frame = pd.read_csv(tmp_path / "rows.csv")
    assert list(frame) == ["sex", "âge", "value", "synthetic"]
    assert set(frame["synthetic"]) == {f"not a person; widen intervals {made.factor:.2g} times"}
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert table.to_pandas().astype(str).equals(frame.astype(str))
    assert table.schema.metadata[b"crosstally.synthetic"].decode() == made.warning
    assert "as if they were people are too narrow: make them" in made.warning


def test_few_rows_have_intervals_that_are_wide_enough() -> None:
    release, _ = released()
    made = release.synthesize(50)
    assert made.factor < 1
    assert "They are few: intervals computed from them are wide enough" in made.warning


def test_labels_of_rows_are_no_formulas(tmp_path: Path) -> None:
    schema = ct.Schema([ct.Attribute("=x", ["=1+1", "-5"])])
    query = Measurement(Cells(("=x",)), np.array([5, 6]), variance=NOISE.variance, noise=NOISE, origin="test")
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    made = publish(schema, [query], told).synthesize(10)
    write_rows(made, tmp_path / "rows.csv")
    assert set(pd.read_csv(tmp_path / "rows.csv", dtype=str)["'=x"]) == {"'=1+1", "-5"}
    write_rows(made, tmp_path / "raw.csv", raw=True)
    assert set(pd.read_csv(tmp_path / "raw.csv", dtype=str)["=x"]) == {"=1+1", "-5"}


def test_the_command(tmp_path: Path) -> None:
    views().save(tmp_path / "given.parquet")
    ran = run("synth", tmp_path / "given.parquet", "--rows", "40", "-o", tmp_path / "rows.csv")
    assert ran.code == 0, ran.err
    assert "40 rows of synthetic data in" in ran.err
    assert "too narrow" in ran.err
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 40
    assert "rows are written as .csv or .parquet" in run("synth", tmp_path / "given.parquet", "-o", tmp_path / "x").err
