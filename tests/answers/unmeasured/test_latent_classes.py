"""Latent classes: a step beside its plain twin, tables beside sums over classes, fits of people drawn from classes."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from crosstally.answers.unmeasured.latent_class_model import FittedView, LatentClasses, fitted
from crosstally.kernels.latent_classes import share_out

SIZES = (2, 3, 2, 2, 3, 2)


def model_of(rng: np.random.Generator, classes: int, sizes: tuple[int, ...] = SIZES) -> LatentClasses:
    values = [rng.dirichlet(np.full(n, 0.7), classes).T for n in sizes]
    return LatentClasses(rng.dirichlet(np.ones(classes)), np.concatenate(values), np.cumsum([0, *sizes]))


def plain_table(model: LatentClasses, sizes: tuple[int, ...], attributes: tuple[int, ...]) -> np.ndarray:
    """The sum over classes of products, cell by cell."""
    out = np.zeros([sizes[i] for i in attributes])
    for cell in product(*(range(sizes[i]) for i in attributes)):
        for c, weight in enumerate(model.weights):
            own = [model.values[model.rows[i] + x, c] for i, x in zip(attributes, cell, strict=True)]
            out[cell] += weight * np.prod(own)
    return out


def test_tables_are_sums_of_products() -> None:
    model = model_of(np.random.default_rng(1), 4)
    for attributes in ((3,), (0, 1), (1, 4, 5), (4, 1, 0, 2)):
        shape = tuple(SIZES[i] for i in attributes)
        found = model.tables(shape, [attributes])
        assert found.shape == (1, *shape)
        assert found[0] == pytest.approx(plain_table(model, SIZES, attributes))
    both = model.tables((2, 3), [(0, 1), (5, 4)])
    assert both[1] == pytest.approx(plain_table(model, SIZES, (5, 4)))


def test_counts_are_shared_out_like_the_plain_twin() -> None:
    """Each cell's count goes to the classes in proportion to weight times values; sums are added to."""
    rng = np.random.default_rng(2)
    weights, values = rng.random(5), rng.random((7, 5))
    cells, counts = rng.integers(0, 7, (11, 3)).astype(np.int32), rng.random(11) * 9
    class_sums, value_sums = np.ones(5), np.ones((7, 5))
    share_out(weights, values, cells, counts, class_sums, value_sums)
    wanted_classes, wanted_values = np.ones(5), np.ones((7, 5))
    for cell, count in zip(cells, counts, strict=True):
        parts = [weights[c] * values[cell[0], c] * values[cell[1], c] * values[cell[2], c] for c in range(5)]
        for c, part in enumerate(parts):
            wanted_classes[c] += count * part / sum(parts)
            for row in cell:
                wanted_values[row, c] += count * part / sum(parts)
    assert class_sums == pytest.approx(wanted_classes)
    assert value_sums == pytest.approx(wanted_values)


def test_classes_explain_a_table_that_no_view_holds() -> None:
    """All triples of people from three classes are known exactly: so is, nearly, the table over all six attributes.

    The best table of independent attributes is off by more than a third of the people.
    """
    truth = model_of(np.random.default_rng(3), 3)
    triples = list(combinations(range(6), 3))
    views = [FittedView(own, 1e6 * plain_table(truth, SIZES, own)) for own in triples]
    found = fitted(SIZES, views, seed=1, starts=2)
    assert found.weights.sum() == pytest.approx(1)
    everything = tuple(range(6))
    exact, got = plain_table(truth, SIZES, everything), found.tables(SIZES, [everything])[0]
    ones = [plain_table(truth, SIZES, (i,)) for i in everything]
    independent = np.einsum("a,b,c,d,e,f", *ones)
    assert np.abs(independent - exact).sum() > 1 / 3
    assert np.abs(got - exact).sum() < 0.05
    again = fitted(SIZES, views, seed=1, starts=2)
    assert np.array_equal(again.values, found.values)


def test_a_value_that_nobody_has_is_not_impossible() -> None:
    views = [
        FittedView((0, 1), np.array([[50.0, 0.0], [0.0, 50.0]])),
        FittedView((1, 2), np.array([[50.0, 0.0], [50.0, 0.0]])),
    ]
    table = fitted((2, 2, 2), views, seed=5).tables((2, 2, 2), [(0, 1, 2)])[0]
    assert (table > 0).all()
    assert table.sum() == pytest.approx(1)
    assert table[:, :, 1].sum() < 0.01
