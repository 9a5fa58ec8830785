"""Values put together on the page: levels of hierarchies and groups of one's own, each state in the URL."""

import csv
import io
import json
import re
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

import released
from crosstally.questions.queries import Cells
from crosstally.releases import Release, publish
from crosstally.schema import Attribute, Level, Schema
from crosstally.tables import Measurement
from crosstally.web import snippets
from crosstally.web.regrouping import Regrouping
from crosstally.web.view import View, read_view
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
    view = View(("town",), grouping=("town",), regrouping=Regrouping(groups=(("town", groups),)))
    assert read_view(parse_qsl(view.query()), release.schema) == view
    assert "as.2" not in view.query()  # it is called after its values
    level = View(("sex",), regrouping=Regrouping(levels=(("town", "canton"),)))
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
        view = View(("town", "sex"), where="sex = Female")
        select = snippets.sql("people", ("town", "sex"), view.chosen(release.schema), release.schema, regrouping)
        assert sorted(release.sql(select).columns["count"]) == pytest.approx(sorted(wanted.values.ravel()))
    assert "crosstally sql" in snippets.shell_of_sql("f", "SELECT 1")


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
