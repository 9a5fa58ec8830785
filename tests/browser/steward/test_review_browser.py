"""A steward's way through the review in a real browser, from the file that lets in to the saved schema."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import reviewing
from browsers import check_axe, launched
from crosstally.browser.common.site_server import listen
from crosstally.browser.steward.review import Session
from crosstally.browser.steward.review_pages import serve
from crosstally.schema import PublicCounts, Schema
from reviewing import reviewed


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Path, Session, threading.Thread]]:
    """A review in a thread, and the file that lets in."""
    review, session, shown = reviewed(folder), Session(), []
    with listen("127.0.0.1", 0) as socket:
        thread = threading.Thread(target=serve, args=(review, socket, shown.append, session))
        thread.start()
        while not shown:
            time.sleep(0.01)
        try:
            yield shown[0], session, thread
        finally:
            session.close()
            thread.join(10)


def page_of(context: BrowserContext, words: list[str]) -> Page:
    page = context.new_page()
    page.on("console", lambda message: words.append(message.text))
    page.on("pageerror", lambda error: words.append(str(error)))
    return page


def test_a_stewards_way(browser: Browser, tmp_path: Path) -> None:
    words: list[str] = []
    with serving(tmp_path) as (entrance, session, thread):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = page_of(context, words)
        page.goto(entrance.as_uri())
        page.get_by_role("heading", name="people.schema.json").wait_for()
        assert session.path in page.url
        assert session.code not in page.url
        check_axe(page)
        page.get_by_role("link", name="sex").click()
        for label, into in (("m", "männlich"), ("w", "weiblich"), ("divers", "(other)")):
            page.get_by_label(label, exact=True).check()
            page.get_by_label("It becomes").fill(into)
            page.get_by_role("button", name="Merge or rename").click()
        expect(page.locator("tr.label")).to_have_count(2)
        assert "times smaller" in page.locator(".outlook").inner_text()
        check_axe(page)
        page.get_by_label("Public name of the attribute").fill("gender")
        page.get_by_role("button", name="Rename").last.click()
        page.get_by_role("link", name="All attributes").click()
        page.get_by_role("link", name="age").click()
        page.get_by_label("Edges of the bins").fill("0 30 120")
        page.get_by_role("button", name="Cut here").click()
        page.get_by_role("link", name="All attributes").click()
        page.get_by_role("button", name="I have reviewed it").click()
        page.get_by_role("button", name="Save people.schema.json").click()
        assert "kept as people.schema.json.previous" in page.get_by_role("status").inner_text()
        assert words == []  # the last page may ask in vain for its icon
        page.get_by_role("button", name="End the review").click()
        assert page.get_by_role("heading").inner_text() == "The review has ended"
        thread.join(10)
        assert not thread.is_alive()
        assert not entrance.exists()
        context.close()
    saved = Schema.load(tmp_path / "people.schema.json")
    assert saved["gender"].labels == ("männlich", "weiblich", "(other)", "(missing)")
    assert (saved["age"].edges, saved["age"].bins, saved["age"].from_data) == ((0, 30, 120), ("0-29", "30-120"), True)
    assert saved.draft is False


def test_periods_words_and_facts(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of dates, cut into other periods; what an attribute is; and a total that is public."""
    dates = ["1950-05-01", "1985-01-31", "1999-12-31"]
    rows = "".join(f"{'f' if i % 2 else 'm'};{dates[i % 3]}\n" for i in range(12))
    monkeypatch.setattr(reviewing, "ROWS", f"sex;born\n{rows}")
    into = {"into": ["1900-01-01", "1980-01-01", "2020-12-31"]}
    reading = {"file": {"delimiter": ";"}, "columns": {"born": {"date": into}}}
    attributes = [{"name": "sex", "values": ["f", "m"]}, {"name": "born", "values": ["old", "new"]}]
    schema = {"crosstally-schema": 1, "draft": True, "attributes": attributes, "reading": reading}
    monkeypatch.setattr(reviewing, "SCHEMA", json.dumps(schema))
    with serving(tmp_path) as (entrance, _, _):
        context = browser.new_context()
        page = page_of(context, [])
        page.goto(entrance.as_uri())
        page.get_by_role("link", name="born").click()
        assert page.get_by_label("The label of each period").input_value() == "old\nnew"
        page.get_by_label("Days that bound the periods").fill("1900-01-01 1960-01-01 1990-01-01 2020-12-31")
        page.get_by_label("The label of each period").fill("to 1959\n1960-89\n1990 on")
        page.get_by_role("button", name="Set the periods").click()
        page.locator("tr.label").nth(2).wait_for()  # lists of texts do not wait for the next page
        assert [each.strip() for each in page.locator("tr.label td.number").all_inner_texts()[::2]] == ["4", "4", "4"]
        page.get_by_label("What it is (public)").fill("Day of birth")
        page.get_by_role("button", name="Describe it so").click()
        check_axe(page)
        page.get_by_role("link", name="All attributes").click()
        page.get_by_label("The list of facts").fill('[{"total": 12}')
        page.get_by_role("button", name="Set the facts").click()
        assert "the list of facts is not JSON" in page.get_by_role("alert").inner_text()
        page.get_by_label("The list of facts").fill('[{"total": 12}]')
        page.get_by_role("button", name="Set the facts").click()
        check_axe(page)
        page.get_by_role("button", name="Save people.schema.json").click()
        assert "kept as people.schema.json.previous" in page.get_by_role("status").inner_text()
        context.close()
    saved = Schema.load(tmp_path / "people.schema.json")
    assert saved["born"].values == ("to 1959", "1960-89", "1990 on")
    assert saved["born"].description == "Day of birth"
    assert saved.facts == (PublicCounts(None, (12,)),)


def test_it_works_without_scripts(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as (entrance, _, _):
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(entrance.as_uri())
        page.get_by_role("button").click()
        page.get_by_role("link", name="town").click()
        page.get_by_label("Emden", exact=True).check()
        page.get_by_label("It becomes").fill("(other)")
        page.get_by_role("button", name="Merge or rename").click()
        page.get_by_role("button", name="Save people.schema.json").click()
        assert "kept as people.schema.json.previous" in page.get_by_role("status").inner_text()
        context.close()
    assert Schema.load(tmp_path / "people.schema.json")["town"].labels == ("Bonn", "Kiel", "(other)")


def test_the_server_of_a_second_user_is_not_sent_the_cookie(browser: Browser, tmp_path: Path) -> None:
    """Browsers send cookies to all ports of a host; the path keeps this one at home."""
    seen: list[str] = []

    class Neighbour(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(str(self.headers.get("cookie")))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *given: object) -> None:
            pass

    other = HTTPServer(("127.0.0.1", 0), Neighbour)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    with serving(tmp_path) as (entrance, session, _):
        context = browser.new_context()
        page = page_of(context, [])
        page.goto(entrance.as_uri())
        page.get_by_role("heading", name="people.schema.json").wait_for()
        address = f"http://127.0.0.1:{other.server_port}"
        page.goto(f"{address}/")
        assert set(seen) == {"None"}
        page.goto(f"{address}{session.path}/")  # who knew the path would be sent it: the test can fail
        assert any("crosstally-review=" in each for each in seen)
        context.close()
    other.shutdown()
    other.server_close()


def test_another_site_cannot_send_a_form(browser: Browser, tmp_path: Path) -> None:
    """A page of another origin, in the same browser, that even knows path and token."""
    with serving(tmp_path) as (entrance, session, _):
        context = browser.new_context()
        page = page_of(context, [])
        page.goto(entrance.as_uri())
        page.get_by_role("heading", name="people.schema.json").wait_for()
        target = page.url
        evil = tmp_path / "evil.html"
        fields = f"<input name=token value={session.form_token}><input name=version value=0><input name=name value=sex>"
        evil.write_text(f"<form method=post action={target}drop>{fields}<button>x</button></form>")
        page.goto(evil.as_uri())
        page.get_by_role("button").click()
        assert page.get_by_role("heading").inner_text() == "Not for you"
        page.goto(target)
        expect(page.get_by_role("link", name="sex")).to_have_count(1)
        context.close()
