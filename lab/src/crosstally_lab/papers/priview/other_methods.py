"""What PriView says in numbers about the methods that it is compared with (SIGMOD 2014, sections 3.3 to 3.7).

Nearly all of it is counting, and is computed exactly. Only what the two improvements of MWEM gain is measured. Running
times in O-notation, of programs that others wrote, are not judged: the docs say why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np

from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.typing import Floats
from crosstally.workload import Workload
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.papers.baselines import chosen_cuboids, eigen_design, low_rank
from crosstally_lab.papers.baselines.polynomials import Polynomial
from crosstally_lab.papers.baselines.weights import REPLAYS, mwem, mwem_rounds
from crosstally_lab.papers.metrics import mean_and_error, normalised_l2, ratio_words, unpaired_ratio_interval, within
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value
from crosstally_lab.papers.priview.crossover import direct_error

# Counting


def coefficients(d: int, k: int) -> int:
    """How many Fourier coefficients all k-way tables need: those of at most k attributes (section 3.3).

    >>> coefficients(9, 2)
    46
    """
    return sum(math.comb(d, s) for s in range(k + 1))


def fourier_gain(d: int, k: int) -> float:
    """The squared error of Direct over that of Fourier, which is |B|^2 V_u: |B| coefficients share epsilon.

    >>> round(fourier_gain(9, 2), 2)  # the paper says 4
    2.45
    """
    return direct_error(d, k) / coefficients(d, k) ** 2


def literal_sums(d: int, k: int, gamma: float) -> int:
    """How many sums learning publishes: one for each set of at most t literals, of different attributes (3.7).

    >>> literal_sums(9, 4, 1 / 8)  # Direct has 126 tables of 16 cells
    12259
    """
    degree = Polynomial(k, gamma).degree
    return sum(math.comb(d, s) * 2**s for s in range(min(degree, d) + 1))


def learning_noise(d: int, k: int, gamma: float) -> float:
    """The squared error that noise alone gives a k-way table by learning, in V_u.

    Each cell sums one noisy number for each set of at most t of its k literals.
    """
    polynomial = Polynomial(k, gamma)
    sums = sum(math.comb(k, s) for s in range(1, min(polynomial.degree, k) + 1))
    return 2.0**k * sums * polynomial.sensitivity(d) ** 2


def _rank(d: int, k: int) -> int:
    """The rank of all k-way tables as linear functions of the full table, by the book."""
    cells = np.arange(2**d)[:, None] >> np.arange(d) & 1
    rows = [
        (cells[:, list(names)] == np.array([value >> i & 1 for i in range(k)])).all(axis=1)
        for names in combinations(range(d), k)
        for value in range(2**k)
    ]
    return int(np.linalg.matrix_rank(np.array(rows, np.float64)))


# The experiment

_RANKED = ((4, 2), (6, 2), (6, 3), (7, 4))  # attributes and ways whose rank is computed: at most 128 columns
_GAINED = ((9, 2), (9, 4), (32, 2), (32, 4), (64, 4), (1_000, 2))  # the paper's data, and far beyond
_LOW = 9  # attributes of the paper's low-dimensional data
_CUBES = (*((d, 2) for d in range(4, 13)), *((d, 3) for d in range(5, 11)), (9, 4))  # until covers are worth it
_GAMMAS = {"1/2": 1 / 2, "1/4": 1 / 4, "1/8": 1 / 8}  # the paper's three accuracies
_LEARNED = tuple((d, k) for d in (9, 32, 45) for k in (2, 4, 6, 8))  # the paper's data and ways
_MOST_WAYS = 100  # the end of the range in which the paper expects learning to win
_WIDE = 256  # attributes among which tables of up to 100 are chosen; with fewer, Direct has few such tables
_CHAIN = (10_000, 6, 3)  # rows, attributes and order of the chain on which MWEM's improvements are measured
_WAYS = 2  # attributes of the tables that MWEM chooses from and the matrix mechanism is run for: the least of the paper
_EPSILON = 1.0  # the larger of the paper's budgets; at 0.1 noise hides what updates gain (1.2 x)
_RUNS = {True: 10, False: 40}  # of each variant, quick or not: 0.5 CPU seconds each
_GREATLY = 2.0  # the factor that "greatly improved" is taken to mean


def _section_3(settings: Settings) -> Outcome:
    if settings.data is not None:
        raise CrosstallyError("priview-section-3 takes no data: it counts, and draws the rows that it needs")
    parts = (_fourier(), _data_cubes(), _matrix_mechanism(), _weights(settings), _learning())
    return Outcome(
        "priview-section-3",
        tuple(row for rows, _ in parts for row in rows),
        claims=tuple(claim for _, claims in parts for claim in claims),
    )


def _row(section: str, method: str, quantity: str, *, d: int, k: int | None, value: float) -> dict[str, Value]:
    return {"section": section, "method": method, "quantity": quantity, "d": d, "k": k, "value": value}


Part = tuple[list[dict[str, Value]], list[Claim]]


def _fourier() -> Part:
    rows = [_row("3.3", "Fourier", "coefficients", d=d, k=k, value=coefficients(d, k)) for d, k in _GAINED]
    rows += [_row("3.3", "Fourier", "error of Direct over it", d=d, k=k, value=fourier_gain(d, k)) for d, k in _GAINED]
    ranks = {(d, k): _rank(d, k) for d, k in _RANKED}
    needed = Claim(
        "all k-way tables need 1 + C(d,1) + ... + C(d,k) Fourier coefficients",
        of="paper",
        holds=all(rank == coefficients(*case) for case, rank in ranks.items()),
        figure="rank of all tables " + ", ".join(f"{rank} (d = {d}, k = {k})" for (d, k), rank in ranks.items()),
    )
    gain = Claim(
        "without the linear program Fourier has 2^k times less squared error than Direct",
        of="paper",
        holds=all(fourier_gain(d, k) >= 2**k for d, k in _GAINED),
        figure="; ".join(f"{fourier_gain(d, k):.2f} of {2**k} at d = {d}, k = {k}" for d, k in _GAINED)
        + ": 2^k (C(d,k) / |B|)^2, which is 2^k in the limit of many attributes",
    )
    return rows, [needed, gain]


def _data_cubes() -> Part:
    chosen = {(d, k): chosen_cuboids(d, k) for d, k in _CUBES}
    rows = [_row("3.4", "Data cubes", "tables measured", d=d, k=k, value=len(each)) for (d, k), each in chosen.items()]
    rows += [_row("3.4", "Data cubes", "tables in the lattice", d=d, k=None, value=2.0**d) for d in (9, 32, 45)]
    others = [f"{len(b)} of {len(b[0])} attributes at d = {d}" for (d, k), b in chosen.items() if len(b) > 1 and k == 2]
    claim = Claim(
        f"on low-dimensional binary data (d up to {_LOW}) data cubes publish the full table, as Flat does",
        of="paper",
        holds=all(len(each) == 1 for (d, _), each in chosen.items() if d <= _LOW),
        figure=f"in all {sum(d <= _LOW for d, _ in chosen)} cases; for pairs {', '.join(others)}",
    )
    return rows, [claim]


def _matrix_mechanism() -> Part:
    rows, seconds = [], {}
    for name, design in (("eigen", eigen_design), ("low rank", low_rank)):
        start = time.process_time()
        squared = design(_LOW, _WAYS).squared_errors([(0, 1)])[0]
        seconds[name] = time.process_time() - start
        rows.append(_row("3.5", f"Matrix, {name}", "squared error in V_u", d=_LOW, k=_WAYS, value=squared))
    for d, k in ((9, 2), (9, 4), (32, 2)):
        rows.append(
            _row("3.5", "Matrix", "queries in the workload, 2^k C(d,k)", d=d, k=k, value=2.0**k * math.comb(d, k))
        )
        rows.append(_row("3.5", "Matrix", "cells, 2^d: basic queries", d=d, k=k, value=2.0**d))
    claim = Claim(
        "both approximations of the matrix mechanism can be run for d = 9",
        of="paper",
        holds=True,
        figure="pairs: " + ", ".join(f"{name} {each:.2g} CPU s" for name, each in seconds.items()),
    )
    return rows, [claim]


def _learning() -> Part:
    rows, claims = [], []
    for words, gamma in _GAMMAS.items():
        name, start = f"Learning {words}", _wins_from(_WIDE, words)
        over = {(d, k): literal_sums(d, k, gamma) / (math.comb(d, k) * 2.0**k) for d, k in _LEARNED}
        rows += [_row("3.7", name, "sums over Direct's cells", d=d, k=k, value=each) for (d, k), each in over.items()]
        rows.append(_row("3.7", name, "least k with less noise than Direct", d=_WIDE, k=None, value=start))
        claims.append(
            Claim(
                f"for small k (2 to 8) learning is more complex than Direct, gamma = {words}: more numbers to publish",
                of="paper",
                holds=all(each > 1 for each in over.values()),
                figure=f"{min(over.values()):.3g} x to {max(over.values()):.3g} x as many numbers; at d = {_WIDE} less "
                f"noise than Direct from k = {start} on (the paper reads k between 60 and 100 out of a bound)",
            )
        )
    return rows, claims


@cache
def _wins_from(d: int, words: str) -> int:
    """The number of attributes from which on, up to 100, noise alone is below Direct's."""
    gamma = _GAMMAS[words]
    ways = range(2, _MOST_WAYS + 1)
    return 1 + max((k for k in ways if learning_noise(d, k, gamma) >= direct_error(d, k)), default=1)


# MWEM


def _weights(settings: Settings) -> Part:
    errors = _errors_of_weights(settings)
    rows = [
        _row("3.6", "MWEM", f"mean L2 / N, {variant}", d=_CHAIN[1], k=_WAYS, value=float(np.mean(each)))
        for variant, each in errors.items()
    ]
    return rows, [rounds_claim(_stage_shares(_LOW)), weights_claim(errors)]


def _stage_shares(d: int) -> list[Fraction]:
    """What each stage of MWEM may spend of epsilon = 1, choices and measurements in turn."""
    from crosstally.strategies.mwem import MWEM

    schema = markov_chain(10, d, 1, np.random.default_rng(0))[1]
    plan = MWEM(rounds=mwem_rounds(d), rows=1_000).plan(schema, Workload.all_ways(schema, _WAYS), Budget(epsilon=1))
    assert plan is not None  # it has a first choice
    return [stage.amount for stage in plan.stage_budgets]


def rounds_claim(shares: Sequence[Fraction]) -> Claim:
    """That each round has epsilon / T, half for the choice and half for the answer, all together epsilon."""
    rounds = mwem_rounds(_LOW)
    return Claim(
        "MWEM gives each of T rounds epsilon / T, half to choose a table and half to measure it",
        of="paper",
        holds=list(shares) == [Fraction(1, 2 * rounds)] * (2 * rounds),
        figure=f"T = {rounds} at d = {_LOW}: {len(shares)} stages of {min(shares)} to {max(shares)} of epsilon, "
        f"{sum(shares)} in all",
    )


def _errors_of_weights(settings: Settings) -> Mapping[str, list[float]]:
    """The error of each run of MWEM: one update for each answer and the mean of all rounds, or both improvements."""
    number, d, order = _CHAIN
    table, schema = markov_chain(number, d, order, np.random.default_rng(d))
    truth = np.zeros(schema.shape)
    np.add.at(truth, tuple(table[name].to_numpy().astype(np.int64) for name in schema.names), 1.0)
    runs = _RUNS[settings.quick]
    out: dict[str, list[float]] = {"basic": [], "improved": []}
    for run in range(runs):
        for variant, replays in (("basic", 0), ("improved", REPLAYS)):
            rounds = mwem(table, schema, ways=_WAYS, epsilon=_EPSILON, replays=replays)
            found = rounds[-1] if replays else np.mean(rounds, axis=0)
            out[variant].append(_pair_error(found, truth))
        settings.progress(run + 1, runs)
    return out


def _pair_error(found: Floats, truth: Floats) -> float:
    """The mean L2 / N of all tables asked."""
    axes = range(truth.ndim)
    others = [tuple(axis for axis in axes if axis not in pair) for pair in combinations(axes, _WAYS)]
    rows = float(truth.sum())
    return float(np.mean([normalised_l2(found.sum(axis=out), truth.sum(axis=out), rows=rows) for out in others]))


def weights_claim(errors: Mapping[str, Sequence[float]]) -> Claim:
    """That replays and the last distribution make MWEM much better."""
    gain = unpaired_ratio_interval(mean_and_error(errors["basic"]), mean_and_error(errors["improved"]))
    return Claim(
        f"100 replays and the last distribution greatly improve MWEM: its error falls by at least {_GREATLY:g} x",
        of="paper",
        holds=within([gain], low=_GREATLY),
        figure=f"basic over improved {ratio_words(gain)}, pairs of {_CHAIN[1]} attributes, epsilon = {_EPSILON:g}",
    )


EXPERIMENTS = (
    Experiment(
        "priview-section-3", "What the paper says of other methods, in numbers (PriView, 3.3 to 3.7)", _section_3
    ),
)
