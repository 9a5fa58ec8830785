"""Ids of reports in sorted runs: the same as a set, whatever the batches; few runs, so that batches stay cheap."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from crosstally.local.collector import ReportIds

ID = np.dtype("V16")


def ids_of(numbers: Iterable[int]) -> np.ndarray:
    return np.frombuffer(b"".join(int(n).to_bytes(16, "big") for n in numbers), ID)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_as_a_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    held, known = ReportIds(ids_of([])), set()
    for _ in range(200):
        batch = np.unique(rng.integers(0, 20_000, rng.integers(1, 300)))
        fresh = [n for n in batch.tolist() if n not in known]
        assert held.holds(ids_of(batch)).tolist() == [n in known for n in batch.tolist()]
        held.add(ids_of(rng.permutation(fresh)))
        known.update(fresh)
        assert len(held) == len(known)
    assert held.sorted().tobytes() == ids_of(sorted(known)).tobytes()
    assert held.holds(ids_of(sorted(known))).all()


def test_runs_stay_few_and_large_ones_stay_as_they_are() -> None:
    held = ReportIds(ids_of(range(100_000)))
    large = held._runs[0]
    for i in range(100):
        held.add(ids_of(range(200_000 + 100 * i, 200_100 + 100 * i)))
    assert held._runs[0] is large
    assert len(held._runs) <= 9
