"""Prints how many comments the hard rooms have: lines of comments, and of docstrings, in 100 lines of the module.

    python scripts/comment_density.py [--check] [modules]

A line of code with a comment behind it counts as a comment line. ``--check`` exits with 1 when a module has fewer than
three comment lines in 100: the mathematics there is hard, and a reader must be able to follow each step.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "crosstally"

ROOMS = {
    "notebook/history": ("components", "plausible", "likelihood", "loadings"),
    "local/estimate": ("posterior", "association", "shrinkage", "expectation"),
    "local/planning": ("groups",),
    "kernels": ("view_search", "clusters", "entropy", "metropolis_hastings"),
    "designs": ("constructions",),
    "inference": ("estimate", "joint", "mixture", "nonnegativity", "repeats", "replicates", "risk", "shrinkage"),
}
"""The modules whose mathematics is hardest, folder by folder."""

LEAST = 3.0
"""Comment lines in 100: the least among the codebases that this one is compared with, which have 3 to 9."""

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Density:
    """Lines of a module: all of them, those with a comment, and those of docstrings."""

    lines: int
    comments: int
    docstrings: int

    @property
    def comments_in_100(self) -> float:
        """Lines with a comment for each 100 lines."""
        return 100 * self.comments / max(self.lines, 1)

    @property
    def words_in_100(self) -> float:
        """Lines with a comment or of a docstring for each 100 lines."""
        return 100 * (self.comments + self.docstrings) / max(self.lines, 1)


def density(text: str) -> Density:
    """How many comments a module has. Directives for tools (``noqa``, ``type:``, ``mypy:``, ``fmt:``) are none."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT and not _directive(token.string)}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    docstrings.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return Density(len(text.splitlines()), len(comments), len(docstrings))


def _directive(comment: str) -> bool:
    return comment.lstrip("# ").startswith(("noqa", "type:", "mypy:", "fmt:"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each module; 1 when ``--check`` finds one with too few comments."""
    rooms = [PACKAGE / folder / f"{name}.py" for folder, names in ROOMS.items() for name in names]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", type=Path, default=rooms, help="the hard rooms when none is named")
    parser.add_argument("--check", action="store_true", help=f"fail below {LEAST:g} comment lines in 100")
    given = parser.parse_args(arguments)
    few = 0
    for path in given.modules:
        found = density(path.read_text(encoding="utf-8"))
        below = found.comments_in_100 < LEAST
        few += below
        shown = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path
        print(
            f"{shown!s:40} {found.lines:5} lines  {found.comments_in_100:4.1f} comments in 100,"
            f" {found.words_in_100:4.1f} with docstrings{'  too few' if below else ''}"
        )
    return 1 if given.check and few else 0


if __name__ == "__main__":
    raise SystemExit(main())
