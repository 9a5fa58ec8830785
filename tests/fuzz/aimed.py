"""Files that ask for far more than they hold: each was slow, large or raised something bare once, or might have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crosstally.releases.file.header import CONTENT
from fuzz.targets import FORMATS

__all__ = ["AIMED"]


def _binary(number: int) -> dict[str, Any]:
    return {"attributes": [{"name": f"a{i}", "values": ["0", "1"]} for i in range(number)]}


def _plan(
    schema: Any, requests: list[Any], *, neighbours: str = "replace", workload: Any = None, **more: Any
) -> Callable[[Path], object]:
    document = {
        "crosstally-plan": 1,
        "strategy": "by hand",
        "budget": {"epsilon": "1"},
        "neighbours": neighbours,
        "schema": schema,
        "workload": workload or {"tables": [["a0"]]},
        "requests": requests,
        "later": [],
        "groups": {},
        "objective": "cells",
        "matrices": {},
        **more,
    }
    return lambda path: path.write_text(json.dumps(document))


def _asked(kind: str, names: list[str], scale: float = 2.0**40) -> dict[str, Any]:
    return {"query": {kind: names}, "noise": {"kind": "laplace", "scale": scale}}


def _names(number: int) -> list[str]:
    return [f"a{i}" for i in range(number)]


def _release(
    schema: Any,
    measurements: list[list[int]],
    numbers: int,
    *,
    query: str = "cells",
    neighbours: str = "add-remove",
    scale: float = 2.0**40,
) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        fixture = pq.read_metadata(FORMATS / "release-1-shrunk.parquet").metadata[b"crosstally"]
        header = json.loads(fixture)
        header["schema"] = schema
        header["statement"]["unit"] = None
        header["statement"]["neighbours"] = neighbours
        mechanism = {"query": query, "values": "whole", "noise": {"kind": "laplace", "scale": scale}}
        ratio = np.exp(-1 / scale)
        mechanism |= {"variance": float(2 * ratio / np.expm1(-1 / scale) ** 2), "origin": "entry 1", "matrices": {}}
        header["mechanisms"], header["measurements"] = [mechanism], measurements
        text = json.dumps(header).encode()
        each = numbers // max(1, len(measurements))
        columns: dict[str, Any] = {
            "measurement": np.repeat(np.arange(len(measurements), dtype=np.int32), each),
            "cell": np.tile(np.arange(each, dtype=np.int32), len(measurements)),
            "value": np.zeros(numbers, np.int64),
            "estimate": np.zeros(numbers),
        }
        state = hashlib.sha256(text)
        for name in CONTENT:
            state.update(columns[name].data)
        texts = pa.array(["x"] * numbers, pa.string()).dictionary_encode()
        readable = {"table": texts, "variance": np.zeros(numbers), **{a["name"]: texts for a in schema["attributes"]}}
        table = pa.table({**columns, **readable})
        with pq.ParquetWriter(path, table.schema, store_schema=False, compression="zstd") as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({b"crosstally": text, b"crosstally.sha256": state.hexdigest().encode()})

    return write


def _protocol(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        document = json.loads((FORMATS / "protocol-1.json").read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document))

    return write


def _hashing(**fields: Any) -> Callable[[dict[str, Any]], object]:
    oracle = {"kind": "local-hashing", "sizes": [3, 5], "buckets": 7, "digits": 2, "keep": "1/2", **fields}
    return lambda document: document["oracles"].__setitem__(0, oracle)


def _wide_protocol(number: int, kind: str) -> Callable[[dict[str, Any]], object]:
    """A group that is asked about many attributes at once: its oracle has very many cells."""

    def change(document: dict[str, Any]) -> None:
        orders = {"orders": [2] * number} if kind == "residual-bit" else {}
        more = {"order": 2**number} if kind == "hadamard-response" else {}
        document["schema"] = _binary(number)
        document["ways"] = number
        document["oracles"] = [{"kind": kind, "sizes": [2] * number, "keep": "51/100", **orders, **more}]
        document["groups"] = [{"attributes": list(range(number)), "oracle": 0, "share": 1}]

    return change


def _state(head: str, rest: bytes) -> Callable[[Path], object]:
    body = b"crosstally-collector-1\n" + head.encode() + b"\n" + rest
    return lambda path: path.write_bytes(body + hashlib.sha256(body).digest())


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


_EDGES = {"attributes": [{"name": "a0", "edges": list(range(90_001))}]}
_PAIRS = [[0, i, j] for i in range(60) for j in range(i)]
_PAIRS_OF_24 = [["a0"], *[[f"a{i}", f"a{(i * i + 3 * i + 1) % 24}"] for i in range(24) if (i * i + 2 * i + 1) % 24]]

AIMED: Mapping[str, Mapping[str, Callable[[Path], object]]] = {
    "schema": {
        "a label of a million letters": _text(
            json.dumps({"attributes": [{"name": "a", "values": ["x" * 10**6, "y"]}]})
        ),
        "many equal labels": _text(json.dumps({"attributes": [{"name": "a", "values": ["x"] * 99_000}]})),
        "many labels": _text(json.dumps({"attributes": [{"name": "a", "values": [f"{i}" for i in range(99_000)]}]})),
        "many attributes": _text(json.dumps(_binary(100_000))),
        "attributes of one name": _text(json.dumps({"attributes": [{"name": "a", "values": ["0", "1"]}] * 50_000})),
        "an unknown field": _text(json.dumps({"attributes": [], "x" * 10**6: 1})),
        "labels that nearly agree": _text(
            json.dumps(
                {"attributes": [{"name": "a", "values": [f"{'x' * 300}{i}" for i in range(5_000)] + [f"{'x' * 300}0"]}]}
            )
        ),
        "a number of 5,001 digits": _text('{"attributes": [{"name": "a", "edges": [0, ' + "9" * 5_001 + "]}]}"),
        "deep brackets": _text("[" * 10**6),
        "quotes without end": _text('{"a": "' + '\\"' * 10**6),
        "a fact of many cells": _text(
            json.dumps(
                {
                    "crosstally-schema": 1,
                    **_binary(400),
                    "facts": [{"impossible": {f"a{i}": ["0"] for i in range(400)}}] * 2_000,
                }
            )
        ),
        "a hierarchy of many levels": _text(
            json.dumps(
                {
                    "crosstally-schema": 1,
                    "attributes": [
                        {
                            "name": "a",
                            "values": ["0", "1", "2"],
                            "hierarchy": [
                                {"name": f"h{i}", "groups": {"x": ["0", "1"], "y": ["2"]}} for i in range(20_000)
                            ],
                        }
                    ],
                }
            )
        ),
    },
    "plan": {
        "a contrast over 22 attributes": _plan(_binary(22), [_asked("contrast", _names(22))]),
        "contrasts over 24 attributes": _plan(_binary(24), [_asked("contrast", names) for names in _PAIRS_OF_24]),
        "contrasts over 25 attributes": _plan(
            _binary(25), [_asked("contrast", [f"a{i}", f"a{(i + 1) % 25}"]) for i in range(25)]
        ),
        "a contrast over 16 sizes": _plan(
            {"attributes": [{"name": f"a{i}", "values": [str(v) for v in range(2 + i % 2)]} for i in range(17)]},
            [_asked("contrast", _names(17))],
        ),
        "a contrast over 12 different sizes": _plan(
            {"attributes": [{"name": f"a{i}", "values": [str(v) for v in range(2 + i)]} for i in range(9)]},
            [_asked("contrast", _names(9))],
        ),
        "many totals": _plan(_binary(2), [_asked("cells", [])] * 50_000),
        "many tables": _plan(_binary(2), [_asked("cells", ["a0"])] * 50_000, neighbours="add-remove"),
        "a linear query of many cells": _plan(
            _binary(20),
            [
                {
                    "query": {"linear": [{"weight": 1, "factors": {name: [0, 1] for name in _names(20)}}] * 60},
                    "noise": {"kind": "laplace", "scale": 2.0**30},
                }
            ],
        ),
        "linear queries that share nothing": _plan(
            _binary(40),
            [
                {
                    "query": {"linear": [{"weight": i + 1, "factors": {f"a{i}": [0, 1], f"a{(i + 1) % 40}": [1, i]}}]},
                    "noise": {"kind": "laplace", "scale": 2.0**30 + i},
                }
                for i in range(40)
            ],
        ),
        "linear queries over eleven attributes": _plan(
            _binary(11),
            [
                {
                    "query": {
                        "linear": [{"weight": 1, "factors": {n: [i, i * j + 1] for j, n in enumerate(_names(11))}}]
                    },
                    "noise": {"kind": "laplace", "scale": 2.0**45 + i},
                }
                for i in range(1, 3)
            ],
        ),
        "a workload of all": _plan(
            _binary(20),
            [_asked("cells", ["a0"])],
            workload={"tables": [_names(20)] * 200},
        ),
        "scales of many digits": _plan(
            _binary(20), [_asked("cells", [f"a{i % 20}"], 1.0e5 + i / 3) for i in range(3_000)], neighbours="add-remove"
        ),
    },
    "release": {
        "a million totals": _release(_binary(2), [[0]] * 10**6, 10**6),
        "a contrast over 22 attributes": _release(_binary(22), [[0, *range(22)]], 1, query="contrast"),
        "a contrast over 22 attributes, replaced": _release(
            _binary(22), [[0, *range(22)]], 1, query="contrast", neighbours="replace"
        ),
        "contrasts over 16 attributes": _release(_binary(16), [[0, *range(16)]] * 70, 70, query="contrast"),
        "all pairs of 60": _release(_binary(60), _PAIRS, 4 * len(_PAIRS)),
        "100,000 equal contrasts": _release(_binary(2), [[0, 0, 1]] * 100_000, 100_000, query="contrast"),
        "an attribute of many values, a contrast": _release(_EDGES, [[0, 0]], 90_000, query="contrast"),
    },
    "protocol": {
        "hashing with 60 digits": _protocol(_hashing(digits=60)),
        "hashing with 10^9 digits": _protocol(_hashing(digits=10**9)),
        "buckets that are no prime": _protocol(_hashing(buckets=15)),
        "very many buckets": _protocol(_hashing(buckets=10**30)),
        "a number of 5,001 digits": _text('{"version": ' + "9" * 5_001 + "}"),
        "40 attributes in one group, each by randomised response": _protocol(_wide_protocol(40, "randomised-response")),
        "40 attributes in one group, Hadamard": _protocol(_wide_protocol(40, "hadamard-response")),
        "40 attributes in one group, residual bit": _protocol(_wide_protocol(40, "residual-bit")),
        "22 attributes in one group": _protocol(_wide_protocol(22, "hadamard-response")),
        "22 attributes in one group, residual bit": _protocol(_wide_protocol(22, "residual-bit")),
        "22 attributes in one group, randomised": _protocol(_wide_protocol(22, "randomised-response")),
        "many groups": _protocol(lambda d: d.__setitem__("groups", d["groups"] * 5_000)),
        "many oracles": _protocol(lambda d: d.__setitem__("oracles", d["oracles"] * 3_000)),
    },
    "collector state": {
        "no protocol in its head": _state("{}", b""),
        "a list for its head": _state("[]", b""),
        "no head": _state("", b""),
        "many reports": _state('{"protocol": "10884e281f102cbd", "reports": 1}', b"\0" * 10**6),
        "a number of 5,001 digits": _state('{"protocol": "10884e281f102cbd", "reports": ' + "9" * 5_001 + "}", b""),
    },
    "device store": {
        "a number of 5,001 digits": _text('{"spent": ' + "9" * 5_001 + "}"),
        "deep brackets": _text("[" * 10**6),
        "spent has many digits": _text(json.dumps({"spent": "1/" + "3" * 100_000})),
        "many entries": _text(json.dumps({f"{i:016x}": "x" for i in range(100_000)})),
    },
    "question": {
        "brackets": _text("(" * 10**6),
        "not not not": _text("not " * 10**5 + "sex = Male"),
        "and and and": _text(" and ".join(["sex = Male"] * 20_000)),
        "in a long list": _text("sex in (" + ", ".join(["Male"] * 50_000) + ")"),
        "a long name": _text("x" * 10**6 + " = 1"),
    },
}
