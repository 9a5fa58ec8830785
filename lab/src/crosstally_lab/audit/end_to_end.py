"""Part three: from rows to file and terminal. What is not noise must be the same for neighbouring tables.

Releases are made by the command line itself, a coin saying for each which of two neighbouring tables is read. Of each
everything is kept that others may see: exit codes, standard output and error, the names of the files that are left, the
header and all columns of the release but the noisy ones, the ledger. Two kinds are told apart:

fixed: must be one and the same in all releases of both tables. Taken out before are the moment of a charge, the random
number of a ledger, and in the ledger hashes and digests, which follow from these and from noise.

drawn: follows from noise, hence differs from release to release: the sizes of both files, answers, and where a stage
chooses what the next one measures all that depends on it. It must not tell the tables apart better than the budget
allows. Half of the releases teach a rule (guess the table that had this value more often), the other half is guessed,
and the Clopper-Pearson bound on right guesses must not be above the promise (``guessing``).

A release moreover has no byte that is not accounted for: its pages, its footer and its marks are all of it.

How long a release takes is not compared: the threat model says so.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from crosstally.budget import Budget
from crosstally_lab.audit.findings import WHOLE, Finding
from crosstally_lab.audit.guessing import FALSE_ALARMS, accuracy_bound, epsilon_bound

RELEASES = 20_000
"""Tosses of the coin for each configuration: about 10,000 releases of each table."""

Run = Callable[[Sequence[str]], tuple[int, str, str]]
"""Runs a command of the command line: its exit code, standard output and standard error."""

_SOURCE, _SCHEMA, _LEDGER, _RELEASE = "people.csv", "people.schema.json", "people.ledger", "people.release.parquet"
_MOST_DRAWN = 10
"""The most kinds of random output of a configuration: they share the false-alarm rate."""

_RANDOM = re.compile(r"(?:(?<=ledger )|(?<=\"id\":\"))[0-9a-f]{16}\b|\bask-[0-9a-f]{12}\b|\b\d{4}-\d\d-\d\dT[0-9:.+]+")
"""The number of a ledger, a generated key, and the time of a charge."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Two neighbouring tables, the commands that are run on each, and what they promise together.

    ``charged`` is what the ledger must say was spent. ``answers`` are commands whose output is noise. ``staged`` says
    that what is measured follows from noise. ``fewer`` divides the number of releases where each takes long.
    """

    subject: str
    first: str
    second: str
    _: KW_ONLY
    schema: Mapping[str, Any]
    commands: tuple[tuple[str, ...], ...]
    accuracy: float
    charged: Fraction
    staged: bool = False
    answers: frozenset[int] = frozenset()
    codes: tuple[int, ...] = ()
    fewer: int = 1


def _right_within(*, epsilon: float = 0.0, delta: float = 0.0, rho: float = 0.0) -> float:
    """How often a guess may be right: by epsilon, or by rho through Pinsker's inequality (KL is at most rho)."""
    if rho:
        return 0.5 + math.sqrt(rho / 2) / 2
    return (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))


_PLAIN = {"attributes": [{"name": "sex", "values": ["F", "M"]}, {"name": "age", "values": ["young", "old"]}]}
_UNITS = {**_PLAIN, "unit": {"id": "id", "max_rows": 2}}
_LOOSE = {
    "attributes": [
        {"name": "sex", "values": ["F", "M"], "outside": "drop"},
        {"name": "age", "edges": [0, 18, 65], "outside": "other", "missing": True},
    ]
}
_PEOPLE = "id,sex,age\n1,F,young\n2,M,old\n3,F,old\n4,M,young\n5,F,young\n"
_AGED = "id,sex,age\n1,F,17\n2,M,\n3,F,65\n4,X,12\n5,M,1000\n"
_ONE_MORE = _PEOPLE + "6,M,old\n"
_OTHER = _PEOPLE.replace("5,F,young", "5,M,old")
_RELEASE_IT = ("release", _SOURCE, "--schema", _SCHEMA, "--key", "audit")


def _released(subject: str, options: str = "--epsilon 1", **other: Any) -> Configuration:
    """A release of five people, and of six, for epsilon 1, unless something else is said."""
    given: dict[str, Any] = {
        "first": _PEOPLE,
        "second": _ONE_MORE,
        "schema": _PLAIN,
        "commands": ((*_RELEASE_IT, *options.split()),),
        "accuracy": _right_within(epsilon=1),
        "charged": Fraction(1),
        **other,
    }
    return Configuration(subject, **given)


def _asked() -> Configuration:
    create = ("ledger", "create", _LEDGER, "--schema", _SCHEMA, "--epsilon", "1")
    ask = ("ask", _SOURCE, "--ledger", _LEDGER, "sex = F", "--epsilon", "1")
    return _released("a question", commands=(create, ask), answers=frozenset({1}), fewer=10)


def _released_twice() -> Configuration:
    """Two releases that are paid, and a third that is not."""
    create = ("ledger", "create", _LEDGER, "--schema", _SCHEMA, "--epsilon", "1")
    options = ("--ledger", _LEDGER, "--epsilon", "0.5", "--strategy", "flat", "--force")
    releases = tuple((*_RELEASE_IT[:-1], key, *options) for key in ("one", "two", "three"))
    return _released("two releases, and one too many", commands=(create, *releases), codes=(0, 0, 0, 2), fewer=10)


CONFIGURATIONS: tuple[Configuration, ...] = (
    _released("flat", "--epsilon 1 --strategy flat"),
    _released(
        "direct, epsilon and delta",
        "--epsilon 1 --delta 1e-6 --strategy direct",
        accuracy=_right_within(epsilon=1, delta=1e-6),
        charged=Budget(epsilon=1, delta="1e-6").amount,
    ),
    _released("direct, replace", "--epsilon 1 --strategy direct --neighbours replace", second=_OTHER),
    _released(
        "residual, rho", "--rho 0.5 --strategy residual", accuracy=_right_within(rho=0.5), charged=Fraction(1, 2)
    ),
    _released("fourier, printed as JSON", "--epsilon 1 --strategy fourier --json"),
    _released(
        "units of up to 2 rows",
        "--epsilon 1 --strategy direct",
        schema=_UNITS,
        second=_PEOPLE + "6,M,old\n6,M,old\n6,F,old\n",
    ),
    _released(
        "values outside, missing and dropped",
        "--epsilon 1 --strategy clustered",
        schema=_LOOSE,
        first=_AGED,
        second=_AGED + "6,F,nobody knows\n",
    ),
    _released(
        "nobody, and somebody",
        "--epsilon 1 --strategy flat",
        first="id,sex,age\n",
        second="id,sex,age\n1,F,old\n",
    ),
    _asked(),
    _released_twice(),
    _released("auto, in stages", staged=True, fewer=10),
    _released("mwem, in stages", "--epsilon 1 --strategy mwem", staged=True, fewer=40),
)
"""What is released, and how."""


def audit_whole(subject: str, run: Run, releases: int = RELEASES) -> Finding:
    """What all releases of a configuration show; ``subject`` is its name."""
    (configuration,) = (each for each in CONFIGURATIONS if each.subject == subject)
    number = max(2, releases // configuration.fewer)
    return whole_finding(configuration, run, number, FALSE_ALARMS / (len(CONFIGURATIONS) * _MOST_DRAWN))


def whole_finding(configuration: Configuration, run: Run, releases: int, alarm: float) -> Finding:
    """What so many releases of a configuration show, with this rate of false alarms for each thing that is drawn."""
    random = np.random.default_rng()  # which table is read: nothing is kept private by it
    coins = random.integers(0, 2, releases).astype(np.bool_)
    fixed: dict[str, set[str]] = {}
    drawn: dict[str, list[tuple[bool, str]]] = {}
    broken: list[str] = []
    with _folders(configuration) as folders:
        for coin in coins:
            seen = _release(configuration, run, folders[int(coin)])
            broken += seen.broken
            for name, shown in seen.fixed.items():
                fixed.setdefault(name, set()).add(shown)
            for name, shown in seen.drawn.items():
                drawn.setdefault(name, []).append((bool(coin), shown))
    broken += [f"{name} is not the same for neighbours" for name, shown in fixed.items() if len(shown) > 1]
    found = max((_bound(shown, alarm) for shown in drawn.values()), default=0.0)
    return Finding(
        WHOLE,
        configuration.subject,
        claimed=epsilon_bound(configuration.accuracy),
        bound=epsilon_bound(found),
        cases=releases // 2,
        broken=broken[0] if broken else "",
    )


def _bound(shown: Sequence[tuple[bool, str]], alarm: float) -> float:
    """How often what was drawn tells the tables apart: the rule from the first half, its bound from the second."""
    half = len(shown) // 2
    often: Counter[str] = Counter()
    for coin, value in shown[:half]:
        often[value] += 1 if coin else -1
    guesses = np.sign([often[value] for _, value in shown[half:]]).astype(np.int8)
    return accuracy_bound(np.array([coin for coin, _ in shown[half:]], np.bool_), guesses, alarm)


@dataclass(frozen=True, slots=True)
class _Seen:
    """All that a release shows."""

    fixed: dict[str, str]
    drawn: dict[str, str]
    broken: list[str]


@contextlib.contextmanager
def _folders(configuration: Configuration) -> Iterator[tuple[Path, Path]]:
    """A folder for each table, the second one first: a coin of 1 stands for the first table."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as root:
        folders = Path(root, "0"), Path(root, "1")
        for folder, rows in zip(folders, (configuration.second, configuration.first), strict=True):
            folder.mkdir()
            (folder / _SOURCE).write_text(rows, encoding="utf-8")
            (folder / _SCHEMA).write_text(json.dumps(configuration.schema), encoding="utf-8")
        try:
            yield folders
        finally:
            os.chdir(before)


def _release(configuration: Configuration, run: Run, folder: Path) -> _Seen:
    """Run all commands in a folder, look at what they leave, and remove it."""
    os.chdir(folder)  # paths are shown as they were given: relative ones are the same for both tables
    fixed, drawn = dict[str, str](), dict[str, str]()
    codes = []
    for number, command in enumerate(configuration.commands):
        code, out, err = run(command)
        codes.append(code)
        told = drawn if configuration.staged or number in configuration.answers else fixed
        told[f"standard output of command {number + 1}"] = _RANDOM.sub("*", out)
        told[f"standard error of command {number + 1}"] = _RANDOM.sub("*", err)
    fixed["exit codes"] = str(codes)
    left = sorted(each for each in folder.iterdir() if each.name not in (_SOURCE, _SCHEMA))
    fixed["names of files"] = str([each.name for each in left])
    broken = []
    if tuple(codes) != (configuration.codes or (0,) * len(codes)):
        broken.append(f"exit codes are {codes}")
    if Path(_LEDGER).exists():
        told = drawn if configuration.staged else fixed
        told["the ledger"], charged = _ledger_text(Path(_LEDGER))
        drawn["size of the ledger"] = str(Path(_LEDGER).stat().st_size)
        if charged != configuration.charged:
            broken.append(f"the ledger says that {charged} was spent, it was {configuration.charged}")
    if Path(_RELEASE).exists():
        told = drawn if configuration.staged else fixed
        fixed["the statement"], told["the release but for its numbers"], accounted = _release_texts(Path(_RELEASE))
        size = Path(_RELEASE).stat().st_size
        drawn["size of the release"] = str(size)
        if accounted != size:
            broken.append("the release file holds bytes that are not accounted for")
    for each in left:
        each.unlink(missing_ok=True)
    return _Seen(fixed, drawn, broken)


def _ledger_text(path: Path) -> tuple[str, Fraction]:
    """What a ledger says, without hashes, digests, moments, its number and the noisy answers; and what was spent."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        header = connection.execute("SELECT body FROM header").fetchall()
        events = connection.execute("SELECT number, kind, entry, key, strategy, cost FROM events").fetchall()
        plans = connection.execute("SELECT entry, body FROM plans").fetchall()
        sizes = connection.execute("SELECT entry, length(noisy) FROM measurements").fetchall()
    spent = sum((Fraction(event[5]) for event in events if event[1] == "charged"), Fraction(0))
    return _RANDOM.sub("*", str([header, events, plans, sizes])), spent


def _release_texts(path: Path) -> tuple[str, str, int]:
    """The statement of a release; its header, columns and pages but for values and estimates; how long it must be."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    header = json.loads(file.metadata.metadata[b"crosstally"])
    columns = [name for name in file.schema_arrow.names if name not in ("value", "estimate")]
    content = str(file.read(columns, use_threads=False).to_pydict())
    shape = (file.metadata.num_row_groups, file.metadata.num_rows, str(file.schema_arrow.remove_metadata()))
    facts = [sorted(file.metadata.metadata), *shape]
    texts = (str(header.get("statement")), f"{header}{facts}{content}")
    return _RANDOM.sub("*", texts[0]), _RANDOM.sub("*", texts[1]), _accounted(file.metadata)


def _accounted(metadata: Any) -> int:
    """The bytes of a Parquet file's pages, its footer, the length of that, and a mark at both ends."""
    chunks = (
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )
    return sum(int(chunk.total_compressed_size) for chunk in chunks) + int(metadata.serialized_size) + 12
