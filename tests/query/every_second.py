"""Run by ``test_new_operator`` in a copy of the package that has the operator "every second value"."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.errors import QueryError
from crosstally.query import operators
from crosstally.query.queries import Cells, Kronecker, Product
from crosstally.query.query_json import query_from_dict
from crosstally.strategies import Plan, Strategy, Task
from reference_linear import least_squares, widest_move

SCHEMA = schema_of(5, 2)
ROWS = np.random.default_rng(1).integers(0, (5, 2), (400, 2))
TABLE = pa.table({f"a{i}": ROWS[:, i].astype(str) for i in range(2)})


def second(*names: str) -> Product:
    """The query; this file is also imported where no such operator is."""
    return Kronecker(names, {"a0": operators.every_second(5)})  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Twice(Strategy):
    """All values, and every second one again."""

    name: ClassVar[str] = "twice"

    def planned(self, task: Task) -> Plan:
        """Equal shares."""
        return task.asking(
            self.name, [Cells(()), Cells(("a0",)), Cells(("a0", "a1")), second("a0"), second("a1", "a0")]
        )


def counts() -> None:
    """By a loop over the rows."""
    table = np.zeros((2, 5), np.int64)
    for value, sex in ROWS.tolist():
        table[sex, value] += 1
    expected = [[sum(row.tolist() == [value, sex] for row in ROWS) for value in (0, 2, 4)] for sex in (0, 1)]
    assert second("a1", "a0").answer(table).tolist() == expected
    assert type(second("a1", "a0").along[1]).__name__ == "EverySecond"


def sensitivity() -> None:
    """By every row, and every pair of rows."""
    for query in (second("a0"), second("a1", "a0")):
        for neighbours in ct.Neighbours:
            found = query.sensitivity(SCHEMA, neighbours)
            replace = neighbours is ct.Neighbours.REPLACE
            assert (found.l1, found.l2_squared) == widest_move(query, SCHEMA, replace=replace)
            assert found.l1 == (2 if replace else 1)


def json() -> None:
    """A plan holds it, and its cost is that of five tables."""
    plan = ct.plan(SCHEMA, epsilon=5, strategies=[Twice()]).chosen
    assert Plan.from_dict(plan.to_dict()) == plan
    assert {request.noise.scale for request in plan.requests} == {1.0}
    assert query_from_dict(second("a0").to_dict()) == second("a0")


def release(path: str) -> None:
    """The estimate of a saved release is dense least squares of what was measured."""
    ct.release(TABLE, SCHEMA, epsilon=5, strategy=Twice()).save(path)
    found = ct.open_release(path)
    assert [m.query for m in found.measurements][3:] == [second("a0"), second("a1", "a0")]
    expected, covariance = least_squares(found.measurements, SCHEMA)
    table = found.marginal("a0", "a1")
    assert np.allclose(table.values.ravel(), expected, atol=1e-6)
    assert np.allclose(np.asarray(table.std_error).ravel(), np.sqrt(np.diag(covariance)), rtol=1e-6)


def alone() -> None:
    """Without all values it is refused in one line, before anything is paid."""
    with pytest.raises(QueryError, match="every second value says nothing of the others: measure all values, too"):
        ct.release(TABLE, SCHEMA, epsilon=1, strategy=_Alone())


@dataclass(frozen=True)
class _Alone(Strategy):
    name: ClassVar[str] = "alone"

    def planned(self, task: Task) -> Plan:
        return task.asking(self.name, [Cells(()), second("a0")])


if __name__ == "__main__":
    check, path = sys.argv[1:]
    release(path) if check == "release" else globals()[check]()
    print(check, ct.__file__)
