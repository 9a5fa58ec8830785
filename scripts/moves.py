"""Move modules and packages, and everything that names them: imports, quoted names, paths, contracts, mutants, docs.

    python scripts/moves.py questions=query questions.queries=query.query

Names are below ``crosstally`` (``crosstally_lab.x`` for the laboratory). The file, its folder in ``tests`` and all
texts are changed; ``git mv`` keeps the history. The longest name is applied first. Look at ``git diff --stat`` after.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXTS = (".py", ".md", ".toml", ".yml", ".cfg", ".ini", ".json", ".txt", ".pyi", "")
LEFT = ("CHANGELOG.md", "scripts/moves.py", "tests/frozen/outcomes.json")


def rules(old: str, new: str) -> list[tuple[re.Pattern[str], str]]:
    """The patterns by which a text may name a module, and what they become."""
    parent, _, name = old.rpartition(".")
    below, _, called = new.rpartition(".")
    dotted, slashed = re.escape(old), re.escape(old.replace(".", "/"))
    new_slashed = new.replace(".", "/")
    found = [
        (re.compile(rf"\bcrosstally\.{dotted}(?![A-Za-z0-9_])"), f"crosstally.{new}"),
        (re.compile(rf"\bcrosstally/{slashed}(?=[/.\s`\"')]|$)"), f"crosstally/{new_slashed}"),
        (re.compile(rf"\btests/{slashed}(?=[/\s`\"')]|$)"), f"tests/{new_slashed}"),
    ]
    if parent:
        found.append((re.compile(rf"(?<=[`\"']){dotted}(?=[`\"').])"), new))
        found.append((re.compile(rf"(?<=[`\"']){slashed}(?=(\.py)?[`\"')])"), new_slashed))
        pattern = rf"\bfrom crosstally\.{re.escape(parent)} import {name}(?= as |$)"
        alias = "" if called == name else f" as {name}"
        imported = f"from crosstally.{below} import {called}{alias}"
        found.append((re.compile(pattern + r"(?! as)", re.MULTILINE), imported))
    else:
        found.append((re.compile(rf"(?<=[`\"']){dotted}(?=\.[a-z_]+[.`\"'])"), new))
        found.append((re.compile(rf"(?<=[`\"']){dotted}(?=/)"), new_slashed))
    return found


def move(old: str, new: str) -> None:
    """Move the file or folder, and the folder of its tests if there is one."""
    for root in ("src/crosstally", "tests"):
        source, target = ROOT / root / old.replace(".", "/"), ROOT / root / new.replace(".", "/")
        if root == "tests" and not source.is_dir():
            continue
        if not source.is_dir():
            source, target = source.with_suffix(".py"), target.with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", str(source), str(target)], cwd=ROOT, check=True)


def main() -> None:
    """Move, then rewrite all texts that git knows."""
    table = [tuple(each.split("=")) for each in sys.argv[1:]]
    for old, new in table:
        move(old, new)
    patterns = [rule for old, new in sorted(table, key=lambda pair: -len(pair[0])) for rule in rules(old, new)]
    for name in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split():
        path = ROOT / name
        if path.suffix not in TEXTS or name in LEFT or not path.is_file():
            continue
        text = changed = path.read_text(encoding="utf-8")
        for pattern, new in patterns:
            changed = pattern.sub(new, changed)
        if changed != text:
            path.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    main()
