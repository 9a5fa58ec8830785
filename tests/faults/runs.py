"""Commands in processes of their own that meet a fault, and what must hold afterwards.

A command that spends may end in one of five ways, which are counted:

before     nothing was charged
lost       charged, and a kill came before anything was stored: it is never drawn again, and nobody has seen it
kept       stored in the ledger or on the device: the same numbers can be had again, and were
done       the command ended by itself
refused    the command ended by itself with a line that says why
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

import crosstally as ct
from crosstally.cli import main
from crosstally.errors import ChargeLostError
from crosstally.local.client import FileStore
from crosstally.local.collector import Collector
from crosstally.local.protocol import Protocol
from crosstally.privacy import ledger as ledger_module
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import State

__all__ = ["COMMANDS", "FAULTS", "Place", "run"]

FORMATS = Path(__file__).parent.parent / "formats"
_AT_ONE_PLACE = 25
_NOBODY = 65_534  # the user and group who own nothing
_SCHEMA = {"attributes": [{"name": "sex", "values": ["f", "m"]}, {"name": "age", "edges": [0, 18, 65, 99]}]}
_NEXT_YEAR = {"attributes": [{"name": "sex", "values": ["f", "m"]}, {"name": "age", "edges": [0, 30, 99]}]}
_CAP = ct.Budget(epsilon=10**4, delta="1e-6")


@dataclass(frozen=True)
class Place:
    """A folder with a private table, an account of two schemas, a protocol, a device and a collector."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Place:
        """All that the commands need."""
        (folder / "out").mkdir(parents=True, exist_ok=True)
        (folder / "people.schema.json").write_text(json.dumps(_SCHEMA))
        lines = [f"{'fm'[i % 2]},{i % 90}" for i in range(3_000)]
        (folder / "people.csv").write_text("\n".join(["sex,age", *lines]) + "\n")
        (folder / "next.schema.json").write_text(json.dumps(_NEXT_YEAR))
        schemas = [ct.Schema.load(folder / f"{name}.schema.json") for name in ("people", "next")]
        account = ct.Ledger.create(folder / "people.ledger", schema=schemas[0], budget=_CAP)
        account.admit(schemas[1], at_most=1)
        return cls(folder)

    @property
    def out(self) -> Path:
        """Where releases are written to."""
        return self.folder / "out"

    @property
    def ledger(self) -> Ledger:
        return Ledger.open(self.folder / "people.ledger")


# What is run. Each gives the arguments of a command, and looks afterwards at what it left


def _release(place: Place, key: str) -> list[str]:
    f, schema = place.folder, "next" if key.startswith("release-next") else "people"
    fixed = ["release", f / "people.csv", "--schema", f / f"{schema}.schema.json", "--epsilon", "1", "--tables", "sex"]
    return [
        str(each)
        for each in (
            *fixed,
            "--strategy",
            "direct",
            "--ledger",
            f / "people.ledger",
            "--key",
            key,
            "-o",
            place.out / f"{key}.parquet",
        )
    ]


def _ask(place: Place, key: str) -> list[str]:
    f = place.folder
    of = ["--ledger", f / "people.ledger", "--schema", f / "people.schema.json"]
    fixed = ["ask", f / "people.csv", *of, "sex = f", "--mu2", "1", "--key", key]
    return [str(each) for each in fixed]


def _report(place: Place, key: str) -> list[str]:
    row = json.dumps({"plan": "free", "age": 3, "feature": "on"})
    store = place.folder / f"{key}.store"
    return ["collect", "report", str(FORMATS / "protocol-1.json"), row, "--store", str(store), "--cap", "4"]


def _collect(place: Place, key: str) -> list[str]:
    protocol, reports = FORMATS / "protocol-1.json", FORMATS / "reports-1.bin"
    return ["collect", "release", str(protocol), str(reports), "-o", str(place.out / f"{key}.parquet")]


def _spent(place: Place, key: str, code: int) -> str:
    """How far a command with this key came, after it was looked at, and tried again."""
    states = {entry.key: entry.state for entry in place.ledger.entries()}
    output = place.out / f"{key}.parquet"
    if key not in states:
        assert not output.exists(), "what nobody paid for was delivered"
        return "refused" if code == 2 else "before"
    if states[key] is State.CHARGED:
        assert not output.exists(), "what was not stored was delivered"
        try:
            place.ledger.measurements(key)
        except ChargeLostError:
            return "lost"
        raise AssertionError("nothing is stored, and something was found")
    kept = [m.values for m in place.ledger.measurements(key)]
    again = [*_release(place, key), "--force"] if key.startswith("release") else _ask(place, key)
    if output.exists():
        shown = [m.values for m in ct.open_release(output).measurements]
        assert all(map(np.array_equal, kept, shown)), "other numbers were delivered than were stored"
    assert _quiet(again) == 0, "what was stored cannot be had again"
    after = [m.values for m in place.ledger.measurements(key)]
    assert all(map(np.array_equal, kept, after)), "it was drawn twice"
    return "done" if code == 0 else "kept"


def _reported(place: Place, key: str, code: int) -> str:
    protocol, path = Protocol.load(FORMATS / "protocol-1.json"), place.folder / f"{key}.store"
    held = FileStore(path).get(protocol.id)
    printed = (place.folder / "stdout").read_text().strip()
    if held is None:
        assert not printed, "a report was sent and not stored"
        return "refused" if code == 2 else "before"
    if held == "charged":
        assert not printed, "a report was sent and not stored"
        return "lost"
    assert printed in ("", held), "another report was sent than was stored"
    assert _quiet(_report(place, key)) == 0
    assert base64.b64decode(FileStore(path)[protocol.id]) == base64.b64decode(held)
    return "done" if code == 0 else "kept"


def _collected(place: Place, key: str, code: int) -> str:
    output = place.out / f"{key}.parquet"
    if output.exists():
        assert ct.open_release(output).statement.rows == 200
        return "done" if code == 0 else "kept"
    return "refused" if code == 2 else "before"


def _state(place: Place, key: str) -> Callable[[], int]:
    """A collector that saves its state again and again: a reader sees a whole one at any moment."""

    def work() -> int:
        collector = Collector(Protocol.load(FORMATS / "protocol-1.json"))
        reports = (FORMATS / "reports-1.bin").read_bytes()
        for start in range(0, len(reports), 37 * 5):
            collector.add_many(reports[start : start + 37 * 5])
            collector.save(place.folder / f"{key}.state")
        return 0

    return work


def _saved(place: Place, key: str, code: int) -> str:
    path = place.folder / f"{key}.state"
    if not path.exists():
        return "before"
    reports = Collector.load(path, Protocol.load(FORMATS / "protocol-1.json")).reports
    assert reports == 200 or (reports % 5 == 0 and code != 0)
    return "done" if code == 0 else "kept"


Command = Callable[[Place, str], "list[str] | Callable[[], int]"]
COMMANDS: dict[str, tuple[Command, Callable[[Place, str, int], str]]] = {
    "release": (_release, _spent),
    "release next year": (_release, _spent),
    "ask": (_ask, _spent),
    "report": (_report, _reported),
    "collect release": (_collect, _collected),
    "collect state": (_state, _saved),
}


# Faults


def _sent(number: signal.Signals) -> Callable[[int, float, Random], None]:
    def send(child: int, usual: float, random: Random) -> None:
        time.sleep(random.uniform(0, 1.1 * usual))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    return send


def _left_alone(child: int, usual: float, random: Random) -> None:
    """The fault is in the child's own surroundings."""


def _no_room(_: Place, random: Random) -> None:
    """Files may not grow beyond a random size, as on a full disk; the signal that would end the process is ignored."""
    most = random.choice(
        (0, 1, 100, 1_000, 4_096, 8_192, 20_000, 32_768, 40_000, 60_000, 100_000, 150_000, 200_000, 250_000)
    )
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _closed(place: Place, random: Random) -> None:
    """The folder of everything, or the one of releases alone, cannot be written to; also root, who could, gives up."""
    closed = random.choice((place.folder, place.out))
    for path in (*place.folder.iterdir(), place.folder):
        path.chmod(0o777)
    closed.chmod(0o555)
    if os.getuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)


def _another_time(_: Place, random: Random) -> None:
    """The clock shows any moment of 130 years, mostly before the last charge. The ledger alone looks at it."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(130 * 365 * 86_400))

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            assert tz is UTC
            return moment

    vars(ledger_module)["datetime"] = Clock


def _nothing(_: Place, __: Random) -> None:
    """Nothing is changed."""


Surround = Callable[[Place, Random], None]
FAULTS: dict[str, tuple[Surround, Callable[[int, float, Random], None]]] = {
    "kill": (_nothing, _sent(signal.SIGKILL)),
    "interrupt": (_nothing, _sent(signal.SIGINT)),
    "full disk": (_no_room, _left_alone),
    "closed folder": (_closed, _left_alone),
    "clock": (_another_time, _left_alone),
}


def run(fault: str, command: str, count: int, folder: Path, *, seed: int = 0) -> Counter[str]:
    """Run a command this often with a fault at a random point; raises where what must hold does not."""
    place = Place.make(folder)
    _open_way(folder)
    surround, send = FAULTS[fault]
    made, looked = COMMANDS[command]
    name = command.replace(" ", "-")
    first = made(place, f"{name}-first")
    told = io.StringIO()
    code = first() if callable(first) else _quiet(first, told)  # what it loads is there for all children
    assert code == 0, (code, told.getvalue())
    usual = min(_timed(place, made, f"{name}-warm-{i}") for i in range(2))
    ended: Counter[str] = Counter()
    for i in range(count):
        if i % _AT_ONE_PLACE == 0:  # a question takes longer with every one that was asked before
            place.ledger.verify()
            place = Place.make(folder / str(i))
        random, key = Random(f"{fault} {command} {seed} {i}"), f"{name}-{i}"
        child = _started(place, made(place, key), partial(surround, place, random))
        send(child, usual, random)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for path in (place.folder, place.out):
            path.chmod(0o755)
        errors = (place.folder / "stderr").read_text()
        assert "Traceback" not in errors, errors
        assert code in (0, 2, 130, -signal.SIGKILL, -signal.SIGINT) or (code == 3 and fault != "interrupt"), (
            code,
            errors,
        )
        how = looked(place, key, code)
        assert how != "lost" or fault == "kill", f"{fault}: what was paid is lost"
        assert how == "done" or fault != "clock", f"what a clock shows changed how {command} ended: {how}, {errors}"
        ended[how] += 1
    place.ledger.verify()
    return ended


def _open_way(folder: Path) -> None:
    """Let others pass through the temporary folders above: also one who gave up root's rights finds the place."""
    for each in (folder, *folder.parents):
        if Path(tempfile.gettempdir()) in each.parents:
            each.chmod(each.stat().st_mode | 0o055)


def _timed(place: Place, made: Command, key: str) -> float:
    started = time.monotonic()
    child = _started(place, made(place, key), lambda: None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, (place.folder / "stderr").read_text()
    return time.monotonic() - started


def _started(place: Place, work: list[str] | Callable[[], int], surround: Callable[[], None]) -> int:
    """A child that does the work; it shares nothing that was drawn: randomness comes from the system."""
    sys.stdout.flush()
    sys.stderr.flush()
    for name in ("stdout", "stderr"):  # a kill may come before the child has emptied what the last one said
        (place.folder / name).write_text("")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child can hear it
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return child
    code = 3
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(place.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        surround()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        code = work() if callable(work) else main(work)
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    except KeyboardInterrupt:
        code = 130
    finally:
        os._exit(code)  # nothing before it: an interrupt here would let the child go on as its parent


def _quiet(arguments: list[str], told: io.StringIO | None = None) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO() if told is None else told):
        return main(arguments)
