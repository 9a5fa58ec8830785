"""The tasks that Spark runs, without Spark: whatever way rows are spread, the counts are those of one process."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crosstally.errors import AmbiguousNumbersError, CrosstallyError, OutsideValueError, SourceError
from crosstally.query.queries import Cells
from crosstally.schema import Schema
from crosstally.sources import count
from crosstally.sources.parts import id_hashes
from crosstally.sources.source import RowEncoding
from crosstally.sources.spark import add_up
from crosstally.sources.spark_tasks import (
    BLOCK_CELLS,
    PLACES,
    added_blocks,
    block,
    bounded_chunks,
    counted_chunks,
    counted_rows,
    encoded_chunks,
    record_of,
    unpacked,
)
from reference_sources import count as plain_count

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
ATTRIBUTES = [{"name": "a", "values": ["0", "1", "2"], "outside": "drop"}, {"name": "b", "values": [0, 1]}]
UNIT: dict[str, Any] = {"id": "who", "max_rows": 2}
ONCE: dict[str, Any] = {"id": "who", "divided": True}
TABLES = [(), ("a",), ("b",), ("a", "b")]
Row = tuple[Any, str, int]


class Spread:
    """Stands for Spark: partitions in which rows come in any order, and a shuffle that keeps equal keys together."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def partitions(self, table: pa.Table, number: int = 3) -> list[list[pa.RecordBatch]]:
        order = list(range(table.num_rows))
        self.draw.shuffle(order)
        parts = [table.take(pa.array(order[i::number], pa.int64())) for i in range(number)]
        return [part.to_batches(max_chunksize=self.draw.choice([1, 3, 50])) for part in parts]

    def run(self, stage: Stage, parts: Iterable[list[pa.RecordBatch]]) -> list[list[pa.RecordBatch]]:
        stage = pickle.loads(pickle.dumps(stage))
        return [list(stage(iter(part))) for part in parts]

    def shuffled(self, parts: list[list[pa.RecordBatch]], key: str, number: int = 3) -> list[list[pa.RecordBatch]]:
        rows = [row for part in parts for batch in part for row in batch.to_pylist()]
        schema = next(batch.schema for part in parts for batch in part)
        self.draw.shuffle(rows)
        rows.sort(key=lambda row: row[key])
        salt = self.draw.randrange(1000)
        return [
            pa.Table.from_pylist([r for r in rows if hash((r[key], salt)) % number == i], schema).to_batches(17)
            for i in range(number)
        ]


def task(schema: dict[str, Any], **options: Any) -> RowEncoding:
    return RowEncoding.of(Schema.from_dict(schema), **{"batch_rows": 5, **options})


def counted(
    table: pa.Table, schema: dict[str, Any], tables: list[Any] = TABLES, *, seed: int = 0, staged: bool = False
) -> list[Any]:
    spread, each = Spread(seed), task(schema)
    asked = tuple(map(Cells, tables))
    parts = spread.partitions(table.select(each.columns))
    if staged or "unit" in schema:
        parts = spread.run(partial(encoded_chunks, each), parts)
        if "unit" in schema:
            parts = spread.shuffled(parts, "place")
        if staged and "unit" in schema:
            parts = spread.run(partial(bounded_chunks, each), parts)
        parts = spread.run(partial(counted_chunks, each, asked, bounded=staged), parts)
    else:
        parts = spread.run(partial(counted_rows, each, asked), parts)
    sums = spread.run(added_blocks, spread.shuffled(parts, "block"))
    found = [row for part in sums for batch in part for row in batch.to_pylist()]
    return [exact.counts.tolist() for exact in add_up(found, each, asked)]


def table_of(rows: list[Row]) -> pa.Table:
    who, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = (pa.string(), pa.string(), pa.int8())
    return pa.table({n: pa.array(v, k) for n, v, k in zip(("who", "a", "b"), (who, a, b), kinds, strict=True)})


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    "schema", [{"attributes": ATTRIBUTES, **unit} for unit in ({}, {"unit": UNIT}, {"unit": ONCE})]
)
def test_counts_are_those_of_one_process(schema: dict[str, Any], staged: bool) -> None:
    draw = random.Random(3)
    rows = [
        (draw.choice([None, "", "p", "q", "7", "7.0"]), draw.choice("012x"), draw.choice([0, 1])) for _ in range(99)
    ]
    expected = plain_count([dict(zip(("who", "a", "b"), row, strict=True)) for row in rows], schema, TABLES)
    table = table_of(rows)
    assert [t.counts.tolist() for t in count(table, Schema.from_dict(schema), TABLES)] == expected
    for seed in range(5):
        assert counted(table, schema, seed=seed, staged=staged) == expected


@pytest.mark.parametrize("staged", [False, True])
def test_one_unit_more_moves_the_counts_by_its_bound_at_most(staged: bool) -> None:
    """Every unit of up to three rows of a small domain, beside others: brute force, over all neighbours."""
    schema = {"attributes": ATTRIBUTES, "unit": UNIT}
    domain = [*product("01x", [0, 1])]
    others: list[Row] = [("q", "0", 0), ("q", "1", 1), ("q", "1", 0), ("r", "0", 0)]
    without = counted(table_of(others), schema, staged=staged)
    for size in (1, 2, 3):
        for theirs in combinations_with_replacement(domain, size):
            rows: list[Row] = [*others, *(("p", a, b) for a, b in theirs)]
            within = counted(table_of(rows), schema, seed=size, staged=staged)
            known = sum(a != "x" for a, _ in theirs)
            for table, before in zip(within, without, strict=True):
                moved = np.array(table) - np.array(before)
                assert moved.min() >= 0  # no row of another unit leaves a cell
                assert moved.sum() == min(known, UNIT["max_rows"])


@pytest.mark.parametrize("staged", [False, True])
def test_one_divided_unit_more_moves_the_counts_by_its_parts(staged: bool) -> None:
    """Of 720,720 parts all, in each table, however many rows it has: 7 rows of 102,960, and 17 of 42,395."""
    schema = {"attributes": ATTRIBUTES, "unit": ONCE}
    others: list[Row] = [("q", "0", 0), ("q", "1", 1), ("q", "1", 0), ("r", "0", 0)]
    without = counted(table_of(others), schema, staged=staged)
    for known, parts in ((0, 0), (1, 720_720), (2, 720_720), (7, 720_720), (17, 17 * 42_395)):
        theirs: list[Row] = [("p", "012"[i % 3], i % 2) for i in range(known)]
        within = counted(table_of([*others, *theirs, ("p", "x", 0)]), schema, seed=known, staged=staged)
        for table, before in zip(within, without, strict=True):
            moved = np.array(table) - np.array(before)
            assert moved.min() >= 0
            assert moved.sum() == parts


def test_a_place_in_two_tasks_is_refused() -> None:
    """What no shuffle does: else a unit would count twice its bound."""
    each = task({"attributes": ATTRIBUTES, "unit": UNIT})
    parts = Spread(0).partitions(table_of([("p", "0", 0)] * 6).select(each.columns))
    encoded = [list(encoded_chunks(each, iter(part))) for part in parts]
    blocks = [batch for part in encoded for batch in counted_chunks(each, (Cells(()),), iter(part), bounded=False)]
    found = [row for batch in added_blocks(iter(blocks)) for row in batch.to_pylist()]
    with pytest.raises(SourceError, match="Spark gave rows of one unit to several tasks; nothing was spent"):
        add_up(found, each, [Cells(())])


def test_sums_beyond_32_bits_and_many_blocks() -> None:
    each = task({"attributes": [{"name": name, "values": [str(i) for i in range(300)]} for name in "ab"]})
    cells = np.zeros(300 * 300, np.int64)
    cells[[0, -1]] = 2**31 + 7, 5
    parts = [block(i, cells[i * BLOCK_CELLS : (i + 1) * BLOCK_CELLS]) for i in (0, 1)]
    found = [row for batch in added_blocks(iter([*parts, *parts])) for row in batch.to_pylist()]
    (table,) = add_up(found, each, [Cells(("a", "b"))])
    assert (table.counts[0, 0], table.counts[-1, -1], table.counts.sum()) == (2**32 + 14, 10, 2**32 + 24)


def test_places_follow_from_the_text_of_an_id() -> None:
    ids = pa.array([str(i) for i in range(20_000)], pa.large_string())
    hashes = id_hashes(ids)
    assert len(set(hashes.tolist())) == 20_000
    assert np.array_equal(id_hashes(ids.slice(77, 30)), hashes[77:107])
    assert (
        id_hashes(pa.array(["é", "x" * 1000, "é"], pa.large_string()))[[0, 2]].tolist()
        == [int(id_hashes(pa.array(["é"], pa.large_string()))[0])] * 2
    )
    per_place = np.bincount((hashes >> np.uint64(54)).astype(int), minlength=PLACES)
    assert per_place.max() < 45  # 20 on average: beyond 45 with probability below 1e-3 for all places together


def test_chunks_hold_what_was_put_in() -> None:
    each = task({"attributes": ATTRIBUTES, "unit": UNIT})
    table = table_of([(f"{i % 37}", "012"[i % 3], i % 2) for i in range(500)])
    batches = [*encoded_chunks(each, iter(table.select(each.columns).to_batches()))]
    found = []
    for batch in batches:
        for place, size in zip(batch["place"].to_pylist(), map(len, batch["lengths"].to_pylist()), strict=True):
            assert 0 <= place < PLACES
            assert size <= 4 * 64
        rows = unpacked(batch, record_of(each))
        found += zip(rows.ids.to_pylist(), *(codes.tolist() for codes in rows.codes), strict=True)
    assert sorted(found) == sorted((f"{i % 37}", i % 3, i % 2) for i in range(500))
    assert unpacked(batches[0].slice(0, 0), record_of(each)).size == 0


def test_refusals_are_told_and_not_raised() -> None:
    """A task that raised would be tried again, and Spark would log what the error quotes."""
    schema = {"attributes": [{"name": "a", "values": ["0", "1"]}]}
    with pytest.raises(OutsideValueError, match="column 'a' holds values, or missing values, that the schema does not"):
        counted(pa.table({"a": ["0", "CANARY"]}), schema, [("a",)])
    with pytest.raises(SourceError, match="column 'a' must hold texts, numbers, booleans, dates or times, got list"):
        counted(pa.table({"a": [["CANARY"]]}), schema, [("a",)])

    def broken(batches: Any) -> Iterator[pa.RecordBatch]:
        raise ValueError("CANARY")
        yield

    (note,) = [*counted_rows(task(schema), (Cells(("a",)),), broken(()))]
    assert note["note"].to_pylist() == ['{"problem": "cannot count the DataFrame: a task failed (ValueError)"}']


def test_numbers_are_judged_over_all_partitions() -> None:
    """1.234 alone may be a thousand: another partition settles what it is, as another row of a file would."""
    schema = {"attributes": [{"name": "a", "edges": [0, 2, 2000], "outside": "other"}]}

    def outcome(counting: Callable[..., Any], values: list[str]) -> Any:
        try:
            return counting(pa.table({"a": values}))
        except CrosstallyError as error:
            return type(error), str(error)

    def by_tasks(table: pa.Table) -> Any:
        return counted(table, schema, [("a",)])

    def in_process(table: pa.Table) -> Any:
        return [each.counts.tolist() for each in count(table, Schema.from_dict(schema), [("a",)])]

    for values in (["1.234"] * 6, ["1.234", "1.5"] * 3, ["1,5"] * 6, ["1.5", "1,234"], ["7"] * 4, ["1.234", "1,234"]):
        assert outcome(by_tasks, values) == outcome(in_process, values)
    with pytest.raises(AmbiguousNumbersError):
        counted(pa.table({"a": ["1.234"] * 6}), schema, [("a",)])
