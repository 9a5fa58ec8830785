"""Walk from rows to answers, and see which files of crosstally are touched and that every call goes downwards.

    python scripts/walk.py [--files] [--rows 1000]

Walks over generated people: a row of a CSV file to a printed table, a plan, a paid question, a free estimate, a report
of the local model to its release, a release's file to a table that was not measured; and the command line.

A call from one file to another must follow the layers of ``.importlinter``: downwards, or inside a layer. What a higher
layer hands down may be called from below: functions made for one call (progress), iterables, and methods of values that
a lower layer knows only by a protocol. The first two are recognised by their code, the last must be named and explained
in ``HANDED_DOWN``. Any other call upwards is an error: exit code 1. Files of compiled kernels are not counted.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import csv
import inspect
import io
import pkgutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow

import crosstally as ct
from crosstally.cli import main as command
from crosstally.generate.people import people

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(ct.__file__).resolve().parent
FEWEST_ROWS = 1000  # a collector releases nothing before so many reports
HANDED_DOWN: Mapping[str, str] = {
    "releases.release:Release._bootstrap": "the first interval asks its release for replicates of the inference",
    "strategies.goal:_Forecast.__init__": "planning fills in the error to expect of a plan",
    "strategies.goal:_Forecast.rms_error": "and the plan reads it there",
    "releases.release:Release._sizes": "and learn from it how large interactions are",
    "releases.release:Release._held_out": "and unmeasured tables ask for its model when the first is asked for",
    "privacy.noise:Mechanism._drawn": "threads are given the work that they do",
    "sources.source:RowEncoding.coded": "so they are",
    "cli.interrupts:before_charge": "the terminal gives the ledger a last check for Ctrl-C before a charge",
}
"""Why a method of a higher layer is called from a lower one, by module and name."""


_MUCH = 10
"""Epsilon of releases that choose what to measure: with 1, one in thirty measures no table over sex and age, and its
intervals are bounds. A walk should be the same every time."""


# Layers


@dataclass(frozen=True, slots=True)
class Layer:
    """Where a direct child of the package stands: 0 is the highest; the children of some layers are kept apart."""

    height: int
    apart: bool


def layers(contract: Path = ROOT / ".importlinter") -> dict[str, Layer]:
    """The layer of each direct child of the package."""
    parser = configparser.ConfigParser()
    parser.read(contract, encoding="utf-8")
    lines = [line for line in parser["importlinter:contract:layers"]["layers"].split("\n") if line.strip()]
    return {
        name: Layer(height, "|" in line)
        for height, line in enumerate(lines)
        for name in line.replace("|", " ").replace(":", " ").split()
    }


def child_of(file: str) -> str:
    """The direct child of the package that a file is, or lies in."""
    return file.split("/", maxsplit=1)[0].removesuffix(".py")


# Calls


@dataclass(frozen=True, slots=True)
class Call:
    """A call from one file of the package to another, both as paths inside it."""

    caller: str
    callee: str
    function: str
    flags: int

    @property
    def handed(self) -> str | None:
        """What kind of thing handed down was called, if its code tells."""
        if self.flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            return "an iterable"
        return "a function made for one call" if "<" in self.function else None

    @property
    def name(self) -> str:
        """Module and function."""
        return f"{self.callee.removesuffix('.py').replace('/', '.')}:{self.function}"


@dataclass(slots=True)
class Trace:
    """The files in which a function ran, and the calls between them."""

    files: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    calls: Counter[Call] = field(default_factory=Counter)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; bodies of modules and classes are imports, which have contracts of their own."""
        if event != "call" or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        callee = _inside(frame.f_code)
        if callee is None:
            return
        self.files.add(callee)
        self.functions.add((callee, frame.f_code.co_qualname))
        back = frame.f_back
        while back is not None:
            caller = _inside(back.f_code)
            if caller is not None:
                if caller != callee:
                    code = frame.f_code
                    self.calls[Call(caller, callee, code.co_qualname, code.co_flags)] += 1
                return
            back = back.f_back


_PATHS: dict[str, str | None] = {}


def _inside(code: CodeType) -> str | None:
    """The file of some code inside the package; None when it is outside."""
    name = code.co_filename
    if name not in _PATHS:
        path = Path(name)
        _PATHS[name] = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None
    return _PATHS[name]


@contextlib.contextmanager
def traced() -> Iterator[Trace]:
    """Note every call that is made inside."""
    trace = Trace()
    before = sys.getprofile()
    cores = pyarrow.cpu_count()
    pyarrow.set_cpu_count(1)  # work is then done in this thread, the only one that is traced
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        pyarrow.set_cpu_count(cores)


def upward(trace: Trace, placed: Mapping[str, Layer]) -> list[Call]:
    """The calls that go to a higher layer, or from one child to another of a layer whose children are kept apart."""
    found = []
    for call in trace.calls:
        caller, callee = child_of(call.caller), child_of(call.callee)
        if callee == "__init__":  # a public name of the package, which is loaded when it is first used
            continue
        below, above = placed[caller], placed[callee]
        if above.height < below.height or (above == below and above.apart and caller != callee):
            found.append(call)
    return sorted(found, key=lambda call: (call.callee, call.function, call.caller))


# The walks


def walks(folder: Path, rows: int) -> dict[str, Callable[[], object]]:
    """What each walk runs; what it needs is made here, and is not traced."""
    table, schema = people(rows, np.random.default_rng(1))
    source, reviewed, published = (folder / name for name in ("people.csv", "people.schema.json", "people.parquet"))
    with source.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    schema.save(reviewed)
    ct.release(table, schema, epsilon=1.0, strategy="direct").save(published)
    book = ct.open_notebook(ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=Fraction(3))))
    book.ask(table, "sex = Female", epsilon=0.5)
    single = ct.release(table, schema, workload=ct.Workload([("sex",), ("age",)]), epsilon=1.0, strategy="direct")
    approved = ct.plan(schema, rows=rows, epsilon=_MUCH).chosen
    smallest = ct.plan(schema, workload=ct.Workload([("sex", "age")]), epsilon=1.0, strategy="direct").chosen
    protocol = ct.local.design(schema, epsilon=1.0, people=rows, ways=2)
    answers = table.to_pylist()

    def reported() -> ct.Release:
        collector = ct.local.Collector(protocol)
        for row in answers:
            collector.add(protocol.report(row, store={}, cap="1"))
        return collector.release()

    def commanded() -> None:
        released = folder / "walked.parquet"
        words = ["release", source, "--schema", reviewed, "--epsilon", _MUCH, "-o", released]
        for arguments in (words, ["table", released, "sex", "age"]):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = command([str(argument) for argument in arguments])
            if code:
                raise SystemExit(said.getvalue())

    return {
        "a CSV row to a printed marginal, by an approved plan": lambda: str(
            ct.release(source, plan=approved).marginal("sex", "age")
        ),
        "one table by direct": lambda: str(ct.release(source, plan=smallest).marginal("sex", "age")),
        "ct.plan": lambda: ct.plan(schema, rows=rows, epsilon=1.0),
        "notebook.ask": lambda: book.ask(table, "age < 35 and sex = Male", epsilon=0.5),
        "notebook.estimate": lambda: book.estimate("age < 35 and region = North"),
        "a local report to a release": reported,
        "a release's file to an unmeasured table": lambda: str(
            ct.open_release(published).marginal("sex", "age", "region", "home")
        ),
        "one-way tables to bounds of a pair, and to the total": lambda: [
            str(single.marginal(*names)) for names in (("sex", "age"), ())
        ],
        "the commands release and table": commanded,
    }


def import_everything() -> None:
    """Load all modules, so that what runs when a module is first imported is part of no walk."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "crosstally."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def forget_everything() -> None:
    """Clear what functions remember from earlier walks, so that each walk makes all its calls."""
    for name, module in list(sys.modules.items()):
        if name.startswith("crosstally"):
            for value in vars(module).values():
                getattr(value, "cache_clear", lambda: None)()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the walks; 1 if a call goes upwards without an explanation."""
    parser = argparse.ArgumentParser(description="files touched between rows and answers, and calls that go upwards")
    parser.add_argument("--rows", type=int, default=FEWEST_ROWS, help="generated people")
    parser.add_argument("--files", action="store_true", help="list the files of each walk")
    given = parser.parse_args(arguments)
    if given.rows < FEWEST_ROWS:
        parser.error(f"rows must be at least {FEWEST_ROWS}, got {given.rows}")
    import_everything()
    placed, wrong = layers(), 0
    with tempfile.TemporaryDirectory() as folder:
        prepared = walks(Path(folder), given.rows)
        for name, walk in prepared.items():
            forget_everything()
            with traced() as trace:
                walk()
            print(f"{name}: {len(trace.files)} files")
            if given.files:
                print(*(f"    {file}" for file in sorted(trace.files)), sep="\n")
            wrong += _tell(upward(trace, placed))
    print("no call goes upwards" if not wrong else f"{wrong} calls go upwards")
    return 1 if wrong else 0


def _tell(calls: Sequence[Call]) -> int:
    """Print calls that go upwards, with what explains them; how many nothing explains."""
    wrong = 0
    for call in calls:
        why = call.handed or HANDED_DOWN.get(call.name)
        wrong += why is None
        print(f"    {'handed down' if why else 'UPWARDS'}: {call.caller} -> {call.name}{f' ({why})' if why else ''}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
