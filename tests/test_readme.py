"""Every command that the README shows prints what the README shows, but for the noise."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```console\n\$ ([^\n]+)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def shape(text: str) -> str:
    """The text without what noise changes: numbers, random keys, the spaces that align them, and the sizes of views."""
    text = re.sub(r"(release-|ledger )[0-9a-f]+", r"\1#", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", text)
    text = re.sub(r"[\s─]+", " ", re.sub(r"[0-9][0-9,.]*", "#", text)).strip()
    return re.sub(r"(cells over # attributes? laplace # # # # ?)+", "views ", text)


def test_the_tour(tmp_path) -> None:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    folder = Path(sys.executable).parent

    def run(command: str, where: Path) -> str:
        name, *rest = shlex.split(command)
        done = subprocess.run(
            [folder / name, *rest], cwd=where, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    run("crosstally demo", tmp_path)
    assert len(BLOCKS) == 6
    planned, released = (next(command for command, _ in BLOCKS if each in command) for each in (" plan ", " release "))
    assert "--ways 2" in planned
    assert "--ways 2" in released  # otherwise the errors that the tour promises are those of another release
    for command, shown in BLOCKS:
        printed = run(command, tmp_path / "crosstally-demo")
        assert shape(printed) == shape(shown), command
        if command == planned:  # without noise: every digit is the same
            assert printed.split() == shown.split()
