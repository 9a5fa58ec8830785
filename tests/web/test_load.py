"""Many clients at once: for a minute no error, and no more memory than the cache may take."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import crosstally as ct
from crosstally.generate.people import people

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
        try:
            with urllib.request.urlopen(address + path, timeout=60) as answer:
                answer.read()
                statuses.append(answer.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)


@pytest.mark.verify
def test_fifty_clients_for_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "people.release.parquet"
    rows, schema = people(5_000, np.random.default_rng(1), attributes=NAMES)
    ct.release(rows, schema, epsilon=1.0).save(path)
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as started:
        assert started.stderr is not None
        try:
            line = ""
            while "http://" not in line:
                line = started.stderr.readline()
            address = next(word for word in line.split() if word.startswith("http://"))
            warm: list[int] = []
            ask(address, time.monotonic() + 3, -1, warm)
            before, statuses, until = memory(started.pid), [], time.monotonic() + SECONDS
            clients = [threading.Thread(target=ask, args=(address, until, own, statuses)) for own in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            more = memory(started.pid) - before
        finally:
            started.send_signal(signal.SIGINT)
            started.wait(20)
    print(f"{len(statuses):,} answers, {more:.0f} MB more")
    assert set(warm + statuses) == {200}
    assert len(statuses) > CLIENTS
    assert more <= MOST_MORE
