"""Tables of OpenDP and mbi in a notebook; both are too large for the tests, so stand-ins have their members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import crosstally as ct
from crosstally.errors import QueryError
from crosstally.notebook.foreign import foreign_tables

SCHEMA = ct.Schema([ct.Attribute("sex", ["f", "m"]), ct.Attribute("age", ["young", "middle", "old"])])
ORIGIN = "OpenDP's AIM, rho 0.1"


def datavector(factor: Any) -> Any:
    return factor


class DatavectorQuery:
    """How mbi 2 calls it."""


def measured(clique: Any, values: Any, *, query: Any = datavector, stddev: float = 2.0) -> SimpleNamespace:
    return SimpleNamespace(clique=clique, noisy_measurement=np.asarray(values), stddev=stddev, query=query)


AGE_BY_SEX = measured(("age", "sex"), [1, 2, 3, 4, 5, 6], query=DatavectorQuery(), stddev=1.5)


def test_cells_come_in_the_schemas_order() -> None:
    sex, both = foreign_tables([measured(["sex"], [3, 9]), AGE_BY_SEX], SCHEMA, ORIGIN)
    assert (sex.query.attributes, sex.values.tolist(), sex.variance, sex.origin) == (("sex",), [3, 9], 4.0, ORIGIN)
    assert (both.query.attributes, both.values.tolist(), both.variance) == (
        ("sex", "age"),
        [[1, 3, 5], [2, 4, 6]],
        2.25,
    )


def contingency_table(**keys: list[str]) -> SimpleNamespace:
    """As OpenDP has it: keys, and marginals that can be flattened."""
    return SimpleNamespace(keys=keys, marginals=SimpleNamespace(flatten=lambda: [AGE_BY_SEX]))


def test_a_contingency_table_of_opendp() -> None:
    table = contingency_table(sex=["f", "m"], age=["young", "middle", "old"])
    assert len(foreign_tables(table, SCHEMA, ORIGIN)) == 1


@pytest.mark.parametrize("ages", [["old", "middle", "young"], ["young", "old"]])
def test_values_in_another_order_are_refused(ages: list[str]) -> None:
    with pytest.raises(QueryError, match="the values of 'age' must be those of the schema, in its order"):
        foreign_tables(contingency_table(sex=["f", "m"], age=ages), SCHEMA, ORIGIN)


def test_a_part_of_a_table_is_refused() -> None:
    with pytest.raises(QueryError, match="only whole tables can be taken over, sex was measured in part"):
        foreign_tables([measured(("sex",), [3], query=lambda _: None)], SCHEMA, ORIGIN)
    with pytest.raises(QueryError, match="the table of sex must have 2 cells, got 3"):
        foreign_tables([measured(("sex",), [3, 4, 5])], SCHEMA, ORIGIN)


def test_a_notebook_uses_them_and_says_so() -> None:
    """Two sums of three, each with variance 2.25: 9 and 12 rows, 21 in all with variance 13.5."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE)
    notebook = ct.open_notebook(ledger)
    notebook.add_tables([AGE_BY_SEX], origin=ORIGIN)
    assert notebook.foreign == (ORIGIN,)
    answer = notebook.estimate("sex = f")
    assert answer.foreign == (ORIGIN,)
    assert 5 < answer.value < 13
    assert ledger.spent == 0
