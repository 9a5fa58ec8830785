"""Births of a published registry's shape: the forecast of the default's largest error against its 0.44%."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.accuracy.births import BIRTHS, SCHEMA, SIZES, births, criteria, plan
from crosstally.releases.acceptance import judge_plan


@pytest.mark.parametrize(
    ("epsilon", "word"), [("9.98", "pass"), ("0.4", "pass"), ("0.2", "unlikely"), ("0.05", "fail")]
)
def test_the_default_meets_the_registrys_largest_error_far_below_its_epsilon(epsilon: str, word: str) -> None:
    assert [each.word for each in judge_plan(plan(epsilon), criteria())] == [word]


def test_generated_births_are_inside_the_schema() -> None:
    codes = births(np.random.default_rng(1), 5_000)
    assert codes.shape == (len(SIZES), 5_000)
    assert (codes.min(axis=1) >= 0).all()
    assert (codes.max(axis=1) < np.array(SCHEMA.shape)).all()
    assert BIRTHS == 165_915
