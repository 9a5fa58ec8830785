"""Parts: exact counts that several processes made of one source, in files, to be added up before noise.

A part's file is the only export of exact counts, and is confidential. It names its plan, its reading options, a
fingerprint of the source, and which share it is; only all shares of one source, each counted once, can be added up.

It holds a line ``crosstally-part-1``, a line of JSON, the counts of all tables of the plan in its order as
little-endian 64-bit numbers, and the SHA-256 of everything before it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.json_text import JsonError, read_json
from crosstally.measurements import ExactTable
from crosstally.plans.plan import Plan
from crosstally.platform_files import write_bytes
from crosstally.query.queries import MAX_CELLS
from crosstally.sources.table_parts import tables_in

JOIN_KINDS = ("public", "unit", "asserted")
"""How a table may have been joined: it is public, it is joined by the unit's id, or the steward answers for it."""


# Shares of a source: which of its rows the i-th of n processes counts, so that each row is counted once. With a unit,
# the hash of a row's id decides, so that all rows of a person are in one share. Without one the place in the source
# decides: whole files where there is one for every share, and otherwise rows by their number.


MOST_SHARES = 1 << 16
"""More processes than any scheduler starts for one source, and few enough that sums of counts stay inside 64 bits."""
_SHARE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Share:
    """The i-th of n shares, i from 1.

    >>> Share.read("3/8")
    Share(number=3, of=8)
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if not all(type(each) is int for each in (self.number, self.of)) or not 1 <= self.number <= self.of:
            raise SourceError(f"a share must be i/n with i from 1 to n, such as 3/8, got {self}")
        if self.of > MOST_SHARES:
            raise SourceError(f"a source must have at most {MOST_SHARES:,} shares, got {self.of:,}")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> Share:
        """A share as it is written, 3/8."""
        match = _SHARE.fullmatch(text)
        if match is None:
            raise SourceError(f"a share must be i/n with i from 1 to n, such as 3/8, got {text[:40]!r}")
        return cls(int(match[1]), int(match[2]))

    def has(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these numbers are of this share: those that leave its place when divided by n."""
        return np.asarray(numbers % numbers.dtype.type(self.of) == self.number - 1)


class RowsOfShare:
    """The rows of a source that one share counts; they are read once.

    Args:
        share: Which of them.
        by: What shares the rows out: "unit" (the hash of the id), "file" or "row" (its number).
        files: The files, which must be the same for all shares.
    """

    def __init__(self, share: Share, by: str, files: Sequence[tuple[str, int]]) -> None:
        self._share, self._by, self._files = share, by, files
        self._rows_read = 0

    def chosen(
        self, batches: Iterable[pa.RecordBatch], ids: Callable[[pa.RecordBatch], pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the share; ``ids`` gives the canonical ids of units, where rows are shared by them.

        Rows without an id count nowhere, but may hold what a rule refuses: the first share sees them.
        """
        for batch in batches:
            start, self._rows_read = self._rows_read, self._rows_read + batch.num_rows
            if self._by == "file" or self._share.of == 1:
                yield batch
                continue
            places = np.arange(start, self._rows_read, dtype=np.uint64)
            if self._by == "unit":
                units = ids(batch)
                places = np.zeros(batch.num_rows, np.uint64)
                places[units.is_valid().to_numpy(zero_copy_only=False)] = id_hashes(units.drop_null())
            ours = self._share.has(places)
            if ours.any():
                yield batch.filter(pa.array(ours))

    @property
    def digest(self) -> str:
        """What must be the same for all shares, once all was read: files, their sizes, and the number of rows."""
        rows = None if self._by == "file" else self._rows_read
        seen = {"by": self._by, "files": self._files, "rows": rows}
        return hashlib.sha256(json.dumps(seen, ensure_ascii=True).encode()).hexdigest()


def id_hashes(ids: pa.Array) -> NDArray[np.uint64]:
    """A hash of each id, given as canonical texts (large_string) without nulls: equal texts have equal hashes.

    It depends only on the bytes of the text, not on the machine, the process or other ids. It spreads units over tasks
    and shares, so that all rows of a unit go to the same one.
    """
    offsets, data = text_bytes(ids)
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(lengths.max(initial=0), 0xBF58476D1CE4E5B9, np.uint64))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[np.arange(len(data)) - np.repeat(offsets[:-1], lengths)]
    # The sum over each text's bytes; sums over all that comes before wrap around, and so do their differences.
    sums = np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64))
    hashes: NDArray[np.uint64] = sums[offsets[1:]] - sums[offsets[:-1]]
    hashes ^= hashes >> np.uint64(31)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    return hashes


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the texts of a large_string array without nulls begin and end, and the bytes of all of them."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends - ends[0], whole[ends[0] : ends[-1]]


_FIRST_LINE = b"crosstally-part-1\n"
_FAMILY = b"crosstally-part-"
_DIGEST_BYTES = 32  # of SHA-256
_HEADER_BYTES = 10_000
"""Three digests of 64 digits, a share, and the names of the fields: about 300. Joined tables add their names."""
_ORIGIN = ("plan", "reading", "source", "rows_are_units")
# The longest file that a part can be: more is not read, whatever it claims.
_MOST_BYTES = len(_FIRST_LINE) + _HEADER_BYTES + 8 * MAX_CELLS + _DIGEST_BYTES
_MOST_COUNT = 2**63 // MOST_SHARES // 2
"""Counts below it add up to less than 2^62 over all shares; it is 70 trillion."""
_DAMAGED = "it is damaged, cut short, or no part"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOrigin:
    """What all parts that are added up must have in common; plan, reading and source by their digests."""

    plan: str
    reading: str | None
    source: str
    rows_are_units: bool
    joins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedParts:
    """The exact tables of all parts together, and where they are from."""

    tables: tuple[ExactTable, ...]
    origin: PartOrigin


def write_part(path: Path, exact: Sequence[ExactTable], share: Share, origin: PartOrigin) -> None:
    """Write the counts of a share into a file that only its owner can read."""
    counts = np.concatenate([np.empty(0, np.int64), *(table.counts.ravel() for table in exact)])
    header = {
        "plan": origin.plan,
        "reading": origin.reading,
        "source": origin.source,
        "rows_are_units": origin.rows_are_units,
        "share": [share.number, share.of],
        **({"joins": dict(origin.joins)} if origin.joins else {}),
    }
    line = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    content = _FIRST_LINE + line + counts.astype("<i8").tobytes()
    try:
        write_bytes(path, content + hashlib.sha256(content).digest(), private=True)
    except OSError as error:
        raise SourceError(f"cannot write the part {str(path)!r}: {error.strerror}") from None


def merge_parts(paths: Sequence[Path], plan: Plan) -> MergedParts:
    """The tables of a plan, summed over its parts; raises unless all shares are there once and belong together."""
    cells = sum(math.prod(table.shape(plan.schema)) for table in plan.tables)
    total = np.zeros(cells, np.int64)
    seen: dict[int, str] = {}
    first: tuple[PartOrigin, int] | None = None
    for path in paths:
        name = repr(str(path))
        share, origin, counts = _read(name, _bytes_of(path))
        if origin.plan != plan_digest(plan):
            raise SourceError(f"the part {name} was counted for another plan; count it again for this one")
        first = first or (origin, share.of)
        if origin.reading != first[0].reading:
            raise SourceError(f"the part {name} was read in another way than the first; read all by one schema")
        if (origin, share.of) != first:
            raise SourceError(
                f"the part {name} is a share of other rows, or of another number of shares, than the first; count all "
                "parts of one source while nobody writes to it"
            )
        if share.number in seen:
            raise SourceError(f"share {share} is there twice, in {seen[share.number]} and {name}; give each once")
        if len(counts) != cells:
            raise SourceError(f"cannot read {name}: {_DAMAGED}")
        seen[share.number] = name
        total += counts
    assert first is not None  # there is a path
    missing = next((number for number in range(1, first[1] + 1) if number not in seen), None)
    if missing is not None:
        raise SourceError(f"share {missing}/{first[1]} is missing; a release needs all {first[1]} parts, each once")
    return MergedParts(tables_in(total, plan.schema, plan.tables), first[0])


def plan_digest(plan: Plan) -> str:
    """The SHA-256 of a plan, by which parts know what they were counted for."""
    text = json.dumps(plan.to_dict(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# A file's bytes


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SourceError(f"cannot read {str(path)!r}: {error.strerror}") from None


def _read(name: str, content: bytes) -> tuple[Share, PartOrigin, NDArray[np.int64]]:
    """The content of a part's bytes; raises, without quoting them, when they are not what was written."""
    if content.startswith(_FAMILY) and not content.startswith(_FIRST_LINE):
        raise SourceError(f"cannot read {name}: it is of a newer format than 1; use a newer crosstally")
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not content.startswith(_FIRST_LINE) or len(content) > _MOST_BYTES or hashlib.sha256(body).digest() != digest:
        raise SourceError(f"cannot read {name}: {_DAMAGED}")
    header, _, packed = body[len(_FIRST_LINE) :].partition(b"\n")
    fields = _header(header)
    if fields is None or len(packed) % 8:
        raise SourceError(f"cannot read {name}: {_DAMAGED}")
    counts = np.frombuffer(packed, "<i8").astype(np.int64)
    if ((counts < 0) | (counts >= _MOST_COUNT)).any():
        raise SourceError(f"cannot read {name}: it holds counts that no rows have")
    return *fields, counts


def _header(line: bytes) -> tuple[Share, PartOrigin] | None:
    try:
        content = read_json(line) if len(line) <= _HEADER_BYTES else None
    except JsonError:
        return None
    if not isinstance(content, Mapping) or set(content) - {"joins"} != {*_ORIGIN, "share"}:
        return None
    place: Any = content["share"]
    texts = [content["plan"], content["source"], content["reading"] or ""]
    if not isinstance(place, list) or len(place) != 2 or not all(isinstance(each, str) for each in texts):
        return None
    joins = content.get("joins", {})
    if (
        not isinstance(content["rows_are_units"], bool)
        or not isinstance(joins, Mapping)
        or ("joins" in content and not joins)
    ):
        return None
    if not all(isinstance(how, str) and how in JOIN_KINDS for how in joins.values()):
        return None
    try:
        share = Share(*place)
    except SourceError:
        return None
    origin = PartOrigin(**{field: content[field] for field in _ORIGIN}, joins=dict(joins))
    return share, origin
