"""Synthetic data with labels, and codes that are none."""

from __future__ import annotations

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally.generate.people import labelled_rows
from crosstally.schema import Attribute, Schema

SCHEMA = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 120], missing=True)])


def test_codes_become_labels() -> None:
    rows = labelled_rows(SCHEMA, np.array([[1, 0], [0, 2]]))
    assert rows["sex"].to_pylist() == ["Male", "Female"]
    assert rows["age"].to_pylist() == ["[0, 18)", SCHEMA["age"].labels[2]]
    assert labelled_rows(SCHEMA, np.empty((0, 2), np.int32)).num_rows == 0


@pytest.mark.parametrize("codes", [[[0, 3]], [[-1, 0]]])
def test_a_code_outside_is_told(codes: list[list[int]]) -> None:
    with pytest.raises(CrosstallyError, match="codes of '(sex|age)' must be from 0 to"):
        labelled_rows(SCHEMA, np.array(codes))


def test_a_column_for_each_attribute_is_needed() -> None:
    with pytest.raises(CrosstallyError, match="a column for each of 2 attributes, got"):
        labelled_rows(SCHEMA, np.zeros((3, 1), np.int32))
