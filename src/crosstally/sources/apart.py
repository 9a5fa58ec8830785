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
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.checks import optional
from crosstally.errors import CrosstallyError, SourceError
from crosstally.platform_files import limit_process
from crosstally.schema import canonical_text
from crosstally.sources.drivers import column_of
from crosstally.sources.guard import guarded, how_to_say
from crosstally.sources.reading_options import Reading
from crosstally.sources.source import OpenedFile, Read

# Sheets of workbooks: Excel and OpenDocument.


# fastexcel writes a date as a moment with a blank; CSV files have the date, or a T between the two.
_MIDNIGHT = r"^(\d{4}-\d{2}-\d{2}) 00:00:00$"
_MOMENT = r"^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}(?:\.\d+)?)$"


def open_sheet(path: Path, reading: Reading) -> OpenedFile:
    """The names of a sheet's columns, and a function that reads some of them."""
    cells = _cells(path, reading)
    line = 1 if reading.header is None else reading.header
    if line and cells.num_rows < line:
        raise SourceError(f"cannot read {str(path)!r}: it is empty, without even a header")
    names = [f"column_{place}" for place in range(1, cells.num_columns + 1)]
    if line:
        names = [column[line - 1].as_py() or "" for column in cells.columns]
    return names, lambda chosen: _read(cells.slice(line), names, chosen, path.stat().st_size)


def _cells(path: Path, reading: Reading) -> pa.RecordBatch:
    """All cells as texts, the names among them.

    As texts, since a type for a whole column would depend on all its rows: one word in it would change how the dates of
    others are written.
    """
    path.stat()  # the system's own error, when it is not there
    book = optional("fastexcel", extra="files").read_excel(str(path))
    sheet = _sheet(path, book.sheet_names, reading.sheet)
    loaded = book.load_sheet(sheet, header_row=None, schema_sample_rows=None, dtypes="string")
    return pa.record_batch(loaded)


def _sheet(path: Path, names: Sequence[str], wanted: str | int | None) -> Any:
    if wanted is None and len(names) == 1:
        return 0
    if wanted is None:
        raise SourceError(f"{str(path)!r} has {len(names)} sheets: say {how_to_say('sheet')}, its name or its number")
    place = names.index(wanted) if wanted in names else int(wanted) - 1 if str(wanted).isdecimal() else len(names)
    if not 0 <= place < len(names):
        raise SourceError(f"{str(path)!r} has no sheet {wanted!r} among its {len(names)}")
    return place


def _read(
    cells: pa.RecordBatch, names: Sequence[str], chosen: Sequence[str], size: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    # A row without any cell is not a person: programs leave such rows behind when rows are deleted.
    filled = pa.array([False] * cells.num_rows)
    for column in cells.columns:
        filled = pc.or_(filled, column.is_valid())
    columns = [_texts(cells.column(names.index(name)).filter(filled)) for name in chosen]
    yield pa.record_batch(columns, names=list(chosen)), size


def _texts(column: pa.Array) -> pa.Array:
    texts = pc.cast(column, pa.large_string())
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, _MIDNIGHT, r"\1"), _MOMENT, r"\1T\2")


# Files of SPSS, SAS and Stata, with the labels of their codes; what they mark as missing is missing.


READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".dta": "read_dta",
}
_CHUNK_ROWS = 100_000  # rows of a batch: limits memory. More than elsewhere, for every batch opens the file anew


def open_statistical(path: Path, reading: Reading) -> OpenedFile:
    """The names of a file's columns, and a function that reads some of them."""
    path.stat()  # the system's own error, when it is not there
    package = optional("pyreadstat", extra="files")
    reader = getattr(package, READERS[path.suffix.lower()])
    options: dict[str, Any] = {"output_format": "dict"}
    if reading.encoding is not None:
        options["encoding"] = reading.encoding
    _, found = reader(str(path), metadataonly=True, **options)
    labels = found.variable_value_labels

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        start = 0
        while True:
            columns, _ = reader(str(path), usecols=list(chosen), row_offset=start, row_limit=_CHUNK_ROWS, **options)
            rows = len(next(iter(columns.values()), ()))
            if not rows:
                return
            start += rows
            arrays = [_column(columns[name], labels.get(name, {})) for name in chosen]
            yield pa.record_batch(arrays, names=list(chosen)), 0

    return list(found.column_names), read


def _column(values: Sequence[object], labels: Mapping[object, str]) -> pa.Array:
    """The values, a code that has a label as its label.

    What the file marks as missing comes as None, or as an empty text.
    """
    if not labels:
        return column_of(values)
    texts = {canonical_text(code): label for code, label in labels.items()}
    if None in texts:
        raise SourceError("a missing value has a label")
    return pa.array([texts.get(text, text) for text in map(canonical_text, values)], pa.large_string())


MEMORY, SECONDS = "CROSSTALLY_READ_MEMORY", "CROSSTALLY_READ_SECONDS"
"""The environment variables that set the limits: gigabytes, and seconds of CPU time."""
_GIGABYTES, _CPU_SECONDS = 4.0, 600.0  # limits of harm, chosen: whoever needs more sets more
_ROWS = 65_536  # rows of a batch on their way through the pipe
# The child finds packages where this process does, and nothing in the folder it happens to be started in (-P).
_START = "import sys; sys.path[:] = sys.argv[1:]; from crosstally.sources.apart import serve; serve()"


def _number(name: str, otherwise: float) -> float:
    text = os.environ.get(name, "")
    try:
        number = float(text) if text else otherwise
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise SourceError(f"{name} must be a positive number, got {text[:40]!r}")
    return number


def open_apart(kind: str, path: Path, reading: Reading) -> OpenedFile:
    """The names of a file's columns, and a function that reads some of them, once; both in a child."""
    path.stat()  # the system's own error, when it is not there
    child = _Child(path)
    request = {"kind": kind, "path": str(path), "reading": reading.to_dict()}
    names = child.asked({**request, "gigabytes": child.gigabytes, "seconds": child.seconds})
    return names, child.rows


class _Child:
    """The process that reads one file. It ends with this object, at the latest.

    Reading may take as much memory and CPU time as the environment says, else 4 GB and ten minutes.
    """

    def __init__(self, path: Path) -> None:
        self.gigabytes, self.seconds = _number(MEMORY, _GIGABYTES), _number(SECONDS, _CPU_SECONDS)
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
            reason = f"reading it takes more than {self.seconds:g} s of CPU time; if it is right, set {SECONDS}"
        else:
            reason = (
                f"its reader failed, or needs more than {self.gigabytes:g} GB of memory; clear cells far away "
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
    opener = open_sheet if request["kind"] == "sheet" else open_statistical
    return opener(Path(request["path"]), Reading.from_dict(request["reading"]))


def _copy(read: Read, chosen: list[str], rows: Any) -> None:
    writer = None
    for batch, _ in read(chosen):
        writer = writer or pa.ipc.new_stream(rows, batch.schema)
        for start in range(0, batch.num_rows, _ROWS):
            writer.write_batch(batch.slice(start, _ROWS))
    if writer is None:
        writer = pa.ipc.new_stream(rows, pa.schema([(name, pa.null()) for name in chosen]))
    writer.close()
    rows.flush()
