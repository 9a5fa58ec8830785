"""Errors as problem documents (RFC 9457), and as pages for people."""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from crosstally.browser.common.site import texts_of

text = texts_of("explorer")

MEDIA_TYPE = "application/problem+json"


class HttpProblem(Exception):  # noqa: N818 - the word of RFC 9457
    """What a client gets instead of an answer.

    ``detail`` is about what was asked and holds nothing else; further members of the document are given by name.
    """

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.members, self.retry_after = status, detail, members, retry_after
        self.own = secrets.token_hex(6)

    @property
    def title(self) -> str:
        """What the status is called."""
        return HTTPStatus(self.status).phrase

    @property
    def headers(self) -> dict[str, str]:
        """What stands beside it."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

    def document(self) -> dict[str, Any]:
        """The members of the problem document."""
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": f"urn:crosstally:error:{self.own}",
            **self.members,
        }


def unforeseen(own: str) -> HttpProblem:
    """An error that nobody foresaw: its id, and not a word about it."""
    problem = HttpProblem(500, text("error.unforeseen"))
    problem.own = own
    return problem


def problem_response(problem: HttpProblem) -> Response:
    """The document as an answer."""
    text = json.dumps(problem.document(), ensure_ascii=False)
    return Response(text, status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers)
