"""Bulk reports: wide masks, groups, what cannot be drawn. Laws of answers are in the contract of oracles."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally.local.bulk import answers, reports
from crosstally.local.collector import Collector
from crosstally.local.oracles.answers import filled
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.local.protocol import design
from crosstally.schema import Attribute, Schema


@pytest.mark.parametrize("cells", [17, 40, 64])
def test_wide_masks_follow_the_law_of_the_device(cells) -> None:
    """Each bit's count within 6 standard deviations, pairs uncorrelated within 6: false alarm below 1e-5 in all."""
    oracle, number = UnaryEncoding.of((cells,), Fraction(1)), 60_000
    own = np.arange(number) % cells
    masks = answers(oracle, own[None])
    assert int(masks.max()) < 2**cells
    bits = (masks[:, None] >> np.arange(cells, dtype=np.uint64) & np.uint64(1)).astype(float)
    expected = np.where(own[:, None] == np.arange(cells), 0.5, float(oracle.other))
    spread = np.sqrt((expected * (1 - expected)).sum(axis=0))
    assert (np.abs((bits - expected).sum(axis=0)) < 6 * spread).all()
    assert np.abs((bits - 1.05 * expected).sum()) > 6 * np.sqrt((spread**2).sum())
    scaled = (bits - expected) / np.sqrt(expected * (1 - expected))
    joint = scaled.T @ scaled / np.sqrt(number)
    np.fill_diagonal(joint, 0)
    assert np.abs(joint).max() < 6.5
    owned = bits[np.arange(number), own].sum()
    assert abs(owned - number / 2) < 6 * np.sqrt(number / 4)


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


def test_words_that_run_out_are_added_to_not_replaced() -> None:
    """A kernel that fails twice sees the words it saw before, and more."""
    seen = []

    def draw(words, out):
        seen.append(words.copy())
        return -1 if len(seen) < 3 else 0

    filled(4, 1, draw)
    assert [len(words) for words in seen] == [len(seen[0]) * times for times in (1, 2, 3)]
    assert (seen[2][: len(seen[1])] == seen[1]).all()
    assert (seen[1][: len(seen[0])] == seen[0]).all()
