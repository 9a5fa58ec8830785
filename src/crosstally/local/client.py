"""A person's own device: one row to one report, with the Python standard library and nothing else.

This file may be copied to a device as it is. It checks the public protocol, which may come from anyone, charges what
a report costs to the device's store, turns the row into codes, draws a group (or works it out from the one-time token
that the collector handed out), and draws the report for it with the probabilities that the protocol states as
fractions. Randomness comes from the operating system's secure source, and every draw is exact: there are no floating
point numbers in it.

What leaves the device is 37 bytes (docs/reference/local-wire-format.md). Group, report and id are drawn once for each
protocol, stored before anything is sent, and sent again byte for byte whatever the row becomes. That a call fails must
not tell more than a report does, so the order is fixed: check the whole protocol, charge, look at the row, draw, store.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import math
import os
import re
import secrets
import struct
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # not on every system; the store then locks by a file that only one process can create
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "AmountError",
    "CapReachedError",
    "ClientError",
    "FileStore",
    "ProtocolError",
    "ReportLostError",
    "SecureSource",
    "StoreError",
    "TokenError",
    "check_protocol",
    "draw",
    "encode_row",
    "group_of_token",
    "protocol_digest",
    "protocol_id",
    "report",
]

DRAWN, BY_TOKEN = 1, 2  # versions of protocols and reports: the device draws its group, or its token gives it
TOKEN_BYTES = 16  # a token is the id of its report, so that both versions have records of one size
GROUP_HASH = "hmac-sha256"  # how a token gives a group, by its name in protocols
_GROUP_LABEL = b"crosstally group 2"  # nothing else is hashed with a token as the key
RECORD = struct.Struct("<B8s16sIQ")
_TOKEN = re.compile(f"[0-9a-f]{{{2 * TOKEN_BYTES}}}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")

_ANSWERS = 2**64  # a report holds an answer as an unsigned number of 64 bits
_MASK_CELLS = 64  # so a mask of cells has at most so many
_MOST_ATTRIBUTES, _MOST_CELLS, _LARGEST_EDGE = 512, 100_000, 1e300  # those of a schema (crosstally.schema)
_MOST_GROUPS = 2**18  # a design makes at most 50,000 for each number of attributes
_MOST = 10**12  # people, and what counts them
_MOST_BUCKETS = 2**16  # a design takes primes up to 61; up to here trial division is quick
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 1000), Fraction(16)  # those of a design (crosstally.local.oracles.odds)
_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+|/0*[1-9][0-9]*)?")  # no exponents: 1e999999 would fill the memory
LONGEST_AMOUNT = 200  # characters; a double written out has at most 65 where epsilon may be
_SPENT_STEPS = 10**30  # amounts with more digits are rounded up, so that hostile fractions cannot outgrow the store
_LONGEST_NUMBER = 5_000  # digits of a value that are written out: Decimal("1e999999999") would fill the memory
_LOCK_SECONDS = 30  # how long to wait for a lock that a file stands for, where there is no fcntl
_CHARGED = "charged"  # what the store holds for a protocol between the charge and the report


class ClientError(Exception):
    """What a device refuses; every refusal derives from it."""


class AmountError(ClientError):
    """The cap is not a number."""


class CapReachedError(ClientError):
    """A fresh report would pass the device's lifetime cap."""


class ProtocolError(ClientError):
    """The protocol is not one of version 1 or 2, or does not keep the epsilon that it states."""


class ReportLostError(ClientError):
    """The protocol was charged, and its report was lost before it was stored."""


class StoreError(ClientError):
    """The device's store cannot be read or locked."""


class TokenError(ClientError):
    """The protocol needs a one-time token and none was given, or the other way round, or it is not a token."""


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
    return protocol_digest(protocol)[:8]


def protocol_digest(protocol: Mapping[str, Any]) -> bytes:
    """The SHA-256 of a protocol's JSON without blanks, keys sorted."""
    return hashlib.sha256(_written(protocol)).digest()


def _written(protocol: object) -> bytes:
    text = json.dumps(protocol, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


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
    limit = _amount(cap)
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
    if protocol["version"] == DRAWN:
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
    before = _amount(store.get("spent", "0"))
    if before is None:
        raise StoreError("the store is damaged: what it says was spent is not a number of at least 0")
    spent = before + epsilon
    if spent.denominator > _SPENT_STEPS:
        spent = Fraction(math.ceil(spent * _SPENT_STEPS), _SPENT_STEPS)
    if spent > cap:
        raise CapReachedError(f"a fresh report would spend {spent} of at most {cap} in this device's life")
    store.update({name.hex(): _CHARGED, "spent": str(spent)})


def _amount(given: object) -> Fraction | None:
    """The number that is given, as text or exactly; None unless it is one of at least 0."""
    if isinstance(given, str) and len(given) <= LONGEST_AMOUNT and _AMOUNT.fullmatch(given):
        return Fraction(given)
    if isinstance(given, int | Fraction) and not isinstance(given, bool) and given >= 0:
        return Fraction(given)
    return None


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
    limit = _ANSWERS - _ANSWERS % shares  # beyond it some places would be more likely than others
    for attempt in count():
        message = _GROUP_LABEL + digest + attempt.to_bytes(4, "little")
        word = int.from_bytes(hmac.digest(token, message, "sha256")[:8], "little")
        if word < limit:
            break
    return word % shares


def _answer(protocol: Mapping[str, Any], number: int, codes: Sequence[int | None], source: Any) -> int:
    """The perturbed answer to what a group is asked."""
    attributes, group = protocol["schema"]["attributes"], protocol["groups"][number]
    asked = [_settled(attributes[axis], codes[axis], source) for axis in group["attributes"]]
    return draw(protocol["oracles"][group["oracle"]], asked, source)


class FileStore(MutableMapping[str, str]):
    """A JSON file of texts that is written whole, and flushed, before an entry counts as stored.

    Processes and threads that share the file take turns, by a lock on a file beside it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))  # so that a link and its target have one lock
        self._threads = threading.RLock()
        self._held = False
        self._texts = self._read()

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
        with self.lock():
            merged = {**self._texts, **texts}
            if not all(isinstance(text, str) for text in merged.values()):
                raise StoreError("a store must hold texts only")
            self._write(json.dumps(merged))
            self._texts = merged

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others away from the file, and know what they have stored in it before."""
        with self._threads:
            if self._held:
                yield
                return
            with _file_lock(self.path.with_name(self.path.name + ".lock")):
                texts = self._read()
                if self._texts.keys() - texts.keys():
                    raise StoreError(f"{self.path}: the store has lost entries; nothing is drawn without them")
                self._texts, self._held = texts, True
                try:
                    yield
                finally:
                    self._held = False

    def _read(self) -> dict[str, str]:
        try:
            texts = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            texts = None
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise StoreError(f"{self.path}: the store is damaged; nothing is drawn without it")
        return texts

    def _write(self, text: str) -> None:
        """Replace the file by a new one, under a name that nobody else can take meanwhile."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name + ".", suffix=".new")
        beside = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be flushed
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; the system frees it with the process, where there is fcntl."""
    if fcntl is not None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
        return
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise StoreError(f"the store is in use; if no other process uses it, remove {path}") from None
            time.sleep(0.01)
    try:
        yield
    finally:
        path.unlink()


# The protocol: nothing in it is believed


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
    by_token = isinstance(copy, dict) and copy.get("version") == BY_TOKEN
    _fields(copy, "the protocol", _PROTOCOL_FIELDS | {"tokens"} if by_token else _PROTOCOL_FIELDS)
    _whole(copy["version"], "version", DRAWN, BY_TOKEN)
    _need(not by_token or copy["tokens"] == GROUP_HASH, f"tokens must be {GROUP_HASH}")
    for field in ("people", "ways", "minimum"):
        _whole(copy[field], field, 1, _MOST)
    _need(isinstance(copy["method"], str), "method must be a text")
    epsilon = _fraction(copy["epsilon"], "epsilon")
    _need(_LEAST_EPSILON <= epsilon <= _MOST_EPSILON, "epsilon must be from 0.001 to 16")
    odds = _odds_below(epsilon)
    _fields(copy["schema"], "schema", {"attributes"})
    attributes = _list(copy["schema"]["attributes"], "schema.attributes", 1, _MOST_ATTRIBUTES)
    sizes = [_checked_size(each, f"schema.attributes[{i}]") for i, each in enumerate(attributes)]
    _need(len({each["name"] for each in attributes}) == len(attributes), "names of attributes must differ")
    for i, oracle in enumerate(_list(copy["oracles"], "oracles", 1, _MOST_GROUPS)):
        _check_oracle(oracle, f"oracles[{i}]")
        rule = f"the protocol must keep epsilon = {copy['epsilon']}, its {oracle['kind']} does not"
        _need(1 <= worst_ratio(oracle) <= odds, rule)
    for i, group in enumerate(_list(copy["groups"], "groups", 1, _MOST_GROUPS)):
        _check_group(group, f"groups[{i}]", sizes, copy["oracles"])
    return copy  # type: ignore[no-any-return]


_PROTOCOL_FIELDS = {"version", "epsilon", "people", "ways", "method", "minimum", "schema", "oracles", "groups"}


def _need(truth: bool, rule: str) -> None:
    if not truth:
        raise ProtocolError(rule)


def _fields(given: object, where: str, names: set[str], optional: frozenset[str] = frozenset()) -> None:
    fits = isinstance(given, dict) and names <= given.keys() <= names | optional
    _need(fits, f"{where} must have exactly the fields {', '.join(sorted(names))}")


def _list(given: object, where: str, least: int, most: int) -> list[Any]:
    fits = isinstance(given, list) and least <= len(given) <= most
    _need(fits, f"{where} must be a list of {least} to {most} entries")
    return given  # type: ignore[return-value]


def _whole(given: object, where: str, least: int, most: int) -> int:
    fits = type(given) is int and least <= given <= most  # neither true nor 2.0 is a whole number here
    _need(fits, f"{where} must be a whole number from {least} to {most}, got {given!r:.40}")
    return given  # type: ignore[return-value]


def _fraction(given: object, where: str) -> Fraction:
    found = _amount(given) if isinstance(given, str) else None
    if found is None:
        raise ProtocolError(f"{where} must be a number in at most {LONGEST_AMOUNT} characters, got {given!r:.40}")
    return found


def _odds_below(epsilon: Fraction) -> Fraction:
    """A fraction just below e^epsilon; the host's own settings of the decimal module do not matter."""
    with localcontext(Context(prec=60, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=[])):
        return Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp().next_minus())


def _checked_size(attribute: Any, where: str) -> int:
    """How many cells an attribute has."""
    labels = "edges" if isinstance(attribute, dict) and "edges" in attribute else "values"
    _fields(attribute, where, {"name", labels}, frozenset(("missing", "outside")))
    name, least = attribute["name"], 2 if labels == "edges" else 1  # one edge bounds no bin
    listed = _list(attribute[labels], f"{where}.{labels}", least, _MOST_CELLS + 1)
    _need(isinstance(name, str) and name != "", f"{where}.name must be a text that is not empty")
    _need(type(attribute.get("missing", False)) is bool, f"{where}.missing must be true or false")
    _need(attribute.get("outside", "refuse") in ("refuse", "other"), f"{where}.outside must be refuse or other")
    if labels == "values":
        _need(all(isinstance(value, str) for value in listed), f"{where}.values must be texts")
    else:
        finite = all(type(edge) in (int, float) and -_LARGEST_EDGE < edge < _LARGEST_EDGE for edge in listed)
        _need(finite and all(a < b for a, b in pairwise(listed)), f"{where}.edges must be numbers that increase")
    return _whole(_size(attribute), f"the number of cells of {where}", 2, _MOST_CELLS)


def _check_group(group: Any, where: str, sizes: Sequence[int], oracles: Sequence[Mapping[str, Any]]) -> None:
    _fields(group, where, {"attributes", "oracle", "share"})
    places = _list(group["attributes"], f"{where}.attributes", 1, len(sizes))
    for place in places:
        _whole(place, f"{where}.attributes", 0, len(sizes) - 1)
    _need(all(a < b for a, b in pairwise(places)), f"{where}.attributes must increase")
    _whole(group["share"], f"{where}.share", 1, _MOST)
    known = oracles[_whole(group["oracle"], f"{where}.oracle", 0, len(oracles) - 1)]["sizes"]
    _need(known == [sizes[place] for place in places], f"{where} must ask about the cells that its attributes have")


def _check_oracle(oracle: Any, where: str) -> None:
    name: Any = oracle.get("kind") if isinstance(oracle, dict) else None
    _need(isinstance(name, str) and name in _KINDS, f"{where}.kind must be one of {', '.join(_KINDS)}")
    kind = _KINDS[name]
    _fields(oracle, where, {"kind", "sizes", *kind.fields})
    for size in _list(oracle["sizes"], f"{where}.sizes", 1, _MOST_ATTRIBUTES):
        _whole(size, f"{where}.sizes", 2, _MOST_CELLS)
    _whole(_cells(oracle), f"the number of cells of {where}", 2, kind.most_cells)
    for field in oracle.keys() & {"keep", "own", "other"}:
        _fraction(oracle[field], f"{where}.{field}")
    _need(kind.answers(oracle, where) <= _ANSWERS, f"the answers of {where} must fit into 64 bits")


def _cells(oracle: Mapping[str, Any]) -> int:
    return math.prod(oracle["sizes"])


# The oracles: a code to a perturbed answer, a whole number below 2^64. Each kind has its entry in _KINDS, at the end


class _Kind(NamedTuple):
    """What a device must know of a kind of oracle."""

    fields: tuple[str, ...]  # beside its sizes
    draw: Callable[[Mapping[str, Any], Sequence[int], Any], int]
    ratio: Callable[[Mapping[str, Any]], Fraction]  # see worst_ratio
    answers: Callable[[Mapping[str, Any], str], int]  # how many there are; checks the fields that are not probabilities
    most_cells: int = _ANSWERS


def draw(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """The perturbed answer of an oracle to a row's codes."""
    return _KINDS[oracle["kind"]].draw(oracle, codes, source)


def worst_ratio(oracle: Mapping[str, Any]) -> Fraction:
    """The largest ratio between the probabilities of one answer for two rows; below 1 where it makes no sense."""
    return _KINDS[oracle["kind"]].ratio(oracle)


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


def _kept_ratio(keep: str, members: int, values: int) -> Fraction:
    """The ratio of an answer that holds the own value to one that does not: each holds so many of all values."""
    kept = Fraction(keep)
    if not (0 < kept < 1 and 0 < members < values):
        return Fraction(0)
    return kept * (values - members) / ((1 - kept) * members)


def _randomised_response(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    return _kept(_cell(oracle, codes), _cells(oracle), oracle["keep"], source)


def _unary_encoding(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    cell, own, other = _cell(oracle, codes), Fraction(oracle["own"]), Fraction(oracle["other"])
    return sum(source.chance(own if v == cell else other) << v for v in range(_cells(oracle)))


def _unary_ratio(oracle: Mapping[str, Any]) -> Fraction:
    own, other = Fraction(oracle["own"]), Fraction(oracle["other"])
    return own * (1 - other) / (other * (1 - own)) if 0 < other <= own < 1 else Fraction(0)


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


def _hashing_answers(oracle: Mapping[str, Any], where: str) -> int:
    buckets = _whole(oracle["buckets"], f"{where}.buckets", 2, _MOST_BUCKETS)
    _need(all(buckets % d for d in range(2, math.isqrt(buckets) + 1)), f"{where}.buckets must be a prime")
    digits = _whole(oracle["digits"], f"{where}.digits", 1, 64)
    _need(buckets**digits >= _cells(oracle), f"{where}.digits must tell all cells apart")
    return int(buckets ** (digits + 1))


def _subset_selection(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A set of cells of fixed size, its own cell among them with a probability, all others equally likely."""
    cell, cells = _cell(oracle, codes), _cells(oracle)
    inside = source.chance(Fraction(oracle["keep"]))
    chosen, wanted, left = int(inside) << cell, oracle["members"] - inside, cells - 1
    for other in range(cells):
        if other != cell:
            taken = wanted > 0 and source.chance(Fraction(wanted, left))
            chosen, wanted, left = chosen | taken << other, wanted - taken, left - 1
    return chosen


def _subset_answers(oracle: Mapping[str, Any], where: str) -> int:
    _whole(oracle["members"], f"{where}.members", 1, _cells(oracle) - 1)
    return _masks(oracle, where)


def _hadamard_response(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A row of Hadamard's matrix that is not all ones, and the perturbed sign it has at the cell."""
    function = 1 + source.below(oracle["order"] - 1)
    sign = (function & _cell(oracle, codes)).bit_count() & 1
    return int(function * 2 + (sign if source.chance(Fraction(oracle["keep"])) else 1 - sign))


def _hadamard_answers(oracle: Mapping[str, Any], where: str) -> int:
    order = _order(_cells(oracle))
    return 2 * _whole(oracle["order"], f"{where}.order", order, order)


def _order(cells: int) -> int:
    """The order of Hadamard's matrix: the least power of two that is not below the number of cells."""
    return 1 << (cells - 1).bit_length()


def _residual_bit(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """For each attribute such a row of its own matrix; the perturbed product of the signs."""
    place = sign = 0
    for code, order in zip(codes, oracle["orders"], strict=True):
        function = source.below(order - 1) if order > 2 else 0
        place = place * (order - 1) + function
        sign ^= ((function + 1) & code).bit_count() & 1
    return place * 2 + (sign if source.chance(Fraction(oracle["keep"])) else 1 - sign)


def _residual_answers(oracle: Mapping[str, Any], where: str) -> int:
    sizes = oracle["sizes"]
    orders = _list(oracle["orders"], f"{where}.orders", len(sizes), len(sizes))
    for order, size in zip(orders, sizes, strict=True):
        _whole(order, f"{where}.orders", _order(size), _order(size))
    return int(2 * math.prod(order - 1 for order in orders))


def _each_attribute(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """Every attribute by randomised response with its share of epsilon, the last attribute fastest."""
    place = 0
    for code, size, keep in zip(codes, oracle["sizes"], oracle["keeps"], strict=True):
        place = place * int(size) + _kept(code, size, keep, source)
    return place


def _each_ratio(oracle: Mapping[str, Any]) -> Fraction:
    ratios = [_kept_ratio(keep, 1, size) for keep, size in zip(oracle["keeps"], oracle["sizes"], strict=True)]
    return math.prod(ratios, start=Fraction(1)) if min(ratios) >= 1 else Fraction(0)


def _each_answers(oracle: Mapping[str, Any], where: str) -> int:
    for keep in _list(oracle["keeps"], f"{where}.keeps", len(oracle["sizes"]), len(oracle["sizes"])):
        _fraction(keep, f"{where}.keeps")
    return _cells(oracle)


def _rows(oracle: Mapping[str, Any], where: str) -> int:  # noqa: ARG001 (there is nothing to check)
    return _cells(oracle)


def _masks(oracle: Mapping[str, Any], where: str) -> int:  # noqa: ARG001 (there is nothing to check)
    return int(1 << _cells(oracle))


def _sign_ratio(oracle: Mapping[str, Any]) -> Fraction:
    return _kept_ratio(oracle["keep"], 1, 2)


_KINDS = {
    "randomised-response": _Kind(
        ("keep",), _randomised_response, lambda oracle: _kept_ratio(oracle["keep"], 1, _cells(oracle)), _rows
    ),
    "unary-encoding": _Kind(("own", "other"), _unary_encoding, _unary_ratio, _masks, _MASK_CELLS),
    "local-hashing": _Kind(
        ("buckets", "digits", "keep"),
        _local_hashing,
        lambda oracle: _kept_ratio(oracle["keep"], 1, oracle["buckets"]),
        _hashing_answers,
    ),
    "subset-selection": _Kind(
        ("members", "keep"),
        _subset_selection,
        lambda oracle: _kept_ratio(oracle["keep"], oracle["members"], _cells(oracle)),
        _subset_answers,
        _MASK_CELLS,
    ),
    "hadamard-response": _Kind(("order", "keep"), _hadamard_response, _sign_ratio, _hadamard_answers),
    "residual-bit": _Kind(("orders", "keep"), _residual_bit, _sign_ratio, _residual_answers),
    "each-attribute": _Kind(("keeps",), _each_attribute, _each_ratio, _each_answers),
}


# A row to codes


def encode_row(attributes: Sequence[Mapping[str, Any]], row: Mapping[str, Any], source: Any) -> list[int]:
    """The code of each attribute's cell: values or bins, then ``(other)``, then ``(missing)``.

    A number beyond all edges belongs to the nearest bin where there is no cell for others. What has no cell at all
    belongs to a cell drawn at random, each equally likely. What cannot be read belongs to others, else to the missing.
    """
    codes = read_row(attributes, row)
    return [_settled(attribute, code, source) for attribute, code in zip(attributes, codes, strict=True)]


def read_row(attributes: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> list[int | None]:
    """The code of each attribute's cell, or None where one must be drawn; whatever the row is, this never fails."""
    return [_code(attribute, row) for attribute in attributes]


def _settled(attribute: Mapping[str, Any], code: int | None, source: Any) -> int:
    return int(source.below(_size(attribute))) if code is None else code


def _code(attribute: Mapping[str, Any], row: Mapping[str, Any]) -> int | None:
    labels, (has_other, has_missing) = _labels(attribute), _cells_beside(attribute)
    other, missing = labels if has_other else None, labels + has_other if has_missing else None
    try:
        value: Any = row.get(attribute["name"])
        if value is None or value == "" or value != value:  # noqa: PLR0124 - only NaN differs from itself
            return other if missing is None else missing
        edges = attribute.get("edges")
        found = _bin(edges, value, clamp=not has_other) if edges else _label(attribute["values"], value)
    except BaseException:  # noqa: BLE001 - whatever a value raises, even an exit, would tell of the value
        return missing if other is None else other
    return other if found is None else found


def _labels(attribute: Mapping[str, Any]) -> int:
    """How many cells an attribute has for its values or bins."""
    edges = attribute.get("edges")
    return len(edges) - 1 if edges else len(attribute["values"])


def _cells_beside(attribute: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether an attribute has a cell for others, and one for missing values."""
    return attribute.get("outside") == "other", bool(attribute.get("missing"))


def _size(attribute: Mapping[str, Any]) -> int:
    return _labels(attribute) + sum(_cells_beside(attribute))


def _label(values: Sequence[object], value: object) -> int | None:
    text = _text(value)
    return next((code for code, label in enumerate(values) if _text(label) == text), None)


def _text(value: object) -> str:
    """The text by which values are matched: 1, 1.0 and "1" alike; true is not 1."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    if isinstance(value, float | Decimal) or _NUMBER.fullmatch(text):
        number = Decimal(text)
        if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
            return text.lower()
        text = format(number, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text
    return text.lower() if text in ("True", "False") else unicodedata.normalize("NFC", text)


def _bin(edges: Sequence[float], value: object, *, clamp: bool) -> int | None:
    try:
        if isinstance(value, int | Decimal):
            number = Decimal(value)
        else:
            number = Decimal(float.__repr__(value) if isinstance(value, float) else str(value).strip(" "))
    except InvalidOperation:
        return None
    if isinstance(value, bool) or not number.is_finite():
        return None
    limits = [Decimal(repr(edge)) for edge in edges]
    if not clamp and not limits[0] <= number <= limits[-1]:
        return None
    above = sum(number >= limit for limit in limits)
    return min(max(above - 1, 0), len(limits) - 2)
