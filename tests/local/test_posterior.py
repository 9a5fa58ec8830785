"""The estimate that is best on average: bounds, limits of little and much noise, what pairs tell, errors."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from conftest import schema_of
from crosstally.errors import CrosstallyError
from crosstally.local import Collector, design
from crosstally.local.bulk import reports
from crosstally.local.collector import release_of
from crosstally.local.estimate.expectation import _added, _trust
from crosstally.local.estimate.pair_shrinkage import coefficient_variances, shrunk_measurements
from crosstally.local.estimate.posterior import (
    NODES,
    START,
    Items,
    Pairs,
    _at_least_seen,
    expected_interactions,
    fitted_law,
    interactions_at,
    laws_of_others,
    likelihoods,
    posterior,
)
from crosstally.local.estimate.report_counts import measurements_of
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import open_release
from crosstally.residuals import combine
from crosstally_lab.papers.calm.simulated import collection

TWO = np.full(1, 2.0)


def both_by_bisection(p, q, odds):
    """How many have both, from the definition of the odds ratio alone."""
    low, high = max(0.0, p + q - 1), min(p, q)
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if x * (1 - p - q + x) < odds * (p - x) * (q - x) else (low, x)
    return low


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.01, 0.3), (0.9, 0.8), (0.002, 0.999)])
def test_each_node_has_its_odds_ratio(p, q) -> None:
    centres, widths = interactions_at(np.array([p]), np.array([q]), TWO, TWO)
    both = centres[0] + p / 2 + q / 2 - 1 / 4
    assert both == pytest.approx([both_by_bisection(p, q, math.exp(node)) for node in NODES], abs=1e-12)
    assert (widths > 0).all()
    assert centres[0][len(NODES) // 2] == pytest.approx((p - 0.5) * (q - 0.5))  # independent


def test_attributes_of_more_values_are_centred_by_their_own_sizes() -> None:
    """p = 0.2 of an attribute of 4, q = 0.5 of one of 5, independent: 0.1 - 0.2 / 5 - 0.5 / 4 + 1 / 20 = -0.015."""
    centres, _ = interactions_at(np.array([0.2]), np.array([0.5]), np.array([4.0]), np.array([5.0]))
    assert centres[0][len(NODES) // 2] == pytest.approx(-0.015)


def test_clear_reports_are_believed_and_hopeless_ones_leave_independence() -> None:
    centres, widths = interactions_at(np.array([0.3]), np.array([0.4]), TWO, TWO)
    seen = np.array([0.10])  # 0.02 if independent
    clear, left = expected_interactions(centres, widths, seen, np.array([1e-10]), START)
    assert clear[0] == pytest.approx(0.10, abs=1e-4)
    assert left[0] == pytest.approx(1e-10, rel=0.01)  # the variance of the noise, where nothing else matters
    hopeless, left = expected_interactions(centres, widths, seen, np.array([100.0]), START)
    assert hopeless[0] == pytest.approx(0.02, abs=1e-3)
    law = START @ (centres[0] ** 2 + widths[0] ** 2) - (START @ centres[0]) ** 2  # that of the law itself
    assert left[0] == pytest.approx(law, rel=0.01)


def test_a_law_follows_the_pairs() -> None:
    """Two hundred pairs with an odds ratio of e^1.5 or so: most of the law's weight goes there."""
    centres, widths = interactions_at(np.full(200, 0.3), np.full(200, 0.4), np.full(200, 2.0), np.full(200, 2.0))
    node = int(np.abs(NODES - 1.5).argmin())
    law = fitted_law(likelihoods(centres, widths, centres[:, node], np.full(200, 1e-6)), START)
    assert law.sum() == pytest.approx(1)
    assert law[node - 1 : node + 2].sum() > 0.85
    assert START[node - 1 : node + 2].sum() < 0.05


def test_the_law_for_a_table_is_that_of_the_others() -> None:
    """Four tables, of two pairs each: what is seen of the first changes the laws of all but its own."""
    centres, widths = interactions_at(np.full(8, 0.3), np.full(8, 0.4), np.full(8, 2.0), np.full(8, 2.0))
    tables = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    laws = []
    for seen in (centres[0, 14], centres[0, 17]):
        all_seen = np.array([seen, seen, *np.full(6, centres[0, 12])])
        laws.append(laws_of_others(likelihoods(centres, widths, all_seen, np.full(8, 1e-5)), tables))
    assert (laws[0][:2] == laws[1][:2]).all()
    assert (np.abs(laws[0][2:] - laws[1][2:]).max(axis=1) > 0.01).all()
    assert laws[0].sum(axis=1) == pytest.approx(np.ones(8))
    alone = laws_of_others(likelihoods(centres, widths, np.full(8, 0.05), np.full(8, 1e-5)), np.zeros(8, int))
    assert alone == pytest.approx(np.tile(START, (8, 1)))


def test_few_pairs_are_not_known_better_than_they_are() -> None:
    """Six pairs of four attributes, 150 times: their squared errors are those claimed, within 20%.

    They err independently, so that the mean of 900 squares has a standard error of 5%: four of them are 20%. Under laws
    that the pairs fitted themselves, they are 1.24 times those claimed.
    """
    random, frequencies = np.random.default_rng(4), np.array([0.3, 0.4, 0.5, 0.6])
    actual, claimed = [], []
    for _ in range(150):
        items, pairs = binary(frequencies, 1e-5, 0.008, seed=0)
        p, q = frequencies[pairs.first], frequencies[pairs.second]
        both = [both_by_bisection(*each) for each in zip(p, q, np.exp(0.8 * random.standard_normal(6)), strict=True)]
        seen = np.array(both) - p / 2 - q / 2 + 1 / 4 + 0.008 * random.standard_normal(6)
        found = posterior(items, replace(pairs, seen=seen))
        actual.append((found.both - both) ** 2)
        claimed.append(found.both_variances)
    assert 0.8 < np.mean(actual) / np.mean(claimed) < 1.2


def binary(frequencies, noise, pair_noise, seed):
    """Items of independent binary attributes as measured with normal noise."""
    random = np.random.default_rng(seed)
    d = len(frequencies)
    first, second = (np.array(side) for side in zip(*itertools.combinations(range(d), 2), strict=True))
    true = (frequencies[first] - 0.5) * (frequencies[second] - 0.5)
    return (
        Items(
            attributes=np.arange(d),
            sizes=np.full(d, 2.0),
            seen=frequencies + noise * random.standard_normal(d),
            variances=np.full(d, noise**2),
        ),
        Pairs(
            first=first,
            second=second,
            seen=true + pair_noise * random.standard_normal(len(first)),
            variances=np.full(len(first), pair_noise**2),
        ),
    )


def test_pairs_of_rare_values_tell_their_frequencies() -> None:
    """Frequencies by themselves within 0.05, sums of two within 0.02: a third of the squared error without pairs."""
    frequencies = np.array([0.02, 0.03, 0.05, 0.08, 0.04, 0.1, 0.25, 0.15])
    with_pairs, without = [], []
    for seed in range(20):
        items, pairs = binary(frequencies, 0.05, 0.01, seed=seed)
        none = Pairs(first=pairs.first[:0], second=pairs.second[:0], seen=pairs.seen[:0], variances=pairs.variances[:0])
        with_pairs.append(((posterior(items, pairs).frequencies - frequencies) ** 2).mean())
        without.append(((posterior(items, none).frequencies - frequencies) ** 2).mean())
    assert np.mean(with_pairs) < 0.34 * np.mean(without)
    assert np.mean(without) < 0.05**2


def test_frequencies_and_pairs_are_within_their_bounds() -> None:
    frequencies = np.array([0.001, 0.02, 0.5, 0.97, 0.03, 0.3])
    for seed in range(20):
        items, pairs = binary(frequencies, 0.2, 0.2, seed=seed)
        given = posterior(items, pairs)
        found, both = given.frequencies, given.both
        p, q = found[pairs.first], found[pairs.second]
        assert ((found > 0) & (found < 1)).all()
        assert ((both >= np.maximum(p + q - 1, 0)) & (both <= np.minimum(p, q))).all()


def test_frequencies_that_resemble_each_other_are_drawn_together() -> None:
    """Sixteen frequencies of 0.3 seen within 0.05: the mean squared error becomes less than a quarter."""
    frequencies = np.full(16, 0.3)
    ratios = []
    for seed in range(20):
        items, pairs = binary(frequencies, 0.05, 0.3, seed=seed)
        found = posterior(items, pairs).frequencies
        ratios.append(((found - 0.3) ** 2).mean() / ((items.seen - 0.3) ** 2).mean())
    assert np.mean(ratios) < 0.25


# Releases


def dependent_rows(people, sizes, seed):
    """Rows of two hidden classes in which low values are common."""
    random = np.random.default_rng(seed)
    hidden = random.random(people) < 0.3
    chance = [np.where(hidden, random.uniform(0.3, 0.6), random.uniform(0.02, 0.1)) for _ in sizes]
    return np.stack([np.minimum(random.geometric(1 - c) - 1, n - 1) for c, n in zip(chance, sizes, strict=True)])


@pytest.mark.parametrize("sizes", [(2,) * 6, (2, 3, 4, 2, 5)])
@pytest.mark.parametrize("method", ["residuals", "views", "marginals"])
def test_releases_are_consistent_and_their_measurements_unchanged(sizes, method) -> None:
    schema, codes = schema_of(*sizes), dependent_rows(20_000, sizes, seed=2)
    protocol = design(schema, epsilon=1, people=20_000, ways=3, method=method)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, codes))
    raw, drawn = collector.release(shrink="none"), collector.release(shrink="expected")
    for before, after in zip(raw.measurements, drawn.measurements, strict=True):
        assert before.values.tolist() == after.values.tolist()
    for first, second in itertools.combinations(schema.names, 2):
        table = drawn.marginal(first, second).values
        assert table.min() > -1e-6
        assert table.sum(axis=1) == pytest.approx(drawn.marginal(first).values, abs=2)  # of 20,000 people
        assert table.sum(axis=0) == pytest.approx(drawn.marginal(second).values, abs=2)


@pytest.mark.parametrize("sizes", [(2,) * 8, (2, 3, 4, 2, 3)])
def test_the_error_is_a_fraction_of_that_without(sizes) -> None:
    """Little is known at epsilon 0.5: the squared error of all pairs over twenty collections from a fixed seed."""
    people, random = 20_000, np.random.default_rng(8)
    schema, codes = schema_of(*sizes), dependent_rows(people, sizes, seed=5)
    protocol = design(schema, epsilon="0.5", people=people, ways=2, method="residuals")
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    truths = [np.zeros((sizes[a], sizes[b])) for a, b in pairs]
    for (a, b), truth in zip(pairs, truths, strict=True):
        np.add.at(truth, (codes[a], codes[b]), 1)
    errors = {"none": 0.0, "independence": 0.0, "expected": 0.0}
    for _ in range(20):
        measured = measurements_of(protocol, *collection(protocol, codes.astype(np.uint8), random))
        for shrink in errors:
            release = release_of(protocol, measured, people, shrink=shrink)
            found = release.marginals([(schema.names[a], schema.names[b]) for a, b in pairs])
            errors[shrink] += sum(
                float(((one.values - truth) ** 2).sum()) for one, truth in zip(found, truths, strict=True)
            )
    assert errors["expected"] < 0.6 * errors["none"]
    assert errors["expected"] < 0.8 * errors["independence"]


def test_what_three_attributes_show_is_kept_where_it_is_clear() -> None:
    """A parity of three fair coins has no pairs: only its triple tells."""
    random = np.random.default_rng(3)
    a, b = random.integers(0, 2, (2, 50_000))
    codes = np.stack([a, b, a ^ b])
    protocol = design(schema_of(2, 2, 2), epsilon=4, people=50_000, ways=3, method="marginals")
    collector = Collector(protocol)
    collector.add_many(reports(protocol, codes))
    table = collector.release(shrink="expected").marginal("a0", "a1", "a2").values / 50_000
    truth = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.25, 0.0)
    assert np.abs(table - truth).max() < 0.02


def test_wide_views_are_drawn_towards_independence_only() -> None:
    sizes = (2,) * 5
    protocol = design(schema_of(*sizes), epsilon=4, people=5_000, ways=2, method="full")
    collector = Collector(protocol)
    collector.add_many(reports(protocol, dependent_rows(5_000, sizes, seed=1)))
    with pytest.raises(CrosstallyError, match="at most 3 attributes, here it is 5"):
        collector.release(shrink="expected")
    collector.release(shrink="independence")


@pytest.mark.parametrize(
    ("variance", "table", "left"), [(180.0, [[37, 13], [13, 37]], 144.0), (1000.0, [[25, 25], [25, 25]], 0.0)]
)
def test_a_pair_is_drawn_towards_independence_by_its_own_noise(variance, table, left) -> None:
    """The coefficient of the pair is (40 - 10 - 10 + 40) / 2 = 30, with the variance of a cell, v.

    Its square beyond noise is 900 - v, so (900 - v) / 900 of it is kept: 0.8 of 30 where v is 180, cells 25 + 12 and
    25 - 12, and 0.8 of its variance. Where v is above 900 nothing is. Single attributes keep theirs, 2 v.
    """
    pair = Measurement(
        Cells(("a0", "a1")), np.array([[40.0, 10.0], [10.0, 40.0]]), variance=variance, noise=None, origin="test"
    )
    found = shrunk_measurements(combine(schema_of(2, 2), [pair]), [pair])
    assert found.measurements[0].values == pytest.approx(np.array(table))
    singles = {("a0",): 2 * variance, ("a1",): 2 * variance}
    assert found.variances == pytest.approx({**singles, ("a0", "a1"): left})


def test_a_table_whose_total_is_zero_is_left_as_it_is() -> None:
    """Frequencies are shares of the total: of zero there are none."""
    pair = Measurement(
        Cells(("a0", "a1")), np.array([[4.0, -1.0], [-1.0, -2.0]]), variance=1.0, noise=None, origin="test"
    )
    found = shrunk_measurements(combine(schema_of(2, 2), [pair]), [pair])
    assert found.measurements == (pair,)
    assert found.variances == {}


def test_pairs_are_drawn_together_by_the_mean_of_their_squares() -> None:
    """Coefficients 30, 0 and 0 of three pairs with one variance, 100: their mean square beyond noise is 200.

    200 / 300 of the first is kept: cells of 25 + 10 and 25 - 10.
    """
    values = {"ab": [[40.0, 10.0], [10.0, 40.0]], "bc": [[25.0] * 2] * 2, "ac": [[25.0] * 2] * 2}
    pairs = [
        Measurement(Cells(tuple(names)), np.array(table), variance=100.0, noise=None, origin="test")
        for names, table in values.items()
    ]
    found = shrunk_measurements(combine(schema_of(2, 2, 2, names="abc"), pairs), pairs)
    assert found.measurements[0].values == pytest.approx(np.array([[35, 15], [15, 35]]))
    assert found.variances["a", "b"] == pytest.approx(100 * 2 / 3)


def test_what_three_attributes_show_is_trusted_as_far_as_it_is_more_than_noise() -> None:
    """Two sets of spread 3 and variance 2: squares 7 and 1 have the mean 4, 2 beyond noise, so half is kept.

    Squares below the noise leave nothing.
    """
    clear = _trust(np.array([[np.sqrt(7.0)], [1.0]]), np.full(2, 3.0), np.full(2, 2.0))
    assert clear == pytest.approx([0.5, 0.5])
    assert _trust(np.ones((2, 1)), np.ones(2), np.full(2, 2.0)).tolist() == [0, 0]


def test_changes_end_where_a_cell_would_be_negative() -> None:
    tables = np.full((2, 2, 2, 2), 0.125)
    signs = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 1.0, -1.0)
    found = _added(tables, np.stack([0.25 * signs, 0.05 * signs]))
    assert found[0] == pytest.approx(0.125 + 0.125 * signs)
    assert found[1] == pytest.approx(0.125 + 0.05 * signs)


# Error bars


def test_bars_grow_where_estimates_moved_further_than_they_allow() -> None:
    """Noise 4, variance 1 left: a way of 3 is expected, squared. One of 7 is 1 more than the noise: a part of it."""
    assert _at_least_seen(np.array([np.sqrt(3.0)]), np.array([4.0]), np.array([1.0])) == pytest.approx([1.0])
    assert _at_least_seen(np.array([np.sqrt(7.0)]), np.array([4.0]), np.array([1.0])) == pytest.approx([5.0])


def test_an_error_of_a_moment_is_an_error_of_every_set_that_holds_it() -> None:
    """a and b of two values, frequencies 0.9 and 0.5: b's error moves the pair by (0.9 - 0.5)^2 = 0.16 of its square.

    Cells of the pair vary by 0.02 + 0.16 x 0.05 + 0 x 0.01 = 0.028, coefficients by that over (1 - 1/2)^2; people: 10.
    """
    moments = {("a0",): 0.01, ("a1",): 0.05, ("a0", "a1"): 0.02}
    frequencies = {"a0": np.array([0.1, 0.9]), "a1": np.array([0.5, 0.5])}
    found = coefficient_variances(schema_of(2, 2), moments, frequencies, 10.0)
    assert found == pytest.approx({("a0",): 2.0, ("a1",): 10.0, ("a0", "a1"): 11.2})


def errors_in_bars(sizes, *, runs, people, epsilon, method):
    """For each of some collections the errors of all cells of single attributes and pairs, in half widths of 95%.

    Half widths are those of the posterior variance that a set of attributes has on average over its cells.

    Also how wide bars are, on average, in those of the unbiased estimate.
    """
    random, schema = np.random.default_rng(12), schema_of(*sizes)
    codes = dependent_rows(people, sizes, seed=6).astype(np.uint8)
    sets = [*itertools.combinations(range(len(sizes)), 1), *itertools.combinations(range(len(sizes)), 2)]
    truths = [np.zeros([sizes[i] for i in one]) for one in sets]
    for one, truth in zip(sets, truths, strict=True):
        np.add.at(truth, tuple(codes[i] for i in one), 1)
    names = [tuple(schema.names[i] for i in one) for one in sets]
    protocol = design(schema, epsilon=epsilon, people=people, ways=2, method=method)
    found, widths = [], []
    for _ in range(runs):
        measured = measurements_of(protocol, *collection(protocol, codes, random))
        answers, raw = (release_of(protocol, measured, people, shrink=s).marginals(names) for s in ("auto", "none"))
        moved = [abs(a.values - b) / (1.96 * a.noise_std_error) for a, b in zip(answers, truths, strict=True)]
        found.append(np.concatenate([each.ravel() for each in moved]))
        widths += [(a.noise_std_error / b.noise_std_error).mean() for a, b in zip(answers, raw, strict=True)]
    return np.stack(found), float(np.mean(widths))


@pytest.mark.parametrize(
    ("sizes", "method", "epsilon"),
    [((2,) * 8, "residuals", "0.5"), ((2, 3, 4, 2, 5), "residuals", 1), ((2,) * 10, "views", 2)],
)
@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.verify)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(sizes, method, epsilon, runs) -> None:
    """From a fixed seed: 95% intervals hold it in at least 90% of all cells, and would not if half as wide."""
    found, width = errors_in_bars(sizes, runs=runs, people=30_000, epsilon=epsilon, method=method)
    assert (found <= 1).mean() > 0.9
    assert (found <= 0.5).mean() < 0.8
    assert width < 0.95


def test_error_bars_are_saved_with_a_release(tmp_path) -> None:
    sizes = (2, 3, 2, 4)
    protocol = design(schema_of(*sizes), epsilon=1, people=20_000, ways=2)
    collector = Collector(protocol)
    collector.add_many(reports(protocol, dependent_rows(20_000, sizes, seed=3)))
    release = collector.release()
    release.save(tmp_path / "local.release.parquet")
    again = open_release(tmp_path / "local.release.parquet")
    for names in [("a0",), ("a1", "a3"), ("a2", "a1")]:
        np.testing.assert_array_equal(again.marginal(*names).noise_std_error, release.marginal(*names).noise_std_error)
    # lost posterior variances would leave those of the unbiased estimate, in both releases alike
    unbiased = collector.release(shrink="none").marginal("a1", "a3")
    assert again.marginal("a1", "a3").uncertainty.noise_std_error != unbiased.uncertainty.noise_std_error
