"""Work in threads gives what it gives in one: the same results, in the same order, with the same errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from crosstally.threads import in_order, most_threads


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("number", [0, 1, 4, 37])
def test_results_come_in_the_order_of_the_pieces(threads: int, number: int) -> None:
    assert list(in_order(lambda piece: piece**2, range(number), threads=threads)) == [i * i for i in range(number)]


def test_two_pieces_are_worked_on_at_once() -> None:
    """Each of the two waits for the other: in one thread neither would end."""
    both = threading.Barrier(2, timeout=60)
    assert sorted(in_order(lambda _: both.wait(), range(2), threads=2)) == [0, 1]


def test_one_thread_is_the_callers() -> None:
    assert list(in_order(lambda _: threading.current_thread(), range(2), threads=1)) == [threading.current_thread()] * 2


@pytest.mark.parametrize("threads", [2, 3])
def test_few_pieces_are_drawn_ahead(threads: int) -> None:
    """What a thread works on and one more that waits, for each; and the piece that is drawn before it must wait."""
    drawn, taken = 0, 0

    def pieces() -> Iterator[int]:
        nonlocal drawn
        for piece in range(50):
            drawn += 1
            assert drawn - taken <= 2 * threads + 1
            yield piece

    for _ in in_order(lambda piece: piece, pieces(), threads=threads):
        taken += 1
    assert (drawn, taken) == (50, 50)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_piece_that_fails_is_the_one_that_is_told_of(threads: int) -> None:
    """Later ones fail sooner."""
    later = threading.Event()

    def work(piece: int) -> int:
        if piece == 2 and threads > 1:
            later.wait(60)
        if piece in {2, 3}:
            later.set()
            raise ValueError(piece)
        return piece

    done = []
    with pytest.raises(ValueError, match="^2$"):
        done.extend(in_order(work, range(9), threads=threads))
    assert not any(thread.name.startswith("crosstally") for thread in threading.enumerate())


def test_an_error_of_the_pieces_ends_it_and_leaves_no_thread() -> None:
    def pieces() -> Iterator[int]:
        yield 1
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        list(in_order(lambda piece: piece, pieces(), threads=2))
    assert not any(thread.name.startswith("crosstally") for thread in threading.enumerate())


def test_there_are_as_many_threads_as_arrow_has() -> None:
    before = pa.cpu_count()
    try:
        pa.set_cpu_count(3)
        assert most_threads() == 3
    finally:
        pa.set_cpu_count(before)
