"""What stands before every request: hosts, headers, traversal, errors without their text, limits of time and memory."""

import json

import pytest

import released
from crosstally.browser.common.site import is_loopback
from crosstally.browser.explorer.problems import MEDIA_TYPE
from crosstally.browser.explorer.solver import Cache
from crosstally.releases import Release
from web_clients import busy, client_of, serving

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
PATHS = {
    "/": 200,
    "/privacy": 200,
    "/table": 200,
    "/table?rows=sex": 200,
    "/table?rows=sx": 422,
    "/chart.svg?rows=sex": 200,
    "/chart.png?rows=sex": 200,
    "/download/csv?rows=sex": 200,
    "/download/doc?rows=sex": 422,
    "/static/site.css": 200,
    "/static/explorer.js": 200,
    "/static/icon.svg": 200,
    "/favicon.ico": 200,
    "/static/nothing.css": 404,
    "/nothing": 404,
    "/api/v2/config": 200,
    "/api/v2/openapi.json": 200,
    "/api/v2/tables": 200,
    "/api/v2/tables/people": 200,
    "/api/v2/tables/people/metadata": 200,
    "/api/v2/tables/people/data?valueCodes[sex]=*": 200,
    "/api/v2/tables/nobody/data": 404,
    "/api/v2/sql?statement=SELECT count(*) FROM people": 200,
    "/api/v2/sql": 422,
}


@pytest.fixture(scope="module")
def release() -> Release:
    return released.views()


def test_every_answer_has_the_policy_and_may_not_be_read_by_other_sites(release: Release) -> None:
    client = client_of(serving(release))
    for path, status in PATHS.items():
        answer = client.get(path, headers={"origin": "http://evil.example"})
        assert answer.status_code == status, path
        assert answer.headers["content-security-policy"] == POLICY
        assert "unsafe-" not in str(answer.headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
        assert "cache-control" in answer.headers
        if status >= 400:
            assert answer.headers["content-type"] == MEDIA_TYPE
            assert answer.json()["status"] == status
            assert answer.headers["cache-control"] == "no-store"


def test_methods_other_than_get_are_refused_with_a_problem(release: Release) -> None:
    answer = client_of(serving(release)).post("/table?rows=sex")
    assert (answer.status_code, answer.headers["content-type"]) == (405, MEDIA_TYPE)


GOOD_HOSTS = ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]", "[::1]:8000", "LOCALHOST"]
BAD_HOSTS = [
    "evil.example", "localhost.evil.example", "evil.example:8000", "localhost@evil.example", "127.0.0.1.evil.example",
    "localhost:8000:9", "localhost/..", "localhost#", "localhost, evil.example", "0.0.0.0", "[::1", "::1", "", " ",
    "127.0.0.2", "xn--lcalhost-54a", "localhost.", "[::ffff:127.0.0.1]", "local host", "localhost\t",
]  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/table?rows=sex", "/api/v2/tables", "/static/explorer.js"])
def test_other_hosts_get_nothing(release: Release, path: str) -> None:
    client = client_of(serving(release))
    for host in GOOD_HOSTS:
        assert client.get(path, headers={"host": host}).status_code == 200, host
    for host in BAD_HOSTS:
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 400, host
        assert "people" not in answer.text
        assert answer.headers["content-security-policy"] == POLICY


def test_a_host_that_is_allowed_is_answered(release: Release) -> None:
    client = client_of(serving(release), hosts=("tables.example.org",))
    assert client.get("/", headers={"host": "tables.example.org:443"}).status_code == 200
    assert client.get("/", headers={"host": "example.org"}).status_code == 400
    forwarded = client.get("/", headers={"host": "example.org", "x-forwarded-host": "tables.example.org"})
    assert forwarded.status_code == 400


def test_which_addresses_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", "example.org")))


ROADS = [
    "../pages.py", "..%2fpages.py", "%2e%2e/pages.py", "..%5cpages.py", "/etc/passwd", "%2fetc%2fpasswd", ".", "..",
    "explorer.js%00", "....//pages.py", "..%252fpages.py", "templates/base.html", "../templates/base.html", "%00", "~",
]  # fmt: skip


@pytest.mark.parametrize("start", ["/static/", "/download/", "/api/v2/tables/", "/", "/chart.svg/", "/templates/"])
def test_no_path_leads_to_a_file(release: Release, start: str) -> None:
    client = client_of(serving(release))
    for road in ROADS:
        answer = client.get(start + road)
        assert answer.status_code in (200, 404, 422), start + road
        assert "root:" not in answer.text
        assert "import annotations" not in answer.text
        assert "{% extends" not in answer.text
        if answer.status_code == 200:  # a path that the client itself made plain
            assert str(answer.url).rstrip("/") in ("http://localhost", "http://localhost/api/v2/tables")


def test_what_nobody_foresaw_has_an_id_and_not_its_text(
    release: Release, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object) -> None:
        raise ValueError("12345 people")

    monkeypatch.setattr("crosstally.browser.explorer.explorer_pages.grid", wrong)
    answer = client_of(serving(release)).get("/table?rows=sex")
    assert (answer.status_code, answer.headers["content-type"]) == (500, MEDIA_TYPE)
    assert answer.headers["content-security-policy"] == POLICY
    own = answer.json()["instance"].rsplit(":", 1)[1]
    log = capsys.readouterr().err
    assert own in log
    assert "ValueError in crosstally.browser.explorer.explorer_pages _laid" in log
    assert "12345" not in answer.text + log


def test_people_get_a_page_and_programs_a_problem(release: Release) -> None:
    page = client_of(serving(release), page=True)
    assert "<h1>This cannot be shown</h1>" in page.get("/table?rows=sx").text
    assert page.get("/api/v2/tables/people/data?valueCodes[sx]=*").headers["content-type"] == MEDIA_TYPE


def test_a_root_path_stands_before_every_link(release: Release) -> None:
    client = client_of(serving(release, root_path="/stats"))
    for path in ("/", "/table?rows=sex", "/privacy"):
        text = client.get(path).text
        links = [
            part.split('"')[0] for mark in ('href="', 'src="', 'action="', 'srcset="') for part in text.split(mark)[1:]
        ]
        assert [link for link in links if not link.startswith(("/stats/", "#"))] == []
    assert "/stats/api/v2/tables/people/data" in client.get("/api/v2/tables").text
    assert client.get("/stats/table?rows=sex").status_code == 200


# Time and memory


def test_what_takes_too_long_is_to_be_asked_again(release: Release) -> None:
    answer = client_of(busy(release)).get("/api/v2/tables/people/data?valueCodes[sex]=*")
    assert (answer.status_code, answer.headers["content-type"]) == (503, MEDIA_TYPE)
    assert int(answer.headers["retry-after"]) > 0
    page = client_of(busy(release), page=True).get("/table?rows=sex")
    assert (page.status_code, "retry-after" in page.headers) == (503, True)


def test_too_many_requests_at_once_are_to_be_asked_again(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(serving(release))
    assert client.get("/api/v2/tables").status_code == 200
    monkeypatch.setattr("crosstally.browser.common.site.MOST_REQUESTS", 0)
    answer = client.get("/api/v2/tables")
    assert (answer.status_code, answer.headers["content-type"]) == (503, MEDIA_TYPE)
    assert (answer.headers["content-security-policy"], int(answer.headers["retry-after"])) == (POLICY, 5)


def test_the_cache_throws_away_what_was_not_used_for_longest() -> None:
    cache = Cache(limit=80)
    for name in "abcdefgh":
        cache.put(name, name.upper(), 10)
    assert cache.get("a") == "A"
    cache.put("i", "I", 10)
    assert (cache.get("a"), cache.get("b"), cache.get("i"), cache.bytes) == ("A", None, "I", 80)
    cache.put("large", "L", 11)  # more than an eighth is not kept
    assert (cache.get("large"), cache.bytes) == (None, 80)
    cache.put("i", "J", 5)
    assert (cache.get("i"), cache.bytes) == ("J", 75)


def test_problems_are_json(release: Release) -> None:
    found = json.loads(client_of(serving(release)).get("/nothing").text)
    assert set(found) == {"type", "title", "status", "detail", "instance"}
