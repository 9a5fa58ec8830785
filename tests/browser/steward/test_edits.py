"""Edits of a schema: what becomes of labels, spellings, bins and rules, and what is refused."""

from pathlib import Path

import pytest

from crosstally.browser.steward import edits
from crosstally.browser.steward.cards import facts
from crosstally.errors import CrosstallyError, SchemaError
from crosstally.schema import Attribute, Impossible, Level, PublicCounts, Schema
from crosstally.sources.drafting.edges import bin_names
from reviewing import reviewed


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return reviewed(tmp_path).schema


def test_merged_labels_take_their_spellings_along(schema: Schema) -> None:
    merged = edits.merge(schema, "sex", ["w", "weiblich"], "Female")
    assert merged["sex"].values == ("divers", "m", "männlich", "Female")
    assert merged.steward_dict()["reading"]["columns"]["sex"] == {
        "groups": {"Female": ["w", "W", "weiblich"]},
        "missing": ["n/a"],
    }


def test_merging_into_a_label_that_is_there_keeps_its_place(schema: Schema) -> None:
    merged = edits.merge(schema, "sex", ["m"], "männlich")
    assert merged["sex"].values == ("divers", "männlich", "w", "weiblich")
    assert merged.steward_dict()["reading"]["columns"]["sex"]["groups"] == {"w": ["W"], "männlich": ["m"]}


def test_labels_become_missing_or_other(schema: Schema) -> None:
    missing = edits.merge(schema, "sex", ["w"], "(missing)")
    assert missing["sex"].labels == ("divers", "m", "männlich", "weiblich", "(missing)")
    assert missing.steward_dict()["reading"]["columns"]["sex"] == {"missing": ["n/a", "w", "W"]}
    other = edits.merge(schema, "town", ["Emden"], "(other)")
    assert other["town"].labels == ("Bonn", "Kiel", "(other)")


def test_a_value_that_is_not_in_the_schema_becomes_a_label_or_a_spelling(schema: Schema) -> None:
    assert edits.merge(schema, "town", ["Köln"], "Köln")["town"].values == ("Bonn", "Emden", "Kiel", "Köln")
    spelled = edits.merge(schema, "town", ["Köln"], "Bonn")
    assert spelled["town"].values == ("Bonn", "Emden", "Kiel")
    assert spelled.steward_dict()["reading"]["columns"]["town"] == {"groups": {"Bonn": ["Köln"]}}


def test_bins_are_merged_side_by_side_and_cut(schema: Schema) -> None:
    merged = edits.merge(schema, "age", ["0-17", "18-64"], "0-64")["age"]
    assert (merged.edges, merged.bins) == ((0, 65, 120), ("0-64", "65+"))
    with pytest.raises(SchemaError, match="side by side"):
        edits.merge(schema, "age", ["0-17", "65+"], "x")
    cut = edits.cut(schema, "age", " 0 30; 60 120 ", names=bin_names)["age"]
    assert (cut.edges, cut.bins, cut.from_data) == ((0, 30, 60, 120), ("0-29", "30-59", "60-120"), True)
    assert edits.cut(schema, "age", "0 0.5 120", names=bin_names)["age"].bins == ()
    assert not edits.cut(schema, "age", "0 50 120", names=bin_names, public=True)["age"].from_data
    for wrong in ("", "18", "0 x", "5 4", "0,5 10", "1e999 2", "nan 1"):
        with pytest.raises(SchemaError):
            edits.cut(schema, "age", wrong, names=bin_names)
    with pytest.raises(SchemaError, match="only bins"):
        edits.cut(schema, "sex", "0 1 2", names=bin_names)


def test_order_name_rule_and_origin(schema: Schema) -> None:
    assert edits.reorder(schema, "town", ["Kiel", "Bonn", "Emden"])["town"].values == ("Kiel", "Bonn", "Emden")
    with pytest.raises(SchemaError, match="each label once"):
        edits.reorder(schema, "town", ["Kiel", "Bonn"])
    with pytest.raises(SchemaError, match="order of their edges"):
        edits.reorder(schema, "age", ["65+", "0-17", "18-64"])
    renamed = edits.rename(schema, "sex", "Gender")
    assert renamed.names == ("Gender", "age", "town")
    assert renamed.steward_dict()["reading"]["columns"]["Gender"]["column"] == "sex"
    back = edits.rename(renamed, "Gender", "sex")
    assert back.file_text() == schema.file_text()
    assert edits.set_outside(schema, "town", "drop", missing=True)["town"].labels == (
        "Bonn",
        "Emden",
        "Kiel",
        "(missing)",
    )
    with pytest.raises(SchemaError, match="refuse, other or drop"):
        edits.set_outside(schema, "town", "keep", missing=False)
    assert edits.choose_origin(schema, "town", from_data=True)["town"].from_data
    assert edits.approve(schema).draft is False


def test_a_dropped_attribute_takes_its_reading_along(schema: Schema) -> None:
    dropped = edits.drop(schema, "sex")
    assert dropped.names == ("age", "town")
    assert dropped.steward_dict()["reading"] == {"file": {"delimiter": ";"}}
    with pytest.raises(SchemaError, match="last one"):
        edits.drop(edits.drop(dropped, "age"), "town")


def test_what_cannot_be_is_refused(schema: Schema) -> None:
    for chosen, into in (([], "x"), (["w"], " "), (["(missing)"], "x"), (["w"], "n/a")):
        with pytest.raises(CrosstallyError):
            edits.merge(schema, "sex", chosen, into)
    with pytest.raises(SchemaError, match="at least two cells"):
        edits.merge(schema, "town", ["Bonn", "Emden", "Kiel"], "all")


def test_a_hierarchy_follows_its_labels() -> None:
    level = Level("land", {"NRW": ["Bonn", "Köln"], "SH": ["Kiel"]})
    schema = Schema([Attribute("town", ["Bonn", "Kiel", "Köln"], hierarchy=[level])])
    merged = edits.merge(schema, "town", ["Bonn", "Köln"], "Rhein")["town"]
    assert merged.hierarchy[0].groups == (("NRW", ("Rhein",)), ("SH", ("Kiel",)))
    other = edits.merge(schema, "town", ["Kiel"], "(other)")["town"]
    assert other.hierarchy[0].groups == (("NRW", ("Bonn", "Köln")),)
    with pytest.raises(SchemaError, match="different groups of 'land'"):
        edits.merge(schema, "town", ["Bonn", "Kiel"], "both")


DATED = {
    "crosstally-schema": 1,
    "attributes": [{"name": "born", "values": ["old", "new"]}, {"name": "sex", "values": ["f", "m"]}],
    "reading": {"columns": {"born": {"date": {"into": ["1900-01-01", "1980-01-01", "2020-12-31"]}}}},
}


def test_periods_are_set_with_their_labels() -> None:
    schema = Schema.from_dict(DATED)
    days, labels = "1900-01-01 1960-01-01, 1990-01-01;2020-12-31", " to 1959 \r\n1960-89\n\n1990 on"
    changed = edits.set_periods(schema, "born", days, labels)
    assert (changed["born"].values, changed["born"].from_data) == (("to 1959", "1960-89", "1990 on"), True)
    assert changed.steward_dict()["reading"]["columns"]["born"]["date"] == {
        "into": ["1900-01-01", "1960-01-01", "1990-01-01", "2020-12-31"]
    }
    assert not edits.set_periods(schema, "born", days, labels, public=True)["born"].from_data
    with pytest.raises(SchemaError, match="4 days bound 3 periods, and there are 2 labels"):
        edits.set_periods(schema, "born", days, "a\nb")
    for wrong in ("", "1990-01-01", "1990-01-01 1980-01-01 1999-01-01", "1990 1991 1992"):
        with pytest.raises(SchemaError):
            edits.set_periods(schema, "born", wrong, "a\nb")
    with pytest.raises(SchemaError, match="only dates"):
        edits.set_periods(schema, "sex", days, labels)
    with pytest.raises(SchemaError, match="leave out the days between them"):
        edits.merge(schema, "born", ["old", "new"], "all")


def test_descriptions_change_no_cell(schema: Schema) -> None:
    described = edits.describe(schema, "age", " Completed years ", "years")
    assert (described["age"].description, described["age"].measured_in) == ("Completed years", "years")
    assert described.identity() == schema.identity()
    assert edits.describe(described, "age", "", " ").file_text() == schema.file_text()


def test_facts_are_those_of_the_text() -> None:
    schema = Schema.from_dict(DATED)
    text = '[{"total": 12}, {"impossible": {"born": ["new"], "sex": ["m"]}}]'
    changed = edits.set_facts(schema, text)
    assert changed.facts == (PublicCounts(None, (12,)), Impossible({"born": ("new",), "sex": ("m",)}))
    assert facts(changed) == '[{"total": 12},\n {"impossible": {"born": ["new"], "sex": ["m"]}}]'
    assert edits.set_facts(changed, facts(changed)) == changed
    assert edits.set_facts(changed, " ") == schema
    for wrong in ("{}", "[1]", '[{"total": 1, "total": 2}]', "[", '[{"impossible": {"town": ["x"]}}]'):
        with pytest.raises(SchemaError, match="facts"):
            edits.set_facts(schema, wrong)


def test_attributes_that_facts_name_are_left_alone() -> None:
    attributes = [Attribute("a", ["x", "y", "z"]), Attribute("b", ["u", "v"])]
    schema = Schema(attributes, facts=[Impossible({"a": ("x",), "b": ("u",)})])
    with pytest.raises(SchemaError, match="facts of the schema name 'a'"):
        edits.merge(schema, "a", ["x"], "w")
    with pytest.raises(SchemaError, match="facts of the schema name 'b'"):
        edits.drop(schema, "b")
