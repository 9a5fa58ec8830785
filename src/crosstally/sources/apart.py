"""Files that are read in a process of their own, with limits of memory and time: workbooks, SPSS, SAS and Stata.

A few bytes of such a file can ask for any amount of memory, and its reader then ends the process that it runs in. Here
that is a child; its death is one line. Rows come back through a pipe, as batches of Arrow.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa

from crosstally.errors import CrosstallyError, SourceError
from crosstally.platform_files import limit_process
from crosstally.sources.guard import guarded
from crosstally.sources.reading import Reading

__all__ = ["MEMORY", "SECONDS", "Limits", "open_apart", "serve"]

MEMORY, SECONDS = "CROSSTALLY_READ_MEMORY", "CROSSTALLY_READ_SECONDS"
"""The environment variables that set the limits: gigabytes, and seconds of CPU time."""
_GIGABYTES, _CPU_SECONDS = 4.0, 600.0  # limits of harm, chosen: whoever needs more sets more
_ROWS = 65_536  # rows of a batch on their way through the pipe
# The child finds packages where this process does, and nothing in the folder it happens to be started in (-P).
_START = "import sys; sys.path[:] = sys.argv[1:]; from crosstally.sources.apart import serve; serve()"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much memory, and how much CPU time, reading one file may take."""

    gigabytes: float
    seconds: float

    @classmethod
    def of_environment(cls) -> Limits:
        """As the environment sets them, else 4 GB and ten minutes."""
        return cls(_number(MEMORY, _GIGABYTES), _number(SECONDS, _CPU_SECONDS))


def _number(name: str, otherwise: float) -> float:
    text = os.environ.get(name, "")
    try:
        number = float(text) if text else otherwise
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise SourceError(f"{name} must be a positive number, got {text[:40]!r}")
    return number


def open_apart(
    kind: str, path: Path, reading: Reading
) -> tuple[list[str], Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]]:
    """The names of a file's columns, and a function that reads some of them, once; both in a child."""
    path.stat()  # the system's own error, when it is not there
    child = _Child(path, Limits.of_environment())
    request = {"kind": kind, "path": str(path), "reading": reading.to_dict()}
    names = child.asked({**request, "gigabytes": child.limits.gigabytes, "seconds": child.limits.seconds})
    return names, child.rows


class _Child:
    """The process that reads one file. It ends with this object, at the latest."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.limits = limits
        self._path = path
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._end = weakref.finalize(self, _ended, self._process)

    def asked(self, request: dict[str, Any]) -> list[str]:
        """Send what is to be opened; the names of the columns."""
        _send(self._process, request)
        line = _open(self._process.stdout).readline()
        if not line:
            self._fail()
        return list(json.loads(line))

    def rows(self, chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The batches of the columns named, and 0: how far a child has come is not known."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            _send(self._process, list(chosen))
            stream = _open(self._process.stdout)
            reader = None
            with contextlib.suppress(pa.ArrowException, OSError):  # a child that died: the reason follows below
                reader = pa.ipc.open_stream(stream)
            while (batch := _next(reader)) is not None:
                batch.validate(full=True)
                yield batch, 0
            if self._process.wait() or reader is None:
                self._fail()

    def _fail(self) -> NoReturn:
        """Say why the child ended: in its own words, or by the signal that ended it."""
        said = _open(self._process.stderr).read()
        code = self._process.wait()
        self._end()
        if said:
            raise SourceError(json.loads(said))
        if code == -getattr(signal, "SIGXCPU", 0):
            reason = f"reading it takes more than {self.limits.seconds:g} s of CPU time; if it is right, set {SECONDS}"
        else:
            reason = (
                f"its reader failed, or needs more than {self.limits.gigabytes:g} GB of memory; clear cells far away "
                f"from the others, save it as CSV, or set {MEMORY} to more gigabytes"
            )
        raise SourceError(f"cannot read {str(self._path)!r}: {reason}")


def _next(reader: Any) -> pa.RecordBatch | None:
    if reader is None:
        return None
    try:
        return reader.read_next_batch()
    except (StopIteration, pa.ArrowException, OSError):  # the child's exit code says whether this is the end
        return None


def _send(process: subprocess.Popen[bytes], message: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # it has ended: whoever reads its answer says why
        into = _open(process.stdin)
        into.write(json.dumps(message).encode() + b"\n")
        into.flush()


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            _open(stream).close()
    process.wait()


# In the child


def serve() -> None:
    """Open the file that is asked for, print its names, then the rows of the columns asked for; end."""
    report, rows = os.fdopen(os.dup(2), "w"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # what a reader prints when it fails may quote rows
        os.dup2(nowhere, number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    try:
        request = json.loads(sys.stdin.readline())
        limit_process(int(request["gigabytes"] * 1e9), int(request["seconds"]) + 1)
        source = repr(request["path"])
        names, read = guarded(source, partial(_opened, request))
        rows.write(json.dumps(names).encode() + b"\n")
        rows.flush()
        chosen = sys.stdin.readline()
        if chosen:
            guarded(source, partial(_copy, read, json.loads(chosen), rows))
    except CrosstallyError as error:
        report.write(json.dumps(str(error)))
        report.flush()
        os._exit(2)
    os._exit(0)  # at once: there is nothing to tidy up, and readers take their time


def _opened(request: dict[str, Any]) -> Any:
    from crosstally.sources.sheets import open_sheet
    from crosstally.sources.statistical import open_statistical

    opener = open_sheet if request["kind"] == "sheet" else open_statistical
    return opener(Path(request["path"]), Reading.from_dict(request["reading"]))


def _copy(read: Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]], chosen: list[str], rows: Any) -> None:
    writer = None
    for batch, _ in read(chosen):
        writer = writer or pa.ipc.new_stream(rows, batch.schema)
        for start in range(0, batch.num_rows, _ROWS):
            writer.write_batch(batch.slice(start, _ROWS))
    if writer is None:
        writer = pa.ipc.new_stream(rows, pa.schema([(name, pa.null()) for name in chosen]))
    writer.close()
    rows.flush()
