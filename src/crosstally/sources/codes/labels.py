"""Labels laid out for the kernel that compares texts with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["LabelTexts"]

_MOST_LABELS = 254  # one code is for texts that are none of them
# Bytes of a label: labels are kept side by side, all as wide as the longest. Longer ones take the slower way.
_MOST_BYTES = 256
# Limits memory: 2^18 places for labels. Where no factor keeps them apart, texts take the slower way.
_MOST_BITS = 18
_TRIES = 16  # factors that are tried for each number of places. More find smaller tables; codes do not depend on it


@dataclass(frozen=True, slots=True, eq=False)
class LabelTexts:
    """Labels, each alone in its slot, so that a text need only be compared with one of them."""

    sizes: NDArray[np.int64]
    words: NDArray[np.uint64]
    _: KW_ONLY
    labels: int
    factor: np.uint64
    slots: NDArray[np.uint8]

    @classmethod
    def of(cls, labels: Sequence[str]) -> LabelTexts | None:
        """The labels' layout; None when they are too many, too long, or too much alike."""
        encoded = [label.encode() for label in labels]
        longest = max(map(len, encoded))
        if len(encoded) > _MOST_LABELS or longest > _MOST_BYTES:
            return None
        found = _find_slots(encoded)
        if found is None:
            return None
        factor, slots = found
        width = -(-longest // 8) * 8
        lines = [text.ljust(width, b"\0") for text in encoded] + [bytes(width)] * (256 - len(encoded))
        words = np.frombuffer(b"".join(lines), np.uint64).reshape(256, -1)
        sizes = np.array([len(text) for text in encoded] + [-1] * (256 - len(encoded)), np.int64)
        return cls(sizes, words, labels=len(encoded), factor=factor, slots=slots)

    def codes(self, texts: pa.Array) -> NDArray[np.uint8]:
        """The codes of the first texts, as many as can be read in whole words: all but a few, as a rule.

        A text that is no label has the code ``labels``.
        """
        from crosstally.kernels.matching import NO_LABEL, match_texts

        offset_type: type[np.signedinteger[Any]] = np.int32 if texts.type == pa.string() else np.int64
        _, offsets, data = texts.buffers()
        if offsets is None or data is None or data.address % 8:
            return np.empty(0, np.uint8)
        starts = np.frombuffer(offsets, offset_type, len(texts) + 1, texts.offset * np.dtype(offset_type).itemsize)
        words = np.frombuffer(data, np.uint64, data.size // 8)
        readable = int(np.searchsorted(starts[1:], (len(words) - 2) * 8))
        codes = np.empty(readable, np.uint8)
        places = starts[: readable + 1].astype(np.int64)
        match_texts(places, words, self.factor, self.slots, self.sizes, self.words, codes)
        codes[codes == NO_LABEL] = self.labels
        return codes


def _find_slots(encoded: Sequence[bytes]) -> tuple[np.uint64, NDArray[np.uint8]] | None:
    """A factor that gives each label a slot of its own, and who is in each slot."""
    from crosstally.kernels.matching import NO_LABEL, text_keys

    joined = b"".join(encoded)
    words = np.frombuffer(joined.ljust(len(joined) // 8 * 8 + 24, b"\0"), np.uint64)
    keys = np.empty(len(encoded), np.uint64)
    text_keys(np.cumsum([0, *map(len, encoded)]), words, keys)
    draw = np.random.default_rng(0)  # any factor will do: which one changes nothing but speed
    for bits in range(4, _MOST_BITS + 1):
        for factor in draw.integers(0, 2**63, _TRIES).astype(np.uint64) * np.uint64(2) + np.uint64(1):
            places = (keys * factor) >> np.uint64(64 - bits)
            if len(np.unique(places)) == len(places):
                slots = np.full(1 << bits, NO_LABEL, np.uint8)
                slots[places] = np.arange(len(places))
                return factor, slots
    return None
