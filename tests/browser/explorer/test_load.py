"""Many clients at once: for a minute no error, and no more memory than the cache may take."""

import random
import re
import threading
import time
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import crosstally as ct
from crosstally.generate.people import people
from web_clients import asked, started

NAMES = ("sex", "age", "region", "education", "income")
CLIENTS, SECONDS = 50, 60.0
MOST_MORE = 256  # MB: what the cache may hold


def memory(process: int) -> float:
    """The resident memory of a process, in MB."""
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def ask(address: str, until: float, own: int, statuses: list[int]) -> None:
    """One client: pages, charts, files and SQL of pairs of attributes, one after the other."""
    chooses, pairs = random.Random(own), list(permutations(NAMES, 2))
    while time.monotonic() < until:
        a, b = chooses.choice(pairs)
        table = f"rows={a}&columns={b}&level={chooses.choice(['0.9', '0.95', '0.99'])}&top={chooses.randrange(1, 50)}"
        path = chooses.choice(
            [f"table?{table}", f"chart.svg?{table}", f"download/csv?{table}", f"table?{table}&show=row",
             f"api/v2/tables/people/data?valueCodes[{a}]=*&valueCodes[{b}]=*", f"table?{table}&group={a}"]
        )  # fmt: skip
        statuses.append(asked(address + path)[0])


@pytest.mark.verify
def test_fifty_clients_for_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "people.release.parquet"
    rows, schema = people(5_000, np.random.default_rng(1), attributes=NAMES)
    ct.release(rows, schema, epsilon=1.0).save(path)
    with started(path) as (process, address):
        warm: list[int] = []
        ask(address, time.monotonic() + 3, -1, warm)
        before, statuses, until = memory(process.pid), [], time.monotonic() + SECONDS
        clients = [threading.Thread(target=ask, args=(address, until, own, statuses)) for own in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        more = memory(process.pid) - before
    print(f"{len(statuses):,} answers, {more:.0f} MB more")
    assert set(warm + statuses) == {200}
    assert len(statuses) > CLIENTS
    assert more <= MOST_MORE
