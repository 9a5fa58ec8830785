"""A release rehearsed before it is paid for: with zeros in the place of what will be measured.

Budget that was spent cannot be had back. So whatever publishing, saving or opening a release would refuse is tried
first, by the code that publishes, on the shapes of the requests: schema, groups, matrices, numbers of cells and the
size of the file's header depend on no value. Nothing is solved, so that it takes a small part of the time of planning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosstally.measurements import Measurement
from crosstally.plans.request import Request
from crosstally.query.choice import Choice
from crosstally.releases.file.header import read_header
from crosstally.releases.file.writer import header_bytes
from crosstally.releases.publication import unsolved
from crosstally.releases.statement import Statement
from crosstally.schema import Schema

__all__ = ["rehearse"]


def rehearse(schema: Schema, measured: Sequence[Measurement], requests: Sequence[Request], promise: Statement) -> None:
    """Raise unless these measurements, and answers to the requests, will make a release whose file can be read.

    ``promise`` is the statement of the release; its ``entry`` is at least as long as that of the charge.
    """
    zeros = (_zero(request, schema, promise.entry or "") for request in requests)
    release = unsolved(schema, (*measured, *zeros), promise)
    read_header(header_bytes(release), sum(each.values.size for each in release.measurements))


def _zero(request: Request, schema: Schema, origin: str) -> Measurement:
    """An answer with the shape and the noise of a request; of a choice the candidate whose number is longest."""
    query, noise = request.query, request.noise
    chosen = np.array(len(query.candidates) - 1) if isinstance(query, Choice) else np.zeros(query.shape(schema), int)
    return Measurement(query, chosen, variance=noise.variance, noise=noise, origin=origin)
