"""The collector: validates reports, counts each id once, and turns the counts into a release.

Counts are integers that add up across collectors. Every report is either counted or refused for a stated reason
(``Received``).

The ids of counted reports are kept in sorted runs, each more than twice as long as the next. New ids become a new run;
runs that violate this are merged. So n ids have at most log2(n) runs, each id is merged at most log2(n) times, and a
batch costs about the same however many ids are held. A single sorted array would be sorted again for every batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget, Neighbours
from crosstally.errors import CrosstallyError
from crosstally.inference.estimates import estimate
from crosstally.json_text import JsonError, read_json
from crosstally.local.estimate.expectation import MOST_ATTRIBUTES, expected_measurements
from crosstally.local.estimate.pair_shrinkage import Shrunk, shrunk_measurements
from crosstally.local.estimate.report_counts import measurements_of
from crosstally.local.influence import GroupSizes, max_shift
from crosstally.local.oracles.answers import ReportTally
from crosstally.local.planning.methods import SHRUNK
from crosstally.local.protocol import Protocol, Tokens, groups_of_tokens
from crosstally.measurements import Measurement
from crosstally.platform_files import write_bytes
from crosstally.releases import Release, Statement, publish
from crosstally.residuals import Estimate, combine


class Reason(StrEnum):
    """The outcome of a report."""

    ACCEPTED = "accepted"
    WRONG_SIZE = "a report must have 37 bytes"
    WRONG_VERSION = "a report must have the version of its protocol"
    OTHER_PROTOCOL = "the report belongs to another protocol"
    UNKNOWN_GROUP = "the report names a group that the protocol does not have"
    IMPOSSIBLE_ANSWER = "the report holds an answer that its group cannot give"
    DUPLICATE = "a report with this id was counted already"
    NOT_HANDED_OUT = "the report holds a token that was not handed out"
    OTHER_GROUP = "the report names another group than its token gives"

    @property
    def code(self) -> int:
        """Its index among all reasons: its code in arrays."""
        return _CODES[self]


_REASONS = tuple(Reason)
_CODES = {reason: code for code, reason in enumerate(_REASONS)}


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """The outcomes of many reports: codes of ``Reason``, in the order given."""

    codes: NDArray[np.uint8]

    @property
    def accepted(self) -> int:
        """How many were counted."""
        return int((self.codes == Reason.ACCEPTED.code).sum())

    def reasons(self) -> list[Reason]:
        """The outcome of each one."""
        return [_REASONS[code] for code in self.codes.tolist()]

    def numbers(self) -> dict[Reason, int]:
        """The number of reports with each outcome."""
        totals = np.bincount(self.codes, minlength=len(_REASONS)).tolist()
        return {reason: number for reason, number in zip(_REASONS, totals, strict=True) if number}


class ReportIds:
    """A set of ids that only grows."""

    def __init__(self, ids: NDArray[Any]) -> None:
        self._runs = [np.sort(ids)]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def holds(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """For each of these ids whether it is in the set."""
        is_held = np.zeros(len(ids), np.bool_)
        for run in self._runs:
            if len(run):
                places = np.minimum(np.searchsorted(run, ids), len(run) - 1)
                is_held |= run[places] == ids
        return is_held

    def add(self, ids: NDArray[Any]) -> None:
        """Add ids, each once, none of them in the set."""
        self._runs.append(np.sort(ids))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(_merged(before, last))

    def sorted(self) -> NDArray[Any]:
        """All of them, sorted."""
        while len(self._runs) > 1:
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(_merged(before, last))
        return self._runs[0]


def _merged(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Two sorted runs as one."""
    out = np.empty(len(one) + len(other), one.dtype)
    places = np.searchsorted(one, other) + np.arange(len(other))
    rest = np.ones(len(out), np.bool_)
    rest[places] = False
    out[places], out[rest] = other, one
    return out


# The collector


RECORD = np.dtype(
    [("version", "u1"), ("protocol", "V8"), ("id", "V16"), ("group", "<u4"), ("payload", "<u8")], align=False
)
_MAGIC = b"crosstally-collector-1\n"
_FLUSH = 50_000  # buffered reports that are counted together: limits memory. Counts do not depend on it
_MOST_SLOTS = 2**25  # a protocol of a kilobyte may ask for 2^40; 256 MB of counts
_SHRINK: Mapping[str, Callable[[Estimate, Sequence[Measurement]], Shrunk]] = {
    "expected": expected_measurements,
    "independence": shrunk_measurements,
    "none": lambda _, measured: Shrunk(tuple(measured), {}),
}


class Collector:
    """Counts the reports of one protocol. Collectors can be merged; the order does not matter.

    A device sends the same bytes again if it is not sure that they arrived, so each id counts once. If several
    collectors share the work, reports are routed by id, so that a repeated report reaches the same collector. With
    tokens, the token is the id: only an issued token counts, once, and in the group that it gives.
    """

    def __init__(self, protocol: Protocol, *, tokens: Tokens | None = None) -> None:
        self.protocol = protocol
        self._tokens = _checked_tokens(protocol, tokens)
        self._issued = None if self._tokens is None else ReportIds(self._tokens.numbers)
        spaces = [group.oracle.answers for group in protocol.groups]
        if (slots := sum(space.slots for space in spaces)) > _MOST_SLOTS:
            raise CrosstallyError(f"a collector counts at most {_MOST_SLOTS:,} different answers, got {slots:,}")
        self._tally = ReportTally.of(spaces)
        self._counts = np.zeros(self._tally.slots, np.int64)
        self._people = np.zeros(len(protocol.groups), np.int64)
        self._ids = ReportIds(np.empty(0, RECORD["id"]))
        self._name = bytes.fromhex(protocol.id)
        self._pending: list[bytes] = []
        self._recent: set[bytes] = set()

    def __repr__(self) -> str:
        return f"Collector({self.protocol!r}, {self.reports:,} reports)"

    @property
    def reports(self) -> int:
        """How many reports were counted."""
        self._flush()
        return int(self._people.sum())

    # Reports in

    def add(self, report: bytes) -> Reason:
        """Count one report and return its outcome."""
        if len(report) != RECORD.itemsize:
            return Reason.WRONG_SIZE
        (reason,) = Received(self._codes(np.frombuffer(report, RECORD))).reasons()
        if reason is Reason.ACCEPTED:
            identity = report[9:25]
            if identity in self._recent or self._ids.holds(np.frombuffer(identity, RECORD["id"]))[0]:
                return Reason.DUPLICATE
            self._recent.add(identity)
            self._pending.append(report)
            if len(self._pending) >= _FLUSH:
                self._flush()
        return reason

    def add_many(self, reports: bytes | NDArray[Any] | Iterable[bytes]) -> Received:
        """Count many reports: one after the other in one piece of bytes, as an array of ``RECORD``, or a list."""
        self._flush()
        if isinstance(reports, np.ndarray):
            if reports.dtype != RECORD:
                raise CrosstallyError(f"an array of reports must have the type {RECORD}, got {reports.dtype}")
            return Received(self._count(reports))
        if isinstance(reports, bytes | bytearray | memoryview):
            whole = len(reports) // RECORD.itemsize * RECORD.itemsize
            codes = self._count(np.frombuffer(reports[:whole], RECORD))
            return Received(np.append(codes, np.uint8(Reason.WRONG_SIZE.code)) if whole < len(reports) else codes)
        return self._add_list(list(reports))

    def _add_list(self, reports: Sequence[bytes]) -> Received:
        right = np.array([len(report) == RECORD.itemsize for report in reports], np.bool_)
        codes = np.full(len(reports), Reason.WRONG_SIZE.code, np.uint8)
        joined = b"".join(report for report, fits in zip(reports, right.tolist(), strict=True) if fits)
        codes[right] = self._count(np.frombuffer(joined, RECORD))
        return Received(codes)

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = b"".join(self._pending), []
            self._recent = set()
            self._count(np.frombuffer(pending, RECORD))

    def _codes(self, records: NDArray[Any]) -> NDArray[np.uint8]:
        """For each record whether it is well formed, before ids are checked."""
        codes = np.full(len(records), Reason.ACCEPTED.code, np.uint8)
        groups = records["group"]
        known = groups < len(self._people)
        impossible = self._tally.impossible(np.where(known, groups, 0), records["payload"])
        codes[impossible] = Reason.IMPOSSIBLE_ANSWER.code
        codes[~known] = Reason.UNKNOWN_GROUP.code
        codes[records["protocol"] != np.frombuffer(self._name, "V8")[0]] = Reason.OTHER_PROTOCOL.code
        codes[records["version"] != self.protocol.document["version"]] = Reason.WRONG_VERSION.code
        if self._issued is not None:
            self._check_tokens(records, codes)
        return codes

    def _check_tokens(self, records: NDArray[Any], codes: NDArray[np.uint8]) -> None:
        """Refuse well-formed reports without an issued token or with the wrong group."""
        assert self._issued is not None
        good = np.flatnonzero(codes == Reason.ACCEPTED.code)
        tokens = np.ascontiguousarray(records["id"][good])
        known = self._issued.holds(tokens)
        codes[good[~known]] = Reason.NOT_HANDED_OUT.code
        given = groups_of_tokens(self.protocol, tokens[known])
        codes[good[known][given != records["group"][good[known]]]] = Reason.OTHER_GROUP.code

    def _count(self, records: NDArray[Any]) -> NDArray[np.uint8]:
        codes = self._codes(records)
        good = np.flatnonzero(codes == Reason.ACCEPTED.code)
        ids = np.ascontiguousarray(records["id"][good])
        first = np.zeros(len(good), np.bool_)
        first[np.unique(ids, return_index=True)[1]] = True
        first &= ~self._ids.holds(ids)
        codes[good[~first]] = Reason.DUPLICATE.code
        fresh = records[good[first]]
        self._ids.add(ids[first])
        self._people += np.bincount(fresh["group"], minlength=len(self._people))
        self._counts += self._tally.counts(fresh["group"].astype(np.int64), fresh["payload"])
        return codes

    # Collectors together

    def merged(self, other: Collector) -> Collector:
        """A collector with the reports of both; none may be in both."""
        if other.protocol.id != self.protocol.id:
            raise CrosstallyError("only collectors of the same protocol can be merged")
        self._flush()
        other._flush()
        both = None if self._tokens is None or other._tokens is None else self._tokens.joined(other._tokens)
        out = Collector(self.protocol, tokens=both)
        if self._ids.holds(other._ids.sorted()).any():
            raise CrosstallyError("collectors hold reports with the same id: send each id to one collector only")
        out._ids = ReportIds(np.concatenate([self._ids.sorted(), other._ids.sorted()]))
        out._counts, out._people = self._counts + other._counts, self._people + other._people
        return out

    def save(self, path: str | Path) -> None:
        """Write the state to a file atomically. It contains ids and counts, and no rows."""
        self._flush()
        head = json.dumps({"protocol": self.protocol.id, "reports": len(self._ids)}).encode() + b"\n"
        arrays = (self._people.astype("<i8"), self._counts.astype("<i8"), self._ids.sorted())
        body = _MAGIC + head + b"".join(array.tobytes() for array in arrays)
        write_bytes(path, body + hashlib.sha256(body).digest())

    @classmethod
    def load(cls, path: str | Path, protocol: Protocol, *, tokens: Tokens | None = None) -> Collector:
        """A collector from its file; a truncated or changed file is refused. Tokens are in a separate file."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise CrosstallyError(f"cannot read the collector {str(path)!r}: {error.strerror}") from None
        out = cls(protocol, tokens=tokens)
        body, digest = data[:-32], data[-32:]
        if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
            raise CrosstallyError(f"{str(path)!r} is no state of a collector, or it is cut short or was changed")
        head, _, rest = body[len(_MAGIC) :].partition(b"\n")
        if _protocol_of(head) != protocol.id:
            raise CrosstallyError(f"{str(path)!r} is the state of another protocol")
        cut = [8 * len(out._people), 8 * (len(out._people) + len(out._counts))]
        if len(rest) < cut[1] or (len(rest) - cut[1]) % RECORD["id"].itemsize:
            raise CrosstallyError(f"{str(path)!r} does not have the size of a state of this protocol")
        out._people = np.frombuffer(rest[: cut[0]], "<i8").astype(np.int64)
        out._counts = np.frombuffer(rest[cut[0] : cut[1]], "<i8").astype(np.int64)
        out._ids = ReportIds(np.frombuffer(rest[cut[1] :], RECORD["id"]))
        out._check(str(path))
        return out

    def _check(self, path: str) -> None:
        """Raise unless this is a valid state of a collector: the digest only shows that the file is complete."""
        ids, number = self._ids.sorted(), len(self._ids)
        if min(self._people.min(initial=0), self._counts.min(initial=0)) < 0 or self._people.max(initial=0) > number:
            raise CrosstallyError(f"{path!r} has counts that no reports can have")
        if int(self._people.sum()) != number or (ids[1:] == ids[:-1]).any():
            raise CrosstallyError(f"{path!r} does not have one id for each report")
        if any(
            (counts > people).any()
            for counts, people in zip(self._tally.split(self._counts), self._people.tolist(), strict=True)
        ):
            raise CrosstallyError(f"{path!r} has more answers in a group than people")

    # Adversarial reports

    def group_sizes(self) -> GroupSizes:
        """The number of reports of each group, with its expected share: a crowd in one group is visible here."""
        self._flush()
        return GroupSizes.of(self._people.copy(), [group.share for group in self.protocol.groups])

    def max_shift(self, *attributes: str, adversarial: float) -> float:
        """An upper bound, in people, on how far this share of adversarial reports could have moved a cell of a table.

        It applies to the unbiased estimate, before cells are corrected or shrunk. Without tokens, adversaries choose
        the groups with the most influence; with tokens each group has its share of them, on average over tokens.
        """
        self._flush()
        return max_shift(self.protocol, self._people, attributes, adversarial=adversarial)

    # A release out

    def measurements(self) -> tuple[Measurement, ...]:
        """Unbiased estimates from the reports, in numbers of people who reported, each with its variance."""
        number = self.reports
        if number < self.protocol.minimum:
            raise CrosstallyError(
                f"nothing can be released before {self.protocol.minimum:,} reports have come, there are {number:,}"
            )
        return measurements_of(self.protocol, self._people, self._tally.split(self._counts))

    def release(self, *, nonnegative: str = "ripple", rounds: int = 1, shrink: str = "auto") -> Release:
        """The same release as in the central model: any table, with error bars. It costs nothing.

        Args:
            nonnegative: How negative cells are corrected; ``none`` leaves the unbiased estimate.
            rounds: How often tables are corrected and made consistent again.
            shrink: ``expected`` uses posterior means given all reports, if no group has more than three attributes
                (``posterior``); ``independence`` shrinks the estimate towards independence by an amount learned from
                the reports (``pair_shrinkage``); ``none`` does neither. ``auto`` is the first that is possible for
                the methods that were designed with it, unless ``nonnegative`` is none.
        """
        measured = self.measurements()
        options = {"nonnegative": nonnegative, "shrink": shrink}
        return release_of(self.protocol, measured, self.reports, rounds=rounds, **options)


def release_of(
    protocol: Protocol,
    measured: Sequence[Measurement],
    reports: int,
    *,
    nonnegative: str = "ripple",
    rounds: int = 1,
    shrink: str = "auto",
) -> Release:
    """The release of the measurements of a protocol."""
    if shrink not in ("auto", *_SHRINK):
        raise CrosstallyError(f"shrink must be auto, {', '.join(_SHRINK)}, got {shrink!r}")
    widest = max((len(each.query.attributes) for each in measured), default=0)
    if shrink == "expected" and widest > MOST_ATTRIBUTES:
        raise CrosstallyError(
            f"shrink can be expected where people are asked about at most {MOST_ATTRIBUTES} attributes, "
            f"here it is {widest}; use independence"
        )
    statement = Statement(
        strategy=f"local {protocol.method}",
        budget=Budget(epsilon=protocol.epsilon),
        neighbours=Neighbours.REPLACE,
        model="local",
        rows=reports,
    )
    release = publish(protocol.schema, measured, statement, nonnegative=nonnegative, rounds=rounds)
    if shrink == "auto":
        shrink = _chosen(protocol, nonnegative, widest)
    if shrink == "none":
        return release
    combined = combine(protocol.schema, measured).with_total(reports)
    fitted = _SHRINK[shrink](combined, measured)
    drawn = estimate(protocol.schema, fitted.measurements, rows=reports, nonnegative=nonnegative, rounds=rounds)
    return replace(release, estimate=drawn, variances_left=fitted.variances, fitted=None)


def _checked_tokens(protocol: Protocol, tokens: Tokens | None) -> Tokens | None:
    if tokens is not None and not protocol.tokens:
        raise CrosstallyError("this protocol has no tokens: leave them out")
    if tokens is None and protocol.tokens:
        raise CrosstallyError("this protocol has tokens: a collector must be given those that were handed out")
    if tokens is not None and tokens.protocol != protocol.id:
        raise CrosstallyError("these are the tokens of another protocol")
    return tokens


def _chosen(protocol: Protocol, nonnegative: str, widest: int) -> str:
    if protocol.method not in SHRUNK or nonnegative == "none":
        return "none"
    return "expected" if widest <= MOST_ATTRIBUTES else "independence"


def _protocol_of(head: bytes) -> str | None:
    """The protocol that the head of a state names; None where it is not sound."""
    try:
        fields = read_json(head)
    except JsonError:
        return None
    stated = fields.get("protocol") if isinstance(fields, dict) else None
    return stated if isinstance(stated, str) else None
