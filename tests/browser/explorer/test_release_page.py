"""The page of a release: whole, inert, readable without colours and without a network."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import crosstally as ct
from cli_runs import run
from crosstally.browser.explorer.release_page import release_page, strongest_associations
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, Statement, publish
from crosstally.schema.facts import About
from hostile_labels import MANY
from released import views
from simulated import measured, people, schema_of

NOISE = Noise(NoiseKind.LAPLACE, 10.0)
TOLD = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
HOSTILE = [
    "<script>alert(1)</script>",
    "</svg><img src=x onerror=alert(2)>",
    '" onload="alert(3)',
    "{{ 7 * 7 }}",
    "a\u202eb",
]


TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "nav",
        "ul",
        "li",
        "main",
        "section",
        "dl",
        "div",
        "dt",
        "dd",
        "details",
        "summary",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "bdi",
        "span",
        "svg",
        "g",
        "path",
        "line",
        "rect",
        "text",
        "blockquote",
        "pre",
        "code",
        "footer",
    ]
)


class Read(HTMLParser):
    """Tags, attributes and texts of a page; raises where an end has no beginning."""

    VOID = frozenset(("meta", "br", "img", "link", "input"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def released(schema: ct.Schema, *, seed: int = 1) -> Release:
    rng = np.random.default_rng(seed)
    queries = [Cells((name,)) for name in schema.names] + [Cells(schema.names[:2])]
    out = []
    for query in queries:
        values = rng.integers(100, 2_000, query.shape(schema))
        out.append(Measurement(query, values, variance=NOISE.variance, noise=NOISE, origin="test"))
    return publish(schema, out, TOLD)


@pytest.fixture(scope="module")
def hostile() -> str:
    about = About(title=HOSTILE[0], source=HOSTILE[1], language='en" onclick="x')
    attributes = [ct.Attribute(HOSTILE[0], HOSTILE, description=HOSTILE[1]), ct.Attribute(HOSTILE[2], ["a", "b"])]
    return release_page(released(ct.Schema(attributes, about=about)), file_name="$(reboot).parquet")


def test_labels_are_texts_and_nothing_else(hostile: str) -> None:
    page = Read(hostile)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "link", "form"}
    assert not [name for _, own in page.tags for name in own if name.startswith("on")]
    shown = "".join(page.texts)
    assert all(label in shown for label in HOSTILE)
    assert "49" not in re.findall(r"\b49\b", shown)
    assert hostile.count("<bdi>a\u202eb</bdi>") == 1
    assert "crosstally inspect '$(reboot).parquet'" in shown


def test_two_hundred_hostile_labels_are_texts_in_html_and_svg() -> None:
    parts = [MANY[i : i + 20] for i in range(0, len(MANY), 20)]
    schema = ct.Schema([ct.Attribute(f"a{i}", part) for i, part in enumerate(parts)])
    html = release_page(released(schema))
    page = Read(html)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert not [name for _, own in page.tags for name in own if name.startswith("on")]
    assert set(MANY) <= set(page.texts)
    pictures = re.findall("<svg.*?</svg>", html, re.DOTALL)
    assert sum(picture.count("&lt;script&gt;") for picture in pictures) >= len(MANY) // 30


def test_nothing_is_loaded_and_the_policy_allows_nothing_but_its_own_style(hostile: str) -> None:
    page = Read(hostile)
    for _, own in page.tags:
        assert "src" not in own
        assert "style" not in own
        assert (own.get("href") or "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", hostile, re.DOTALL).group(1)
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = (own["content"] for tag, own in page.tags if own.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"
    assert "unsafe-" not in policy


def test_every_link_and_label_leads_somewhere(hostile: str) -> None:
    page = Read(hostile)
    ids = [own["id"] for _, own in page.tags if "id" in own]
    assert len(ids) == len(set(ids))
    targets = [own["href"][1:] for tag, own in page.tags if tag == "a"]
    targets += [own["aria-labelledby"] for _, own in page.tags if "aria-labelledby" in own]
    assert set(targets) <= set(ids)
    assert all(own.get("aria-hidden") == "true" for tag, own in page.tags if tag == "svg")
    assert all("scope" in own for tag, own in page.tags if tag == "th")
    assert next(own["lang"] for tag, own in page.tags if tag == "html") == 'en" onclick="x'


def test_the_numbers_are_those_of_the_release() -> None:
    release = views()
    page = Read(release_page(release, digest="ab12"))
    shown = " ".join(page.texts)
    answer = release.marginal("sex")
    low, high = answer.interval(0.95)
    for i, label in enumerate(("Female", "Male")):
        row = page.texts[page.texts.index(label, page.texts.index("The numbers")) :]
        numbers = [text for text in row if re.fullmatch(r"[\d,]+", text.strip())][:3]
        assert [int(each.replace(",", "")) for each in numbers] == [round(answer.values[i]), low[i], high[i]]
    for sentence in release.statement.plain(release.schema):
        assert sentence in shown
    assert "SHA-256 of the release file: ab12." in shown
    assert "sex" in shown


def test_many_values_are_cut_to_the_most_frequent() -> None:
    page = release_page(released(schema_of(150, 3)))
    assert "The 24 most frequent of 150 values." in page
    assert "50 more values are in the release." in page


def test_forty_one_attributes_are_quick_and_small() -> None:
    rng = np.random.default_rng(2)
    schema = schema_of(*rng.integers(2, 12, 41).tolist(), 60)
    release = released(schema)
    start = time.process_time()
    page = release_page(release)
    assert time.process_time() - start < 20
    assert len(page.encode()) < 5_000_000
    assert page.count("<svg ") == 42


# Associations


def true_v(table: np.ndarray) -> float:
    """Cramér's V from SciPy's chi-square."""
    chi_square = chi2_contingency(table, correction=False).statistic
    return math.sqrt(chi_square / table.sum() / (min(table.shape) - 1))


def test_associations_are_near_the_true_ones() -> None:
    """Errors have a standard deviation of 0.002 here; the six pairs' own values are up to 0.2 apart."""
    full = people(np.random.default_rng(3), (2, 4, 3, 3), 20_000, 0.5)
    axes = [(i, j) for j in range(4) for i in range(j)]
    held = []
    for seed in range(12):
        release = publish(schema_of(2, 4, 3, 3), measured(np.random.default_rng(seed), full, axes, NOISE), TOLD)
        found, number = strongest_associations(release, 6)
        assert number == 6
        for names, v in found:
            own = tuple(int(name[1:]) for name in names)
            true = true_v(full.sum(axis=tuple(i for i in range(4) if i not in own)))
            assert v.value == pytest.approx(true, abs=0.015)
            low, high = v.interval()
            held.append(low <= true <= high)
            assert low <= v.value <= high
    assert 62 <= sum(held) <= 72  # of 72; 95% are 68


def test_the_command(tmp_path: Path) -> None:
    views().save(tmp_path / "given.parquet")
    ran = run("page", tmp_path / "given.parquet", "-o", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    digest = hashlib.sha256((tmp_path / "given.parquet").read_bytes()).hexdigest()
    assert digest in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "exists already" in run("page", tmp_path / "given.parquet", "-o", tmp_path / "page.html").err
