"""Faults drawn at random: an arithmetic or comparison operator becomes another one. Run: python -m mutants.drawn

Unlike the planted ones nobody chose their places. Each is printed as a change of one line; ``--try`` looks for the
test that catches it. Which did, and why some change nothing that matters, is in lab/evidence/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import TimeoutExpired

from mutants.mutant import SOURCE, TESTS, Copy, Drawn

__all__ = ["drawn"]

FOLDERS = ("privacy", "plans", "inference", "local", "sources")

CHANGES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}


def operators(file: Path) -> Iterator[Drawn]:
    """All such operators of a file between two operands; of a chain of comparisons the first."""
    text = file.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        row = text[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(row.encode()[:column].decode())

    for node in ast.walk(ast.parse(text)):
        found: tuple[ast.expr, ast.expr, ast.AST]
        if isinstance(node, ast.BinOp):
            found = node.left, node.right, node.op
        elif isinstance(node, ast.Compare):
            found = node.left, node.comparators[0], node.ops[0]
        else:
            continue
        left, right, operator = found
        if type(operator) not in CHANGES:
            continue
        assert left.end_lineno is not None
        assert left.end_col_offset is not None
        begin, end = place(left.end_lineno, left.end_col_offset), place(right.lineno, right.col_offset)
        old, new = CHANGES[type(operator)]
        at = text.find(old, begin, end)
        if at >= 0:
            yield Drawn(str(file.relative_to(SOURCE)), at, at + len(old), new)


def drawn(seed: int, number: int) -> list[Drawn]:
    """Some operators, each equally likely."""
    files = sorted(file for folder in FOLDERS for file in (SOURCE / folder).rglob("*.py"))
    return random.Random(seed).sample([each for file in files for each in operators(file)], number)


def caught_by(each: Drawn, copy: Copy) -> str:
    """The test that fails first: of those of the fault's own folder, then of all others."""
    folder = each.file.split("/")[0]
    others = sorted(path.name for path in TESTS.iterdir() if path.name.startswith("test_") or path.is_dir())
    try:
        found = copy.first_failure(each, folder) or copy.first_failure(each, *(set(others) - {folder, "mutants"}))
    except TimeoutExpired:
        return "a search that never ends"
    return found or "NOTHING"


def main(seed: int, number: int, *, tried: bool) -> None:
    """Print the faults as changed lines and, if they are to be tried, the tests that catch them."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder)) if tried else None
        for each in drawn(seed, number):
            print(each, *([] if copy is None else [f"\n    caught by {caught_by(each, copy)}"]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m mutants.drawn", description=__doc__)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--try", action="store_true", dest="tried", help="find the test that catches each; hours")
    options = parser.parse_args()
    main(options.seed, options.number, tried=options.tried)
