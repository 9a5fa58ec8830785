"""The application: pages and API of one release behind the guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response

from crosstally.browser.common.site import Guard, Message, named_hosts, texts_of
from crosstally.browser.explorer import api
from crosstally.browser.explorer.explorer_pages import Pages
from crosstally.browser.explorer.problems import HttpProblem, problem_response, unforeseen
from crosstally.browser.explorer.served import Served, problem_of
from crosstally.errors import CrosstallyError
from crosstally.releases.statement import installed_versions

text = texts_of("explorer")


def create_app(served: Served, *, hosts: Iterable[str] = ()) -> FastAPI:
    """Pages and API of a release.

    Args:
        served: The release.
        hosts: Names under which it is answered, beside those of loopback.
    """
    app = FastAPI(
        title="crosstally",
        version=installed_versions()["crosstally"],
        docs_url=None,  # they would load scripts from another host
        redoc_url=None,
        openapi_url=None,
    )
    pages = Pages(served)
    app.include_router(pages.router())
    app.include_router(api.router(served))

    def told(problem: HttpProblem, scope: Any) -> Response:
        return pages.problem(problem) if _wants_page(scope) else problem_response(problem)

    for kind in (HttpProblem, CrosstallyError, HTTPException):
        app.add_exception_handler(kind, lambda request, error: told(problem_of(error), request.scope))

    @app.get(f"{api.PREFIX}/openapi.json", include_in_schema=False, response_model=None)
    def openapi() -> Response:
        return Response(api.document(served, app.openapi()), media_type="application/json")

    def refuse(status: int, own: str, scope: Message) -> Any:
        known = {400: HttpProblem(400, text("error.host")), 503: served.busy()}
        return told(known.get(status) or unforeseen(own), scope)

    app.add_middleware(Guard, allows=named_hosts(hosts), refuse=refuse, root_path=served.root_path)
    return app


def _wants_page(scope: Any) -> bool:
    """Whether a person asked: not below the API, and from a program that shows pages."""
    accepted = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    return b"text/html" in accepted and f"{api.PREFIX}/" not in scope["path"]
