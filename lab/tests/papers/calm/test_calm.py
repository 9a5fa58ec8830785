"""CALM's experiment: simulated counts have the law of real reports, errors are the papers', verdicts follow."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from crosstally.local.bulk import answers
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.local.protocol import design
from crosstally.schema import Attribute, Schema
from crosstally_lab.generate.binary import independent
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.papers.calm import baselines as calm_baselines
from crosstally_lab.papers.calm import experiment as calm

EPSILON = Fraction(1)


@pytest.mark.parametrize("kind", [RandomisedResponse, UnaryEncoding])
@pytest.mark.parametrize(("runs", "shift"), [(2000, 0), (2000, 8)])
def test_simulated_counts_have_the_law_of_real_reports(kind, runs, shift) -> None:
    """Two-sample Kolmogorov-Smirnov on a cell's estimate, false alarm 1e-6; counts of 8 more people are told apart."""
    from scipy.stats import ks_2samp

    truth = np.array([[60, 20], [10, 30]])
    oracle = kind.of(truth.shape, Fraction(3))
    random = np.random.default_rng(5)
    true, false = float(oracle.true), float(oracle.false)
    people = truth.ravel() + np.array([shift, -shift, 0, 0])
    codes = np.repeat(np.array([(0, 0), (0, 1), (1, 0), (1, 1)]).T, people, axis=1)
    real = []
    for _ in range(runs):
        drawn = answers(oracle, codes)
        first = (drawn & np.uint64(1)).sum() if kind is UnaryEncoding else (drawn == 0).sum()
        real.append((first / 120 - false) / (true - false))
    simulated = [calm_baselines.view_frequencies(truth, oracle, random)[0, 0] for _ in range(runs)]
    p_value = ks_2samp(np.round(real, 9), np.round(simulated, 9)).pvalue
    assert bool(p_value > 1e-6) is (shift == 0)


def mean_sse(method, *, d, people, runs):
    truth = np.full((2, 2, 2), people // 8)
    random = np.random.default_rng(3)
    found = [((method(truth, d, EPSILON, random) - 1 / 8) ** 2).sum() for _ in range(runs)]
    return np.mean(found), np.std(found) / math.sqrt(runs)


@pytest.mark.parametrize(
    ("method", "d", "expected"),
    [
        # sum over 7 coefficients of cosh^2(eps/2) Var0 x groups / 8, Var0 = 4e/(e-1)^2; groups are 6 + 15 + 20
        (calm_baselines.fourier_reports, 6, 7 / 8 * 41 * (math.cosh(0.5) ** 2 * 3.68271)),
        # 2^d Var0 less the part of the total, which is known: 7/8
        (calm_baselines.full_table, 2**6, 7 / 8 * 2**6 * 3.68271),
        # C(6, 3) groups, unary encoding of 8 cells: (1/4 + 7 q(1-q)) / (1/2-q)^2 = 30.4616, and the sampling of 7/8
        (calm_baselines.all_marginals, 6, 20 * (30.4616 + 7 / 8)),
    ],
)
def test_errors_are_those_of_the_formulas(method, d, expected) -> None:
    """Uniform people, so many that no cell is negative: the mean SSE within 6 standard errors (false alarm 1e-8)."""
    people = 8 * 10**7
    mean, error = mean_sse(method, d=d, people=people, runs=200)
    assert abs(mean * people - expected) < 6 * error * people + 0.01 * expected


def test_expectation_maximisation_finds_what_is_there() -> None:
    truth = 10**7 * np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    found = calm_baselines.expectation_maximisation(truth[None], 3, Fraction(3), np.random.default_rng(1))[0]
    assert found == pytest.approx(truth / truth.sum(), abs=0.002)
    assert found.sum() == pytest.approx(1)


def test_a_collection_is_scored_in_frequencies() -> None:
    """At epsilon 16 reports are nearly exact: the error is that of sampling groups, about 1e-4."""
    random = np.random.default_rng(2)
    codes = (random.random((4, 20_000)) < 0.3).astype(np.uint8)
    schema = Schema(tuple(Attribute(f"a{i}", ("0", "1")) for i in range(4)))
    case = calm.Case("test", codes, schema=schema, tables=((0, 1, 2), (1, 2, 3)))
    assert [table.sum() for table in case.truth] == [20_000, 20_000]
    assert case.truth[0][1, 1, 1] == int((codes[0] & codes[1] & codes[2]).sum())
    error = calm.mean_error(case, design(schema, epsilon=16, people=20_000, ways=3), random)
    assert 0 < error < 1e-3


def score(method, sse, *, d=16, epsilon=1.0):
    return calm.Score(method=method, data="x", d=d, people=10, epsilon=epsilon, sse=sse, std_error=0.0, runs=5)


def test_verdicts_follow_from_the_scores() -> None:
    others = [score(name, sse) for name, sse in (("FC", 9.0), ("AM", 5.0), ("FT", 1.0), ("EM", 9.0), ("Uniform", 1.0))]
    best, rule = score("CALM, best (m, l) on the truth", 1.0), score("CALM", 1.4)
    rules = [rule, score("CALM, balanced (m, l)", 1.2)]
    claims = list(calm.calm_claims([*others, best, *rules, score("crosstally", 0.9)]))
    assert [claim.holds for claim in claims] == [True, True, False, True, False, True]
    assert "in 0 of 1 settings; from 0.9 x to 0.9 x (intervals from 0.9 to 0.9)" in claims[4].figure
    claims = list(calm.calm_claims([*others, best, *rules, score("crosstally", 0.7)]))
    assert claims[4].holds
    noisy = replace(score("crosstally", 0.7), std_error=0.07)
    assert list(calm.calm_claims([*others, best, *rules, noisy]))[4].holds is None  # 0.7 within 0.8, the interval not
    binary_alone = [each for each in others if each.method != "FT"]
    assert next(iter(calm.calm_claims([*binary_alone, best, *rules, score("crosstally", 0.7)]))).holds


def test_tables_of_categorical_attributes_are_counted_and_estimated_by_all_methods() -> None:
    """Two attributes of 2 and 3 values, ε = 16: every method finds the frequencies of its table."""
    schema = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2")), Attribute("c", ("0", "1"))))
    codes = np.random.default_rng(0).integers(0, 2, (3, 50_000)).astype(np.uint8)
    case = calm.Case("test", codes, schema=schema, tables=((0, 1), (1, 2), (0, 2)))
    assert [table.shape for table in case.truth] == [(2, 3), (3, 2), (2, 2)]
    assert case.truth[0].tolist()[1][1] == int((codes[0] & codes[1]).sum())
    assert (case.ways, case.is_binary) == (2, False)
    for name in ("FC", "AM", "EM"):
        for found, true in zip(
            calm._OTHERS[name](case, Fraction(16), np.random.default_rng(1)), case.truth, strict=True
        ):
            assert np.abs(found - true / 50_000).max() < 0.02


def rows_case(name, table, schema):
    codes = np.stack([table[name].to_numpy() for name in schema.names]).astype(np.uint8)
    return calm.Case(name, codes, schema=schema, tables=((0, 1, 2), (1, 2, 3), (2, 3, 4)))


def test_no_views_suit_people_of_both_kinds() -> None:
    """For one kind alone some views are the best; for two kinds at once the nearest are far from it."""
    random = np.random.default_rng(1)
    chains = rows_case("chains", *markov_chain(2**17, 6, 1, random))
    rare = rows_case("rare", *independent(2**17, 6, random))
    counts = calm.Counts((), (), (), 6, 0, 0, 100, chains=False)
    apart = [calm.choice_claim([case], EPSILON, counts) for case in (chains, rare)]
    assert [claim.holds for claim in apart] == [False, False]
    assert all("with 1 x" in claim.figure for claim in apart)
    together = calm.choice_claim([chains, rare], EPSILON, counts)
    assert together.holds is not False  # six runs leave it open more often than not
    assert float(re.search(r"with ([\d.]+) x", together.figure)[1]) > 1.3
    assert "chains, rare (6 attributes, 131,072 people, ε = 1)" in together.claim
