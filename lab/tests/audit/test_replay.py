"""Part four of the audit: runs on neighbours with recorded noisy answers; planted violations are found."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import crosstally as ct
from crosstally import pipeline, releases
from crosstally.budget import Budget, Neighbours
from crosstally.errors import SourceError
from crosstally.sources import counts
from crosstally.strategies import look, rules, wide_schemas
from crosstally_lab.audit.replay import (
    PEOPLE,
    SOURCES,
    STRICT,
    DifferentError,
    Rows,
    audit_replay,
    pairs_of,
    released,
    replay_finding,
    replayed_loss,
    subjects,
)

EPSILON = Budget(epsilon=1)
FLAT = released(SOURCES["an Arrow table"], STRICT["rows"], EPSILON, strategy="flat")
DIRECT = released(SOURCES["an Arrow table"], STRICT["rows"], EPSILON, strategy="direct")


def some_subjects() -> list[str]:
    """Every strategy once, every source, questions and the collector; ``crosstally audit`` runs all of them."""
    known = subjects()
    by_strategy = {subject.rsplit(", ", 3)[0]: subject for subject in known if subject.endswith(("remove", "replace"))}
    return [*by_strategy.values(), *(subject for subject in known if not subject.endswith(("remove", "replace")))]


@pytest.mark.parametrize("subject", some_subjects())
def test_what_is_published_follows_from_the_noisy_answers_alone(subject: str) -> None:
    found = audit_replay(subject, 1)
    assert (found.broken, found.holds) == ("", True)
    assert found.exact > 0 or subject.startswith("uniform")  # the neighbour did reach the mechanism


def test_every_strategy_source_and_door_is_among_the_subjects() -> None:
    found = " ".join(subjects())
    assert all(name in found for name in (*ct.strategies.NAMED, *SOURCES, "parts", "questions", "a collector", "auto"))
    assert len(subjects()) > 200


@pytest.mark.parametrize("budget", [EPSILON, Budget(rho=1)], ids=str)
@pytest.mark.parametrize("of", STRICT)
@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_a_look_is_replayed(budget: Budget, of: str, relation: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two attributes are made a wide schema, whose one pair is looked at even among five people."""
    monkeypatch.setattr(wide_schemas, "MOST_CELLS", 1)
    monkeypatch.setattr(look, "_FOUND", 10.0**9)
    run = released(SOURCES["an Arrow table"], STRICT[of], budget, strategy="two-stage", neighbours=relation)
    looked, stages = [], rules.next_stage

    def seen(*given: Any) -> Any:
        stage = stages(*given)
        looked.extend(request.query.is_choice for request in stage.requests)
        return stage

    monkeypatch.setattr(pipeline, "next_stage", seen)
    losses = [replayed_loss(run, each.first, each.second) for each in pairs_of(STRICT[of], relation)]
    assert looked.count(True) == 2 * len(losses)  # recorded, and replayed
    assert 0 < max(losses) <= 1


def test_every_kind_of_neighbour_of_a_small_release() -> None:
    """By hand: a row moves one of six cells by 1 at scale 1 (epsilon 1); replaced, two cells at scale 2."""
    for relation in Neighbours:
        run = released(SOURCES["an Arrow table"], STRICT["rows"], EPSILON, strategy="flat", neighbours=relation)
        found = replay_finding("flat", run, pairs_of(STRICT["rows"], relation))
        assert (found.holds, found.exact, found.broken) == (True, 1.0, "")
        assert found.cases in (6, 10)


# Planted violations


def broken_by(run: Callable[..., Any], first: Rows = PEOPLE, second: Rows = (*PEOPLE, (6, "M", 64))) -> str:
    with pytest.raises(DifferentError) as found:
        replayed_loss(run, first, second)
    return str(found.value)


def test_a_threshold_on_the_true_count_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that there are few rows, decided by the exact number of them."""
    own = pipeline._measured

    def with_a_note(rows: Any, plan: Any, *others: Any) -> Any:
        if sum(table.counts.sum() for table in rows.count(plan)[:1]) < 6:
            warnings.warn("few rows: read with care", stacklevel=2)
        return own(rows, plan, *others)

    monkeypatch.setattr(pipeline, "_measured", with_a_note)
    assert broken_by(FLAT) == "warnings is not the same for neighbours"


def test_an_order_that_depends_on_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same measurements in the order of the exact counts."""
    seen: list[int] = []
    own_count, own_publish = pipeline._Rows.count, releases.publish

    def counted(rows: Any, plan: Any) -> Any:
        found = own_count(rows, plan)
        seen[:] = [int(table.counts.ravel()[-1]) for table in found]
        return found

    def in_order(schema: Any, measured: Sequence[Any], promise: Any) -> Any:
        return own_publish(schema, measured if sum(seen) % 2 else measured[::-1], promise)

    monkeypatch.setattr(pipeline._Rows, "count", counted)
    monkeypatch.setattr(pipeline, "publish", in_order)
    second = (*PEOPLE, (6, "M", 64))
    assert "is not the same for neighbours" in broken_by(DIRECT, PEOPLE, second)


def test_an_error_that_quotes_a_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    own = pipeline._Rows.count

    def counted(rows: Any, plan: Any) -> Any:
        found = own(rows, plan)
        if found[0].counts.ravel()[-1]:
            raise SourceError("the oldest man in the table is 64")
        return found

    monkeypatch.setattr(pipeline._Rows, "count", counted)
    assert broken_by(FLAT, PEOPLE, (*PEOPLE, (6, "M", 70))) == "a stage was not measured"
    assert broken_by(FLAT, (*PEOPLE, (6, "M", 70)), PEOPLE) == "one more stage was measured"


def test_a_row_that_counts_twice_costs_more_than_was_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    own = counts.Tally.tables

    def doubled(tally: Any) -> Any:
        return tuple(replace(table, counts=2 * table.counts) for table in own(tally))

    monkeypatch.setattr(counts.Tally, "tables", doubled)
    assert replayed_loss(FLAT, PEOPLE, (*PEOPLE, (6, "M", 64))) == Fraction(2)
    assert not replay_finding("flat", FLAT, pairs_of(STRICT["rows"], Neighbours.ADD_REMOVE)[:1]).holds


def test_a_stage_that_looks_at_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for the second stage that depends on the exact number of rows."""
    seen: list[int] = []
    own_count, own_next = pipeline._Rows.count, rules.next_stage

    def counted(rows: Any, plan: Any) -> Any:
        found = own_count(rows, plan)
        seen.append(int(found[0].counts.sum()))
        return found

    monkeypatch.setattr(pipeline._Rows, "count", counted)
    monkeypatch.setattr(pipeline, "next_stage", lambda stage, known: own_next(stage, known) if seen[-1] < 6 else None)
    run = released(SOURCES["an Arrow table"], STRICT["rows"], EPSILON)
    assert broken_by(run) == "a stage was not measured"
