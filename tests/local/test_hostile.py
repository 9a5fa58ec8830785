"""A device that trusts nobody: hostile protocols and rows, and the exact law of "report or failure" in fractions."""

from __future__ import annotations

import copy
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from crosstally.local import client
from crosstally.local.client import reporting
from crosstally.local.oracles.hadamard_response import HadamardResponse, ResidualBit
from crosstally.local.oracles.local_hashing import LocalHashing
from crosstally.local.oracles.randomised_response import EachAttribute, RandomisedResponse
from crosstally.local.oracles.subset_selection import SubsetSelection
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.local.planning.methods import METHODS
from crosstally.local.protocol import Protocol, design
from crosstally.schema import Attribute, Outside, Schema
from reference_local import Branches, exponential_below

SCHEMA = Schema(
    (
        Attribute("a", ("x", "y")),
        Attribute("b", edges=(0, 10, 20.5), outside=Outside.OTHER),
        Attribute("c", ("1",), missing=True),
    )
)
SMALL = Schema((SCHEMA["a"], Attribute("b", edges=(0, 10, 20.5), missing=True)))
ROWS: list[dict[str, Any]] = [
    {"a": "x", "b": 5, "c": 1},
    {"a": "y", "b": 15, "c": None},
    {"a": "?", "b": "?", "c": "?"},
]
EPSILON = Fraction(1)
KINDS = [
    ([0, 1], RandomisedResponse.of((2, 3), EPSILON)),
    ([0, 2], UnaryEncoding.of((2, 2), EPSILON)),
    ([1], LocalHashing((3,), buckets=2, digits=2, keep=Fraction(7, 10))),
    ([1], SubsetSelection((3,), members=2, keep=Fraction(3, 4))),
    ([1], HadamardResponse.of((3,), EPSILON)),
    ([0, 1], ResidualBit.of((2, 3), EPSILON)),
    ([0, 1, 2], EachAttribute.of((2, 3, 2), EPSILON)),
]


def of_kind(attributes, oracle):
    """A protocol that asks everybody the same."""
    facts = {"version": 1, "epsilon": "1", "people": 1000, "ways": 2, "method": "full", "minimum": 100, "tokens": None}
    group = {"attributes": attributes, "oracle": 0, "share": 1}
    return facts | {"schema": SCHEMA.identity(), "oracles": [oracle.to_dict()], "groups": [group]}


def of_method(method):
    """A design, its shares made small, so that every draw can be enumerated."""
    document = copy.deepcopy(design(SMALL, epsilon=EPSILON, people=1000, ways=2, method=method).document)
    for number, group in enumerate(document["groups"]):
        group["share"] = 1 + number % 2
    return document


def by_token(document):
    """The same protocol with one-time tokens."""
    return {**copy.deepcopy(document), "tokens": "hmac-sha256"}


def token_for(document):
    """A token where a protocol needs one."""
    return "0f" * 16 if isinstance(document, dict) and document.get("tokens") else None


PROTOCOLS = {
    "tokens": by_token(of_method("residuals")),
    **{oracle.kind: of_kind(attributes, oracle) for attributes, oracle in KINDS},
    **{method: of_method(method) for method in METHODS},
}


@pytest.fixture
def _checked_once(monkeypatch):
    """Enumerating draws asks for the check, which knows nothing of rows and draws, thousands of times: remember it."""
    real, known = client.check_protocol, {}

    def once(document):
        if id(document) not in known:
            known[id(document)] = document, real(document)
        return known[id(document)][1]

    monkeypatch.setattr(reporting, "check_protocol", once)


class Row(dict):
    """A row that knows whether it was looked at."""

    touched = False

    def get(self, key, default=None):
        self.touched = True
        return super().get(key, default)


class AllDraws(Branches):
    """All paths through what is drawn; the id of the report is the same in each."""

    def identity(self):
        return bytes(16)


def outcomes(document, row):
    """The exact law of (report or kind of failure, what was charged); refused documents must not touch the row."""
    law, paths = {}, [()]
    while paths:
        source, store = AllDraws(paths.pop()), {}
        seen = Row(row) if isinstance(row, dict) else row
        outcome: bytes | str
        try:
            outcome = client.report(document, seen, store=store, cap="16", token=token_for(document), source=source)
        except BaseException as error:  # noqa: BLE001 - whatever it is, somebody may see it
            outcome = type(error).__name__
        if not store:
            assert not source.taken, f"{outcome!r}: drawn without a charge"
            assert not getattr(seen, "touched", False), f"{outcome!r}: a row was looked at without a charge"
        key = (outcome, store.get("spent", "0"))
        law[key] = law.get(key, 0) + source.probability
        paths += source.open
    assert sum(law.values()) == 1
    return law


def assert_private(laws):
    """No outcome is more than e^charge times as likely for one row as for another."""
    distinct = [dict(items) for items in {frozenset(law.items()) for law in laws}]
    limits = {}
    for first in distinct:
        for (outcome, charged), probability in first.items():
            limit = limits.setdefault(charged, exponential_below(Fraction(charged)) if charged != "0" else 1)
            for second in distinct:
                assert probability <= limit * second.get((outcome, charged), 0), (outcome, charged)


# Protocols


def leaves(node, path=()):
    """All places in a document, containers too."""
    yield path, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from leaves(child, (*path, key))


def mutants(value):
    """What could stand in the place of a value: other types, other sizes, other signs."""
    common = [None, True, [], {}, [value], "1e999999", "9" * 5000, 10**30, -1, 0, math.nan, math.inf, 0.5]
    if isinstance(value, bool):
        return [*common, False, "true", 1]
    if isinstance(value, int | float):
        return [*common, float(value), str(value), value + 1, value - 1, 10**4000]
    if isinstance(value, str):
        numbers = ["99/100", "1/100", "1", "1/0", "0/1", "1_0"] if value[0].isdigit() else []
        return [*common, *numbers, "", "-" + value, value + " ", "\ud800"]
    return [*common, "text"] if value else common


def changed(document, path, value):
    out = copy.deepcopy(document)
    if not path:
        return value
    at = out
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return out


@pytest.mark.usefixtures("_checked_once")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_mutant_of_a_protocol_is_private_or_refused(name) -> None:
    """Types, signs and sizes of every leaf; removed and added fields; ratios over all rows and draws, in fractions."""
    document = PROTOCOLS[name]
    assert_private([outcomes(document, row) for row in ROWS])
    tried = answered = 0
    for path, value in leaves(document):
        changes = [changed(document, path, mutant) for mutant in mutants(value)]
        if isinstance(value, dict):
            changes += [changed(document, path, {k: v for k, v in value.items() if k != key}) for key in value]
            changes.append(changed(document, path, {**value, "more": 1}))
        for given in changes:
            tried += 1
            first = outcomes(given, ROWS[0])
            if set(first) == {("ProtocolError", "0")}:
                continue
            answered += 1
            assert_private([first, outcomes(given, ROWS[1])])
    assert tried > 400
    assert 0 < answered < tried / 5


def kind(name, **fields):
    document = copy.deepcopy(PROTOCOLS[name])
    document["oracles"][0].update(fields)
    return document


def unary_over(cells):
    document = copy.deepcopy(PROTOCOLS["unary-encoding"])
    document["schema"]["attributes"][0]["values"] = [f"v{i}" for i in range(cells)]
    document["oracles"][0]["sizes"], document["groups"][0]["attributes"] = [cells], [0]
    return document


def with_edges(*edges):
    document = copy.deepcopy(PROTOCOLS["hadamard-response"])
    document["schema"]["attributes"][1]["edges"] = list(edges)
    return document


HOSTILE = {
    "a size of 2.0": (kind("randomised-response", sizes=[2, 3.0]), "sizes must be a whole number"),
    "members of 1.0": (kind("subset-selection", members=1.0, keep="1/2"), "members must be a whole number"),
    "no room for a false answer": (kind("subset-selection", members=3), "members must be a whole number from 1 to 2"),
    "65 cells in a mask": (unary_over(65), "number of cells of oracles.0. must be a whole number from 2 to 64"),
    "an edge that is text": (with_edges(0, 200, "x"), "edges must be numbers that increase"),
    "edges that fall": (with_edges(0, 20, 10), "edges must be numbers that increase"),
    "an edge alone": (with_edges(0), "edges must be a list of 2"),
    "a group asked for from the end": (kind("randomised-response"), "oracle must be a whole number from 0 to 0"),
    "a ratio hidden by another below 1": (
        kind("each-attribute", keeps=["9/10", "1/13", "1/2"]),  # 9 x 1/6 x 1 is within e; 9 x 6 is not
        "must keep epsilon = 1",
    ),
    "buckets that are no prime": (kind("local-hashing", buckets=4, keep="2/5"), "buckets must be a prime"),
    "more digits than a report has": (kind("local-hashing", digits=64), "must fit into 64 bits"),
    "digits for half of the cells": (kind("local-hashing", digits=1), "must tell all cells apart"),
    "a matrix that is too small": (kind("hadamard-response", order=2), "order must be a whole number from 4 to 4"),
    "an oracle for fewer cells": (kind("randomised-response", sizes=[2, 2]), "the cells that its attributes have"),
}
HOSTILE["a group asked for from the end"][0]["groups"][0]["oracle"] = -1


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_protocol_is_refused_before_the_row_is_touched(name) -> None:
    document, message = HOSTILE[name]
    row, store = Row(ROWS[0]), {}
    with pytest.raises(client.ProtocolError, match=message):
        client.report(document, row, store=store, cap="16")
    assert not row.touched
    assert store == {}
    with pytest.raises(Exception, match="not a protocol of version 1"):
        Protocol.from_dict(document)


def test_what_is_no_json_is_no_protocol() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    for given in (None, 3, object(), {1, 2}, {"a": object()}, {"version": 10**5000}, nested, {1: 1, "1": 1}):
        with pytest.raises(client.ProtocolError):
            client.report(given, {}, store={}, cap="1")


def test_designs_of_every_method_are_answered() -> None:
    wide = Schema([Attribute(f"q{i}", tuple("abcdefg"[: 2 + i])) for i in range(5)])
    for schema, method, epsilon in ((SCHEMA, m, e) for m in METHODS for e in ("0.01", "16", "1/3")):
        assert (
            len(design(schema, epsilon=epsilon, people=500, ways=2, method=method).report({}, store={}, cap=16)) == 37
        )
    for method in METHODS:
        assert len(design(wide, epsilon=1, people=500, ways=3, method=method).report({}, store={}, cap=1)) == 37


# Rows


def failing(error, *methods):
    """An object whose methods raise."""

    def fail(*_):
        raise error

    return type("Failing", (), {"__hash__": None, **dict.fromkeys(methods, fail)})()


class Endless:
    """A text that is looked for by looking for it."""

    def __str__(self):
        return str(self)


class NoGet(dict):
    def get(self, *_):
        raise KeyboardInterrupt


VALUES = [
    *(None, "", "x", "y", "1", 1, 1.0, True, -(10**5000), 10**5000, 5, 99, "5", "99", math.nan, math.inf, -math.inf),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999999"), Decimal("-1e-999999999"), "sNaN", "1e999999999"),
    *(b"x", [], {}, (), object(), object, 1j, "\ud800", "\x00", "9" * 5000, lambda: 1, Endless()),
    *(failing(ValueError("no"), m) for m in ("__str__", "__eq__", "__ne__", "__repr__", "__bool__")),
    *(failing(RecursionError(), "__str__", "__eq__"), failing(SystemExit(0), "__str__", "__float__")),
    *(failing(KeyboardInterrupt(), "__ne__"), failing(GeneratorExit(), "__eq__"), failing(MemoryError(), "__str__")),
]
NOT_ROWS = [NoGet(), None, 7, [("a", "x")], object(), failing(ValueError("no"), "get"), dict]


@pytest.mark.usefixtures("_checked_once")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_row_has_a_report_and_the_law_of_one(name) -> None:
    """Each value of each row replaced by anything: always a report, never a failure, within e^epsilon of any other."""
    document = PROTOCOLS[name]
    names = [attribute["name"] for attribute in document["schema"]["attributes"]]
    rows = [{**ROWS[0], name: value} for name in names for value in VALUES]
    laws = [outcomes(document, row) for row in (*ROWS, *rows, *NOT_ROWS)]
    assert all(len(outcome) == 37 and charged == "1" for law in laws for outcome, charged in law)
    assert_private(laws)


class Middle:
    """A source that always draws the middle."""

    def below(self, number):
        return number // 2


def test_what_cannot_be_read_has_a_cell() -> None:
    """Other, else missing, else a cell drawn without the value; a number beyond all edges is in the nearest bin."""
    dumb, huge = failing(ValueError(), "__str__"), Decimal("1e999999999")
    for attribute, value, code in [
        ({"values": ["a", "b"], "outside": "other", "missing": True}, dumb, 2),
        ({"values": ["a", "b"], "missing": True}, dumb, 2),
        ({"values": ["a", "b", "c", "d"]}, dumb, 2),
        ({"values": ["a", "b"], "outside": "other"}, Decimal("sNaN"), 2),
        ({"values": ["a", "b"], "outside": "other"}, 10**5000, 2),
        ({"values": ["0", "1"], "outside": "other"}, huge, 2),
        ({"edges": [0, 18, 65]}, 10**5000, 1),
        ({"edges": [0, 18, 65]}, -(10**5000), 0),
        ({"edges": [0, 18, 65]}, huge, 1),
        ({"edges": [0, 18, 65], "missing": True}, Decimal("sNaN"), 2),
        ({"edges": [0, 18, 65]}, np.float64(20), 1),
        ({"values": ["1", "2"]}, np.float64(2), 1),
    ]:
        assert client.encode_row([{"name": "x", **attribute}], {"x": value}, Middle()) == [code]


def test_every_attribute_is_read_whatever_the_group() -> None:
    """What reading does (take time, fail hard) then says nothing about which group was drawn."""

    class Names(dict):
        def get(self, key, default=None):
            names.append(key)
            return default

    for name, document in PROTOCOLS.items():
        names: list[str] = []
        client.report(document, Names(), store={}, cap="1", token=token_for(document))
        assert names == [attribute["name"] for attribute in document["schema"]["attributes"]], name
