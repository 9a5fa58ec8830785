"""The device: wire vectors, one report for each protocol, the lifetime cap, values that are mapped, and no packages."""

from __future__ import annotations

import ast
import base64
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from crosstally.local import client
from crosstally.local.protocol import design
from crosstally.schema import Attribute, Outside, Schema

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())
FOLDER = Path(client.__file__).parent
SCHEMA = Schema((Attribute("a", ("x", "y")), Attribute("b", ("1", "2", "3"), outside=Outside.OTHER)))


class Replay:
    """A source that gives the draws of a test vector."""

    def __init__(self, draws):
        self.draws = iter(draws)

    def below(self, number):
        asked, drawn = next(self.draws)
        assert asked == number
        return drawn

    def chance(self, probability):
        return self.below(probability.denominator) < probability.numerator

    def identity(self):
        return bytes(range(16))


def test_reports_are_those_of_the_vectors() -> None:
    assert client.protocol_id(VECTORS["protocol"]).hex() == VECTORS["protocol_id"]
    for vector in VECTORS["reports"]:
        report = client.report(VECTORS["protocol"], vector["row"], store={}, cap="1", source=Replay(vector["draws"]))
        assert report.hex() == vector["hex"]
        assert base64.b64encode(report).decode() == vector["report"]


def test_answers_are_those_of_the_vectors() -> None:
    assert len({vector["oracle"]["kind"] for vector in VECTORS["answers"]}) == 7
    for vector in VECTORS["answers"]:
        assert client.draw(vector["oracle"], vector["codes"], Replay(vector["draws"])) == int(vector["answer"])


def test_the_wire_format_is_what_the_page_says() -> None:
    """Version, eight bytes of protocol, sixteen of id, group and answer, little end first."""
    report = bytes.fromhex(VECTORS["reports"][0]["hex"])
    assert len(report) == 37
    assert report[0] == 1
    assert report[1:9].hex() == VECTORS["protocol_id"]
    assert report[9:25] == bytes(range(16))
    assert int.from_bytes(report[25:29], "little") < len(VECTORS["protocol"]["groups"])


def test_the_client_imports_the_standard_library_only() -> None:
    names = set()
    for node in (node for file in FOLDER.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1, "the folder stands alone"
    assert names <= set(sys.stdlib_module_names)
    assert "crosstally" not in names


def test_a_report_is_drawn_once_and_sent_again_whatever_the_row_becomes(tmp_path) -> None:
    protocol = design(SCHEMA, epsilon=1, people=5000, ways=2)
    path = tmp_path / "device.json"
    first = protocol.report({"a": "x", "b": 1}, store=client.FileStore(path), cap=1)
    for row in ({"a": "y", "b": 2}, {}, {"a": "x", "b": 1}):
        assert protocol.report(row, store=client.FileStore(path), cap=1) == first
    assert json.loads(path.read_text())["spent"] == "1"


def test_the_lifetime_cap_covers_all_protocols_of_a_device(tmp_path) -> None:
    store = client.FileStore(tmp_path / "device.json")
    protocols = [design(SCHEMA, epsilon="0.4", people=people, ways=2) for people in (5000, 6000, 7000)]
    reports = [protocol.report({"a": "x"}, store=store, cap="1") for protocol in protocols[:2]]
    with pytest.raises(client.CapReachedError, match="6/5 of at most 1"):
        protocols[2].report({"a": "x"}, store=store, cap="1")
    assert [protocol.report({}, store=store, cap="1") for protocol in protocols[:2]] == reports
    assert store["spent"] == "4/5"


def test_a_damaged_store_draws_nothing(tmp_path) -> None:
    path = tmp_path / "device.json"
    path.write_text('{"spent": "1"')
    with pytest.raises(client.StoreError, match="damaged"):
        client.FileStore(path)
    store = client.FileStore(tmp_path / "other.json")
    store["a"] = "b"
    with pytest.raises(client.StoreError, match="never removed"):
        del store["a"]
    assert list(client.FileStore(tmp_path / "other.json")) == ["a"]


@pytest.mark.parametrize(
    ("oracle", "field", "value"),
    [(0, "keep", "99/100"), (0, "keep", "1/100"), (0, "keep", "1")],
)
def test_a_protocol_that_tells_more_than_it_says_is_refused(oracle, field, value) -> None:
    changed = json.loads(json.dumps(VECTORS["protocol"]))
    changed["oracles"][oracle][field] = value
    with pytest.raises(client.ProtocolError, match="must keep epsilon = 1"):
        client.report(changed, {}, store={}, cap="1")


def test_a_protocol_whose_oracle_knows_fewer_cells_is_refused() -> None:
    """Randomised response over two cells would send the code 4 of an attribute of five values as it is."""
    attribute = {"name": "a", "values": ["v", "w", "x", "y", "z"]}
    oracle = {"kind": "randomised-response", "sizes": [2], "keep": "7/10"}
    group = {"attributes": [0], "oracle": 0, "share": 1}
    protocol = {
        "version": 1,
        "epsilon": "1",
        "people": 1000,
        "ways": 1,
        "method": "full",
        "minimum": 100,
        "tokens": None,
        "schema": {"attributes": [attribute]},
        "oracles": [oracle],
        "groups": [group],
    }
    with pytest.raises(client.ProtocolError, match="the cells that its attributes have"):
        client.report(protocol, {"a": "z"}, store={}, cap="1")
    oracle["sizes"], oracle["keep"] = [5], "2/5"
    assert len(client.report(protocol, {"a": "z"}, store={}, cap="1")) == 37


def test_ratios_that_the_device_works_out() -> None:
    """3 : 1 over two other cells gives 6; members 2 of 5 kept by 2/3: (2/3 x 3) / (1/3 x 2) = 3; parts multiply."""
    kept = {"kind": "randomised-response", "sizes": [3], "keep": "3/4"}
    assert client.worst_ratio(kept) == 6
    assert client.worst_ratio({"kind": "subset-selection", "sizes": [5], "members": 2, "keep": "2/3"}) == 3
    assert client.worst_ratio({"kind": "unary-encoding", "sizes": [5], "own": "1/2", "other": "1/4"}) == 3
    assert client.worst_ratio({"kind": "each-attribute", "sizes": [3, 2], "keeps": ["3/4", "2/3"]}) == 12
    assert client.worst_ratio({"kind": "local-hashing", "sizes": [9], "buckets": 3, "digits": 2, "keep": "3/4"}) == 6
    assert client.worst_ratio({"kind": "residual-bit", "sizes": [9, 9], "orders": [16, 16], "keep": "3/4"}) == 3


class Middle:
    """A source that always draws the middle."""

    def below(self, number):
        return number // 2


@pytest.mark.parametrize(
    ("attribute", "value", "code"),
    [
        ({"values": ["1", "2"]}, 1.0, 0),
        ({"values": ["1", "2"]}, "2.00", 1),
        ({"values": ["true", "1"]}, True, 0),
        ({"values": ["true", "1"]}, 1, 1),
        ({"values": ["é", "b"]}, "é", 0),
        ({"values": ["a", "b"], "outside": "other"}, "z", 2),
        ({"values": ["a", "b"], "outside": "other"}, None, 2),
        ({"values": ["a", "b"], "outside": "other", "missing": True}, None, 3),
        ({"values": ["a", "b"], "missing": True}, float("nan"), 2),
        ({"values": ["a", "b", "c", "d"]}, "z", 2),
        ({"values": ["a", "b", "c", "d"]}, None, 2),
        ({"edges": [0, 18, 65]}, 18, 1),
        ({"edges": [0, 18, 65]}, 65, 1),
        ({"edges": [0, 18, 65]}, 17.999, 0),
        ({"edges": [0, 18, 65]}, -5, 0),
        ({"edges": [0, 18, 65]}, "99", 1),
        ({"edges": [0, 18, 65], "outside": "other"}, 99, 2),
        ({"edges": [0, 18, 65], "outside": "other"}, "many", 2),
        ({"edges": [0, 18, 65]}, "many", 1),
        ({"edges": [0, 18, 65]}, True, 1),
    ],
)
def test_every_value_has_a_cell(attribute, value, code) -> None:
    assert client.encode_row([{"name": "x", **attribute}], {"x": value}, Middle()) == [code]


def test_the_sampler_follows_its_probabilities() -> None:
    """Chi-square on 40,000 draws of keep and of below, false alarm 1e-6; a keep off by 5% is rejected."""
    from scipy.stats import chi2

    source, keep, number = client.SecureSource(), Fraction(3, 5), 40_000
    oracle = {"kind": "randomised-response", "sizes": [4], "keep": str(keep)}
    drawn = np.bincount([client.draw(oracle, [1], source) for _ in range(number)], minlength=4)

    def statistic(kept):
        expected = number * np.array([(1 - kept) / 3, kept, (1 - kept) / 3, (1 - kept) / 3])
        return ((drawn - expected) ** 2 / expected).sum()

    limit = chi2.isf(1e-6, 3)
    assert statistic(0.6) < limit < statistic(0.63)
