"""What the pages of a review show and do: distributions, edits, the error to expect, saving."""

import os
import re
import stat
from functools import partial
from pathlib import Path

import pytest

from crosstally.browser.steward import edits
from crosstally.browser.steward.review import Review, Session
from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Schema
from crosstally.sources.inspection import read_distributions
from crosstally.strategies.planner import Proposal
from reviewing import OWN, SCHEMA, entered, form, reviewed
from web_clients import HOSTILE


@pytest.fixture
def review(tmp_path: Path) -> Review:
    return reviewed(tmp_path)


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_overview_counts_and_flags(review: Review) -> None:
    session = Session()
    page = words(entered(review, session).get(f"{session.path}/").text)
    assert "Confidential: exact numbers about real people" in page
    assert "3 attributes, 12 rows read" in page
    assert "divers ⚠ few people 8.3% 1" in page
    assert "⚠ 1 rows have values that are not in the schema" in page
    assert "Tables over one attribute" in page


def test_an_edit_changes_the_page_and_the_error(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    fields = form(review, session, name="sex", chosen=["w", "weiblich"], into="weiblich")
    answer = client.post(f"{session.path}/merge", data=fields, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{session.path}/attribute?name=sex")
    page = words(client.get(answer.headers["location"]).text)
    assert "weiblich ⚠ few people 5 41.7% w , W" in page
    assert re.search(r"Tables over two attributes .* 1\.\d+ times smaller", page)
    stale = {**form(review, session, name="sex"), "version": "0"}
    assert client.post(f"{session.path}/drop", data=stale, headers=OWN).status_code == 409
    client.post(f"{session.path}/undo", data=form(review, session), headers=OWN)
    assert review.schema.file_text() == Schema.load(review.path).file_text()
    assert not review.changed


def test_places_that_are_typed_make_an_order(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    for places, expected in (
        (["1", "2", "1"], ("Kiel", "Bonn", "Emden")),
        (["3", "2", "3"], ("Emden", "Kiel", "Bonn")),
    ):
        client.post(f"{session.path}/reorder", data=form(review, session, name="town", place=places), headers=OWN)
        assert review.schema["town"].values == expected
        review.undo()
    wrong = client.post(f"{session.path}/reorder", data=form(review, session, name="town", place=["1"]), headers=OWN)
    assert wrong.status_code == 422
    assert "places must be whole numbers" in wrong.text


def test_a_mistake_is_said_where_it_was_made(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    wrong = client.post(f"{session.path}/cut", data=form(review, session, name="age", edges="5 4"), headers=OWN)
    assert (wrong.status_code, "edges must increase" in wrong.text, review.version) == (422, True, 0)
    assert "<h1><bdi>age</bdi></h1>" in wrong.text


def test_another_budget_gives_another_error(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    before = review.outlook(review.schema)[0][0].error
    data = form(review, session, epsilon="2", ways="1")
    assert client.post(f"{session.path}/want", data=data, headers=OWN).status_code == 303
    after = review.outlook(review.schema)[0]
    assert [each.order for each in after] == [1]
    assert after[0].error < before
    for wrong in ({"epsilon": "-1"}, {"epsilon": "x"}, {"epsilon": "1", "ways": "9"}, {"epsilon": "1", "ways": "a"}):
        answer = client.post(f"{session.path}/want", data={**form(review, session), **wrong}, headers=OWN)
        assert answer.status_code in (303, 422)
    assert "No error can be predicted" in client.get(f"{session.path}/").text or review.wanted.ways == 1


def test_a_save_is_whole_keeps_the_file_before_and_is_its_owners_alone(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    review.change(edits.approve)
    answer = client.post(f"{session.path}/save", data=form(review, session), headers=OWN)
    assert answer.headers["location"] == f"{session.path}/?saved=1"
    assert "kept as people.schema.json.previous" in client.get(answer.headers["location"]).text
    previous = review.path.with_name("people.schema.json.previous")
    assert previous.read_text(encoding="utf-8") == SCHEMA
    assert Schema.load(review.path).draft is False
    assert [stat.S_IMODE(path.stat().st_mode) for path in (review.path, previous)] == [0o600, 0o600]
    assert sorted(path.name for path in review.path.parent.iterdir()) == [
        "people.csv",
        "people.schema.json",
        "people.schema.json.previous",
    ]
    review.change(lambda schema: edits.drop(schema, "town"))
    review.save()  # again, over its own
    assert Schema.load(previous).names == ("sex", "age", "town")


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_file_that_changed_on_disk_is_left_alone(review: Review, change: str) -> None:
    if change == "edited":
        review.path.write_text(SCHEMA.replace("Emden", "Essen"), encoding="utf-8")
    else:
        review.path.unlink()
    session = Session()
    review.change(edits.approve)
    answer = entered(review, session).post(f"{session.path}/save", data=form(review, session), headers=OWN)
    assert (answer.status_code, "has changed on disk" in answer.text) == (422, True)
    assert review.path.exists() is (change == "edited")
    assert change == "deleted" or "Essen" in review.path.read_text(encoding="utf-8")
    assert not review.path.with_name("people.schema.json.previous").exists()


def test_a_save_that_breaks_off_leaves_the_file(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    review.change(edits.approve)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CrosstallyError, match="No space left"):
        review.save()
    assert review.path.read_text(encoding="utf-8") == SCHEMA
    assert [path.name for path in review.path.parent.iterdir() if path.name.startswith(".")] == []


def test_the_end_lets_nobody_in_any_more(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    page = client.post(f"{session.path}/end", data=form(review, session), headers=OWN)
    assert "All changes are saved in people.schema.json" in page.text
    assert client.get(f"{session.path}/").status_code == 403


def test_hostile_labels_are_inert(review: Review) -> None:
    session = Session()
    client = entered(review, session)
    for number, label in enumerate(HOSTILE):
        review.change(partial(edits.merge, name="town", chosen=[f"x{number}"], into=label))
    for path in ("/", "/attribute?name=town"):
        page = client.get(session.path + path).text
        assert not re.search(r"<(script|img|i)\b", page)
        assert "onerror=alert" not in re.sub(r'value="[^"]*"|aria-label="[^"]*"|<bdi>[^<]*</bdi>', "", page)


def test_a_wide_schema_is_planned_when_that_is_asked_for(tmp_path: Path) -> None:
    names = [f"a{i}" for i in range(31)]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(names), ",".join("x" * 31)]) + "\n")
    schema = Schema([Attribute(name, ["x", "y"]) for name in names])
    schema.save(tmp_path / "wide.schema.json")
    counted = read_distributions(tmp_path / "rows.csv", schema)
    review, session = Review(tmp_path / "wide.schema.json", counted, Proposal(Budget(epsilon=1))), Session()
    client = entered(review, session)
    assert "press Predict" in client.get(f"{session.path}/").text
    client.post(f"{session.path}/want", data=form(review, session, epsilon="1", ways="1"), headers=OWN)
    assert "Tables over one attribute" in client.get(f"{session.path}/").text


def test_bounds_are_shown_with_their_losses_and_one_is_chosen(tmp_path: Path) -> None:
    """Three people of one, two and six rows: 1, 2, 3 and 5 rows of each leave out 6, 4, 3 and 1 of nine."""
    rows, path = tmp_path / "visits.csv", tmp_path / "visits.schema.json"
    rows.write_text("id,sex\np,w\nq,m\nq,m\n" + "r,w\n" * 6, encoding="utf-8")
    about = {"rows": "visits", "units": "people"}
    unit = {"id": "id", "max_rows": 2}
    given = {"attributes": [{"name": "sex", "values": ["m", "w"]}], "about": about, "unit": unit}
    Schema.from_dict(given).save(path)
    review, session = (
        Review(path, read_distributions(rows, Schema.load(path)), Proposal(Budget(epsilon=1))),
        Session(),
    )
    client = entered(review, session)
    page = words(client.get(f"{session.path}/").text)
    assert "Counted: visits, at most 2 of each person" in page
    for line in ("1 3 6 (66.7%)", "2 5 4 (44.4%)", "3 6 3 (33.3%)", "5 8 1 (11.1%)", "10 9 0 (0.0%)"):
        assert line in page
    noise = [float(each) for each in re.findall(r"%\) ± ([0-9.]+)", page)]
    assert noise[2] == pytest.approx(3 * noise[0], rel=0.02)
    for public, mark in (({}, {"from": "data"}), ({"public": "yes"}, {})):
        client.post(f"{session.path}/bound", data=form(review, session, max_rows="3", **public), headers=OWN)
        assert review.schema.to_dict()["unit"] == {"id": "id", "max_rows": 3, **mark}
        review.undo()
    wrong = client.post(f"{session.path}/bound", data=form(review, session, max_rows="many"), headers=OWN)
    assert (wrong.status_code, "a bound must be a whole number" in wrong.text) == (422, True)
