"""Files of every format ever written are read, and say what they said.

Noisy numbers are read from the bytes by other programs (pyarrow, sqlite3), and what follows from them is worked out by
hand: the docstrings say how. make_fixtures.py says how the files were made.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import sqlite3
import struct
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import crosstally as ct
from crosstally.answers.marginal import ErrorKind
from crosstally.budget import Noise, NoiseKind
from crosstally.local.client import FileStore
from crosstally.local.collector import Collector
from crosstally.local.protocol import Protocol, Tokens
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule
from crosstally.privacy.ledger_records import State, request_digest
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Kronecker
from crosstally.query.unit_table import UnitTable
from crosstally.releases.acceptance import Criteria
from crosstally.schema import About, Level, Outside, RowReading
from crosstally.sources import merge_parts

HERE = Path(__file__).parent
DIGESTS = {
    "collector-1.state": "020db8097e7821c5942ca5fdc2c0424cb99a22798007f9f5c5281f1e92120a7f",
    "criteria-1.json": "e4f038668287923a76237d61f7165242c4d7379f1fdf6063e2912b91666483a7",
    "device-store-1.json": "345cf727e3e8ca10cbf9b318dede63748511eca8dc869f488835e0730ba4ba5c",
    "ledger-1.ledger": "543488af27ebb6c33d17da6f7e98fbf2e3d1bd466804ba73189059cfbbb8db34",
    "part-1-share-1.counts": "9325f1789b9abfa44d1f0f046f2752d72d419f56b5b8cd1dc70155a95705c6bd",
    "part-1-share-2.counts": "7eb884c7f83b3b58f9a84a49294634c83951978410a699bcc21bb3081a838b1d",
    "plan-1-choice.json": "b7a3876e1ea9fc10860daab6150a66ac2a60b20aa9e8a11b5464fef0a729c5e5",
    "plan-1-groups.json": "88ab121744ccaa6e3a994ccee731f8155d09b60a8bbb5548c9f2c54e89629337",
    "plan-1-matrix.json": "01e5d58594ca796dab9b6c0a4a5a5cd4b0561a6b95a27f15011ba833ab426a3e",
    "plan-1-totals.json": "f8b9d0a1253363c3698fe5581637c879cae80efc23205447a3bb7ae2e2a7e451",
    "plan-1-two-ways.json": "5ad571e0e1cff95d5b956eac50684cb834db4c809a2fd9b9d395bd8ff145fc65",
    "plan-1-units.json": "9a344f66c392c93b92759ab388595425183a8c34d1bfd3142dca430b5e363bd5",
    "plan-1.json": "61336bf3cd17d311408fc31a611c30de5c7471742400c9950d6fd8d3caced51c",
    "protocol-1-tokens.json": "11e86f02a6b734d6ef055435aadfd102e15312894dd425453e57836cac2f8df6",
    "protocol-1.json": "6da91e679384e8940a15a0feb8e3e878ab5454f1fa9b4d56468d35415fa38ca6",
    "release-1-cells.parquet": "301802cb8909d046669aaa584968faf50e8123fcbb21772a5730e261d08e596e",
    "release-1-choice.parquet": "acec19ef555536826f707d11a284f1bd287d4e4975b430fcd0796a4c021de581",
    "release-1-described.parquet": "4acc18d4b90490cad5daed3c958ad6800d5910b6ee6ee609d9c397fe1651212f",
    "release-1-groups.parquet": "c8b3c5bd9c5c50dc37300e63c1443bec3c749c2d86a1118b35c227c5aba67ec3",
    "release-1-local.parquet": "9268e8e6be38c78a335285e82703821869c11013909195b7a6fb1ecd88b14182",
    "release-1-divided.parquet": "4b7050214e1a20496b6d731e3f498f1df490ce14e3ee4c9354f41aaaf6bdb29c",
    "release-1-matrix.parquet": "922b8b23f70c95951469c95a39294f8115ade8e1cbb4daad69f9b84eda4ff12f",
    "release-1-replicates.parquet": "8d68420c46a37b48eb073af66b3cea4fe90bf8ece2d9dad3ba43b907b37bc5fe",
    "release-1-shrunk.parquet": "76b6f5e7a2a47fd308db83c16b852a7d8b1100f72f0fb21040ef6542d2e018e1",
    "release-1-totals.parquet": "90982e267cc4c915e5563a0fc8cc93ade0ee83639784431ce76fa6a1a76b6654",
    "release-1-two-ways.parquet": "6386b238999f11ac8927a5e496205b742381c092f7298f44b635ff9fe0b8094c",
    "release-1-units.parquet": "53e0a1d74ce46c738093afb622e5391b2813bd3db876656c3ce9f5ad8b9a8c75",
    "release-1.parquet": "b7c9142f4db5b84bf975f6ef63c7e681e7372737d77e805650471023891f8bf7",
    "reports-1-tokens.bin": "0cf6388436602a2c647f9951e17414325bb9fe2c8e99a611e70d58a54722860d",
    "reports-1.bin": "523c5a8b0f1c1d4160a3dff1d89a404ecf5458a428c1321ba6c6aad453b2680b",
    "schema-1-described.json": "663016b7e431cdd33ad204f045a2c848a0d9beb99bb1d42955e126bd38258006",
    "schema-1-draft.json": "1e1dc01dd3df5039b671f9f755e83177969b0cf2e438c25156cc3108f74f9418",
    "schema-1.json": "812766ee584e0175cc91368cfb22bfa57271f4b47ded1492e4df07f923ea9de2",
    "tokens-1.txt": "110cfb93827349510b3269e29dd92debf3b567cc12dfdd6b385c78ad10384b58",
}


def test_the_files_are_those_that_were_written() -> None:
    """Nobody makes them anew, so that a test passes: a later format is another file."""
    found = {path.name: path for path in HERE.iterdir() if path.is_file() and path.suffix != ".py"}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()} == DIGESTS


def measured_in(name: str) -> list[list[int]]:
    """The measured numbers of a release file, by measurement, as pyarrow reads them."""
    columns = pq.read_table(HERE / name, columns=["measurement", "value"]).to_pydict()
    numbers: dict[int, list[int]] = {}
    for place, value in zip(columns["measurement"], columns["value"], strict=True):
        numbers.setdefault(place, []).append(value)
    return list(numbers.values())


# Schema


def test_schema_1() -> None:
    schema = ct.Schema.load(HERE / "schema-1.json")
    assert schema.names == ("sex", "âge", "rooms", "ville")
    assert [attribute.labels for attribute in schema.attributes] == [
        ("Female", "Male"),
        ("[0, 18)", "[18, 65.5)", "[65.5, 120]", "(missing)"),
        ("1", "2", "3", "(other)"),
        ("東京", "Łódź"),
    ]
    rules = [Outside.REFUSE, Outside.REFUSE, Outside.OTHER, Outside.DROP]
    assert [attribute.outside for attribute in schema.attributes] == rules
    assert (schema.unit, schema.draft) == (ct.Unit("person", 2), False)
    assert ct.Schema.load(HERE / "schema-1-draft.json").draft


def test_schema_1_described() -> None:
    schema = ct.Schema.load(HERE / "schema-1-described.json")
    assert schema.about == About(title="Relevé", source="office", period="2024", licence="CC0", counts="records")
    assert schema["born"].labels == ("the nineties", "later")
    assert [attribute.from_data for attribute in schema.attributes] == [False, True, False]
    assert schema["quarter"].hierarchy == (Level("half", {"H1": ["Q1", "Q2"], "H2": ["Q3", "Q4"]}),)
    assert isinstance(schema.reading, RowReading)
    assert schema.reading.digest == "1ad889384799c6b12b9f32211a5f0738987faab657c1aa26da2797860de70a92"
    rules = [schema.reading.rule(attribute.name, attribute) for attribute in schema.attributes]
    texts = [rule.text(given) for rule, given in zip(rules, (" f", "1.1.2000", "31.12.1999"), strict=True) if rule]
    assert texts == ["Female", "2000", "Q4"]


def test_criteria_1() -> None:
    """Every field that there is: all tables of some ways, and tables by their names; a typical and a largest error."""
    wanted = Criteria.load(HERE / "criteria-1.json")
    assert wanted.rows == 50_000
    one, other = wanted.criteria
    assert (one.name, one.ways, one.tables) == ("one-way tables within 2%", 1, None)
    assert (one.error, one.at_most, one.of, one.level) == ("typical", 0.02, "average count", None)
    assert (other.ways, other.tables, other.error) == (None, (("sex", "age"), ("region",)), "largest")
    assert (other.at_most, other.of, other.level) == (0.005, "rows", 0.99)


def test_release_1_described() -> None:
    release = ct.open_release(HERE / "release-1-described.parquet")
    assert release.schema.to_dict() == ct.Schema.load(HERE / "schema-1-described.json").to_dict()
    assert release.schema.reading == "withheld"
    assert release.statement.plain(release.schema)[-2].startswith("The values of born were chosen by looking at the")
    assert release.measurements[0].values.shape == (3, 2, 4)


# Plan


def asked_by(name: str) -> str:
    """The digest of what a plan asks for, in canonical JSON; of its schema the cells and the unit."""
    plan = json.loads((HERE / name).read_text(encoding="utf-8"))
    del plan["schema"]["crosstally-schema"]
    fields = ("requests", "budget", "neighbours", "later", "groups", "matrices", "schema")
    text = json.dumps({field: plan[field] for field in fields}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def test_plan_1() -> None:
    """All tables of one and two of nine attributes, 9 + 36; the first stage is the number of rows for 1/100."""
    plan = Plan.load(HERE / "plan-1.json")
    assert (plan.strategy, plan.neighbours) == ("views", ct.Neighbours.ADD_REMOVE)
    assert plan.budget == ct.Budget(epsilon="1/3", delta="1e-6", rule="rho")
    assert (len(plan.workload.tables), plan.workload.tables[9]) == (45, ("a0", "a1"))
    (request,) = plan.requests
    assert (request.query, request.noise.kind) == (Cells(()), NoiseKind.GAUSSIAN)
    assert request.noise.scale == pytest.approx(127.0625946, rel=1e-9)
    parameters = {"size": 3, "cover": None, "max_cells": None}
    assert plan.later == (Rule("views", 1, parameters=parameters, share=Fraction(99, 100)),)
    assert request_digest(plan) == asked_by("plan-1.json")


def test_plan_1_groups() -> None:
    """Values in groups. A unit has two rows: each of four tables costs 2^2 / (2 x 4^2) = 1/8 of rho."""
    plan = Plan.load(HERE / "plan-1-groups.json")
    groups = {"rooms": (0, 0, 1, 1)}
    assert [each.query for each in plan.requests] == [
        Cells(()),
        Cells(("rooms",)),
        Cells(("sex", "rooms"), groups),
        Cells(("rooms", "âge"), groups),
    ]
    assert (plan.cost, plan.later) == (Fraction(1, 2), ())
    assert request_digest(plan) == asked_by("plan-1-groups.json")


def test_plan_1_units() -> None:
    """A unit has two rows: 2 / 8 for the table, and is in one bin: 1 / 4 for the units."""
    plan = Plan.load(HERE / "plan-1-units.json")
    assert [(each.query, each.noise) for each in plan.requests] == [
        (Cells(("sex",)), Noise(NoiseKind.LAPLACE, 8.0)),
        (UnitTable((1, 2, 3, 4)), Noise(NoiseKind.LAPLACE, 4.0)),
    ]
    assert (plan.cost, plan.units_share) == (Fraction(1, 2), Fraction(1, 2))


def test_release_1_units() -> None:
    release = ct.open_release(HERE / "release-1-units.parquet")
    header = json.loads(pq.read_metadata(HERE / "release-1-units.parquet").metadata[b"crosstally"])["units"]
    assert release.schema.counted == "visits, at most 2 of each patient"
    assert release.unit_rows is not None
    assert (release.unit_rows.query, release.unit_rows.noise) == (
        UnitTable((1, 2, 3, 4)),
        Noise(NoiseKind.LAPLACE, 4.0),
    )
    assert release.unit_rows.values.tolist() == header["values"]
    assert release.unit_rows.origin == header["origin"] == release.measurements[0].origin


def test_plan_1_totals() -> None:
    """Two rows of at most two steps: 2/8 for the counts, 4/32 and 4/64 for the sums, 2/16 for rows with a value."""
    plan = Plan.load(HERE / "plan-1-totals.json")
    (measure,) = plan.schema.measures
    assert measure.to_dict() == {
        "name": "rooms",
        "lower": 1,
        "upper": 3,
        "step": 0.5,
        "centre": 2,
        "outside": "drop",
        "missing": "leave out",
        "unit": "rooms",
    }
    assert (measure.low, measure.high) == (-2, 2)
    assert [each.query.to_dict() for each in plan.requests] == [
        {"cells": ["sex"]},
        {"cells": ["sex"], "of": "rooms"},
        {"cells": [], "of": "rooms"},
        {"cells": ["sex"], "having": "rooms"},
    ]
    assert (plan.cost, plan.totals_share) == (Fraction(9, 16), Fraction(5, 9))


def test_release_1_totals() -> None:
    release = ct.open_release(HERE / "release-1-totals.parquet")
    header = json.loads(pq.read_metadata(HERE / "release-1-totals.parquet").metadata[b"crosstally"])["totals"]
    assert [each.values.ravel().tolist() for each in release.totals] == [each["values"] for each in header]
    assert [(each["measure"], each["sums"], each["attributes"]) for each in header] == [
        ("rooms", "values", [0]),
        ("rooms", "values", []),
        ("rooms", "rows", [0]),
    ]
    assert [each.noise for each in release.totals] == [Noise(NoiseKind.LAPLACE, scale) for scale in (32, 64, 16)]
    sex, everybody, having = (np.array(each["values"], float) for each in header)
    # two cells of variance v beside their sum of variance 4 v: the total is (4 (a + b) + 2 t) / 6
    total = (4 * sex.sum() + 2 * everybody[0]) / 6 * 0.5 + 2 * having.sum()
    assert release.total("rooms").value == pytest.approx(total, rel=1e-3)
    assert release.total("rooms").quantity == "total"


def test_release_1_divided() -> None:
    """Each of 720,720 parts of a unit: values are fractions, and what was drawn is whole."""
    release = ct.open_release(HERE / "release-1-divided.parquet")
    (measured,) = release.measurements
    assert release.schema.counted == "patients, each divided over their visits"
    assert release.statement.to_dict()["unit"] == {"id": "person", "divided": True}
    assert (measured.noise, measured.values.dtype) == (Noise(NoiseKind.LAPLACE, 1.0, 720_720), np.float64)
    assert measured.variance == pytest.approx(2, rel=1e-9)
    parts = measured.values * 720_720
    assert np.abs(parts - parts.round()).max() < 1e-6


def test_part_1() -> None:
    """240 people have 0 to 4 rooms in turn and are women and men in turn; 1 and 2 rooms are a group."""
    merged = merge_parts(sorted(HERE.glob("part-1-share-*.counts")), Plan.load(HERE / "plan-1-groups.json"))
    assert [table.counts.tolist() for table in merged.tables[:3]] == [240, [48, 48, 48, 96], [[48, 72], [48, 72]]]


def test_plan_1_choice() -> None:
    """Whole weights are 3 and 2, a unit has two rows: 2 x 6 / 48 for the choice, and 2 / 8 for the table."""
    plan = Plan.load(HERE / "plan-1-choice.json")
    choice = Choice([("sex",), ("rooms", "ville")], [[110, 90], [24] * 8], weights=["1/2", "1/3"], penalties=[5, -1])
    assert [(each.query, each.noise) for each in plan.requests] == [
        (choice, Noise(NoiseKind.GUMBEL, 48.0)),
        (Cells(("sex",)), Noise(NoiseKind.LAPLACE, 8.0)),
    ]
    assert plan.cost == Fraction(1, 2)
    assert request_digest(plan) == asked_by("plan-1-choice.json")


# Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> ct.Ledger:
    shutil.copy(HERE / "ledger-1.ledger", tmp_path / "people.ledger")
    return ct.Ledger.open(tmp_path / "people.ledger")


def test_ledger_1(ledger: ct.Ledger) -> None:
    """Its chain holds; 2/3 - 1/4 - 1/20 - 1/1000 = 1097/3000 is left."""
    ledger.verify()
    assert ledger.schema == ct.Schema.load(HERE / "schema-1.json")
    assert (ledger.budget, ledger.neighbours) == (ct.Budget(rho="2/3"), ct.Neighbours.REPLACE)
    assert ledger.remaining == Fraction(1097, 3000)
    assert [(each.number, each.key, each.strategy, each.cost, each.state) for each in ledger.entries()] == [
        (1, "spring", "residual", Fraction(1, 4), State.DELIVERED),
        (2, "question", "ask", Fraction(1, 20), State.STORED),
        (3, "lost", "direct", Fraction(1, 1000), State.CHARGED),
    ]
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        ((number, header),) = connection.execute("SELECT user_version, body FROM pragma_user_version, header")
        last = connection.execute("SELECT hash FROM events ORDER BY number DESC").fetchone()
    assert (number, json.loads(header)["crosstally-ledger"], json.loads(header)["id"]) == (1, 1, ledger.id)
    assert ledger.anchor == f"{ledger.id}:6:{last[0]}"


def test_the_measurements_of_ledger_1(ledger: ct.Ledger) -> None:
    spring = ledger.measurements("spring")
    assert [each.query for each in spring] == [
        Cells(()),
        Contrast(("sex",)),
        Contrast(("rooms",)),
        Contrast(("âge",)),
        Contrast(("sex", "âge")),
    ]
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        kept = dict(connection.execute("SELECT entry, noisy FROM measurements"))
    values = [value for (value,) in struct.iter_unpack("<q", kept[1])]
    assert [int(value) for each in spring for value in each.values.ravel()] == values
    assert abs(values[0] - 240) < 200  # noise of a standard deviation of 25
    (question,) = ledger.measurements("question")
    assert question.query == Linear((Term(1, (("rooms", (1, 1, 0, 0)), ("sex", (1, 0)))),))
    assert struct.pack("<q", int(question.values)) == kept[2]
    assert question.noise == Noise(NoiseKind.GAUSSIAN, 6.324555320336759)


def test_a_repeat_finds_its_entry_in_ledger_1(ledger: ct.Ledger) -> None:
    plan = ledger.plan("spring")
    assert plan is not None
    recalled = ledger.recall(plan, "spring")
    assert recalled is not None
    assert [m.values.tolist() for m in recalled] == [m.values.tolist() for m in ledger.measurements("spring")]


# Release


def test_release_1_of_contrasts() -> None:
    """Contrasts over a unit of two rows; the estimate is the saved one, of the total and of the contrast of sex."""
    release = ct.open_release(HERE / "release-1.parquet")
    assert release.schema == ct.Schema.load(HERE / "schema-1.json")
    assert str(release.statement) == "ρ = 0.25, replace, at most 2 rows of each person, residual"
    assert release.statement.entry == release.measurements[0].origin
    assert (release.statement.rows, release.nonnegative, release.rounds) == (None, "joint", 3)
    assert [each.values.ravel().tolist() for each in release.measurements] == measured_in("release-1.parquet")
    assert release.measurements[2].query == Contrast(("rooms",))
    columns = pq.read_table(HERE / "release-1.parquet").to_pydict()
    total, sex = columns["estimate"][:2]
    np.testing.assert_allclose(release.marginal("sex").values, [(total + sex) / 2, (total - sex) / 2])
    np.testing.assert_allclose(release.marginal("sex").noise_std_error, (sum(columns["variance"][:2]) / 4) ** 0.5)


def test_release_1_of_cells() -> None:
    """With the public total Female is 120 + (F - M) / 2, of the sums F and M of what was measured.

    Its variance is 2 x 4 x v / 4, where v = 1.8413 is that of discrete Laplace noise of scale 1.
    """
    release = ct.open_release(HERE / "release-1-cells.parquet")
    assert (release.statement.budget, release.statement.rows) == (ct.Budget(epsilon=1), 240)
    assert (release.nonnegative, release.schema.unit) == ("none", None)
    (measured,) = release.measurements
    (values,) = measured_in("release-1-cells.parquet")
    assert measured.values.tolist() == [values[:4], values[4:]]
    assert (measured.query, measured.noise) == (Cells(("sex", "âge")), Noise(NoiseKind.LAPLACE, 1.0))
    table = release.marginal("sex")
    half = (sum(values[:4]) - sum(values[4:])) / 2
    np.testing.assert_allclose(table.values, [120 + half, 120 - half])
    np.testing.assert_allclose(table.std_error, (2 * 1.8413471884155848) ** 0.5)
    assert table.error_kind is ErrorKind.EXACT


def test_release_1_shrunk() -> None:
    """The estimate is the saved one."""
    release = ct.open_release(HERE / "release-1-shrunk.parquet")
    assert (release.nonnegative, release.estimate.corrected) == ("shrunk", "shrunk")
    saved = pq.read_table(HERE / "release-1-shrunk.parquet")["estimate"].to_numpy().reshape(2, 4)
    np.testing.assert_allclose(release.marginal("sex", "âge").values, saved, atol=1e-8)


def test_release_1_replicates() -> None:
    """Six replicates: a level of the total is half a row, and one of the difference of the sexes a sixteenth."""
    path = HERE / "release-1-replicates.parquet"
    header = json.loads(pq.read_metadata(path).metadata[b"crosstally"])
    numbers = np.frombuffer(b"".join(pq.read_table(path)["replicates"].to_pylist()), np.int8)
    exponents, levels = numbers[:8], numbers[8:].reshape(6, 8)
    assert (header["replicates"]["number"], exponents[:2].tolist()) == (6, [-1, -4])
    assert levels[:, :2].tolist() == [[6, 31], [-4, 22], [8, -36], [2, -17], [2, 11], [4, 85]]
    release = ct.open_release(path)
    joint = release.marginal("sex").uncertainty.joint
    assert joint is not None
    apart = joint.draws[1:] - joint.draws[0]
    np.testing.assert_allclose(apart.sum(axis=1), [3, -2, 4, 1, 1, 2])
    differences = (apart[:, 0] - apart[:, 1]) / 2**0.5
    np.testing.assert_allclose(differences, np.array([31, 22, -36, -17, 11, 85]) / 16)


def test_release_1_local() -> None:
    """Variances of its own: that of one of three cells is 2/3 of the variance of plan's coefficients."""
    release = ct.open_release(HERE / "release-1-local.parquet")
    assert str(release.statement) == "ε = 2, replace, local views"
    assert (release.statement.model, release.statement.rows) == ("local", 200)
    header = json.loads(pq.read_metadata(HERE / "release-1-local.parquet").metadata[b"crosstally"])
    names = ("plan", "age", "feature")
    left = {tuple(names[place] for place in places): v for v, *places in header["estimate"]["variances"]}
    assert release.variances_left == left
    assert sorted(left) == sorted([*((name,) for name in names), *combinations(names, 2)])
    assert [each.query.attributes for each in release.measurements] == list(combinations(names, 2))
    np.testing.assert_allclose(release.marginal("plan").noise_std_error, (left["plan",] * 2 / 3) ** 0.5)


def test_release_1_groups() -> None:
    """By hand, from totals of tables of 1, 4, 4 and 8 cells, whose precisions are as 1, 1/4, 1/4 and 1/8.

    Rooms 1 and 2 minus the others are measured three times, with precisions as 2 : 2 : 1. Of Female minus Male half
    goes to each side.
    """
    release = ct.open_release(HERE / "release-1-groups.parquet")
    assert (release.nonnegative, release.rounds) == ("joint", 3)
    total, rooms, pair, other = measured_in("release-1-groups.parquet")
    free = release.refit(nonnegative="none")
    rows = (total[0] + sum(rooms) / 4 + sum(pair) / 4 + sum(other) / 8) / 1.625
    alone = rooms[0] + rooms[1] - rooms[2] - rooms[3]
    pairs, others = pair[0] + pair[2] - pair[1] - pair[3], sum(other[:4]) - sum(other[4:])
    near = (2 * alone + 2 * pairs + others) / 5
    low, high = (rows + near) / 2, (rows - near) / 2
    expected = [low / 2 + (rooms[0] - rooms[1]) / 2, low / 2 - (rooms[0] - rooms[1]) / 2]
    expected += [high / 2 + (rooms[2] - rooms[3]) / 2, high / 2 - (rooms[2] - rooms[3]) / 2]
    np.testing.assert_allclose(free.marginal("rooms").values, expected)
    sex = pair[0] + pair[1] - pair[2] - pair[3]
    np.testing.assert_allclose(free.marginal("sex").values, [(rows + sex) / 2, (rows - sex) / 2])
    np.testing.assert_allclose(free.marginal("sex").std_error, (16 / 1.625 / 4 + 64 / 4) ** 0.5)


def test_release_1_choice() -> None:
    """The whole weights of 1/2 and 1/3 are 3 and 2. The digest is that of what the plan asks for, in canonical JSON."""
    release = ct.open_release(HERE / "release-1-choice.parquet")
    (chosen,) = release.choices
    assert (chosen.tables, chosen.weight) == ((("sex",), ("rooms", "ville")), 3)
    assert (chosen.noise, chosen.origin) == (Noise(NoiseKind.GUMBEL, 48.0), release.statement.entry)
    assert [each.values.tolist() for each in release.measurements] == measured_in("release-1-choice.parquet")
    assert release.statement.plan == asked_by("plan-1-choice.json")


PREFIXES = Kronecker(("rooms",), {"rooms": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]})


def test_plan_and_release_1_matrix() -> None:
    """Prefixes and the total, each with a standard deviation of 4: cells are their differences.

    The plan costs (4 + 4 x 3) / (2 x 16) = 1/2: a unit has two rows, and the first value is in all three prefixes.
    """
    plan = Plan.load(HERE / "plan-1-matrix.json")
    assert [request.query for request in plan.requests] == [Cells(()), PREFIXES]
    assert (plan.workload.along, plan.cost) == ((("rooms", "ranges"),), Fraction(1, 2))
    release = ct.open_release(HERE / "release-1-matrix.parquet").refit(nonnegative="none")
    assert [each.query for each in release.measurements] == [Cells(()), PREFIXES]
    (total,), (first, second, third) = measured_in("release-1-matrix.parquet")
    cells = [first, second - first, third - second, total - third]
    np.testing.assert_allclose(release.marginal("rooms").values, cells)
    np.testing.assert_allclose(release.marginal("rooms").std_error, [4, 32**0.5, 32**0.5, 32**0.5])


def test_plan_and_release_1_two_ways() -> None:
    """Prefixes of rooms and their cells, with noise of one size.

    The precision is J + S'S + I over 16, S the prefixes; its inverse has 13, 18, 19 and 21 thirty-fourths of 16 on its
    diagonal. One row is in two more numbers than a total: the plan costs 1/2 + 4 / (2 x 16) = 5/8.
    """
    plan = Plan.load(HERE / "plan-1-two-ways.json")
    asked = [Cells(()), PREFIXES, Cells(("rooms",))]
    assert ([request.query for request in plan.requests], plan.cost) == (asked, Fraction(5, 8))
    release = ct.open_release(HERE / "release-1-two-ways.parquet").refit(nonnegative="none")
    assert [each.query for each in release.measurements] == asked
    total, prefixes, cells = measured_in("release-1-two-ways.parquet")
    design = np.vstack([np.ones((1, 4)), np.tri(3, 4), np.eye(4)])
    expected = np.linalg.lstsq(design, np.array([*total, *prefixes, *cells]))[0]
    np.testing.assert_allclose(release.marginal("rooms").values, expected)
    np.testing.assert_allclose(release.marginal("rooms").std_error, np.sqrt(16 * np.array([13, 18, 19, 21]) / 34))


# The local model


@pytest.fixture
def protocol() -> Protocol:
    return Protocol.load(HERE / "protocol-1.json")


def named(name: str) -> str:
    """The start of the SHA-256 of a protocol's JSON without blanks, keys sorted."""
    text = json.dumps(json.loads((HERE / name).read_text("utf-8")), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_protocol_1(protocol: Protocol) -> None:
    """Its name is the start of the SHA-256 of its JSON without blanks, keys sorted."""
    assert (protocol.id, protocol.method, protocol.epsilon) == (named("protocol-1.json"), "views", 2)
    assert (protocol.people, protocol.ways, protocol.minimum) == (200, 2, 100)
    assert [(group.attributes, group.oracle.kind, group.share) for group in protocol.groups] == [
        ((0, 1), "subset-selection", 1),
        ((0, 2), "randomised-response", 1),
        ((1, 2), "randomised-response", 1),
    ]
    assert protocol.document["oracles"][2]["keep"] == "2205548027/4294967296"


def read_off(protocol: Protocol) -> Collector:
    collector = Collector(protocol)
    received = collector.add_many((HERE / "reports-1.bin").read_bytes())
    assert (received.accepted, len(received.codes)) == (200, 201)
    return collector


def test_reports_1(protocol: Protocol) -> None:
    """Version, protocol, id, group, answer: what the people of group 1 answered is counted here by hand.

    They were kept in their cell with p = 1280797909 / 2^31 or came by chance with q = (1 - p) / 5, so that of n people
    of whom k answered cell 0, 200 (k / n - q) / (p - q) of 200 are expected in it.
    """
    sent = list(struct.iter_unpack("<B8s16sIQ", (HERE / "reports-1.bin").read_bytes()))
    assert len(sent) == 201
    assert {(version, name.hex()) for version, name, *_ in sent} == {(1, protocol.id)}
    answers = [answer for *_, group, answer in sent[:-1] if group == 1]  # the last repeats the first
    keep = 1280797909 / 2**31
    other = (1 - keep) / 5
    expected = 200 * (answers.count(0) / len(answers) - other) / (keep - other)
    assert read_off(protocol).measurements()[1].values[0, 0] == pytest.approx(expected)


def test_collector_1(protocol: Protocol) -> None:
    """The state that the 200 reports made; more can be added to it, and each id still counts once."""
    collector = Collector.load(HERE / "collector-1.state", protocol)
    assert collector.reports == 200
    for one, other in zip(collector.measurements(), read_off(protocol).measurements(), strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    assert collector.add_many((HERE / "reports-1.bin").read_bytes()).accepted == 0


def test_protocol_1_tokens() -> None:
    """Version, protocol, token, group, answer: 100 people, whose tokens give their groups."""
    protocol = Protocol.load(HERE / "protocol-1-tokens.json")
    assert (protocol.id, protocol.tokens) == (named("protocol-1-tokens.json"), True)
    tokens = Tokens.load(HERE / "tokens-1.txt", protocol)
    lines = (HERE / "tokens-1.txt").read_text().split()
    assert (len(tokens), tokens.texts()[0], lines[0]) == (100, lines[-100], "crosstally-tokens-1")
    sent = list(struct.iter_unpack("<B8s16sIQ", (HERE / "reports-1-tokens.bin").read_bytes()))
    assert [token.hex() for _, _, token, _, _ in sent[:-1]] == list(tokens.texts())
    collector = Collector(protocol, tokens=tokens)
    received = collector.add_many((HERE / "reports-1-tokens.bin").read_bytes())
    assert (received.accepted, len(received.codes)) == (100, 101)
    groups = [group for _, _, _, group, _ in sent[:-1]]
    assert collector.group_sizes().reports.tolist() == [groups.count(i) for i in range(3)]


def test_device_store_1(protocol: Protocol, tmp_path: Path) -> None:
    """A device that was asked before sends the same bytes, whatever the row is now, and spends no more."""
    shutil.copy(HERE / "device-store-1.json", tmp_path / "store.json")
    store = FileStore(tmp_path / "store.json")
    sent = protocol.report({"plan": "free", "age": 3, "feature": "off"}, store=store, cap="2")
    kept = json.loads((HERE / "device-store-1.json").read_text("utf-8"))[protocol.id]
    assert sent == base64.b64decode(kept)
    assert sent[:9].hex() == f"01{protocol.id}"
    assert store["spent"] == "2"
