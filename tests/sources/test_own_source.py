"""Sources of a user's own, and a new kind of source added to the program."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import SourceError
from crosstally.sources import Share, check, count, count_share, draft, encode_rows, source_of
from crosstally.sources.detection import detect_reading
from crosstally.sources.source import Source

SRC = Path(ct.__file__).parent
SCHEMA = ct.Schema.from_dict(
    {"attributes": [{"name": "sex", "values": ["F", "M"]}, {"name": "age", "edges": [0, 50, 100]}]}
)
WITH_UNIT = ct.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"id": "id", "max_rows": 1}})
TABLE = pa.table({"id": [1, 1, 2, 3], "age": [10, 10, 60, 70], "sex": ["F", "F", "M", "M"]})


class Yields:
    """Yields batches, each asked column, and remembers what was asked."""

    def __init__(self, given: Sequence[Any], names: Sequence[str] = TABLE.schema.names) -> None:
        self.given, self.named, self.asked = given, names, []

    def names(self) -> Sequence[str]:
        return self.named

    def batches(self, columns: Sequence[str]) -> Iterable[Any]:
        self.asked.append(list(columns))
        for each in self.given:
            if isinstance(each, Exception):
                raise each
            yield each.select(columns) if isinstance(each, pa.RecordBatch) else each


@pytest.mark.parametrize("schema", [SCHEMA, WITH_UNIT])
def test_an_object_that_yields_batches_counts_as_its_table_does(schema: ct.Schema) -> None:
    tables = [["sex", "age"], []]
    expected = [table.counts.tolist() for table in count(TABLE, schema, tables)]
    own = Yields(TABLE.to_batches(max_chunksize=3))
    assert [table.counts.tolist() for table in count(own, schema, tables)] == expected
    assert [set(asked) for asked in own.asked] == [{"sex", "age"} | ({"id"} if schema.unit else set())]
    assert [table.counts.tolist() for table in encode_rows(own, schema).count(tables)] == expected


def test_it_goes_wherever_rows_go() -> None:
    own = Yields(TABLE.to_batches())
    assert ct.release(own, SCHEMA, epsilon=1000, rows=4).marginal("sex").values.round().tolist() == [2, 2]
    assert check(own, SCHEMA).rows == 4
    few = Yields(TABLE.select(["sex", "age"]).to_batches(), ["sex", "age"])
    assert draft(few).schema.names == ("sex", "age")
    assert detect_reading(own).columns == 0
    assert source_of(own).size() is None
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=1000), neighbours=ct.Neighbours.ADD_REMOVE)
    assert round(float(ct.open_notebook(ledger).ask(own, ct.count(), epsilon=500).value)) == 4


def test_what_it_gets_wrong_is_said_without_a_value() -> None:
    secret = TABLE.to_batches()[0]
    for given, names, reason in (
        ([secret, ValueError("row 17: Mallory")], TABLE.schema.names, "its rows ended in an error"),
        ([secret, "Mallory"], TABLE.schema.names, "must yield Arrow record batches, got str"),
        ([secret], ["sex", "Mallory"], "has no column 'age' among its 2"),
        ([secret], ["sex", "age", "age"], "more than one column 'age'"),
    ):
        with pytest.raises(SourceError, match=reason) as caught:
            count(Yields(given, names), SCHEMA, [["sex"]])
        assert "Mallory" not in str(caught.value)
        assert caught.value.__context__ is None
    for ask in (count, count_share):
        with pytest.raises(SourceError, match=r"rows must be .* got int"):
            ask(7, SCHEMA, [["sex"]], *([Share(1, 2)] if ask is count_share else []))
    with pytest.raises(SourceError, match=r"rows must be .* got int"):
        detect_reading(7)


def test_what_was_paid_for_needs_no_source() -> None:
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=2), neighbours=ct.Neighbours.ADD_REMOVE)
    first = ct.release(TABLE, SCHEMA, epsilon=1, ledger=ledger, key="k", strategy="direct")
    again = ct.release(None, plan=ledger.plan("k"), ledger=ledger, key="k")
    assert again.marginal("sex").values.tolist() == first.marginal("sex").values.tolist()


def test_a_source_is_a_source_of_itself() -> None:
    found = source_of(TABLE)
    assert isinstance(found, Source)
    assert source_of(found) is found


ASKS = re.compile(r"(?<!def )\bis_(frame|table)\(|isinstance\([^()]*\b(Database|SparkTable|Parts|Files|\w+Rows)\b")
OF_KINDS = ("sources/kinds.py", "sources/spark.py", "sources/table_objects.py", "sources/databases.py")


def test_nobody_else_asks_which_kind_of_source_it_is() -> None:
    found = {path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py") if ASKS.search(path.read_text("utf-8"))}
    assert "sources/kinds.py" in found
    assert found <= {*OF_KINDS}


# A new kind of source, as an engineer would add it: a class, and a line that chooses it

NEW = '''"""Lines of a log, key=value, as a source."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from crosstally.sources.source import Source, RowStream, Scan, chosen_columns


class LogLines(Source):
    """Rows of a log."""

    is_read_again = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """The log as one stream."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        table = pa.Table.from_pylist([dict(field.split("=") for field in line.split()) for line in lines])
        chosen = chosen_columns(repr(str(self._path)), table.schema.names, scan.columns)
        batches = ((batch, 0) for batch in table.select(chosen).to_batches())
        yield RowStream(repr(str(self._path)), self._path.stat().st_size, batches)
'''
ANCHOR = "    if isinstance(rows, str | os.PathLike):\n"
CHOSEN = """    if str(rows).endswith(".log"):
        from pathlib import Path

        from crosstally.sources.log_lines import LogLines

        return LogLines(Path(rows))
"""
PATCH = {"sources/log_lines.py": ("", NEW), "sources/kinds.py": (ANCHOR, CHOSEN + ANCHOR)}


def test_a_new_kind_of_source_touches_two_files(tmp_path: Path) -> None:
    shutil.copytree(SRC, tmp_path / "crosstally")  # with its compiled kernels
    for name, (old, new) in PATCH.items():
        path = tmp_path / "crosstally" / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
    assert len(PATCH) <= 3
    (tmp_path / "people.log").write_text("sex=F age=10\nsex=M age=60\nsex=M age=70\n", encoding="utf-8")
    SCHEMA.save(tmp_path / "schema.json")
    code = (
        "import crosstally as ct\nschema = ct.Schema.load('schema.json')\n"
        "release = ct.release('people.log', schema, epsilon=1000, rows=3)\n"
        "print(ct.__file__, release.marginal('sex').values.round().tolist())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == [str(tmp_path / "crosstally/__init__.py"), "[1.0,", "2.0]"]
