"""Integers through a table, also where differences wrap around and memory is read-only."""

from __future__ import annotations

import numpy as np

from crosstally.kernels.lookup import look_up_bytes, look_up_integers


def test_bytes() -> None:
    table = np.arange(255, -1, -1).astype(np.uint8)
    codes = np.empty(3, np.uint8)
    look_up_bytes(np.frombuffer(b"\x00\x07\xff", np.uint8), table, codes)
    assert codes.tolist() == [255, 248, 0]


def test_integers_within_and_beyond_the_table() -> None:
    table = np.array([4, 5, 6, 9], np.uint8)  # for -1, 0 and 1, and for all others
    values = np.array([-1, 0, 1, 2, -2, 2**63 - 1, -(2**63)])
    values.setflags(write=False)
    codes = np.empty(7, np.uint8)
    look_up_integers(values, -1, table, codes)
    assert codes.tolist() == [4, 5, 6, 9, 9, 9, 9]


def test_a_table_at_the_end_of_the_range() -> None:
    values = np.array([2**63 - 1, 2**63 - 2, -(2**63), 0])
    codes = np.empty(4, np.uint8)
    look_up_integers(values, 2**63 - 1, np.array([1, 0], np.uint8), codes)
    assert codes.tolist() == [1, 0, 0, 0]
