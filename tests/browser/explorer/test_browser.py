"""The explorer in a real browser: an analyst's way through it, the keyboard, a phone, the dark, and axe.

The pictures that the docs show are made here: docs/how-to/*.png, when CROSSTALLY_PICTURES=1. So is that of the page of
a release.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect

import released
from browsers import check_axe, launched, picture
from crosstally.browser.common.site_server import listen, server
from crosstally.browser.explorer.app import create_app
from crosstally.browser.explorer.release_page import release_page
from crosstally.browser.explorer.view import TableView
from crosstally.generate.people import people
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, publish
from web_clients import hostile, serving, wide


def generated() -> Release:
    """A release of generated people: all pairs of five attributes, with noise."""
    names, random = ("sex", "age", "region", "education", "income"), np.random.default_rng(5)
    rows, schema = people(20_000, random, attributes=names)
    frame = rows.to_pandas()
    frame["age"] = pd.cut(frame["age"], [*schema["age"].edges[:-1], 200], right=False, labels=schema["age"].labels)
    codes = {name: np.asarray(pd.Categorical(frame[name], schema[name].labels).codes) for name in names}
    measurements = []
    for pair in combinations(names, 2):
        counts = np.zeros(schema.sizes(pair), np.int64)
        np.add.at(counts, tuple(codes[name] for name in pair), 1)
        noisy = counts + np.rint(random.laplace(0, 7.5, counts.shape)).astype(np.int64)
        noise = released.LAPLACE
        measurements.append(Measurement(Cells(pair), noisy, variance=noise.variance, noise=noise, origin="entry-1"))
    return publish(schema, measurements, released.statement())


@contextmanager
def running(release: Release) -> Iterator[str]:
    """A server in a thread, on a free port of loopback."""
    with listen("127.0.0.1", 0) as socket:
        serves = server(create_app(serving(release)))
        thread = threading.Thread(target=serves.run, kwargs={"sockets": [socket]})
        thread.start()
        while not serves.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{socket.getsockname()[1]}"
        finally:
            serves.should_exit = True
            thread.join(10)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with running(generated()) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@contextmanager
def page_of(browser: Browser, site: str, **options: object) -> Iterator[Page]:
    """A page on which nothing may go wrong: no word on the console, and no request to another host."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page, words, elsewhere = context.new_page(), [], []
    page.on("console", lambda message: words.append(message.text))
    page.on("pageerror", lambda error: words.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(site) else elsewhere.append(request.url))
    yield page
    context.close()
    assert (words, elsewhere) == ([], [])


def test_the_page_of_a_release(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "people.html"
    path.write_text(release_page(generated()), encoding="utf-8")
    with page_of(browser, path.as_uri()) as page:
        page.goto(path.as_uri())
        picture(page, "how-to/page")
        check_axe(page)
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_analysts_way(browser: Browser, site: str, tmp_path: Path) -> None:
    with page_of(browser, site) as page:
        page.goto(site)
        picture(page, "how-to/explore-start")
        check_axe(page)
        page.get_by_label("Find an attribute").press_sequentially("degree")
        expect(page.locator("#attribute-list li:visible")).to_have_count(1)
        assert page.get_by_role("status").inner_text() == "1 of 5 shown"
        page.get_by_role("link", name="education").click()
        page.get_by_label("Add to columns").fill("age")
        page.get_by_label("Filter by").fill("sex")
        page.get_by_role("button", name="Show table").click()
        page.get_by_label("Female").check()
        page.get_by_label("Numbers").select_option("row")
        page.get_by_role("button", name="Show table").click()
        expect(page.locator("h2.caption")).to_have_text("Share of the row by education and age, where sex = Female")
        expect(page.locator("tbody tr")).to_have_count(4)
        shares = [float(each.rstrip("%")) for each in page.locator("tbody tr:first-child .value").all_inner_texts()]
        assert sum(shares) == pytest.approx(100, abs=0.4)
        assert page.locator("picture img").evaluate("image => image.decode().then(() => image.naturalWidth > 300)")
        check_axe(page)
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV", exact=True).click()
        download.value.save_as(tmp_path / "table.csv")
        table = pd.read_csv(tmp_path / "table.csv")
        assert list(table.columns) == ["education", "age", "count", "std_error", "count_low", "count_high"]
        basic = table[table.education == "Basic"]["count"]
        assert (100 * basic / basic.sum()).round(1).tolist() == pytest.approx(shares, abs=0.06)
        address, text = page.url, page.locator("main").inner_text()
        page.goto(address)
        assert page.locator("main").inner_text() == text
        assert page.get_by_label("Female").is_checked()


def test_the_keyboard_alone(browser: Browser, site: str) -> None:
    with page_of(browser, site) as page:
        page.goto(f"{site}/table")
        page.keyboard.press("Tab")
        assert page.locator(":focus").inner_text() == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("income")
        page.keyboard.press("Tab")
        page.keyboard.type("sex")
        page.keyboard.press("Enter")
        page.wait_for_url("**/table?rows=income&columns=sex#result")
        expect(page.locator("tbody tr")).to_have_count(5)
        seen = []
        for _ in range(12):
            page.keyboard.press("Tab")
            seen.append(page.locator(":focus").evaluate("e => e.className || e.tagName + ' ' + e.innerText"))
        assert seen[0] == "scroll"  # the result comes first after asking, then what follows it
        assert {"A CSV", "A SVG"} <= set(seen)


def test_without_scripts(browser: Browser, site: str) -> None:
    with page_of(browser, site, java_script_enabled=False) as page:
        page.goto(f"{site}/?q=north")
        page.get_by_role("link", name="region").click()
        page.get_by_label("Add to columns").fill("sex")
        page.get_by_role("button", name="Show table").click()
        expect(page.locator("tbody tr")).to_have_count(5)
        expect(page.locator("button.copy:visible")).to_have_count(0)


def test_values_are_grouped_by_the_keyboard_alone_and_without_scripts(browser: Browser, site: str) -> None:
    with page_of(browser, site, java_script_enabled=False) as page:
        page.goto(f"{site}/table?rows=region")
        page.get_by_label("Group values of").focus()
        page.keyboard.type("region")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.get_by_label("Name of group 1").focus()
        page.keyboard.type("Two of them")
        for _ in range(2):
            page.keyboard.press("Tab")
            page.keyboard.press("Space")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        labels = page.locator("tbody th").all_inner_texts()
        assert (labels[0], len(labels)) == ("Two of them", 4)
        assert page.get_by_label("Name of group 1").input_value() == "Two of them"
        assert page.get_by_label("Name of group 2").input_value() == ""
        address, text = page.url, page.locator("main").inner_text()
        page.goto(address)
        assert page.locator("main").inner_text() == text
    with page_of(browser, site) as page:
        page.goto(address)
        check_axe(page)
        page.get_by_label("Numbers").select_option("total")
        page.get_by_role("button", name="Show table").click()
        expect(page.locator("tbody tr")).to_have_count(4)  # the groups stay


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_and_the_dark(browser: Browser, site: str, scheme: str) -> None:
    size = {"width": 390, "height": 844}
    with page_of(browser, site, viewport=size, color_scheme=scheme) as page:
        for path in ("/", "/privacy", "/table?rows=age&columns=income&show=row"):
            page.goto(site + path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        check_axe(page)
        page.goto(f"{site}/table?rows=age&columns=sex#result")
        shown = page.locator("picture img").evaluate("image => image.currentSrc")
        assert shown.endswith("&theme=dark&width=narrow" if scheme == "dark" else "&width=narrow")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) < 150) == (scheme == "dark")
        picture(page, f"how-to/explore-phone-{scheme}")


def test_a_large_window_in_the_dark(browser: Browser, site: str) -> None:
    with page_of(browser, site, color_scheme="dark") as page:
        page.goto(f"{site}/table?rows=region&columns=income&filter=sex&in.sex=Female&chart=heat")
        check_axe(page)
        picture(page, "how-to/explore-dark")
    with page_of(browser, site) as page:
        page.goto(f"{site}/table?rows=income&columns=sex&order=most")
        picture(page, "how-to/explore-table")


def test_two_hundred_attributes(browser: Browser) -> None:
    with running(wide()) as site, page_of(browser, site) as page:
        page.goto(site)
        page.get_by_label("Find an attribute").press_sequentially("137")
        assert page.locator("#attribute-list li:visible").all_inner_texts()[0].startswith("question 137")
        page.get_by_role("link", name="question 137").click()
        expect(page.locator("tbody tr")).to_have_count(3)


def test_labels_that_mean_harm_do_nothing(browser: Browser) -> None:
    release = hostile()
    query = TableView(*((name,) for name in release.schema.names), filters=release.schema.names).query()
    with running(release) as site, page_of(browser, site) as page:
        page.on("dialog", lambda _: pytest.fail("a label was run"))
        page.goto(f"{site}/table?{query}")
        expect(page.locator("tbody tr")).to_have_count(10)
        page.goto(f"{site}/chart.svg?{query}")
