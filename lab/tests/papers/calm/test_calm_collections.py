"""Simulated collections have the law of real reports: exactly for each person, and for whole collections by a test."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest

from crosstally.local import Collector, client, design
from crosstally.local.bulk import reports
from crosstally.local.oracles import view_oracles
from crosstally.local.oracles.answers import rounded_down
from crosstally.local.oracles.hadamard_response import ResidualBit
from crosstally.local.oracles.randomised_response import EachAttribute
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.local.planning.report_groups import Group, view_groups
from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.calm.simulated import collection, report_law
from reference_local import distribution

SCHEMA = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2")), Attribute("c", ("0", "1"))))
ALL = [
    oracle
    for sizes in ((2,), (2, 3))
    for oracle in (*view_oracles(sizes, Fraction(1)), ResidualBit.of(sizes, Fraction(1)))
]


@pytest.mark.parametrize("oracle", [o for o in ALL if not isinstance(o, UnaryEncoding)], ids=lambda o: o.kind)
def test_the_law_of_a_report_is_the_clients_own(oracle) -> None:
    """Every report of every row: the probabilities of the client's own draws, followed through all branches."""
    law, slots = report_law(oracle)
    described = oracle.to_dict()
    for place, row in enumerate(product(*map(range, oracle.sizes))):
        found = {tuple(slots[i]): p for i, p in enumerate(law[place]) if p > 0}
        for report, probability in distribution(partial(client.draw, described, row)).items():
            masked = oracle.kind == "subset-selection"
            added = [report >> i & 1 for i in range(oracle.slots)] if masked else [0] * oracle.slots
            if not masked:
                added[report] = 1
            assert found.pop(tuple(added)) == pytest.approx(float(probability), abs=1e-12)
        assert not found


def test_the_bits_of_unary_encoding_are_the_clients_own() -> None:
    """Every one of 64 reports of every row: bits are drawn apart, each with the probability that the simulation has."""
    oracle = UnaryEncoding.of((2, 3), Fraction(1))
    described = oracle.to_dict()
    for place, row in enumerate(product(range(2), range(3))):
        found = distribution(partial(client.draw, described, row))
        assert len(found) == 64
        for report, probability in found.items():
            set_bits = [report >> i & 1 for i in range(6)]
            chances = [oracle.own if i == place else oracle.other for i in range(6)]
            law = prod(c if bit else 1 - c for c, bit in zip(chances, set_bits, strict=True))
            assert float(probability) == pytest.approx(float(law), abs=1e-12)


def rows_of(people, chance):
    random = np.random.default_rng(0)
    a = (random.random(people) < chance).astype(np.uint8)
    return np.stack([a, (a + random.integers(0, 2, people)) % 3, a ^ (random.random(people) < 0.3)]).astype(np.uint8)


def protocol_of(oracle, base):
    """Half of all people answer about a and b by an oracle, the others about c."""
    other = view_groups(base.schema.shape, [(2,)], base.epsilon)[0]
    attributes = (0, 1, 2)[: len(oracle.sizes)]
    return type(base)(
        schema=base.schema,
        epsilon=base.epsilon,
        people=base.people,
        ways=base.ways,
        method="views",
        minimum=1,
        groups=(Group(attributes, oracle=oracle, share=1), Group((2,), oracle=other.oracle, share=1)),
    )


CLEAR = Fraction(4)
WHOLE = [*view_oracles((2, 3), CLEAR), ResidualBit.of((2, 3), CLEAR), EachAttribute.of(SCHEMA.shape, CLEAR)]


def less(probability):
    return rounded_down(probability * 3 / 4)


def with_less_kept(oracle):
    """The same oracle, telling the truth less often by a quarter."""
    if isinstance(oracle, EachAttribute):
        return replace(oracle, keeps=tuple(map(less, oracle.keeps)))
    name = "own" if isinstance(oracle, UnaryEncoding) else "keep"
    return replace(oracle, **{name: less(getattr(oracle, name))})


@pytest.mark.parametrize("oracle", WHOLE, ids=lambda o: o.kind)
@pytest.mark.parametrize("wrong", ["nothing", "people", "probabilities"])
def test_collections_have_the_law_of_real_ones(oracle, wrong) -> None:
    """Two-sample Kolmogorov-Smirnov on counts of 400 people, 600 collections, false alarm 1e-6 over all cases.

    What is compared weighs the slots by how far they are from the mean in 100 more real collections, so that wrong
    sums and wrong covariances show. Other people, or a quarter less of the truth kept, must be told apart.
    """
    from scipy.stats import ks_2samp

    base = design(SCHEMA, epsilon=4, people=400, ways=2, method="views")
    protocol = protocol_of(oracle, base)
    simulated = protocol_of(with_less_kept(oracle), base) if wrong == "probabilities" else protocol
    codes, others = rows_of(400, 0.3), rows_of(400, 0.7 if wrong == "people" else 0.3)
    random = np.random.default_rng(4)
    real, drawn = [], []
    for _ in range(700):
        collector = Collector(protocol)
        collector.add_many(reports(protocol, codes))
        real.append(collector._counts[: oracle.slots].copy())
    for _ in range(600):
        people, counts = collection(simulated, others, random)
        assert people.sum() == 400
        drawn.append(counts[0])
    seen = np.mean(real[:100], axis=0)
    p_value = ks_2samp(real[100:] @ (seen - seen.mean()), drawn @ (seen - seen.mean())).pvalue
    if wrong == "nothing":
        assert p_value > 1e-6 / len(WHOLE)
    else:
        assert p_value < 1e-6
