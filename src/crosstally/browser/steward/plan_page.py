"""The application: one page about one schema, behind the guard."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from crosstally.browser.common.site import STATIC, environment, static_file, texts_of
from crosstally.browser.common.site_guard import Guard, Message, named_hosts
from crosstally.browser.steward.asked import Asked, read_asked
from crosstally.browser.steward.words import budget_in_words
from crosstally.budget import decimal_text
from crosstally.errors import CrosstallyError
from crosstally.releases.statement import caveats
from crosstally.schema import Schema
from crosstally.strategies.advice import Advice, AdviceKind
from crosstally.strategies.planner import DEFAULT, Comparison, compare
from crosstally.strategies.verdicts import Expected

__all__ = ["create_app"]

text = texts_of("plan")

_FOLDER = Path(__file__).parent
_MOST_KEPT = 64  # plans that are not made again
_TIMES = (0.1, 0.3, 1, 3, 10)  # numbers of rows, beside the one that is given
_ROWS = 100_000  # in the middle where none is given


@dataclass(frozen=True, slots=True)
class Found:
    """A plan and what would change it."""

    comparison: Comparison
    _: KW_ONLY
    expected: tuple[Expected, ...]
    advice: tuple[Advice, ...]


def create_app(schema: Schema, file: str) -> Guard:
    """The plan page of a schema; its requests change nothing, and it has no data to tell of."""
    page = _Page(schema, file)
    app = Starlette(
        routes=[Route("/", page.show), Route("/static/{name}", page.static), Route("/favicon.ico", page.icon)]
    )
    app.add_exception_handler(404, page.missing)
    app.add_exception_handler(405, page.missing)
    return Guard(app, allows=named_hosts(()), refuse=page.refuse)


class _Page:
    """What is answered. One plan is made at a time: each takes both time and memory."""

    def __init__(self, schema: Schema, file: str) -> None:
        self.schema, self.file = schema, file
        self._lock = Lock()
        self._kept: OrderedDict[str, Found] = OrderedDict()
        self._environment = environment(_FOLDER / "templates", text)
        self._environment.globals.update(file=file)

    def show(self, request: Request) -> Response:
        """The page, for what its address asks."""
        asked, found, problem = read_asked((), self.schema), None, ""
        try:
            asked = read_asked(request.query_params.multi_items(), self.schema)
            found = self._found(asked)
        except CrosstallyError as error:
            problem = str(error)
        context = self._context(asked, found, request)
        return self._render("plan.html", 422 if problem else 200, problem=problem, **context)

    def _found(self, asked: Asked) -> Found:
        """The plan, from those that were made before where it is among them."""
        key = asked.query()
        with self._lock:
            if key not in self._kept:
                schema = asked.schema(self.schema)
                comparison = compare(
                    schema,
                    asked.workload(schema),
                    asked.budget,
                    neighbours=asked.neighbours,
                    strategies=DEFAULT,
                    rows=asked.rows,
                )
                self._kept[key] = Found(comparison, expected=comparison.expected, advice=comparison.advice())
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

    def _context(self, asked: Asked, found: Found | None, request: Request) -> dict[str, Any]:
        budget = asked.budget
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
            "expected": [] if found is None else list(map(str, found.expected)),
            "advice": [] if found is None else [(str(each), _link(asked, now, each)) for each in found.advice],
            "advised": "" if found is None or not found.advice else found.advice[-1].before.tables,
            "by_rows": [] if found is None else _by_rows(found.expected, asked.rows),
            "heads": [] if found is None else [_begun(each.tables) for each in found.expected],
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
        """What browsers ask for by themselves."""
        content, media_type = STATIC["icon.svg"]
        return Response(content.read_bytes(), media_type=media_type)

    def missing(self, _: Request, error: Any) -> Response:
        """Other addresses and methods."""
        return self._message(error.status_code, text("error.nothing"))

    def refuse(self, status: int, own: str, _: Message) -> Any:
        """What the guard answers."""
        known = {400: text("refused.host"), 503: text("refused.busy")}
        return self._message(status, known.get(status) or text("error.unforeseen", own=own))

    def _render(self, template: str, status: int, **context: Any) -> Response:
        return HTMLResponse(self._environment.get_template(template).render(**context), status_code=status)

    def _message(self, status: int, words: str) -> Response:
        return self._render("message.html", status, title=text("error.title"), words=words)


def _begun(words: str) -> str:
    return words[0].upper() + words[1:]


def _by_rows(expected: tuple[Expected, ...], rows: int | None) -> list[tuple[str, list[str]]]:
    """The error beside a typical cell, with other numbers of rows and the same plan."""
    numbers = [max(1, round((rows or _ROWS) * times)) for times in _TIMES]
    return [
        (
            f"{number:,}",
            [replace(each, rows=number).figure if each.known else text("rows.unknown") for each in expected],
        )
        for number in numbers
    ]


def _link(asked: Asked, schema: Schema, advice: Advice) -> str:
    """The address of the page with a piece of advice followed; empty where the schema itself has to change."""
    alternative = advice.alternative
    if advice.kind in (AdviceKind.BUDGET, AdviceKind.DELTA):
        return replace(asked, budget=alternative.budget).query()
    if advice.kind is AdviceKind.TABLES and alternative.asked is not None:
        return replace(asked, ways=None, tables=alternative.asked.tables).query()
    if advice.kind is AdviceKind.VALUES:
        pairs = zip(alternative.schema.attributes, schema.attributes, strict=True)
        changed = {new.name: new.size for new, old in pairs if new.size < old.size}
        return replace(asked, cells={**asked.cells, **changed}).query()
    return ""
