"""A person's own device: one row to one report, with the Python standard library and nothing else.

This file may be copied to a device as it is. It reads the public protocol as JSON, turns a row into codes, draws a
group, and draws the report for it with the probabilities that the protocol states as fractions. Randomness comes from
the operating system's secure source, and every draw is exact: there are no floating point numbers in it.

What leaves the device is 37 bytes (docs/local-wire-format.md). Group, report and id are drawn once for each protocol,
stored before anything is sent, and sent again byte for byte whatever the row becomes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import secrets
import struct
import unicodedata
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = [
    "CapReachedError",
    "FileStore",
    "ProtocolError",
    "SecureSource",
    "StoreError",
    "check_privacy",
    "draw",
    "encode_row",
    "protocol_id",
    "report",
]

VERSION = 1
RECORD = struct.Struct("<B8s16sIQ")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


class CapReachedError(Exception):
    """A fresh report would pass the device's lifetime cap."""


class ProtocolError(Exception):
    """The protocol does not keep the epsilon that it states."""


class StoreError(Exception):
    """The device's store cannot be read."""


class SecureSource:
    """Exact draws from the operating system's secure source."""

    def below(self, number: int) -> int:
        """A whole number from 0 to number - 1, each equally likely."""
        return secrets.randbelow(number)

    def chance(self, probability: Fraction) -> bool:
        """True with exactly this probability."""
        return secrets.randbelow(probability.denominator) < probability.numerator

    def identity(self) -> bytes:
        """Sixteen random bytes."""
        return secrets.token_bytes(16)


# The report


def protocol_id(protocol: Mapping[str, Any]) -> bytes:
    """Eight bytes that name a protocol: the start of the SHA-256 of its JSON without blanks, keys sorted."""
    text = json.dumps(protocol, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).digest()[:8]


def report(
    protocol: Mapping[str, Any],
    row: Mapping[str, Any],
    *,
    store: MutableMapping[str, str] | None = None,
    cap: str | None = None,
    source: Any = None,
) -> bytes:
    """The 37 bytes to send: those of the store if the protocol was answered before, else drawn, stored and charged.

    Args:
        protocol: The public protocol, as JSON.
        row: The person's values by attribute. Values outside the schema are mapped, never refused.
        store: What the device keeps: a ``FileStore`` or any mapping of texts. Without one the caller must keep the
            bytes and never draw again for the same person.
        cap: The most epsilon that this device may spend in its life, such as ``"4"``; None where nothing limits it.
        source: Where randomness comes from; the operating system when None.
    """
    name = protocol_id(protocol).hex()
    if store is not None and name in store:
        return base64.b64decode(store[name])
    spent = Fraction(store.get("spent", "0") if store is not None else 0) + Fraction(protocol["epsilon"])
    if cap is not None and spent > Fraction(cap):
        raise CapReachedError(f"a fresh report would spend {spent} of at most {cap} in this device's life")
    check_privacy(protocol)
    source = SecureSource() if source is None else source
    group = drawn_group(protocol["groups"], source)
    payload = answer(protocol, protocol["groups"][group], row, source)
    record = RECORD.pack(VERSION, protocol_id(protocol), source.identity(), group, payload)
    if store is not None:
        store.update({name: base64.b64encode(record).decode("ascii"), "spent": str(spent)})
    return record


def drawn_group(groups: Sequence[Mapping[str, Any]], source: Any) -> int:
    """The number of a group, each as likely as its share of all shares."""
    place = source.below(sum(group["share"] for group in groups))
    for number, group in enumerate(groups):
        place -= group["share"]
        if place < 0:
            return number
    raise AssertionError("shares are whole numbers, and the place is below their sum")


def answer(protocol: Mapping[str, Any], group: Mapping[str, Any], row: Mapping[str, Any], source: Any) -> int:
    """The perturbed answer of a row to what a group is asked."""
    attributes = [protocol["schema"]["attributes"][place] for place in group["attributes"]]
    return draw(protocol["oracles"][group["oracle"]], encode_row(attributes, row, source), source)


def check_privacy(protocol: Mapping[str, Any]) -> None:
    """Raise unless no oracle of the protocol tells two rows apart by more than the epsilon it states.

    A device need not trust who made the protocol: the ratios are worked out again, in fractions. They hold for the
    cells that an oracle knows, so these must be all that the attributes of its groups have.
    """
    epsilon = Fraction(protocol["epsilon"])
    with localcontext() as context:
        context.prec, context.rounding = 60, ROUND_FLOOR
        odds = Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp().next_minus())
    for oracle in protocol["oracles"]:
        if not 1 <= worst_ratio(oracle) <= odds:
            raise ProtocolError(
                f"the protocol must keep epsilon = {protocol['epsilon']}, its {oracle['kind']} does not"
            )
    sizes = [_labels(attribute) + sum(_cells_beside(attribute)) for attribute in protocol["schema"]["attributes"]]
    for group in protocol["groups"]:
        if protocol["oracles"][group["oracle"]]["sizes"] != [sizes[place] for place in group["attributes"]]:
            raise ProtocolError("the protocol must ask each group about the cells that its attributes have")


def worst_ratio(oracle: Mapping[str, Any]) -> Fraction:
    """The largest ratio between the probabilities of one answer for two rows; below 1 where it makes no sense."""
    kind, cells = oracle["kind"], math.prod(oracle["sizes"])
    if kind == "unary-encoding":
        own, other = Fraction(oracle["own"]), Fraction(oracle["other"])
        return own * (1 - other) / (other * (1 - own)) if 0 < other <= own < 1 else Fraction(0)
    if kind == "each-attribute":
        pairs = zip(oracle["keeps"], oracle["sizes"], strict=True)
        return math.prod((_kept_ratio(Fraction(keep), 1, size) for keep, size in pairs), start=Fraction(1))
    parts = {
        "randomised-response": (1, cells),
        "subset-selection": (oracle.get("members", 1), cells),
        "local-hashing": (1, oracle.get("buckets", 2)),
    }
    return _kept_ratio(Fraction(oracle["keep"]), *parts.get(kind, (1, 2)))


def _kept_ratio(keep: Fraction, members: int, values: int) -> Fraction:
    """The ratio of an answer that holds the own value to one that does not: each holds so many of all values."""
    if not (0 < keep < 1 and 0 < members < values):
        return Fraction(0)
    return keep * (values - members) / ((1 - keep) * members)


class FileStore(MutableMapping[str, str]):
    """A JSON file of texts that is written whole, and flushed, before an entry counts as stored."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._texts: dict[str, str] = {}
        if self.path.exists():
            try:
                self._texts = json.loads(self.path.read_text(encoding="utf-8"))
            except ValueError:
                raise StoreError(f"{self.path}: the store is damaged; nothing is drawn without it") from None

    def __getitem__(self, key: str) -> str:
        return self._texts[key]

    def __iter__(self) -> Any:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __setitem__(self, key: str, value: str) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        raise StoreError("what was stored is never removed: it would be drawn and spent again")

    def update(self, texts: Mapping[str, str]) -> None:  # type: ignore[override]
        """Store several texts at once: all of them are on the disk afterwards, or none."""
        merged = {**self._texts, **texts}
        beside = self.path.with_name(self.path.name + ".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(merged, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
        self._texts = merged


# The oracles: a code to a perturbed answer, a whole number below 2^64


def draw(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """The perturbed answer of an oracle to a row's codes."""
    return _DRAWS[oracle["kind"]](oracle, codes, source)


def _cell(oracle: Mapping[str, Any], codes: Sequence[int]) -> int:
    """The number of the cell of a view, the last attribute fastest."""
    place = 0
    for code, size in zip(codes, oracle["sizes"], strict=True):
        place = place * int(size) + code
    return place


def _kept(value: int, values: int, keep: str, source: Any) -> int:
    """The value itself with a probability, else each of the others equally likely."""
    if source.chance(Fraction(keep)):
        return value
    other: int = source.below(values - 1)
    return other + (other >= value)


def _randomised_response(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    return _kept(_cell(oracle, codes), math.prod(oracle["sizes"]), oracle["keep"], source)


def _unary_encoding(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    cell, own, other = _cell(oracle, codes), Fraction(oracle["own"]), Fraction(oracle["other"])
    return sum(source.chance(own if v == cell else other) << v for v in range(math.prod(oracle["sizes"])))


def _local_hashing(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A hash function of a small family, then randomised response among its values."""
    buckets, digits = oracle["buckets"], oracle["digits"]
    function = source.below(buckets**digits)
    hashed = _hash(_cell(oracle, codes), function, buckets, digits)
    return int(function * buckets + _kept(hashed, buckets, oracle["keep"], source))


def _hash(cell: int, function: int, buckets: int, digits: int) -> int:
    """The inner product of the digits of cell and function, modulo the number of buckets, a prime."""
    total = 0
    for _ in range(digits):
        total += (cell % buckets) * (function % buckets)
        cell, function = cell // buckets, function // buckets
    return total % buckets


def _subset_selection(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A set of cells of fixed size, its own cell among them with a probability, all others equally likely."""
    cell, cells = _cell(oracle, codes), math.prod(oracle["sizes"])
    inside = source.chance(Fraction(oracle["keep"]))
    chosen, wanted, left = int(inside) << cell, oracle["members"] - inside, cells - 1
    for other in range(cells):
        if other != cell:
            taken = wanted > 0 and source.chance(Fraction(wanted, left))
            chosen, wanted, left = chosen | taken << other, wanted - taken, left - 1
    return chosen


def _hadamard_response(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A row of Hadamard's matrix that is not all ones, and the perturbed sign it has at the cell."""
    function = 1 + source.below(oracle["order"] - 1)
    sign = (function & _cell(oracle, codes)).bit_count() & 1
    return int(function * 2 + (sign if source.chance(Fraction(oracle["keep"])) else 1 - sign))


def _residual_bit(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """For each attribute such a row of its own matrix; the perturbed product of the signs."""
    place = sign = 0
    for code, order in zip(codes, oracle["orders"], strict=True):
        function = source.below(order - 1) if order > 2 else 0
        place = place * (order - 1) + function
        sign ^= ((function + 1) & code).bit_count() & 1
    return place * 2 + (sign if source.chance(Fraction(oracle["keep"])) else 1 - sign)


def _each_attribute(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """Every attribute by randomised response with its share of epsilon, the last attribute fastest."""
    place = 0
    for code, size, keep in zip(codes, oracle["sizes"], oracle["keeps"], strict=True):
        place = place * int(size) + _kept(code, size, keep, source)
    return place


_DRAWS: Mapping[str, Callable[[Mapping[str, Any], Sequence[int], Any], int]] = {
    "randomised-response": _randomised_response,
    "unary-encoding": _unary_encoding,
    "local-hashing": _local_hashing,
    "subset-selection": _subset_selection,
    "hadamard-response": _hadamard_response,
    "residual-bit": _residual_bit,
    "each-attribute": _each_attribute,
}


# A row to codes


def encode_row(attributes: Sequence[Mapping[str, Any]], row: Mapping[str, Any], source: Any) -> list[int]:
    """The code of each attribute's cell: values or bins, then ``(other)``, then ``(missing)``.

    A number beyond all edges belongs to the nearest bin where there is no cell for others. What has no cell at all
    belongs to a cell drawn at random, each equally likely.
    """
    return [_code(attribute, row.get(attribute["name"]), source) for attribute in attributes]


def _code(attribute: Mapping[str, Any], value: object, source: Any) -> int:
    edges, values, labels = attribute.get("edges"), attribute.get("values"), _labels(attribute)
    has_other, has_missing = _cells_beside(attribute)
    if value is None or value == "" or value != value:  # noqa: PLR0124 - only NaN differs from itself
        if has_missing:
            return labels + has_other
    else:
        found = _bin(edges, value, clamp=not has_other) if edges else _label(values or (), value)
        if found is not None:
            return found
    return labels if has_other else int(source.below(labels + has_missing))


def _labels(attribute: Mapping[str, Any]) -> int:
    """How many cells an attribute has for its values or bins."""
    edges = attribute.get("edges")
    return len(edges) - 1 if edges else len(attribute.get("values") or ())


def _cells_beside(attribute: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether an attribute has a cell for others, and one for missing values."""
    return attribute.get("outside") == "other", bool(attribute.get("missing"))


def _label(values: Sequence[object], value: object) -> int | None:
    text = _text(value)
    return next((code for code, label in enumerate(values) if _text(label) == text), None)


def _text(value: object) -> str:
    """The text by which values are matched: 1, 1.0 and "1" alike; true is not 1."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    if isinstance(value, float | Decimal) or _NUMBER.fullmatch(text):
        number = Decimal(text)
        if not number.is_finite():
            return text.lower()
        text = format(number, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text
    return text.lower() if text in ("True", "False") else unicodedata.normalize("NFC", text)


def _bin(edges: Sequence[float], value: object, *, clamp: bool) -> int | None:
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value).strip(" "))
    except InvalidOperation:
        return None
    if isinstance(value, bool) or not number.is_finite():
        return None
    limits = [Decimal(repr(edge)) for edge in edges]
    if not clamp and not limits[0] <= number <= limits[-1]:
        return None
    above = sum(number >= limit for limit in limits)
    return min(max(above - 1, 0), len(limits) - 2)
