"""``crosstally statement``: the document that somebody signs, about an account and all that it paid for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import crosstally as ct
from crosstally.cli.options import Accept, CheckFailedError, Force, Json, Quiet, argument, check_output, flag, option
from crosstally.cli.output.screen import data, people, print_json, progress
from crosstally.errors import CrosstallyError
from crosstally.platform_files import write_bytes, writing

if TYPE_CHECKING:
    from crosstally.releases.document import Document
    from crosstally.releases.totals import File

EXAMPLES = (
    "crosstally statement people.release.parquet --ledger people.ledger -o statement.html",
    "crosstally statement 2026.parquet 2027.parquet --ledger people.ledger --approved-by 'the board' -o statement.pdf",
    "crosstally statement people.release.parquet --ledger people.ledger --sp800-226",
    "crosstally statement people.release.parquet --ledger people.ledger --registry -o people.yaml",
)
_ENDINGS = (".html", ".pdf", ".md", ".json")


def statement(
    release: Annotated[list[Path] | None, argument("RELEASE", "Release files.")] = None,
    *,
    ledger: Annotated[
        Path | None, option("FILE", "The account that paid: the statement is then about all that it has spent.")
    ] = None,
    accept: Accept = None,
    output: Annotated[
        Path | None,
        option("FILE", "The file to write: .html, .pdf (needs crosstally\\[pdf]), .md or .json.", "--output", "-o"),
    ] = None,
    registry: Annotated[
        bool, flag("The facts as a record of a public registry of deployments (YAML).", "--registry")
    ] = False,
    checklist: Annotated[bool, flag("The factors of NIST SP 800-226 as a checklist.", "--sp800-226")] = False,
    reviewed_by: Annotated[str, option("TEXT", "Who reviewed the schema, as you say.")] = "",
    approved_by: Annotated[str, option("TEXT", "Who approved the budget and the plan, as you say.")] = "",
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the statement that somebody signs: who is protected, against what, by all releases of an account together.

    It names what is not covered, what was counted, who decided, the noise, and the digests of all files.
    """
    if registry and checklist:
        raise CrosstallyError("a statement is one document: leave out --registry or --sp800-226")
    if output is not None:
        check_output(output, force=force)
        if not (registry or output.suffix.lower() in _ENDINGS):
            raise CrosstallyError(f"a statement is written to {', '.join(_ENDINGS)}, got {output.name!r}")
    with progress("reading releases", quiet=quiet or json):
        made = _document(release or [], ledger, accept, (reviewed_by, approved_by))
        if checklist:
            made = _checked(made)
        written = _written(made, ".md" if output is None else output.suffix.lower(), registry=registry)
    if output is not None:
        with writing(output):
            write_bytes(output, written)
        people(quiet=quiet).say(f"Written {output}: {made.title}, about {made.total.what}.")
    if json:
        print_json(made.to_dict())
    elif output is None:
        data().put(written.decode().rstrip("\n"))
    if missed := [row for row in made.facts["criteria"] if row["verdict"] != "pass"]:
        raise CheckFailedError(f"{len(missed)} of {len(made.facts['criteria'])} acceptance criteria are not met")


def _document(paths: list[Path], ledger: Path | None, accept: Path | None, said: tuple[str, str]) -> Document:
    from crosstally.releases.document import document

    files = [_file(path) for path in paths]
    account = None if ledger is None else ct.Ledger.open(ledger, read_only=True)
    if account is not None:
        from crosstally.cli.paid import check_paid

        account.verify()
        for each in files:
            check_paid(each.release, account)
    criteria = tuple(row for each in files for row in _verdicts(each, accept, several=len(files) > 1))
    return document(files, account, reviewed=said[0], approved=said[1], criteria=criteria)


def _verdicts(file: File, accept: Path | None, *, several: bool) -> list[tuple[str, ...]]:
    if accept is None:
        return []
    from crosstally.releases.acceptance import Criteria, judge_release

    rows = [each.row() for each in judge_release(file.release, Criteria.load(accept))]
    return [(f"{file.name}: {asked}", *found) if several else (asked, *found) for asked, *found in rows]


def _file(path: Path) -> File:
    from crosstally.releases.totals import File

    opened = ct.open_release(path)
    return File(name=path.name, digest=hashlib.sha256(path.read_bytes()).hexdigest(), release=opened)


def _checked(made: Document) -> Document:
    """The checklist alone, under the same title and with the same facts."""
    from dataclasses import replace

    from crosstally.releases.checklists import checklist
    from crosstally.releases.document import Section

    heads, rows = checklist(made)
    note = "Our reading of NIST SP 800-226 (2025). It supports an assessment; each line names what remains to judge."
    signature = made.sections[-1]
    return replace(made, sections=(Section("Checklist of NIST SP 800-226", (note,), heads, rows), signature))


def _written(made: Document, ending: str, *, registry: bool) -> bytes:
    from json import dumps

    from crosstally.releases.checklists import registry_entry, yaml_text
    from crosstally.releases.layout import html_text, markdown_text, pdf_bytes

    if ending == ".pdf":
        return pdf_bytes(made)
    if registry:
        text = yaml_text(registry_entry(made))
    elif ending == ".json":
        text = dumps(made.to_dict(), ensure_ascii=False, indent=1) + "\n"
    else:
        text = html_text(made) if ending == ".html" else markdown_text(made)
    return text.encode()
