"""Run the tutorial of the messy file in a fresh folder and write down what its commands print.

The edits of the page's table are made as the review makes them.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from crosstally.browser.common.site_server import listen
from crosstally.browser.steward import edits
from crosstally.browser.steward.review import Review, Session
from crosstally.browser.steward.review_pages import serve
from crosstally.budget import Budget
from crosstally.schema import Schema
from crosstally.sources.drafting.edges import bin_names
from crosstally.sources.inspection import read_distributions
from crosstally.strategies.planner import Proposal

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/start/messy-file.md"
PICTURE = ROOT / "docs/start/messy-review.png"
PEOPLE = ROOT / "docs/start/messy_people.py"
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)
_EDIT = re.compile(r"^\| [0-9]+ \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)

Edit = Callable[[Schema], Schema]


def edits_of(text: str) -> list[Edit]:
    """The edits in the page's table, in order."""
    found = []
    for attribute, form, typed in _EDIT.findall(text):
        name, value = attribute.strip(), typed.strip()
        chosen = re.findall(r"`([^`]+)`", form)
        known: dict[str, Edit] = {
            "Merge or rename": partial(edits.merge, name=name, chosen=chosen, into=value),
            "Cut here, publicly known": partial(edits.cut, name=name, edges=value, names=bin_names, public=True),
            "Put in this order": partial(edits.reorder, name=name, labels=value.split(", ")),
            "Rename": partial(edits.rename, name=name, new=value),
            "I have reviewed it": edits.approve,
        }
        found.append(known[form.partition(":")[0].strip()])
    return found


def reviewed(folder: Path, text: str, first: int | None = None) -> Review:
    """The schema of the folder with the edits of the page made, or the first of them; nothing is saved yet."""
    path = folder / "leute.schema.json"
    counted = read_distributions(folder / "leute.csv", Schema.load(path))
    review = Review(path, counted, Proposal(Budget(epsilon=1)))
    for edit in edits_of(text)[:first]:
        review.change(edit)
    return review


def printed(folder: Path, command: str) -> str:
    """What a command prints on a terminal of 100 columns."""
    name, *rest = shlex.split(command)
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    program = Path(sys.executable).parent / name
    done = subprocess.run([program, *rest], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def walked(folder: Path, text: str, run: Callable[[Path, str], str] = printed) -> Iterator[str]:
    """What each command of the page prints, in order; the edits are made after the draft."""
    runpy.run_path(str(PEOPLE))["main"](folder)
    for block in BLOCK.finditer(text):
        yield run(folder, block["command"])
        if "schema draft" in block["command"]:
            reviewed(folder, text).save()


def main() -> None:
    """Rewrite the console blocks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        outputs = walked(Path(folder), text)
        new = BLOCK.sub(lambda block: f"```console\n$ {block['command']}\n{next(outputs)}```", text)
    PAGE.write_text(new, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        take_picture(Path(folder), new)


def take_picture(folder: Path, text: str) -> None:
    """The review after its first edit, as a browser shows it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browsers import launched  # noqa: PLC0415 - the path is known only now

    runpy.run_path(str(PEOPLE))["main"](folder)
    printed(folder, "crosstally schema draft leute.csv -o leute.schema.json")
    review, session = reviewed(folder, text, first=1), Session()
    with listen("127.0.0.1", 0) as socket, launched() as browser:
        entrances: list[Path] = []
        thread = threading.Thread(target=serve, args=(review, socket, entrances.append, session))
        thread.start()
        while not entrances:
            time.sleep(0.01)
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(entrances[0].as_uri())
        page.get_by_role("link", name="Geschl").click()
        page.screenshot(path=PICTURE)
        page.close()
        session.close()
        thread.join()


if __name__ == "__main__":
    main()
