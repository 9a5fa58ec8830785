"""The pages of one review behind the guard, for the person who was admitted."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from crosstally.browser.common.site import STATIC, Guard, Message, environment, host_of, static_file, texts_of
from crosstally.browser.common.site_server import server
from crosstally.browser.steward import cards, edits
from crosstally.browser.steward.review import COOKIE, Review, Session, previous_of, write_entrance
from crosstally.budget import Budget
from crosstally.errors import CrosstallyError, SchemaError
from crosstally.schema import Schema
from crosstally.sources.drafting.edges import bin_names
from crosstally.sources.inspection import FEW_ROWS
from crosstally.strategies.planner import Proposal

text = texts_of("review")

_FOLDER = Path(__file__).parent
_STATIC = {**STATIC, "review.css": (_FOLDER / "static/review.css", "text/css; charset=utf-8")}
_MOST_BYTES = 4_000_000
"""Of a form: an attribute of 1,000 labels sends each of them twice."""
_LOOK_SECONDS = 1.0  # between two looks at the clock

Form = Mapping[str, list[str]]


class Refused(Exception):  # noqa: N818 - not an error: the request is rejected
    """A rejected request, with the status and the key of the text of the response."""

    def __init__(self, status: int, key: str) -> None:
        super().__init__(key)
        self.status, self.key = status, key


def create_app(review: Review, session: Session, *, address: str, ended: Callable[[], None]) -> Guard:
    """The pages of a review.

    Args:
        review: The schema and the counts.
        session: The session.
        address: The only address that is answered, such as http://127.0.0.1:8123.
        ended: Called when the steward ends the review.
    """
    pages = _Pages(review, session, address, ended)
    app = Starlette(
        routes=[
            Route("/enter", pages.enter, methods=["POST"]),
            Route(session.path + "/{page:path}", pages.get, methods=["GET"]),
            Route(session.path + "/{page:path}", pages.post, methods=["POST"]),
            Route("/favicon.ico", _no_icon),  # what browsers request by default
            Route("/{page:path}", pages.nothing, methods=["GET", "POST"]),
        ]
    )
    exact = address.removeprefix("http://").encode()
    return Guard(app, allows=lambda scope: host_of(scope) == exact, refuse=pages.refuse)


async def _no_icon(_: Request) -> Response:
    return Response(status_code=204)


class _Pages:
    """The request handler. Changes are made one at a time."""

    def __init__(self, review: Review, session: Session, address: str, ended: Callable[[], None]) -> None:
        self.review, self.session, self.address, self._ended = review, session, address, ended
        self._lock = threading.Lock()
        self._environment = environment(_FOLDER / "templates", text)
        self._environment.globals.update(
            root=session.path, form_token=session.form_token, file=review.path.name, few=FEW_ROWS
        )

    # Access

    async def enter(self, request: Request) -> Response:
        """Admit the person with the code. The form is in a local file, whose origin browsers send as null."""
        try:
            _check_origin(request, (self.address, "null"))
            cookie = self.session.enter(_one(await _form(request), "code"))
        except Refused as refused:
            return self._message(refused.status, refused.key)
        if cookie is None:
            return self._message(403, "enter.refused")
        # The next page is asked for by this one and not by a redirect: with that the cookie, which is strict, would not
        # be sent, since the file that began it is another site.
        answer = self._render("entered.html")
        answer.set_cookie(COOKIE, cookie, path=f"{self.session.path}/", httponly=True, samesite="strict")
        return answer

    async def nothing(self, _: Request) -> Response:
        """All other paths, whether or not they exist for an admitted person."""
        return self._message(403, "refused.session")

    def refuse(self, status: int, own: str, _: Message) -> Any:
        """The guard's response."""
        if status == 400:
            return self._message(400, "refused.host")
        return self._message(status, "error.unforeseen", own=own)

    async def get(self, request: Request) -> Response:
        """A page for the admitted person."""
        if not self.session.knows(request.cookies.get(COOKIE)):
            return self._message(403, "refused.session")
        return await run_in_threadpool(self._get, request.path_params["page"], request)

    async def post(self, request: Request) -> Response:
        """A change by the admitted person, from a form of this site."""
        if not self.session.knows(request.cookies.get(COOKIE)):
            return self._message(403, "refused.session")
        try:
            _check_own_origin(request, self.address)
            form = await _form(request)
        except Refused as refused:
            return self._message(refused.status, refused.key)
        if not self.session.accepts(_one(form, "token")):
            return self._message(403, "refused.token")
        return await run_in_threadpool(self._post, request.path_params["page"], form)

    # Pages

    def _get(self, page: str, request: Request) -> Response:
        with self._lock:
            if page == "":
                return self._overview(saved=request.query_params.get("saved") == "1")
            if page == "attribute" and request.query_params.get("name") in self.review.schema.names:
                return self._attribute(request.query_params["name"])
        found = static_file(page.removeprefix("static/"), _STATIC) if page.startswith("static/") else None
        if found is None:
            return self._message(404, "error.nothing")
        return Response(found[0], media_type=found[1])

    def _overview(self, *, saved: bool = False, problem: str = "", status: int = 200) -> Response:
        shown = [cards.card(self.review, attribute) for attribute in self.review.schema.attributes]
        return self._render(
            "overview.html",
            status,
            cards=shown,
            problem=problem,
            facts=cards.facts(self.review.schema),
            bounds=cards.bounds(self.review),
            saved=saved and not self.review.changed,
            previous=previous_of(self.review.path).name,
            **self._common(),
        )

    def _attribute(self, name: str, *, problem: str = "", status: int = 200) -> Response:
        found = cards.card(self.review, self.review.schema[name])
        return self._render("attribute.html", status, found=found, problem=problem, **self._common())

    def _common(self) -> dict[str, Any]:
        return {
            "review": self.review,
            "rows": f"{self.review.distributions.rows:,}",
            "outlook": cards.outlook(self.review),
            "wanted": self.review.wanted,
        }

    def _post(self, page: str, form: Form) -> Response:
        """Apply the edit of a form and show the same page; on failure, with the reason."""
        name = _one(form, "name")
        with self._lock:
            if page == "end":
                return self._end()
            if page == "want":
                return self._tried(name, lambda: self.review.want(_wanted(form, self.review.wanted)))
            if _one(form, "version") != str(self.review.version):
                return self._message(409, "refused.old")
            if page == "save":
                return self._tried("", self.review.save, "?saved=1")
            if page == "undo":
                return self._tried("", self.review.undo)
            edit = _edit(page, form, self.review.schema)
            if edit is None:
                return self._message(404, "error.nothing")
            after = {"drop": "", "approve": "", "rename": _one(form, "new").strip()}.get(page, name)
            return self._tried(name, lambda: self.review.change(edit), after=after)

    def _tried(self, name: str, action: Callable[[], None], query: str = "", after: str | None = None) -> Response:
        """Apply the edit and return to the attribute or the overview; on failure, with the reason."""
        try:
            action()
        except CrosstallyError as error:
            if name in self.review.schema.names:
                return self._attribute(name, problem=str(error), status=422)
            return self._overview(problem=str(error), status=422)
        target = name if after is None else after
        where = f"/attribute?name={quote(target, safe='')}" if target in self.review.schema.names else f"/{query}"
        return RedirectResponse(self.session.path + where, status_code=303)

    def _end(self) -> Response:
        self.session.close()
        self._ended()
        return self._render("ended.html", saved=not self.review.changed, draft=self.review.schema.draft)

    def _render(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        return HTMLResponse(self._environment.get_template(template).render(**context), status_code=status)

    def _message(self, status: int, key: str, **names: object) -> Response:
        """A page for rejected or unknown requests: it reveals nothing about the review."""
        words = self._environment.get_template("message.html").render(
            title=text("refused.title"), words=text(key, **names)
        )
        return HTMLResponse(words, status_code=status)


def serve(review: Review, opened: socket.socket, show: Callable[[Path], None], session: Session | None = None) -> None:
    """Serve a review until it is ended or idle for half an hour.

    Args:
        review: The schema and the counts.
        opened: A socket that listens on loopback.
        show: Called with the file that admits, once the server can be reached.
        session: The session; usually a new one.
    """
    session = session or Session()
    address = f"http://127.0.0.1:{opened.getsockname()[1]}"
    over = threading.Event()
    running = server(create_app(review, session, address=address, ended=over.set))
    entrance = write_entrance(review.path.parent, address, session.code)
    watch = threading.Thread(target=_watch, args=(session, running, entrance, over), daemon=True)
    try:
        watch.start()
        show(entrance)  # the socket is already listening: early requests wait for the server
        running.run(sockets=[opened])
    finally:
        session.close()
        over.set()
        entrance.unlink(missing_ok=True)


def _watch(session: Session, running: Any, entrance: Path, over: threading.Event) -> None:
    """Remove the file once it was used, and stop the server when the review is over."""
    while not (over.wait(_LOOK_SECONDS) or session.ended):
        if session.entered:
            entrance.unlink(missing_ok=True)
    running.should_exit = True


# Forms


async def _form(request: Request) -> Form:
    """The fields of a form, each with all its values."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise Refused(413, "refused.size")
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body))
    except ValueError:  # not a form, or bytes that none has
        raise Refused(400, "refused.token") from None


def _one(form: Form, name: str) -> str:
    """The single value of a field; empty if there is none or more than one."""
    found = form.get(name, [])
    return found[0] if len(found) == 1 else ""


def _check_origin(request: Request, allowed: Sequence[str]) -> None:
    given = request.headers.getlist("origin")
    if len(given) != 1 or given[0] not in allowed:
        raise Refused(403, "refused.origin")


def _check_own_origin(request: Request, address: str) -> None:
    """Raise unless a form was sent by a page of this site.

    Under the policy no-referrer browsers write null for the origin of our own forms too (Fetch, 3.2: appending an
    Origin header), as they do for those of hidden pages. Sec-Fetch-Site, which no page can set, distinguishes
    the two.
    """
    is_own = request.headers.getlist("sec-fetch-site") == ["same-origin"]
    _check_origin(request, (address, "null") if is_own else (address,))


def _edit(page: str, form: Form, schema: Schema) -> Callable[[Schema], Schema] | None:
    """The edit of a form; None if its name is unknown."""
    name = _one(form, "name")
    if page == "approve":
        return edits.approve
    if page == "facts":
        return partial(edits.set_facts, facts=_one(form, "facts"))
    if page == "bound":
        return partial(edits.set_bound, max_rows=_one(form, "max_rows"), public=_one(form, "public") == "yes")
    if name not in schema.names:
        return None
    known: dict[str, Callable[[Schema], Schema]] = {
        "merge": partial(edits.merge, name=name, chosen=form.get("chosen", []), into=_one(form, "into")),
        "reorder": lambda given: edits.reorder(given, name, _order(form, given[name].values)),
        "cut": partial(
            edits.cut, name=name, edges=_one(form, "edges"), names=bin_names, public=_one(form, "public") == "yes"
        ),
        "origin": partial(edits.choose_origin, name=name, from_data=_one(form, "from") == "data"),
        "outside": partial(
            edits.set_outside, name=name, rule=_one(form, "rule"), missing=_one(form, "missing") == "yes"
        ),
        "periods": partial(
            edits.set_periods,
            name=name,
            days=_one(form, "days"),
            labels=_one(form, "labels"),
            public=_one(form, "public") == "yes",
        ),
        "describe": partial(
            edits.describe, name=name, description=_one(form, "description"), measured_in=_one(form, "measured_in")
        ),
        "rename": partial(edits.rename, name=name, new=_one(form, "new")),
        "drop": partial(edits.drop, name=name),
    }
    return known.get(page)


def _order(form: Form, values: Sequence[str]) -> list[str]:
    """The labels in the order of the typed positions; a label that moves up goes before the one there, else after."""
    places = form.get("place", [])
    if len(places) != len(values) or not all(re.fullmatch(r"[0-9]{1,6}", place.strip()) for place in places):
        raise SchemaError("places must be whole numbers, one for each label")
    typed = [(int(place), (i < int(place)) - (i > int(place)), i) for i, place in enumerate(places, 1)]
    return [values[i - 1] for _, _, i in sorted(typed)]


def _wanted(form: Form, before: Proposal) -> Proposal:
    ways = _one(form, "ways").strip()
    if ways and not re.fullmatch(r"[0-9]{1,3}", ways):
        raise SchemaError("tables must be over a whole number of attributes")
    budget = Budget(epsilon=_one(form, "epsilon").strip(), delta=before.budget.delta)
    return Proposal(budget, ways=int(ways) if ways else None, tables=() if ways else before.tables)
