"""Covering designs: sizes of the papers as literals, everything else by enumeration."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.designs import covering_design
from crosstally.errors import PlanError
from reference_designs import is_design


@pytest.mark.parametrize(
    ("attributes", "size", "cover", "views"),
    [
        (9, 6, 2, 3),
        (8, 4, 2, 6),
        (8, 4, 3, 14),
        (16, 4, 2, 20),
        (32, 8, 2, 20),
        (64, 8, 2, 72),
        (32, 8, 4, 620),
        (57, 8, 2, 57),
        (22, 6, 3, 77),
        (50, 8, 3, 350),
    ],
)
def test_sizes_of_the_papers_and_of_perfect_designs_are_met_exactly(
    attributes: int, size: int, cover: int, views: int
) -> None:
    design = covering_design(attributes, size, cover)
    assert len(design) == views
    assert is_design(design, attributes, size, cover)


@pytest.mark.parametrize(
    ("attributes", "size", "cover", "most"),
    [(32, 8, 3, 108), (45, 8, 2, 45), (45, 8, 3, 350), (256, 8, 2, 1184), (512, 8, 2, 4672), (128, 8, 3, 7120)],
)
def test_sizes_are_at_most_what_is_known_to_be_reached(attributes: int, size: int, cover: int, most: int) -> None:
    design = covering_design(attributes, size, cover)
    assert len(design) <= most
    assert is_design(design, attributes, size, cover)


@pytest.mark.parametrize(
    ("size", "cover"), [(3, 2), (4, 3), (5, 2), (5, 4), (7, 3), (7, 4), (8, 2), (8, 3), (11, 3), (12, 1), (12, 4)]
)
@pytest.mark.parametrize("attributes", [2, 5, 9, 13, 20, 27, 34])
def test_designs_cover_every_subset(attributes: int, size: int, cover: int) -> None:
    assert is_design(covering_design(attributes, size, cover), attributes, size, cover)


@pytest.mark.verify
@pytest.mark.parametrize(("size", "cover"), [(k, t) for k in range(3, 13) for t in (2, 3, 4) if k >= t])
def test_designs_of_every_number_of_attributes_cover_every_subset(size: int, cover: int) -> None:
    most = 24 if size - cover < 2 else 40  # few points more than the cover need more than 20,000 views
    for attributes in range(2, most + 1):
        assert is_design(covering_design(attributes, size, cover), attributes, size, cover)


@pytest.mark.parametrize(("attributes", "size", "cover"), [(512, 12, 2), (300, 3, 2), (200, 5, 2), (90, 10, 3)])
def test_large_designs_cover_every_subset(attributes: int, size: int, cover: int) -> None:
    assert is_design(covering_design(attributes, size, cover), attributes, size, cover)


def test_a_large_design_is_made_in_seconds() -> None:
    covering_design.cache_clear()
    start = time.perf_counter()
    covering_design(256, 8, 2)
    assert time.perf_counter() - start < 5


@given(st.integers(2, 24), st.integers(2, 12), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_any_design_covers(attributes: int, size: int, cover: int) -> None:
    if size < cover:
        with pytest.raises(PlanError, match="size must be at least cover"):
            covering_design(attributes, size, cover)
    else:
        assert is_design(covering_design(attributes, size, cover), attributes, size, cover)


def test_the_same_numbers_give_the_same_views() -> None:
    first = covering_design(37, 7, 3)
    covering_design.cache_clear()
    assert covering_design(37, 7, 3) == first


def test_one_view_holds_all_when_it_may() -> None:
    assert covering_design(7, 8, 2) == ((0, 1, 2, 3, 4, 5, 6),)
    assert covering_design(20, 20, 4) == (tuple(range(20)),)
    assert covering_design(2, 3, 3) == ((0, 1),)


def test_single_attributes_are_covered_by_a_partition() -> None:
    assert covering_design(7, 3, 1) == ((0, 1), (2, 3), (4, 5, 6))


@pytest.mark.parametrize(
    ("attributes", "size", "cover", "message"),
    [
        (0, 3, 2, "a design has 1 to 512 attributes, got 0"),
        (513, 8, 2, "a design has 1 to 512 attributes, got 513"),
        (32, 8, 5, "a design covers 1 to 4 attributes together, got 5"),
        (32, 8, 0, "a design covers 1 to 4 attributes together, got 0"),
        (32, 3, 4, "a view of 3 attributes cannot hold 4 together: size must be at least cover"),
        (32, 17, 2, "a view must have at most 16 attributes unless it holds all, got 17"),
        (512, 3, 2, "a design of at least 43,691 views is needed for 512 attributes, views of 3"),
        (512, 8, 3, "a design of at least 397,120 views is needed"),
        (188, 8, 3, "no design of few enough views is known for 188 attributes"),
    ],
)
def test_what_cannot_be_is_refused(attributes: int, size: int, cover: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        covering_design(attributes, size, cover)


def test_hopeless_designs_are_refused_at_once() -> None:
    start = time.perf_counter()
    with pytest.raises(PlanError, match="at most 20,000 are allowed"):
        covering_design(512, 8, 4)
    assert time.perf_counter() - start < 0.1
