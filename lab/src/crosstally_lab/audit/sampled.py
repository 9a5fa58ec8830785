"""Part two: the noise that is really drawn, in a guessing game against it (``guessing``).

For each plan the pair of neighbouring tables of the largest loss is taken from ``definitions``. A coin says for each
draw which of the two is answered. Central answers are drawn by ``privacy.measure`` from OpenDP's samplers, reports by
the device's own code and by the kernels for many reports, all from the operating system's randomness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cache, partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget, Neighbours
from crosstally.local import client
from crosstally.local.oracles import ORACLES, Oracle
from crosstally.plans.plan import Plan
from crosstally.privacy.measure import sampler_of
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Kronecker, Query
from crosstally.schema import Schema, Unit
from crosstally.strategies import (
    MWEM,
    Adaptive,
    Direct,
    Flat,
    Fourier,
    GreedyMerge,
    Residual,
    Strategy,
    TwoStage,
    Views,
)
from crosstally.workload import Workload
from crosstally_lab.audit.cases import planned_queries, schema_of, stages_of
from crosstally_lab.audit.channels import Channel, defined_channel
from crosstally_lab.audit.definitions import Pair, answer, choice_probabilities, worst_pairs
from crosstally_lab.audit.exact import json_requests
from crosstally_lab.audit.findings import SAMPLED, Finding
from crosstally_lab.audit.guessing import (
    FALSE_ALARMS,
    Drawn,
    Guess,
    Law,
    Rule,
    accuracy_bound,
    best_accuracy,
    epsilon_bound,
    likelihood_rules,
)

DRAWS = 400_000
"""Tosses of the coin in each game: about 200,000 for each table."""

LAPLACE_SHARE, GAUSSIAN_SHARE = 0.95, 0.3
"""The part of the exact loss that the bound must reach when all draws are made."""

_CHUNK = 50_000  # tosses drawn at once: limits memory. Results do not depend on it
_REPEATS = 400
"""Draws for each table that are compared with an earlier one: a fixed seed repeats it every time."""

Draw = Callable[[NDArray[np.bool_]], Drawn]


@dataclass(frozen=True, slots=True)
class Game:
    """A game: what is claimed and exact, how answers are drawn for coins, and the rules, fixed beforehand.

    ``unit`` is ε, or μ for Gaussian noise: the μ at which two normal laws are told apart as often. ``fewer`` divides
    the number of tosses, which is never below ``least``.
    """

    subject: str
    draw: Draw
    rules: tuple[Rule, ...]
    _: KW_ONLY
    claimed: float
    exact: float
    unit: str = "ε"
    share: float = 0.0
    fewer: int = 1
    least: int = 1


def subjects() -> list[str]:
    """What is played, by name."""
    return [game.subject for game in games()]


def audit_sampled(subject: str, draws: int = DRAWS) -> Finding:
    """Play a game. All games together have one rate of false alarms, whichever are played."""
    (game,) = (each for each in games() if each.subject == subject)
    alarm = FALSE_ALARMS / sum(len(each.rules) for each in games())
    random = np.random.default_rng()  # which table is answered: nothing is kept private by it
    return play(game, draws, alarm, random, sharp=draws >= DRAWS)


def play(game: Game, draws: int, alarm: float, random: np.random.Generator, *, sharp: bool) -> Finding:
    """The best bound of all rules of a game."""
    coins = random.integers(0, 2, max(game.least, draws // game.fewer)).astype(np.bool_)
    guesses: list[list[Guess]] = [[] for _ in game.rules]
    for start in range(0, len(coins), _CHUNK):
        seen = game.draw(coins[start : start + _CHUNK])
        for own, rule in zip(guesses, game.rules, strict=True):
            own.append(rule.guess(seen))
    found = max(accuracy_bound(coins, np.concatenate(own), alarm) for own in guesses)
    bound = epsilon_bound(found) if game.unit == "ε" else max(0.0, 2 * NormalDist().inv_cdf(found))
    return Finding(
        SAMPLED,
        game.subject,
        unit=game.unit,
        claimed=game.claimed,
        exact=game.exact,
        bound=bound,
        share=game.share if sharp else 0.0,
        cases=len(coins),
    )


@cache
def games() -> tuple[Game, ...]:
    """All games, planned once; nothing is drawn before they are played."""
    return tuple(_games())


def _games() -> Iterator[Game]:
    """Releases of one stage, stages one by one, the same draw again and again, reports."""
    for subject, plan in _plans().items():
        yield _plan_game(subject, plan)
    for subject, plan in _staged_plans().items():
        for number, stage in enumerate(stages_of(plan), 1):
            yield _plan_game(f"{subject}, stage {number}", stage, share=0.0)
    yield _repeat_game()
    for kind, oracle in ORACLES.items():
        made = oracle.of((3,) if kind != "each-attribute" else (2, 2), Fraction(1))
        yield _report_game(f"{kind}, on a device", made, partial(_device_draw, made))
        yield _report_game(f"{kind}, many at once", made, made.draw)


# Central


def _plans() -> dict[str, Plan]:
    """Plans of one stage at epsilon 1, of up to three tables; of rho 1/2 where noise is Gaussian."""
    pure, rho, approximate = Budget(epsilon=1), Budget(rho="1/2"), Budget(epsilon=1, delta="1e-6")
    one, two, replace = schema_of(2), schema_of(2, 2), Neighbours.REPLACE
    pair, singles = Workload([("a", "b")]), Workload([("a",), ("b",)])

    def planned(strategy: Strategy, schema: Schema, workload: Workload | None, budget: Budget, **other: Any) -> Plan:
        return strategy.plan(schema, workload, budget, **other)

    def asked(
        schema: Schema, *queries: Query, budget: Budget = pure, relation: Neighbours = Neighbours.ADD_REMOVE
    ) -> Plan:
        return planned_queries(queries, schema, budget, relation)

    return {
        "flat, 1 table": planned(Flat(), two, pair, pure),
        "flat, replace": planned(Flat(), two, pair, pure, neighbours=replace),
        "flat, units of 2 rows": planned(Flat(), schema_of(2, 2, unit=Unit("id", 2)), pair, pure),
        "direct, 2 tables": planned(Direct(budgets="uniform"), two, singles, pure),
        "direct, 3 tables": planned(Direct(budgets="uniform"), two, None, pure),
        "direct, replace": planned(Direct(), one, None, pure, neighbours=replace),
        "views": planned(Views(size=2, cover=2, rows=100), two, pair, pure),
        "clustered": planned(GreedyMerge(), two, singles, pure),
        "fourier": planned(Fourier(), one, None, pure),
        "grouped cells": asked(schema_of(3), Cells(("a",), {"a": [0, 0, 1]})),
        "grouped cells, 2 tables": asked(schema_of(2, 3), Cells(("a",)), Cells(("b",), {"b": [0, 0, 1]})),
        "a linear query": asked(schema_of(3), Linear((Term(1, (("a", (0, 1, 5)),)),))),
        "2 linear queries": asked(
            two, Linear((Term(2, (("a", (1, 0)),)), Term(-1, (("b", (0, 1)),)))), Linear((Term(1, (("b", (0, 1)),)),))
        ),
        "prefixes, by a matrix": asked(schema_of(3), Cells(()), Kronecker(("a",), {"a": [[1, 0, 0], [1, 1, 0]]})),
        "ranges, by a matrix": asked(one, Kronecker(("a",), {"a": [[1, 0], [0, 1], [1, 1]]})),
        "ranges, by a matrix, replace": asked(one, Kronecker(("a",), {"a": [[1, 0], [1, 1]]}), relation=replace),
        "ranges, by a matrix, rho": asked(one, Kronecker(("a",), {"a": [[1, 0], [1, 1]]}), budget=rho),
        "flat, rho": planned(Flat(), two, pair, rho),
        "direct, rho, 2 tables": planned(Direct(), two, singles, rho),
        "residual, rho": planned(Residual(), schema_of(3), None, rho),
        "residual, rho, replace": planned(Residual(), schema_of(2, 2), None, rho, neighbours=replace),
        "flat, epsilon and delta": planned(Flat(), one, None, approximate),
    }


def _staged_plans() -> dict[str, Plan]:
    """Strategies that see what they measured: each stage is a game with its own share of epsilon 1."""
    budget = Budget(epsilon=1)
    return {
        "two-stage": TwoStage().plan(schema_of(2, 2), None, budget),
        "mwem": MWEM(rounds=1).plan(schema_of(2, 2), None, budget),
        "adaptive": Adaptive(rounds=1).plan(schema_of(2, 2, 2), None, budget),
    }


def _plan_game(subject: str, plan: Plan, share: float | None = None) -> Game:
    requests, schema = json_requests(plan), plan.schema.to_dict()
    pairs = worst_pairs(requests, schema, str(plan.neighbours), pure=plan.budget.pure)
    pair = min(pairs, key=lambda each: _places_moved(plan, each))
    laws = [
        Law(noise["kind"], noise["scale"], *(answer(query, schema, rows) for rows in (pair.before, pair.after)))
        for query, noise in requests
    ]
    if isinstance(plan.requests[0].query, Choice):
        return _choice_game(subject, plan, laws[0], pair)
    pure = plan.budget.pure
    exact = float(pair.loss) if pure else 2 * NormalDist().inv_cdf(best_accuracy(laws))
    return Game(
        subject,
        partial(_central_draw, plan, laws),
        likelihood_rules(laws),
        # Gaussian noise is compared with the exact curve of the law that the plan states
        claimed=float(plan.own_budget.amount) if pure else exact,
        exact=exact,
        unit="ε" if pure else "μ",
        share=share if share is not None else LAPLACE_SHARE if pure else GAUSSIAN_SHARE,
    )


def _places_moved(plan: Plan, pair: Pair) -> tuple[int, int]:
    """Which pair to play, of those with the same loss: the least one.

    The fewer numbers differ, the oftener all of them lie beyond. And if they stand at different places of their
    answers, then a number that moves has one that does not at its own place of another answer: noise that is used for
    both answers cancels in the difference.
    """
    schema = plan.schema.to_dict()
    both = ([answer(query, schema, rows) for query, _ in json_requests(plan)] for rows in (pair.before, pair.after))
    moved = [np.flatnonzero(a != b).tolist() for a, b in zip(*both, strict=True)]
    return sum(map(len, moved)), -len({place for places in moved for place in places})


def _central_draw(plan: Plan, laws: Sequence[Law], coins: NDArray[np.bool_]) -> Drawn:
    """What the door draws, for as many tables at once as there are coins."""
    answers = [np.where(coins[:, None], law.first, law.second) for law in laws]
    return sampler_of(plan)(answers)


def _choice_game(subject: str, plan: Plan, law: Law, pair: Pair) -> Game:
    """Guess the table under which the candidate that was chosen is likelier, where its ratio is the largest."""
    chances = [np.log(choice_probabilities(scores, law.scale)) for scores in (law.first, law.second)]
    ratio = chances[0] - chances[1]
    best = int(np.abs(ratio).argmax())
    side = 1 if ratio[best] > 0 else -1

    def draw(coins: NDArray[np.bool_]) -> Drawn:
        draw_one, sides = sampler_of(plan), (law.second, law.first)
        chosen = [draw_one([sides[int(coin)]])[0] for coin in coins]
        return [np.array(chosen, np.int64).reshape(-1, 1)]

    rules = (
        Rule(
            "the candidate of the largest ratio", lambda seen: np.where(seen[0][:, 0] == best, side, 0).astype(np.int8)
        ),
        Rule("likelier", lambda seen: np.sign(ratio[seen[0][:, 0]]).astype(np.int8)),
    )
    claimed = float(plan.own_budget.amount)
    return Game(f"{subject}, a choice", draw, rules, claimed=claimed, exact=float(pair.loss), fewer=4)


def _repeat_game() -> Game:
    """Draw the same answer again and again: a seed that is fixed shows itself by giving what it gave before."""
    plan = Flat().plan(schema_of(2, 2, 2, 3), None, Budget(epsilon="0.1"))
    first = np.full(24, 5, np.int64)
    second = first + (np.arange(24) == 0)

    def draw(coins: NDArray[np.bool_]) -> Drawn:
        before = sampler_of(plan)([first])[0]
        return [np.array([sampler_of(plan)([first if coin else second])[0] for coin in coins]), before]

    rule = Rule("the same again", lambda seen: (seen[0] == seen[1]).all(axis=1).astype(np.int8))
    return Game("flat, drawn again and again", draw, (rule,), claimed=0.1, exact=0.1, fewer=DRAWS, least=2 * _REPEATS)


# Local


def _report_game(subject: str, oracle: Oracle, draw: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Game:
    """Guess between the two rows that an answer can tell apart best; silent unless its ratio is the largest."""
    channel = defined_channel(oracle.to_dict())
    first, second = _rows_apart(channel)
    ratios = {each: chance / channel[second][each] for each, chance in channel[first].items()}
    most = max(*ratios.values(), 1 / min(ratios.values()))
    speaks = {each: 1 if ratio == most else -1 for each, ratio in ratios.items() if ratio in (most, 1 / most)}
    columns = np.array([second, first], np.int64).T

    def answers(coins: NDArray[np.bool_]) -> Drawn:
        return [draw(np.ascontiguousarray(columns[:, coins.astype(np.intp)])).astype(np.int64).reshape(-1, 1)]

    def guess(seen: Drawn) -> Guess:
        kinds, places = np.unique(seen[0][:, 0], return_inverse=True)
        return np.array([speaks.get(int(kind), 0) for kind in kinds], np.int8)[places.ravel()]

    loss = math.log(most)
    return Game(subject, answers, (Rule("the largest ratio", guess),), claimed=1.0, exact=loss, share=LAPLACE_SHARE)


def _rows_apart(channel: Channel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rows that are told apart best, and of those most often."""
    rows = list(channel)

    def apart(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[Fraction, Fraction]:
        own, other = channel[pair[0]], channel[pair[1]]
        most = max(chance / other[each] for each, chance in own.items())
        return most, sum((chance for each, chance in own.items() if chance == most * other[each]), Fraction(0))

    return max(((a, b) for a in rows for b in rows if a != b), key=apart)


def _device_draw(oracle: Oracle, codes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """One report after the other, as devices draw them."""
    given, source = oracle.to_dict(), client.SecureSource()
    return np.array([client.draw(given, person, source) for person in codes.T.tolist()], np.uint64)
