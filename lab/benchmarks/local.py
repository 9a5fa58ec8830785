"""Local reports, generated and aggregated: microseconds a report beside multi-freq-ldpy and pure-ldp.

The peers pin old packages, so ``make bench`` installs them (``peers.txt``) apart, and CROSSTALLY_PEERS names their
Python. Without it each row stands beside its floor, the random bytes that a report needs.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import cpu_seconds, row
from crosstally.local.bulk import answers
from crosstally.local.oracles import ViewOracle
from crosstally.local.oracles.local_hashing import LocalHashing
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.oracles.unary_encoding import UnaryEncoding

REPORTS, PEER_REPORTS = 1_000_000, 20_000
TARGETS = {"GRR": 1 / 20, "OUE": 1 / 20, "OLH": 1 / 50}
ORACLES: dict[str, Any] = {"GRR": RandomisedResponse, "OUE": UnaryEncoding, "OLH": LocalHashing}

PEERS = """
import json, time
import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client, GRR_Aggregator_MI
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client, LH_Aggregator_MI
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client, UE_Aggregator_MI
from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

def multi(client, aggregate):
    return lambda values: aggregate([client(value) for value in values])

def pure(client, server):
    def run(values):
        for value in values:
            server.aggregate(client.privatise(value + 1))
    return run

out = {}
for cells in (8, 64):
    values = np.random.randint(0, cells, REPORTS).tolist()
    works = {
        ("multi-freq-ldpy", "GRR"): multi(
            lambda v: GRR_Client(v, cells, 1.0), lambda r: GRR_Aggregator_MI(r, cells, 1.0)
        ),
        ("multi-freq-ldpy", "OUE"): multi(lambda v: UE_Client(v, cells, 1.0), lambda r: UE_Aggregator_MI(r, 1.0)),
        ("multi-freq-ldpy", "OLH"): multi(
            lambda v: LH_Client(v, cells, 1.0), lambda r: LH_Aggregator_MI(r, cells, 1.0)
        ),
        ("pure-ldp", "GRR"): pure(DEClient(1.0, cells), DEServer(1.0, cells)),
        ("pure-ldp", "OUE"): pure(UEClient(1.0, cells, use_oue=True), UEServer(1.0, cells, use_oue=True)),
        ("pure-ldp", "OLH"): pure(LHClient(1.0, cells, use_olh=True), LHServer(1.0, cells, use_olh=True)),
    }
    for (package, name), work in works.items():
        work(values[:100])
        times = []
        for _ in range(3):
            before = time.process_time()
            work(values)
            times.append(time.process_time() - before)
        out[f"{package} {name} {cells}"] = min(times) / REPORTS
print(json.dumps(out))
"""


def run() -> list[dict[str, Any]]:
    peers = _peers()
    rows = []
    for cells in (8, 64):
        codes = np.random.default_rng(1).integers(0, cells, (1, REPORTS))
        for name, kind in ORACLES.items():
            oracle = kind.of((cells,), Fraction(1))
            seconds = cpu_seconds(partial(generate_and_aggregate, oracle, codes))
            found = {key: each for key, each in peers.items() if key.endswith(f" {name} {cells}")}
            for key, each in found.items():
                target = TARGETS[name] if key.startswith("multi") else None
                work = f"{REPORTS:,} local reports, {name}, {cells} cells, beside {key.split()[0]}"
                rows.append(row(work, seconds, each * REPORTS, target))
            if not found:
                floor = cpu_seconds(lambda: ssl.RAND_bytes(8 * REPORTS))
                work = f"{REPORTS:,} local reports, {name}, {cells} cells, beside 8 random bytes each"
                rows.append(row(work, seconds, floor, None))
    return rows


def generate_and_aggregate(oracle: ViewOracle, codes: np.ndarray) -> np.ndarray:
    """Every report drawn, counted, and made an estimate."""
    drawn = answers(oracle, codes)
    if oracle.answers.masked:
        from crosstally.kernels.local import count_masks

        slots = np.zeros(oracle.slots, np.int64)
        size = np.array([oracle.slots])
        count_masks(np.zeros(len(drawn), np.int64), drawn, np.zeros(1, np.int64), size, slots)
    else:
        slots = np.bincount(drawn.view(np.int64), minlength=oracle.slots)
    true, false = float(oracle.true), float(oracle.false)
    return (oracle.supports(slots) / len(drawn) - false) / (true - false)


def _peers() -> dict[str, float]:
    python = os.environ.get("CROSSTALLY_PEERS")
    if not python:
        return {}
    code = PEERS.replace("REPORTS", str(PEER_REPORTS))
    done = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    for each in run():
        print("{work}: {crosstally:.4f} s, {ratio:.4f} x {peer:.4f} s, target {target}, met {met}".format_map(each))
