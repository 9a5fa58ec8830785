"""Answers of other mechanisms beside those of a ledger: weighed, named, never charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import crosstally as ct
from cli_runs import run
from crosstally.errors import QueryError
from crosstally.notebook.notebook import Notebook, open_notebook
from crosstally.query.queries import Cells

SCHEMA = ct.Schema([ct.Attribute("sex", ["Female", "Male"]), ct.Attribute("children", ["0", "1", "2"])])
CENSUS, SURVEY = "census 2021, table 4", "survey of a neighbour"


def book(**options: object) -> Notebook:
    return open_notebook(ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=1)), **options)


def test_two_answers_are_weighed_by_their_variances() -> None:
    """100 with variance 4 and 110 with variance 1 give 108, with variance 0.8; the total is public."""
    found = book(rows=1_000_000)
    for value, variance, origin in [(100, 4, CENSUS), (110.0, 1.0, SURVEY)]:
        found.add("sex = Female", value, variance=variance, origin=origin)
    answer = found.estimate("sex = Female")
    assert answer.value == pytest.approx(108, abs=0.1)
    assert answer.std_error == pytest.approx(0.8**0.5, rel=0.01)
    assert answer.foreign == found.foreign == (CENSUS, SURVEY)
    assert str(answer).endswith(f"(also from {CENSUS}, {SURVEY}, which the budget does not cover)")
    assert found.ledger.spent == 0
    assert not found.ledger.measurements()


def test_a_whole_table_is_a_prior_and_is_not_kept_in_the_ledger(tmp_path: Path) -> None:
    ledger = ct.Ledger.create(tmp_path / "a.ledger", schema=SCHEMA, budget=ct.Budget(epsilon=1))
    found = open_notebook(ledger)
    found.add(Cells(("sex", "children")), [[10, 20, 30], [40, 50, 60]], variance=9, origin=CENSUS)
    assert found.estimate("sex = Male").value == pytest.approx(150)
    assert found.estimate("total(children) where sex = Female").value == pytest.approx(20 + 60)
    assert {each.query.attributes for each in found.improve_tables()} == {("sex", "children")}
    with pytest.raises(QueryError, match="nothing was answered yet"):
        open_notebook(tmp_path / "a.ledger").estimate("sex = Male")


def test_paid_answers_name_the_foreign_ones_beside_them() -> None:
    import pyarrow as pa

    found = book()
    found.add("sex = Female", 3, variance=1, origin=CENSUS)
    rows = pa.table({"sex": ["Female"] * 3 + ["Male"], "children": ["0", "1", "2", "2"]})
    (answer,) = found.ask_all(rows, ["sex = Female"], epsilon="0.5")
    assert answer.foreign == (CENSUS,)
    assert found.ledger.spent == 0.5
    assert len(found.ledger.measurements()) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variance": 0}, "variance of a foreign answer must be a positive number, got 0"),
        ({"variance": float("inf")}, "must be a positive number"),
        ({"variance": True}, "must be a positive number"),
        ({"value": float("nan")}, "must be finite and one number"),
        ({"value": [1, 2]}, "must be finite and one number, got shape"),
        ({"value": "many"}, "must be a number"),
        ({"origin": " "}, "must say in up to 200 characters where it comes from"),
        ({"origin": "a\nb"}, "must say in up to 200 characters"),
        ({"query": "nobody = 1"}, "unknown attribute 'nobody'"),
        ({"query": Cells(("sex",)), "value": 3}, "must be finite and 2"),
        ({"query": Cells(("children",), {"children": (0, 1, 1)}), "value": [1, 2]}, "not about groups"),
    ],
)
def test_what_is_no_answer_is_refused(given: dict[str, object], message: str) -> None:
    found = book()
    good = {"query": "sex = Female", "value": 3, "variance": 1.0, "origin": CENSUS}
    with pytest.raises(QueryError, match=message):
        found.add(**{**good, **given})
    assert found.foreign == ()


@pytest.mark.parametrize(
    ("covariance", "value", "variance"),
    [
        (1.0, 110.0, 1.0),  # [4 1; 1 1]: the weights are 0 and 1
        (-1.0, 750 / 7, 3 / 7),  # [4 -1; -1 1]: the weights are 2/7 and 5/7
        (0.0, 108.0, 0.8),
    ],
)
def test_correlated_answers_are_weighed_by_their_covariance(covariance: float, value: float, variance: float) -> None:
    """100 with variance 4 and 110 with variance 1: the weights are those of the rows of the inverse, over their sum."""
    found = book(rows=1_000_000)
    matrix = [[4, covariance], [covariance, 1]]
    found.add(["sex = Female", "sex = Female"], [100, 110], covariance=matrix, origin=CENSUS)
    answer = found.estimate("sex = Female")
    assert answer.value == pytest.approx(value, abs=0.1)
    assert answer.std_error == pytest.approx(variance**0.5, rel=0.01)
    assert answer.foreign == (CENSUS,)
    assert [round(each.before_error**2) for each in found.improve()] == [4, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variance": 1.0}, "a variance or a covariance"),
        ({"covariance": None}, "needs its variance"),
        ({"query": "sex = Female", "value": 1}, "goes with a list of questions"),
        ({"value": [1]}, "a value for each"),
        ({"covariance": [[1, 0]]}, "covariance of 2 answers must be 2 x 2"),
        ({"covariance": [[1, float("nan")], [0, 1]]}, "2 x 2 finite numbers"),
        ({"covariance": "much"}, "must be a matrix of numbers"),
        ({"covariance": [[1, 0.5], [0.4, 1]]}, "must be symmetric"),
        ({"covariance": [[1, 2], [2, 1]]}, "must be positive definite"),
        ({"covariance": [[1, 1], [1, 1]]}, "must be positive definite"),
        ({"covariance": [[1, 0], [0, 0]]}, "must be positive definite"),
        ({"query": [Cells(("sex",)), "sex = Male"]}, "ask for each cell"),
    ],
)
def test_what_is_no_covariance_is_refused(given: dict[str, object], message: str) -> None:
    found = book()
    good = {"query": ["sex = Female", "sex = Male"], "value": [3, 4], "covariance": [[1, 0.5], [0.5, 1]]}
    with pytest.raises(QueryError, match=message):
        found.add(**{**good, "origin": CENSUS, **given})
    assert found.foreign == ()


def test_a_file_of_correlated_answers(tmp_path: Path) -> None:
    found = book(rows=1_000_000)
    lines = ("question,value,origin", f"sex = Female,100,{SURVEY}", f"sex = Female,110,{SURVEY}")
    found.add_file(written(tmp_path, *lines), covariance=[[4, 1], [1, 1]])
    assert found.estimate("sex = Female").value == pytest.approx(110, abs=0.1)
    with pytest.raises(QueryError, match=r"others.csv'.*must be positive definite"):
        found.add_file(written(tmp_path, *lines), covariance=[[1, 2], [2, 1]])
    with pytest.raises(QueryError, match="must have the columns question, value, origin"):
        found.add_file(written(tmp_path, "question,value,variance,origin"), covariance=[[1]])


def test_correlated_answers_on_the_command_line(tmp_path: Path) -> None:
    """100 with variance 4 and 110 with variance 1 and covariance 1: the second alone counts, as above."""
    ledger = tmp_path / "a.ledger"
    ct.Ledger.create(ledger, schema=SCHEMA, budget=ct.Budget(epsilon=1))
    csv = written(tmp_path, "question,value,origin", f"sex = Female,100,{SURVEY}", f"sex = Female,110,{SURVEY}")
    matrix = written(tmp_path, "4,1", "1,1", name="covariance.csv")
    asked = ("ask", "--ledger", ledger, "sex = Female", "--free", "--rows", 1_000_000)
    seen = json.loads(run(*asked, "--foreign", csv, "--foreign-covariance", matrix, "--json").out)
    assert (seen["value"], seen["std_error"]) == (pytest.approx(110, abs=0.1), pytest.approx(1, rel=0.01))
    assert seen["foreign"] == [SURVEY]
    alone = run(*asked, "--foreign-covariance", matrix)
    assert (alone.code, "answers of --foreign, which is missing" in alone.err) == (2, True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b", "4,1"], "line 1: a covariance must be numbers alone"),
        (["4,1"], "covariance of 2 answers must be 2 x 2"),
        (["4,1", "1"], "must be a matrix of numbers"),
        (["4,1", '1,"1'], "must be a CSV file in UTF-8"),
        (["1"] * 1_001, "at most 1,000 answers"),
    ],
)
def test_files_of_a_covariance_that_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    csv = written(tmp_path, "question,value,origin", f"sex = Female,100,{SURVEY}", f"sex = Female,110,{SURVEY}")
    with pytest.raises(QueryError, match=message):
        book().add_file(csv, covariance=written(tmp_path, *lines, name="covariance.csv"))
    with pytest.raises(QueryError, match="cannot read"):
        book().add_file(csv, covariance=tmp_path / "none.csv")


def written(folder: Path, *lines: str, name: str = "others.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_of_answers_on_the_command_line(tmp_path: Path) -> None:
    ledger = tmp_path / "a.ledger"
    ct.Ledger.create(ledger, schema=SCHEMA, budget=ct.Budget(epsilon=1))
    csv = written(
        tmp_path,
        "origin,question,variance,value",
        f'"{CENSUS}",sex = Female,4,100',
        f'{SURVEY},"children in {{1, 2}}",9,70',
    )
    asked = ("ask", "--ledger", ledger, "sex = Female", "--free", "--foreign", csv)
    seen = json.loads(run(*asked, "--json").out)
    assert seen["foreign"] == [CENSUS, SURVEY]
    assert "this ledger's budget does not cover" in " ".join(run(*asked).out.split())
    assert ct.Ledger.open(ledger).spent == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["question,value,variance", "sex = Female,1,1"], "must have the columns question, value, variance, origin"),
        (["question,value,variance,origin", "sex = Female,1,1"], "line 2: there must be 4 fields"),
        (["question,value,variance,origin", "children in {1, 2},1,1,x"], "line 2: there must be 4 fields"),
        (["question,value,variance,origin", "sex = Female,1,0,x"], "line 2: the variance of a foreign answer"),
        (["question,value,variance,origin", "sex = Female,one,1,x"], "line 2: value must be a number"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        book().add_file(written(tmp_path, *lines))
    with pytest.raises(QueryError, match="cannot read"):
        book().add_file(tmp_path / "none.csv")
