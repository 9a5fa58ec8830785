"""Random SELECTs are refused, or get the answer that DuckDB gives from the rows; ``make fuzz`` tries many more."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from crosstally.errors import QueryError
from fuzz.selects import check_select, random_select

NUMBER = 400


def test_random_selects_are_refused_or_answered_as_the_rows_answer() -> None:
    ended: Counter[str] = Counter()
    for number in range(NUMBER):
        try:
            compared = check_select(random_select(Random(f"select {number}")))
        except QueryError:
            ended["refused"] += 1
        else:
            ended["compared" if compared else "not SQL to DuckDB"] += 1
    assert ended["compared"] > NUMBER // 2
    assert ended["refused"] > NUMBER // 10, "nothing strange was asked"
    assert ended["not SQL to DuckDB"] < NUMBER // 20


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("SELECT count(*) FROM people WHERE region LIKE 'N!%' ESCAPE '!'", "ESCAPE"),
        ("SELECT sex, count(*) FROM people GROUP BY sex LIMIT 50%", "LIMIT with a percentage"),
        ("SELECT sex, count(*) FROM people GROUP BY sex WITH ROLLUP", "ROLLUP"),
        ("SELECT sex, count(*) FROM people GROUP BY DISTINCT ROLLUP (sex), ROLLUP (sex)", "GROUP BY DISTINCT"),
        ("SELECT count(*) FROM people WHERE rooms BETWEEN SYMMETRIC 3 AND 1", "SYMMETRIC in BETWEEN"),
        ("SELECT count(*) FROM people TABLESAMPLE 10%", "TABLESAMPLE"),
        ("SELECT count(*) FROM people AS p(sx)", "names of columns after a table"),
        ("SELECT count(*) FROM people WHERE job IS DISTINCT FROM 'paid'", "IS DISTINCT FROM"),
        ("SELECT sex, sum(count(*)) OVER (ORDER BY sex) FROM people GROUP BY sex", "the window"),
        ("SELECT sex, count(*)::DECIMAL(9, 1) FROM people GROUP BY sex", "precision"),
        ("SELECT sex, count(*)::VARCHAR FROM people GROUP BY sex", "a CAST to TEXT"),
        ("SELECT sex, (SELECT count(*) FROM people LIMIT 0) FROM people GROUP BY sex", "a subquery that is not one"),
        ("SELECT q.sex, count(*) FROM people GROUP BY q.sex", "must be a column of 'people'"),
        ("SELECT sex, round(count(*), 'x') FROM people GROUP BY sex", "must be a number"),
        ("SELECT sex, round(count(*), 0.5) FROM people GROUP BY sex", "a whole number of digits"),
        ("SELECT CASE WHEN rooms = 1 THEN 1 ELSE 'x' END AS c, count(*) FROM people GROUP BY c", "texts alone"),
    ],
)
def test_what_is_not_understood_is_named(statement: str, word: str) -> None:
    with pytest.raises(QueryError, match=word) as raised:
        check_select(statement)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM people WHERE sex NOT LIKE 'F%'",
        "SELECT count(*) FROM people WHERE NOT (job NOT ILIKE 'P%')",
        "SELECT count(*) FROM people WHERE job NOT LIKE 'p%'",
        "SELECT job, count(*) FROM people GROUP BY job ORDER BY job NULLS FIRST",
        "SELECT job, count(*) FROM people GROUP BY job ORDER BY job DESC",
        "SELECT job, count(*) FROM people GROUP BY job HAVING NOT job IN ('none')",
        "SELECT job, count(*) FROM people GROUP BY job HAVING job IS NULL",
        "SELECT coalesce(job, 'zz') AS j, count(*) FROM people GROUP BY ROLLUP (job) ORDER BY 1, 2",
        "SELECT sex, count(*) FROM people GROUP BY sex HAVING NOT (count(*) / nullif(count_if(FALSE), 0) > 1)",
        "SELECT job, sum(count(*)) OVER (PARTITION BY job) AS n FROM people GROUP BY ROLLUP (job)",
        "SELECT CASE WHEN rooms = 1 THEN 10 WHEN rooms = 2 THEN 9 END AS c, count(*) FROM people GROUP BY c ORDER BY c",
        "SELECT sex, round(count(*) / 8, 0) AS n FROM people GROUP BY sex",
    ],
)
def test_answers_that_once_were_wrong(statement: str) -> None:
    assert check_select(statement)
