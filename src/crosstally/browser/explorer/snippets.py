"""The table of a page as code: Python, the command line, SQL, curl."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from urllib.parse import quote

from crosstally.analysis.regrouping import AS_IT_IS, Regrouping
from crosstally.query.question import Where
from crosstally.schema import Attribute, Schema


def python(file: str, names: Sequence[str], where: str, regrouping: Regrouping = AS_IT_IS) -> str:
    """Lines of Python that give the same table."""
    arguments = [repr(name) for name in names] + ([f"where={where!r}"] if where else [])
    lines = ["import crosstally as ct", "", f"release = ct.open_release({file!r})"]
    lines.append(f"table = release.marginal({', '.join(arguments)})")
    lines += [f"table = table.roll_up({name!r}, {level!r})" for name, level in regrouping.levels]
    for name, groups in regrouping.groups:
        held = {group: list(labels) for group, labels in groups}
        lines.append(f"table = table.group({name!r}, {held!r})")
    return "\n".join([*lines, "print(table)"])


def shell(file: str, names: Sequence[str], where: str, regrouping: Regrouping = AS_IT_IS) -> str:
    """A command that prints the same table."""
    words = ["crosstally", "table", file, *names, *(["--where", where] if where else [])]
    return shlex.join([*words, *(word for text in regrouping.texts() for word in ("--group", text))])


def sql(
    table: str, names: Sequence[str], where: Where | None, schema: Schema, regrouping: Regrouping = AS_IT_IS
) -> str:
    """A SELECT that gives the same numbers."""
    changed = {name for name, _ in (*regrouping.levels, *regrouping.groups)}
    columns = ", ".join(_case(schema[name], regrouping) if name in changed else _name(name) for name in names)
    lines = [f"SELECT {columns}{', ' if names else ''}count(*)", f"FROM {_name(table)}"]
    if where is not None:
        lines.append(f"WHERE {_condition(where, schema)}")
    if names:
        places = ", ".join(str(place) for place in range(1, len(names) + 1))
        lines.append(f"GROUP BY {places if changed else columns}")
    return "\n".join(lines)


def curl(base: str, path: str, pairs: Sequence[tuple[str, str]], file: str) -> str:
    """A command that fetches the same table as CSV."""
    query = "&".join(f"{quote(key, safe='[]')}={quote(value, safe='*')}" for key, value in pairs)
    return shlex.join(["curl", "--globoff", "-o", file, f"{base}{path}?{query}"])


def _case(attribute: Attribute, regrouping: Regrouping) -> str:
    """The labels of an attribute whose values are put together."""
    name = _name(attribute.name)
    whens = [
        f"WHEN {name} IN ({', '.join(map(_text, labels))}) THEN {_text(label)}"
        for label, labels in regrouping.held(attribute).items()
    ]
    return f"CASE {' '.join(whens)} END AS {name}"


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
