"""What became of reports: counted, or refused for a reason.

The ids of all reports that were counted, so that none counts twice.

They are kept in sorted runs, each more than twice as long as the next. New ids become a run of their own; runs that are
not longer than that are merged. So n ids have at most log2(n) runs, an id is merged as often at most, and a batch costs
about the same whether millions of ids are held or none: one sorted array would be sorted again for every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Reason",
    "Received",
    "ReportIds",
]


class Reason(StrEnum):
    """What became of a report."""

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
        """Its place among all reasons: what stands for it in arrays of many reports."""
        return _CODES[self]


_REASONS = tuple(Reason)
_CODES = {reason: code for code, reason in enumerate(_REASONS)}


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """What became of each of many reports: codes of ``Reason``, in the order given."""

    codes: NDArray[np.uint8]

    @property
    def accepted(self) -> int:
        """How many were counted."""
        return int((self.codes == Reason.ACCEPTED.code).sum())

    def reasons(self) -> list[Reason]:
        """What became of each one."""
        return [_REASONS[code] for code in self.codes.tolist()]

    def numbers(self) -> dict[Reason, int]:
        """How many there are of each reason."""
        found = np.bincount(self.codes, minlength=len(_REASONS)).tolist()
        return {reason: number for reason, number in zip(_REASONS, found, strict=True) if number}


class ReportIds:
    """A set of ids that only grows."""

    def __init__(self, ids: NDArray[Any]) -> None:
        self._runs = [np.sort(ids)]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def holds(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """For each of these ids whether it is among them."""
        found = np.zeros(len(ids), np.bool_)
        for run in self._runs:
            if len(run):
                places = np.minimum(np.searchsorted(run, ids), len(run) - 1)
                found |= run[places] == ids
        return found

    def add(self, ids: NDArray[Any]) -> None:
        """Add ids, each once, none of which is held."""
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
