"""Texts into codes: each compared with the one label that it may be, eight bytes at a time."""

# mypy: disable-error-code="untyped-decorator, no-any-return"
from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from crosstally.typing import Integers

NO_LABEL = 255
"""The code of a text that is not a label."""
# 2^64 over the golden ratio, odd: spreads bits of the last bytes over a key. A different one changes speed, not codes.
_END_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# An odd number of well mixed bits (a prime of xxHash), so that sizes change keys too. It changes speed, not codes.
_SIZE_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)

_BYTES_READ = types.Array(types.uint8, 1, "C", readonly=True)  # memory of a source may be read-only
_WORDS_READ = types.Array(types.uint64, 1, "C", readonly=True)
_LINES_READ = types.Array(types.uint64, 2, "C", readonly=True)
_INTEGERS_READ = types.Array(types.int64, 1, "C", readonly=True)


@njit(types.uint64(_WORDS_READ, types.int64), cache=True)
def _word_at(words: NDArray[np.uint64], start: int) -> np.uint64:
    """Eight bytes from anywhere, put together from two words."""
    place, shift = np.uint64(start >> 3), np.uint64((start & 7) << 3)
    return (words[place] >> shift) | ((words[place + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - shift))


@njit(types.uint64(types.int64), cache=True)
def _mask(size: int) -> np.uint64:
    """Ones over the first bytes of a word, as many as a text has."""
    return ~np.uint64(0) if size >= 8 else (np.uint64(1) << np.uint64(size << 3)) - np.uint64(1)


@njit(types.void(_INTEGERS_READ, _WORDS_READ, types.uint64[::1]), cache=True)
def text_keys(offsets: Integers, words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Write the key of each text: a number made of its size, its first eight bytes and its last eight.

    Memory goes on for a word after the last.
    """
    for i in range(keys.size):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        keys[i] = (_word_at(words, start) & _mask(size)) + np.uint64(size) * _SIZE_FACTOR
        if size > 8:
            keys[i] ^= _word_at(words, start + size - 8) * _END_FACTOR


@njit(types.boolean(_WORDS_READ, types.int64, types.int64, _WORDS_READ), cache=True)
def _rest_is_same(words: NDArray[np.uint64], start: int, size: int, label: NDArray[np.uint64]) -> bool:
    """Whether a text of the size of a label is the same after the first word."""
    same = True
    for j in range(1, (size + 7) >> 3):
        same &= (_word_at(words, start + 8 * j) & _mask(size - 8 * j)) == label[j]
    return same


@njit(
    types.void(_INTEGERS_READ, _WORDS_READ, types.uint64, _BYTES_READ, _INTEGERS_READ, _LINES_READ, types.uint8[::1]),
    cache=True,
)
def match_texts(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    offsets: Integers,
    words: NDArray[np.uint64],
    factor: np.uint64,
    slots: NDArray[np.uint8],
    sizes: Integers,
    labels: NDArray[np.uint64],
    codes: NDArray[np.uint8],
) -> None:
    """Write the code of each text, ``NO_LABEL`` where it is none.

    Args:
        offsets: Where each text begins, in bytes, and where the last one ends.
        words: The memory of the texts, which goes on for at least one word after the last of them.
        factor: A key times this has the key's slot in its highest bits.
        slots: The code of the one label in each slot, or ``NO_LABEL``; as many as a power of two.
        sizes: How many bytes each of 256 labels has; -1 where there is none.
        labels: A line of words for each of them, filled up with zeros.
        codes: Where the codes go.
    """
    shift_to_slot, number = np.uint64(64), slots.size
    while number > 1:
        shift_to_slot, number = shift_to_slot - np.uint64(1), number >> 1
    masks = np.array([_mask(size) for size in range(9)])
    for i in range(codes.size):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        # The first word and the key stand here once more: a call for each text takes as long as all the rest.
        place, shift = np.uint64(start >> 3), np.uint64((start & 7) << 3)
        first = (words[place] >> shift) | ((words[place + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - shift))
        first &= masks[np.uint64(min(size, 8))]
        key = first + np.uint64(size) * _SIZE_FACTOR
        if size > 8:
            key ^= _word_at(words, start + size - 8) * _END_FACTOR
        label = slots[(key * factor) >> shift_to_slot]
        same = (sizes[label] == size) & (labels[label, 0] == first)
        if size > 8 and same:
            same = _rest_is_same(words, start, size, labels[label])
        codes[i] = label if same else np.uint8(NO_LABEL)
