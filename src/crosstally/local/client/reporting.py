"""One report: charged, drawn, stored, sent again."""

from __future__ import annotations

import base64
import hmac
import math
import re
import struct
import threading
from collections.abc import Mapping, MutableMapping, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

from .draws import ANSWERS, SecureSource, draw
from .field_rules import AmountError, CapReachedError, ReportLostError, StoreError, TokenError, amount
from .protocol_checks import check_protocol, protocol_digest, protocol_id
from .row_codes import read_row, settled
from .store import FileStore

RECORD = struct.Struct("<B8s16sIQ")
TOKEN_BYTES = 16  # a token is the id of its report, so that records have one size, with tokens and without
_TOKEN = re.compile(f"[0-9a-f]{{{2 * TOKEN_BYTES}}}")
_GROUP_LABEL = b"crosstally group 2"  # nothing else is hashed with a token as the key
_SPENT_STEPS = 10**30  # amounts with more digits are rounded up, so that hostile fractions cannot outgrow the store
_CHARGED = "charged"  # what the store holds for a protocol between the charge and the report


def report(
    protocol: Mapping[str, Any],
    row: Mapping[str, Any],
    *,
    store: MutableMapping[str, str],
    cap: str | int | Fraction,
    token: str | None = None,
    source: Any = None,
) -> bytes:
    """The 37 bytes to send: those of the store if the protocol was answered before, else charged, drawn and stored.

    Whatever fails after the charge spends it: the report is lost, and the protocol is never answered by this device.
    To draw again would show which draws fail, and with them the row. A second token changes nothing: what was drawn for
    the first one is sent again.

    Args:
        protocol: The public protocol, as JSON. It is checked whole before anything else happens.
        row: The person's values by attribute. Values outside the schema are mapped, never refused.
        store: What the device keeps: a ``FileStore`` or any mapping of texts. It must outlive the process.
        cap: The most epsilon that this device may spend in its life, such as ``"4"``.
        token: The one-time token that the collector handed out, 32 hexadecimal digits, where the protocol has tokens.
        source: Where randomness comes from; the operating system when None.
    """
    checked = check_protocol(protocol)
    given_token = _checked_token(checked, token)
    limit = amount(cap)
    if limit is None:
        given = repr(cap[:40]) if isinstance(cap, str) else f"a {type(cap).__name__}"
        raise AmountError(f"cap must be a number of at least 0, such as 4 or 0.5, got {given}")
    name = protocol_id(checked)
    source = SecureSource() if source is None else source
    with store.lock() if isinstance(store, FileStore) else _THREADS:
        known = store.get(name.hex())
        if known is not None:
            return _stored_report(known, bytes([checked["version"]]) + name)
        _charge(store, name, Fraction(checked["epsilon"]), limit)
        codes = read_row(checked["schema"]["attributes"], row)
        group = _group(checked, given_token, source)
        answer = _answer(checked, group, codes, source)
        identity = source.identity() if given_token is None else given_token
        record = RECORD.pack(checked["version"], name, identity, group, answer)
        store.update({name.hex(): base64.b64encode(record).decode("ascii")})
    return record


_THREADS = threading.RLock()  # a plain mapping has no lock of its own


def _checked_token(protocol: Mapping[str, Any], token: object) -> bytes | None:
    """The bytes of a token; None where groups are drawn."""
    if protocol["tokens"] is None:
        if token is not None:
            raise TokenError("this protocol has no tokens: leave the token out")
        return None
    if not is_token(token):
        given = "none" if token is None else f"a {type(token).__name__} that is not one"
        raise TokenError(f"this protocol needs a token of {2 * TOKEN_BYTES} hexadecimal digits, got {given}")
    return bytes.fromhex(str(token))


def is_token(given: object) -> bool:
    """Whether this is a token as people get it: a text of 32 hexadecimal digits."""
    return isinstance(given, str) and _TOKEN.fullmatch(given) is not None


def _stored_report(text: object, start: bytes) -> bytes:
    """The report that the store holds for a protocol: the version, then the name of the protocol, then the rest."""
    name = start[1:]
    if text == _CHARGED:
        raise ReportLostError(
            f"protocol {name.hex()} was charged to this device and its report was lost; it is never drawn again"
        )
    try:
        record = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        record = b""
    if len(record) != RECORD.size or record[:9] != start:
        raise StoreError(f"the store is damaged: what it holds for protocol {name.hex()} is not a report")
    return record


def _charge(store: MutableMapping[str, str], name: bytes, epsilon: Fraction, cap: Fraction) -> None:
    """Store, at once, that a protocol is being answered and what all answers together cost."""
    before = amount(store.get("spent", "0"))
    if before is None:
        raise StoreError("the store is damaged: what it says was spent is not a number of at least 0")
    spent = before + epsilon
    if spent.denominator > _SPENT_STEPS:
        spent = Fraction(math.ceil(spent * _SPENT_STEPS), _SPENT_STEPS)
    if spent > cap:
        raise CapReachedError(f"a fresh report would spend {spent} of at most {cap} in this device's life")
    store.update({name.hex(): _CHARGED, "spent": str(spent)})


def _group(protocol: Mapping[str, Any], token: bytes | None, source: Any) -> int:
    """The number of a group, each as likely as its share of all shares, whatever the row."""
    groups = protocol["groups"]
    shares = sum(group["share"] for group in groups)
    place = source.below(shares) if token is None else place_of_token(protocol_digest(protocol), token, shares)
    number = -1
    while place >= 0:
        number += 1
        place -= groups[number]["share"]
    return number


def group_of_token(protocol: Mapping[str, Any], token: bytes) -> int:
    """The group that a token gives; the device and the collector both work it out."""
    return _group(protocol, token, None)


def place_of_token(digest: bytes, token: bytes, shares: int) -> int:
    """A whole number below the sum of all shares that token and protocol determine, each equally likely.

    The token is the key of the hash. Whoever does not hold it cannot tell its group, and whoever holds it cannot
    change its group: a liar would need another token. The collector, who made it, knows the group beforehand; that
    costs the device nothing, since what it may tell is at most epsilon in every group.
    """
    limit = ANSWERS - ANSWERS % shares  # beyond it some places would be more likely than others
    for attempt in count():
        message = _GROUP_LABEL + digest + attempt.to_bytes(4, "little")
        word = int.from_bytes(hmac.digest(token, message, "sha256")[:8], "little")
        if word < limit:
            break
    return word % shares


def _answer(protocol: Mapping[str, Any], number: int, codes: Sequence[int | None], source: Any) -> int:
    """The perturbed answer to what a group is asked."""
    attributes, group = protocol["schema"]["attributes"], protocol["groups"][number]
    asked = [settled(attributes[axis], codes[axis], source) for axis in group["attributes"]]
    return draw(protocol["oracles"][group["oracle"]], asked, source)
