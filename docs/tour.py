"""Run the commands of the README's tour in a fresh demo and write down what they print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n.*?```", re.DOTALL)


def main() -> None:
    """Rewrite the README's console blocks and its picture."""
    with tempfile.TemporaryDirectory() as folder:
        printed(Path(folder), "crosstally demo")
        tour = Path(folder) / "crosstally-demo"

        def rewritten(block: re.Match[str]) -> str:
            command = block["command"]
            return f"```console\n$ {command}\n{printed(tour, command)}```"

        readme = ROOT / "README.md"
        readme.write_text(BLOCK.sub(rewritten, readme.read_text(encoding="utf-8")), encoding="utf-8")
        shutil.copy(tour / "age-by-sex.svg", ROOT / "docs" / "start" / "age-by-sex.svg")


def printed(folder: Path, command: str) -> str:
    """What a command prints on a terminal of 100 columns."""
    name, *rest = shlex.split(command)
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    program = Path(sys.executable).parent / name
    done = subprocess.run([program, *rest], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
