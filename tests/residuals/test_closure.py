"""The sets inside tables, against all combinations written out."""

from itertools import combinations

import numpy as np
import pytest

from crosstally import Attribute, Schema
from crosstally.residuals.variances import Closure


def _binary(number: int) -> Schema:
    return Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(number)])


@pytest.mark.parametrize(
    ("attributes", "tables"),
    [
        (5, [(0, 1, 2), (2, 3), (), (4,)]),
        (12, [tuple(range(12)), (3, 7)]),
        (70, [(0, 69), (1, 2, 69), (5,)]),  # more than 62: digits instead of bits
        (70, [tuple(range(0, 26, 2)), (69,)]),  # digits do not fit either
    ],
)
def test_members_are_all_subsets_by_their_number_in_order(attributes: int, tables: list[tuple[int, ...]]) -> None:
    schema = _binary(attributes)
    closure = Closure(schema, [tuple(schema.names[i] for i in table) for table in tables])
    every = {part for table in tables for k in range(len(table) + 1) for part in combinations(table, k)}
    found = [[tuple(row) for row in positions.tolist()] for _, positions in closure.members]
    assert found == [sorted(part for part in every if len(part) == k) for k in range(max(map(len, tables)) + 1)]
    assert sorted(np.concatenate([places for places, _ in closure.members]).tolist()) == list(range(len(every)))
    for places, positions in closure.members:
        np.testing.assert_array_equal(closure.places_of(positions), places)
