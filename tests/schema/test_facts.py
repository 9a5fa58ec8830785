"""Facts that a steward asserts: read and refused, their way into answers, and that they change nothing about noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import ReleaseError, SchemaError
from crosstally.plans.plan import Plan
from crosstally.schema import Attribute, Impossible, PublicCounts, Schema

AGES, MARITAL, SEXES = ("0-15", "16-64", "65+"), ("Never", "Married", "Widowed"), ("Female", "Male")
CHILDREN = {"impossible": {"age": ["0-15"], "marital": ["Married", "Widowed"]}, "source": "civil code"}
SEX = {"attribute": "sex", "counts": {"Female": 480, "Male": 520}, "error": 5}


def schema_json(*facts: object) -> dict[str, object]:
    attributes = [
        {"name": "age", "values": list(AGES)},
        {"name": "marital", "values": list(MARITAL)},
        {"name": "sex", "values": list(SEXES)},
    ]
    return {"crosstally-schema": 1, "attributes": attributes, "facts": list(facts)}


def people(rng: np.random.Generator, rows: int = 1_000) -> pa.Table:
    """Rows in which no child is married or widowed."""
    age = rng.choice(3, rows, p=[0.25, 0.6, 0.15])
    marital = np.where(age == 0, 0, rng.choice(3, rows, p=[0.4, 0.5, 0.1]))
    sex = rng.choice(2, rows)
    return pa.table(
        {
            "age": np.array(AGES)[age].tolist(),
            "marital": np.array(MARITAL)[marital].tolist(),
            "sex": np.array(SEXES)[sex].tolist(),
        }
    )


def test_facts_are_read_and_written(tmp_path: Path) -> None:
    given = schema_json({"total": 1000}, SEX, CHILDREN)
    schema = Schema.from_dict(given)
    assert schema.facts == (
        PublicCounts(None, (1000,)),
        PublicCounts("sex", (480, 520), error=5),
        Impossible({"age": ("0-15",), "marital": ("Married", "Widowed")}, "civil code"),
    )
    assert schema.to_dict() == given
    schema.save(tmp_path / "s.json")
    assert Schema.load(tmp_path / "s.json") == schema
    assert schema.identity() == Schema.from_dict(schema_json()).identity()  # a ledger pays for both
    assert schema.subset("sex").facts == ()


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        ([], "a fact must have one of total, counts, impossible"),
        ({"total": 5, "impossible": {}}, "a fact must have one of"),
        ({"total": -1}, "whole number from 0"),
        ({"total": True}, "whole number from 0"),
        ({"total": 5, "error": -1}, "at least 0"),
        ({"total": 5, "eror": 1}, "unknown field 'eror'; did you mean 'error'"),
        ({"attribute": "sex", "counts": {"Female": 3}}, "one count for each value of sex"),
        ({"attribute": "sexx", "counts": {}}, "unknown attribute 'sexx'; did you mean 'sex'"),
        ({"impossible": {"age": ["0-15"]}}, "at least two attributes"),
        ({"impossible": {"age": ["0-15"], "marital": ["Maried"]}}, "no value 'Maried'; did you mean 'Married'"),
        ({"impossible": {"age": ["0-15"], "marital": list(MARITAL)}}, "name some values of marital"),
        ({"impossible": {"age": "0-15", "marital": ["Married"]}}, "a list of values"),
        ({"impossible": {"age": ["0-15"], "town": ["Bern"]}}, "unknown attribute 'town'"),
    ],
)
def test_wrong_facts_are_refused(fact: object, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        Schema.from_dict(schema_json(fact))


def test_possible_cells_by_hand() -> None:
    schema = Schema.from_dict(schema_json(CHILDREN))
    possible = schema.possible(("marital", "age"))
    assert possible is not None
    assert possible.astype(int).tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1]]
    assert schema.possible(("age", "sex")) is None


def test_plans_of_other_strategies_are_the_same_with_and_without_facts() -> None:
    """Facts never reduce noise: the requests, their noise and the cost are those of the schema alone."""
    plain, known = (Schema.from_dict(schema_json(*facts)) for facts in ((), (SEX, CHILDREN)))
    plans = [ct.plan(each, epsilon=1, strategy="optimum").chosen for each in (plain, known)]
    first, second = ({k: v for k, v in Plan.to_dict(p).items() if k != "schema"} for p in plans)
    assert first == second


@pytest.mark.parametrize("strategy", ["auto", "direct", "adaptive"])
def test_nobody_is_where_nobody_can_be(strategy: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    schema = Schema.from_dict(schema_json(CHILDREN, SEX))
    release = ct.release(people(rng), schema, epsilon=0.5, strategy=strategy)
    release.save(tmp_path / "r.parquet")
    for each in (release, ct.open_release(tmp_path / "r.parquet")):
        for names in (("age", "marital"), ("marital", "sex", "age")):
            answer = each.marginal(*names)
            possible = schema.possible(names)
            assert (answer.values[~possible] == 0).all()
            low, high = answer.interval()
            assert (high[~possible] == 0).all()
            assert (high[possible] >= low[possible]).all()
            assert answer.values.sum() == pytest.approx(release.rows, rel=1e-6)
        child_widows = each.marginal("sex", where="age = 0-15 and marital = Widowed")
        assert (child_widows.values == 0).all()
        sex = each.marginal("sex")
        assert sex.noise_std_error.max() < 5
        assert sex.values == pytest.approx([480, 520], abs=20)
    words = " ".join(release.statement.plain(release.schema))
    assert "Asserted by the steward as public: nobody has age 0-15 and marital Married or Widowed (civil code)" in words
    assert "the counts of sex are public (standard error 5)" in words
    assert "The guarantee is given these facts" in words


def test_a_row_that_contradicts_a_fact_is_counted_like_any_other() -> None:
    """Ten thousand children who are married: nothing is refused, and the table of age knows them."""
    schema = Schema.from_dict(schema_json(CHILDREN))
    rows = pa.table({"age": ["0-15"] * 10_000, "marital": ["Married"] * 10_000, "sex": ["Male"] * 10_000})
    release = ct.release(rows, schema, epsilon=10, strategy="direct")
    assert release.marginal("age").values[0] == pytest.approx(10_000, rel=0.05)


def test_a_public_total_is_the_number_of_rows() -> None:
    schema = Schema.from_dict(schema_json({"total": 1000}))
    rows = people(np.random.default_rng(5))
    release = ct.release(rows, schema, epsilon=1)
    assert release.statement.rows == 1000
    assert release.marginal().values == 1000
    with pytest.raises(ReleaseError, match=r"rows must be the public total of the schema's facts, 1,000, got 900"):
        ct.release(rows, schema, epsilon=1, rows=900)
    doubtful = Schema.from_dict(schema_json({"total": 1000, "error": 3}))
    release = ct.release(rows, doubtful, epsilon=0.01)
    assert release.statement.rows is None
    assert release.marginal().values == pytest.approx(1000, abs=15)
    assert release.marginal().std_error == pytest.approx(3, rel=0.01)


def test_zeros_say_what_nobody_measured() -> None:
    """Values below 2 go together, and so do those from 2 on; only single attributes are measured, nearly exactly.

    Of 4,000 people in 8 possible cells 500 are in each. Without the facts 16 cells share them: 250 in each.
    """
    attributes = (Attribute("a", tuple("0123")), Attribute("b", tuple("0123")))
    facts = Impossible({"a": ("0", "1"), "b": ("2", "3")}), Impossible({"a": ("2", "3"), "b": ("0", "1")})
    pairs = [(a, b) for a in range(4) for b in range(4) if a // 2 == b // 2] * 500
    rows = pa.table({"a": [str(a) for a, _ in pairs], "b": [str(b) for _, b in pairs]})
    known, plain = (
        ct.release(
            rows,
            Schema(attributes, facts=each),
            epsilon=50,
            strategy="direct",
            workload=ct.Workload.all_ways(Schema(attributes), 1),
        ).marginal("a", "b")
        for each in (facts, ())
    )
    assert plain.values == pytest.approx(np.full((4, 4), 250), abs=5)
    assert known.values == pytest.approx(np.kron(np.eye(2), np.full((2, 2), 500)), abs=5)


def test_sums_of_impossible_cells_are_zero_for_certain() -> None:
    schema = Schema.from_dict(schema_json(CHILDREN))
    table = ct.release(people(np.random.default_rng(6)), schema, epsilon=1).marginal("age", "marital")
    widows = table.sel(age="0-15", marital=["Married", "Widowed"]).sum()
    assert widows.value == 0
    assert widows.interval() == (0, 0)
    assert table.shares("age")["0-15", "Never"].value == pytest.approx(1)
