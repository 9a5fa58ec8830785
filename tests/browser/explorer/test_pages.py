"""Pages: what is shown, how it is ordered, and that labels which mean harm are inert."""

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from starlette.testclient import TestClient

import released
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.browser.common.site import texts_of
from crosstally.browser.explorer import snippets
from crosstally.browser.explorer.grid import Grid, number_text
from crosstally.browser.explorer.grid import grid as laid_out
from crosstally.browser.explorer.pictures import chart_of
from crosstally.browser.explorer.view import Chart, Order, Show, TableView, read_view
from crosstally.releases import Release
from crosstally.reliability import PUBLISHED, SIGNS
from crosstally.schema import Attribute, Schema
from hostile_labels import MANY
from web_clients import HOSTILE, client_of, hostile, measured, serving, wide


class Elements(HTMLParser):
    """The tags of a page, with their attributes, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def release() -> Release:
    return released.views()


@pytest.fixture(scope="module")
def client(release: Release) -> TestClient:
    return client_of(serving(release), page=True)


# The state in the URL


def test_every_state_is_its_own_url(release: Release) -> None:
    view = TableView(
        ("sex",),
        ("âge",),
        kept=(("value", ("ça", "(other)")), ("âge", ("[0, 18)",))),
        filters=("value",),
        where="sex = Female",
        show=Show.ROW,
        order=Order.MOST,
        top=3,
        chart=Chart.HEAT,
        level=0.99,
    )
    pairs = [tuple(part.split("=", 1)) for part in view.query().split("&")]
    from urllib.parse import unquote_plus

    read = read_view([(unquote_plus(a), unquote_plus(b)) for a, b in pairs], release.schema)
    assert read == view
    assert TableView(("sex",)).query() == "rows=sex"
    assert view.condition(release.schema) == 'value in {ça, "(other)"} and âge < 18 and (sex = Female)'
    assert view.swapped().show is Show.COLUMN


def test_all_values_checked_is_no_condition(release: Release) -> None:
    assert TableView(kept=(("sex", ("Female", "Male")),)).condition(release.schema) == ""


@pytest.mark.parametrize(
    "query",
    ["rows=sx", "rows=sex&columns=sex", "in.sex=x", "show=x", "top=0", "top=1001", "top=-1", "top=1e3", "level=1",
     "order=x", "chart=x", "filter=x", "where=" + "x" * 4001, "where=sex ~ x"],
)  # fmt: skip
def test_what_is_not_a_view_is_said(client: TestClient, query: str) -> None:
    assert client.get(f"/table?{query}").status_code == 422


# The table laid out


def counted() -> Release:
    """Counts that are public by construction: 10, 20, 30 women and 40, 0, 60 men, without any correction."""
    schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", ["young", "middle", "old"])])
    from crosstally.measurements import Measurement
    from crosstally.query.queries import Cells
    from crosstally.releases import publish

    values = np.array([[10, 20, 30], [40, 0, 60]])
    measurement = Measurement(Cells(schema.names), values, variance=9.0, noise=None, origin="protocol")
    return publish(schema, [measurement], released.statement(model="local"), nonnegative="none")


def grid(counts: Marginal, view: TableView) -> Grid:
    return laid_out(counts, counts if view.within is None else counts.shares(*view.within), view)


def values(view: TableView) -> list[list[float]]:
    found = grid(counted().marginal(*view.attributes), view)
    return np.round(found.values, 6).tolist()


def test_shares_orders_and_the_largest_rows() -> None:
    pair = {"rows": ("age",), "columns": ("sex",)}
    assert values(TableView(**pair)) == [[10, 40], [20, 0], [30, 60]]
    assert values(TableView(**pair, show=Show.ROW)) == [[0.2, 0.8], [1, 0], [0.333333, 0.666667]]
    assert values(TableView(**pair, show=Show.COLUMN)) == [[0.166667, 0.4], [0.333333, 0], [0.5, 0.6]]
    assert values(TableView(**pair, show=Show.TOTAL))[2] == [0.1875, 0.375]
    assert values(TableView(**pair, order=Order.MOST)) == [[30, 60], [10, 40], [20, 0]]
    assert values(TableView(**pair, order=Order.LEAST)) == [[20, 0], [10, 40], [30, 60]]
    assert values(TableView(**pair, top=2)) == [[10, 40], [30, 60]]
    assert values(TableView(**pair, top=2, order=Order.LEAST)) == [[10, 40], [30, 60]]
    left = grid(counted().marginal("age", "sex"), TableView(**pair, top=2))
    assert (left.all_rows, left.left_out) == (3, pytest.approx(20 / 160))


def test_signs_follow_the_coefficient_of_variation() -> None:
    """The standard error is 3, so 10 has 30%, 20 has 15%, 0 has none that is finite."""
    found = grid(counted().marginal("age", "sex"), TableView(("age",), ("sex",)))
    signs = [[SIGNS[PUBLISHED[place]] for place in row] for row in found.classes.tolist()]
    assert signs == [["E", ""], ["", "F"], ["", ""]]


def test_every_kind_of_error_has_its_words() -> None:
    for kind in ErrorKind:
        assert texts_of("explorer")(f"how.{kind.value}", method="x")


def test_several_attributes_on_both_sides(release: Release) -> None:
    found = grid(release.marginal("sex", "value", "âge"), TableView(("sex",), ("value", "âge")))
    assert [[span for _, span in line] for line in found.heads] == [[4, 4, 4, 4], [1] * 16]
    assert found.row_labels == [("Female",), ("Male",)]


def test_numbers_in_words() -> None:
    assert [number_text(x) for x in (1234.4, -0.2, -12.0)] == ["1,234", "0", "−12"]
    assert [number_text(float("nan")), number_text(0.125, shares=True)] == ["–", "12.5%"]


# Pages


def test_the_overview_searches_names_and_values(client: TestClient) -> None:
    def found(query: str) -> list[str]:
        tags = Elements(client.get(f"/?q={query}").text).tags
        links = [attrs["href"] for tag, attrs in tags if tag == "a" and attrs["href"].startswith("/table?rows")]
        return [link.removeprefix("/table?rows=") for link in links]

    assert found("") == ["sex", "%C3%A2ge", "value"]
    assert re.search(r"3 attributes of about [\d,]+ people\.", client.get("/").text)
    assert found("fem") == ["sex"]
    assert found("東京") == ["value"]
    assert found("nothing") == []


def test_a_table_has_its_chart_its_story_and_its_downloads(client: TestClient) -> None:
    page = Elements(client.get("/table?rows=âge&columns=sex&in.value=ça&show=row").text)
    links = [attrs.get("href", "") for tag, attrs in page.tags if tag == "a"]
    query = "rows=%C3%A2ge&columns=sex&in.value=%C3%A7a&show=row"
    for name in ("csv", "xlsx", "parquet", "json-stat2", "px", "sdmx-csv"):
        assert f"/download/{name}?{query}" in links
    assert client.get(f"/download/csv?{query}").text.splitlines()[0] == "âge,sex,count,std_error,count_low,count_high"
    pictures = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert pictures == [f"/chart.svg?{query}"]
    text = " ".join(page.texts)
    for words in ("How was this obtained?", "Share of the row by âge and sex, where value = ça", "release.marginal",
                  "crosstally table people.release.parquet", "GROUP BY", "curl --globoff"):  # fmt: skip
        assert words in text


def test_code_on_the_page_gives_the_same_numbers(release: Release) -> None:
    view = TableView(("sex",), ("âge",), kept=(("value", ("ça", "va")),), where="sex = Female or âge < 18")
    condition = view.condition(release.schema)
    table = release.marginal("sex", "âge", where=condition)
    lines = snippets.python("people.release.parquet", ("sex", "âge"), condition).splitlines()
    names: dict[str, Any] = {"release": release}
    exec(lines[-2], names)
    assert names["table"].values.tolist() == table.values.tolist()
    rows = release.sql(snippets.sql("people", ("sex", "âge"), view.chosen(release.schema), release.schema)).columns
    assert sorted(rows["count"]) == pytest.approx(sorted(table.values.ravel().tolist()))


def test_a_table_too_large_for_a_page_is_said_and_offered_whole() -> None:
    schema = Schema([Attribute(name, [f"{i}" for i in range(80)]) for name in "ab"])
    client = client_of(serving(measured(schema, [(), ("a",), ("b",)])), page=True)
    text = client.get("/table?rows=a&columns=b").text
    assert "This table has 6,400 cells" in text
    assert "/download/csv?rows=a&amp;columns=b" in text
    assert "<tbody>" not in text
    assert "75 of 80 rows are not shown" in client.get("/table?rows=a&columns=b&top=5").text


def test_two_hundred_attributes_are_listed_and_offered() -> None:
    client = client_of(serving(wide()), page=True)
    assert "200 of 200 attributes" in client.get("/").text
    assert "1 of 200 attributes" in client.get("/?q=137").text
    options = [attrs["value"] for tag, attrs in Elements(client.get("/table").text).tags if tag == "option"]
    assert options.count("question 137") == 1


def test_which_chart_fits(release: Release) -> None:
    pair = grid(release.marginal("âge", "sex"), TableView(("âge",), ("sex",)))
    assert chart_of(pair, Chart.AUTO) is Chart.BARS
    across = grid(release.marginal("sex", "âge", "value"), TableView(("sex",), ("âge", "value")))
    assert chart_of(across, Chart.AUTO) is Chart.HEAT
    assert chart_of(across, Chart.BARS) is Chart.HEAT
    assert chart_of(grid(release.marginal(), TableView()), Chart.AUTO) is Chart.NONE


def test_bars_tell_reliability_by_pattern_and_sign() -> None:
    """Of six bars one needs care and one, of nobody, is too unreliable: pale with an outline, hollow with dashes."""
    svg = client_of(serving(counted())).get("/chart.svg?rows=age&columns=sex").text
    bars = re.findall(r'<path aria-label="[^"]*"[^>]*aria-roledescription="bar"[^>]*>', svg)
    assert len(bars) == 6
    assert [bar.count('fill-opacity="0.4"') for bar in bars].count(1) == 1
    hollow = [bar for bar in bars if 'fill-opacity="0"' in bar]
    assert [bar.count('stroke-dasharray="3,2"') for bar in hollow] == [1]
    assert re.findall(r">([EF])</text>", svg) == ["E", "F"]


# Labels that mean harm


def test_a_line_may_end_after_an_underscore_in_the_labels_of_a_table() -> None:
    """Eight columns of long labels without blanks would not fit on a screen; the label itself stays as it is."""
    schema = Schema([Attribute("a", ["No_<b>_Injury", "Fatal_Injury"])])
    page = client_of(serving(measured(schema, [(), ("a",)])), page=True).get("/table?columns=a").text
    assert "Fatal_<wbr>Injury</bdi>" in page
    assert "No_<wbr>&lt;b&gt;_<wbr>Injury</bdi>" in page


def test_labels_that_mean_harm_are_inert_on_pages() -> None:
    client = client_of(serving(hostile()), page=True)
    view = TableView(("<b>x</b>",), ("'; DROP --",), filters=("<b>x</b>",))
    for path in ("/", f"/table?{view.query()}", "/table?rows=<script>alert(2)</script>", '/?q="><script>x</script>'):
        answer = client.get(path)
        page = Elements(answer.text)
        assert not {tag for tag, _ in page.tags} & {"b", "i", "svg"}
        scripts = [attrs for tag, attrs in page.tags if tag == "script"]
        assert scripts == [{"src": "/static/explorer.js", "defer": None}]
        assert all(not name.startswith("on") and name != "style" for _, attrs in page.tags for name in attrs)
        links = [attrs.get("href") or attrs.get("src") or "/" for _, attrs in page.tags]
        assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in links)
        if path.startswith("/table?rows=%3Cb"):
            texts = "\0".join(page.texts)
            assert all(label in texts for label in HOSTILE)
            assert "49" not in re.sub(r"[\d,]{3,}", "", texts.split("{{ 7")[1][:20])


def test_labels_that_mean_harm_are_inert_in_pictures() -> None:
    client = client_of(serving(hostile()))
    for chart in ("bars", "heat"):
        query = TableView(("<b>x</b>",), ("'; DROP --",), chart=Chart(chart)).query()
        for more in ("", "&theme=dark", "&width=narrow"):
            picture = client.get(f"/chart.svg?{query}{more}").content
            tree = ElementTree.fromstring(picture)
            tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
            assert not tags & {"script", "a", "img", "image", "foreignObject", "b", "i", "use", "style"}
            names = {name for element in tree.iter() for name in element.attrib}
            assert not {name for name in names if name.startswith("on") or "href" in name}


def test_two_hundred_labels_that_mean_harm_are_inert_on_a_page_and_in_a_picture() -> None:
    schema = Schema([Attribute("label", MANY)])
    client = client_of(serving(measured(schema, [(), ("label",)])), page=True)
    assert len(MANY) >= 200
    page = Elements(client.get("/table?rows=label&filter=label&group=label").text)
    assert not {tag for tag, _ in page.tags} & {"svg", "b", "i"}
    pictures = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert [each.split("?")[0] for each in pictures if each] == ["/chart.svg"]
    assert [attrs for tag, attrs in page.tags if tag == "script"] == [{"src": "/static/explorer.js", "defer": None}]
    assert all(not name.startswith("on") and name != "style" for _, attrs in page.tags for name in attrs)
    assert set(MANY) <= set(page.texts)  # each as it is, inside an element of its own direction
    boxes = [attrs["value"] for tag, attrs in page.tags if attrs.get("name") == "in.label"]
    assert boxes == MANY
    tree = ElementTree.fromstring(client.get("/chart.svg?rows=label").content)
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert not tags & {"script", "a", "img", "image", "foreignObject", "b", "i", "use", "style"}
    assert not {name for each in tree.iter() for name in each.attrib if name.startswith("on") or "href" in name}
