"""Views abreast against the kernels that take them one by one: the same to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosstally.inference import joint_correction as joint
from crosstally.inference.joint_correction import ViewGroup, nearest_above_zero, view_factors
from crosstally.kernels.helmert import expand, expand_abreast, project, project_abreast
from crosstally.kernels.joint import ABREAST, split_step, split_step_abreast

SHAPES = [(2,), (5,), (2, 2, 2), (3, 2, 4)]
NOWHERE = np.empty((0, 0), np.bool_)


def scattered(shape: tuple[int, ...], views: int) -> np.ndarray:
    """Places of the coefficients of views that share some of them; all have the total, at 0."""
    random, cells = np.random.default_rng(math.prod(shape)), math.prod(shape)
    places = np.stack([random.permutation(3 * cells)[:cells] for _ in range(views)]) + 1
    places[:, 0] = 0
    return places.astype(np.int64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("alone", "abreast"), [(expand, expand_abreast), (project, project_abreast)])
def test_tables_abreast_are_tables_alone(shape, alone, abreast) -> None:
    tables, sizes = np.random.default_rng(3).normal(0, 9, (5, math.prod(shape))), np.array(shape, np.int64)
    together = np.ascontiguousarray(tables.T).ravel()
    abreast(together, sizes, 5)
    for table in tables:
        alone(table, sizes)
    np.testing.assert_array_equal(together.reshape(-1, 5).T, tables)


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_of_views_abreast_are_steps_one_by_one(shape) -> None:
    random, cells, views = np.random.default_rng(4), math.prod(shape), 2 * ABREAST
    places, sizes, factors = scattered(shape, views), np.array(shape, np.int64), view_factors(shape)
    penalties = random.uniform(0.5, 2, views)
    one_by_one = np.zeros((views, cells)), np.zeros((views, cells))
    abreast = np.zeros((2, cells, ABREAST)), np.zeros((2, cells, ABREAST))
    for _ in range(4):  # later steps begin with cells and debts of the earlier ones
        coefficients = random.normal(0, 9, 3 * cells + 1)
        sums, again = np.zeros(len(coefficients)), np.zeros(len(coefficients))
        left = split_step(coefficients, places, factors, sizes, penalties, NOWHERE, *one_by_one, sums)
        assert split_step_abreast(coefficients, places, factors, sizes, penalties, *abreast, again) == left
        np.testing.assert_array_equal(again, sums)
        for own, other in zip(one_by_one, abreast, strict=True):
            np.testing.assert_array_equal(other.transpose(0, 2, 1).reshape(own.shape), own)


@pytest.mark.parametrize("views", [ABREAST - 1, ABREAST, 2 * ABREAST + 3])
def test_the_nearest_coefficients_do_not_depend_on_how_views_are_taken(views, monkeypatch) -> None:
    random, shape = np.random.default_rng(5), (2, 3)
    group = ViewGroup(shape, scattered(shape, views))
    start, variances = random.normal(0, 9, 19), random.uniform(1, 4, 19)
    start[0] = 20.0
    found = nearest_above_zero(start, variances, [group], total=0)
    monkeypatch.setattr(joint, "_MOST_ABREAST", 0)
    np.testing.assert_array_equal(nearest_above_zero(start, variances, [group], total=0), found)
    # Where all cells are possible it makes no difference to say so; such views are taken one by one
    possible = ViewGroup(shape, group.places, np.ones((views, 6), np.bool_))
    monkeypatch.undo()
    np.testing.assert_array_equal(nearest_above_zero(start, variances, [possible], total=0), found)
