"""The plan page: the meaning of a budget and the expected error, before there is a release. It sees no data."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from crosstally.browser.common.site import STATIC, Guard, Message, environment, named_hosts, static_file, texts_of
from crosstally.budget import Budget, Neighbours, decimal_text
from crosstally.errors import CrosstallyError, PlanError, WorkloadError
from crosstally.releases.statement import caveats
from crosstally.schema import Schema
from crosstally.strategies.advice import Advice, AdviceKind
from crosstally.strategies.planner import DEFAULT, Proposal, compare
from crosstally.strategies.verdicts import ExpectedError, units_in_words

text = texts_of("plan")

_FOLDER = Path(__file__).parent
_MOST_KEPT = 64  # plans that are not made again
_TIMES = (0.1, 0.3, 1, 3, 10)  # numbers of rows, in addition to the given one
_ROWS = 100_000  # the middle one if none is given
_MOST_ROWS = 10**12  # a limit: more rows than any table has; predictions are doubles and take them
_MERGED = "cells."
_TELLING = Fraction(1, 1000)
"""The expected number of rows that a delta would allow to be published; the page warns from here on."""


Found = tuple[tuple[ExpectedError, ...], tuple[Advice, ...], str]
"""The expected error of a proposal, advice, and what is bought about units."""

_NOTHING_FOUND: Found = (), (), ""


def create_app(schema: Schema, file: str) -> Guard:
    """The plan page of a schema; its requests change nothing, and it has no data."""
    page = _Page(schema, file)
    app = Starlette(
        routes=[Route("/", page.show), Route("/static/{name}", page.static), Route("/favicon.ico", page.icon)]
    )
    app.add_exception_handler(404, page.missing)
    app.add_exception_handler(405, page.missing)
    return Guard(app, allows=named_hosts(()), refuse=page.refuse)


class _Page:
    """The request handler. One plan is made at a time: each takes time and memory."""

    def __init__(self, schema: Schema, file: str) -> None:
        self.schema, self.file = schema, file
        self._lock = Lock()
        self._found = lru_cache(_MOST_KEPT)(self._planned)
        self._environment = environment(_FOLDER / "templates", text)
        self._environment.globals.update(file=file)

    def show(self, request: Request) -> Response:
        """The page for the proposal in its URL."""
        asked, found, problem = read_proposal((), self.schema), _NOTHING_FOUND, ""
        try:
            asked = read_proposal(request.query_params.multi_items(), self.schema)
            with self._lock:
                found = self._found(query_of(asked))
        except CrosstallyError as error:
            problem = str(error)
        context = self._context(asked, found, request)
        return self._render("plan.html", 422 if problem else 200, problem=problem, **context)

    def _planned(self, query: str) -> Found:
        """The expected error of the proposal in a URL."""
        asked = read_proposal(parse_qsl(query), self.schema)
        comparison = compare(asked.schema(self.schema), asked, strategies=DEFAULT)
        return comparison.expected, comparison.advice(), units_in_words(comparison.chosen)

    def _context(self, asked: Proposal, found: Found, request: Request) -> dict[str, Any]:
        budget, (expected, advice, units) = asked.budget, found
        assert budget.epsilon is not None
        names = {"epsilon": decimal_text(budget.epsilon)}
        if budget.delta is not None:
            names["delta"] = decimal_text(budget.delta)
        now = asked.schema(self.schema)
        sizes = [(each.name, each.size, asked.cells.get(each.name, each.size)) for each in self.schema.attributes]
        return {
            "attributes": len(self.schema.names),
            "asked": asked,
            "typed": {name: request.query_params.get(name, "") for name in ("epsilon", "delta", "rows", "ways")}
            | names,
            "tables": [*(",".join(table) for table in asked.tables), ""],
            "example": ",".join(self.schema.names[:2]),
            "sizes": sorted(sizes, key=lambda each: -each[1]),
            "budget_title": text("budget.title" if budget.delta is None else "budget.title_delta", **names),
            "budget_words": budget_in_words(budget, self.schema, asked.neighbours, asked.rows),
            "expected": [*map(str, expected), *filter(None, [units])],
            "advice": [(str(each), _link(asked, now, each)) for each in advice],
            "advised": advice[-1].before.tables if advice else "",
            "by_rows": _by_rows(expected, asked.rows) if expected else [],
            "heads": [_begun(each.tables) for each in expected],
            "caveats": (*([text("caveats.draft")] if self.schema.draft else []), *caveats(self.schema)),
            "command": shlex.join(["crosstally", "plan", self.file, *asked.options(), "-o", "people.plan.json"]),
        }

    # Everything else

    def static(self, request: Request) -> Response:
        """One of the few files that the page loads."""
        found = static_file(request.path_params["name"], STATIC)
        if found is None:
            return self._message(404, text("error.nothing"))
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=300"})

    def icon(self, _: Request) -> Response:
        """Files that browsers request by themselves."""
        content, media_type = STATIC["icon.svg"]
        return Response(content.read_bytes(), media_type=media_type)

    def missing(self, _: Request, error: Any) -> Response:
        """Other addresses and methods."""
        return self._message(error.status_code, text("error.nothing"))

    def refuse(self, status: int, own: str, _: Message) -> Any:
        """The guard's response."""
        known = {400: text("refused.host"), 503: text("refused.busy")}
        return self._message(status, known.get(status) or text("error.unforeseen", own=own))

    def _render(self, template: str, status: int, **context: Any) -> Response:
        return HTMLResponse(self._environment.get_template(template).render(**context), status_code=status)

    def _message(self, status: int, words: str) -> Response:
        return self._render("message.html", status, title=text("error.title"), words=words)


def _begun(words: str) -> str:
    return words[0].upper() + words[1:]


def _by_rows(expected: tuple[ExpectedError, ...], rows: int | None) -> list[tuple[str, list[str]]]:
    """The error relative to an average count, for other numbers of rows and the same plan."""
    numbers = [max(1, round((rows or _ROWS) * times)) for times in _TIMES]
    return [
        (
            f"{number:,}",
            [replace(each, rows=number).figure if each.known else text("rows.unknown") for each in expected],
        )
        for number in numbers
    ]


def _link(asked: Proposal, schema: Schema, advice: Advice) -> str:
    """The URL of the page after following advice; empty if the schema itself has to change."""
    alternative = advice.alternative
    if advice.kind in (AdviceKind.BUDGET, AdviceKind.DELTA):
        return query_of(replace(asked, budget=alternative.proposal.budget))
    if advice.kind is AdviceKind.TABLES and alternative.proposal.named is not None:
        return query_of(replace(asked, ways=None, tables=alternative.proposal.named.tables))
    if advice.kind is AdviceKind.VALUES:
        pairs = zip(alternative.schema.attributes, schema.attributes, strict=True)
        changed = {new.name: new.size for new, old in pairs if new.size < old.size}
        return query_of(replace(asked, cells={**asked.cells, **changed}))
    return ""


# Proposals to URLs and back: every state of the page is in its URL


def query_of(proposal: Proposal) -> str:
    """The URL of the page about a proposal, without defaults."""
    pairs = list(proposal.budget.to_dict().items())
    if proposal.rows is not None:
        pairs.append(("rows", str(proposal.rows)))
    if proposal.neighbours != Neighbours.ADD_REMOVE:
        pairs.append(("neighbours", proposal.neighbours.value))
    if proposal.ways is not None:
        pairs.append(("ways", str(proposal.ways)))
    pairs += [("table", ",".join(table)) for table in proposal.tables]
    pairs += [(f"{_MERGED}{name}", str(size)) for name, size in proposal.cells.items()]
    return urlencode(pairs)


def read_proposal(given: Sequence[tuple[str, str]], schema: Schema) -> Proposal:
    """The proposal in a URL; raises a readable error if it is invalid."""
    fields: dict[str, list[str]] = {}
    for name, value in given:
        if value.strip():
            fields.setdefault(name, []).append(value.strip())
    one = {name: values[-1] for name, values in fields.items()}
    tables = tuple(tuple(part.strip() for part in text.split(",")) for text in fields.get("table", []))
    ways = _whole(one.get("ways"), "tables must be over a whole number of attributes", 20)
    if tables and ways is not None:
        raise WorkloadError("name tables, or say over how many attributes, and not both")
    rows = _whole(one.get("rows"), "rows must be a whole number", _MOST_ROWS)
    neighbours = Neighbours(one.get("neighbours", Neighbours.ADD_REMOVE.value))
    return Proposal(
        Budget(epsilon=one.get("epsilon", "1"), delta=one.get("delta")),
        rows=schema.public_rows if rows is None else rows,
        neighbours=neighbours,
        ways=ways,
        tables=tables,
        cells=_cells(one, schema),
    )


def _whole(text: str | None, rule: str, most: int) -> int | None:
    if text is None:
        return None
    digits = re.sub(r"[ ,'_]", "", text)
    if not re.fullmatch(r"[0-9]{1,15}", digits) or not 0 < int(digits) <= most:
        raise PlanError(f"{rule} from 1 to {most:,}, got {text[:40]!r}")
    return int(digits)


def _cells(one: Mapping[str, str], schema: Schema) -> dict[str, int]:
    found = {}
    for key, text in one.items():
        name = key.removeprefix(_MERGED)
        if not key.startswith(_MERGED) or name not in schema.names:
            continue
        size, most = _whole(text, f"the cells of {name} must be a whole number", 10**6), schema[name].size
        assert size is not None
        if not 2 <= size <= most:
            raise PlanError(f"the cells of {name} must be from 2 to {most:,}, got {size:,}")
        if size < most:
            found[name] = size
    return found


# A budget in words


def budget_in_words(budget: Budget, schema: Schema, neighbours: Neighbours | str, rows: int | None) -> list[str]:
    """What the budget bounds, for readers who do not know epsilon.

    The odds follow from Bayes' rule: outputs have probabilities that differ by a factor of at most e^epsilon, and so
    odds of one to one become at most e^epsilon to one. Under add-remove a changed row is one removed and one added,
    which doubles epsilon.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("sex", ["Female", "Male"])])
    >>> words = budget_in_words(Budget(epsilon=1), schema, Neighbours.ADD_REMOVE, None)
    >>> words[0][:73]
    'Someone is undecided, 50 to 50, whether one person is in the data at all.'
    >>> words[0][74:]
    'Whatever the release shows, it cannot make them surer than 74% that they are, or 74% that they are not.'
    """
    assert budget.epsilon is not None
    epsilon, neighbours = budget.epsilon, Neighbours(neighbours)
    who = "one person" if schema.unit is None else f"one {schema.unit_word}"
    exception = "" if budget.delta is None else " (apart from the chance δ below)"
    sentences = []
    if neighbours == Neighbours.ADD_REMOVE:
        sure = _percent(epsilon)
        sentences.append(
            f"Someone is undecided, 50 to 50, whether {who} is in the data at all. Whatever the release shows, it "
            f"cannot make them surer than {sure} that they are, or {sure} that they are not{exception}."
        )
    else:
        sentences.append(f"Who is in the data, and how many, is not protected: only what is known about {who} is.")
    inner = 2 * epsilon if neighbours == Neighbours.ADD_REMOVE else epsilon
    whose = "in a row" if schema.unit is None else "in their rows"
    sentences.append(
        f"Someone knows that {who} is in the data and is undecided, 50 to 50, between two things that may stand "
        f"{whose}: they cannot become surer than {_percent(inner)} of either{exception}."
    )
    if schema.unit is None:
        sentences.append("One person must be one row: for whoever has two, read these sentences with twice the ε.")
    sentences.append(
        "A smaller ε protects better and makes numbers less exact. 50% in the sentences above would be perfect."
    )
    if budget.delta is not None:
        sentences += _delta_in_words(budget.delta, rows)
    twice = decimal_text(2 * epsilon)
    sentences.append(
        f"It is spent for good. A second release about the same people at the same ε makes it {twice} in all, whoever "
        "makes it and whenever: the ledger keeps that sum."
    )
    return sentences


def _delta_in_words(delta: Fraction, rows: int | None) -> list[str]:
    chance = f"{decimal_text(delta)} (1 in {math.floor(1 / delta):,})"
    sentences = [f"With a chance of at most {chance} for each person, all of this may fail."]
    if rows and delta * rows >= _TELLING:
        sentences.append(
            f"That is too much for {rows:,} rows: a program that published {float(delta * rows):.2g} of them outright, "
            "on average, would keep this promise. Take a δ far below one over the number of people."
        )
    return sentences


def _percent(epsilon: Fraction) -> str:
    """The largest posterior probability from a prior of 50%; rounded up, since it is a bound."""
    odds = math.exp(-float(epsilon))
    percent = 100 / (1 + odds)
    if percent > 99.9:
        return "99.9% and more"
    return f"{math.ceil(percent)}%" if percent <= 99 else f"{math.ceil(10 * percent) / 10}%"
