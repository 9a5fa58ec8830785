"""Many processes at one ledger, and processes that are killed at any moment."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crosstally.budget import Budget, Currency, Neighbours, Noise
from crosstally.errors import ChargeLostError, OverspendError
from crosstally.measurements import ExactTable
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy import measure as door
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import State
from crosstally.privacy.measure import measure
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema
from crosstally.workload import Workload

SCHEMA = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", ["young", "old"])])
EXACT = [ExactTable(SCHEMA, np.array([[1, 2], [3, 4]]))]

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["crosstally.privacy.measure", "opendp.prelude"])


def plan_of(spend: str, currency: Currency = "epsilon") -> Plan:
    query, budget = Cells(("sex", "age")), Budget.from_dict({currency: spend})
    noise = Noise.affordable(query.sensitivity(SCHEMA, Neighbours.ADD_REMOVE), budget.amount, currency=currency)
    return Plan(
        SCHEMA,
        (Request(query, noise),),
        strategy="flat",
        workload=Workload([("sex",)]),
        budget=budget,
        neighbours=Neighbours.ADD_REMOVE,
    )


# Spending together


def spend_many(path: Path, name: int, spends: int, together: Any, accepted: Any) -> None:
    """In a process of its own: spend again and again, and tell how often that was accepted."""
    mine = 0
    together.wait()
    ledger = Ledger.open(path)
    plan = plan_of("0.01", ledger.currency)
    for i in range(spends):
        try:
            mine += ledger.charge(plan, f"{name}-{i}")
        except OverspendError:
            continue
    accepted.put(mine)


@pytest.mark.parametrize(
    ("processes", "spends", "currency", "cap", "fits"),
    [
        (8, 8, "epsilon", "0.405", 40),
        (8, 8, "mu2", "0.405", 40),
        pytest.param(64, 32, "epsilon", "10.005", 1000, marks=pytest.mark.verify),
    ],
)
def test_processes_together_spend_exactly_what_fits(
    tmp_path: Path, *, processes: int, spends: int, currency: Currency, cap: str, fits: int
) -> None:
    ledger = Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=Budget.from_dict({currency: cap}))
    together, accepted = PROCESSES.Barrier(processes), PROCESSES.SimpleQueue()
    workers = [
        PROCESSES.Process(target=spend_many, args=(ledger.path, name, spends, together, accepted))
        for name in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * processes
    assert sum(accepted.get() for _ in workers) == fits
    assert ledger.spent == fits * Fraction(1, 100)
    assert len(ledger.entries()) == fits
    ledger.verify()


def raise_often(path: Path, caps: Sequence[str], together: Any) -> None:
    """In a process of its own: put one higher cap after another on record while others spend."""
    together.wait()
    ledger = Ledger.open(path)
    for cap in caps:
        ledger.raise_cap(Budget(epsilon=cap))
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("processes", "spends"), [(6, 8), pytest.param(64, 32, marks=pytest.mark.verify)], ids=["few", "64"]
)
def test_processes_never_spend_more_than_the_cap_on_record_while_it_is_raised(
    tmp_path: Path, processes: int, spends: int
) -> None:
    """Every charge is looked at in the order of the chain: with the caps before it, the sum fits at each event."""
    ledger = Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=Budget(epsilon="0.05"))
    caps = [f"0.{tenths}5" for tenths in range(1, 4)]
    together, accepted = PROCESSES.Barrier(processes + 1), PROCESSES.SimpleQueue()
    workers = [
        PROCESSES.Process(target=spend_many, args=(ledger.path, name, spends, together, accepted))
        for name in range(processes)
    ]
    workers.append(PROCESSES.Process(target=raise_often, args=(ledger.path, caps, together)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * (processes + 1)
    assert sum(accepted.get() for _ in range(processes)) == len(ledger.entries())
    assert [str(raised.budget) for raised in ledger.caps] == [f"ε = {cap}" for cap in caps]
    cap, spent = Fraction("0.05"), Fraction(0)
    with sqlite3.connect(tmp_path / "people.ledger") as connection:
        for kind, cost, request in connection.execute("SELECT kind, cost, request FROM events ORDER BY number"):
            cap = Fraction(json.loads(request)["cap"]["epsilon"]) if kind == "raised" else cap
            spent += Fraction(cost) if kind == "charged" else 0
            assert spent <= cap
    connection.close()
    assert spent == ledger.spent
    ledger.verify()


# Dying at any moment


def fingerprint(values: Sequence[NDArray[np.int64]]) -> str:
    return hashlib.sha256(b"".join(each.tobytes() for each in values)).hexdigest()


class Diary:
    """A file in which a process notes what it has seen, line by line, so that a kill loses no line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, *words: str) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write((" ".join(words) + "\n").encode())

    def lines(self) -> list[list[str]]:
        return (
            [line.split() for line in self.path.read_text(encoding="utf-8").splitlines()] if self.path.exists() else []
        )


def watch_draws(diary: Diary, generator: random.Random, patch: Any) -> None:
    """Note every noise vector that is ever drawn, before it is stored, and dawdle around it."""
    draw = door._draw

    def noted(*given: Any) -> list[NDArray[np.int64]]:
        time.sleep(generator.uniform(0, 0.01))
        drawn = draw(*given)
        diary.note("drawn", os.environ["CROSSTALLY_TEST_KEY"], fingerprint(drawn))
        time.sleep(generator.uniform(0, 0.01))
        return drawn

    patch(door, "_draw", noted)


def live(path: Path, round_number: int, diary_path: Path) -> None:
    """In a process of its own: measure and deliver under one key after another, until killed."""
    diary, generator = Diary(diary_path), random.Random(round_number)
    watch_draws(diary, generator, setattr)
    ledger = Ledger.open(path)
    plan = plan_of("0.001", ledger.currency)
    diary.note("alive", str(round_number))
    for i in count():
        key = f"{round_number}-{i}"
        os.environ["CROSSTALLY_TEST_KEY"] = key
        diary.note("begun", key)
        measured = measure(EXACT, plan, ledger=ledger, key=key)
        diary.note("measured", key, fingerprint([each.values for each in measured]))
        time.sleep(generator.uniform(0, 0.005))
        ledger.delivered(key)
        diary.note("delivered", key)


def killed(path: Path, round_number: int, diary: Diary, generator: random.Random) -> None:
    """A process that lives for a random time and is killed."""
    process = PROCESSES.Process(target=live, args=(path, round_number, diary.path))
    process.start()
    while ["alive", str(round_number)] not in diary.lines():
        assert process.is_alive()
        time.sleep(0.002)
    time.sleep(generator.uniform(0, 0.15))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    process.close()


def how_far(ledger: Ledger, notes: dict[str, list[str]], key: str) -> str:
    """Where the kill struck."""
    states = {entry.key: entry.state for entry in ledger.entries()}
    if key not in states:
        return "before the charge"
    if states[key] is State.CHARGED:
        return "after the draw" if "drawn" in notes else "after the charge"
    if states[key] is State.STORED:
        return "after it was returned" if "measured" in notes else "after it was stored"
    return "after the delivery"


@pytest.mark.parametrize(
    ("kills", "currency"), [(12, "epsilon"), (6, "mu2"), pytest.param(200, "epsilon", marks=pytest.mark.verify)]
)
def test_kills_lose_nothing_acknowledged_and_never_draw_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int, currency: Currency
) -> None:
    ledger = Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=Budget.from_dict({currency: 1000}))
    assert ledger.path is not None
    diary, generator, plan = Diary(tmp_path / "diary"), random.Random(20_240_607), plan_of("0.001", currency)
    watch_draws(diary, generator, monkeypatch.setattr)
    struck: Counter[str] = Counter()
    for round_number in range(kills):
        killed(ledger.path, round_number, diary, generator)
        last = [words[1] for words in diary.lines() if words[0] == "begun"][-1:]
        for key in last:
            notes = {words[0]: words[2:] for words in diary.lines() if words[1] == key}
            struck[how_far(Ledger.open(ledger.path), notes, key)] += 1
            monkeypatch.setenv("CROSSTALLY_TEST_KEY", key)
            try:
                again = measure(EXACT, plan, ledger=ledger, key=key)
            except ChargeLostError:
                assert "measured" not in notes
            else:
                diary.note("measured", key, fingerprint([each.values for each in again]))
    check_diary(diary, ledger)
    if kills >= 200:
        assert len(struck) == 6, struck


def check_diary(diary: Diary, ledger: Ledger) -> None:
    """Everything acknowledged is in the ledger, as it was acknowledged; no key has two noise vectors."""
    drawn, measured = defaultdict(list), defaultdict(set)
    for kind, key, *rest in diary.lines():
        if kind == "drawn":
            drawn[key] += rest
        elif kind == "measured":
            measured[key] |= set(rest)
    assert all(len(vectors) == 1 for vectors in drawn.values())
    states = {entry.key: entry.state for entry in ledger.entries()}
    for key, vectors in measured.items():
        assert vectors == set(drawn[key]) == {fingerprint([each.values for each in ledger.measurements(key)])}
    assert all(states[words[1]] is State.DELIVERED for words in diary.lines() if words[0] == "delivered")
    assert set(drawn) <= set(states)
    assert ledger.spent == len(states) * Fraction(1, 1000)
    ledger.verify()


def create_many(folder: Path) -> None:
    """In a process of its own: create one ledger after another, until killed."""
    for i in count():
        Ledger.create(folder / f"{i}.ledger", schema=SCHEMA, budget=Budget(epsilon=1))


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.verify)])
def test_a_killed_create_leaves_a_whole_ledger_or_none(tmp_path: Path, kills: int) -> None:
    generator = random.Random(7)
    for i in range(kills):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = PROCESSES.Process(target=create_many, args=(folder,))
        process.start()
        while not any(folder.iterdir()):
            assert process.is_alive()
            time.sleep(0.001)
        time.sleep(generator.uniform(0, 0.05))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        for path in folder.glob("*.ledger"):
            Ledger.open(path).verify()
