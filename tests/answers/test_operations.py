"""Computing with a table: values by hand, what is refused, and what comes out of numpy and pickle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import crosstally as ct
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.errors import QueryError
from crosstally.schema.attribute import Level

SEX = ct.Attribute("sex", ["Female", "Male"])
AGE = ct.Attribute("age", edges=[0, 18, 65, 120], bins=["young", "middle", "old"])
TOWN = ct.Attribute(
    "town",
    ["Bern", "Thun", "Lausanne"],
    missing=True,
    hierarchy=[
        Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]}),
        Level("country", {"CH": ["Bern", "Vaud"]}),
    ],
)


def table(*attributes: ct.Attribute, values: object) -> Marginal:
    given = np.array(values, float)
    return Marginal(ct.Schema(attributes), given, method="m", error_kind=ErrorKind.NONE, uncertainty=None)


M = table(SEX, AGE, values=[[10, 20, 30], [40, 50, 50]])


def test_labels_pick_cells() -> None:
    assert M["Female", "old"].value == 30
    assert float(M["Male"]["middle"]) == 50
    assert M["Male"].values.tolist() == [40, 50, 50]
    assert M["Male"].where == "sex = Male"
    assert M[:, "young"].values.tolist() == [10, 40]
    assert M.sel(age=["old", "young"]).values.tolist() == [[30, 10], [50, 40]]
    assert M.sel(age=["old", "young"]).schema["age"].labels == ("old", "young")
    assert M.sel({"sex": "Female"}, age="middle").value == 20
    assert M.sel(age=["young", "middle", "old"]) is M
    codes = table(ct.Attribute("code", ["1", "2"]), values=[7, 8])
    assert codes[1].value == 7
    assert codes[2.0].value == 8
    for wrong in ("Femal", None, 3):
        with pytest.raises(QueryError, match="'sex' has no label"):
            M[wrong]
    with pytest.raises(QueryError, match="at most 2 labels"):
        M["Female", "old", "x"]
    with pytest.raises(QueryError, match="each once"):
        M.sel(age=["old", "old"])
    with pytest.raises(QueryError, match="unknown attribute 'agee'; did you mean 'age'"):
        M.sel(agee="old")
    with pytest.raises(QueryError, match="pick one of 6 cells"):
        _ = M.value


def test_tables_are_arrays_and_can_be_walked_through() -> None:
    assert np.asarray(M).tolist() == [[10, 20, 30], [40, 50, 50]]
    assert [each.where for each in M] == ["sex = Female", "sex = Male"]
    assert [each.value for each in M["Female"]] == [10, 20, 30]
    assert bool(M)
    with pytest.raises(TypeError):
        iter(M.sum())
    assert (np.float64(2) * M).values.tolist() == [[20, 40, 60], [80, 100, 100]]


def test_sums_and_groups() -> None:
    assert M.sum("sex").values.tolist() == [50, 70, 80]
    assert M.sum("sex").attributes == ("age",)
    assert M.sum().value == M.sum("age", "sex").value == 200
    grouped = M.group("age", {"under 65": ["young", "middle"]})
    assert grouped.values.tolist() == [[30, 30], [90, 50]]
    assert grouped.schema["age"].labels == ("under 65", "old")
    assert M.with_totals("sex").values.tolist() == [[10, 20, 30], [40, 50, 50], [50, 70, 80]]
    assert M.with_totals().values[-1].tolist() == [50, 70, 80, 200]
    assert M.weighted_sum("age", [1, 2, 3]).values.tolist() == [140, 290]
    with pytest.raises(QueryError, match="one group only"):
        M.group("age", {"a": ["young"], "b": ["young"]})
    with pytest.raises(QueryError, match="must not be called"):
        M.group("age", {"old": ["young", "middle"]})
    with pytest.raises(QueryError, match="has a label 'Male' already"):
        M.with_totals("sex", label="Male")
    with pytest.raises(QueryError, match="weights must be 3 numbers"):
        M.weighted_sum("age", [1, 2])


def test_hierarchies_roll_up() -> None:
    towns = table(TOWN, values=[1, 2, 4, 8])
    assert towns.roll_up("town", "canton").values.tolist() == [3, 4, 8]
    assert towns.roll_up("town", "canton").schema["town"].labels == ("Bern", "Vaud", "(missing)")
    assert towns.roll_up("town", "country").values.tolist() == [7, 8]
    assert towns.roll_up("town", "canton").roll_up("town", "country").values.tolist() == [7, 8]
    with pytest.raises(QueryError, match="no level 'cantons'; did you mean 'canton'"):
        towns.roll_up("town", "cantons")


def test_hierarchies_drill_down() -> None:
    towns = table(SEX, TOWN, values=[[1, 2, 4, 8], [16, 32, 64, 128]])
    inside = towns.drill_down("town", "Bern")
    assert (inside.schema["town"].labels, inside.values.tolist()) == (("Bern", "Thun"), [[1, 2], [16, 32]])
    assert inside.where == "town in {Bern, Thun}"
    cantons = towns.drill_down("town", "CH")
    assert (cantons.schema["town"].labels, cantons.values.tolist()) == (("Bern", "Vaud"), [[3, 4], [48, 64]])
    assert cantons.roll_up("town", "country").values.tolist() == [[7], [112]]
    above = towns.roll_up("town", "canton")
    assert above.drill_down("town", "CH").values.tolist() == [[3, 4], [48, 64]]
    some = towns.sel(town=["Lausanne", "Thun"])
    assert some.roll_up("town", "canton").schema["town"].labels == ("Vaud", "Bern")
    assert some.roll_up("town", "country").values.tolist() == [[6], [96]]
    with pytest.raises(QueryError, match="no group 'Bren'; did you mean 'Bern'"):
        towns.drill_down("town", "Bren")
    with pytest.raises(QueryError, match="no group 'Bern'"):
        towns.drill_down("town", "Bern", level="country")
    with pytest.raises(QueryError, match="no group 'CH'"):
        M.drill_down("sex", "CH")


def test_a_group_of_a_name_that_several_levels_have() -> None:
    levels = [
        Level("town", {"Geneva": ["North", "South"], "Nyon": ["Nyon"]}),
        Level("canton", {"Geneva": ["Geneva"], "Vaud": ["Nyon"]}),
    ]
    parts = table(ct.Attribute("part", ["North", "South", "Nyon"], hierarchy=levels), values=[1, 2, 4])
    assert parts.drill_down("part", "Geneva").schema["part"].labels == ("Geneva",)  # the canton, which has one town
    assert parts.drill_down("part", "Geneva", level="town").values.tolist() == [1, 2]


def test_attributes_in_another_order() -> None:
    assert M.transpose("age", "sex").values.tolist() == [[10, 40], [20, 50], [30, 50]]
    assert M.transpose().schema.names == ("age", "sex")
    assert M.transpose().transpose("sex", "age").values.tolist() == M.values.tolist()
    three = table(SEX, AGE, TOWN, values=np.arange(24).reshape(2, 3, 4))
    assert three.transpose("town", "sex", "age").values[3].tolist() == [[3, 7, 11], [15, 19, 23]]
    for wrong in (("age",), ("age", "age")):
        with pytest.raises(QueryError, match="each attribute must be named once"):
            M.transpose(*wrong)


def test_order() -> None:
    top = M.top(2)
    assert top.schema["sex, age"].labels == ("Male, middle", "Male, old")
    assert top.values.tolist() == [50, 50]
    assert M["Female"].sort().schema["age"].labels == ("old", "middle", "young")
    assert M["Female"].sort(ascending=True).values.tolist() == [10, 20, 30]
    for wrong in (0, True, 1.5):
        with pytest.raises(QueryError, match="n must be a whole number"):
            M.top(wrong)


def test_arithmetic() -> None:
    assert (M / M.sum()).values.tolist() == [[0.05, 0.1, 0.15], [0.2, 0.25, 0.25]]
    assert M.shares("age").values.tolist() == [[0.2, 20 / 70, 0.375], [0.8, 50 / 70, 0.625]]
    assert M.shares("age").quantity == "share"
    assert (M["Male"] - M["Female"]).values.tolist() == [30, 30, 20]
    assert (M["Male"] - M["Female"]).where == "sex = Male against sex = Female"
    assert (M - M.sum("age")).values.tolist() == [[-50, -40, -30], [-100, -90, -90]]
    assert (M.sum("age") - M).values.tolist() == [[50, 40, 30], [100, 90, 90]]
    assert (1 - M.shares()).values[0, 0] == 0.95
    assert (M + M["Female"]).values[1].tolist() == [50, 70, 80]
    assert (M * 2 / 4 + 1 - 3).values[0].tolist() == [3, 8, 13]
    assert (M * M).values[0].tolist() == [100, 400, 900]
    swapped = table(AGE, SEX, values=np.asarray(M).T)
    assert (M - swapped).values.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert (M / (M - M)).values[0, 0] == np.inf
    with pytest.raises(QueryError, match="'age' differs"):
        M - M.group("age", {"x": ["young", "middle"]})
    with pytest.raises(QueryError, match="another table or a number, got str"):
        M + "1"  # type: ignore[operator]


def test_numbers_without_an_origin_have_no_error() -> None:
    for computed in (M.sum("sex"), M.shares(), M["Male"] - M["Female"]):
        assert computed.error_kind is ErrorKind.NONE
        assert np.isnan(computed.std_error).all()
        assert np.isnan(computed.interval()).all()
    assert repr(M.shares()["Female"]).splitlines()[2].split() == ["young", "5%", "(?)"]


def test_what_was_computed_can_be_pickled() -> None:
    share = M.top(3).shares()
    assert pickle.loads(pickle.dumps(share)).values.tolist() == share.values.tolist()
