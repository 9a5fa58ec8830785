"""What a schema's public counts tell before anything is measured: tables, each with the variance of its cells.

In a plan they count as measurements that cost nothing. They are no requests: nothing is asked of the rows for them, no
noise is drawn, and the noise and cost of every request follow from its own sensitivity as ever.
"""

from __future__ import annotations

import numpy as np

from crosstally.measurements import public_variance
from crosstally.query.queries import Cells
from crosstally.residuals.closure import Closure
from crosstally.residuals.variances import MeasuredAlike, Variances
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["public_precision", "public_tables"]


def public_tables(schema: Schema) -> list[MeasuredAlike]:
    """The tables whose counts are public, in the form of measurements."""
    out: list[MeasuredAlike] = []
    for fact in schema.public_counts():
        place = [] if fact.attribute is None else [schema.positions[fact.attribute]]
        out.append((Cells, np.array([place], np.intp), public_variance(fact)))
    return out


def public_precision(closure: Closure) -> Floats:
    """The precision with which public counts tell the coefficients of each set; zero for sets they do not hold."""
    return Variances(closure, public_tables(closure.schema)).precisions
