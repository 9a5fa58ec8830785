"""Interrupts of a command that spends: before the charge nothing is spent, after it everything is delivered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import crosstally as ct
from cli_runs import ran_well, run, write_people, write_schema
from crosstally.cli import interrupts
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import State

# Where the interrupt comes, in the words of the process that gets it. A callback that C calls swallows exceptions, as
# in the release that was charged although it had been stopped.
PLACES = {
    "swallowed": """
import ctypes
def swallowing(count):
    def swallowed(*given, **options):
        ctypes.CFUNCTYPE(None)(interrupt)()
        return count(*given, **options)
    return swallowed
sources.count = swallowing(sources.count)
""",
    "turned into another error": """
def turning(*given, **options):
    try:
        interrupt()
    except KeyboardInterrupt:
        raise SystemError("a result with an exception set") from None
sources.count = turning
""",
    "counting": """
def counting(*_, **__):
    interrupt()
    time.sleep(600)
sources.count = counting
""",
    "drawing": """
def drawing(*given, draw=measure._draw):
    interrupt()
    interrupt()
    return draw(*given)
measure._draw = drawing
""",
    "saving": """
def saving(*given, save=Release.save):
    interrupt()
    save(*given)
    interrupt()
Release.save = saving
""",
    "answering": """
def answering(*given, answers=Notebook._answers):
    interrupt()
    return answers(*given)
Notebook._answers = answering
""",
}
MAIN = """
import os, sys, time
from crosstally import sources
from crosstally.cli import main
from crosstally.notebook.notebook import Notebook
from crosstally.privacy import measure
from crosstally.releases import Release
def interrupt():
    os.kill(os.getpid(), int(sys.argv[1]))
    for _ in range(100):
        pass
{place}
sys.exit(main(sys.argv[2:]))
"""


@dataclass(frozen=True)
class Steward:
    """Somebody with a private table and a ledger, who interrupts commands."""

    folder: Path

    @property
    def ledger(self) -> Ledger:
        return Ledger.open(self.folder / "l.ledger")

    @property
    def output(self) -> Path:
        return self.folder / "out.parquet"

    def interrupted(self, place: str, number: signal.Signals, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", MAIN.format(place=PLACES[place]), str(int(number)), *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def release(self, *more: object) -> list[object]:
        schema = self.folder / "people.schema.json"
        fixed = ["release", self.folder / "people.csv", "--schema", schema, "--epsilon", "1", "--tables", "sexe"]
        return [*fixed, "-o", self.output, *more]

    def ask(self) -> list[object]:
        return [
            "ask",
            self.folder / "people.csv",
            "--ledger",
            self.folder / "l.ledger",
            "sexe = Femme",
            "--epsilon",
            "1",
        ]


@pytest.fixture
def steward(tmp_path: Path) -> Steward:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "people.schema.json")
    ran_well("ledger", "create", tmp_path / "l.ledger", "--schema", tmp_path / "people.schema.json", "--epsilon", "10")
    return Steward(tmp_path)


@pytest.mark.parametrize(
    ("place", "number", "code"),
    [
        ("swallowed", signal.SIGINT, 130),
        ("swallowed", signal.SIGTERM, 143),
        ("turned into another error", signal.SIGINT, 130),
        ("counting", signal.SIGINT, 130),
    ],
)
def test_an_interrupt_before_the_charge_spends_nothing(
    steward: Steward, place: str, number: signal.Signals, code: int
) -> None:
    ran = steward.interrupted(place, number, *steward.release("--ledger", steward.folder / "l.ledger"))
    assert ran.returncode == code
    assert ran.stderr.endswith("crosstally: stopped\n")
    assert steward.ledger.entries() == ()
    assert not steward.output.exists()


def test_a_new_ledger_goes_away_again_when_an_interrupt_was_swallowed(steward: Steward) -> None:
    assert steward.interrupted("swallowed", signal.SIGINT, *steward.release()).returncode == 130
    assert not (steward.folder / "people.ledger").exists()


@pytest.mark.parametrize(
    ("place", "number"), [("drawing", signal.SIGINT), ("drawing", signal.SIGTERM), ("saving", signal.SIGINT)]
)
def test_after_the_charge_the_release_is_delivered(steward: Steward, place: str, number: signal.Signals) -> None:
    ran = steward.interrupted(place, number, *steward.release("--ledger", steward.folder / "l.ledger", "--quiet"))
    assert ran.returncode == 0
    assert ran.stderr == "crosstally: this is paid for already and is being finished\n"
    assert [entry.state for entry in steward.ledger.entries()] == [State.DELIVERED]
    assert ct.open_release(steward.output).measurements[0].values.shape == (2,)


@pytest.mark.parametrize(("place", "code", "spent"), [("swallowed", 130, 0), ("drawing", 0, 1), ("answering", 0, 1)])
def test_a_question_is_stopped_or_answered(steward: Steward, place: str, code: int, spent: int) -> None:
    ran = steward.interrupted(place, signal.SIGINT, *steward.ask())
    assert (ran.returncode, steward.ledger.spent) == (code, spent)
    assert ("sexe = Femme" in ran.stdout) is bool(spent)


# Where no way back begins


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """A shell lets its background commands ignore Ctrl-C, and what is ignored is not watched."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_at_any_line_of_the_last_look_stops() -> None:
    """The signal is sent before each line in turn: it is raised there, or found by the lines that follow."""
    lines = [line for *_, line in interrupts.before_charge.__code__.co_lines() if line is not None]
    body = sorted(set(lines) - {interrupts.before_charge.__code__.co_firstlineno})
    looks = [
        line
        for line in body
        if "raise" not in Path(interrupts.__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    ]
    assert len(looks) == 2
    for chosen in looks:
        with interrupts.watching(), pytest.raises(KeyboardInterrupt):
            interrupted_at(chosen)


def test_the_later_stages_of_what_is_paid_are_finished() -> None:
    with interrupts.watching():
        interrupts.before_charge()
        signal.raise_signal(signal.SIGINT)  # while the first stage is drawn
        interrupts.before_charge()
    with interrupts.watching(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # the next command starts afresh


def interrupted_at(line: int) -> None:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not interrupts.before_charge.__code__:
            return None
        if event == "line" and frame.f_lineno == line:
            sys.settrace(None)
            frame.f_trace = None
            signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        interrupts.before_charge()
    finally:
        sys.settrace(None)


# Others' handlers


def handlers() -> list[Any]:
    return [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]


def test_the_library_leaves_the_handlers_of_its_host_alone(steward: Steward, monkeypatch: pytest.MonkeyPatch) -> None:
    from crosstally.privacy import measure

    before, draw = handlers(), measure._draw
    seen: list[list[Any]] = []

    def drawn(*given: Any) -> Any:
        seen.append(handlers())
        return draw(*given)

    monkeypatch.setattr(measure, "_draw", drawn)
    schema = ct.Schema.load(steward.folder / "people.schema.json").subset("sexe")
    ct.release(str(steward.folder / "people.csv"), schema, epsilon=1)
    thread = threading.Thread(
        target=ct.release, args=(str(steward.folder / "people.csv"), schema), kwargs={"epsilon": 1}
    )
    thread.start()
    thread.join()
    assert seen == [before, before]
    assert handlers() == before


def test_a_command_restores_the_handlers_and_leaves_others(steward: Steward) -> None:
    before = handlers()
    ran_well(*steward.release("--ledger", steward.folder / "l.ledger"))
    assert handlers() == before
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a command that a shell runs in the background
    try:
        with interrupts.watching():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before[0])


def test_a_command_runs_in_a_thread(steward: Steward) -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run("ledger", "show", steward.folder / "l.ledger").code))
    thread.start()
    thread.join()
    assert codes == [0]


@pytest.mark.parametrize(
    ("raised", "printed"),
    [(KeyboardInterrupt(), ""), (ValueError("row 4711"), "crosstally: an error was passed over: ValueError\n")],
)
def test_what_compiled_code_swallows_is_not_printed_with_its_text(raised, printed, capfd) -> None:
    import ctypes

    def callback() -> None:
        raise raised

    before = sys.unraisablehook
    with interrupts.watching():
        ctypes.CFUNCTYPE(None)(callback)()
    assert sys.unraisablehook is before
    assert capfd.readouterr().err == printed
