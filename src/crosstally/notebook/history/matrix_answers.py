"""Measurements of a release that used a matrix along an attribute, as linear answers for the history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.query.linear import Linear, Term
from crosstally.schema import Schema

_MOST_ANSWERS = 1_500
"""Answers taken from all such measurements together, about ten seconds of a history; the largest are left out first."""


def answers_of_matrices(schema: Schema, measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Each number of the measurements by matrices as one linear answer; those of few numbers first."""
    out: list[Measurement] = []
    by_matrix = (m for m in measurements if m.query.matrices)
    for measurement in sorted(by_matrix, key=lambda m: m.values.size):
        if len(out) + measurement.values.size > _MOST_ANSWERS:
            break
        try:
            out.extend(_answers(schema, measurement))
        except QueryError:  # whole numbers that are too large for one answer
            continue
    return tuple(out)


def _answers(schema: Schema, measurement: Measurement) -> Iterator[Measurement]:
    query = measurement.query
    rows = [[tuple(row) for row in axis.tolist()] for axis in query.matrices_along(schema)]
    for own, value in zip(product(*rows), measurement.values.ravel().tolist(), strict=True):
        if math.prod(max(map(abs, row)) for row in own) == 0:  # a row of zeros says nothing
            continue
        linear = Linear((Term(1, tuple(zip(query.attributes, own, strict=True))),))
        linear.shape(schema)
        yield Measurement(
            linear, np.array(value), variance=measurement.variance, noise=measurement.noise, origin=measurement.origin
        )
