"""What people try first in Python works, and what is of the wrong kind is refused in one line of ours."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crosstally as ct
import released
from crosstally.errors import CrosstallyError, QueryError

WRONG = (None, 3, -1.5, True, object(), [1], {"a": 1}, b"x", pd.Series([1.0, 2]), np.arange(3.0), "none", ("sex", 3))
WRITES = ("save", "to_csv", "to_excel")
"""Methods whose one argument is a path: they are called in the tests of files."""


@pytest.fixture(scope="module")
def release() -> ct.Release:
    return released.views()


def test_names_are_given_one_by_one_or_as_a_list(release: ct.Release) -> None:
    expected = release.marginal("sex", "value").values
    for names in (["sex", "value"], ("sex", "value"), iter(["sex", "value"]), pd.Index(["sex", "value"])):
        np.testing.assert_array_equal(release.marginal(names).values, expected)
    assert release.marginal(["sex"]).attributes == ("sex",)
    assert release.marginal([]).attributes == release.marginal().attributes == ()
    assert [each.attributes for each in release.marginals(["sex", ("sex", "value")])] == [("sex",), ("sex", "value")]
    table = release.marginal("sex", "value")
    np.testing.assert_array_equal(table.sum(["sex"]).values, table.sum("sex").values)
    np.testing.assert_array_equal(table.transpose(["value", "sex"]).values, table.values.T)
    np.testing.assert_array_equal(table.shares(["sex"]).values, table.shares("sex").values)
    np.testing.assert_array_equal(release.crosstab(("sex",), ["value"]).values, expected)
    assert release.covers(["sex", "âge"]) is release.covers("sex", "âge") is True


def test_a_schema_is_a_mapping_from_names_to_attributes(release: ct.Release) -> None:
    schema = release.schema
    assert "sex" in schema
    assert "height" not in schema
    assert 3 not in schema
    assert list(schema) == ["sex", "âge", "value"]
    assert len(schema) == 3
    assert {name: schema[name].size for name in schema} == {"sex": 2, "âge": 4, "value": 4}
    assert bool(schema.subset()) is True


def test_an_answer_is_divided_by_answers_alone(release: ct.Release) -> None:
    with pytest.raises(QueryError, match=r"^a table is divided by another table of answers, got Series$"):
        release.marginal("sex").per(pd.Series([1.0, 2.0]), "rate")


# Wrong kinds at every public method


def usual(release: ct.Release) -> dict[str, Any]:
    """What the other parameters of a method are given while one of them is wrong."""
    table = release.marginal("sex", "value")
    return {
        "name": "sex",
        "rows": "sex",
        "quantity": "rate",
        "weights": [1, 2],
        "groups": {"both": ["Female", "Male"]},
        "function": lambda stack: stack.sum(axis=(1, 2)),
        "label": "x",
        "level": "x",
        "group": "Female",
        "tables": [("sex",)],
        "where": "sex = Female",
        "statement": "SELECT count(*) FROM t",
        "other": table,
        "whole": table,
        "origin": "census",
    }


def calls(subject: object, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """For each parameter of each public method a function that calls it with a wrong value."""
    for name, _ in inspect.getmembers(type(subject), inspect.isfunction):
        if name.startswith("_") or name in WRITES:
            continue
        method = getattr(subject, name)
        parameters = inspect.signature(method).parameters.values()
        for one in parameters:
            others = [each for each in parameters if each is not one and each.default is each.empty]
            others = [each for each in others if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
            if one.kind is one.VAR_KEYWORD or any(each.name not in given for each in others):
                continue
            named = {each.name: given[each.name] for each in others}

            def call(wrong: object, method: Any = method, one: Any = one, named: Any = named) -> None:
                if one.kind is one.VAR_POSITIONAL:
                    method(wrong, **named)
                else:
                    method(**named, **{one.name: wrong})

            yield f"{type(subject).__name__}.{name}({one.name})", call


def test_wrong_kinds_are_refused_in_one_line_of_ours(release: ct.Release) -> None:
    schema = release.schema
    ledger = ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=3), neighbours=ct.Neighbours.ADD_REMOVE)
    subjects = (release, release.marginal("sex", "value"), schema, ledger, ct.Notebook(ledger))
    tried, faults = 0, []
    for subject in subjects:
        for what, call in calls(subject, usual(release)):
            for wrong in WRONG:
                tried += 1
                try:
                    call(wrong)
                except CrosstallyError as error:
                    if "\n" in str(error):
                        faults.append((what, type(wrong).__name__, "several lines"))
                except Exception as error:  # noqa: BLE001 (every other error is what this looks for)
                    faults.append((what, type(wrong).__name__, f"{type(error).__name__}: {error}"))
    assert faults == []
    assert tried > 600
