"""Reports drawn from given words, by hand. Words are 32 bits; half of them are below 2^31."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from crosstally.kernels import local

HALF = 2**31
LAST_OF_THREE = 3_000_000_000  # x 3 = 2 x 2^32 + 410,065,408: the whole number 2, below three


def drawn(draw: Callable[..., int], *given: object, words: list[int], people: int = 1) -> tuple[list[int], int]:
    """The answers, and how many words were used."""
    out = np.zeros(people, np.uint64)
    used = draw(*given, np.array(words, np.uint32), out)
    return out.tolist(), used


def test_a_whole_number_leaves_out_words_that_would_favour_some() -> None:
    """2^32 mod 3 is 1: of products with 3 the one with lower half 0 is left out, which is that of the word 0."""
    assert local.below(np.array([0, LAST_OF_THREE], np.uint32), 0, 3) == (2, 2)
    assert local.below(np.array([0], np.uint32), 0, 3) == (-1, -1)


def test_randomised_response() -> None:
    """Kept by the word 5; then not, and the second of the two other values 0 and 1."""
    words = [5, HALF, HALF]
    assert drawn(local.draw_kept, np.array([1, 2]), 3, HALF, words=words, people=2) == ([1, 1], 3)
    assert drawn(local.draw_kept, np.array([1, 2]), 3, HALF, words=words[:2], people=2)[1] == -1


def test_unary_encoding() -> None:
    """Cell 0 is set by 99 < 100, the own cell 1 by 100 < 2^15, cell 2 is not by 101."""
    out = np.zeros(1, np.uint64)
    assert local.draw_unary(np.array([1]), 3, 100, np.array([99, 100, 101], np.uint16), out) == 3
    assert out.tolist() == [0b011]
    assert local.draw_unary(np.array([1]), 3, 100, np.array([99, 100], np.uint16), out) == -1


def test_wide_unary_encoding() -> None:
    """Numbers are below 2^15 where their highest digit is 0: cell 1 is set; cell 0 is the own one, set by its bit."""
    out, words = np.zeros(1, np.uint64), np.ones(17, np.uint64)
    assert local.draw_wide_unary(np.array([0]), 2, HALF >> 16, words, out) == 3
    assert out.tolist() == [0b11]
    assert local.draw_wide_unary(np.array([0]), 2, HALF >> 16, words[:16], out) == -1


def test_local_hashing() -> None:
    """The second function with its hash 0 of cell 2; the first, whose hash 0 of cell 0 is not kept."""
    hashes = np.array([[0, 1, 0], [1, 1, 0]], np.uint8)
    words = [HALF, 0, 0, HALF, 0]
    assert drawn(local.draw_hashed, np.array([2, 0]), hashes, 2, HALF, words=words, people=2) == ([2, 1], 5)


def test_subset_selection() -> None:
    """The own cell 1 is in; of the others 0, 2 and 3 the last."""
    assert drawn(local.draw_subsets, np.array([1]), 4, 2, HALF, words=[0, LAST_OF_THREE]) == ([0b1010], 2)


def test_hadamard_response() -> None:
    """The word 0 is left out; row 3 has the sign of the parity of 3 & 3, which is even, and is kept."""
    words = [0, LAST_OF_THREE, 0]
    assert drawn(local.draw_hadamard, np.array([3]), 4, HALF, words=words) == ([6], 3)


def test_residual_bits() -> None:
    """Rows 1 and 3 of matrices of order 2 and 4: signs odd and odd, together even; the last word turns it round."""
    codes, orders = np.array([[1], [2]]), np.array([2, 4])
    assert drawn(local.draw_residual_bits, codes, orders, HALF, words=[LAST_OF_THREE, HALF]) == ([5], 2)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [0, 2, 1]])
def test_masks_are_counted_in_any_order(order: list[int]) -> None:
    groups, masks = np.array([0, 0, 1])[order], np.array([0b11, 0b01, 0b10], np.uint64)[order]
    counts = np.zeros(4, np.int64)
    local.count_masks(groups, masks, np.array([0, 2]), np.array([2, 2]), counts)
    assert counts.tolist() == [2, 1, 0, 1]
