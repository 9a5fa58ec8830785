"""What a release measured, in the form that mbi (Private-PGM) takes: to fit a graphical model of one's own to it.

Free, as everything that is made of measurements. Needs mbi and its jax, of any version from 1.1 on.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from crosstally.checks import optional
from crosstally.errors import ReleaseError
from crosstally.measurements import Measurement
from crosstally.releases import Release
from crosstally.schema import Schema


def to_mbi(release: Release) -> tuple[Any, list[Any]]:
    """The domain and the measurements of a release, for the estimators of mbi.

    ``mbi.estimation.MirrorDescent().estimate(*to_mbi(release))`` fits a graphical model to them. Values are numbered
    in the order of the schema's labels. Each measurement has the standard deviation of its noise; mbi takes all noise
    for Gaussian.

    Args:
        release: Any whose measurements are cells or contrasts of values; groups and matrices mbi cannot take.
    """
    mbi = optional("mbi", extra="mbi")
    schema = release.schema
    return mbi.Domain(schema.names, schema.shape), [_handed_on(each, schema, mbi) for each in release.measurements]


def _handed_on(measurement: Measurement, schema: Schema, mbi: Any) -> Any:
    query, deviation = measurement.query, math.sqrt(measurement.variance)
    values = measurement.values.astype(float).ravel()
    if query.is_residual and query.is_symmetric:
        sizes = schema.sizes(query.attributes)
        return mbi.LinearMeasurement(values, query.attributes, stddev=deviation, query=partial(_contrasted, sizes))
    if not query.is_symmetric:
        raise ReleaseError(
            f"mbi takes cells and contrasts of values; the table of {' x '.join(query.attributes)} was measured in "
            "groups or by a matrix: release with another strategy"
        )
    return mbi.LinearMeasurement(values, query.attributes, stddev=deviation)


def _contrasted(sizes: tuple[int, ...], factor: Any) -> Any:
    """The contrast of a factor's table, by plain operators, which jax can trace.

    It is the map of ``query/operators``: along each attribute n x - sum, or the difference where there are two.
    """
    values = factor.values
    for axis, size in enumerate(sizes):
        total = values.sum(axis=axis, keepdims=True)
        first = (slice(None),) * axis + (slice(0, 1),)
        values = 2 * values[first] - total if size == 2 else size * values - total
    return values.ravel()
