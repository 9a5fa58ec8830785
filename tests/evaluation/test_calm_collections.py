"""Simulated collections have the law of real reports: exactly for each person, and for whole collections by a test."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from crosstally.evaluation.calm_collections import collection, report_law
from crosstally.local import Collector, client, design
from crosstally.local.bulk import reports
from crosstally.local.groups import Group, view_groups
from crosstally.local.oracles import UnaryEncoding, view_oracles
from crosstally.local.residual_oracles import EachAttribute, ResidualBit
from crosstally.schema import Attribute, Schema
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
        for report, probability in distribution(lambda source, row=row: client.draw(described, row, source)).items():
            masked = oracle.kind == "subset-selection"
            added = [report >> i & 1 for i in range(oracle.slots)] if masked else [0] * oracle.slots
            if not masked:
                added[report] = 1
            assert found.pop(tuple(added)) == pytest.approx(float(probability), abs=1e-12)
        assert not found


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


@pytest.mark.parametrize("oracle", WHOLE, ids=lambda o: o.kind)
@pytest.mark.parametrize("chance", [0.3, 0.7])
def test_collections_have_the_law_of_real_ones(oracle, chance) -> None:
    """Two-sample Kolmogorov-Smirnov on counts of 400 people, 600 collections, false alarm 1e-6 over all cases.

    What is compared weighs the slots unevenly, so that wrong sums and wrong covariances show. Real reports come from
    people of chance 0.3; simulated ones of chance 0.7 must be told apart.
    """
    from scipy.stats import ks_2samp

    protocol = protocol_of(oracle, design(SCHEMA, epsilon=4, people=400, ways=2, method="views"))
    codes, others = rows_of(400, 0.3), rows_of(400, chance)
    random = np.random.default_rng(4)
    weights = random.standard_normal(oracle.slots)
    real, simulated = [], []
    for _ in range(600):
        collector = Collector(protocol)
        collector.add_many(reports(protocol, codes))
        real.append(weights @ collector._counts[: oracle.slots])
        people, counts = collection(protocol, others, random)
        assert people.sum() == 400
        simulated.append(weights @ counts[0])
    p_value = ks_2samp(np.round(real, 9), np.round(simulated, 9)).pvalue
    if chance == 0.3:
        assert p_value > 1e-6 / len(WHOLE)
    else:
        assert p_value < 1e-6
