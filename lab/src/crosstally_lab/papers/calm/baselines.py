"""What CALM is compared with (CALM section 3), simulated for the asked tables only, from binomials.

Counts of reports are drawn as they would come from people, exactly in distribution: for one table that is much less
work than drawing every report, and possible where the full table is not. Randomness comes from the numpy generator
given: nothing here is a release. Every method is told the number of people; negative cells of each table are corrected
and its total kept, which helps them.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.local.oracles import ViewOracle, best_oracle
from crosstally.local.oracles.answers import odds_below
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.typing import Floats, Integers

_ROUNDS = 10_000  # limits time: steps of expectation maximisation, which ends when nothing changes
_STILL = 1e-9  # in shares of people: far below what any report says


def view_frequencies(truth: Integers, oracle: ViewOracle, random: np.random.Generator) -> Floats:
    """The estimated frequencies of a view whose people have these true counts; randomised response or unary bits."""
    people, cells = int(truth.sum()), truth.ravel()
    true, false = float(oracle.true), float(oracle.false)
    if isinstance(oracle, RandomisedResponse):  # keep, or else draw from all cells: the same law
        kept = random.binomial(cells, true - false)
        counts = kept + random.multinomial(people - kept.sum(), np.full(len(cells), 1 / len(cells)))
    else:
        counts = random.binomial(cells, true) + random.binomial(people - cells, false)
    return np.asarray((counts / people - false) / (true - false)).reshape(truth.shape)


def _group(truth: Integers, groups: int, random: np.random.Generator) -> Integers:
    """The true counts of one of so many groups into which people are drawn alike."""
    number = max(1, int(random.binomial(int(truth.sum()), 1 / groups)))
    drawn = random.multivariate_hypergeometric(truth.ravel(), number, method="marginals")
    return np.asarray(drawn).reshape(truth.shape)


def all_marginals(truth: Integers, attributes: int, epsilon: Fraction, random: np.random.Generator) -> Floats:
    """The frequencies of a table when each of all tables of its size has a group of its own (AM)."""
    oracle = best_oracle(truth.shape, epsilon, (RandomisedResponse.kind, UnaryEncoding.kind))
    group = _group(truth, math.comb(attributes, truth.ndim), random)
    return clip_and_keep_total(view_frequencies(group, oracle, random), truth.ndim)


def full_table(truth: Integers, cells: int, epsilon: Fraction, random: np.random.Generator) -> Floats:
    """The frequencies of a table summed from the full table of so many cells by unary encoding (FC)."""
    oracle = UnaryEncoding.of((2,), epsilon)
    true, false = float(oracle.true), float(oracle.false)
    people, outside = int(truth.sum()), cells // truth.size
    counts = random.binomial(truth, true) + random.binomial(people * outside - truth, false)
    table = (counts / people - false * outside) / (true - false)
    return clip_and_keep_total(table + (1 - table.sum()) / table.size, truth.ndim)


def fourier_reports(truth: Integers, attributes: int, epsilon: Fraction, random: np.random.Generator) -> Floats:
    """The frequencies of a table of binary attributes from parities, a group for each of up to its size (FT)."""
    odds = float(odds_below(epsilon))
    keep = odds / (odds + 1)
    groups = sum(math.comb(attributes, s) for s in range(1, truth.ndim + 1))
    table = np.full(truth.shape, 1 / truth.size)
    for mask in range(1, 2**truth.ndim):
        signs = np.ones(truth.shape)
        for axis in range(truth.ndim):
            if mask >> axis & 1:
                signs = signs * np.array([1, -1]).reshape([-1 if i == axis else 1 for i in range(truth.ndim)])
        group = _group(truth, groups, random)
        people, odd = int(group.sum()), int(group[signs < 0].sum())
        ones = random.binomial(odd, keep) + random.binomial(people - odd, 1 - keep)
        table = table + signs * (1 - 2 * ones / people) / (2 * keep - 1) / truth.size
    return clip_and_keep_total(table, truth.ndim)


def expectation_maximisation(
    truths: Integers, attributes: int, epsilon: Fraction, random: np.random.Generator
) -> Floats:
    """The frequencies of a stack of tables when each attribute is reported with a part of epsilon (EM).

    It starts from the inverse channels of all attributes applied to the joint reports, corrected, and repeats the steps
    of expectation maximisation until no frequency of a table moves by 1e-9.
    """
    odds = float(odds_below(epsilon / attributes))
    channel = np.ones((1, 1))
    for n in truths.shape[1:]:
        channel = np.kron(channel, (np.full((n, n), 1.0) + (odds - 1) * np.eye(n)) / (odds + n - 1))
    cells = truths.reshape(len(truths), -1)
    reports = random.multinomial(cells, channel).sum(axis=1) / cells.sum(axis=1, keepdims=True)
    found = np.maximum(clip_and_keep_total(np.linalg.solve(channel.T, reports.T).T, 1), 1e-6)
    found /= found.sum(axis=1, keepdims=True)
    moving = np.arange(len(found))
    for _ in range(_ROUNDS):
        before = found[moving]
        found[moving] = before * ((reports[moving] / (before @ channel)) @ channel.T)
        moving = moving[np.abs(found[moving] - before).max(axis=1) >= _STILL]
        if not len(moving):
            break
    return np.asarray(found).reshape(truths.shape)
