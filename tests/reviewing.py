"""A schema under review, for tests: twelve rows of a small messy table, and clients of its pages without a socket."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from crosstally.browser.steward.review import COOKIE, Review, Session
from crosstally.browser.steward.review_pages import create_app
from crosstally.budget import Budget
from crosstally.schema import Schema
from crosstally.sources.inspection import read_distributions
from crosstally.strategies.planner import Proposal

ADDRESS = "http://127.0.0.1:8123"

ROWS = """sex;age;town
w;17;Bonn
W;25;Bonn
weiblich;33;Kiel
weiblich;41;Kiel
m;52;Emden
m;18;Bonn
männlich;64;Bonn
männlich;66;Kiel
n/a;70;Kiel
w;31;Köln
m;;Bonn
divers;99;Bonn
"""

SCHEMA = """{
  "crosstally-schema": 1,
  "draft": true,
  "attributes": [
    {"name": "sex", "values": ["divers", "m", "männlich", "w", "weiblich"], "missing": true},
    {"name": "age", "edges": [0, 18, 65, 120], "bins": ["0-17", "18-64", "65+"], "missing": true},
    {"name": "town", "values": ["Bonn", "Emden", "Kiel"]}
  ],
  "reading": {
    "file": {"delimiter": ";"},
    "columns": {
      "sex": {"groups": {"w": ["W"]}, "missing": ["n/a"]}
    }
  }
}
"""


def files(folder: Path) -> tuple[Path, Path]:
    """The table and its schema."""
    rows, schema = folder / "people.csv", folder / "people.schema.json"
    rows.write_text(ROWS, encoding="utf-8")
    schema.write_text(SCHEMA, encoding="utf-8")
    return rows, schema


def reviewed(folder: Path) -> Review:
    rows, path = files(folder)
    return Review(path, read_distributions(rows, Schema.load(path)), Proposal(Budget(epsilon=1)))


def client_of(review: Review, session: Session) -> TestClient:
    """A client that asks the right host and has no cookie yet."""
    app = create_app(review, session, address=ADDRESS, ended=lambda: None)
    return TestClient(app, base_url=ADDRESS, follow_redirects=False)


def entered(review: Review, session: Session) -> TestClient:
    """A client that was let in."""
    client = client_of(review, session)
    client.cookies.set(COOKIE, session.enter(session.code) or "", domain="127.0.0.1", path=f"{session.path}/")
    return client


def form(review: Review, session: Session, **fields: object) -> dict[str, object]:
    """The fields of one of our own forms."""
    return {"token": session.form_token, "version": str(review.version), **fields}


OWN = {"origin": ADDRESS}
