"""Many people's reports at once, for simulations and for those who hold rows and want to forget them.

The probabilities are those of the protocol, exactly, as on a device. Random words come from OpenSSL's generator
(``ssl.RAND_bytes``), a deterministic generator keyed and rekeyed by the operating system's secure source.
"""

from __future__ import annotations

import ssl
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import CrosstallyError
from crosstally.local.collector import RECORD
from crosstally.local.oracles import Oracle
from crosstally.local.oracles.answers import Answers
from crosstally.local.protocol import Protocol, Tokens, groups_of_tokens

# People whose reports are drawn at once: limits memory, some random words for each. It changes no report's law.
_CHUNK = 2**14


def reports(protocol: Protocol, codes: ArrayLike, *, tokens: Tokens | None = None) -> NDArray[Any]:
    """A report for each person, as an array that ``Collector.add_many`` takes.

    Args:
        protocol: What is asked.
        codes: A row for each attribute of the schema, a column for each person: the cells' numbers.
        tokens: A token for each person, in their order, where the protocol has tokens; more than needed are left over.
    """
    given = _checked(protocol, codes)
    people = given.shape[1]
    out = np.empty(people, RECORD)
    out["version"] = protocol.document["version"]
    out["protocol"] = np.frombuffer(bytes.fromhex(protocol.id), "V8")[0]
    if protocol.tokens:
        out["id"] = _tokens(protocol, tokens, people)
        groups = groups_of_tokens(protocol, out["id"])
    else:
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


def _tokens(protocol: Protocol, tokens: Tokens | None, people: int) -> NDArray[Any]:
    if tokens is None or tokens.protocol != protocol.id or len(tokens) < people:
        held = 0 if tokens is None or tokens.protocol != protocol.id else len(tokens)
        raise CrosstallyError(f"this protocol needs a token of its own for each of {people:,} people, got {held:,}")
    return tokens.numbers[:people]


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
    parts = [oracle.draw(np.ascontiguousarray(given[:, i : i + _CHUNK])) for i in range(0, given.shape[1], _CHUNK)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)
