"""What became of reports: counted, or refused for a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reason", "Received"]


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
