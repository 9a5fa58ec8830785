"""How far a replaced row moves a contrast, against loops over all cells; and plans that must not take long."""

from __future__ import annotations

import json
import time
from itertools import combinations, combinations_with_replacement, islice, permutations, product
from pathlib import Path
from typing import Any

import pytest

from conftest import schema_of
from crosstally.budget import Neighbours
from crosstally.errors import PlanError, QueryError, TooManyCellsError, did_you_mean
from crosstally.plans.plan import Plan
from crosstally.query.contrast_moves import contrast_moves, numbers_changed
from crosstally.query.queries import Contrast
from crosstally.residuals.variances import Closure
from reference_privacy import answer

SMALL = [sizes for k in range(1, 5) for sizes in combinations_with_replacement((2, 3, 4, 5), k)]
SMALL += [(2, 2, 3, 3, 3), (3, 3, 3, 3, 3), (2, 2, 2, 2, 2), (2, 3, 4, 6), (3, 7, 8)]


def moved(sizes: tuple[int, ...], changed: int) -> tuple[int, int]:
    """L1 and squared L2 between the answers to one row and to the row that differs in some attributes, cell by cell."""
    given = schema_of(*sizes).to_dict()
    query = {"contrast": [f"a{i}" for i in range(len(sizes))]}
    before = tuple(0 for _ in sizes)
    after = tuple(changed >> i & 1 for i in range(len(sizes)))
    steps = [abs(a - b) for a, b in zip(answer(query, given, (before,)), answer(query, given, (after,)), strict=True)]
    return sum(steps), sum(step * step for step in steps)


@pytest.mark.parametrize("sizes", SMALL, ids=str)
def test_moves_are_those_of_the_cells_for_every_set_of_changed_attributes(sizes: tuple[int, ...]) -> None:
    moves, places = contrast_moves(sizes), numbers_changed(sizes)
    l1, squared = moves.l1.ravel()[places], moves.l2_squared.ravel()[places]
    for changed in range(2 ** len(sizes)):
        assert (l1[changed], squared[changed]) == moved(sizes, changed)


def test_sets_of_changed_attributes_keep_the_order_of_the_query() -> None:
    for sizes in permutations((2, 3, 3, 4)):
        moves, places = contrast_moves((2, 3, 3, 4)), numbers_changed(sizes)
        for changed in range(16):
            found = moves.l1.ravel()[places[changed]], moves.l2_squared.ravel()[places[changed]]
            assert found == moved(sizes, changed)


def test_moves_by_hand() -> None:
    """Three values: the columns (2, -1, -1) and (-1, 2, -1) are 3 + 3 apart; two of them twice: 9 cells by hand."""
    assert (contrast_moves((3,)).l1[1], contrast_moves((3,)).l2_squared[1]) == (6, 18)
    columns = (2, -1, -1), (-1, 2, -1)
    steps = [abs(columns[0][i] * columns[0][j] - columns[1][i] * columns[1][j]) for i, j in product(range(3), repeat=2)]
    assert steps == [3, 0, 3, 0, 3, 3, 3, 3, 0]
    assert contrast_moves((3, 3)).l1.tolist() == [0, 24, 18]  # one changed: 6 times the L1 norm 4 of the other column
    assert contrast_moves((3, 3)).l2_squared.tolist() == [0, 108, 54]


# Small files must not take long


def plan_file(path: Path, sizes: list[int], requests: list[dict[str, Any]], *, neighbours: str = "replace") -> Path:
    names = [f"{i:x}" for i in range(len(sizes))]
    attributes = [{"name": name, "values": list(range(n))} for name, n in zip(names, sizes, strict=True)]
    given = {
        "crosstally-plan": 1,
        "strategy": "x",
        "budget": {"epsilon": "1e100"},
        "neighbours": neighbours,
        "schema": {"attributes": attributes},
        "workload": {"tables": [[names[0]]]},
        "requests": requests,
        "later": [],
        "groups": {},
        "objective": "cells",
        "matrices": {},
    }
    path.write_text(json.dumps(given, separators=(",", ":")))
    return path


def contrast_request(attributes: int) -> dict[str, Any]:
    names = [f"{i:x}" for i in range(attributes)]
    return {"query": {"contrast": names}, "noise": {"kind": "laplace", "scale": 1}}


@pytest.mark.parametrize(
    "sizes",
    [
        [3] * 10,  # the plan of 744 bytes that took minutes
        [3] * 14,
        [2] * 20,  # the most cells that one number may be over
        [2, 3, 3, 4, 4, 5, 6, 7, 8, 10],  # the most cases that 5,000,000 cells allow
    ],
    ids=str,
)
def test_a_contrast_over_many_attributes_takes_no_time(sizes: list[int], tmp_path: Path) -> None:
    path = plan_file(tmp_path / "plan", sizes, [contrast_request(len(sizes))])
    assert path.stat().st_size < 1500
    contrast_moves.cache_clear()
    started = time.process_time()
    plan = Plan.load(path)
    assert time.process_time() - started < 5
    assert plan.cost == contrast_moves(tuple(sizes)).l1.max()


def test_a_contrast_over_too_many_attributes_or_cells_is_refused(tmp_path: Path) -> None:
    path = plan_file(tmp_path / "plan", [3] * 30, [contrast_request(30)])
    with pytest.raises(PlanError, match="a contrast must be over at most 22 attributes, got 30"):
        Plan.load(path)
    wide = schema_of(*range(3, 25))
    with pytest.raises(TooManyCellsError, match="a contrast must be over at most 5,000,000 cells"):
        Contrast(wide.names).sensitivity(wide, Neighbours.REPLACE)
    with pytest.raises(QueryError, match="at most 22 attributes, got 23"):
        Contrast(tuple(f"a{i}" for i in range(23)))


def linear_request(attributes: int, *, terms: int = 1, values: int = 2) -> dict[str, Any]:
    wide = {"weight": 1, "factors": {f"{i:x}": [1] * values for i in range(attributes)}}
    return {
        "query": {"linear": [wide, *[{"weight": 1, "factors": {}}] * (terms - 1)]},
        "noise": {"kind": "laplace", "scale": 1},
    }


def test_linear_queries_over_too_many_cells_are_refused_before_they_are_looked_at(tmp_path: Path) -> None:
    """Many terms over one large table, and many queries over one; both took a second for every 3,000 bytes."""
    many_terms = plan_file(tmp_path / "terms", [2] * 22, [linear_request(22, terms=1000)])
    queries = [linear_request(3, values=160) for _ in range(60)]
    many_queries = plan_file(tmp_path / "queries", [160] * 3, queries)
    started = time.process_time()
    for path in (many_terms, many_queries):
        with pytest.raises(PlanError, match="linear queries must have at most 200,000,000 cells together"):
            Plan.load(path)
    assert time.process_time() - started < 1


def test_a_linear_query_with_millions_of_equal_cells_takes_no_time(tmp_path: Path) -> None:
    path = plan_file(tmp_path / "plan", [2] * 22, [linear_request(22)], neighbours="add-remove")
    started = time.process_time()
    assert Plan.load(path).cost == 1
    assert time.process_time() - started < 5


def test_a_short_list_of_wide_tables_does_not_fill_the_memory() -> None:
    schema = schema_of(*[2] * 40)
    tables = [tuple(names) for names in islice(combinations(schema.names, 22), 100)]
    with pytest.raises(TooManyCellsError, match=r"at most 5,000,000 sets of attributes together, got 419,430,400"):
        Closure(schema, tables)


def test_long_names_are_not_compared() -> None:
    """Comparing two names takes the square of their length; a file may hold hundreds of long ones."""
    letters = [chr(0x4E00 + i) for i in range(4000)]
    known = ["".join(letters[i:] + letters[:i]) for i in range(50)]
    started = time.process_time()
    assert did_you_mean("".join(letters[::-1]), known) == ""
    assert time.process_time() - started < 0.1
