"""The paper's algorithm from rows to whole tables, with theorem 7's bound."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from conftest import schema_of
from crosstally.errors import QueryError
from crosstally_lab.papers.pods07.marginals import marginals


def test_whole_tables_within_their_bound() -> None:
    """|B| = 1 + 4 + 6 = 11. The bound is many times the error, so that a draw beyond it is out of the question."""
    schema = schema_of(2, 2, 2, 2)
    codes = np.random.default_rng(0).integers(0, 2, (300, 4))
    rows = pa.table({name: pa.array(codes[:, i].astype(str)) for i, name in enumerate(schema.names)})
    found = marginals(rows, schema, list(combinations(schema.names, 2)), epsilon=1.0, delta=0.05)
    assert {each.noise.scale for each in found.release.measurements} == {22.0}, "2|B| / epsilon"
    assert found.bound("a0", "a2") == pytest.approx(4 * 8 * 11 * math.log(11 / 0.05) + 11)
    assert found.bound("a0") == pytest.approx(2 * 8 * 11 * math.log(11 / 0.05) + 11)
    for first, second in combinations(range(4), 2):
        truth = np.zeros((2, 2), np.int64)
        np.add.at(truth, (codes[:, first], codes[:, second]), 1)
        table = found.table(f"a{first}", f"a{second}")
        assert (table >= 0).all()
        assert np.abs(table - truth).sum() <= found.bound(f"a{first}", f"a{second}")
        assert (table.sum(axis=1) == found.table(f"a{first}")).all(), "marginals of one table"
    assert repr(found).startswith("BoundedTables(|B| = 11; the L1 error of a0 x a1 is at most 1,910, and all bounds")
    with pytest.raises(QueryError, match=r"ask for a table that was named.*got \('a0', 'a1', 'a2'\)"):
        found.table("a0", "a1", "a2")
    with pytest.raises(QueryError, match="delta must be a probability"):
        marginals(rows, schema, [("a0",)], epsilon=1.0, delta=1.0)
