"""Views of mixed sizes, by enumeration."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.designs import covering_design, covering_views
from crosstally.errors import PlanError
from reference_designs import are_views


@given(st.lists(st.integers(2, 12), min_size=1, max_size=14), st.integers(1, 3), st.floats(1, 20))
@settings(max_examples=60, deadline=None)
def test_views_cover_within_their_cells(sizes: list[int], cover: int, room: float) -> None:
    max_cells = int(math.prod(sorted(sizes)[-cover:]) * room)
    assert are_views(covering_views(sizes, max_cells, cover), sizes, max_cells, cover)


def test_views_of_many_attributes_cover_within_their_cells() -> None:
    sizes = [2 + (7 * i) % 11 for i in range(40)]
    assert are_views(covering_views(sizes, 2000, 2), sizes, 2000, 2)
    assert are_views(covering_views(sizes[:24], 2000, 3), sizes[:24], 2000, 3)


def test_quadruples_are_covered_within_the_cells() -> None:
    sizes = [2, 3, 4, 2, 3, 4, 2, 3, 4, 2]
    assert are_views(covering_views(sizes, 400, 4), sizes, 400, 4)


def test_many_small_and_a_few_large_attributes() -> None:
    sizes = [2] * 100 + [100] * 5
    views = covering_views(sizes, 10_000, 2)
    assert are_views(views, sizes, 10_000, 2)
    assert max(map(len, views)) >= 10
    assert {(100, 101), (103, 104)} <= set(views)


def test_equal_attributes_get_a_covering_design() -> None:
    assert len(covering_views([2] * 32, 256, 2)) == 20
    assert len(covering_views([3] * 32, 3**8, 3)) == 108
    assert len(covering_views([2] * 32, 511, 2)) == len(covering_design(32, 8, 2))


def test_a_large_attribute_meets_the_others_one_by_one() -> None:
    # 8 x 2 cells fill a view; the four small ones fill one together: five views, and no fewer can hold the large one.
    assert covering_views([2, 2, 8, 2, 2], 16, 2) == ((0, 1, 3, 4), (0, 2), (1, 2), (2, 3), (2, 4))


def test_one_view_when_all_cells_fit() -> None:
    assert covering_views([4, 3, 2], 24, 2) == ((0, 1, 2),)


def test_single_attributes_are_packed() -> None:
    assert covering_views([2, 5, 3, 2], 10, 1) == ((0, 1), (2, 3))


def test_the_same_numbers_give_the_same_views() -> None:
    sizes = [2, 3, 4, 5, 6, 7, 8]
    assert covering_views(sizes, 200, 2) == covering_views(tuple(sizes), 200, 2)


@pytest.mark.parametrize(
    ("sizes", "max_cells", "cover", "message"),
    [
        ([], 10, 2, "a design has 1 to 512 attributes, got 0"),
        ([2] * 513, 10, 2, "a design has 1 to 512 attributes, got 513"),
        ([2, 1], 10, 2, "an attribute must have at least 2 cells, got 1"),
        ([2, 2], 10, 5, "a design covers 1 to 4 attributes together, got 5"),
        ([2, 30, 40], 1000, 2, "the largest 2 attributes together have 1,200 cells, a view may have 1,000"),
        ([2] * 512, 8, 2, "a design of at least 43,691 views is needed for 512 attributes, views of 8 cells"),
        ([2] * 150 + [4] * 150, 16, 2, "no design of few enough views is known for 300 attributes"),
    ],
)
def test_what_cannot_be_is_refused(sizes: list[int], max_cells: int, cover: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        covering_views(sizes, max_cells, cover)
