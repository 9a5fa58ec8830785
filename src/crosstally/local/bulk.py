"""Many people's reports at once, for simulations and for those who hold rows and want to forget them.

The probabilities are those of the protocol, exactly, as on a device. Random words come from OpenSSL's generator
(``ssl.RAND_bytes``), a deterministic generator keyed and rekeyed by the operating system's secure source.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import CrosstallyError
from crosstally.local import client
from crosstally.local.collector import RECORD
from crosstally.local.oracles.odds import RESOLUTION
from crosstally.local.oracles.oracles import (
    HadamardResponse,
    LocalHashing,
    RandomisedResponse,
    SubsetSelection,
    UnaryEncoding,
    hashes,
)
from crosstally.local.oracles.residual_oracles import EachAttribute, ResidualBit
from crosstally.local.planning.groups import Oracle
from crosstally.local.protocol import Protocol

__all__ = ["answers", "reports"]

_CHUNK = 2**14
_NARROW_CELLS = 16
_WIDE_WORDS = 7.7

Codes = NDArray[np.int64]
Answers = NDArray[np.uint64]


def reports(protocol: Protocol, codes: ArrayLike) -> NDArray[Any]:
    """A report for each person, as an array that ``Collector.add_many`` takes.

    Args:
        protocol: What is asked.
        codes: A row for each attribute of the schema, a column for each person: the cells' numbers.
    """
    given = _checked(protocol, codes)
    people = given.shape[1]
    out = np.empty(people, RECORD)
    out["version"], out["protocol"] = client.VERSION, np.frombuffer(bytes.fromhex(protocol.id), "V8")[0]
    out["id"] = np.frombuffer(ssl.RAND_bytes(16 * people), RECORD["id"])
    groups = _groups(protocol, people)
    out["group"] = groups
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=len(protocol.groups)))
    for group, rows in zip(protocol.groups, np.split(order, ends[:-1]), strict=True):
        if len(rows):
            out["payload"][rows] = answers(group.oracle, given[np.array(group.attributes)[:, None], rows])
    return out


def _checked(protocol: Protocol, codes: ArrayLike) -> NDArray[Any]:
    given = np.asarray(codes)
    sizes = protocol.schema.shape
    if given.ndim != 2 or len(given) != len(sizes) or not np.issubdtype(given.dtype, np.integer):
        raise CrosstallyError(f"codes must be whole numbers, {len(sizes)} rows of them, got shape {given.shape}")
    if given.size and (given.min() < 0 or (given.max(axis=1) >= np.array(sizes)).any()):
        raise CrosstallyError("codes must be numbers of the attributes' cells")
    return given


def _groups(protocol: Protocol, people: int) -> NDArray[np.int64]:
    """A group for each person, drawn by its share."""
    shares = np.cumsum([group.share for group in protocol.groups])
    total = int(shares[-1])
    if total == 1:
        return np.zeros(people, np.int64)
    bound = 2**63 // total * total
    words = np.empty(0, np.uint64)
    while len(words) < people:
        drawn = np.frombuffer(ssl.RAND_bytes(8 * (people - len(words))), np.uint64) >> np.uint64(1)
        words = np.concatenate([words, drawn[drawn < bound]])
    return np.searchsorted(shares, (words % np.uint64(total)).astype(np.int64), side="right")


def answers(oracle: Oracle, codes: ArrayLike) -> Answers:
    """The perturbed answer of each person; a row of codes for each attribute that the oracle asks about."""
    given = np.ascontiguousarray(codes, np.int64)
    parts = [_draw(oracle, np.ascontiguousarray(given[:, i : i + _CHUNK])) for i in range(0, given.shape[1], _CHUNK)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _draw(oracle: Oracle, codes: Codes) -> Answers:
    from crosstally.kernels import local as kernels

    people = codes.shape[1]
    cells = np.zeros(people, np.int64)
    for line, size in zip(codes, oracle.sizes, strict=True):
        cells *= size
        cells += line
    number = math.prod(oracle.sizes)
    match oracle:
        case RandomisedResponse():
            keep = _threshold(oracle.keep)
            return _filled(people, 2, lambda words, out: kernels.draw_kept(cells, number, keep, words, out))
        case UnaryEncoding():
            other = _threshold(oracle.other, 2**16)
            if oracle.own != Fraction(1, 2):
                raise CrosstallyError("in bulk, unary encoding must set its own bit with probability 1/2")
            if number > _NARROW_CELLS:
                return _filled(
                    people,
                    2 * _WIDE_WORDS,
                    lambda words, out: kernels.draw_wide_unary(cells, number, other, words.view(np.uint64), out),
                )
            return _filled(
                people,
                (number + 1) / 2,
                lambda words, out: kernels.draw_unary(cells, number, other, words.view(np.uint16), out),
            )
        case LocalHashing():
            keep, table = _threshold(oracle.keep), hashes(number, oracle.buckets, oracle.digits)
            return _filled(
                people, 3, lambda words, out: kernels.draw_hashed(cells, table, oracle.buckets, keep, words, out)
            )
        case SubsetSelection():
            keep, members = _threshold(oracle.keep), oracle.members
            return _filled(
                people,
                members + 1,
                lambda words, out: kernels.draw_subsets(cells, number, members, keep, words, out),
            )
        case HadamardResponse():
            keep, order = _threshold(oracle.keep), oracle.order
            return _filled(people, 2, lambda words, out: kernels.draw_hadamard(cells, order, keep, words, out))
        case ResidualBit():
            keep, orders = _threshold(oracle.keep), np.array(oracle.orders, np.int64)
            each = 1 + sum(order > 2 for order in oracle.orders)
            return _filled(people, each, lambda words, out: kernels.draw_residual_bits(codes, orders, keep, words, out))
        case EachAttribute():
            return _each(oracle, codes)
    raise CrosstallyError(f"reports of {type(oracle).__name__} cannot be drawn in bulk")


def _each(oracle: EachAttribute, codes: Codes) -> Answers:
    out = np.zeros(codes.shape[1], np.uint64)
    for line, size, keep in zip(codes, oracle.sizes, oracle.keeps, strict=True):
        out = out * np.uint64(size) + _draw(RandomisedResponse((size,), keep), line[None])
    return out


def _threshold(probability: Fraction, resolution: int = RESOLUTION) -> int:
    """The number of words, of all there are, that mean yes."""
    if resolution % probability.denominator:
        raise CrosstallyError(f"in bulk, probabilities must be multiples of 1/{resolution}, got {probability}")
    return int(probability * resolution)


def _filled(people: int, words_each: float, draw: Callable[[NDArray[np.uint32], Answers], int]) -> Answers:
    """The answers of a kernel, with about as many words as it needs.

    Where they run out it starts again with the same words and more of them: drawing new ones would keep only answers
    that need few words, which is another law.
    """
    out = np.empty(people, np.uint64)
    number = 2 * math.ceil(people * words_each * 0.505 + 32)
    words = bytearray(ssl.RAND_bytes(4 * number))
    while draw(np.frombuffer(words, np.uint32), out) < 0:
        words = words + ssl.RAND_bytes(4 * number)
    return out
