"""Values take what is convenient and hold one form of it: equal however they were given, copied as they are."""

import copy
import pickle
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction

import pytest

import crosstally as ct
from crosstally.schema import Outside

AGE = ct.Attribute("age", edges=(0, 18, 65))
SEX = ct.Attribute("sex", ("1", "2"), outside=Outside.OTHER)
SCHEMA = ct.Schema((AGE, SEX))
WORKLOAD = ct.Workload((("age",), ("age", "sex")), (1.0, 2.0))
BUDGET = ct.Budget(epsilon=Fraction(1, 10))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (ct.Attribute("age", edges=[0, 18, 65]), AGE),
        (ct.Attribute("age", edges=(edge for edge in (0, 18, 65))), AGE),
        (ct.Attribute("sex", [1, 2.0], outside="other"), SEX),
        (ct.Attribute("sex", iter(["1", "2"]), outside="other"), SEX),
        (ct.Schema([AGE, SEX]), SCHEMA),
        (ct.Schema(each for each in (AGE, SEX)), SCHEMA),
        (ct.Workload([["age"], ("age", "sex")], weights=[1, 2]), WORKLOAD),
        (ct.Workload(iter([("age",), ("age", "sex")]), weights=iter([1, 2])), WORKLOAD),
        (ct.Budget(epsilon=0.1), BUDGET),
        (ct.Budget(epsilon="0.1"), BUDGET),
        (ct.Budget(epsilon="1/10"), BUDGET),
        (ct.Budget(epsilon=Decimal("0.10")), BUDGET),
    ],
)
def test_what_is_given_in_another_form_is_the_same_value(wide: object, narrow: object) -> None:
    assert wide == narrow
    assert hash(wide) == hash(narrow)
    assert repr(wide) == repr(narrow)


def test_what_is_held_has_one_type() -> None:
    assert type(ct.Schema([AGE]).attributes) is type(ct.Workload([["age"]]).tables) is tuple
    assert type(ct.Workload([["age"]]).tables[0]) is type(ct.Workload([["age"]], [2]).weights) is tuple
    assert ct.Attribute("sex", ["1", "2"], outside="other").outside is Outside.OTHER
    assert type(ct.Budget(epsilon=1).epsilon) is Fraction


@pytest.mark.parametrize("value", [AGE, SEX, SCHEMA, WORKLOAD, BUDGET])
def test_a_copy_is_equal_and_nothing_can_be_changed(
    value: ct.Attribute | ct.Schema | ct.Workload | ct.Budget,
) -> None:
    for made in (replace(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert made == value
        assert hash(made) == hash(value)
    with pytest.raises(AttributeError, match="cannot assign to field"):
        setattr(value, fields(value)[0].name, None)


def test_one_field_can_be_replaced() -> None:
    assert replace(SCHEMA, draft=True) == ct.Schema((AGE, SEX), draft=True)
    assert replace(AGE, missing=True) == ct.Attribute("age", edges=(0, 18, 65), missing=True)
    assert replace(WORKLOAD, weights=(1.0, 1.0)) == ct.Workload(WORKLOAD.tables)
    assert replace(BUDGET, delta=Fraction(1, 1000)) == ct.Budget(epsilon=0.1, delta=0.001)
