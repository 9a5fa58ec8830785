"""The plan page: a budget in words, the error to expect, and links that lead to what they promise."""

import html
import re
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from browsers import check_axe, launched, picture
from cli_runs import run
from crosstally.browser.common.site_server import listen, server
from crosstally.browser.steward.plan_page import budget_in_words, create_app
from crosstally.budget import Budget, Neighbours
from crosstally.schema import Attribute, Schema, Unit

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
SCHEMA = Schema(
    [
        Attribute("sex", ["Female", "Male"]),
        Attribute("age", edges=range(0, 130, 10)),
        Attribute("region", [f"region {i}" for i in range(9)]),
    ]
)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(SCHEMA, "people.schema.json"), base_url="http://localhost")


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_odds_are_those_of_bayes_rule() -> None:
    """By hand: e / (1 + e) = 73.1%, e^2 / (1 + e^2) = 88.1%, e^0.1 / (1 + e^0.1) = 52.5%, e^0.2 / ... = 55.0%."""
    said = " ".join(budget_in_words(Budget(epsilon=1), SCHEMA, Neighbours.ADD_REMOVE, None))
    assert "surer than 74% that they are, or 74% that they are not" in said
    assert "surer than 89% of either" in said
    assert "makes it 2 in all" in said
    said = " ".join(budget_in_words(Budget(epsilon="0.1"), SCHEMA, Neighbours.ADD_REMOVE, None))
    assert ("surer than 53%" in said, "surer than 55%" in said) == (True, True)
    said = " ".join(budget_in_words(Budget(epsilon=1), SCHEMA, Neighbours.REPLACE, None))
    assert "how many, is not protected" in said
    assert "surer than 74% of either" in said
    assert "99.9% and more" in budget_in_words(Budget(epsilon=20), SCHEMA, Neighbours.ADD_REMOVE, None)[0]


def test_a_unit_is_called_by_its_name_and_a_large_delta_is_warned_of() -> None:
    schema = Schema(SCHEMA.attributes, Unit("patient", 3))
    said = " ".join(budget_in_words(Budget(epsilon=1, delta="0.00001"), schema, Neighbours.ADD_REMOVE, 50_000))
    assert "whether one patient is in the data" in said
    assert "One person must be one row" not in said
    assert "1 in 100,000" in said
    assert "published 0.5 of them outright" in said
    small = budget_in_words(Budget(epsilon=1, delta="1e-9"), schema, Neighbours.ADD_REMOVE, 50_000)
    assert "outright" not in " ".join(small)


def test_the_page_says_what_the_plan_command_says(client: TestClient, tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "people.schema.json")
    said = words(client.get("/?epsilon=1&rows=20000").text)
    told = run("plan", tmp_path / "people.schema.json", "--epsilon", "1", "--rows", "20000").out
    sentences = [line for line in told.splitlines() if line.startswith("Tables over")]
    assert len(sentences) == 2
    for sentence in sentences:
        assert " ".join(sentence.split()) in said
    assert "crosstally plan people.schema.json --epsilon 1 --rows 20000 -o people.plan.json" in said


def test_every_link_leads_to_the_error_that_it_promises(client: TestClient) -> None:
    page = client.get("/?epsilon=0.5&rows=20000").text
    links = re.findall(r'<li>([^<]*)\. <a href="(/\?[^"]+)"', page)
    assert len(links) == 3  # tables, values, budget; a delta does not help with three attributes
    for sentence, link in links:
        figure = re.search(r"error, (\S+) of an average count", sentence)
        assert figure
        assert f"({figure[1]} of an average count)" in words(client.get(html.unescape(link)).text), sentence


def test_more_rows_and_fewer_values_make_the_error_smaller_beside_them(client: TestClient) -> None:
    def shares(query: str) -> list[float]:
        return [float(each) for each in re.findall(r"within ([0-9.]+)% of", words(client.get(query).text))]

    before = shares("/?rows=20000")
    assert all(a > b for a, b in zip(before, shares("/?rows=200000"), strict=False))
    assert all(a > b for a, b in zip(before, shares("/?rows=20000&cells.region=3&cells.age=4"), strict=False))
    assert "Merge the values in the schema first" in client.get("/?cells.region=3").text


MISTAKES = {
    "epsilon=-1": "epsilon must be positive",
    "epsilon=one": "epsilon must be",
    "rows=many": "rows must be a whole number",
    "ways=9": "must be",
    "ways=2&table=sex": "and not both",
    "table=sx": "did you mean",
    "cells.age=1": "from 2 to 12",
    "cells.age=99": "from 2 to 12",
    "neighbours=x": "add-remove or replace",
    "table=<script>alert(1)</script>": "unknown attribute",
}


@pytest.mark.parametrize("query", MISTAKES)
def test_mistakes_are_said_on_the_page(client: TestClient, query: str) -> None:
    answer = client.get(f"/?{query}")
    assert answer.status_code == 422
    assert MISTAKES[query] in words(answer.text)
    assert "<script" not in answer.text


def test_hosts_headers_and_other_addresses(client: TestClient) -> None:
    for path, status in {"/": 200, "/static/site.css": 200, "/favicon.ico": 200, "/static/x": 404, "/x": 404}.items():
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-security-policy"]) == (status, POLICY)
    assert client.post("/").status_code == 405
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_what_serve_refuses(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "people.schema.json")
    design = ["--design", tmp_path / "people.schema.json"]
    assert "and not both" in run("serve").err
    assert "and not both" in run("serve", tmp_path / "x.parquet", *design).err
    refused = run("serve", *design, "--host", "0.0.0.0", "--allow-host", "x.example")
    assert (refused.code, "for this machine alone" in refused.err) == (2, True)


def test_in_a_browser() -> None:
    """By keyboard and form, without a word on the console; axe finds nothing serious."""
    said: list[str] = []
    with listen("127.0.0.1", 0) as socket, launched() as browser:
        serves = server(create_app(SCHEMA, "people.schema.json"))
        thread = threading.Thread(target=serves.run, kwargs={"sockets": [socket]})
        thread.start()
        while not serves.started:
            time.sleep(0.01)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"http://127.0.0.1:{socket.getsockname()[1]}/")
        page.get_by_label("Budget ε").fill("0.1")
        page.get_by_label("About how many rows").fill("5,000")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="What ε = 0.1 means").wait_for()
        assert "mostly noise" in page.inner_text("main")
        check_axe(page)
        picture(page, "concepts/plan-page")
        page.close()
        serves.should_exit = True
        thread.join(10)
    assert said == []
