"""Values put together on the page: levels of hierarchies and groups of one's own, each state in the URL."""

import csv
import io
import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

import released
from cli_runs import ran_well, run
from crosstally.analysis.regrouping import Regrouping
from crosstally.browser.explorer import snippets
from crosstally.browser.explorer.view import TableView, read_view
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, publish
from crosstally.schema import Attribute, Level, Schema
from web_clients import HOSTILE, client_of, hostile, serving

TOWN = Attribute(
    "town",
    ["Bern", "Thun", "Lausanne", "Nice"],
    missing=True,
    hierarchy=[
        Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"], "Alpes": ["Nice"]}),
        Level("country", {"CH": ["Bern", "Vaud"], "FR": ["Alpes"]}),
    ],
)
SEX = Attribute("sex", ["Female", "Male"])
COUNTS = np.array([[100, 210], [320, 430], [540, 650], [760, 870], [980, 1090]])


@pytest.fixture(scope="module")
def release() -> Release:
    """Counts that are public by construction, without any correction."""
    schema = Schema([TOWN, SEX])
    measurement = Measurement(Cells(schema.names), COUNTS, variance=9.0, noise=None, origin="protocol")
    return publish(schema, [measurement], released.statement(model="local"), nonnegative="none")


@pytest.fixture(scope="module")
def client(release: Release) -> TestClient:
    return client_of(serving(release), page=True)


def rows(client: TestClient, query: str) -> list[list[str]]:
    """The labels and numbers of the rows on a page."""
    body = client.get(f"/table?{query}").text.split("<tbody>")[1].split("</tbody>")[0]
    parts = [re.findall(r'<bdi>(.*?)</bdi>|class="value">(.*?)<', row) for row in body.split("</tr>")[:-1]]
    return [["".join(found) for found in row] for row in parts]


def test_groups_are_sums_with_the_error_of_sums(client: TestClient) -> None:
    groups = "by.1.town=Bern&by.1.town=Thun&as.1.town=Oberland&by.2.town=Lausanne&by.2.town=Nice"
    assert rows(client, f"rows=town&columns=sex&{groups}") == [
        ["Oberland", "420", "640"], ["Lausanne + Nice", "1,300", "1,520"], ["(missing)", "980", "1,090"]
    ]  # fmt: skip
    table = pd.read_csv(io.StringIO(client.get(f"/download/csv?rows=town&columns=sex&{groups}").text))
    assert table["count"].tolist() == [420, 640, 1300, 1520, 980, 1090]
    assert table["std_error"].tolist() == pytest.approx([18**0.5] * 4 + [3, 3])
    shares = rows(client, f"rows=town&columns=sex&show=row&{groups}")
    assert shares[0] == ["Oberland", "39.6%", "60.4%"]


def test_levels_are_sums_and_lead_inside(client: TestClient) -> None:
    page = client.get("/table?rows=town&at.town=country").text
    assert rows(client, "rows=town&at.town=country") == [["CH", "2,250"], ["FR", "1,630"], ["(missing)", "2,070"]]
    assert "Count by town (country)" in page
    assert "Values of town are added up to the level country." in page
    links = re.findall(r'<th scope="row"><a href="/table\?([^"#]*)#result" aria-label="go into (\w+)"', page)
    assert [label for _, label in links] == ["CH", "FR"]  # nothing is below a missing value
    inside = links[0][0].replace("&amp;", "&")
    assert rows(client, inside) == [["Bern", "1,060"], ["Vaud", "1,190"]]
    deeper = read_view(parse_qsl(inside), Schema([TOWN, SEX])).inside(TOWN, "Bern")
    assert rows(client, deeper.query()) == [["Bern", "310"], ["Thun", "750"]]


def test_labels_of_columns_lead_inside_too(client: TestClient) -> None:
    page = client.get("/table?rows=sex&columns=town&at.town=country").text
    links = re.findall(r'class="number"><a href="/table\?([^"#]*)#result" aria-label="go into (\w+)"', page)
    assert [label for _, label in links] == ["CH", "FR"]
    assert rows(client, links[0][0].replace("&amp;", "&")) == [["Female", "420", "540"], ["Male", "640", "650"]]


def test_every_state_is_its_own_url(release: Release) -> None:
    groups = (("Oberland", ("Bern", "Thun")), ("Lausanne + Nice", ("Lausanne", "Nice")))
    view = TableView(("town",), grouping=("town",), regrouping=Regrouping(groups=(("town", groups),)))
    assert read_view(parse_qsl(view.query()), release.schema) == view
    assert "as.2" not in view.query()  # it is called after its values
    level = TableView(("sex",), regrouping=Regrouping(levels=(("town", "canton"),)))
    assert read_view(parse_qsl(level.query()), release.schema) == level
    assert not level.applied  # the table is not over towns
    both = read_view(parse_qsl(level.query() + "&by.1.town=Bern&group=town"), release.schema)
    assert (both.regrouping, both.groupable) == (level.regrouping, ())


def test_the_form_offers_the_groups_there_are_and_one_more(client: TestClient) -> None:
    page = client.get("/table?rows=town&by.1.town=Bern&by.1.town=Thun&as.1.town=Oberland").text
    assert 'name="as.1.town" value="Oberland"' in page
    assert re.findall(r'name="by.1.town" value="(\w+)" checked', page) == ["Bern", "Thun"]
    assert re.findall(r'name="by.2.town" value="([^"]+)"( checked)?', page) == [
        (label, "") for label in ("Lausanne", "Nice", "(missing)")
    ]
    assert 'name="by.1.sex"' not in page
    assert 'name="by.1.sex"' in client.get("/table?rows=town&group=sex").text
    assert '<option value="canton">' in page


@pytest.mark.parametrize(
    "query",
    ["at.town=province", "at.sex=canton", "at.place=canton", "by.1.town=Basel", "by.0.town=Bern", "by.town=Bern",
     "by.1.town=Bern&by.2.town=Bern", "by.1.town=Bern&as.1.town=Thun", "by.1.place=x", "group=place",
     "as.x.town=y", "by.10000.town=Bern"],
)  # fmt: skip
def test_what_is_no_grouping_is_said(client: TestClient, query: str) -> None:
    assert client.get(f"/table?rows=town&{query}").status_code == 422


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["town: Oberland = Berne, Thun"], "'town' has no label 'Berne'; did you mean 'Bern'?"),
        (["town: Oberland = Zurich"], "'town' has no label 'Zurich'; there are Bern, Thun, Lausanne, Nice, (missing)"),
        (["town: kanton"], "'town' has no level 'kanton'; did you mean 'canton'?"),
        (["sex: all"], "'sex' has no level 'all'; it has no hierarchy. Groups have a name: GROUP = VALUE"),
        (["town: a = Bern", "town: b = Bern"], "'town': a value must be in one group only, got 'Bern' in two"),
        (["town: Thun = Bern"], "'town': a group must not be called like a value outside, got 'Thun'"),
        (["town: canton", "town: country"], "'town' can have one level, got 'canton' and 'country'"),
        (["town: canton", "town: a = Bern"], "'town' can have a level or groups, got both"),
        (["place: a = b"], "'place'"),
        (["age"], "a grouping must begin with an attribute and a colon"),
    ],
)
def test_wrong_groupings_are_one_line_at_the_terminal(
    release: Release, tmp_path: Path, texts: list[str], said: str
) -> None:
    release.save(tmp_path / "people.release.parquet")
    groups = [word for text in texts for word in ("--group", text)]
    ran = run("table", tmp_path / "people.release.parquet", "town", "sex", *groups)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


def test_the_terminal_groups_whole_numbers_too(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "people.release.parquet"
    release.save(path)
    group = ("--group", "town: Oberland = Bern, Thun")
    printed = [ran_well("table", path, "town", *group, *more, "-f", "csv").out for more in ((), ("--whole",))]
    plain, whole = (pd.read_csv(io.StringIO(text)).set_index("town") for text in printed)
    assert plain["count"].to_dict() == {"Oberland": 1060, "Lausanne": 1190, "Nice": 1630, "(missing)": 2070}
    assert plain["std_error"].tolist() == pytest.approx([6, 18**0.5, 18**0.5, 18**0.5])  # of 4, 2, 2 and 2 cells
    assert whole["count"].to_dict() == plain["count"].to_dict()
    assert (whole["count_high"] - whole["count"]).tolist() == pytest.approx([11.76, 8.316, 8.316, 8.316], rel=2e-3)
    assert "no attribute of the table; it has sex" in run("table", path, "sex", *group).err


def test_a_filter_leaves_the_groups_that_have_values(client: TestClient) -> None:
    query = "rows=town&in.town=Bern&in.town=Nice&by.1.town=Bern&by.1.town=Thun&by.2.town=Lausanne"
    assert rows(client, query) == [["Bern + Thun", "310"], ["Nice", "1,630"]]
    assert rows(client, "rows=town&in.town=Thun&in.town=Nice&at.town=canton") == [["Bern", "750"], ["Alpes", "1,630"]]


def test_code_gives_the_same_numbers(release: Release) -> None:
    groups = Regrouping(groups=(("town", (("Ober'land", ("Bern", "Thun")),)),))
    for regrouping in (groups, Regrouping(levels=(("town", "country"),))):
        wanted = regrouping(release.marginal("town", "sex", where="sex = Female"))
        lines = snippets.python("f", ("town", "sex"), "sex = Female", regrouping).splitlines()
        names: dict[str, Any] = {"release": release}
        exec("\n".join(lines[3:-1]), names)
        assert names["table"].values.tolist() == wanted.values.tolist()
        view = TableView(("town", "sex"), where="sex = Female")
        select = snippets.sql("people", ("town", "sex"), view.chosen(release.schema), release.schema, regrouping)
        assert sorted(release.sql(select).columns["count"]) == pytest.approx(sorted(wanted.values.ravel()))


SHOWN = {  # what a page shows: its query, and the counts of its table worked out by hand
    "groups": ("rows=town&by.1.town=Bern&by.1.town=Thun&as.1.town=Ober%27land&by.2.town=Lausanne&by.2.town=Nice",
               {"Ober'land": 1060, "Lausanne + Nice": 2820, "(missing)": 2070}),
    "filtered": ("rows=town&in.town=Bern&in.town=Nice&by.1.town=Bern&by.1.town=Thun&by.2.town=Lausanne",
                 {"Bern + Thun": 310, "Nice": 1630}),
    "a level": ("rows=town&at.town=canton&where=sex+%3D+Male",
                {"Bern": 640, "Vaud": 650, "Alpes": 870, "(missing)": 1090}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_page_offers_to_copy_gives_its_table(
    release: Release, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    query, counts = SHOWN[name]
    monkeypatch.chdir(tmp_path)
    release.save(tmp_path / "people.release.parquet")
    page = client.get(f"/table?{query}").text
    assert [unescape(label) for label, *_ in rows(client, query)] == list(counts)
    blocks = [unescape(block) for block in re.findall(r"<code[^>]*>(.*?)</code>", page, re.DOTALL)]
    python, shell, select, curl = (
        next(block for block in blocks if start in block)
        for start in ("import crosstally", "crosstally table", "SELECT", "curl")
    )
    names: dict[str, Any] = {}
    exec(python, names)
    assert dict(zip(names["table"].schema["town"].labels, names["table"].values, strict=True)) == counts
    command, *arguments = shlex.split(shell)
    printed = ran_well(*arguments, "--format", "csv").out
    assert command == "crosstally"
    answer = release.sql(select)
    assert dict(zip(answer.columns["town"], answer.columns["count"], strict=True)) == pytest.approx(counts)
    fetched = client.get(shlex.split(curl)[-1]).text
    for text in (printed, fetched):
        table = pd.read_csv(io.StringIO(text))
        assert dict(zip(table["town"], table["count"], strict=True)) == counts


def test_the_api_puts_values_together_as_pages_do(client: TestClient) -> None:
    """The error of a sum of two cells with variance 9 each, and 1.96 of it to each side, which 2 x 1.96 x 3 is not."""
    query = "valueCodes[town]=*&valueCodes[sex]=Male&by.1.town=Bern&by.1.town=Thun&as.1.town=Oberland&outputFormat=csv"
    table = pd.read_csv(io.StringIO(client.get(f"/api/v2/tables/people/data?{query}").text))
    assert table["town"].tolist() == ["Oberland", "Lausanne", "Nice", "(missing)"]
    assert table["count"].tolist() == [640, 650, 870, 1090]
    assert table["std_error"].tolist() == pytest.approx([18**0.5, 3, 3, 3])
    assert (table["count_high"] - table["count"]).tolist() == pytest.approx(
        [1.96 * 18**0.5, 5.88, 5.88, 5.88], rel=2e-3
    )  # a single cell has the exact law of its discrete noise, 0.2% from the normal one
    level = client.get("/api/v2/tables/people/data?valueCodes[town]=*&at.town=country").json()
    assert level["dimension"]["town"]["category"]["index"] == ["CH", "FR", "(missing)"]
    assert level["value"][::4] == [2250, 1630, 2070]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("by.1.town=Berne", "'town' has no label 'Berne'; did you mean 'Bern'?"),
        ("at.town=kanton", "'town' has no level 'kanton'; did you mean 'canton'?"),
        ("at.town=canton&by.1.town=Bern", "'town' can have a level or groups, got both"),
        ("by.1.sex=Male", "values of 'sex' are put together, which is no attribute of the table; it has town"),
        ("by.1.place=x", "place"),
        ("by.town=Bern", "a group must have a number from 1 to 1,000: by.1.NAME, got 'by.town'"),
    ],
)
def test_wrong_groupings_are_problems(client: TestClient, query: str, said: str) -> None:
    answer = client.get(f"/api/v2/tables/people/data?valueCodes[town]=*&{query}", headers={"accept": "*/*"})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert said in answer.json()["detail"]


def test_the_api_describes_how_values_are_put_together(client: TestClient) -> None:
    paths = client.get("/api/v2/openapi.json").json()["paths"]
    found = {each["name"]: each["schema"] for each in paths["/api/v2/tables/{table}/data"]["get"]["parameters"]}
    assert found["by.1.town"] == {"type": "array", "items": {"type": "string", "enum": list(TOWN.labels)}}
    assert found["at.town"] == {"type": "string", "enum": ["canton", "country"]}
    assert found["as.1.sex"] == {"type": "string"}
    assert "at.sex" not in found


def test_files_of_groups_can_be_read(client: TestClient) -> None:
    query = "rows=town&columns=sex&at.town=country"
    found = json.loads(client.get(f"/download/json-stat2?{query}").text)
    assert found["dimension"]["town"]["category"]["index"] == ["CH", "FR", "(missing)"]
    assert found["value"][::4] == [960, 1290, 760, 870, 980, 1090]
    for name in ("xlsx", "parquet", "px", "sdmx-csv"):
        assert client.get(f"/download/{name}?{query}").status_code == 200
    tags = {client.get(f"/download/csv?rows=town{more}").headers["etag"] for more in ("", "&at.town=country")}
    assert len(tags) == 2
    assert client.get(f"/chart.svg?{query}").text.count("FR") >= 1


def test_names_of_groups_that_mean_harm_are_inert() -> None:
    client = client_of(serving(hostile()), page=True)
    for name in HOSTILE:
        query = {"rows": "<b>x</b>", "by.1.<b>x</b>": HOSTILE[:2], "as.1.<b>x</b>": name}
        page = client.get("/table", params=query)
        if page.status_code == 422:  # the name of a value outside the group
            continue
        assert "<script>alert" not in page.text
        assert not re.search(r"<(img src=x|svg/onload|b>|a href='http)", page.text)
    harm = {"rows": "<b>x</b>", "by.1.<b>x</b>": HOSTILE[:2], "as.1.<b>x</b>": "=1+1"}
    lines = list(csv.reader(io.StringIO(client.get("/download/csv", params=harm).text)))
    assert lines[1][0] == "'=1+1"
