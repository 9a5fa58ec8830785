"""The statement that somebody signs: who is protected against what, by everything that an account has published.

It is made of sentences that releases say of themselves (``statement``), of the sum that is promised (``totals``), and
of facts that anybody can check in the files. ``layout`` writes it down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from crosstally.budget import Neighbours, NoiseKind, decimal_text
from crosstally.errors import ReleaseError
from crosstally.query.queries import Query
from crosstally.releases.checklists import ASSESSMENTS
from crosstally.releases.publication import foreign_origins, rows_in_doubt
from crosstally.releases.statement import caveats, fact_sentences, installed_versions
from crosstally.releases.totals import Account, File, Total, total_of_account, total_of_releases
from crosstally.schema import Outside, Schema

Rows = tuple[tuple[str, ...], ...]
_LINE = "_" * 40
_KINDS = {"cells": "tables of counts", "contrast": "contrasts of tables", "choice": "choices of what to measure"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the document: sentences, then a table whose heads may be empty."""

    title: str
    sentences: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    rows: Rows = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The statement: sections for people, ``facts`` for programs."""

    title: str
    sections: tuple[Section, ...]
    facts: Mapping[str, Any]
    total: Total
    files: tuple[File, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON."""
        parts = [
            {"title": each.title, "sentences": list(each.sentences), "heads": list(each.heads), "rows": each.rows}
            for each in self.sections
        ]
        return {"title": self.title, **self.facts, "sections": parts}


def document(
    files: Sequence[File],
    account: Account | None = None,
    *,
    reviewed: str = "",
    approved: str = "",
    criteria: Rows = (),
    made: date | None = None,
) -> Document:
    """The statement about an account and all that it paid for, or about some releases.

    Args:
        files: Releases; with an account those that it paid for, as far as they are at hand.
        account: The ledger.
        reviewed: Who reviewed the schema, in words.
        approved: Who approved the plan, in words.
        criteria: The rows of acceptance criteria that were judged: what was asked, what was found, the verdict.
        made: The day of the statement; today without it.
    """
    if not files and account is None:
        raise ReleaseError("a statement is about releases or an account: give a release file, or --ledger")
    total = total_of_releases(files) if account is None else total_of_account(account)
    mechanisms = list(_mechanisms(files, account))
    schemas = [each.release.schema for each in files] if account is None else [each.schema for each in account.schemas]
    about = next((each.about for each in schemas if each.about is not None and each.about.title), None)
    people = "" if account is None else account.people
    sections = (
        Section("Who is protected, and against what", (*total.protected, *_against(total), *total.sentences)),
        _published(files, account, schemas),
        Section("What is not covered", tuple(dict.fromkeys(_uncovered(files, schemas)))),
        Section("What was counted", tuple(dict.fromkeys(_counted(files, schemas)))),
        _mechanism_section(mechanisms, total),
        *(
            [Section("Acceptance criteria", (_CRITERIA,), ("criterion", "found", "verdict"), criteria)]
            if criteria
            else []
        ),
        Section("Who decided", (_DECIDED,), rows=tuple(_decided(account, reviewed, approved))),
        Section("For an assessment", ("This document supports an assessment; it does not replace one.",), *ASSESSMENTS),
        _files(files, account, made or datetime.now(UTC).date()),
        Section("Signature", rows=tuple((each, _LINE) for each in ("Name", "Role", "Place and date", "Signature"))),
    )
    title = (about and about.title) or people or f"tables of {schemas[0].row_word}"
    facts = _facts(files, account, total, mechanisms, criteria)
    return Document(
        title=f"Privacy statement: {title}", sections=sections, facts=facts, total=total, files=tuple(files)
    )


def _against(total: Total) -> tuple[str, ...]:
    """Against whom and what the promise holds, and how it is kept."""
    alone = "what the data say of that person alone"
    what = f"learning that a person is in the data, or {alone}"
    if total.neighbours == Neighbours.REPLACE:
        what = f"learning {alone}; that they are in the data is not hidden"
    whom = (
        "Against whom: anybody who sees all that was published, with any computer and any other knowledge, even all "
        "other people's rows. Nothing that is done with the published numbers later weakens the promise."
    )
    groups = "What is true of groups is published on purpose, and may be guessed of members who took no part."
    how = (
        "How: random noise was added to what each count or report says before anybody else saw it. The budget (ε, ρ "
        "or μ²) says how little that noise hides: nothing can be learned of one person at 0, more at each higher "
        "number, and budgets spent on the same people add up."
    )
    return (whom, f"Against what: {what}. {groups}", how)


_CRITERIA = (
    "Judged from the noise of the release, not from the data. The verdict gates nothing; a new attempt is a new charge."
)
_DECIDED = (
    "No release is made by a schema that is marked as a draft. Files do not say who reviewed one, or approved a plan: "
    "names below are as stated by whoever made this document, or as the ledger recorded them."
)


# What was published


def _published(files: Sequence[File], account: Account | None, schemas: Sequence[Schema]) -> Section:
    sentences = [f"{at}Tables of {schema.counted}, by {', '.join(schema.names)}." for at, schema in _numbered(schemas)]
    sentences.append(
        "Anybody who has a release reads every table of these attributes from it, with what is known of each error."
    )
    if account is None:
        rows = tuple(
            (each.name, str(each.release.statement.budget), each.release.statement.strategy, _paid(each))
            for each in files
        )
        return Section("What was published", tuple(sentences), ("release", "budget", "method", "paid by"), rows)
    names: dict[str, list[str]] = {}
    for each in files:
        for origin in dict.fromkeys(measured.origin for measured in each.release.bought):
            names.setdefault(origin, []).append(each.name)
    spends = tuple(
        (
            str(each.number),
            f"{each.when:%Y-%m-%d}",
            str(each.schema + 1),
            f"{'an answer' if each.is_asked else each.strategy} ({each.key})",
            _short(each.cost),
            ", ".join(names.get(f"entry {each.number} of ledger {account.id}", ["not at hand"])),
        )
        for each in account.entries()
    )
    unit = {"epsilon": "ε", "rho": "ρ"}.get(account.currency, account.currency)
    sentences.append("Below is every spend of the account; those whose file is not at hand count all the same.")
    heads = ("entry", "day (UTC)", "table", "what", f"cost ({unit})", "file")
    return Section("What was published", tuple(sentences), heads, spends)


def _numbered(schemas: Sequence[Schema]) -> list[tuple[str, Schema]]:
    """Each schema, with its number where there are several; as a release they say what a row is."""
    several = len(schemas) > 1
    return [(f"Table {number}: " if several else "", each) for number, each in enumerate(schemas, start=1)]


def _paid(file: File) -> str:
    return file.release.statement.paid or ("each device" if file.release.statement.model == "local" else "nothing")


# What is not covered, and what was counted


def _uncovered(files: Sequence[File], schemas: Sequence[Schema]) -> Iterator[str]:
    for each in files:
        statement, schema = each.release.statement, each.release.schema
        at = f"{each.name}: " if len(files) > 1 else ""
        public, rows = statement.public_sentences(schema)
        yield public
        yield f"{at}{rows}"
        yield from (f"{at}{sentence}" for sentence in statement.asserted_sentences)
        for origin in foreign_origins(statement, each.release.measurements):
            yield f"{at}It also uses answers of {origin}, whose promise is their own."
    for schema in schemas:
        yield from (*fact_sentences(schema), *caveats(schema))
    if not files:
        yield "The names of the attributes and their values come from public schemas and are not protected."
    yield (
        "The budget, the bins, a bound on rows and the list of tables: whoever chose one of them after looking at the "
        "real data published something about them that no epsilon counts. Only what a schema says is known here."
    )


def _counted(files: Sequence[File], schemas: Sequence[Schema]) -> Iterator[str]:
    for each in files:
        at = f"{each.name}: " if len(files) > 1 else ""
        if math.isfinite(each.release.rows):
            yield f"{at}About {round(each.release.rows):,} {each.release.schema.row_word} are counted."
        yield from (f"{at}{sentence}" for sentence in each.release.unit_words)
        for name in dict.fromkeys(total.query.summed.measure or "" for total in each.release.totals):
            yield f"{at}In totals of {name} {each.release.schema.measure(name).bounds}."
        if doubt := rows_in_doubt(each.release):
            yield f"{at}{doubt[0].upper()}{doubt[1:]}."
    for at, schema in _numbered(schemas):
        yield f"{at}Counts are of {schema.counted}{_beyond(schema)}."
        dropped = [attribute.name for attribute in schema.attributes if attribute.outside is Outside.DROP]
        if dropped:
            yield f"{at}Rows with a value outside the schema in {', '.join(dropped)} are in no count."


def _beyond(schema: Schema) -> str:
    return "" if schema.unit is None else f"; further {schema.row_word} of the same {schema.unit_word} are in no count"


# Mechanisms


def _mechanisms(files: Sequence[File], account: Account | None) -> Iterator[dict[str, Any]]:
    """For each spend and kind of query its noise, and by how much one unit of the schema can change an answer."""
    spends = []
    for entry, plan in [] if account is None else [(each, account.plan(each.key)) for each in account.entries()]:
        asked = [(group.query, group.noise, len(group)) for group in plan.groups]
        spends.append((f"entry {entry.number}", asked, plan.schema, plan.neighbours))
    for each in files if account is None else ():
        asked = [(one.query, one.noise, 1) for one in each.release.bought if one.noise is not None]
        spends.append((each.name, asked, each.release.schema, each.release.statement.neighbours))
        if each.release.choices:
            yield _mechanism(each.name, _KINDS["choice"], "Gumbel, on scores", [(1.0, 1.0, len(each.release.choices))])
    for name, asked, schema, neighbours in spends:
        found: dict[tuple[str, NoiseKind], list[tuple[float, float, int]]] = {}
        for query, noise, number in asked:
            moved = query.sensitivity(schema, neighbours)
            largest = math.sqrt(moved.l2_squared) if noise.kind is NoiseKind.GAUSSIAN else float(moved.l1)
            found.setdefault((_kind(query), noise.kind), []).append((noise.scale, largest, number))
        for (kind, noise), alike in found.items():
            norm = "L2" if noise is NoiseKind.GAUSSIAN else "L1"
            words = "Gumbel, on scores" if noise is NoiseKind.GUMBEL else f"discrete {noise.value.capitalize()}"
            yield _mechanism(name, kind, words, alike, norm)


def _mechanism(
    name: str, kind: str, noise: str, each: Sequence[tuple[float, float, int]], norm: str = ""
) -> dict[str, Any]:
    scales, moved, numbers = zip(*each, strict=True)
    ends = {"scale": [min(scales), max(scales)], "sensitivity": [min(moved), max(moved)], "norm": norm}
    return {"paid by": name, "queries": sum(numbers), "of": kind, "noise": noise, **ends}


def _kind(query: Query) -> str:
    if query.of_units:
        return "counts of units by their rows"
    if query.summed.measure is not None:
        return f"tables of sums of {query.summed.measure}"
    return "linear queries" if query.matrices else _KINDS.get(query.kind, "queries")


def _mechanism_section(mechanisms: Sequence[dict[str, Any]], total: Total) -> Section:
    if total.model == "local":
        return Section("Mechanisms", (f"{_RANDOMISED} {total.budget} for each report.",))
    rows = tuple(
        (
            each["paid by"],
            f"{each['queries']:,} {each['of']}",
            f"{each['noise']}, scale {_range(each['scale'])}" if each["norm"] else each["noise"],
            f"{_range(each['sensitivity'])} ({each['norm']})" if each["norm"] else "",
        )
        for each in mechanisms
    )
    return Section("Mechanisms", (_DRAWN, _SCALES), ("paid by", "what", "noise", "sensitivity of each"), rows)


_DRAWN = (
    "Whole-number noise is drawn by OpenDP's samplers from the operating system's randomness, exactly, without the "
    "rounding of floating-point noise. The charge comes before the noise."
)
_SCALES = (
    "The scale of noise is in counts, or steps of a measure. The sensitivity is by how much one row, or all rows of "
    "one id where the schema has a unit, can change the answers of one query. The cost of a spend is that of all its "
    "queries together, for all that one person is in the table."
)
_RANDOMISED = (
    "Each report is randomised on the person's own device, before it is sent, with the operating system's randomness."
)


# Decisions, files, facts


def _decided(account: Account | None, reviewed: str, approved: str) -> Iterator[tuple[str, str]]:
    yield "schema reviewed by", reviewed or _LINE
    yield "budget and plan approved by", approved or _LINE
    for cap in () if account is None else account.caps:
        who = f" by {cap.by}" if cap.by else ", by whom is not recorded"
        why = f": {cap.why}" if cap.why else ", why is not recorded"
        yield f"cap raised to {cap.budget}", f"{cap.when:%Y-%m-%d %H:%M} (UTC){who}{why}"


def _files(files: Sequence[File], account: Account | None, made: date) -> Section:
    versions = ", ".join(f"{name} {number}" for name, number in installed_versions().items())
    rows = [
        *((each.name, f"SHA-256 {each.digest}; made by {_versions(each)}") for each in files),
        *([] if account is None else [(f"ledger {account.id}", f"as of its event {account.anchor}")]),
        ("this document", f"{made.isoformat()}; written by {versions}"),
    ]
    return Section("Files and versions", (_CHECKED,) if account else (), rows=tuple(rows))


_CHECKED = "Each release was compared with the ledger that paid for it: plan, cost and every number."


def _versions(file: File) -> str:
    return ", ".join(f"{name} {number}" for name, number in (file.release.statement.versions or {}).items())


def _facts(
    files: Sequence[File], account: Account | None, total: Total, mechanisms: Sequence[dict[str, Any]], criteria: Rows
) -> dict[str, Any]:
    """The same for programs."""
    ledger = account and {
        "id": account.id,
        "people": account.people,
        "cap": account.budget.to_dict(),
        "spent": decimal_text(account.spent),
        "currency": account.currency,
        "anchor": account.anchor,
        "raised": [{"cap": cap.budget.to_dict(), "by": cap.by, "why": cap.why} for cap in account.caps],
    }
    return {
        "about": total.what,
        "model": total.model,
        "budget": total.budget.to_dict(),
        "neighbours": total.neighbours.value,
        "unit": total.schema.unit and total.schema.unit.identity(),
        "ledger": ledger,
        "releases": [{"file": f.name, "sha256": f.digest, "statement": f.release.statement.to_dict()} for f in files],
        "mechanisms": list(mechanisms),
        "criteria": [dict(zip(("criterion", "found", "verdict"), row, strict=True)) for row in criteria],
    }


def _range(ends: Sequence[float]) -> str:
    low, high = (f"{each:,.4g}" for each in ends)
    return low if low == high else f"{low} to {high}"


def _short(cost: Any) -> str:
    text = decimal_text(cost)
    return text if len(text) <= 12 else format(float(cost), ".6g")
