"""How large the house is: code, concepts, what an auditor must read, how far a row walks. Each figure has a ceiling.

    python scripts/house.py [--walks] [--check]

Ceilings only fall: lower them in ``CEILINGS`` when a figure has fallen. ``--check`` exits with 1 when one is exceeded.
"""

from __future__ import annotations

import argparse
import ast
import io
import runpy
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "crosstally"

CEILINGS: Mapping[str, int] = {
    "code lines": 42_584,
    "files": 317,
    "code lines with laboratory and benchmarks": 54_751,
    "classes": 423,
    "classes that define interval": 4,
    "public class names twice": 0,
    "module names twice": 0,
    "dispatches on kinds of queries": 8,
    "trusted files": 41,
    "trusted code lines": 6_375,
    "long files": 0,
    "long functions": 0,
    "words of docs": 54_706,
    "walk: row to marginal": 68,
    "walk: direct": 58,
    "functions of direct": 749,  # 746 here; it differs by a function or two from machine to machine
    "walk: plan": 32,
    "walk: unmeasured": 38,
}
"""The most that each figure may be."""

ENTRANCES = ("privacy.measure", "sources.counts", "sources.parts")
"""Where rows become noisy numbers: what these import, functions' own imports included, is trusted."""

READERS = ("sources.kinds", "sources.databases")
"""What these import beside it is listed apart: kinds of sources, which counting does not know. Readers go row by row:
they may misread a row, and cannot read another. The page of the trusted base says which of them must ensure more."""

DEVICE = ("local.client",)
"""What runs on a person's device, with the standard library alone; listed apart too."""

KINDS = ("Cells", "Contrast", "Kronecker", "Product", "Linear", "Choice")
QUERIES = ("query",)
"""The kinds of queries, and the package that may tell them apart."""

LONG_FILE, LONG_FUNCTION = 500, 60
_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_VERBS = "cli"  # modules of commands bear the names of what they command


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def files(folder: Path) -> tuple[Path, ...]:
    """The Python files below a folder."""
    return tuple(sorted(folder.rglob("*.py")))


def code_lines(path: Path) -> int:
    """The lines of a file that hold code: no blank lines, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - set(_docstring_lines(parsed(path))))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Lines of texts that stand alone: docstrings, and the explanations below constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def classes(folder: Path) -> list[tuple[Path, ast.ClassDef]]:
    """All classes, with their files."""
    return [(path, node) for path in files(folder) for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]


def names_twice(names: Sequence[str]) -> int:
    """How many names occur more than once."""
    return sum(number > 1 for number in Counter(names).values())


def dispatches(path: Path) -> int:
    """How often a file asks which kind of query it has: isinstance, class patterns, ``type(x) is``, single dispatch."""
    found = 0
    for node in ast.walk(parsed(path)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            found += any(kind in KINDS for kind in _names(node.args[-1]))
        elif isinstance(node, ast.MatchClass):
            found += any(kind in KINDS for kind in _names(node.cls))
        elif isinstance(node, ast.Compare) and _is_type(node.left):
            found += any(kind in KINDS for each in node.comparators for kind in _names(each))
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot | ast.Eq) for op in node.ops):
            found += any(isinstance(each, ast.Name) and each.id in KINDS for each in node.comparators)
        elif isinstance(node, ast.Attribute):
            found += node.attr == "register" and any(kind in KINDS for kind in _names(node.value))
    return found


def _names(node: ast.expr) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def long_functions(folder: Path) -> list[str]:
    """The functions above a screen and a half."""
    return [
        f"{path.name}:{node.name}"
        for path in files(folder)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > LONG_FUNCTION
    ]


def trusted() -> set[Path]:
    """The files that the entrances import, and the entrances; folders' own modules hold no code."""
    return set(_reached(ENTRANCES))


def readers() -> set[Path]:
    """The files of all kinds of sources that counting does not know."""
    return set(_reached(READERS) - _reached(ENTRANCES))


def device() -> set[Path]:
    """The files that a device runs."""
    return set(_reached(DEVICE) - _reached(ENTRANCES))


@cache
def _reached(entrances: tuple[str, ...]) -> frozenset[Path]:
    graph = _graph()
    modules = {f"crosstally.{entrance}" for entrance in entrances}
    modules |= {found for entrance in modules for found in graph.find_upstream_modules(entrance)}
    paths = {
        PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py") for module in modules if module != "crosstally"
    }
    return frozenset(path for path in paths if path.is_file())


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("crosstally", cache_dir=None)


def words() -> int:
    """Words of docs that people wrote: the page of the command line is printed by the program."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "cli.md"]
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def figures() -> dict[str, int]:
    """What is counted without running anything."""
    own = files(PACKAGE)
    named = classes(PACKAGE)
    public = [node.name for _, node in named if not node.name.startswith("_")]
    modules = [path.stem for path in own if not path.stem.startswith("__") and path.parent.name != _VERBS]
    outside = [path for path in own if path.relative_to(PACKAGE).parts[0] not in QUERIES]
    base = trusted()
    return {
        "code lines": sum(map(code_lines, own)),
        "files": len(own),
        "code lines with laboratory and benchmarks": sum(
            code_lines(path) for folder in ("src", "lab") for path in files(ROOT / folder) if "tests" not in path.parts
        ),
        "classes": len(named),
        "classes that define interval": sum(
            any(isinstance(each, ast.FunctionDef) and each.name == "interval" for each in node.body)
            for _, node in named
        ),
        "public class names twice": names_twice(public),
        "module names twice": names_twice(modules),
        "dispatches on kinds of queries": sum(map(dispatches, outside)),
        "trusted files": len(base),
        "trusted code lines": sum(map(code_lines, base)),
        "long files": sum(len(path.read_text(encoding="utf-8").splitlines()) > LONG_FILE for path in own),
        "long functions": len(long_functions(PACKAGE)),
        "words of docs": words(),
    }


def walked() -> dict[str, int]:
    """How many files a row passes on some walks, and how many functions on the simplest (``scripts/walk.py``)."""
    walk = runpy.run_path(str(ROOT / "scripts" / "walk.py"))
    walk["import_everything"]()
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, run in walk["walks"](Path(folder), walk["FEWEST_ROWS"]).items():
            if name not in WALKS:
                continue
            walk["forget_everything"]()
            with walk["traced"]() as trace:
                run()
            out[f"walk: {WALKS[name]}"] = len(trace.files)
            if name == _SIMPLEST:
                out["functions of direct"] = len(trace.functions)
    return out


WALKS = {
    "a CSV row to a printed marginal, by an approved plan": "row to marginal",
    "one table by direct": "direct",
    "a release's file to an unmeasured table": "unmeasured",
    "ct.plan": "plan",
}
_SIMPLEST = "one table by direct"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures beside their ceilings; with ``--check`` 1 if one is exceeded."""
    parser = argparse.ArgumentParser(description="how large the house is")
    parser.add_argument("--walks", action="store_true", help="also run the walks")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ceiling is exceeded")
    given = parser.parse_args(arguments)
    found = {**figures(), **(walked() if given.walks else {})}
    for name, number in found.items():
        mark = "  EXCEEDED" if number > CEILINGS[name] else ""
        print(f"{name:45} {number:>8,}   at most {CEILINGS[name]:,}{mark}")
    return int(given.check and any(number > CEILINGS[name] for name, number in found.items()))


if __name__ == "__main__":
    sys.exit(main())
