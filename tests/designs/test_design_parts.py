"""Fields, geometries, the table and the search behind the covering designs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from crosstally.designs import covers, geometry
from crosstally.designs.constructions import Found, designs_found, orbit_numbers, orbits_of
from crosstally.designs.geometry import field_of, prime_power
from reference_designs import greedy_views, is_design, uncovered_subsets


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9, 11, 16, 25, 27, 32])
def test_fields_obey_the_laws(q: int) -> None:
    field = field_of(q)
    x, y, z = (axis.ravel() for axis in np.meshgrid(*[np.arange(q)] * 3))
    plus, times = field.plus, field.times
    assert (plus[plus[x, y], z] == plus[x, plus[y, z]]).all()
    assert (times[times[x, y], z] == times[x, times[y, z]]).all()
    assert (times[x, plus[y, z]] == plus[times[x, y], times[x, z]]).all()
    assert (plus == plus.T).all()
    assert (times == times.T).all()
    assert (plus[0] == np.arange(q)).all()
    assert (times[1] == np.arange(q)).all()
    assert (plus[np.arange(q), field.minus] == 0).all()
    assert (times[np.arange(1, q), field.inverse[1:]] == 1).all()


def test_a_field_needs_a_prime_power() -> None:
    assert [q for q in range(20) if prime_power(q)] == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19]
    with pytest.raises(ValueError, match="a prime power of elements, got 6"):
        field_of(6)


@pytest.mark.parametrize(
    ("blocks", "points", "cover"),
    [
        *[(geometry.affine_flats(2, q, 1), q * q, 2) for q in (2, 3, 4, 5, 7, 8, 9, 11)],
        *[(geometry.projective_flats(2, q, 1), q * q + q + 1, 2) for q in (2, 3, 4, 5, 7, 8, 9)],
        (geometry.affine_flats(3, 2, 2), 8, 3),
        (geometry.affine_flats(5, 2, 2), 32, 3),
        (geometry.projective_flats(3, 3, 1), 40, 2),
        *[(geometry.circles(q, 2), q * q + 1, 3) for q in (3, 4, 5, 7)],
        (geometry.circles(3, 3), 28, 3),
        (geometry.golay_words(2), 23, 4),
        (geometry.golay_words(3), 11, 4),
    ],
)
def test_geometries_hold_every_subset_exactly_once(blocks: np.ndarray, points: int, cover: int) -> None:
    held = Counter(subset for block in blocks.tolist() for subset in combinations(block, cover))
    assert len(held) == math.comb(points, cover)
    assert set(held.values()) == {1}


@pytest.mark.parametrize(
    ("blocks", "points", "cover"),
    [
        (geometry.affine_flats(5, 2, 3), 32, 4),
        (geometry.affine_flats(3, 3, 2), 27, 3),
        (geometry.projective_flats(3, 2, 2), 15, 3),
    ],
)
def test_flats_hold_every_subset(blocks: np.ndarray, points: int, cover: int) -> None:
    assert is_design([tuple(block) for block in blocks.tolist()], points, blocks.shape[1], cover)


@pytest.mark.parametrize(("q", "groups", "strength"), [(3, 4, 2), (4, 5, 2), (4, 5, 3), (5, 4, 3), (3, 4, 4)])
def test_arrays_hold_points_of_different_groups_exactly_once(q: int, groups: int, strength: int) -> None:
    blocks = geometry.orthogonal_array(q, groups, strength).tolist()
    held = Counter(subset for block in blocks for subset in combinations(block, strength))
    assert set(held.values()) == {1}
    assert len(held) == math.comb(groups, strength) * q**strength


@pytest.mark.parametrize("found", designs_found(), ids=lambda found: f"{found.points}-{found.size}-{found.cover}")
def test_designs_of_the_table_are_what_they_say(found: Found) -> None:
    blocks = found.blocks()
    assert len(blocks) == found.number
    assert is_design(blocks, found.points, found.size, found.cover)


@pytest.mark.parametrize(
    ("sizes", "max_cells", "cover"),
    [([2] * 9, 16, 2), ([2] * 9, 32, 3), ([2] * 8, 64, 4), ([2, 3, 4, 5, 6, 2, 3, 4], 120, 2), ([2, 3] * 4, 60, 3)],
)
def test_greedy_is_its_slow_twin(sizes: list[int], max_cells: int, cover: int) -> None:
    for seed in (1, 2, 3):
        views = covers.greedy(sizes, max_cells, cover, limit=500, seed=seed)
        assert views is not None
        assert list(views) == greedy_views(sizes, max_cells, cover, seed)


def test_greedy_stops_at_its_limit() -> None:
    assert covers.greedy([2] * 9, 8, 2, limit=5) is None


def test_orbits_are_those_of_the_rotation() -> None:
    # Pairs of 0 1 2 | 3 4 5 | 6: differences 1 in each cycle, three between the cycles, one to 6 from each.
    numbers = orbit_numbers(7, 2, 3)
    subsets = sorted(combinations(range(7), 2), key=lambda subset: subset[::-1])
    orbit = dict(zip(subsets, numbers.tolist(), strict=True))
    assert numbers.max() == 6
    assert orbit[0, 3] == orbit[1, 4] == orbit[2, 5]
    assert orbit[0, 4] == orbit[1, 5] == orbit[2, 3]
    assert orbit[0, 6] == orbit[1, 6] != orbit[3, 6]
    assert orbits_of([(0, 3, 6)], 7, 3) == ((0, 3, 6), (1, 4, 6), (2, 5, 6))


def test_tidied_blocks_lose_what_is_spare() -> None:
    blocks = [(0, 1, 2), (0, 1), (0, 3), (1, 3), (2, 3), (3, 4), (0, 4), (1, 4), (2, 4)]
    tidy = covers.tidied(blocks, 2, covers.Room.of_points(5, 3))
    assert is_design(tidy, 5, 3, 2)
    assert len(tidy) < 8


def test_uncovered_counts_and_refuses_points_outside() -> None:
    assert covers.uncovered([(0, 1, 2), (2, 3)], 4, 2) == len(uncovered_subsets([(0, 1, 2), (2, 3)], 4, 2)) == 2
    with pytest.raises(ValueError, match="points must be 0 to 2"):
        covers.uncovered([(1, 3)], 3, 2)


def test_the_bound_is_schonheims() -> None:
    # ceil(9/6 ceil(8/5)), ceil(32/8 ceil(31/7)), ceil(64/8 ceil(63/7)) and ceil(8/4 ceil(7/3 ceil(6/2)))
    assert [covers.schonheim_bound(*numbers) for numbers in [(9, 6, 2), (32, 8, 2), (64, 8, 2), (8, 4, 3)]] == [
        3,
        20,
        72,
        14,
    ]
    assert covers.schonheim_bound(5, 5, 3) == 1
