"""Groups of the values of wide attributes: worked out by hand, and their invariants."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema
from crosstally.strategies.wide_schemas import groups_of_all, rows_of_a_group, value_groups
from wide_schema import wide_schema


def labels(number: int) -> Attribute:
    return Attribute("town", [str(i) for i in range(number)])


def bins(number: int, *, missing: bool = False) -> Attribute:
    return Attribute("age", edges=range(number + 1), missing=missing)


def test_the_size_of_a_group() -> None:
    """50,000 rows and noise of 40: two groups of 2,000 rows have 80 in common where they are independent."""
    assert rows_of_a_group(40, 50_000) == 2_000
    assert rows_of_a_group(40, -3.0) == pytest.approx(80**0.5)  # a noisy number of rows may be below zero


@pytest.mark.parametrize(
    ("attribute", "counts", "rows_each", "expected"),
    [
        (bins(6), [9, 2, 3, 9, 1, 1], 5, (0, 1, 1, 2, 2, 2)),  # the last two do not make a group
        (bins(6), [9, 2, 3, 9, 1, 6], 5, (0, 1, 1, 2, 3, 3)),
        (bins(3), [9, 8, 7], 5, None),  # each by itself
        (bins(4), [1, 1, 1, 1], 100, (0, 0, 1, 1)),  # two groups at least
        (bins(3), [0, 0, 0], 100, (0, 1, 1)),
        (bins(4, missing=True), [1, 1, 1, 1, 1], 100, (0, 0, 0, 0, 1)),  # missing values are a group already
        (labels(6), [1, 20, 4, -50, 30, 3], 5, (2, 1, 2, 2, 0, 2)),  # 30, 20, then 4 + 3 and what is left
        (labels(4), [2, 2, 2, 2], 4, (0, 0, 1, 1)),
        (labels(2), [1, 0], 100, None),
    ],
)
def test_groups_by_hand(attribute: Attribute, counts: list[int], rows_each: float, expected: object) -> None:
    assert value_groups(attribute, counts, rows_each) == expected


@given(
    st.lists(st.floats(-100, 1_000), min_size=2, max_size=60), st.floats(0.1, 5_000), st.sampled_from([bins, labels])
)
def test_groups_hold_enough_rows(counts: list[float], rows_each: float, kind: object) -> None:
    attribute = kind(len(counts))  # type: ignore[operator]
    groups = value_groups(attribute, counts, rows_each)
    if groups is None:
        return
    shape = Cells(("x",), {"x": groups}).shape(Schema([Attribute("x", attribute.labels)]))
    held = np.bincount(groups, np.maximum(counts, 0))
    assert 2 <= shape[0] < len(counts)
    assert shape[0] == 2 or (held >= rows_each).all()
    if attribute.edges:
        assert list(groups) == sorted(groups)


@pytest.mark.parametrize("most_cells", [100_000, 20_000, 5_000, 10])
def test_all_pairs_fit(most_cells: int) -> None:
    schema = wide_schema(48)
    counts = {a.name: 1e5 / (1 + np.arange(a.size)) for a in schema.attributes}
    found = groups_of_all(schema, counts, rows_each=1_000, most_cells=most_cells)
    sizes = [max(found[a.name]) + 1 if a.name in found else a.size for a in schema.attributes]
    cells = sum(a * b for a, b in combinations(sizes, 2))
    assert cells <= max(most_cells, 4 * 48 * 47 / 2)
    assert cells > most_cells / 2  # and no more is given up than must be


def test_some_attributes_keep_their_values() -> None:
    schema = wide_schema(48)
    counts = {a.name: 1e5 / (1 + np.arange(a.size)) for a in schema.attributes}
    kept = {"a0", "a5"}
    found = groups_of_all(schema, counts, rows_each=1_000, most_cells=100_000, in_full=kept)
    assert kept <= groups_of_all(schema, counts, rows_each=1_000, most_cells=100_000).keys()
    assert not kept & found.keys()
