"""Pairs on trial: how large the interactions of a wide table are, before the budget goes to all of its pairs.

The belief about interactions (``belief``) was made on tables of up to 32 attributes. Where hundreds of pairs share a
budget of Laplace noise, being wrong about it is dear: all pairs are measured and none can be told from its noise. So
each attribute is first measured with one other. Let T be such a table of counts, p (n_p values) and q (n_q) its shares
along both axes, N the number of people, v the variance of the noise of a cell, I the identity and 1 a vector of ones:

    R  =  T - (sum of T) p q'  =  (I - p 1') T (I - 1 q')

is what T has beyond independence. Noise adds v (n_p - 2 + n_p p'p)(n_q - 2 + n_q q'q) to its sum of squares on average
(v times the squared norms of both factors; to first order, as p and q are noisy too), so that is subtracted. The rest
over N^2 (1 - p'p)(1 - q'q) is the squared size of the interaction: 1 for two values that are each half and imply each
other, 1 / N for a sample of independent ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from crosstally.measurements import Measurement
from crosstally.strategies.belief import LARGE
from crosstally.typing import Floats

__all__ = ["mean_square_size", "trial_pairs", "trial_share"]

_MISSED = 0.05
"""Pairs are tried where the chance that no large interaction is among them, if there are as many as believed, is below
this. A pair is large with the chance LARGE = 1/6; (5/6)^16 = 0.054 and (5/6)^17 = 0.045, so from 33 attributes on. The
usual level of a test; 0.1 would be from 25, 0.02 from 43 attributes on."""


def trial_share(attributes: int) -> Fraction:
    """Of the budget of one-way tables and trial, what the trial gets: as much for each table; 0 for too few attributes.

    >>> trial_share(48), trial_share(32)
    (Fraction(1, 3), Fraction(0, 1))
    """
    tables = math.ceil(attributes / 2)
    return Fraction(tables, tables + attributes) if (1 - LARGE) ** tables < _MISSED else Fraction(0)


def trial_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each attribute with one other at random, the same ones each time; one attribute of an odd number comes twice."""
    order = np.random.default_rng(len(names)).permutation(len(names)).tolist()
    drawn = zip(order[::2], [*order[1::2], *order[:1]], strict=False)
    return [(names[min(pair)], names[max(pair)]) for pair in drawn]


def mean_square_size(tables: Sequence[Measurement], rows: float) -> float:
    """The mean squared size of the interactions of some pairs; no less than its standard error, nor than 1 / rows.

    Sampling alone makes it 1 / rows. An estimate below its standard error cannot be told from noise, and what nobody
    can tell may be there.
    """
    squares = np.array([_square_size(np.asarray(each.values, float), each.variance, rows) for each in tables])
    return max(float(squares.mean()), float(squares.std(ddof=1)) / math.sqrt(len(squares)), 1 / max(rows, 1.0))


def _square_size(table: Floats, variance: float, rows: float) -> float:
    shares = [_shares(table.sum(axis=axis)) for axis in (1, 0)]
    beyond = table - table.sum() * np.multiply.outer(*shares)
    noise = variance * math.prod(len(p) - 2 + len(p) * float(p @ p) for p in shares)
    allowed = rows**2 * math.prod(max(1 - float(p @ p), 1 / max(rows, 1.0)) for p in shares)
    return (float((beyond**2).sum()) - noise) / allowed


def _shares(counts: Floats) -> Floats:
    above = np.maximum(counts, 0.0)
    return above / above.sum() if above.sum() > 0 else np.full(len(above), 1 / len(above))
