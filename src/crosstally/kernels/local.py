"""Reports drawn and counted in bulk: random words in, answers out.

Words are uniform 32-bit numbers. A whole number below n is the upper half of word x n, words whose lower half is below
2^32 mod n being left out, which makes it exact. Functions return how many words they used, or -1 where words ran out.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.typing import Integers

Words = NDArray[np.uint32]
Answers = NDArray[np.uint64]
# the lower half of a word of 64 bits, which decides whether a draw is rejected (Lemire 2019)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)  # bits of a half: the upper half of 32 random bits times n is a number below n


@njit("void(int64[::1], uint64[::1], int64[::1], int64[::1], int64[::1])", cache=True)
def count_masks(groups: Integers, masks: Answers, starts: Integers, cells: Integers, counts: Integers) -> None:
    """Add each mask's bits to the counts of its group, which begin at ``starts``."""
    one, last = np.uint64(1), np.int64(-1)
    local = np.zeros(64, np.int64)
    for i in range(len(groups) + 1):
        group = groups[i] if i < len(groups) else np.int64(-2)
        if group != last:  # reports of one group often stand together
            if last >= 0:
                counts[starts[last] : starts[last] + cells[last]] += local[: cells[last]]
                local[:] = 0
            last = group
        if i < len(groups):
            mask = masks[i]
            for cell in range(64):
                local[cell] += np.int64(mask >> np.uint64(cell) & one)


@njit("Tuple((int64, int64))(uint32[::1], int64, int64)", cache=True)
def below(words: Words, used: int, number: int) -> tuple[int | np.int64, int]:
    """A whole number below another one, and how many words are used then; both -1 where there is none left."""
    n = np.uint64(number)
    reject = (np.uint64(1) << _HALF) % n
    while used < len(words):
        product = np.uint64(words[used]) * n
        used += 1
        if product & _LOW >= reject:
            return np.int64(product >> _HALF), used
    return -1, -1


@njit("int64(int64[::1], int64, int64, uint32[::1], uint64[::1])", cache=True)
def draw_kept(cells: Integers, values: int, keep: int, words: Words, out: Answers) -> int:
    """Randomised response among ``values``; kept where a word is below ``keep``."""
    used = 0
    for i in range(len(cells)):
        if used >= len(words):
            return -1
        word = np.int64(words[used])
        used += 1
        if word < keep:
            out[i] = np.uint64(cells[i])
            continue
        other, used = below(words, used, values - 1)
        if used < 0:
            return -1
        out[i] = np.uint64(other + (1 if other >= cells[i] else 0))
    return used


@njit("int64(int64[::1], int64, int64, uint16[::1], uint64[::1])", cache=True)
def draw_unary(cells: Integers, number: int, other: int, halves: NDArray[np.uint16], out: Answers) -> int:
    """A bit for each cell: set where half a word is below ``other``, or below 2^15 for the own cell."""
    if len(halves) < number * len(cells):
        return -1
    limit = np.uint16(other)
    for i in range(len(cells)):
        start, mask = i * number, np.uint64(0)
        for cell in range(number):
            mask |= np.uint64(halves[start + cell] < limit) << np.uint64(cell)
        own = np.uint64(cells[i])
        mask &= ~(np.uint64(1) << own)
        out[i] = mask | np.uint64(halves[start + cells[i]] < np.uint16(1 << 15)) << own
    return number * len(cells)


@njit("int64(int64[::1], int64, int64, uint64[::1], uint64[::1])", cache=True)
def draw_wide_unary(cells: Integers, number: int, other: int, words: Answers, out: Answers) -> int:
    """The same for many cells, all bits of a mask at once.

    Word by word a random 16-bit number is drawn for each bit, from its highest digit on, and compared with ``other``
    until no bit is undecided: about eight words instead of sixteen. Own bits come sixty-four to a word.
    """
    used, whole = 0, ~np.uint64(0) >> np.uint64(64 - number)
    owns = np.uint64(0)
    for i in range(len(cells)):
        if used + 17 > len(words):
            return -1
        if i % 64 == 0:
            owns = words[used]
            used += 1
        mask, undecided = np.uint64(0), whole
        for digit in range(15, -1, -1):
            if undecided == 0:
                break
            word = words[used]
            used += 1
            if other >> digit & 1:
                mask |= undecided & ~word
                undecided &= word
            else:
                undecided &= ~word
        own = np.uint64(cells[i])
        mask &= ~(np.uint64(1) << own)
        out[i] = mask | (owns >> np.uint64(i % 64) & np.uint64(1)) << own
    return used


@njit("int64(int64[::1], uint8[:, ::1], int64, int64, uint32[::1], uint64[::1])", cache=True)
def draw_hashed(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    cells: Integers, hashes: NDArray[np.uint8], buckets: int, keep: int, words: Words, out: Answers
) -> int:
    """A function, a row of ``hashes``, and the hash of the cell by randomised response."""
    used = 0
    for i in range(len(cells)):
        function, used = below(words, used, len(hashes))
        if used < 0 or used >= len(words):
            return -1
        hashed = np.int64(hashes[function, cells[i]])
        word = np.int64(words[used])
        used += 1
        if word >= keep:
            other, used = below(words, used, buckets - 1)
            if used < 0:
                return -1
            hashed = other + (1 if other >= hashed else 0)
        out[i] = np.uint64(function * buckets + hashed)
    return used


@njit("int64(int64[::1], int64, int64, int64, uint32[::1], uint64[::1])", cache=True)
def draw_subsets(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    cells: Integers, number: int, members: int, keep: int, words: Words, out: Answers
) -> int:
    """A set of cells, the own one in it where a word is below ``keep``; the others by a partial shuffle."""
    used = 0
    others = np.empty(number - 1, np.int64)
    for i in range(len(cells)):
        if used >= len(words):
            return -1
        inside = np.int64(words[used]) < keep
        used += 1
        for j in range(number - 1):
            others[j] = j
        mask = np.uint64(inside) << np.uint64(cells[i])
        for j in range(members - (1 if inside else 0)):
            place, used = below(words, used, number - 1 - j)
            if used < 0:
                return -1
            chosen = others[j + place]
            others[j + place] = others[j]
            mask |= np.uint64(1) << np.uint64(chosen + (1 if chosen >= cells[i] else 0))
        out[i] = mask
    return used


@njit("int64(int64)", cache=True)
def parity(number: int) -> int:
    """Whether a number has an odd number of bits."""
    for shift in (32, 16, 8, 4, 2, 1):
        number ^= number >> shift
    return number & 1


@njit("int64(int64[::1], int64, int64, uint32[::1], uint64[::1])", cache=True)
def draw_hadamard(cells: Integers, order: int, keep: int, words: Words, out: Answers) -> int:
    """A row of Hadamard's matrix other than the first, and its sign at the cell."""
    used = 0
    for i in range(len(cells)):
        function, used = below(words, used, order - 1)
        if used < 0 or used >= len(words):
            return -1
        sign = parity((function + 1) & cells[i]) ^ (0 if np.int64(words[used]) < keep else 1)
        used += 1
        out[i] = np.uint64(2 * (function + 1) + sign)
    return used


@njit("int64(int64[:, ::1], int64[::1], int64, uint32[::1], uint64[::1])", cache=True)
def draw_residual_bits(codes: Integers, orders: Integers, keep: int, words: Words, out: Answers) -> int:
    """For each attribute, a row of ``codes``, a row of its matrix; the product of the signs."""
    used = 0
    for i in range(codes.shape[1]):
        place, sign = 0, 0
        for axis in range(len(orders)):
            function = 0
            if orders[axis] > 2:
                function, used = below(words, used, orders[axis] - 1)
                if used < 0:
                    return -1
            place = place * (orders[axis] - 1) + function
            sign ^= parity((function + 1) & codes[axis, i])
        if used >= len(words):
            return -1
        sign ^= 0 if np.int64(words[used]) < keep else 1
        used += 1
        out[i] = np.uint64(2 * place + sign)
    return used
