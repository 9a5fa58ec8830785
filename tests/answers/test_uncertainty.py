"""One uncertainty under every answer: what becomes of each kind when cells are picked, added up and computed with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from crosstally.answers.changes import Change, added, scaled, statistic, taken
from crosstally.answers.joint_draws import Joint
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Bounds, Draws, LinearLaw, Spread
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.releases import Release, Statement, publish
from simulated import measured, people, schema_of

SIZES, VIEWS = (2, 3, 2, 2), [(0, 1), (1, 2), (0, 2), (3,)]
STATEMENT = Statement(strategy="test", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
KINDS = {
    "linear law": ("none", ("a0", "a1"), LinearLaw),
    "draws of a covered table": ("shrunk", ("a0", "a1"), Draws),
    "draws of an unmeasured table": ("shrunk", ("a0", "a1", "a2"), Draws),
    "draws of a pair left out": ("shrunk", ("a0", "a3"), Draws),
    "bounds": ("shrunk", ("a0", "a3"), Bounds),
}


def released(nonnegative: str) -> Release:
    rng = np.random.default_rng(3)
    views = measured(rng, people(rng, SIZES, 1_000, 1.5), VIEWS, Noise(NoiseKind.LAPLACE, 4.0))
    return publish(schema_of(*SIZES), views, STATEMENT, nonnegative=nonnegative)


def answered(kind: str) -> Marginal:
    way, names, found = KINDS[kind]
    table = released(way).marginal(*names, method="bounds" if found is Bounds else None)
    assert isinstance(table.uncertainty, found)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_a_picked_cell_is_as_sure_as_it_is_in_its_table(kind: str) -> None:
    table = answered(kind)
    low, high = table.interval(0.9)
    part = table.sel({table.attributes[-1]: ["1", "0"]})
    assert type(part.uncertainty) is type(table.uncertainty)
    assert part.error_kind is table.error_kind
    np.testing.assert_array_equal(part.interval(0.9), np.stack([low, high])[..., [1, 0]])
    np.testing.assert_array_equal(part.std_error, table.std_error[..., [1, 0]])
    np.testing.assert_array_equal(part["1"].interval(0.9)[0], low[1][..., [1, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_drawn_before_an_interval_is_asked_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("drawn")

    way, names, _ = KINDS[kind]
    release = released(way)
    monkeypatch.setattr(Release, "_bootstrap", refuse)
    monkeypatch.setattr("crosstally.answers.answer.normal_draws", refuse)
    figures = [release.marginal(*names), release.marginal(*names, where="a2 = 0"), release.marginal(*names).shares()]
    if kind == "linear law":
        assert figures[0].interval()[1].min() > 0  # its own law is known without a draw
        figures = figures[2:]
    for figure in figures:
        with pytest.raises(AssertionError, match="drawn"):
            figure.interval()


def test_a_linear_function_of_a_linear_law_has_one_and_any_other_has_draws() -> None:
    """Twice a cell errs twice as much; a square has the error of its draws."""
    table = answered("linear law")
    twice, square = 2 * table, table.statistic(lambda stack: (stack**2).sum(axis=(1, 2)), "square")
    assert isinstance(twice.uncertainty, LinearLaw)
    np.testing.assert_allclose(twice.std_error, 2 * table.std_error)
    assert isinstance(square.uncertainty, Draws)
    assert (twice.error_kind, square.error_kind) == (ErrorKind.EXACT, ErrorKind.ESTIMATED)


def test_sums_of_bounds_have_bounds_and_other_figures_are_modelled() -> None:
    table = answered("bounds")
    assert isinstance(table.sum("a3").uncertainty, Bounds)
    assert table.sum("a3").error_kind is ErrorKind.BOUNDS
    assert isinstance(table.shares().uncertainty, Draws)
    assert table.shares().error_kind is ErrorKind.MODELLED
    assert np.isfinite(table.shares().std_error).all()
    assert np.isnan(table.shares().noise_std_error).all()


@pytest.mark.parametrize("way", ["none", "shrunk"])
def test_a_cell_has_the_same_draws_through_any_door(way: str) -> None:
    """Picked from a table, from one with its axes moved, counted under a condition, and as a part of a figure."""
    release = released(way)
    table = release.marginal("a0", "a1")
    doors = [
        table["1"]["2"],
        release.marginal("a1", "a0")["2", "1"],
        table.transpose()["2", "1"],
        release.count("a0 = 1 and a1 = 2"),
        release.marginal("a1", where="a0 = 1")["2"],
        (table - table.sum("a1"))["1", "2"] + table["1"].sum(),
    ]
    stacks = [each.joint.draws for each in doors if each.joint is not None]
    assert len(stacks) == len(doors)
    for stack in stacks[1:]:
        np.testing.assert_allclose(stack, stacks[0], rtol=1e-6)


def test_tables_of_a_linear_release_agree_draw_by_draw() -> None:
    release = released("none")
    one, summed = release.marginal("a1").joint, release.marginal("a0", "a1").sum("a0").joint
    assert one is not None
    assert summed is not None
    np.testing.assert_allclose(summed.draws, one.draws, rtol=1e-6)


class Fixed(NamedTuple):
    """Counts with this spread."""

    own: Spread

    def spread(self, _: Change | None) -> Spread:
        return self.own


def test_a_spread_by_hand() -> None:
    """Normal, with 2 below and 3 above 10: 95% is 6.08 to 15.88, outwards 6 to 16; at most 14 where margins say so."""
    both = Spread(None, np.array([4.0, 4.0, 4.0]), np.array([9.0, 9.0, 9.0]), np.inf)
    values = np.full(3, 10.0)
    assert [end.tolist() for end in both.interval_around(values, 0.95)] == [[6, 6, 6], [16, 16, 16]]
    cut = Spread(both.truth, both.below, both.above, np.inf, np.array([14.0, 9.0, 99.0]), np.array([1.0, 1.0, 0.0]))
    assert [end.tolist() for end in cut.interval_around(values, 0.95)] == [[6, 6, 0], [14, 10, 0]]
    some = Draws(cells=Fixed(cut)).summed(taken(0, (2, 0), 3, kept=True), values)
    assert [end.tolist() for end in some.interval(values[:2], 0.95)] == [[0, 6], [0, 14]]


def test_changes_in_turn() -> None:
    """Two tables of two by two: columns added up, then three times, then the largest."""
    stack = np.arange(8.0).reshape(2, 2, 2)
    change = scaled(3.0).after(added(1, np.ones((1, 2)), kept=False))
    assert change(stack).tolist() == [[3, 15], [27, 39]]
    largest = statistic(lambda each: each.max(axis=1)).after(change)
    assert largest.table(stack[1]) == 39
    joint = Joint((), lambda: stack).changed(change)
    assert joint.draws.tolist() == [[3, 15], [27, 39]]
    assert np.isnan(joint.noise_std_error)  # it is not linear in anything that was measured
    assert np.asarray(Draws(joint).std_error).tolist() == [24, 24]
