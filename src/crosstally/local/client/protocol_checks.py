"""The protocol: nothing in it is believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .draws import ANSWERS, KINDS, cells_of, worst_ratio
from .field_rules import ProtocolError, fields, fraction, list_of, need, odds_below, whole
from .row_codes import size_of

VERSION = 1  # of protocols and reports
GROUP_HASH = "hmac-sha256"  # how a token gives a group, by its name in protocols
_MOST_ATTRIBUTES, _MOST_CELLS, _LARGEST_EDGE = 512, 100_000, 1e300  # those of a schema (crosstally.schema)
_MOST_GROUPS = 2**18  # a design makes at most 50,000 for each number of attributes
_MOST = 10**12  # people, and what counts them
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 1000), Fraction(16)  # those of a design (crosstally.local.oracles.answers)
_PROTOCOL_FIELDS = {
    "version",
    "epsilon",
    "people",
    "ways",
    "method",
    "minimum",
    "tokens",
    "schema",
    "oracles",
    "groups",
}


def protocol_id(protocol: Mapping[str, Any]) -> bytes:
    """Eight bytes that name a protocol: the start of the SHA-256 of its JSON without blanks, keys sorted."""
    return protocol_digest(protocol)[:8]


def protocol_digest(protocol: Mapping[str, Any]) -> bytes:
    """The SHA-256 of a protocol's JSON without blanks, keys sorted."""
    return hashlib.sha256(_written(protocol)).digest()


def _written(protocol: object) -> bytes:
    text = json.dumps(protocol, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def check_protocol(protocol: object) -> dict[str, Any]:
    """The device's own copy of a protocol, in which every field is as it must be; ``ProtocolError`` otherwise.

    A device need not trust who made the protocol. Types are exact, since a size of 2.0 would pass for 2 until a draw
    fails on it; ratios of probabilities are worked out again, in fractions, for the cells that an oracle knows, so
    these must be all that the attributes of its groups have; and every answer fits into a report.
    """
    try:
        copy = json.loads(_written(protocol))
    except (TypeError, ValueError, RecursionError):
        raise ProtocolError("the protocol must be plain JSON") from None
    fields(copy, "the protocol", _PROTOCOL_FIELDS)
    whole(copy["version"], "version", VERSION, VERSION)
    need(copy["tokens"] in (None, GROUP_HASH), f"tokens must be {GROUP_HASH}, or null where devices draw their groups")
    for field in ("people", "ways", "minimum"):
        whole(copy[field], field, 1, _MOST)
    need(isinstance(copy["method"], str), "method must be a text")
    epsilon = fraction(copy["epsilon"], "epsilon")
    need(_LEAST_EPSILON <= epsilon <= _MOST_EPSILON, "epsilon must be from 0.001 to 16")
    odds = odds_below(epsilon)
    fields(copy["schema"], "schema", {"attributes"})
    attributes = list_of(copy["schema"]["attributes"], "schema.attributes", 1, _MOST_ATTRIBUTES)
    sizes = [_checked_size(each, f"schema.attributes[{i}]") for i, each in enumerate(attributes)]
    need(len({each["name"] for each in attributes}) == len(attributes), "names of attributes must differ")
    for i, oracle in enumerate(list_of(copy["oracles"], "oracles", 1, _MOST_GROUPS)):
        _check_oracle(oracle, f"oracles[{i}]")
        rule = f"the protocol must keep epsilon = {copy['epsilon']}, its {oracle['kind']} does not"
        need(1 <= worst_ratio(oracle) <= odds, rule)
    for i, group in enumerate(list_of(copy["groups"], "groups", 1, _MOST_GROUPS)):
        _check_group(group, f"groups[{i}]", sizes, copy["oracles"])
    return copy  # type: ignore[no-any-return]


def _checked_size(attribute: Any, where: str) -> int:
    """How many cells an attribute has."""
    labels = "edges" if isinstance(attribute, dict) and "edges" in attribute else "values"
    fields(attribute, where, {"name", labels}, frozenset(("missing", "outside")))
    name, least = attribute["name"], 2 if labels == "edges" else 1  # one edge bounds no bin
    listed = list_of(attribute[labels], f"{where}.{labels}", least, _MOST_CELLS + 1)
    need(isinstance(name, str) and name != "", f"{where}.name must be a text that is not empty")
    need(type(attribute.get("missing", False)) is bool, f"{where}.missing must be true or false")
    need(attribute.get("outside", "refuse") in ("refuse", "other"), f"{where}.outside must be refuse or other")
    if labels == "values":
        need(all(isinstance(value, str) for value in listed), f"{where}.values must be texts")
    else:
        finite = all(type(edge) in (int, float) and -_LARGEST_EDGE < edge < _LARGEST_EDGE for edge in listed)
        need(finite and all(a < b for a, b in pairwise(listed)), f"{where}.edges must be numbers that increase")
    return whole(size_of(attribute), f"the number of cells of {where}", 2, _MOST_CELLS)


def _check_group(group: Any, where: str, sizes: Sequence[int], oracles: Sequence[Mapping[str, Any]]) -> None:
    fields(group, where, {"attributes", "oracle", "share"})
    places = list_of(group["attributes"], f"{where}.attributes", 1, len(sizes))
    for place in places:
        whole(place, f"{where}.attributes", 0, len(sizes) - 1)
    need(all(a < b for a, b in pairwise(places)), f"{where}.attributes must increase")
    whole(group["share"], f"{where}.share", 1, _MOST)
    known = oracles[whole(group["oracle"], f"{where}.oracle", 0, len(oracles) - 1)]["sizes"]
    need(known == [sizes[place] for place in places], f"{where} must ask about the cells that its attributes have")


def _check_oracle(oracle: Any, where: str) -> None:
    name: Any = oracle.get("kind") if isinstance(oracle, dict) else None
    need(isinstance(name, str) and name in KINDS, f"{where}.kind must be one of {', '.join(KINDS)}")
    kind = KINDS[name]
    fields(oracle, where, {"kind", "sizes", *kind.fields})
    for size in list_of(oracle["sizes"], f"{where}.sizes", 1, _MOST_ATTRIBUTES):
        whole(size, f"{where}.sizes", 2, _MOST_CELLS)
    whole(cells_of(oracle), f"the number of cells of {where}", 2, kind.most_cells)
    for field in oracle.keys() & {"keep", "own", "other"}:
        fraction(oracle[field], f"{where}.{field}")
    need(kind.answers(oracle, where) <= ANSWERS, f"the answers of {where} must fit into 64 bits")
