"""Run the commands of the README's tour in a fresh demo and write down what they print."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from messy_page import printed

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


if __name__ == "__main__":
    main()
