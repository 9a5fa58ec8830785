"""Designs that annealing finds, and how it counts."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from crosstally.designs.constructions import orbit_numbers, orbits_of
from crosstally.designs.geometry import affine_flats
from crosstally_lab.design_search import anneal_blocks, annealed, selected
from reference_designs import is_design, uncovered_subsets


def test_annealing_finds_a_small_design() -> None:
    # The projective plane of order 2 is the only way to cover the pairs of seven points by seven triples.
    blocks = annealed(7, 7, 3, 2, steps=200_000)
    assert blocks is not None
    assert is_design(blocks, 7, 3, 2)
    assert annealed(6, 7, 3, 2, steps=20_000) is None


def test_annealing_under_a_rotation_finds_the_plane_of_order_three() -> None:
    base = annealed(1, 13, 4, 2, orbits=orbit_numbers(13, 2, 13), steps=200_000)
    assert base is not None
    assert is_design(orbits_of(base, 13, 13), 13, 4, 2)
    assert len(orbits_of(base, 13, 13)) == 13


@pytest.mark.parametrize("cover", [1, 2, 3, 4])
def test_annealing_counts_what_it_covers(cover: int) -> None:
    start = np.random.default_rng(cover)
    blocks = np.array([start.permutation(11)[:5] for _ in range(4)])
    subsets = sorted(combinations(range(11), cover), key=lambda subset: subset[::-1])
    held = Counter(subset for block in blocks for subset in combinations(sorted(block.tolist()), cover))
    counts = np.array([held[subset] for subset in subsets])
    binomials = np.array([[math.comb(x, i) for i in range(cover + 1)] for x in range(12)])
    left = anneal_blocks(blocks, binomials, np.arange(len(subsets)), counts, 11, cover, np.full(500, 1.0), np.uint64(5))
    after = Counter(subset for block in blocks for subset in combinations(sorted(block.tolist()), cover))
    assert counts.tolist() == [after[subset] for subset in subsets]
    assert left == len(uncovered_subsets(blocks.tolist(), 11, cover))
    assert all(len(set(block)) == 5 for block in blocks.tolist())


def test_no_selection_is_returned_that_does_not_cover() -> None:
    flats = affine_flats(3, 2, 2).tolist()
    assert selected(flats, 13, 8, 3, steps=2_000) is None


def test_nothing_is_selected_from_a_pool_that_lacks_a_subset() -> None:
    """No block holds the last two points together: there is no holder of theirs to draw, before or past the end."""
    pool = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 4], [0, 1, 4]]
    assert selected(pool, 3, 5, 2, steps=2_000) is None


def test_a_design_of_the_table_is_found_again() -> None:
    flats = affine_flats(5, 2, 3).tolist()
    chosen = selected(flats, 108, 32, 3)
    assert chosen is not None
    assert len(set(chosen)) == 108
    assert not uncovered_subsets([flats[place] for place in chosen], 32, 3)
