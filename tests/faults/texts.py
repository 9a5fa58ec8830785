"""Text files that are refused, plain and packed, each read in a process of its own that must end by itself.

Arrow reads ahead in threads. One that still reads when the error leaves hangs the process or aborts it while the
interpreter ends, so each case is a forked child that ends as a command does, with a time limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa

import crosstally as ct
from crosstally.errors import CrosstallyError
from crosstally.sources import Reading, source_of
from crosstally.sources.source import RowEncoding
from crosstally.sources.text_files import COMPRESSIONS

__all__ = ["REFUSALS", "refused"]

_SCHEMA = ct.Schema([ct.Attribute("sex", ["f", "m"]), ct.Attribute("age", edges=[0, 18, 65, 99])])
_LIMIT = 10  # seconds for one file; they take 0.1, and those of 30 MB with a look at every row 1
_KEPT: list[BaseException] = []  # what holds frames until the interpreter ends
_NAMES = b"sex,age,note\n"


@dataclass(frozen=True)
class Refusal:
    """What stands before a text's good rows, and after them; how it is read, and a part of the line that refuses it."""

    head: bytes
    reason: str
    reading: tuple[tuple[str, str], ...] = ()
    end: bytes = b""
    raised: BaseException | None = None
    """What whoever counts the rows raises after the first batch: a label outside the schema, an interrupt."""


_RAGGED = "the row at line 3 has 2 fields, the names have 3"
REFUSALS = {
    "short row": Refusal(_NAMES + b"f,30,a\nf,30\n", _RAGGED),
    "long row": Refusal(_NAMES + b"f,30,a\nf,30,a,b\n", "the row at line 3 has 4 fields"),
    "short row at the end": Refusal(_NAMES, "has 2 fields, the names have 3", end=b"f,30\n"),
    "short row, recoded": Refusal(_NAMES + b"f,30,\xe9\nf,30\n", _RAGGED, (("encoding", "cp1252"),)),
    "quote never closed": Refusal(_NAMES + b'f,30,"a\n', "a quote"),
    "quote inside a field": Refusal(_NAMES + b'f,30,"a\nm,40,"b"\n', "a quote in the row at line 3"),
    "not UTF-8": Refusal(_NAMES + b"\xff,30,a\n", "it is not UTF-8 text"),
    "not the encoding said": Refusal(_NAMES + b"f,30,\x81\n", "it is not cp1252 text", (("encoding", "cp1252"),)),
    "UTF-8 after all": Refusal(_NAMES + "f,30,é\n".encode(), "it is UTF-8 text", (("encoding", "cp1252"),)),
    "outside the schema": Refusal(_NAMES, "outside", raised=CrosstallyError("outside")),
    "number of two meanings": Refusal(_NAMES + b"f,1.500,a\n", "age"),
    "no such column": Refusal(b"sex,years,note\n", "has no column 'age'"),
    "interrupted": Refusal(_NAMES, "interrupted", raised=KeyboardInterrupt()),
    "cut short": Refusal(_NAMES, "it is damaged, cut short"),
}


def refused(folder: Path, *, megabytes: int, times: int) -> Counter[str]:
    """Read each text this often; how many ended as they must. Raises where one did not, and says which and how."""
    cases = dict(_written(folder, megabytes))
    (folder / "cases.json").write_text(json.dumps(cases))
    ran = subprocess.run(
        [sys.executable, "-m", "faults.texts", folder / "cases.json", str(times)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    ended: Counter[str] = Counter()
    wrong = []
    for name, how, said in json.loads(ran.stdout):
        if how == 2 and REFUSALS[name.split(" / ")[0]].reason in said:
            ended[name] += 1
        else:
            wrong.append(f"{name}: {how}, {said[-300:]}")
    assert not wrong, f"{len(wrong)} did not end as they must:\n" + "\n".join(wrong)
    return ended


def _written(folder: Path, megabytes: int) -> Iterator[tuple[str, str]]:
    """The name of each case and its file. Packed texts are made of three frames, so that the rows are packed once."""
    random, rows = Random(megabytes), bytearray()
    while len(rows) < megabytes << 20:
        some = [f"{random.choice('fm')},{random.randrange(99)},{random.getrandbits(80):x}" for _ in range(10_000)]
        rows += "\n".join([*some, ""]).encode()
    for ending in ("", *COMPRESSIONS):
        body = _packed(folder, bytes(rows), ending)
        for name, refusal in REFUSALS.items():
            if name == "cut short" and not ending:
                continue  # half a plain text is a text
            packed = _packed(folder, refusal.head, ending) + body + _packed(folder, refusal.end, ending)
            path = folder / f"{name}.csv{ending}"
            path.write_bytes(packed[: len(packed) // 2] if name == "cut short" else packed)
            yield f"{name} / {ending or 'plain'}", str(path)


def _packed(folder: Path, content: bytes, ending: str) -> bytes:
    if not content:
        return b""
    path = folder / "packed"
    with pa.output_stream(path, compression=COMPRESSIONS.get(ending)) as file:
        file.write(content)
    return path.read_bytes()


# In the process that forks a child for each case. It reads nothing itself: threads do not live on in a child.


def _read(name: str, path: str) -> int:
    refusal = REFUSALS[name.split(" / ", maxsplit=1)[0]]
    encoding = RowEncoding.of(_SCHEMA, Reading(**dict(refusal.reading)))
    try:
        # Nobody closes these: an error ends what is left of them, and the frames that it carries may keep them.
        read = encoding.batches(source_of(path))
        for _ in read:
            if refusal.raised is not None:
                raise refusal.raised
    except (CrosstallyError, KeyboardInterrupt) as error:
        print(str(error) or "interrupted")
        _KEPT.append(error)
        return 2
    return 0


def _ended(work: Callable[[], int]) -> tuple[object, str]:
    """The exit code of a child, or the signal that ended it, or that it had to be killed; and what it printed."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(into, 1)
        os.dup2(into, 2)
        sys.exit(work())  # not os._exit: the threads are to meet the end of the interpreter
    os.close(into)
    given_up, status = time.monotonic() + _LIMIT, 0
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < given_up:
        time.sleep(0.002)
    if ended[0]:
        status = ended[1]
    else:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 9)
        os.waitpid(child, 0)
    with os.fdopen(out, encoding="utf-8", errors="replace") as said:
        text = said.read()
    return (os.waitstatus_to_exitcode(status) if ended[0] else f"ended by us after {_LIMIT} s"), text


def main() -> None:
    """Read the cases of a file, each in a child, and print how each ended."""
    cases = json.loads(Path(sys.argv[1]).read_text())
    found = [
        (name, *_ended(partial(_read, name, path))) for name, path in cases.items() for _ in range(int(sys.argv[2]))
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
