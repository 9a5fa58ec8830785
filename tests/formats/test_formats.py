"""Files of every format ever written are read, and say what they said: the literals were read off when they were made.

Where a number can be worked out by hand from the file's bytes, the docstring says how. make_fixtures.py says how the
files were made; test_stages.py runs the two of version 0.1.0.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import crosstally as ct
from crosstally.budget import Noise, NoiseKind
from crosstally.local.client import FileStore
from crosstally.local.collector import Collector
from crosstally.local.protocol import Protocol
from crosstally.local.tokens import Tokens
from crosstally.plans.plan import Plan, Rule
from crosstally.privacy.ledger import State, request_digest
from crosstally.query.choice import Choice
from crosstally.query.kronecker import Kronecker
from crosstally.query.queries import Cells, Contrast, Linear, Term
from crosstally.schema import About, Level, RowReading
from crosstally.sources import merge_parts
from crosstally.tables import ErrorKind

HERE = Path(__file__).parent
DIGESTS = {
    "collector-1.state": "1454f39ba9d14d7ae8870a81e69190cc2ebf63286ff24ef4b32cac2d77ece712",
    "device-store-1.json": "b9b785881bc8cfbed642813c2a48fc7efbda6848880a12539712f0b6c5eefead",
    "ledger-1-two-stages.ledger": "26d39645dd9bb8dfd9f0068c9ee4bd38fd51b89fa58b7f87e45adfd53fd7fa0b",
    "ledger-1.ledger": "1df562c8ec1b97d6d767be437086e6190e28d4fc1f6f379b9cb2f93d196da336",
    "part-1-share-1.counts": "98a7161dc6d24812438420c29b8ad34e2fd4e9a28fdf6c688c942a1f914f4baf",
    "part-1-share-2.counts": "61f349d5fe0b0ec62d54dba43f2830daa36ffa094fae7ec586a33bb5decd4f0e",
    "plan-1.json": "e2b8add0027d09adfe3f8c9bb97100fff2faa08b3c030dc80bdbf65fe04351ee",
    "plan-2.json": "50c6e9a1eb288c1162cfb7fb593a3367c4e20dd4dacb7edebd1744db7bc33142",
    "plan-3-choice.json": "4c27fb9c4ff8c4e7926a0728770bacc09d875790b01689125e04de16982cd129",
    "plan-4.json": "a89073bec4f5c4836dc19b6e31589c9c5b409a7a814fc7719fdb10a5150524c7",
    "plan-5.json": "6db316ee60e12c0d52398f143634354d7633024361f922af2603d523d48cd2d5",
    "plan-3.json": "9d8cc13c923cdbde1f22bb84755170b34ac83adae3843030a4b749229b75a237",
    "protocol-1.json": "7f95d7b1ec672c4df44c3bb8fb658b938398a508622671225a28e7f85f5606c4",
    "protocol-2.json": "7510c02890d20084d9715a9a8da237a1be5de34998fdfa34d9759b1c6129b18c",
    "release-1-cells.parquet": "e93d04a9a39b2ae868337faa5d2a289ffb5d8b83053848a2b09ae21d6578ef36",
    "release-1.parquet": "9974c8a9fbfbcb3b7459f08cca0742cd50f6b4f36789605a59095bbf47fc68f4",
    "release-2.parquet": "975b6f0fdc0ccc941ad81f5529b961560bdc711d4adf836bf2bd75080427e1d4",
    "release-3-schema-2.parquet": "cd554502567eae12b0dfb695c68237542083dcdc415d6e1d4336107c9ee83a78",
    "release-3.parquet": "acc80c5c593a1157720a0dc45fc971803a60d166966dd9b407ea15052085046c",
    "release-4-choice.parquet": "673f0a97df92382e6f75d1c8ffc547901564a0762e448761f048f113581133ca",
    "release-4.parquet": "ab10cc6de0290303b2f0818e742fb91d968b6d99d47df14eca071e5dba0ecb61",
    "release-5.parquet": "2f2f04be9f6ba4798b3e2169e29f6a146475b0b27f00dd9bf1fefa48f10faba7",
    "release-6.parquet": "277da24cd87ab7c7ff8077e8f976ae944255755d0ececac6e2d7156445af374f",
    "release-7.parquet": "26b19bddb27fb9447fe6741e102d22447e6b8fc9ca73e95155a9159265f616d3",
    "reports-1.bin": "aa981c851f6672f261847d0cc1dd26e8e842fa52dae44e09853068e95172c0bc",
    "reports-2.bin": "4537accf645b07b187d6873eb89b1c6784b8b74f7ed8a6e5fa49b56abb4022c7",
    "schema-1-draft.json": "67e7c753c244b3cae1737a9f960942a0b18c294d58f845ea21c67270cd9a533a",
    "schema-1.json": "99a14a342e9ea17f604821355ee713ddddf8f85cb5da0c8e8f0d20c3d9102341",
    "schema-2.json": "880feaa156a2018f595616080043ca7a9c9137a3803809e78dcf10e78847603a",
    "tokens-1.txt": "90f63e675533097b9c20412aaf712a06d1c28750afe4ec2ac1a6b0f416ceb973",
}


def test_the_files_are_those_that_were_written() -> None:
    """Nobody makes them anew, so that a test passes: a later format is another file."""
    found = {path.name: path for path in HERE.iterdir() if path.is_file() and path.suffix != ".py"}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()} == DIGESTS


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
    rules = [ct.Outside.REFUSE, ct.Outside.REFUSE, ct.Outside.OTHER, ct.Outside.DROP]
    assert [attribute.outside for attribute in schema.attributes] == rules
    assert (schema.unit, schema.draft) == (ct.Unit("person", 2), False)
    assert ct.Schema.load(HERE / "schema-1-draft.json").draft


def test_schema_2() -> None:
    schema = ct.Schema.load(HERE / "schema-2.json")
    assert schema.about == About(title="Relevé", source="office", period="2024", licence="CC0", counts="records")
    assert schema["born"].labels == ("the nineties", "later")
    assert [attribute.from_data for attribute in schema.attributes] == [False, True, False]
    assert schema["quarter"].hierarchy == (Level("half", {"H1": ["Q1", "Q2"], "H2": ["Q3", "Q4"]}),)
    assert isinstance(schema.reading, RowReading)
    assert schema.reading.digest == "1ad889384799c6b12b9f32211a5f0738987faab657c1aa26da2797860de70a92"
    rules = [schema.reading.rule(attribute.name, attribute) for attribute in schema.attributes]
    texts = [rule.text(given) for rule, given in zip(rules, (" f", "1.1.2000", "31.12.1999"), strict=True) if rule]
    assert texts == ["Female", "2000", "Q4"]


def test_release_3_about_a_schema_of_format_2() -> None:
    release = ct.open_release(HERE / "release-3-schema-2.parquet")
    assert release.schema.to_dict() == ct.Schema.load(HERE / "schema-2.json").to_dict()
    assert release.schema.reading == "withheld"
    assert release.statement.plain(release.schema)[-2].startswith("The values of born were chosen by looking at the")
    assert release.measurements[0].values.shape == (3, 2, 4)


# Plan


def test_plan_1() -> None:
    plan = Plan.load(HERE / "plan-1.json")
    assert (plan.strategy, plan.budget, plan.later) == ("direct", ct.Budget(epsilon=1), ())
    assert [(each.query, each.noise.scale) for each in plan.requests] == [
        (Cells(("sex",)), 3.259921049898135),
        (Cells(("age",)), 3.259921049898135),
        (Cells(("sex", "age")), 2.5874010519707875),
    ]
    assert request_digest(plan) == "289b22f8383ac6a3f5b92c4730ba9d1548aef1390622740e11b2299d2bc1ecfc"


def test_plan_2() -> None:
    """All tables of one and two of nine attributes, 9 + 36; the first stage is the number of rows for 1/100."""
    plan = Plan.load(HERE / "plan-2.json")
    assert (plan.strategy, plan.neighbours) == ("views", ct.Neighbours.ADD_REMOVE)
    assert plan.budget == ct.Budget(epsilon="1/3", delta="1e-6")
    assert (len(plan.workload.tables), plan.workload.tables[9]) == (45, ("a0", "a1"))
    assert [(each.query, each.noise) for each in plan.requests] == [
        (Cells(()), Noise(NoiseKind.GAUSSIAN, 127.06259457122685))
    ]
    parameters = {"size": 3, "cover": None, "max_cells": None}
    assert plan.later == (Rule("views", 1, parameters=parameters, share=Fraction(99, 100)),)
    assert request_digest(plan) == "e4c7b53bb1b78c194451f17d7513c835a1e8f6f8390edf7528fc443c4a308fdf"


def test_plan_3() -> None:
    """Values in groups. A unit has two rows: each of four tables costs 2^2 / (2 x 4^2) = 1/8 of rho."""
    plan = Plan.load(HERE / "plan-3.json")
    groups = {"rooms": (0, 0, 1, 1)}
    assert [each.query for each in plan.requests] == [
        Cells(()),
        Cells(("rooms",)),
        Cells(("sex", "rooms"), groups),
        Cells(("rooms", "âge"), groups),
    ]
    assert (plan.cost, plan.later) == (Fraction(1, 2), ())
    assert request_digest(plan) == "ed3163f357106723523338e371f823ddaa47525a054299f7b5e3873b0bf3c0b3"


def test_part_1() -> None:
    """240 people have 0 to 4 rooms in turn and are women and men in turn; 1 and 2 rooms are a group."""
    merged = merge_parts(ct.Parts(str(HERE / "part-1-share-*.counts")), Plan.load(HERE / "plan-3.json"))
    assert [table.counts.tolist() for table in merged.tables[:3]] == [240, [48, 48, 48, 96], [[48, 72], [48, 72]]]


def test_plan_3_choice() -> None:
    """Whole weights are 3 and 2, a unit has two rows: 2 x 6 / 48 for the choice, and 2 / 8 for the table."""
    plan = Plan.load(HERE / "plan-3-choice.json")
    choice = Choice([("sex",), ("rooms", "ville")], [[110, 90], [24] * 8], weights=["1/2", "1/3"], penalties=[5, -1])
    assert [(each.query, each.noise) for each in plan.requests] == [
        (choice, Noise(NoiseKind.GUMBEL, 48.0)),
        (Cells(("sex",)), Noise(NoiseKind.LAPLACE, 8.0)),
    ]
    assert plan.cost == Fraction(1, 2)
    assert request_digest(plan) == "78f47a4cb3d0d78785507ad95107984f54c376374787ba1a813bf4b46d408f33"


# Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> ct.Ledger:
    shutil.copy(HERE / "ledger-1.ledger", tmp_path / "people.ledger")
    return ct.Ledger.open(tmp_path / "people.ledger")


def test_ledger_1(ledger: ct.Ledger) -> None:
    """Its chain holds; 2/3 - 1/4 - 1/20 - 1/1000 = 1097/3000 is left."""
    ledger.verify()
    assert (ledger.id, ledger.schema) == ("7b81bf0e08b0436c", ct.Schema.load(HERE / "schema-1.json"))
    assert (ledger.budget, ledger.neighbours) == (ct.Budget(rho="2/3"), ct.Neighbours.REPLACE)
    assert ledger.remaining == Fraction(1097, 3000)
    assert [(each.number, each.key, each.strategy, each.cost, each.state) for each in ledger.entries()] == [
        (1, "spring", "residual", Fraction(1, 4), State.DELIVERED),
        (2, "question", "ask", Fraction(1, 20), State.STORED),
        (3, "lost", "direct", Fraction(1, 1000), State.CHARGED),
    ]
    first = ledger.entries()[0]
    assert first.when.isoformat() == "2026-11-16T09:08:30+00:00"
    assert first.hash == "e6cbe7d9c2351b762a74a425921adb5965d0bb47ef504eef4b027a47d13ed1cd"


def test_the_measurements_of_ledger_1(ledger: ct.Ledger) -> None:
    spring = ledger.measurements("spring")
    assert [each.query for each in spring] == [
        Cells(()),
        Contrast(("sex",)),
        Contrast(("âge",)),
        Contrast(("rooms",)),
        Contrast(("sex", "âge")),
    ]
    values = [245, -22, -72, 204, 55, -206, -61, -75, -45, 175, 4, -63, -26, 74]
    assert [int(value) for each in spring for value in each.values.ravel()] == values
    (question,) = ledger.measurements("question")
    assert question.query == Linear((Term(1, (("rooms", (1, 1, 0, 0)), ("sex", (1, 0)))),))
    assert (int(question.values), question.noise) == (53, Noise(NoiseKind.GAUSSIAN, 6.324555320336759))


def test_a_repeat_finds_its_entry_in_ledger_1(ledger: ct.Ledger) -> None:
    plan = ledger.plan("spring")
    assert plan is not None
    assert request_digest(plan) == "d795b6d208785050f06b20cd8032a891f6b315990ddbc9de9b8dcf57714385f7"
    recalled = ledger.recall(plan, "spring")
    assert recalled is not None
    assert int(recalled[0].values) == 245


# Release


def test_release_1_of_contrasts() -> None:
    """Contrasts over a unit of two rows. The estimate is the saved one: 122.58 = (238.0 + 7.164882) / 2."""
    release = ct.open_release(HERE / "release-1.parquet")
    assert release.schema == ct.Schema.load(HERE / "schema-1.json")
    assert str(release.statement) == "ρ = 0.25, replace, at most 2 rows for each person, residual"
    assert release.statement.entry == "entry 1 of ledger 39f8c6ca0bdf4aae"
    assert release.statement.versions == {"crosstally": "0.1.0", "numpy": "2.4.6", "opendp": "0.16.0"}
    assert (release.statement.rows, release.nonnegative, release.rounds) == (None, "joint", 3)
    assert [each.values.ravel().tolist() for each in release.measurements] == [
        [238],
        [8],
        [-43, 221, 73, -194],
        [-65, -98, -38, 143],
        [4, -34, -23, 28],
    ]
    assert release.measurements[3].query == Contrast(("rooms",))
    assert release.measurements[3].noise == Noise(NoiseKind.GAUSSIAN, 25.432661496186387)
    np.testing.assert_allclose(release.marginal("sex").values, [122.58244098, 115.41755902])
    np.testing.assert_allclose(release.marginal("sex").std_error, 7.515283235644776)


def test_release_1_of_cells() -> None:
    """By hand: of 240 rows 24 + 53 + 33 + 13 = 123 were measured as Female, 27 + 56 + 34 - 2 = 115 as Male.

    With the public total, Female is 120 + (123 - 115) / 2, and its variance 2 x 4 x v / 4, where v = 1.8413 is that of
    discrete Laplace noise of scale 1.
    """
    release = ct.open_release(HERE / "release-1-cells.parquet")
    assert (release.statement.budget, release.statement.rows) == (ct.Budget(epsilon=1), 240)
    assert (release.nonnegative, release.schema.unit) == ("none", None)
    (measured,) = release.measurements
    assert measured.values.tolist() == [[24, 53, 33, 13], [27, 56, 34, -2]]
    assert (measured.query, measured.noise) == (Cells(("sex", "âge")), Noise(NoiseKind.LAPLACE, 1.0))
    table = release.marginal("sex")
    np.testing.assert_allclose(table.values, [124, 116])
    np.testing.assert_allclose(table.std_error, (2 * 1.8413471884155848) ** 0.5)
    assert table.error_kind is ErrorKind.EXACT


def test_release_3() -> None:
    """The estimate is the saved one: shrinkage draws from a seed that was another one then."""
    release = ct.open_release(HERE / "release-3.parquet")
    assert (release.nonnegative, release.estimate.corrected) == ("shrunk", "shrunk")
    (measured,) = release.measurements
    assert measured.values.tolist() == [[24, 55, 32, 13], [26, 58, 36, 1]]
    saved = [
        [24.041840939, 55.041764724, 32.041673797, 12.898158984],
        [26.030121717, 58.030045502, 36.029954574, 0.886439762],
    ]
    np.testing.assert_allclose(release.marginal("sex", "âge").values, saved, atol=1e-8)


def test_release_2() -> None:
    """Variances of its own: that of one of three cells is 2/3 of the variance 95.4389 of plan's coefficients."""
    release = ct.open_release(HERE / "release-2.parquet")
    assert str(release.statement) == "ε = 2, replace, local views"
    assert (release.statement.model, release.statement.rows) == ("local", 200)
    assert release.variances_left == {
        ("plan",): 95.43889428598155,
        ("age",): 295.4749413576814,
        ("feature",): 371.89095666236335,
        ("plan", "age"): 253.8449856843779,
        ("plan", "feature"): 175.44721154174326,
        ("age", "feature"): 176.0330661181661,
    }
    assert [each.query.attributes for each in release.measurements] == [
        ("plan", "age"),
        ("plan", "feature"),
        ("age", "feature"),
    ]
    table = release.marginal("plan")
    np.testing.assert_allclose(table.values, [69.63424671, 63.10131461, 67.26443868])
    np.testing.assert_allclose(table.std_error, (95.43889428598155 * 2 / 3) ** 0.5)


def test_release_4() -> None:
    """By hand, from totals 243, 239, 247, 234 of tables of 1, 4, 4 and 8 cells: 393.75 / 1.625 = 242.3077.

    Rooms 1 and 2 minus the others are -45, -51 and -50, with precisions as 2 : 2 : 1, so -48.4; half of the sum with
    the total, and of 43 - 54, are 48.4769 and -5.5. Of 129 - 118 for Female half goes to each side.
    """
    release = ct.open_release(HERE / "release-4.parquet")
    assert (release.nonnegative, release.rounds, release.estimate.corrected) == ("joint", 3, "joint")
    assert [each.values.ravel().tolist() for each in release.measurements] == [
        [243],
        [43, 54, 45, 97],
        [52, 77, 46, 72],
        [30, 39, 24, -1, 32, 67, 36, 7],
    ]
    np.testing.assert_allclose(
        release.marginal("rooms").values, [42.976923077, 53.976923077, 46.676923077, 98.676923077]
    )
    np.testing.assert_allclose(release.marginal("sex").values, [126.653846154, 115.653846154])
    np.testing.assert_allclose(release.marginal("sex").std_error, (16 / 1.625 / 4 + 64 / 4) ** 0.5)
    pair = release.marginal("sex", "rooms").values
    assert pair[:, 0] / pair[:, 1] == pytest.approx(42.976923077 / 53.976923077)


def test_release_4_choice() -> None:
    release = ct.open_release(HERE / "release-4-choice.parquet")
    (chosen,) = release.choices
    assert (chosen.tables, chosen.number) == ((("sex",), ("rooms", "ville")), 1)
    assert (chosen.noise, chosen.origin) == (Noise(NoiseKind.GUMBEL, 48.0), "entry 1 of ledger 7674fde4df5d4451")
    assert [each.values.tolist() for each in release.measurements] == [[126, 118]]
    np.testing.assert_allclose(release.marginal("sex").values, [126, 118])


def test_release_5() -> None:
    """The whole weights of 1/2 and 1/3 are 3 and 2. The digest is that of what the plan asks for, in canonical JSON."""
    release = ct.open_release(HERE / "release-5.parquet")
    (chosen,) = release.choices
    assert (chosen.number, chosen.weight, chosen.origin) == (1, 3, "entry 1 of ledger 477180c447504fa5")
    assert [each.values.tolist() for each in release.measurements] == [[124, 81]]
    plan = json.loads((HERE / "plan-3-choice.json").read_text(encoding="utf-8"))
    asked = {field: plan[field] for field in ("requests", "budget", "neighbours", "later", "groups", "schema")}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    assert release.statement.plan == hashlib.sha256(text.encode()).hexdigest()


def test_plan_4_and_release_6() -> None:
    """Prefixes 43, 103, 144 and the total 243, each with a standard deviation of 4: cells are their differences.

    The plan costs (4 + 4 x 3) / (2 x 16) = 1/2: a unit has two rows, and the first value is in all three prefixes.
    """
    plan = Plan.load(HERE / "plan-4.json")
    prefixes = Kronecker(("rooms",), {"rooms": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]})
    assert [request.query for request in plan.requests] == [Cells(()), prefixes]
    assert (plan.workload.along, plan.cost) == ((("rooms", "ranges"),), Fraction(1, 2))
    release = ct.open_release(HERE / "release-6.parquet")
    assert [each.query for each in release.measurements] == [Cells(()), prefixes]
    assert [each.values.tolist() for each in release.measurements] == [243, [43, 103, 144]]
    np.testing.assert_allclose(release.marginal("rooms").values, [43, 60, 41, 99])
    np.testing.assert_allclose(release.marginal("rooms").std_error, [4, 32**0.5, 32**0.5, 32**0.5])


def test_plan_5_and_release_7() -> None:
    """Prefixes of rooms and their cells, with noise of one size.

    The precision is J + S'S + I over 16, S the prefixes; its inverse has 13, 18, 19 and 21 thirty-fourths of 16 on its
    diagonal. One row is in two more numbers than a total: the plan costs 1/2 + 4 / (2 x 16) = 5/8.
    """
    plan = Plan.load(HERE / "plan-5.json")
    prefixes = Kronecker(("rooms",), {"rooms": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]})
    asked = [Cells(()), prefixes, Cells(("rooms",))]
    assert ([request.query for request in plan.requests], plan.cost) == (asked, Fraction(5, 8))
    release = ct.open_release(HERE / "release-7.parquet")
    assert [each.query for each in release.measurements] == asked
    assert [each.values.tolist() for each in release.measurements] == [237, [48, 97, 143], [50, 51, 48, 94]]
    np.testing.assert_allclose(release.marginal("rooms").values, np.array([818, 837, 792, 1590]) / 17)
    np.testing.assert_allclose(release.marginal("rooms").std_error, np.sqrt(16 * np.array([13, 18, 19, 21]) / 34))


# The local model


@pytest.fixture
def protocol() -> Protocol:
    return Protocol.load(HERE / "protocol-1.json")


def test_protocol_1(protocol: Protocol) -> None:
    """Its name is the start of the SHA-256 of its JSON without blanks, keys sorted."""
    assert (protocol.id, protocol.method, protocol.epsilon) == ("10884e281f102cbd", "views", 2)
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


def test_reports_of_wire_1(protocol: Protocol) -> None:
    """Version, protocol, id, group, answer. 8 of the 64 people of group 1 answered cell 0.

    They were kept there with p = 1280797909 / 2^31 or came by chance with q = (1 - p) / 5, so that of 200 people
    200 (8 / 64 - q) / (p - q) = 17.174 are expected in it.
    """
    first = struct.unpack("<B8s16sIQ", (HERE / "reports-1.bin").read_bytes()[:37])
    assert first == (1, bytes.fromhex("10884e281f102cbd"), bytes.fromhex("5638177413654044831dc7956a80e2f0"), 2, 0)
    measured = read_off(protocol).measurements()
    keep = 1280797909 / 2**31
    other = (1 - keep) / 5
    assert measured[1].values[0, 0] == pytest.approx(200 * (8 / 64 - other) / (keep - other))
    assert measured[1].values[0, 0] == pytest.approx(17.174118, abs=1e-6)


def test_collector_1(protocol: Protocol) -> None:
    """The state that the 200 reports made; more can be added to it, and each id still counts once."""
    collector = Collector.load(HERE / "collector-1.state", protocol)
    assert collector.reports == 200
    for one, other in zip(collector.measurements(), read_off(protocol).measurements(), strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    assert collector.add_many((HERE / "reports-1.bin").read_bytes()).accepted == 0


def test_protocol_2_tokens_1_and_reports_of_wire_2() -> None:
    """Version, protocol, token, group, answer: 100 people, whose tokens put 35, 26 and 39 into three groups."""
    protocol = Protocol.load(HERE / "protocol-2.json")
    assert (protocol.id, protocol.tokens) == ("ec34831e10645976", True)
    tokens = Tokens.load(HERE / "tokens-1.txt", protocol)
    assert (len(tokens), tokens.texts()[0]) == (100, "d12e6845ed8632e4c5b0b1e814e4aa50")
    sent = (HERE / "reports-2.bin").read_bytes()
    first = struct.unpack("<B8s16sIQ", sent[:37])
    assert first == (2, bytes.fromhex("ec34831e10645976"), bytes.fromhex("d12e6845ed8632e4c5b0b1e814e4aa50"), 2, 0)
    collector = Collector(protocol, tokens=tokens)
    received = collector.add_many(sent)
    assert (received.accepted, len(received.codes)) == (100, 101)
    assert collector.group_sizes().reports.tolist() == [35, 26, 39]


def test_device_store_1(protocol: Protocol, tmp_path: Path) -> None:
    """A device that was asked before sends the same bytes, whatever the row is now, and spends no more."""
    shutil.copy(HERE / "device-store-1.json", tmp_path / "store.json")
    store = FileStore(tmp_path / "store.json")
    sent = protocol.report({"plan": "free", "age": 3, "feature": "off"}, store=store, cap="2")
    assert sent.hex() == "0110884e281f102cbdebb88fd89fbb24ed4b10543ae43a82a2020000000400000000000000"
    assert store["spent"] == "2"
