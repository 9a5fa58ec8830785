"""A new format is a small patch: applied to a copy, every door offers it, and at most three files were touched."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import released

PACKAGE = Path(__file__).parents[2] / "src" / "crosstally"

ENTRY = '    "px": Format('
PATCH = {  # file of the package: where a text goes, before what; a new file has no such place
    "exports/markdown.py": (
        "",
        '''"""An answer as a table of Markdown."""

from collections.abc import Iterator

from crosstally.exports.formats import labelled_cells


def markdown_lines(marginal, *, level=None) -> Iterator[str]:
    """A line for each cell: labels, count and interval."""
    heads = [*marginal.attributes, "count", "from", "to"]
    yield f"| {' | '.join(heads)} |\\n|{' --- |' * len(heads)}\\n"
    for cell in labelled_cells(marginal, level=level):
        numbers = (f"{number:.0f}" for number in (cell.count, cell.low, cell.high))
        yield f"| {' | '.join([*cell.labels, *numbers])} |\\n"
''',
    ),
    "exports/formats.py": ("_CSV, _JSON", ""),
}
LINE = '    "markdown": Format("Markdown", "text/markdown; charset=utf-8", "md", "markdown.markdown_lines"),\n'

DOORS = """
import json, sys
from pathlib import Path
from starlette.testclient import TestClient
from crosstally.browser.explorer.app import create_app
from crosstally.browser.explorer.served import Served
from crosstally.cli import main
from crosstally.releases import open_release

path = Path(sys.argv[1])
assert main(["table", str(path), "sex", "-o", str(path.with_name("by-ending.md"))]) == 0
assert main(["table", str(path), "sex", "--format", "markdown", "-o", str(path.with_name("by-name"))]) == 0
served = Served(open_release(path), name="people", file=path.name, digest="0" * 64)
client = TestClient(create_app(served), base_url="http://localhost")
fetched = client.get("/api/v2/tables/people/data?valueCodes[sex]=*&outputFormat=markdown")
print(json.dumps({
    "api": fetched.text,
    "type": fetched.headers["content-type"],
    "config": client.get("/api/v2/config").json()["dataFormats"],
    "openapi": client.get("/api/v2/openapi.json").text.count('"markdown"'),
    "page": client.get("/table?rows=sex", headers={"accept": "text/html"}).text.count("/download/markdown"),
    "start": client.get("/", headers={"accept": "text/html"}).text.count("Markdown"),
    "download": client.get("/download/markdown?rows=sex").text,
}))
"""


def patched(folder: Path) -> set[str]:
    """The package with the patch, in a folder; the files that it touched."""
    copy = folder / "crosstally"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (place, text) in PATCH.items():
        before = (copy / name).read_text(encoding="utf-8") if place else ""
        assert before.count(place) == 1 or not place
        after = before.replace(place, text + place) if place else text
        (copy / name).write_text(after.replace(ENTRY, LINE + ENTRY), encoding="utf-8")
    originals = {path.relative_to(PACKAGE): path for path in PACKAGE.rglob("*.py")}
    return {
        str(path.relative_to(copy))
        for path in copy.rglob("*.py")
        if (own := originals.get(path.relative_to(copy))) is None or own.read_bytes() != path.read_bytes()
    }


def test_a_new_format_touches_few_files_and_every_door_offers_it(tmp_path: Path) -> None:
    touched = patched(tmp_path)
    assert touched == {"exports/markdown.py", "exports/formats.py"}
    release = released.saved(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NO_COLOR": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", DOORS, str(release)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    written = (tmp_path / "by-ending.md").read_text(encoding="utf-8")
    assert written.startswith("| sex | count | from | to |\n| --- | --- | --- | --- |\n| Female | ")
    assert written == (tmp_path / "by-name").read_text(encoding="utf-8") == found["api"] == found["download"]
    assert found["type"] == "text/markdown; charset=utf-8"
    assert "markdown" in found["config"]
    assert min(found[door] for door in ("openapi", "page", "start")) >= 1
