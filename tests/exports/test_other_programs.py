"""The lines of the docs that read a table in other programs, run by these programs."""

import subprocess
from pathlib import Path

import duckdb
import pytest

import released
from components import program
from crosstally.exports.parquet_table import parquet_pieces

ROOT = Path(__file__).parents[2]


def block(language: str) -> str:
    """The code of a language in the docs."""
    page = (ROOT / "docs/how-to/share.md").read_text(encoding="utf-8")
    return page.split(f"```{language}\n")[1].split("```")[0]


def test_r_reads_a_table_as_documented(tmp_path: Path) -> None:
    """R gives back each label, number and error that was written; ``xtabs`` has a margin that is summed by hand."""
    answer = released.views().marginal("sex", "âge").transpose()
    (tmp_path / "sex-age.csv").write_text(answer.to_csv().replace("âge", "age"), encoding="utf-8")
    lines = block("r") + 'write.csv(table, "again.csv", row.names = FALSE, fileEncoding = "UTF-8")\n'
    lines += 'cat(sprintf("%.6f\\n", sum(table$count[table$sex == "Male"])))\n'
    (tmp_path / "read.R").write_text(lines, encoding="utf-8")
    ran = subprocess.run(
        [program("Rscript", "r-base-core"), "--vanilla", "read.R"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert float(ran.stdout.splitlines()[-1]) == pytest.approx(answer.sel(sex="Male").values.sum(), abs=1e-4)
    given, back = (
        duckdb.sql(f"SELECT * FROM read_csv('{tmp_path / name}', header = true)").fetchall()
        for name in ("sex-age.csv", "again.csv")
    )
    assert [row[:2] for row in back] == [row[:2] for row in given]
    assert [row[2:] for row in back] == [pytest.approx(row[2:], rel=1e-9) for row in given]


def test_duckdb_reads_a_table_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = released.views().marginal("sex", "âge")
    monkeypatch.chdir(tmp_path)
    Path("sex-age.parquet").write_bytes(b"".join(parquet_pieces(answer)))
    found = dict(duckdb.sql(block("sql")).fetchall())
    assert found["Male"] == pytest.approx(answer.sel(sex="Male").values.sum())
