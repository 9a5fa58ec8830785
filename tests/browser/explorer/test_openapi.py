"""Whatever is sent to the API, no answer is an error of the server.

schemathesis makes requests from the API's own description: what it allows and what it does not. Few of them get far, so
others are put together from pieces that are right and some that are not. Examples are the same each time; ``make
verify`` sends many more.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crosstally.browser.explorer.app import create_app
from crosstally.browser.explorer.problems import MEDIA_TYPE
from crosstally.schema import Attribute, Level, Schema
from web_clients import client_of, measured, serving

HOST = "testserver"  # what schemathesis calls every application
SCHEMA = Schema(
    [
        Attribute(
            "town",
            ["Bern", "Thun", "Nice"],
            missing=True,
            hierarchy=[Level("canton", {"Bern": ["Bern", "Thun"], "Alpes": ["Nice"]})],
        ),
        Attribute("sex", ["Female", "Male"]),
        Attribute("age", edges=[0, 18, 65, 120]),
    ]
)
SERVED = serving(measured(SCHEMA, [(), ("town", "sex"), ("sex", "age")]))  # town by age was not measured
APP = create_app(SERVED, hosts=(HOST,))
DESCRIBED = schemathesis.openapi.from_asgi("/api/v2/openapi.json", APP)
QUIET = list(HealthCheck)


def check(case: schemathesis.Case) -> None:
    """No error of the server, and every other error a problem document."""
    answer = case.call()
    assert answer.status_code < 500, case.as_curl_command()
    if answer.status_code >= 400 and case.method.upper() != "HEAD":
        assert answer.headers["content-type"] == [MEDIA_TYPE], case.as_curl_command()


@DESCRIBED.parametrize()
@settings(max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=QUIET)
def test_no_request_is_an_error_of_the_server(case: schemathesis.Case) -> None:
    check(case)


@pytest.mark.verify
@DESCRIBED.parametrize()
@settings(max_examples=1_500, derandomize=True, deadline=None, database=None, suppress_health_check=QUIET)
def test_none_of_thousands_is_either(case: schemathesis.Case) -> None:
    check(case)


# Requests that are right, or nearly


def mostly(*right: str) -> st.SearchStrategy[str]:
    """One of these; any text, one time in twenty."""
    return st.integers(0, 19).flatmap(lambda n: st.sampled_from(right) if n else st.text(max_size=8))


CONDITIONS = st.lists(
    mostly(
        "sex = Male",
        "not sex = Male",
        "18 <= age < 65",
        "age >= 18",
        "age < 20",
        "town in {Bern, Nice}",
        "town != (missing)",
        "(age = [0, 18) or town = Thun)",
        "town = Basel",
        "rank > 3",
    ),
    max_size=3,
).map(" and ".join)
SELECTED = {
    "valueCodes[town]": mostly("*", "Bern", "Bern,Nice", "(missing)", "C0"),
    "valueCodes[sex]": mostly("*", "Male"),
    "valueCodes[age]": mostly("*", "C0", "C0,C2", "[0, 18)"),
    "where": CONDITIONS,
    "at.town": mostly("canton"),
    "by.1.town": mostly("Bern", "Thun", "Basel"),
    "as.1.town": mostly("Oberland", "Nice", ""),
    "by.2.town": mostly("Nice", "(missing)"),
    "by.1.age": mostly("[0, 18)", "[65, 120]"),
    "outputFormat": mostly("json-stat2", "csv", "parquet", "xlsx", "px", "sdmx-csv"),
    "level": mostly("0.9", "0.95", "0.99"),
    "lang": mostly("en"),
}
COLUMNS = st.lists(mostly("sex", "town", "age", "rank", '"sex"'), max_size=3, unique=True)


@st.composite
def selections(draw: st.DrawFn) -> list[tuple[str, str]]:
    """The parameters of a table: any of them, in any order, some again."""
    keys = [*draw(st.lists(mostly(*list(SELECTED)[:3]), max_size=2)), *draw(st.lists(mostly(*SELECTED), max_size=4))]
    return [(key, draw(SELECTED.get(key, st.text(max_size=8)))) for key in keys]


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A SELECT of columns and figures, grouped in one of the ways there are."""
    columns = draw(COLUMNS)
    figure = mostly(
        "count(*)", "count(*) * 2 AS n", "sum(count(*)) OVER ()", "count(*) / sum(count(*)) OVER (PARTITION BY sex)",
        "count(*) FILTER (WHERE sex = 'Male')", "avg(age)", "sum(age)", "max(age)", "1 / 0", "count(DISTINCT town)",
        "CASE WHEN age >= 18 THEN 'adult' ELSE 'child' END AS grown, count(*)",
    )  # fmt: skip
    where = mostly("sex = 'Male'", "age >= 18 AND age < 65", "town IN ('Bern', 'Nice')", "town IS NULL", "rank = 1")
    listed = ", ".join(columns)
    parts = [f"SELECT {', '.join([*columns, *draw(st.lists(figure, min_size=1, max_size=2))])} FROM people"]
    parts += [f"WHERE {draw(where)}"] if draw(st.booleans()) else []
    parts += [draw(mostly(f"GROUP BY {listed}", f"GROUP BY ROLLUP ({listed})", f"GROUP BY CUBE ({listed})", ""))]
    parts += draw(
        st.lists(mostly("HAVING count(*) > 10", "ORDER BY 1", "ORDER BY count(*) DESC", "LIMIT 3"), max_size=2)
    )
    return " ".join(parts)


def answered(examples: int) -> Counter[tuple[str, int]]:
    """How often which path gave which status; none of them may be an error of the server."""
    client, seen = client_of(SERVED), Counter[tuple[str, int]]()
    pairs = st.tuples(st.just("tables/people/data"), selections())
    texts = st.tuples(st.just("sql"), statements().map(lambda text: [("statement", text), ("outputFormat", "csv")]))

    @settings(max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=QUIET)
    @given(pairs | texts)
    def ask(asked: tuple[str, list[tuple[str, str]]]) -> None:
        path, query = asked
        answer = client.get(f"/api/v2/{path}?{urlencode(query)}")
        assert answer.status_code < 500, (path, query)
        assert answer.status_code < 400 or answer.headers["content-type"] == MEDIA_TYPE
        seen[path, answer.status_code] += 1

    ask()
    return seen


@pytest.mark.parametrize("examples", [100, pytest.param(3_000, marks=pytest.mark.verify)])
def test_no_request_that_is_nearly_right_is_an_error_of_the_server(examples: int) -> None:
    seen = answered(examples)
    assert min(seen["tables/people/data", 200], seen["sql", 200]) > examples // 20, seen  # many get to the end
