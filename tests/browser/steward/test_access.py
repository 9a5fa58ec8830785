"""Who reaches the review: a second user of the machine, a page that rebinds its name, another site, a used code."""

import stat
import threading
from pathlib import Path

import pytest

from crosstally.browser.common.site_server import listen
from crosstally.browser.steward.review import COOKIE, IDLE_SECONDS, Review, Session, write_entrance
from crosstally.browser.steward.review_pages import serve
from reviewing import ADDRESS, OWN, client_of, entered, form, reviewed

SECRETS = ("divers", "Emden", "people.schema", "männlich", "token")
PAGES = ("/", "/attribute?name=sex", "/static/site.css", "/static/review.css")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


@pytest.fixture
def review(tmp_path: Path) -> Review:
    return reviewed(tmp_path)


def test_the_one_who_entered_sees_it_and_nothing_is_kept(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    for page in PAGES:
        answer = client.get(session.path + page)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in answer.text
        assert "style=" not in answer.text
    assert "divers" in client.get(f"{session.path}/").text


def test_a_second_user_of_the_machine_gets_nothing(review: Review) -> None:
    """They reach the port, and may even have seen the path: without the cookie there is no word of the review."""
    session = Session()
    entered(review, session)
    other = client_of(review, session)
    for cookies in ({}, {COOKIE: ""}, {COOKIE: session.code}, {COOKIE: session.form_token}, {COOKIE: "ä"}):
        for page in ("/", "/favicon.ico", *(session.path + page for page in PAGES)):
            answer = other.get(page, headers=_cookie(cookies))
            assert answer.status_code == (204 if page == "/favicon.ico" else 403)
            assert not [secret for secret in (*SECRETS, session.path) if secret in answer.text]
        for page in ("drop", "save", "end"):
            fields = form(review, session, name="sex")
            answer = other.post(f"{session.path}/{page}", data=fields, headers={**OWN, **_cookie(cookies)})
            assert answer.status_code == 403
    assert not session.ended
    assert review.schema.names == ("sex", "age", "town")


def _cookie(cookies: dict[str, str]) -> dict[str, bytes]:
    return {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()).encode()} if cookies else {}


def test_the_file_that_lets_in_is_its_owners_alone(tmp_path: Path) -> None:
    path = write_entrance(tmp_path, ADDRESS, "the-code")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text(encoding="utf-8")
    assert text.count("the-code") == 1
    assert f'action="{ADDRESS}/enter"' in text
    assert "unsafe-" not in text
    assert "the-code" not in path.name


@pytest.mark.parametrize("origin", ["null", ADDRESS])
def test_the_code_lets_in_once(review: Review, origin: str) -> None:
    session = Session()
    client = client_of(review, session)
    first = client.post("/enter", data={"code": session.code}, headers={"origin": origin})
    assert first.status_code == 200
    given = first.headers["set-cookie"]
    assert given.startswith(f"{COOKIE}=")
    for part in ("HttpOnly", "SameSite=strict", f"Path={session.path}/"):
        assert part in given
    assert "Domain" not in given
    again = client_of(review, session).post("/enter", data={"code": session.code}, headers={"origin": origin})
    assert (again.status_code, "set-cookie" in again.headers) == (403, False)
    assert session.path not in again.text


def test_wrong_codes_and_methods_do_not_let_in(review: Review) -> None:
    session = Session()
    client = client_of(review, session)
    for code in ("", "x", session.code[:-1], session.code + "x", session.form_token, "ä"):
        assert client.post("/enter", data={"code": code}, headers=OWN).status_code == 403
    assert client.post("/enter", data={"code": [session.code] * 2}, headers=OWN).status_code == 403
    assert client.get("/enter", params={"code": session.code}).status_code in (403, 405)
    assert client.post("/enter", content=b"\xff=1", headers=OWN).status_code == 400
    evil = client.post("/enter", data={"code": session.code}, headers={"origin": "http://evil.example"})
    assert evil.status_code == 403
    assert client.post("/enter", data={"code": session.code}, headers=OWN).status_code == 200  # it was not used up


HOSTS = ["evil.example", "evil.example:8123", "localhost:8123", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8123 ", "",
         "127.0.0.1:8123.evil.example", "[::1]:8123", "127.0.0.2:8123", "0.0.0.0:8123", "127.0.0.1:08123"]  # fmt: skip


def test_a_page_that_rebinds_its_name_gets_nothing(review: Review) -> None:
    """With DNS rebinding the browser talks to this port, but names the other page's host."""
    session = Session()
    client = entered(review, session)
    for host in HOSTS:
        got = client.get(f"{session.path}/", headers={"host": host})
        posted = client.post(f"{session.path}/end", data=form(review, session), headers={**OWN, "host": host})
        code = client.post("/enter", data={"code": "x"}, headers={"origin": "null", "host": host})
        for answer in (got, posted, code):
            assert answer.status_code == 400, host
            assert not [secret for secret in SECRETS if secret in answer.text]
    assert not session.ended


FOREIGN = [
    {},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "null", "sec-fetch-site": "cross-site"},
    {"origin": "null", "sec-fetch-site": "same-site"},
    {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"},
    {"origin": "http://localhost:8123"},
    {"origin": "https://127.0.0.1:8123"},
    {"origin": f"{ADDRESS}, http://evil.example"},
    {"origin": f"{ADDRESS}/"},
    {"origin": "", "referer": f"{ADDRESS}/"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_form_of_another_site_changes_nothing(review: Review, headers: dict[str, str]) -> None:
    """Even with the cookie, which browsers do not send, and with the token, which others do not know."""
    session = Session()
    answer = entered(review, session).post(
        f"{session.path}/drop", data=form(review, session, name="sex"), headers=headers
    )
    assert (answer.status_code, review.version) == (403, 0)


@pytest.mark.parametrize("headers", [OWN, {"origin": "null", "sec-fetch-site": "same-origin"}], ids=str)
def test_a_form_needs_our_token(review: Review, headers: dict[str, str]) -> None:
    session = Session()
    client = entered(review, session)
    for token in ("", "x", session.code):
        fields = {**form(review, session, name="sex"), "token": token}
        assert client.post(f"{session.path}/drop", data=fields, headers=headers).status_code == 403
    without = {"version": "0", "name": "sex"}
    assert client.post(f"{session.path}/drop", data=without, headers=headers).status_code == 403
    assert review.version == 0
    right = client.post(f"{session.path}/drop", data=form(review, session, name="sex"), headers=headers)
    assert (right.status_code, right.headers["location"]) == (303, f"{session.path}/")
    assert review.schema.names == ("age", "town")


def test_changes_come_by_post_alone_and_forms_have_a_limit(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    client = entered(review, session)
    assert client.get(f"{session.path}/drop", params=form(review, session, name="sex")).status_code == 404
    assert client.post(f"{session.path}/nothing", data=form(review, session), headers=OWN).status_code == 404
    monkeypatch.setattr("crosstally.browser.steward.review_pages._MOST_BYTES", 100)
    large = form(review, session, name="sex", into="x" * 100)
    assert client.post(f"{session.path}/merge", data=large, headers=OWN).status_code == 413
    assert review.version == 0


def test_it_ends_after_thirty_idle_minutes(review: Review) -> None:
    now = 0.0
    session = Session(clock=lambda: now)
    client = entered(review, session)
    assert IDLE_SECONDS == 1_800
    now = 1_799.0
    assert client.get(f"{session.path}/").status_code == 200  # a sign of life
    now = 2 * 1_799.0
    assert client_of(review, session).get(f"{session.path}/").status_code == 403  # a stranger's is none
    assert not session.ended
    now = 1_799.0 + 1_800.0
    assert session.ended
    assert client.get(f"{session.path}/").status_code == 403
    unused = Session(clock=lambda: now)
    now += 1_800.0
    assert unused.enter(unused.code) is None


def test_the_server_ends_by_itself_and_takes_its_file_away(review: Review) -> None:
    now, entrances = 0.0, []
    session = Session(clock=lambda: now)
    with listen("127.0.0.1", 0) as socket:
        thread = threading.Thread(target=serve, args=(review, socket, entrances.append, session))
        thread.start()
        thread.join(1.5)
        assert (thread.is_alive(), entrances[0].exists()) == (True, True)
        now = IDLE_SECONDS
        thread.join(10)
    assert (thread.is_alive(), entrances[0].exists()) == (False, False)


def test_what_nobody_foresaw_has_no_words(
    review: Review, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object) -> None:
        raise ValueError("divers 8")

    monkeypatch.setattr("crosstally.browser.steward.cards.card", wrong)
    session = Session()
    answer = entered(review, session).get(f"{session.path}/")
    log = capsys.readouterr().err
    assert answer.status_code == 500
    assert "ValueError in crosstally.browser.steward.review_pages " in log
    assert "divers" not in answer.text + log
