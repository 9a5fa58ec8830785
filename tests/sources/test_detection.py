"""What is found out about sources, for a steward to confirm: several files, tables, and what is never shown."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import AmbiguousNumbersError, SourceError
from crosstally.sources import Reading, count
from crosstally.sources.detection import describe_reading, detect_reading

ROWS = "w;Köln;1,5\nm;Zürich;2,5\nm;Köln;3,5\n"
NAMES = "sex;town;pay\n"


def files(folder: Path, **contents: bytes) -> list[Path]:
    paths = [folder / f"{name}.csv" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    return paths


def failure(rows: Any, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        detect_reading(rows, reading=Reading(**options))
    assert caught.value.__context__ is None
    return str(caught.value)


def test_files_in_several_encodings_are_refused(tmp_path: Path) -> None:
    plain = (NAMES + ROWS.replace("ö", "o").replace("ü", "u")).encode()
    text = NAMES + ROWS
    both = files(tmp_path, a=text.encode(), b=text.encode("cp1252"), c=plain)
    assert failure(both).startswith("the files are in several encodings (cp1252, utf-8): save all of them as UTF-8")
    found = detect_reading([both[1], both[2]])  # what is ASCII alone goes with any
    assert str(found) == "3 columns, separator ';', cp1252, decimal comma in 1"
    assert found.reading.to_dict() == {"encoding": "cp1252", "decimal": {"pay": ","}}
    assert found.samples == ("Köln", "Zürich")  # the more frequent first
    assert not detect_reading([both[0], both[2]]).guessed
    assert detect_reading([both[2]]).samples == ()


def test_each_file_may_have_its_own_separator_and_order_but_not_other_columns(tmp_path: Path) -> None:
    one, two, other = files(
        tmp_path, a=(NAMES + ROWS).encode(), b=b"town|sex|pay\nBern|w|1,5\n", c=b"town|sex|rent\nBern|w|1,5\n"
    )
    found = detect_reading([one, two])
    schema = ct.Schema([ct.Attribute("town", ["Köln", "Zürich", "Bern"]), ct.Attribute("pay", edges=[0, 2, 4])])
    (table,) = count([one, two], schema, [("town", "pay")], reading=found.reading)
    assert table.counts.tolist() == [[1, 1], [0, 1], [1, 0]]
    assert failure([one, other]) == f"{str(other)!r} has other columns than {str(one)!r}; name files with the same ones"


def test_tables_and_other_files(tmp_path: Path) -> None:
    frame = pd.DataFrame({"pay": ["1,5", "n/a"], "code": [1, 2], "rent": ["12'500", "3"]})
    found = detect_reading(frame)
    assert str(found) == "3 columns, decimal comma in 1, thousands with apostrophes in 1"
    assert found.reading == Reading(decimal={"pay": ",", "rent": "."}, thousands={"rent": "'"})
    frame.to_parquet(tmp_path / "p.parquet")
    assert detect_reading(tmp_path / "p.parquet").reading == found.reading
    with pytest.raises(AmbiguousNumbersError) as caught:
        detect_reading(pd.DataFrame({"a": ["x"], "pay": ["21.740"]}))
    assert caught.value.columns == ("pay",)
    assert "pay" not in str(caught.value)  # where a file has no names, it is a person's
    once = pa.table(frame).to_reader()
    assert detect_reading(once).reading == Reading()  # and it is still there to be counted
    assert once.read_all().num_rows == 2


def test_words_among_numbers(tmp_path: Path) -> None:
    """A few words may stand among numbers; a column of words with a number among them is none."""
    few = pd.DataFrame({"pay": ["1,5", "n/a", "-", "none"]})
    many = pd.DataFrame({"pay": ["1,5", *"abcdefgh"], "code": ["21.740", *"abcdefgh"]})
    assert detect_reading(few).reading.decimal == {"pay": ","}
    assert detect_reading(many).reading == Reading()


def test_any_number_of_spellings_of_a_missing_value_may_stand_among_numbers() -> None:
    """Five words, and six spellings of a missing value beside them; a sixth word makes it a column of words."""
    missing, words = ["", "-", "?", "NA", "k.A.", "n/a"], ["a", "b", "c", "d", "e"]
    assert detect_reading(pd.DataFrame({"pay": ["1.234,5", *missing, *words]})).reading.decimal == {"pay": ","}
    assert detect_reading(pd.DataFrame({"pay": ["1.234,5", *missing, *words, "f"]})).reading == Reading()


def test_what_is_said_is_not_looked_for(tmp_path: Path) -> None:
    (path,) = files(tmp_path, a=b"town,pay\nA,21.740\nB,3.500\n")
    said = detect_reading(path, reading=Reading(decimal={"pay": ","}))
    assert said.reading == Reading(decimal={"pay": ","})
    assert detect_reading(path, reading=Reading(decimal=".")).reading == Reading(decimal=".")
    assert detect_reading(path, reading=Reading(delimiter=",", decimal=".")).delimiter == ","


def test_a_first_line_that_is_a_row(tmp_path: Path) -> None:
    years, row = files(tmp_path, a=b"2019,2020,2021\nx,y,x\ny,y,x\n", b=b"w,CANARY,34\nm,Bern,20\nw,Bern,30\n")
    for path in (years, row):
        message = failure(path)
        assert message.startswith(f"{str(path)!r}: its first line looks like a row, not like names; say --header")
        assert "CANARY" not in message
    assert str(detect_reading(years, reading=Reading(header=1))) == "3 columns, separator ',', UTF-8"
    assert str(detect_reading(row, reading=Reading(header=0))) == "3 columns, separator ',', UTF-8, no names"


def test_the_only_name_may_show_that_the_guess_is_right(tmp_path: Path) -> None:
    (path,) = files(tmp_path, a="größe\nklein\ngroß\n".encode("cp1252"))
    size = ct.Schema([ct.Attribute("größe", ["klein", "groß"])])
    assert str(describe_reading(path, size)) == "1 column, separator ',', cp1252"


def test_nothing_of_a_row_is_printed(tmp_path: Path) -> None:
    (path,) = files(tmp_path, a=(NAMES + ROWS).encode("cp1252"))
    found = detect_reading(path)
    assert found.samples
    assert repr(found) == "Detected(3 columns, separator ';', cp1252, decimal comma in 1)"
    sex = ct.Schema([ct.Attribute("sex", ["w", "m"])])
    seen = describe_reading(path, sex, reading=Reading(encoding="cp1252", decimal=","))
    assert str(seen) == "3 columns, separator ';', cp1252, decimal comma"
    assert describe_reading(pa.table({"a": [1]}), sex) is None


def test_a_wide_file_is_looked_at_quickly(tmp_path: Path) -> None:
    lines = [
        ";".join(f"q{i}" for i in range(500)),
        *(";".join(["1,5", "a", "", "7", "x, y"] * 100) for _ in range(200)),
    ]
    (path,) = files(tmp_path, a="\n".join(lines).encode())
    begun = time.process_time()
    assert str(detect_reading(path)) == "500 columns, separator ';', UTF-8, decimal comma in 100"
    assert time.process_time() - begun < 10
