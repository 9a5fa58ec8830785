"""What schemathesis makes of the API's own description: whatever it sends, no answer is an error of the server.

It sends what the description allows and what it does not. Examples are the same each time; ``make verify`` sends many
more.
"""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

import released
from crosstally.web.app import create_app
from crosstally.web.problems import MEDIA_TYPE
from web_clients import serving

HOST = "testserver"  # what schemathesis calls every application
APP = create_app(serving(released.views()), hosts=(HOST,))
DESCRIBED = schemathesis.openapi.from_asgi("/api/v2/openapi.json", APP)
QUIET = list(HealthCheck)


def check(case: schemathesis.Case) -> None:
    """No error of the server, and every other error a problem document."""
    answer = case.call()
    assert answer.status_code < 500, case.as_curl_command()
    if answer.status_code >= 400 and case.method.upper() != "HEAD":
        assert answer.headers["content-type"] == [MEDIA_TYPE], case.as_curl_command()


@DESCRIBED.parametrize()
@settings(max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=QUIET)
def test_no_request_is_an_error_of_the_server(case: schemathesis.Case) -> None:
    check(case)


@pytest.mark.verify
@DESCRIBED.parametrize()
@settings(max_examples=1_500, derandomize=True, deadline=None, database=None, suppress_health_check=QUIET)
def test_none_of_thousands_is_either(case: schemathesis.Case) -> None:
    check(case)
