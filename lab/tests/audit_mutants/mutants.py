"""The mutants: each changes the package in memory, in a process or a test of its own, and never on disk.

A mutant is a function that gets ``patch(where, name, value)``. Its probe is that piece of the audit which must find it,
and which holds without it: the tests run both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from crosstally import pipeline
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.plans import joint_cost
from crosstally.plans import plan as plans
from crosstally.plans.request import grouped
from crosstally.privacy import measure, noise
from crosstally.privacy.ledger import Ledger
from crosstally.query import queries
from crosstally.releases import publish
from crosstally.sources import counts
from crosstally.sources.codes.values import Bins
from crosstally.strategies import Direct, Flat
from crosstally.strategies import strategy as base
from crosstally_lab.audit import cases, end_to_end, exact, sampled
from crosstally_lab.audit.findings import Finding

__all__ = ["MUTANTS", "Mutant"]

Patch = Callable[[Any, str, Any], None]
DRAWS = 100_000


@dataclass(frozen=True)
class Mutant:
    name: str
    part: str
    apply: Callable[[Patch], None]
    probe: Callable[[], Finding]


# Probes


def game(subject: str) -> Callable[[], Finding]:
    return lambda: sampled.audit_sampled(subject, DRAWS)


def planned(strategy: Any, budget: Budget, relation: Neighbours = Neighbours.ADD_REMOVE) -> Callable[[], Finding]:
    def probe() -> Finding:
        plan = strategy.plan(cases.schema_of(2, 3), None, budget, neighbours=relation)
        return exact.plan_finding(cases.PlanCase(strategy.name, plan))

    return probe


def counted(subject: str) -> Callable[[], Finding]:
    def probe() -> Finding:
        found = [each for each in exact.row_findings() if each.subject == subject]
        return max(found, key=lambda each: each.exact or 0.0)

    return probe


def whole(subject: str, releases: int) -> Callable[[], Finding]:
    def probe() -> Finding:
        from crosstally_lab.commands.audit import _run_command

        (configuration,) = (each for each in end_to_end.CONFIGURATIONS if each.subject == subject)
        return end_to_end.whole_finding(configuration, _run_command, releases, 1e-5)

    return probe


# Mutants of noise


def smaller_scale(patch: Patch) -> None:
    build = noise.mechanism
    patch(measure, "mechanism", lambda asked, _, picks=1: build(Noise(asked.kind, 0.9 * asked.scale), [], picks=picks))


def view_without_noise(patch: Patch) -> None:
    draw = measure._draw

    def drawn(answers: Any, plan: Any, mechanisms: Any) -> Any:
        return [*draw(answers, plan, mechanisms)[:-1], answers[-1]]

    patch(measure, "_draw", drawn)


def reused_noise(patch: Patch) -> None:
    draw = measure._draw

    def drawn(answers: Any, plan: Any, mechanisms: Any) -> Any:
        first, *_ = draw(answers, plan, mechanisms)
        return [answer + (first - answers[0]) for answer in answers]  # tables of one shape

    patch(measure, "_draw", drawn)


def fixed_seed(patch: Patch) -> None:
    def drawn(self: noise.Mechanism, values: Any) -> Any:
        random = np.random.default_rng(0)
        chance = -math.expm1(-1 / self.noise.scale)
        return values + random.geometric(chance, values.shape) - random.geometric(chance, values.shape)

    patch(noise.Mechanism, "draw", drawn)


def lost_sign(patch: Patch) -> None:
    draw = noise.Mechanism.draw
    patch(noise.Mechanism, "draw", lambda self, values: values + np.abs(draw(self, values) - values))


# Mutants of plans


def one_view_counted(patch: Patch) -> None:
    """Each table gets the whole budget, and the cost of a plan is that of its dearest request."""
    share, cost = base.requests_with_shares, joint_cost.groups_cost

    def whole_budget(asked: Any, given: Any, schema: Any, budget: Any, relation: Any) -> Any:
        return tuple(share([each], [1.0], schema, budget, relation)[0] for each in asked)

    def dearest(groups: Any, schema: Any, relation: Any, *, currency: Any) -> Fraction:
        requests = [request for group in groups for request in group.requests(schema)]
        return max(cost(grouped([each], schema), schema, relation, currency=currency) for each in requests)

    patch(base, "requests_with_shares", whole_budget)
    patch(plans, "groups_cost", dearest)


def lost_root_of_two(patch: Patch) -> None:
    """rho = Delta^2 / (4 s^2) instead of Delta^2 / (2 s^2), wherever noise is bought and charged."""
    buy, cost = Noise.affordable, joint_cost.groups_cost

    def bought(sensitivity: Any, amount: Fraction, *, currency: Any) -> Noise:
        bought = buy(sensitivity, amount, currency=currency)
        return bought if bought.kind is NoiseKind.LAPLACE else Noise(bought.kind, bought.scale / math.sqrt(2))

    patch(Noise, "affordable", staticmethod(bought))
    patch(
        plans,
        "groups_cost",
        lambda *given, currency: (
            cost(*given, currency=currency) / (1 if currency == "epsilon" else Fraction(2)) * Fraction("0.999")
        ),
    )


def replace_as_add_remove(patch: Patch) -> None:
    moved, cost = queries.Product.sensitivity, joint_cost.groups_cost
    patch(queries.Product, "sensitivity", lambda self, schema, _: moved(self, schema, Neighbours.ADD_REMOVE))
    for where in (plans, base):
        patch(
            where,
            "groups_cost",
            lambda groups, schema, _, *, currency: cost(groups, schema, Neighbours.ADD_REMOVE, currency=currency),
        )


# Mutants of counting


def bounds_from_data(patch: Patch) -> None:
    """Bins are cut at the median of the rows instead of at the schema's edges."""

    def floats(self: Bins, values: Any) -> Any:
        middle = np.nanmedian(values) if len(values) else 0.0
        return np.where(np.isnan(values), self.labels, (values >= middle).astype(int)).astype(self.dtype)

    patch(Bins, "floats", floats)


def one_row_too_many(patch: Patch) -> None:
    keep = counts.smallest
    patch(counts, "smallest", lambda own, hashes, columns, most: keep(own, hashes, columns, most + 1))


# Mutants of what is recorded


def charged_once(patch: Patch) -> None:
    """What was bought once is measured again without a charge."""
    measured, delivered = measure.measure_counted, Ledger.delivered

    def again(count: Any, plan: Any, *, ledger: Ledger, key: str) -> Any:
        if not ledger.entries():
            return measured(count, plan, ledger=ledger, key=key)
        answers = measure._exact_answers(count(), plan)
        numbers = measure.sampler_of(plan)(answers)
        return tuple(
            Measurement(each.query, values, variance=each.noise.variance, noise=each.noise, origin="entry 1")
            for each, values in zip(plan.requests, numbers, strict=True)
        )

    def told(self: Ledger, key: str) -> None:
        if any(entry.key == key for entry in self.entries()):
            delivered(self, key)

    patch(measure, "measure_counted", again)
    patch(Ledger, "delivered", told)


def leaked_number_of_rows(patch: Patch) -> None:
    count = pipeline._Rows.count
    seen: list[int] = []

    def counted_rows(self: Any, plan: Any) -> Any:
        tables = count(self, plan)
        seen.append(int(tables[0].counts.sum()))
        return tables

    patch(pipeline._Rows, "count", counted_rows)
    patch(pipeline, "publish", lambda schema, own, statement: publish(schema, own, replace(statement, rows=seen[-1])))


MUTANTS = (
    Mutant("scale x 0.9", "sampled", smaller_scale, game("flat, 1 table")),
    Mutant("sensitivity without the number of views", "exact", one_view_counted, planned(Direct(), Budget(epsilon=1))),
    Mutant("sqrt 2 lost", "exact", lost_root_of_two, planned(Flat(), Budget(rho="1/2"))),
    Mutant("one view without noise", "sampled", view_without_noise, game("direct, 2 tables")),
    Mutant("noise reused", "sampled", reused_noise, game("direct, 2 tables")),
    Mutant("two releases charged once", "end to end", charged_once, whole("two releases, and one too many", 4)),
    Mutant("fixed seed", "sampled", fixed_seed, game("flat, drawn again and again")),
    Mutant("lost sign", "sampled", lost_sign, game("flat, 1 table")),
    Mutant("bounds from data", "exact", bounds_from_data, counted("counting, one row a unit")),
    Mutant("N leaked", "end to end", leaked_number_of_rows, whole("flat", 16)),
    Mutant(
        "replace treated as add-remove",
        "exact",
        replace_as_add_remove,
        planned(Flat(), Budget(epsilon=1), Neighbours.REPLACE),
    ),
    Mutant(
        "a unit with one row too many",
        "exact",
        one_row_too_many,
        counted("counting, at most 2 rows of a unit are kept"),
    ),
)
