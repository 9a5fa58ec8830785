"""Writes the files of tests/formats that are missing, each kind with what it can hold. Run it by hand, once.

A file that stands is never written again: noise and identities cannot be repeated, and test_formats.py states what the
bytes say. Whoever adds a format adds a function here, runs the script, and commits the new file beside the old ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

import crosstally as ct
from crosstally.budget import Noise, NoiseKind
from crosstally.inference import bootstrap
from crosstally.local.client import FileStore
from crosstally.local.collector import Collector
from crosstally.local.protocol import Protocol, Tokens
from crosstally.pipeline import count_part
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Kronecker
from crosstally.query.summed import Summed
from crosstally.query.unit_table import UnitTable
from crosstally.schema import About, Measure, Outside

HERE = Path(__file__).parent

# A label of each kind, every rule for values outside, a cell for missing values, bins with a half, and a unit.
SCHEMA = ct.Schema(
    [
        ct.Attribute("sex", ["Female", "Male"]),
        ct.Attribute("âge", edges=[0, 18, 65.5, 120], missing=True),
        ct.Attribute("rooms", [1, 2, 3], outside=Outside.OTHER),
        ct.Attribute("ville", ["東京", "Łódź"], outside=Outside.DROP),
    ],
    ct.Unit("person", 2),
)
PEOPLE = pa.table(
    {
        "person": [row // 2 for row in range(240)],
        "sex": [("Female", "Male")[row % 2] for row in range(240)],
        "âge": [None if row % 20 == 0 else row % 100 for row in range(240)],
        "rooms": [row % 5 for row in range(240)],
        "ville": [("東京", "Łódź")[row % 3 == 0] for row in range(240)],
    }
)
DESCRIBED = ct.Schema.from_dict(
    {
        "crosstally-schema": 1,
        "about": {"title": "Relevé", "source": "office", "period": "2024", "licence": "CC0", "counts": "records"},
        "attributes": [
            {"name": "sex", "values": ["Female", "Male"], "missing": True, "description": "as registered"},
            {
                "name": "born",
                "edges": [1990, 2000, 2010],
                "bins": ["the nineties", "later"],
                "measured_in": "year",
                "from": "data",
            },
            {
                "name": "quarter",
                "values": ["Q1", "Q2", "Q3", "Q4"],
                "hierarchy": [{"name": "half", "groups": {"H1": ["Q1", "Q2"], "H2": ["Q3", "Q4"]}}],
            },
        ],
        "reading": {
            "trim": True,
            "missing": ["NA"],
            "columns": {
                "sex": {"column": "SEX", "groups": {"Female": ["F"]}, "ignore_case": True},
                "born": {"column": "BORN", "date": {"into": "year", "format": "%d.%m.%Y"}},
                "quarter": {"column": "BORN", "date": {"into": "quarter of year", "format": "%d.%m.%Y"}},
            },
        },
    }
)
BINARY = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(9)])
DEVICES = ct.Schema(
    [
        ct.Attribute("plan", ["free", "paid"], outside=Outside.OTHER),
        ct.Attribute("age", edges=[0, 18, 65, 120], missing=True),
        ct.Attribute("feature", ["off", "on"]),
    ]
)


def device(number: int) -> dict[str, object]:
    return {"plan": ("free", "paid", "trial")[number % 3], "age": number % 90, "feature": ("off", "on")[number % 2]}


def schema_1(path: Path) -> None:
    SCHEMA.save(path)


def schema_1_draft(path: Path) -> None:
    replace(BINARY.subset("a0", "a1"), draft=True).save(path)


def schema_1_described(path: Path) -> None:
    """A description of each kind, and a reading of each kind."""
    DESCRIBED.save(path)


def release_1_described(path: Path) -> None:
    """A release about a described schema, which holds nothing of its reading."""
    rows = pa.table({"SEX": ["f", "Male", "NA"] * 40, "BORN": ["31.12.1999", "1.1.2000", "17.5.2001"] * 40})
    ct.release(rows, DESCRIBED, epsilon=1, strategy="flat").save(path)


def plan_1(path: Path) -> None:
    """One number for 1/100 of the budget, then what the rule chooses for the rest."""
    ct.strategies.Views(size=3).plan(BINARY, None, ct.Budget(epsilon="1/3", delta="1e-6", rule="rho")).save(path)


def ledger_1(path: Path) -> None:
    """A release, a question, and a charge whose measurements were lost, on a cap of rho."""
    ledger = ct.Ledger.create(path, schema=SCHEMA, budget=ct.Budget(rho="2/3"), neighbours="replace")
    tables = ct.Workload([("sex", "âge"), ("rooms",)])
    release(ledger, tables, key="spring")
    notebook = ct.open_notebook(ledger)
    notebook.ask(PEOPLE, ct.count(sex="Female", rooms=["1", "2"]), rho="0.05", key="question")
    plan = ct.strategies.Direct().plan(SCHEMA, ct.Workload([("ville",)]), ct.Budget(rho="1e-3"), neighbours="replace")
    ledger.charge(plan, "lost")


def release(ledger: ct.Ledger | None, workload: ct.Workload, key: str | None) -> ct.Release:
    return ct.release(
        PEOPLE, SCHEMA, rho="0.25", workload=workload, strategy="residual", neighbours="replace", ledger=ledger, key=key
    )


def release_1(path: Path) -> None:
    """Contrasts with Gaussian noise of the central model, corrected."""
    release(None, ct.Workload([("sex", "âge"), ("rooms",)]), None).refit(nonnegative="joint").save(path)


def release_1_cells(path: Path) -> None:
    """Cells with Laplace noise and a public number of rows, uncorrected."""
    schema = ct.Schema(SCHEMA.attributes[:2])
    made = ct.release(PEOPLE, schema, epsilon=1, workload=ct.Workload([("sex", "âge")]), strategy="direct", rows=240)
    made.refit(nonnegative="none").save(path)


def release_1_local(path: Path) -> None:
    """The local model, whose estimate has variances of its own."""
    collector = Collector(Protocol.load(HERE / "protocol-1.json"))
    collector.add_many((HERE / "reports-1.bin").read_bytes())
    collector.release().save(path)


def release_1_shrunk(path: Path) -> None:
    """Cells with Laplace noise, shrunk."""
    schema = ct.Schema(SCHEMA.attributes[:2])
    ct.release(PEOPLE, schema, epsilon=1, workload=ct.Workload([("sex", "âge")]), strategy="direct").save(path)


def release_1_replicates(path: Path) -> None:
    """As shrunk, with the replicates that larger releases keep; this one is made to keep them."""
    schema = ct.Schema(SCHEMA.attributes[:2])
    wanted = ct.Workload([("sex", "âge")])
    with patch(f"{bootstrap.__name__}.KEPT_FROM", 1), patch("crosstally.releases.release.KEPT_FROM", 1):
        release = ct.release(PEOPLE, schema, epsilon=1, workload=wanted, strategy="direct")
        release.__dict__["_bootstrapped"] = bootstrap.bootstrapped(release.fitted, number=6)
        release.save(path)


def in_groups() -> Plan:
    """The three rooms and the others in two groups beside each other, the town beside them."""
    groups = {"rooms": (0, 0, 1, 1)}
    queries = [Cells(()), Cells(("rooms",)), Cells(("sex", "rooms"), groups), Cells(("rooms", "âge"), groups)]
    return Plan(
        SCHEMA,
        tuple(Request(query, Noise(NoiseKind.GAUSSIAN, 4.0)) for query in queries),
        strategy="by hand",
        workload=ct.Workload([("sex",), ("rooms", "âge")]),
        budget=ct.Budget(rho="1/2"),
        neighbours="add-remove",
    )


def plan_1_groups(path: Path) -> None:
    """Values in groups."""
    in_groups().save(path)


def release_1_groups(path: Path) -> None:
    """Values in groups, corrected jointly."""
    ct.release(PEOPLE, plan=in_groups()).refit(nonnegative="joint").save(path)


def with_choice() -> Plan:
    """Which of two tables is farther from a reference, beside a table; a unit has two rows."""
    choice = Choice([("sex",), ("rooms", "ville")], [[110, 90], [24] * 8], weights=["1/2", "1/3"], penalties=[5, -1])
    requests = (Request(choice, Noise(NoiseKind.GUMBEL, 48.0)), Request(Cells(("sex",)), Noise(NoiseKind.LAPLACE, 8.0)))
    return Plan(
        SCHEMA,
        requests,
        strategy="by hand",
        workload=ct.Workload([("sex",)]),
        budget=ct.Budget(epsilon="1/2"),
        neighbours="add-remove",
    )


def plan_1_choice(path: Path) -> None:
    """A private choice."""
    with_choice().save(path)


def release_1_choice(path: Path) -> None:
    """A private choice, of which the number is kept."""
    ct.release(PEOPLE, plan=with_choice()).save(path)


def by_matrix() -> Plan:
    """Prefixes of rooms, and the total."""
    prefixes = Kronecker(("rooms",), {"rooms": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]})
    return Plan(
        SCHEMA,
        tuple(Request(query, Noise(NoiseKind.GAUSSIAN, 4.0)) for query in (Cells(()), prefixes)),
        strategy="by hand",
        workload=ct.Workload([("rooms",)]).asking(rooms="ranges"),
        budget=ct.Budget(rho="1/2"),
        neighbours="add-remove",
    )


def plan_1_matrix(path: Path) -> None:
    """A matrix along an attribute, and ranges in the workload."""
    by_matrix().save(path)


def release_1_matrix(path: Path) -> None:
    """What a matrix measured."""
    ct.release(PEOPLE, plan=by_matrix()).save(path)


def in_two_ways() -> Plan:
    """Prefixes of rooms, and their cells."""
    first = by_matrix()
    cells = Request(Cells(("rooms",)), Noise(NoiseKind.GAUSSIAN, 4.0))
    return replace(first, requests=(*first.requests, cells), budget=ct.Budget(rho="5/8"))


def plan_1_two_ways(path: Path) -> None:
    """An attribute that is measured in two ways."""
    in_two_ways().save(path)


def release_1_two_ways(path: Path) -> None:
    """What a matrix and cells measured."""
    ct.release(PEOPLE, plan=in_two_ways()).save(path)


def with_units() -> Plan:
    """How many people have one, two, three and more rows, beside a table; what both are is named."""
    about = About(rows="visits", units="patients")
    requests = (
        Request(Cells(("sex",)), Noise(NoiseKind.LAPLACE, 8.0)),
        Request(UnitTable((1, 2, 3, 4)), Noise(NoiseKind.LAPLACE, 4.0)),
    )
    return Plan(
        replace(SCHEMA, about=about),
        requests,
        strategy="by hand",
        workload=ct.Workload([("sex",)]),
        budget=ct.Budget(epsilon="1/2"),
        neighbours="add-remove",
    )


def plan_1_units(path: Path) -> None:
    """Units by number of rows."""
    with_units().save(path)


def release_1_units(path: Path) -> None:
    """Units by number of rows, and names for rows and units."""
    ct.release(PEOPLE, plan=with_units()).save(path)


def release_1_divided(path: Path) -> None:
    """Units that are divided over their rows."""
    assert SCHEMA.unit is not None
    schema = replace(SCHEMA, unit=ct.Unit.counted_once(SCHEMA.unit.id), about=About(rows="visits", units="patients"))
    ct.release(PEOPLE, schema, epsilon=1, workload=ct.Workload([("sex",)]), strategy="direct").save(path)


def with_totals() -> Plan:
    """Sums of a measure over a table and of everybody, and the rows that have a value, beside a table of counts."""
    measure = Measure("rooms", 1, 3, step=0.5, centre=2, outside="drop", missing="leave out", unit="rooms")
    of_values, of_rows = Summed("rooms"), Summed("rooms", values=False)
    requests = (
        Request(Cells(("sex",)), Noise(NoiseKind.LAPLACE, 8.0)),
        Request(Cells(("sex",), summed=of_values), Noise(NoiseKind.LAPLACE, 32.0)),
        Request(Cells((), summed=of_values), Noise(NoiseKind.LAPLACE, 64.0)),
        Request(Cells(("sex",), summed=of_rows), Noise(NoiseKind.LAPLACE, 16.0)),
    )
    return Plan(
        replace(SCHEMA, measures=[measure]),
        requests,
        strategy="by hand",
        workload=ct.Workload([("sex",)]),
        budget=ct.Budget(epsilon="9/16"),
        neighbours="add-remove",
    )


def plan_1_totals(path: Path) -> None:
    """Sums of a measure."""
    with_totals().save(path)


def release_1_totals(path: Path) -> None:
    """Sums of a measure."""
    ct.release(PEOPLE, plan=with_totals()).save(path)


def part_1(path: Path) -> None:
    """Exact counts of a share of two, for the plan with groups; of synthetic people."""
    share = "1/2" if path.name == "part-1-share-1.counts" else "2/2"
    count_part(PEOPLE, path, plan=in_groups(), share=share)


def protocol_1(path: Path) -> None:
    ct.local.design(DEVICES, epsilon="2", people=200, ways=2, minimum=100).save(path)


def reports_1(path: Path) -> None:
    """200 reports, and again the first one: it counts once."""
    protocol = Protocol.load(HERE / "protocol-1.json")
    reports = [protocol.report(device(number), store={}, cap="2") for number in range(200)]
    path.write_bytes(b"".join([*reports, reports[0]]))


def protocol_1_tokens(path: Path) -> None:
    replace(Protocol.load(HERE / "protocol-1.json"), tokens=True).save(path)


def tokens_1(path: Path) -> None:
    Tokens.issue(Protocol.load(HERE / "protocol-1-tokens.json"), 100).save(path)


def reports_1_tokens(path: Path) -> None:
    """100 reports, and again the first one: its token counts once."""
    protocol = Protocol.load(HERE / "protocol-1-tokens.json")
    tokens = Tokens.load(HERE / "tokens-1.txt", protocol).texts()
    reports = [protocol.report(device(number), store={}, cap="2", token=token) for number, token in enumerate(tokens)]
    path.write_bytes(b"".join([*reports, reports[0]]))


def collector_1(path: Path) -> None:
    collector = Collector(Protocol.load(HERE / "protocol-1.json"))
    collector.add_many((HERE / "reports-1.bin").read_bytes())
    collector.save(path)


def device_store_1(path: Path) -> None:
    protocol = Protocol.load(HERE / "protocol-1.json")
    protocol.report(device(7), store=FileStore(path), cap="4")


FILES: dict[str, Callable[[Path], None]] = {
    "schema-1.json": schema_1,
    "schema-1-draft.json": schema_1_draft,
    "schema-1-described.json": schema_1_described,
    "plan-1.json": plan_1,
    "plan-1-groups.json": plan_1_groups,
    "plan-1-choice.json": plan_1_choice,
    "plan-1-units.json": plan_1_units,
    "plan-1-totals.json": plan_1_totals,
    "plan-1-matrix.json": plan_1_matrix,
    "plan-1-two-ways.json": plan_1_two_ways,
    "ledger-1.ledger": ledger_1,
    "release-1.parquet": release_1,
    "release-1-cells.parquet": release_1_cells,
    "release-1-replicates.parquet": release_1_replicates,
    "release-1-shrunk.parquet": release_1_shrunk,
    "release-1-described.parquet": release_1_described,
    "release-1-groups.parquet": release_1_groups,
    "release-1-choice.parquet": release_1_choice,
    "release-1-units.parquet": release_1_units,
    "release-1-divided.parquet": release_1_divided,
    "release-1-totals.parquet": release_1_totals,
    "release-1-matrix.parquet": release_1_matrix,
    "release-1-two-ways.parquet": release_1_two_ways,
    "part-1-share-1.counts": part_1,
    "part-1-share-2.counts": part_1,
    "protocol-1.json": protocol_1,
    "reports-1.bin": reports_1,  # this and what follows need the files of protocols
    "collector-1.state": collector_1,
    "protocol-1-tokens.json": protocol_1_tokens,
    "tokens-1.txt": tokens_1,
    "reports-1-tokens.bin": reports_1_tokens,
    "device-store-1.json": device_store_1,
    "release-1-local.parquet": release_1_local,
}

if __name__ == "__main__":
    for name, make in FILES.items():
        if not (HERE / name).exists():
            make(HERE / name)
            sys.stdout.write(f"wrote {name}\n")
