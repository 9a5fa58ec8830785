"""A statement as HTML, Markdown or PDF. All texts are escaped: labels and names are other people's.

HTML is one file that loads and runs nothing. PDF is typeset by ``typst`` (the extra ``pdf``), without any network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape

from crosstally.checks import optional
from crosstally.html_text import html_table
from crosstally.releases.document import Document, Section

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 Georgia, "Liberation Serif", serif; color: #111; background: #fff; max-width: 46em;
  margin: 2em auto; padding: 0 1.5em; }
h1 { font-size: 1.6em; line-height: 1.25; border-bottom: 2px solid #111; padding-bottom: .4em; }
h2 { font-size: 1.15em; margin: 1.8em 0 .4em; }
p { margin: .5em 0; }
table { border-collapse: collapse; width: 100%; font-size: .875em; margin: .6em 0; }
th, td { text-align: left; vertical-align: top; padding: .3em .6em; border-bottom: 1px solid #bbb; }
td { overflow-wrap: anywhere; }
th { font-weight: 600; min-width: 3em; }
thead th { border-bottom: 1px solid #111; }
@page { size: A4; margin: 18mm; }
@media print { body { font-size: 10.5pt; margin: 0; max-width: none; padding: 0; } h2 { break-after: avoid; }
  tr { break-inside: avoid; } section:last-of-type { break-inside: avoid; } }
"""


def html_text(document: Document) -> str:
    """The statement as one HTML file."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    parts = "\n".join(map(_html_section, document.sections))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(document.title)}</h1>\n{parts}\n</main></body></html>\n"
    )


def _html_section(section: Section) -> str:
    sentences = "".join(f"<p>{escape(each)}</p>" for each in section.sentences)
    table = html_table(section.heads, section.rows) if section.rows else ""
    return (
        f"<section><h2>{escape(section.title)}</h2>{sentences}{table.replace('<thead><tr></tr></thead>', '')}</section>"
    )


def markdown_text(document: Document) -> str:
    """The statement as Markdown."""
    parts = [f"# {_plain(document.title)}", *map(_markdown_section, document.sections)]
    return "\n\n".join(parts) + "\n"


def _markdown_section(section: Section) -> str:
    parts = [f"## {_plain(section.title)}", *map(_plain, section.sentences)]
    if section.rows:
        heads = section.heads or ("",) * len(section.rows[0])
        lines = [heads, ("---",) * len(heads), *section.rows]
        parts.append("\n".join(_markdown_row(each, rule=number == 1) for number, each in enumerate(lines)))
    return "\n\n".join(parts)


def _markdown_row(cells: Sequence[str], *, rule: bool) -> str:
    return f"| {' | '.join(cells if rule else map(_plain, cells))} |"


def _plain(text: str) -> str:
    """A text in which no character means anything to Markdown; lines of underscores stay as they are."""
    if text and not text.strip("_"):
        return text
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))


def pdf_bytes(document: Document) -> bytes:
    """The statement as a PDF; needs the extra ``pdf``."""
    typst = optional("typst", extra="pdf")
    return bytes(typst.compile(typst_source(document).encode()))


def typst_source(document: Document) -> str:
    """The statement for typst, every text as a literal of its language."""
    title = _literal(document.title)
    lines = [
        f"#set document(title: {title})",
        '#set page(paper: "a4", margin: 18mm, numbering: "1 / 1")',
        '#set text(size: 10pt, lang: "en")',
        "#set table(stroke: (x, y) => (bottom: 0.4pt + gray), inset: 4pt)",
        "#show table: set text(size: 8.5pt)",
        f"#text(size: 16pt, weight: 700, {title})",
    ]
    for section in document.sections:
        lines.append(f"#heading(level: 2, {_literal(section.title)})")
        lines += [f"#par({_literal(each)})" for each in section.sentences]
        if section.rows:
            lines.append(_typst_table(section))
    return "\n".join(lines) + "\n"


def _typst_table(section: Section) -> str:
    columns = len(section.rows[0])
    widths = ", ".join("1fr" if columns > 2 or number else "auto" for number in range(columns))
    heads = ", ".join(f"strong({_literal(each)})" for each in section.heads)
    header = f"table.header({heads}), " if heads else ""
    cells = ", ".join(f"text({_literal(_breakable(cell))})" for row in section.rows for cell in row)
    return f"#table(columns: ({widths}), {header}{cells})"


def _breakable(text: str) -> str:
    """Digests may be broken anywhere: a zero-width space after every sixteen of their characters."""
    return re.sub(r"([0-9a-f]{16})(?=[0-9a-f])", "\\1\u200b", text)


def _literal(text: str) -> str:
    """A text as a string of typst: quotes and backslashes escaped, control characters left out."""
    shown = "".join(each if each.isprintable() or each == "\u200b" else " " for each in text)
    return json.dumps(shown, ensure_ascii=False)
