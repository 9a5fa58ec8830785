"""Faults drawn at random: an arithmetic or comparison operator becomes another one. Run: python -m mutants.drawn

Unlike the planted ones nobody chose their places. Each is printed as a change of one line; which test catches it, and
why some change nothing that matters, is in docs/evidence/mutants.md.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import SOURCE

__all__ = ["Drawn", "drawn"]

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


@dataclass(frozen=True, slots=True)
class Drawn:
    """One operator, from ``start`` to ``end`` in the text of a file, and what stands there instead."""

    file: str
    line: int
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """The text of the file with the fault in it."""
        return text[: self.start] + self.new + text[self.end :]


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
            yield Drawn(str(file.relative_to(SOURCE)), left.end_lineno, at, at + len(old), new)


def drawn(seed: int, number: int) -> list[Drawn]:
    """Some operators, each equally likely."""
    files = sorted(file for folder in FOLDERS for file in (SOURCE / folder).rglob("*.py"))
    return random.Random(seed).sample([each for file in files for each in operators(file)], number)


def main(seed: int, number: int) -> None:
    """Print the faults as changed lines."""
    for each in drawn(seed, number):
        text = (SOURCE / each.file).read_text(encoding="utf-8")
        changed = each.applied(text).splitlines()
        line = next(i for i, (a, b) in enumerate(zip(text.splitlines(), changed, strict=True), 1) if a != b)
        print(f"{each.file}:{line}  {text.splitlines()[line - 1].strip()}  ->  {changed[line - 1].strip()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 19, 20)
