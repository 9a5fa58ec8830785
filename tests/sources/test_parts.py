"""Parts of a source add up to the whole, bit by bit; whatever is not the whole, counted once, is refused unspent."""

from __future__ import annotations

import csv
import hashlib
import stat
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import OutsideValueError, PlanError, SourceError
from crosstally.measurements import ExactTable
from crosstally.pipeline import count_part
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.queries import Cells, Product
from crosstally.schema import RowReading, Schema
from crosstally.sources import PartOrigin, Parts, Share, count, count_share, merge_parts, plan_digest, write_part
from crosstally.sources.files import paths_of
from crosstally.sources.parts import MergedParts
from mixed_people import BOUNDED, DIVIDED, GROUPED, GROUPED_TABLES, ROWS, SCHEMA, TABLES, grouped
from reference_sources import count as plain_count

KINDS = {"person": pa.int64(), "sex": pa.string(), "age": pa.float64(), "height": pa.float64(), "town": pa.string()}
KINDS |= {"children": pa.int64(), "born": pa.string()}
TABLE = pa.table({name: pa.array([row[name] for row in ROWS], kind) for name, kind in KINDS.items()})
TOWNS = {"town": (0, 0, 1, 1)}


def plan_of(schema: Schema, tables: list[Any]) -> Plan:
    """A plan of one stage that counts these tables."""
    queries = [table if isinstance(table, Product) else Cells(table) for table in tables]
    return Plan(
        schema,
        tuple(Request(query, Noise(NoiseKind.LAPLACE, 100.0)) for query in queries),
        strategy="by hand",
        workload=ct.Workload([("sex",)]),
        budget=ct.Budget(epsilon=1),
        neighbours="add-remove",
    )


def csv_file(folder: Path) -> Any:
    with (folder / "p.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(KINDS)
        writer.writerows([["" if value is None else value for value in row.values()] for row in ROWS])
    return folder / "p.csv"


def files(folder: Path) -> Any:
    """Five files of different sizes, one of them empty."""
    for number, (start, end) in enumerate([(0, 7), (7, 150), (150, 150), (150, 151), (151, 400)]):
        pyarrow.parquet.write_table(TABLE.slice(start, end - start), folder / f"p{number}.parquet")
    return str(folder / "p*.parquet")


def merged_of(parts: Parts, plan: Plan) -> MergedParts:
    return merge_parts(paths_of(parts.paths), plan)


def parts_in(folder: Path, source: Any, plan: Plan, shares: int, **options: Any) -> Parts:
    for number in range(1, shares + 1):
        count_part(source, folder / f"part-{number}.counts", plan=plan, share=f"{number}/{shares}", **options)
    return Parts(str(folder / "part-*.counts"))


@pytest.mark.parametrize("given", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
@pytest.mark.parametrize("door", [csv_file, files, lambda _: TABLE.to_pandas()], ids=["csv", "files", "pandas"])
@pytest.mark.parametrize("shares", [1, 3, 8])
def test_merged_parts_are_the_whole(door: Any, given: dict[str, Any], shares: int, tmp_path: Path) -> None:
    source, schema = door(tmp_path), Schema.from_dict(given)
    plan = plan_of(schema, TABLES)
    if "unit" not in given and not isinstance(source, str | Path):
        with pytest.raises(SourceError, match="have no fixed places by which to share them out: write them to a file"):
            parts_in(tmp_path, source, plan, shares)
        return
    merged = merged_of(parts_in(tmp_path, source, plan, shares), plan).tables
    assert [table.table for table in merged] == [*map(Cells, TABLES)]
    assert [table.counts.tolist() for table in merged] == plain_count(ROWS, given, TABLES)
    in_groups = plan_of(schema, [("town",), Cells(("town", "sex"), TOWNS)])
    full = np.array(plain_count(ROWS, given, [("town", "sex")])[0])
    merged = merged_of(parts_in(tmp_path, source, in_groups, shares), in_groups).tables
    assert merged[0].counts.tolist() == full.sum(axis=1).tolist()
    assert merged[1].counts.tolist() == [(full[0] + full[1]).tolist(), (full[2] + full[3]).tolist()]


def test_merged_parts_have_the_groups_and_years_of_the_whole(tmp_path: Path) -> None:
    schema = Schema.from_dict(GROUPED)
    plan = plan_of(schema.public(), GROUPED_TABLES)
    merged = merged_of(parts_in(tmp_path, csv_file(tmp_path), plan, 3, schema=schema), plan).tables
    assert [table.counts.tolist() for table in merged] == plain_count(*grouped(ROWS), GROUPED_TABLES)


def test_every_share_has_rows_and_no_person_is_in_two() -> None:
    """A person with rows in two shares would count with more than the bound: once in each."""
    table = TABLE.select(["person"]).append_column("who", TABLE["person"])
    schema = Schema([ct.Attribute("who", list(range(100)), outside="drop")], ct.Unit("person", 9))
    found = [count_share(table, schema, [("who",)], Share(i, 4))[0][0].counts for i in range(1, 5)]
    assert all(counts.sum() > 40 for counts in found)
    assert (np.count_nonzero(found, axis=0) <= 1).all()
    assert np.array_equal(sum(found), count(table, schema, [("who",)])[0].counts)


def test_rows_without_an_id_are_checked_by_a_share(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("who,sex\na,Female\n,CANARY\n", encoding="utf-8")
    schema = Schema([ct.Attribute("sex", ["Female", "Male"])], ct.Unit("who", 1))
    with pytest.raises(OutsideValueError):
        count(tmp_path / "p.csv", schema, [("sex",)])
    with pytest.raises(OutsideValueError):
        parts_in(tmp_path, tmp_path / "p.csv", plan_of(schema, [("sex",)]), 2)


def test_one_unit_moves_merged_counts_by_its_bound_and_no_more(tmp_path: Path) -> None:
    """All units of up to three rows beside a crowd, with a reading: groups of spellings and dates."""
    given = {
        "crosstally-schema": 1,
        "unit": {"id": "person", "max_rows": 2},
        "attributes": [{"name": "sex", "values": ["Female", "Male"]}, {"name": "year", "values": ["2023", "2024"]}],
        "reading": {
            "trim": True,
            "columns": {
                "sex": {"column": "S", "groups": {"Female": ["F"]}, "ignore_case": True},
                "year": {"column": "BORN", "date": {"into": "year"}},
                "person": {"column": "ID"},
            },
        },
    }
    schema = Schema.from_dict(given)
    assert isinstance(schema.reading, RowReading)
    raw = [(" f", "2023-12-31"), ("MALE", "2024-01-01"), ("Female", "2024-05-05")]
    crowd = [(f"c{n}", *raw[n % 3]) for n in range(5)] + [("c0", *raw[1]), ("c0", *raw[2])]
    tables: list[Any] = [("sex",), ("sex", "year")]

    def counts_of(rows: list[tuple[str, ...]]) -> list[Any]:
        table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(("ID", "S", "BORN"))})
        shares = [count_share(table, schema, tables, Share(i, 3))[0] for i in (1, 2, 3)]
        return [sum(share[place].counts for share in shares) for place in range(2)]

    before, reached = counts_of(crowd), 0
    for rows in range(4):
        for unit in combinations_with_replacement(raw, rows):
            after = counts_of([*crowd, *(("7 " if i else " 7", *row) for i, row in enumerate(unit))])
            for old, new in zip(before, after, strict=True):
                assert (new >= old).all()
                assert (new - old).sum() <= 2
                reached = max(reached, int((new - old).sum()))
    assert reached == 2
    plan = plan_of(schema, tables)
    pyarrow.parquet.write_table(pa.table({"ID": ["1"], "S": ["F"], "BORN": ["2023-01-01"]}), tmp_path / "p.parquet")
    with pytest.raises(SourceError, match="the schema does not say how its rows are read"):
        parts_in(tmp_path, tmp_path / "p.parquet", plan, 2)
    parts = parts_in(tmp_path, tmp_path / "p.parquet", plan, 2, schema=schema)
    ledger = ct.Ledger.create(tmp_path / "l.ledger", schema=schema, budget=ct.Budget(epsilon=1))
    ct.release(parts, plan=plan, ledger=ledger, key="spring")
    assert schema.reading.digest in (tmp_path / "l.ledger.readings").read_text()


def origin(plan: Plan, **changed: Any) -> PartOrigin:
    return PartOrigin(plan=plan_digest(plan), **{"reading": None, "source": "s", "rows_are_units": False, **changed})


def exact(schema: Schema, *counts: int) -> tuple[ExactTable, ...]:
    return (ExactTable(schema, np.array(counts, np.int64)),)


SEXES = Schema([ct.Attribute("sex", ["Female", "Male"])])
BY_SEX = plan_of(SEXES, [("sex",)])


def test_large_counts_add_up(tmp_path: Path) -> None:
    write_part(tmp_path / "a", exact(SEXES, 2**31 + 1, 2**45), Share(1, 2), origin(BY_SEX))
    write_part(tmp_path / "b", exact(SEXES, 2**31 + 2, 7), Share(2, 2), origin(BY_SEX, rows_are_units=False))
    merged = merged_of(Parts([tmp_path / "b", tmp_path / "a"]), BY_SEX)
    assert merged.tables[0].counts.tolist() == [2**32 + 3, 2**45 + 7]
    release = ct.release(Parts([tmp_path / "b", tmp_path / "a"]), plan=BY_SEX)
    assert abs(release.measurements[0].values[0] - 2**32) < 10_000


def test_what_is_not_the_whole_once_is_refused_and_nothing_spent(tmp_path: Path) -> None:
    other = plan_of(SEXES, [(), ("sex",)])
    written = {
        "one": (Share(1, 2), origin(BY_SEX)),
        "two": (Share(2, 2), origin(BY_SEX)),
        "again": (Share(2, 2), origin(BY_SEX)),
        "third": (Share(2, 3), origin(BY_SEX)),
        "plan": (Share(2, 2), origin(other)),
        "reading": (Share(2, 2), origin(BY_SEX, reading="r")),
        "source": (Share(2, 2), origin(BY_SEX, source="t")),
        "asserted": (Share(2, 2), origin(BY_SEX, rows_are_units=True)),
    }
    for name, (share, made) in written.items():
        write_part(tmp_path / name, exact(SEXES, 54_321, 54_322), share, made)
    write_part(tmp_path / "short", (), Share(2, 2), origin(BY_SEX))
    write_part(tmp_path / "negative", exact(SEXES, -5, 5), Share(2, 2), origin(BY_SEX))
    write_part(tmp_path / "huge", exact(SEXES, 2**62, 5), Share(2, 2), origin(BY_SEX))
    content = (tmp_path / "two").read_bytes()
    (tmp_path / "cut").write_bytes(content[:-9])
    (tmp_path / "forged").write_bytes(content.replace((54_321).to_bytes(8, "little"), (54_320).to_bytes(8, "little")))
    (tmp_path / "newer").write_bytes(content.replace(b"part-1", b"part-2"))
    (tmp_path / "empty").write_bytes(b"")
    for number, line in enumerate([b"{}", b"[", b'{"plan":1,"plan":1}', b"\xff", b"[" * 5_000]):
        body = b"crosstally-part-1\n" + line + b"\n" + bytes(16)
        (tmp_path / f"line{number}").write_bytes(body + hashlib.sha256(body).digest())
    refused = {
        "one": "share 1/2 is there twice",
        "third": "a share of other rows, or of another number of shares",
        "plan": "was counted for another plan; count it again",
        "reading": "was read in another way than the first",
        "source": "a share of other rows",
        "asserted": "a share of other rows",
        "nowhere": "No such file",
        "negative": "it holds counts that no rows have",
        "huge": "it holds counts that no rows have",
        "newer": "it is of a newer format than 1",
    }
    refused |= dict.fromkeys(("short", "cut", "forged", "empty"), "it is damaged, cut short, or no part")
    refused |= {f"line{number}": "it is damaged, cut short, or no part" for number in range(5)}
    ledger = ct.Ledger.create(tmp_path / "l.ledger", schema=SEXES, budget=ct.Budget(epsilon=1))
    for name, words in refused.items():
        with pytest.raises(SourceError) as caught:
            ct.release(Parts([tmp_path / "one", tmp_path / name]), plan=BY_SEX, ledger=ledger)
        assert words in str(caught.value), name
        assert "5432" not in str(caught.value)
    with pytest.raises(SourceError, match="share 2/2 is there twice"):
        ct.release(Parts([tmp_path / name for name in ("one", "two", "again")]), plan=BY_SEX, ledger=ledger)
    with pytest.raises(SourceError, match="share 2/2 is missing; a release needs all 2 parts, each once"):
        ct.release(Parts(tmp_path / "one"), plan=BY_SEX, ledger=ledger)
    with pytest.raises(PlanError, match="parts need the plan for which they were counted"):
        ct.release(Parts(tmp_path / "one"), SEXES, epsilon=1, ledger=ledger)
    assert ledger.entries() == ()
    assert "54" not in repr(Parts("part-*.counts"))
    for asserted in (False, True):
        write_part(tmp_path / "a", exact(SEXES, 5, 6), Share(1, 1), origin(BY_SEX, rows_are_units=asserted))
        assert ct.release(Parts(tmp_path / "a"), plan=BY_SEX).statement.rows_are_units == asserted


def test_a_source_that_changed_between_parts_is_refused(tmp_path: Path) -> None:
    """Without units rows are shared out by their number: in another file a row might count twice."""
    path = csv_file(tmp_path)
    plan = plan_of(Schema.from_dict(SCHEMA), [("sex",)])
    count_part(path, tmp_path / "part-1.counts", plan=plan, share="1/2")
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], lines[2], *lines[2:], ""]), encoding="utf-8")
    count_part(path, tmp_path / "part-2.counts", plan=plan, share="2/2")
    with pytest.raises(SourceError, match="while nobody writes to it"):
        merged_of(Parts(str(tmp_path / "part-*.counts")), plan)


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "-1/3", "1/2/3", "a/b", "1/65537", "١/٣"])
def test_shares_that_are_none(text: str) -> None:
    with pytest.raises(SourceError, match="share"):
        Share.read(text)


def test_the_command_line(tmp_path: Path) -> None:
    source, schema, plan = csv_file(tmp_path), tmp_path / "s.json", tmp_path / "p.json"
    Schema.from_dict(BOUNDED).save(schema)
    ran_well("plan", schema, "--epsilon", 100, "--tables", "sex,town", "--strategy", "direct", "-o", plan, "-q")
    ran_well("ledger", "create", tmp_path / "l.ledger", "--schema", schema, "--epsilon", 200)
    for number in (1, 2, 3):
        part = tmp_path / f"part-{number}.counts"
        told = ran_well("part", source, "--plan", plan, "--share", f"{number}/3", "-o", part)
        assert "CONFIDENTIAL: this file holds exact counts of people" in told.err.replace("\n", " ")
        assert told.out == ""
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    glob = tmp_path / "part-*.counts"
    common = ("--plan", plan, "--ledger", tmp_path / "l.ledger", "-o", tmp_path / "r.parquet")
    ran_well("release", "--parts", glob, *common, "--key", "spring")
    (exact,) = plain_count(ROWS, BOUNDED, [("sex", "town")])
    measured = ct.open_release(tmp_path / "r.parquet").measurements[0]
    assert np.abs(measured.values - np.array(exact)).max() <= 5  # noise of scale 1/50: 3 has probability e^-150
    assert "exists already" in run("part", source, "--plan", plan, "--share", "1/3", "-o", part).err
    refusals = {
        "leave out the source, or --parts": ("release", source, "--parts", glob, *common),
        "say it with --plan FILE": ("release", "--parts", glob, *common[2:]),
        "leave out --schema": ("release", "--parts", glob, *common, "--schema", schema, "--force"),
        "parts have no name to go by: say --ledger FILE": ("release", "--parts", glob, *common[:2], *common[4:]),
        "parts have no name to go by: say -o FILE": ("release", "--parts", glob, *common[:4]),
    }
    for words, arguments in refusals.items():
        refused = run(*arguments)
        assert (refused.code, words in refused.err) == (2, True), refused.err
    ran_well("plan", schema, "--epsilon", 1, "-o", tmp_path / "staged.json", "-q")
    staged = run("part", source, "--plan", tmp_path / "staged.json", "--share", "1/3", "-o", tmp_path / "x.counts")
    assert (staged.code, staged.err.count("\n")) == (2, 1)
    assert "parts are counted for plans of one stage" in staged.err
    assert not (tmp_path / "x.counts").exists()
