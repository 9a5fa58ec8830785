"""The table of a page as code: Python, the command line, SQL, curl."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from urllib.parse import quote

from crosstally.questions.where import Where
from crosstally.schema import Schema

__all__ = ["curl", "python", "shell", "sql"]


def python(file: str, names: Sequence[str], where: str) -> str:
    """Lines of Python that give the same table."""
    arguments = [repr(name) for name in names] + ([f"where={where!r}"] if where else [])
    return f"import crosstally as ct\n\nrelease = ct.open_release({file!r})\nrelease.marginal({', '.join(arguments)})"


def shell(file: str, names: Sequence[str], where: str) -> str:
    """A command that prints the same table."""
    words = ["crosstally", "table", file, *names, *(["--where", where] if where else [])]
    return shlex.join(words)


def sql(table: str, names: Sequence[str], where: Where | None, schema: Schema) -> str:
    """A SELECT that gives the same numbers."""
    columns = ", ".join(map(_name, names))
    lines = [f"SELECT {columns}{', ' if names else ''}count(*)", f"FROM {_name(table)}"]
    if where is not None:
        lines.append(f"WHERE {_condition(where, schema)}")
    if names:
        lines.append(f"GROUP BY {columns}")
    return "\n".join(lines)


def curl(base: str, path: str, pairs: Sequence[tuple[str, str]], file: str) -> str:
    """A command that fetches the same table as CSV."""
    query = "&".join(f"{quote(key, safe='[]')}={quote(value, safe='*')}" for key, value in pairs)
    return shlex.join(["curl", "--globoff", "-o", file, f"{base}{path}?{query}"])


def _condition(where: Where, schema: Schema) -> str:
    boxes = [
        " AND ".join(
            f"{_name(name)} IN ({', '.join(_text(schema[name].labels[code]) for code in sorted(box[name]))})"
            for name in box
        )
        or "TRUE"
        for box in where.boxes
    ]
    return boxes[0] if len(boxes) == 1 else " OR ".join(f"({box})" for box in boxes)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"
