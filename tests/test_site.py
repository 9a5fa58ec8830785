"""The site: it builds without a warning or a network, names everything public, its links resolve and its code runs."""

from __future__ import annotations

import configparser
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import typer.main

import crosstally as ct
from crosstally.cli.app import _of_laboratory, app
from crosstally.cli.laboratory import COMMANDS as OF_LABORATORY
from crosstally.generate.people import people
from crosstally.strategies import matrices
from crosstally_lab.generate.transactions import transactions

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OF_THE_LABORATORY = sorted((ROOT / "lab").rglob("*.md"))
HOST = r"https://(?:github\.com/crosstally/crosstally/blob|raw\.githubusercontent\.com/crosstally/crosstally)/main/"
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")]

BUILD = """
import socket, sys
def refuse(*given): raise OSError("the site must build without a network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--config-file", sys.argv[1], "--site-dir", sys.argv[2]])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. The log is looked at here, since every test needs a site that was built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(ROOT / "mkdocs.yml"), str(folder)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr, built.stderr
    return folder


class Page(HTMLParser):
    """What a page of the site links to, what it loads, and what can be linked to on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given:
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_public_name_is_in_the_reference(built: dict[Path, Page]) -> None:
    anchors = {anchor for page in built.values() for anchor in page.anchors if anchor.startswith("crosstally.")}
    ends = {anchor.rsplit(".", 1)[-1] for anchor in anchors}
    starts = {anchor.split(".")[1] for anchor in anchors if anchor.count(".") > 1}
    assert "Schema" in ends
    assert "strategies" in starts
    public = {*ct.__all__, *ct.strategies.__all__, *ct.local.__all__}
    missing = sorted(name for name in public if name not in ends | starts)
    assert not missing, "add them to docs/reference/api"


def test_all_links_resolve(site: Path, built: dict[Path, Page]) -> None:
    for path, page in built.items():
        if path.name == "404.html":  # its links begin where the site is served
            continue
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if not target.startswith(("https:", "mailto:")):
                found = (path.parent / target).resolve() if target else path
                found = found / "index.html" if found.is_dir() else found
                assert found.is_file(), (path.relative_to(site), link)
                if found.suffix == ".html" and anchor and not anchor.startswith("__"):
                    assert anchor in built[found].anchors, (path.relative_to(site), link)


def test_nothing_is_loaded_from_another_host(built: dict[Path, Page]) -> None:
    loads = [load for page in built.values() for load in page.loads]
    assert loads
    assert not [load for load in loads if re.match(r"\w+:|//", load) and not load.startswith("data:")]


@pytest.mark.parametrize("page", [*BESIDE, *PAGES, *OF_THE_LABORATORY], ids=lambda page: page.stem)
def test_links_of_plain_pages_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(HOST + r"([^)\s#]+)", text):
        assert (ROOT / link).is_file(), link
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_modules_that_pages_name_exist() -> None:
    """``crosstally.x.y`` in backticks is a module, or something in one."""
    named = re.compile(r"`(crosstally(?:_lab)?(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
    found = [
        (page.name, name) for page in [*BESIDE, *PAGES] for name in named.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) >= 8
    keys = ("crosstally.sha256", "crosstally.room", "crosstally.commands")  # of a release file's metadata; entry points
    assert [each for each in found if each[1] not in keys and not _exists(each[1])] == []


def _exists(name: str) -> bool:
    try:
        return bool(pkgutil.resolve_name(name))
    except (ImportError, AttributeError):
        return False


def test_links_of_the_readme_are_absolute_and_named() -> None:
    """It is also shown where the repository is not beside it."""
    text = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"^\[[^]]+\]: (.*)$", text, re.MULTILINE)
    assert len(targets) > 15
    assert all(target.startswith("https://") for target in targets)
    named = {name.lower() for name in re.findall(r"^\[([^]]+)\]:", text, re.MULTILINE)}
    used = re.findall(r"\[([^]]+)\](?:\[([^]]+)\])?(?![:(\[])", text)
    assert {(name or words).replace("\n  ", " ").lower() for words, name in used} == named


def test_the_layers_on_the_page_are_those_that_are_checked() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].replace(" : ", ", ").split("\n")
    page = (DOCS / "project/architecture.md").read_text(encoding="utf-8").partition("\n## Layers\n")[2]
    (shown,) = re.findall(r"```text\n(__main__\n.*?)```", page, re.DOTALL)
    assert shown.splitlines() == [line for line in layers if line]


# Code on the pages


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def about_people() -> dict[str, Any]:
    """The names and files that the pages take for granted."""
    rows, generated = people(2_000, np.random.default_rng(1), attributes=["sex", "age", "education"])
    age, town = ct.Attribute("age", edges=[0, 18, 25, 30, 65, 120]), ct.Attribute("town", ["Zürich", "São Paulo"])
    rows = rows.append_column("town", [town.labels * 1_000])
    schema = ct.Schema([*(age if each.name == "age" else each for each in generated.attributes), town])
    pyarrow.csv.write_csv(rows, "people.csv")
    schema.save("people.schema.json")
    ct.Ledger.create("people.ledger", schema=schema, budget=ct.Budget(epsilon=3), neighbours=ct.Neighbours.ADD_REMOVE)
    release = ct.release(rows, schema, epsilon=1.0, strategy="flat")
    release.save("people.release.parquet")
    row = {"sex": "Female", "age": 44, "education": "Degree", "town": "Zürich"}
    queries = matrices.identity(64)
    return {"ct": ct, "rows": rows, "frame": rows, "row": row, "schema": schema, "release": release, "queries": queries}


def about_clicks() -> dict[str, Any]:
    table, schema = transactions(1_000, 32, np.random.default_rng(1))
    names = [f"item{number}" for number in range(1, 33)]
    pyarrow.parquet.write_table(table.rename_columns(names), "clicks.parquet")
    two = schema.attributes[0].values
    return {"ct": ct, "schema": ct.Schema([ct.Attribute(name, two) for name in names])}


NOTEBOOK = DOCS / "start/analyst.md"  # run as a notebook, by its own test, on people with more attributes
WITH_CODE = [
    page for page in [ROOT / "README.md", *PAGES, *OF_THE_LABORATORY] if page != NOTEBOOK and blocks(page, "python")
]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_python_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = about_clicks() if page.name == "views.md" else about_people()
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_pages_with_code_are_found() -> None:
    assert {"README", "tutorial", "questions", "local-model", "views"} <= {page.stem for page in WITH_CODE}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """The path of every command with its options."""
    yield path, {option for given in command.params for option in given.opts} | {"--help", "--version"}
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def test_commands_on_the_pages_exist_with_their_options() -> None:
    known = dict(commands(typer.main.get_command(app)))
    known |= {path: options for name in OF_LABORATORY for path, options in commands(_of_laboratory(name), (name,))}
    seen = 0
    for page in [ROOT / "README.md", *PAGES, *OF_THE_LABORATORY]:
        text = page.read_text(encoding="utf-8")
        shown = [line for block in blocks(page, "") for line in block.splitlines() if line.startswith("crosstally ")]
        for line in shown + re.findall(r"`(crosstally [^`]+)`", text):
            words = re.sub(r'"[^"]*"', '""', line.partition("  #")[0]).split()[1:]
            path = tuple(words[:2]) if tuple(words[:2]) in known else tuple(words[:1])
            assert path in known, (page.name, line)
            options = {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
            assert options <= known[path], (page.name, line)
            seen += 1
    assert seen > 20
