"""Bulk reports: the same law as on a device, for every oracle."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally.local import client
from crosstally.local.bulk import answers, reports
from crosstally.local.collector import Collector
from crosstally.local.oracles import RandomisedResponse, UnaryEncoding, view_oracles
from crosstally.local.protocol import design
from crosstally.local.residual_oracles import EachAttribute, ResidualBit
from crosstally.schema import Attribute, Schema
from reference_local import distribution

SIZES = (3, 2)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("number", [100_000, pytest.param(4_000_000, marks=pytest.mark.verify)])
def test_answers_follow_the_law_of_the_device(place, number) -> None:
    """Chi-square against the exact law of the client, false alarm 1e-7; a law off by 5% in one answer is rejected."""
    from scipy.stats import chi2

    epsilon = Fraction(1)
    oracle = [*view_oracles(SIZES, epsilon), ResidualBit.of(SIZES, epsilon), EachAttribute.of(SIZES, epsilon)][place]
    codes = (2, 1)
    law = distribution(lambda source: client.draw(oracle.to_dict(), codes, source))
    drawn = answers(oracle, np.repeat(np.array(codes)[:, None], number, axis=1))
    found, counts = np.unique(drawn, return_counts=True)
    assert set(found.tolist()) <= set(law)
    seen = dict(zip(found.tolist(), counts.tolist(), strict=True))
    observed = np.array([seen.get(answer, 0) for answer in law])
    expected = number * np.array([float(probability) for probability in law.values()])
    limit = chi2.isf(1e-7, len(law) - 1)
    assert ((observed - expected) ** 2 / expected).sum() < limit
    top = expected.argmax()
    wrong = expected * (number - 1.05 * expected[top]) / (number - expected[top])
    wrong[top] = 1.05 * expected[top]
    if wrong[top] > 20_000:  # an answer this common shows an error of 5%
        assert ((observed - wrong) ** 2 / wrong).sum() > limit


def test_groups_are_drawn_by_their_shares() -> None:
    """Each group's count within 6 standard deviations of 100,000 x its share: false alarm below 1e-6 for 10 groups."""
    schema = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2")), Attribute("c", ("0", "1"))))
    protocol = design(schema, epsilon=1, people=100_000, ways=2, method="residuals")
    drawn = reports(protocol, np.zeros((3, 100_000), int))
    shares = np.array([group.share for group in protocol.groups], float)
    expected = 100_000 * shares / shares.sum()
    counts = np.bincount(drawn["group"], minlength=len(shares))
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()
    assert Collector(protocol).add_many(drawn).accepted == 100_000
    assert len(np.unique(drawn["id"])) == 100_000


def test_what_cannot_be_drawn_is_refused() -> None:
    schema = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2"))))
    protocol = design(schema, epsilon=1, people=1000, ways=2)
    with pytest.raises(CrosstallyError, match="2 rows"):
        reports(protocol, np.zeros((3, 5), int))
    with pytest.raises(CrosstallyError, match="numbers of the attributes' cells"):
        reports(protocol, np.array([[0, 1], [3, 0]]))
    with pytest.raises(CrosstallyError, match="multiples of 1/4294967296"):
        answers(RandomisedResponse((3,), Fraction(2, 3)), np.zeros((1, 5), int))
    with pytest.raises(CrosstallyError, match="probability 1/2"):
        answers(UnaryEncoding((3,), own=Fraction(3, 4), other=Fraction(1, 4)), np.zeros((1, 5), int))
    assert len(reports(protocol, np.zeros((2, 0), int))) == 0
