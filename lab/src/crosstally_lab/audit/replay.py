"""Part four: what is published is a function of what the mechanisms gave, and of nothing else that is confidential.

A run on some rows is recorded: of each call of the mechanism the request, the exact answers that went in and the noisy
ones that came out. Then it is run on a neighbour of these rows, with the *recorded outputs* returned in place of new
noise. (The same noise on other counts would not do: a later stage may rightly depend on the noisy numbers.)

* Everything published must be equal, to the byte: requests, scales, keys, charges, later plans, files, answers,
  warnings, errors, and the order of all of them.
* The exact answers of all calls together may differ by no more than the charge. With d the difference of the answers
  to one request and b its scale, the loss of one pair of neighbours is

      Laplace    epsilon = sum |d| / b              rho = epsilon^2 / 2
      Gaussian                                      rho = sum d^2 / (2 b^2)
      choice     epsilon = (max d - min d) / b      rho = epsilon^2 / 8      for each pick

  in the currency of the ledger, and it is added over requests and stages.

Not compared, on purpose (``EXCEPTIONS``): how long it takes and how much memory it needs, notes for the steward's own
terminal, and the refusal of a value that an attribute with ``outside: refuse`` does not know, before anything is spent.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import crosstally as ct
from crosstally.budget import Budget, Neighbours, NoiseKind
from crosstally.errors import CrosstallyError
from crosstally.local import client
from crosstally.local.client import reporting
from crosstally.plans.plan import Plan
from crosstally.privacy import ledger as ledgers
from crosstally.privacy import measure
from crosstally.schema import Outside, Schema
from crosstally.strategies import Residual
from crosstally_lab.audit.cases import BUDGETS, STRATEGIES
from crosstally_lab.audit.findings import REPLAY, Finding

EXCEPTIONS = ("time", "memory", "notes for the steward's terminal", "outside: refuse")
"""What may depend on rows and is not compared."""

Row = tuple[Any, ...]
"""A row of the table under audit: id, sex, age."""
Rows = Sequence[Row]
Published = dict[str, str | bytes]
"""Everything that a run lets out, by a name for each thing."""
Run = Callable[[Rows, Path], Published]
"""Whatever publishes something about rows; it may use the folder."""
Opened = Callable[[Rows, Path], Any]
"""Makes a source of rows in a folder."""

COLUMNS = ("id", "sex", "age")
PEOPLE: Rows = ((1, "F", 17), (2, "M", 40), (3, "F", 40), (4, "M", 12), (5, "F", 70))
# Values outside are counted in a cell of their own, or drop the row; for strategies there are none, and six cells.
_LOOSE: list[dict[str, Any]] = [
    {"name": "sex", "values": ["F", "M"], "outside": "drop"},
    {"name": "age", "edges": [0, 18, 65], "outside": "other", "missing": True},
]
_STRICT = [{"name": "sex", "values": ["F", "M"]}, {"name": "age", "edges": [0, 18, 65, 100]}]
_UNIT = {"unit": {"id": "id", "max_rows": 2}}
LOOSE, STRICT = (
    {"rows": Schema.from_dict({"attributes": own}), "units": Schema.from_dict({"attributes": own, **_UNIT})}
    for own in (_LOOSE, _STRICT)
)
"""The schemas under audit, by whom they protect."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring tables, and what makes them neighbours."""

    name: str
    first: Rows
    second: Rows


def pairs_of(schema: Schema, relation: Neighbours) -> list[Pair]:
    """Every kind of neighbour: a row or unit that is there or not, or another one, with values of every kind.

    Where an attribute refuses what is outside, pairs with such values are left out (``EXCEPTIONS``).
    """
    if schema.unit is None and relation == Neighbours.ADD_REMOVE:
        rows: dict[str, Row] = {
            "of the first cell": (6, "F", 1),
            "of the last": (6, "M", 64),
            "of a label outside": (6, "X", 30),
        }
        rows |= {"without a value": (6, "M", None), "that is there twice": PEOPLE[1]}
        found = [Pair(f"a row {name}", PEOPLE, (*PEOPLE, row)) for name, row in rows.items()]
        found += [Pair("the first row", PEOPLE, PEOPLE[1:]), Pair("the only row", (), PEOPLE[:1])]
    elif schema.unit is None:
        rows = {"another label": (1, "M", 17), "another bin": (1, "F", 40), "both": (1, "M", 64)}
        rows |= {"no value": (1, "F", None), "a label outside": (1, "X", 17)}
        found = [Pair(f"a row with {name}", PEOPLE, (row, *PEOPLE[1:])) for name, row in rows.items()]
    else:
        units = {
            "one row": ((6, "M", 40),),
            "two rows of one cell": ((6, "M", 40),) * 2,
            "more rows than count": ((6, "M", 40), (6, "F", 40), (6, "M", 1), (6, "F", 70)),
            "equal rows, more than count": ((6, "F", 17),) * 5,
            "rows outside": ((6, "X", 40), (6, "M", None)),
        }
        before = PEOPLE if relation == Neighbours.ADD_REMOVE else (*PEOPLE, *((6, "F", 17),) * 3)
        found = [Pair(f"a unit of {name}", before, (*PEOPLE, *rows)) for name, rows in units.items()]
    return [pair for pair in found if schema["sex"].outside is not Outside.REFUSE or not _has_outside(pair)]


def _has_outside(pair: Pair) -> bool:
    return any(sex == "X" or age is None for _, sex, age in (*pair.first, *pair.second))


# Recording


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of the mechanism: what was asked, the exact answers that went in, the noisy ones that came out."""

    plan: Plan
    inputs: list[NDArray[np.int64]]
    outputs: list[NDArray[np.int64]]

    def loss(self, other: Call) -> Fraction:
        """What this call tells the inputs apart from another's, in the currency of its plan. Exact."""
        pure, total = self.plan.budget.pure, Fraction(0)
        for request, own, others in zip(self.plan.requests, self.inputs, other.inputs, strict=True):
            moved = [int(each) for each in (own - others).ravel()]
            scale = Fraction(request.noise.scale)
            if request.noise.kind is NoiseKind.GAUSSIAN:
                total += Fraction(sum(each**2 for each in moved)) / (2 * scale**2)
                continue
            is_choice = request.noise.kind is NoiseKind.GUMBEL
            epsilon = (Fraction(max(moved) - min(moved)) if is_choice else Fraction(sum(map(abs, moved)))) / scale
            total += request.query.picks * (epsilon if pure else epsilon**2 / (8 if is_choice else 2))
        return total


class DifferentError(Exception):
    """A run on a neighbour asked for, or published, something else than the run that was recorded."""


@contextlib.contextmanager
def _mechanism(recorded: Sequence[Call] | None) -> Iterator[list[Call]]:
    """The calls that are made meanwhile; with recorded ones, their outputs come back instead of new noise."""
    calls: list[Call] = []
    draw = measure._draw

    def called(answers: Sequence[NDArray[np.int64]], plan: Plan, mechanisms: Any) -> list[NDArray[np.int64]]:
        inputs = [np.array(each) for each in answers]
        if recorded is None:
            outputs = draw(answers, plan, mechanisms)
        else:
            if len(calls) == len(recorded):
                raise DifferentError("one more stage was measured")
            before = recorded[len(calls)]
            if json.dumps(plan.to_dict()) != json.dumps(before.plan.to_dict()):
                raise DifferentError(f"stage {len(calls) + 1} asked for something else")
            if any(own.shape != others.shape for own, others in zip(inputs, before.inputs, strict=True)):
                raise DifferentError(f"the answers of stage {len(calls) + 1} have other shapes")
            outputs = before.outputs
        calls.append(Call(plan, inputs, outputs))
        return [np.array(each) for each in outputs]

    with mock.patch.object(measure, "_draw", called):
        yield calls
    if recorded is not None and len(calls) < len(recorded):
        raise DifferentError("a stage was not measured")


class _OneMoment(datetime):
    """A clock that stands still: the moment of a charge says nothing about rows."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return datetime(2000, 1, 1, tzinfo=tz or UTC)


@contextlib.contextmanager
def _same_names() -> Iterator[None]:
    """Random names (of ledgers, of keys) and moments are the same in every run; what hides rows is not touched."""
    numbers = iter(range(1, 10**9))
    with (
        mock.patch.object(uuid, "uuid4", side_effect=lambda: uuid.UUID(int=next(numbers) << 64, version=4)),
        mock.patch.object(ledgers, "datetime", _OneMoment),
    ):
        yield


def _ran(run: Run, rows: Rows, recorded: Sequence[Call] | None) -> tuple[Published, list[Call]]:
    """What a run publishes, its warnings and its error among it, and its calls of the mechanism."""
    published: Published = {}
    with tempfile.TemporaryDirectory() as folder, _same_names(), _mechanism(recorded) as calls:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                published |= run(rows, Path(folder))
            except CrosstallyError as error:
                published["error"] = f"{type(error).__name__}: {error}".replace(folder, "FOLDER")
        # Other programs' warnings (of files left open by a collector of garbage, say) come when they like
        own = (each for each in warned if issubclass(each.category, (UserWarning, RuntimeWarning)))
        published["warnings"] = "\n".join(str(each.message) for each in own)
    return published, calls


def replayed_loss(run: Run, first: Rows, second: Rows) -> Fraction:
    """Record a run on the first rows and replay it on the second: the loss, as a share of what was charged."""
    published, calls = _ran(run, first, None)
    again, replayed = _ran(run, second, calls)
    if difference := _difference(published, again):
        raise DifferentError(difference)
    if "error" in published:  # nothing was shown by it
        raise DifferentError(f"it ended in an error: {published['error']!s}")
    in_rho = any(not call.plan.budget.pure for call in calls)
    losses = (_as(own.loss(other), own.plan, in_rho) for own, other in zip(calls, replayed, strict=True))
    charged = sum((_as(call.plan.own_budget.amount, call.plan, in_rho) for call in calls), Fraction(0))
    return sum(losses, Fraction(0)) / charged if calls else Fraction(0)


def _difference(one: Published, other: Published) -> str:
    """The first thing that is not the same, in words."""
    if list(one) != list(other):
        return f"{', '.join(one)} was published, and {', '.join(other)} for a neighbour"
    return next((f"{name} is not the same for neighbours" for name in one if one[name] != other[name]), "")


def _as(amount: Fraction, plan: Plan, in_rho: bool) -> Fraction:
    """An amount of a plan in the currency of all: a pure epsilon counts epsilon^2 / 2 in rho."""
    return amount**2 / 2 if in_rho and plan.budget.pure else amount


# What is run


def table_of(rows: Rows) -> pa.Table:
    """The rows in memory."""
    kinds = (pa.int64(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({name: pa.array(list(c), k) for name, c, k in zip(COLUMNS, columns, kinds, strict=True)})


def _csv(rows: Rows, folder: Path) -> str:
    lines = [",".join("" if value is None else str(value) for value in row) for row in (COLUMNS, *rows)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "people.csv")


def _parquet(rows: Rows, folder: Path) -> str:
    import pyarrow.parquet as pq

    pq.write_table(table_of(rows), folder / "people.parquet", row_group_size=2)
    return str(folder / "people.parquet")


def _sqlite(rows: Rows, folder: Path) -> ct.Database:
    with contextlib.closing(sqlite3.connect(folder / "people.sqlite")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, sex TEXT, age INTEGER)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        connection.commit()
    return ct.Database(url=f"sqlite:///{folder / 'people.sqlite'}", query="SELECT id, sex, age FROM people")


class _OwnBatches:
    """A source of a user's own, a batch for each row."""

    def __init__(self, rows: Rows, _: Path) -> None:
        self._table = table_of(rows)

    def names(self) -> Sequence[str]:
        return COLUMNS

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=1)


SOURCES: Mapping[str, Opened] = {
    "a text file": _csv,
    "a Parquet file": _parquet,
    "an Arrow table": lambda rows, _: table_of(rows),
    "a pandas frame": lambda rows, _: table_of(rows).to_pandas(),
    "a database": _sqlite,
    "batches of one's own": _OwnBatches,
}
"""Ways into the program that need nothing beside its own requirements."""


def released(opened: Opened, schema: Schema, budget: Budget, **options: Any) -> Run:
    """A release of all rows: its file, its words, its tables with intervals, and the ledger."""

    def run(rows: Rows, folder: Path) -> Published:
        ledger = ct.Ledger.create(
            folder / "people.ledger", schema=schema, budget=budget, neighbours=options.get("neighbours", "add-remove")
        )
        try:
            amounts = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta}
            given: dict[str, Any] = {name: amount for name, amount in amounts.items() if amount is not None}
            release = ct.release(opened(rows, folder), schema, ledger=ledger, key="audit", **given, **options)
            release.save(folder / "people.release.parquet")
        finally:
            ledger_text = _dumped(folder / "people.ledger")
        return {
            "the release file": (folder / "people.release.parquet").read_bytes(),
            "the release in words": f"{release!r}\n{release.describe()}",
            "answers": "\n".join(_answers(release)),
            "the ledger": ledger_text,
        }

    return run


def _answers(release: ct.Release) -> Iterator[str]:
    for names in ((), *((name,) for name in release.schema.names), release.schema.names):
        answer = release.marginal(*names)
        ends = answer.interval(0.95) if answer.error_kind != "none" else ()
        yield f"{names} {answer.values.tolist()} {[np.asarray(end).tolist() for end in ends]} {answer.method}"


def _dumped(path: Path) -> str:
    """All that a ledger's file holds."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump())


def counted_in_parts(schema: Schema, budget: Budget) -> Run:
    """A release of rows that were counted in two parts."""
    from crosstally.pipeline import count_part

    def run(rows: Rows, folder: Path) -> Published:
        plan = ct.plan(schema, epsilon=budget.epsilon, strategy=STRATEGIES["direct"]).chosen
        for share in (1, 2):
            count_part(_csv(rows, folder), folder / f"part-{share}.counts", plan=plan, share=f"{share}/2")
        release = ct.release(ct.sources.Parts(str(folder / "part-*.counts")), plan=plan, key="audit")
        release.save(folder / "people.release.parquet")
        return {"the release file": (folder / "people.release.parquet").read_bytes(), "words": repr(release)}

    return run


def asked(schema: Schema, budget: Budget) -> Run:
    """Questions of a notebook: bought one by one and together, one twice, one that cannot be paid, and free ones."""

    def run(rows: Rows, folder: Path) -> Published:
        path, source = folder / "people.ledger", _csv(rows, folder)
        whole: dict[str, Any] = {"epsilon" if budget.pure else "rho": budget.amount}
        third: dict[str, Any] = {name: each / 3 for name, each in whole.items()}
        notebook = ct.open_notebook(ct.Ledger.create(path, schema=schema, budget=budget))
        bought = [notebook.ask(source, "sex = F", **third, key="one")]
        bought += notebook.ask_all(source, ["age < 18", "sex = M and age >= 18"], **third, key="two")
        bought += [notebook.ask(source, "sex = F", **third, key="one")]
        try:
            notebook.ask(source, "sex = M", **whole, key="three")
            refused = "paid"
        except CrosstallyError as error:
            refused = str(error)
        free = [notebook.estimate(question) for question in ("sex = F", "sex = M", "age >= 18")]
        return {
            "answers": "\n".join(map(repr, (*bought, *free))),
            "what cannot be paid": refused,
            "the ledger": _dumped(path),
        }

    return run


# The local model: a device's draw is the mechanism


_ASKED = 1_000
"""People who report: the fewest that a collector releases."""


class _Fixed:
    """Randomness of a device that says nothing about rows: its group and the id of its report."""

    def __init__(self, place: int) -> None:
        self._place = place

    def below(self, number: int) -> int:
        """The place of this device among the shares of all groups."""
        return self._place % number

    def chance(self, probability: Fraction) -> bool:
        """Never asked outside of a draw."""
        return probability > Fraction(1, 2)

    def identity(self) -> bytes:
        """An id of its own."""
        return self._place.to_bytes(16, "big")


def _collected(people: Rows, recorded: Sequence[int] | None) -> tuple[Published, list[int], Fraction]:
    """What devices send and a collector publishes, what the devices drew, and the worst odds of a draw."""
    attributes = [{**each, "outside": "other"} for each in _LOOSE]  # a device never drops a row
    protocol = ct.local.design(Schema.from_dict({"attributes": attributes}), epsilon=1, people=_ASKED, ways=2)
    drawn, worst = list[int](), Fraction(1)
    draw = client.draw

    def called(oracle: Mapping[str, Any], codes: Sequence[int], _: Any) -> int:
        nonlocal worst
        worst = max(worst, client.worst_ratio(oracle))
        drawn.append(draw(oracle, codes, client.SecureSource()) if recorded is None else recorded[len(drawn)])
        return drawn[-1]

    collector, stores, reports = ct.local.Collector(protocol), [], []
    with mock.patch.object(reporting, "draw", called), tempfile.TemporaryDirectory() as folder:
        for place, (_, sex, age) in enumerate(people):
            stores.append(dict[str, str]())
            row = {"sex": sex, "age": age}
            reports.append(client.report(protocol.document, row, store=stores[-1], cap="1", source=_Fixed(place)))
        reasons = [collector.add(report).value for report in reports]
        release = collector.release()
        release.save(Path(folder, "r.parquet"))
        written = Path(folder, "r.parquet").read_bytes()
    published: Published = {"reports": b"".join(reports), "stores": str(stores), "reasons": str(reasons)}
    return {**published, "the release file": written, "answers": "\n".join(_answers(release))}, drawn, worst


def _collector_finding() -> Finding:
    """One person has another row, and the devices draw what they drew."""
    people = [PEOPLE[i % len(PEOPLE)] for i in range(_ASKED)]
    published, drawn, worst = _collected(people, None)
    broken = ""
    for other in ((1, "M", 64), (1, "X", None)):
        again, _, _ = _collected([other, *people[1:]], drawn)
        broken = broken or _difference(published, again)
    return Finding(REPLAY, _COLLECTOR, claimed=1.0, exact=math.log(worst), cases=2, broken=broken)


# The part


_COLLECTOR = "a collector"
_NEED_ROWS, _PUBLIC = ("uniform", "mwem of 2 rounds"), 20  # which take a number of rows as given, right or not


def _runs() -> Iterator[tuple[str, Schema, Neighbours, Run]]:
    """Every strategy, budget, relation and unit; then every way into the program, and questions."""
    in_memory = SOURCES["an Arrow table"]
    for (about, budget), relation, (of, schema) in product(BUDGETS.items(), Neighbours, STRICT.items()):
        for name, strategy in {**STRATEGIES, "auto": "auto"}.items():
            public = _PUBLIC if name in _NEED_ROWS else None
            # Residuals are planned for Gaussian noise alone; beside a bound no number of rows is public
            if not (budget.pure and isinstance(strategy, Residual)) and not (public and schema.unit):
                run = released(in_memory, schema, budget, strategy=strategy, neighbours=relation, rows=public)
                yield f"{name}, {about}, {of}, {relation.value}", schema, relation, run
    for of, schema in LOOSE.items():
        for name, opened in SOURCES.items():
            yield f"{name}, {of}", schema, Neighbours.ADD_REMOVE, released(opened, schema, BUDGETS["rho"])
        yield f"parts, {of}", schema, Neighbours.ADD_REMOVE, counted_in_parts(schema, BUDGETS["epsilon"])
        for about in ("epsilon", "rho"):
            yield f"questions, {about}, {of}", schema, Neighbours.ADD_REMOVE, asked(schema, BUDGETS[about])


def subjects() -> list[str]:
    """What is replayed."""
    return [*(subject for subject, *_ in _runs()), _COLLECTOR]


def audit_replay(subject: str, pairs: int | None = None) -> Finding:
    """Replay one run on all kinds of neighbours, or on the first so many."""
    if subject == _COLLECTOR:
        return _collector_finding()
    for name, schema, relation, run in _runs():
        if name == subject:
            return replay_finding(subject, run, pairs_of(schema, relation)[:pairs])
    raise CrosstallyError(f"nothing is replayed by the name of {subject!r}")


def replay_finding(subject: str, run: Run, pairs: Sequence[Pair]) -> Finding:
    """The largest loss over pairs of neighbours, both ways round, as a share of the charge; what differed first."""
    losses, broken = [Fraction(0)], ""
    for pair in pairs:
        for ways in ((pair.first, pair.second), (pair.second, pair.first)):
            try:
                losses.append(replayed_loss(run, *ways))
            except DifferentError as error:
                broken = broken or f"{pair.name}: {error}"
    return Finding(
        REPLAY, subject, unit="charge", claimed=1.0, exact=float(max(losses)), cases=2 * len(pairs), broken=broken
    )
