"""All views corrected at once: by hand, against an independent solver, and on hostile tables."""

from __future__ import annotations

from functools import reduce
from itertools import combinations

import clarabel
import numpy as np
import pytest
from scipy import sparse

import crosstally as ct
from conftest import schema_of
from crosstally.inference import estimate
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.residuals import combine


def view_of(schema: ct.Schema, names: tuple[str, ...], values: object, variance: float = 8.0) -> Measurement:
    return Measurement(Cells(names), np.asarray(values, float), variance=variance, noise=None, origin="test")


def test_one_cell_below_zero_by_hand() -> None:
    """(-4, 5 / 3, 9): 4 must be added to the first cell, the total kept.

    The main effects have twice the variance of the interaction and one attribute each, the interaction has two: squares
    cost 1/2, 1/2 and 1/4. Main effects take part in a cell with 1/(2 sqrt 2), the interaction with 1/2; so of the 4 the
    main effects add 2/3 each and the interaction 8/3.
    """
    schema = schema_of(2, 2)
    after = estimate(schema, [view_of(schema, ("a0", "a1"), [[-4, 5], [3, 9]])], nonnegative="joint")
    assert np.allclose(after.table(("a0", "a1")), [[0, 7 / 3], [1 / 3, 31 / 3]], atol=0.05)
    assert after.table(()) == pytest.approx(13, rel=1e-12)
    assert after.corrected == "joint"


def test_nothing_changes_where_nothing_is_negative() -> None:
    schema = schema_of(2, 3)
    views = [view_of(schema, ("a0", "a1"), [[4, 1, 3], [1, 7, 2]]), view_of(schema, ("a1",), [6, 6, 5])]
    before, after = combine(schema, views), estimate(schema, views, nonnegative="joint")
    assert before.table(("a0", "a1")).min() >= 0
    assert np.allclose(after.coefficients, before.coefficients, rtol=0, atol=1e-9)


# The same program, written cell by cell for a solver of quadratic programs


def effects(schema: ct.Schema, names: tuple[str, ...], within: tuple[str, ...]) -> np.ndarray:
    """The rows whose inner products with the table over ``within`` are the centred marginal over ``names``."""
    axes = []
    for name in within:
        n = schema[name].size
        axes.append(np.eye(n) - 1 / n if name in names else np.ones((1, n)))
    return reduce(np.kron, axes, np.ones((1, 1)))


def solved(schema: ct.Schema, views: list[Measurement]) -> dict[tuple[str, ...], np.ndarray]:
    """The nearest centred marginals, one block for each set of attributes, so that all views are non-negative."""
    before = combine(schema, views)
    sets = sorted({part for view in views for k in range(len(view.query.attributes) + 1)
                   for part in combinations(view.query.attributes, k)})  # fmt: skip
    starts, number = {}, 0
    for names in sets:
        starts[names] = number
        number += int(np.prod(schema.sizes(names)))
    diagonal, linear = np.zeros(number), np.zeros(number)
    for names in sets:
        block = slice(starts[names], starts[names] + int(np.prod(schema.sizes(names))))
        precision = sum(
            1 / (view.variance * np.prod(schema.sizes([n for n in view.query.attributes if n not in names])))
            for view in views
            if set(names) <= set(view.query.attributes)
        )
        weight = precision / max(len(names), 1) ** 2
        target = effects(schema, names, names) @ before.table(names).ravel()
        diagonal[block], linear[block] = weight, -weight * target
    equal, cells = [], []
    for names in sets:
        size = int(np.prod(schema.sizes(names)))
        keep = np.zeros((size, number))
        keep[:, starts[names] : starts[names] + size] = np.eye(size) - effects(schema, names, names)
        equal.append(keep)
    equal.append(np.eye(number)[[starts[()]]])
    for view in views:
        own = view.query.attributes
        rebuilt = np.zeros((int(np.prod(schema.sizes(own))), number))
        for names in (part for k in range(len(own) + 1) for part in combinations(own, k)):
            spread = reduce(np.kron, [np.eye(schema[n].size) if n in names else np.ones((schema[n].size, 1))
                                      / schema[n].size for n in own], np.ones((1, 1)))  # fmt: skip
            rebuilt[:, starts[names] : starts[names] + spread.shape[1]] += spread
        cells.append(rebuilt)
    fixed, positive = np.vstack(equal), np.vstack(cells)
    right = np.zeros(len(fixed))
    right[-1] = float(before.table(()))
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.diag(diagonal)),
        linear,
        sparse.csc_matrix(np.vstack([fixed, -positive])),
        np.concatenate([right, np.zeros(len(positive))]),
        [clarabel.ZeroConeT(len(fixed)), clarabel.NonnegativeConeT(len(positive))],
        quiet(),
    )
    found = np.array(solver.solve().x)
    return {view.query.attributes: (positive_part @ found) for view, positive_part in zip(views, cells, strict=True)}


def quiet() -> clarabel.DefaultSettings:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    return settings


@pytest.mark.parametrize("number", [6, pytest.param(100, marks=pytest.mark.verify)])
def test_the_program_is_solved(number) -> None:
    """Cell by cell within a tenth of the noise of a cell, which is far below what negative cells move."""
    random = np.random.default_rng(number)
    moved = []
    for _ in range(number):
        sizes = random.integers(2, 4, 4).tolist()
        schema = schema_of(*sizes)
        possible = [names for k in (2, 3) for names in combinations(schema.names, k)]
        chosen = [possible[i] for i in random.permutation(len(possible))[:4]]
        views = []
        for names in chosen:
            variance = float(random.uniform(2, 30))
            truth = random.poisson(random.choice([0, 1, 40], schema.sizes(names)))
            views.append(view_of(schema, names, truth + random.normal(0, variance**0.5, truth.shape), variance))
        if float(combine(schema, views).table(())) <= 0:
            continue
        before, after = combine(schema, views), estimate(schema, views, nonnegative="joint")
        for names, cells in solved(schema, views).items():
            noise = max(view.variance for view in views) ** 0.5
            assert np.abs(after.table(names).ravel() - cells).max() <= 0.1 * noise
            moved.append(np.abs(before.table(names).ravel() - cells).max() / noise)
    assert max(moved) > 0.5


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.verify)])
def test_hostile_tables(number) -> None:
    """Nothing but negative cells, totals below zero, huge and tiny noise: it ends, finite, the total kept or zero."""
    random = np.random.default_rng(number)
    for _ in range(number):
        schema = schema_of(*random.integers(2, 4, 3).tolist())
        views = []
        for names in combinations(schema.names, 2):
            values = random.normal(random.choice([-1e6, -3, 0, 5]), 10.0 ** random.integers(-3, 7), schema.sizes(names))
            views.append(view_of(schema, names, values, 10.0 ** random.integers(-8, 12)))
        after = estimate(schema, views, nonnegative="joint")
        total = max(float(combine(schema, views).table(())), 0.0)
        assert np.isfinite(after.coefficients).all()
        assert after.table(()) == pytest.approx(total, rel=1e-9, abs=1e-9)
        if total == 0:
            assert not after.coefficients.any()
