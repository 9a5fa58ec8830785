"""Lists the numbers named at the top level of modules that say nothing: no docstring below, no comment beside or above.

A constant is explained when its comment says what it is, where it comes from (a paper, a proof, an experiment, or that
it was chosen) and what happens when it moves. Whether the words are true is for readers; that there are words is
checked here: ``python scripts/constants.py --check`` exits with 1 when a constant has none.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*")
NUMBERS = ("Fraction", "Decimal", "range", "np.", "math.")  # calls of numbers that give numbers


def is_numeric(value: ast.expr) -> bool:
    """Whether an expression is a number or holds only numbers: ``Fraction(1, 3)``, ``2**20``, ``{2: (100, N)}``."""
    match value:
        case ast.Constant():
            return isinstance(value.value, int | float) and not isinstance(value.value, bool)
        case ast.UnaryOp(operand=operand):
            return is_numeric(operand)
        case ast.BinOp(left=left, right=right):
            return is_numeric(left) or is_numeric(right)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items) | ast.Dict(values=items):
            return any(map(is_numeric, items)) and all(is_numeric(item) or isinstance(item, ast.Name) for item in items)
        case ast.Call(func=called, args=items):
            return ast.unparse(called).startswith(NUMBERS) and any(map(is_numeric, items))
    return False


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign, ast.stmt | None]]:
    """Each constant's name, the statement that names it and the statement that follows."""
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        match statement:
            case ast.Assign(targets=targets, value=value):
                names = [name for target in targets for name in ast.walk(target)]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                names = [target]
            case _:
                continue
        constants = [name.id for name in names if isinstance(name, ast.Name) and CONSTANT.fullmatch(name.id)]
        if constants and is_numeric(value):
            yield ", ".join(constants), statement, following


def unexplained(text: str) -> list[tuple[int, str]]:
    """Line and name of each constant of a module that has neither docstring nor comment."""
    comments, alone = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
            if token.line.strip().startswith("#"):
                alone.add(token.start[0])
    found = []
    for name, statement, following in assignments(ast.parse(text)):
        inside = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        documented = (
            isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        )
        if not (documented or comments.intersection(inside) or statement.lineno - 1 in alone):
            found.append((statement.lineno, name))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints ``path:line: name`` for each constant without words; 1 when ``--check`` finds any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "paths", nargs="*", type=Path, default=[SOURCE], help="folders or modules; src when none is named"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a constant has no words")
    options = parser.parse_args(arguments)
    modules = [module for path in options.paths for module in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    lines = [
        f"{module}:{line}: {name}"
        for module in modules
        for line, name in unexplained(module.read_text(encoding="utf-8"))
    ]
    print("\n".join([*lines, f"{len(lines)} constants without a source"]))
    return int(options.check and bool(lines))


if __name__ == "__main__":
    sys.exit(main())
