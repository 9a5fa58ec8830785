"""Several picks of one private choice, and nothing among its candidates: the law, the cost and what is published."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import PlanError, ReleaseError
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy.accounting import tight_epsilon
from crosstally.privacy.measure import sampler_of
from crosstally.query.choice import Choice
from crosstally.query.query_json import query_from_dict
from crosstally.releases import open_release
from crosstally.schema import Schema, Unit
from crosstally.workload import Workload
from reference_privacy import answer, brute_force_choice, brute_force_spent, neighbouring_tables

TOY = schema_of(2, 3)
PICKS = Choice(
    [(), ("a0",), ("a1",), ("a0", "a1")],
    [[], [1, 0], [0, 2], [1, 0, 0, 1]],
    weights=["1", "1/2", "1/3", "1"],
    penalties=[-3, 0, 1, 2],
    picks=2,
    groups={"a1": [0, 1, 1]},
)
SCHEMAS = {"rows": TOY, "units of up to 2 rows": schema_of(2, 3, unit=Unit("id", 2))}


def plan_of(*requests: Request, budget: Budget, schema: Schema = TOY, relation: str = "add-remove") -> Plan:
    neighbours = Neighbours(relation)
    workload = Workload.small_tables(schema)
    return Plan(schema, requests, strategy="test", workload=workload, budget=budget, neighbours=neighbours)


def in_turn(scores: list[int], scale: float, picks: int) -> dict[tuple[int, ...], float]:
    """The law of so many exponential mechanisms, each among the candidates that are left."""
    out = {}
    for order in permutations(range(len(scores)), picks):
        left, chance = list(range(len(scores))), 1.0
        for i in order:
            weights = {j: math.exp((scores[j] - max(scores)) / scale) for j in left}
            chance *= weights[i] / sum(weights.values())
            left.remove(i)
        out[order] = chance
    return out


def test_picks_have_the_law_of_one_choice_after_another() -> None:
    """False alarms: one in a million. 1.3 times the scale, and the second pick before the first, are rejected."""
    scale, times = 12.0, 6_000
    rows = ((0, 0), (0, 2), (0, 1), (1, 0), (1, 0))
    request = Request(PICKS, Noise(NoiseKind.GUMBEL, scale))
    plan = plan_of(*[request] * times, budget=Budget(epsilon=10**6))
    scores = answer(PICKS.to_dict(), TOY.to_dict(), rows)
    # By hand: nothing 3; a0 (3, 2), 2 + 2; a1 in groups (3, 2), 3 + 0, less 1; both (1, 2, 2, 0), 0 + 2 + 2 + 1, less 2
    assert scores == [6 * 3, 3 * 4, 2 * 2, 6 * 3]
    drawn = sampler_of(plan)([np.array(scores, np.int64)] * times)
    assert all(each.shape == (2,) for each in drawn)
    found = Counter(tuple(each.tolist()) for each in drawn)

    def fits(law: dict[tuple[int, ...], float]) -> bool:
        statistic = sum((found[order] - times * p) ** 2 / (times * p) for order, p in law.items())
        return float(chi2.sf(statistic, len(law) - 1)) > 1e-6

    law = in_turn(scores, scale, 2)
    turned = {order[::-1]: chance for order, chance in law.items()}
    assert [fits(law), fits(in_turn(scores, scale * 1.3, 2)), fits(turned)] == [True, False, False]


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
@pytest.mark.parametrize("about", SCHEMAS)
def test_nothing_and_groups_move_no_score_farther(about: str, relation: Neighbours) -> None:
    schema = SCHEMAS[about]
    claimed = PICKS.sensitivity(schema, relation)
    by_hand = 6 * schema.max_rows * (2 if relation == Neighbours.REPLACE else 1)
    assert (claimed.l1, claimed.l2_squared) == (by_hand, by_hand**2)
    others = 1 if schema.max_rows == 2 else 3
    assert brute_force_choice(PICKS.to_dict(), schema.to_dict(), relation.value, others) == by_hand


@pytest.mark.parametrize("picks", [1, 2, 3])
@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_no_neighbours_are_told_apart_beyond_the_cost(relation: Neighbours, picks: int) -> None:
    """By enumeration of all ordered picks: losses are at most epsilon, Renyi divergences at most alpha rho."""
    choice = query_from_dict({"choice": {**PICKS.to_dict()["choice"], "picks": picks}})
    noise, given, query = Noise(NoiseKind.GUMBEL, 7.0), TOY.to_dict(), choice.to_dict()
    costs = [
        float(plan_of(Request(choice, noise), budget=budget, relation=str(relation)).cost)
        for budget in (Budget(epsilon=1_000), Budget(rho=1_000))
    ]
    most = 0.0
    for before, after in neighbouring_tables(given, relation.value, 1):
        for one, two in ((before, after), (after, before)):
            p, q = (in_turn(answer(query, given, rows), noise.scale, picks) for rows in (one, two))
            losses = {order: math.log(p[order] / q[order]) for order in p}
            most = max(most, *losses.values())
            for alpha in (1.5, 2.0, 8.0):
                moment = sum(p[order] * math.exp((alpha - 1) * loss) for order, loss in losses.items())
                assert math.log(moment) / (alpha - 1) <= alpha * costs[1] * (1 + 1e-9)
    assert costs[0] / picks / 3 < most <= costs[0] * (1 + 1e-12)


@pytest.mark.parametrize("budget", [Budget(epsilon=20), Budget(rho=20), Budget(epsilon=100, delta="1e-6")], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_each_pick_is_paid(relation: Neighbours, budget: Budget) -> None:
    plan = plan_of(Request(PICKS, Noise(NoiseKind.GUMBEL, 5.0)), budget=budget, relation=str(relation))
    epsilon = Fraction(2 * 6 * (2 if relation == Neighbours.REPLACE else 1), 5)
    by_hand = {"epsilon": epsilon, "rho": epsilon**2 / 8, "mu2": Fraction(11, 28) * epsilon**2}
    assert plan.cost == 2 * by_hand[budget.currency]
    assert brute_force_spent(budget, plan.schema, plan.requests, relation) <= plan.cost
    if relation == Neighbours.ADD_REMOVE:
        assert float(brute_force_spent(budget, plan.schema, plan.requests, relation)) == pytest.approx(float(plan.cost))


def test_the_tight_epsilon_counts_each_pick() -> None:
    noise = Noise(NoiseKind.GUMBEL, 120.0)
    epsilons = [
        tight_epsilon(plan_of(Request(choice, noise), budget=Budget(epsilon=20)), "1e-12")
        for choice in (PICKS, query_from_dict({"choice": {**PICKS.to_dict()["choice"], "picks": 1}}))
    ]
    assert epsilons == pytest.approx([0.2, 0.1], rel=1e-3)


def test_too_many_picks_for_the_budget_are_refused() -> None:
    with pytest.raises(PlanError, match="costs more than its budget"):
        plan_of(Request(PICKS, Noise(NoiseKind.GUMBEL, 12.0)), budget=Budget(epsilon="1.99"))


def test_what_was_picked_before_nothing_is_published(tmp_path) -> None:
    rows = pa.table({"a0": ["0"] * 30 + ["1"] * 11, "a1": ["0", "1", "2"] * 13 + ["0"] * 2})
    far = Choice([("a0",), (), ("a1",)], [[500, 500], [], [15, 13, 13]], penalties=[0, -400, 0], picks=3)
    plan = plan_of(Request(far, Noise(NoiseKind.GUMBEL, 6.0)), budget=Budget(epsilon=1), schema=TOY)
    released = ct.release(rows, plan=plan, rows=41)
    released.save(tmp_path / "r.parquet")
    for release in (released, open_release(tmp_path / "r.parquet")):
        (chosen,) = release.choices
        # Scores are 959, 400 and 0: another order has odds of exp(-400 / 6)
        assert (chosen.numbers, chosen.picked) == ((0, 1, 2), (("a0",),))
    plan.save(tmp_path / "p.json")
    assert Plan.load(tmp_path / "p.json") == plan


def test_a_release_that_says_it_picked_less_than_it_paid_for_is_refused(tmp_path) -> None:
    """A file that lists one more pick than its statement pays for costs more than it says."""
    from crosstally.measurements import Measurement
    from crosstally.releases import Statement, publish

    noise = Noise(NoiseKind.GUMBEL, 12.0)
    measured = Measurement(PICKS, np.array([3, 0]), variance=noise.variance, noise=noise, origin="x")

    def saved(epsilon: str) -> None:
        statement = Statement(strategy="t", budget=Budget(epsilon=epsilon), neighbours=Neighbours.ADD_REMOVE, rows=40)
        publish(TOY, [measured], statement).save(tmp_path / "r.parquet")

    saved("2")
    with pytest.raises(ReleaseError, match="more than its statement"):
        saved("1.99")
