"""Tables as HTML for notebooks: every text is escaped, nothing is loaded, nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_ROWS = 60
"""Rows that a notebook shows of one table; how many more there are is said."""


def html_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    note: str = "",
    left: int = 1,
    more: int = 0,
) -> str:
    """A table whose first ``left`` columns are labels of rows and whose others are numbers.

    >>> html_table(["<b>", "n"], [["a", "1"]])
    '<table><thead><tr><th>&lt;b&gt;</th><th>n</th></tr></thead><tbody><tr><th>a</th><td>1</td></tr></tbody></table>'
    """
    top = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    lines = "".join(
        "<tr>"
        + "".join(f"<th>{escape(x)}</th>" if i < left else f"<td>{escape(x)}</td>" for i, x in enumerate(row))
        + "</tr>"
        for row in rows
    )
    rest = f"... {more:,} more rows. " if more > 0 else ""
    foot = f"<p>{escape(rest + note)}</p>" if rest or note else ""
    return f"<table>{top}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{foot}"


def html_facts(title: str, facts: Mapping[str, str]) -> str:
    """A title and what is known about it, a line each."""
    return html_table([title, ""], facts.items())
