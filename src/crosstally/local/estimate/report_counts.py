"""Turn counts of reports into measurements: unbiased estimates of counts of all people, with their variances.

A group is a simple random sample of n of the N people, whose values are perturbed. For one report, a coefficient has
the variance of the response, which does not depend on the data, plus the variance of sampling: the mean over
coefficients of the variance of a person's own residual, (1 - sum f^2) / (c - 1) for a view of c cells and (prod(1 /
n_i) - mean r_B^2) for a residual, times (N - n) / (N - 1). The functions of the true frequencies in it are estimated
without bias and clipped to their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.local.oracles.oracle import ResidualAnswer, ResidualOracle, ViewOracle
from crosstally.local.planning.report_groups import Group
from crosstally.local.protocol import Protocol
from crosstally.measurements import Measurement
from crosstally.query.operators import contrast_variance
from crosstally.query.queries import Cells, Contrast


def measurements_of(
    protocol: Protocol, people: NDArray[np.int64], counts: Sequence[NDArray[np.int64]]
) -> tuple[Measurement, ...]:
    """The measurements of all groups in which there is somebody.

    Args:
        protocol: What was asked.
        people: How many reports each group has.
        counts: What the collector kept for each group.
    """
    total, out, origin = int(people.sum()), list[Measurement](), f"protocol {protocol.id}"
    for group, number, slots in zip(protocol.groups, people.tolist(), counts, strict=True):
        if number > 0:
            out += _measured(protocol, group, slots, Sample(number, total, origin=origin))
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Sample:
    """How many people a group has, of how many in all, and the protocol they answered."""

    people: int
    total: int
    _: KW_ONLY
    origin: str

    @property
    def left(self) -> float:
        """How much of the sampling variance is left: none when all people are in the group."""
        return (self.total - self.people) / (self.total - 1) if self.total > 1 else 0.0


def _measured(protocol: Protocol, group: Group, slots: NDArray[np.int64], sample: Sample) -> list[Measurement]:
    names = tuple(protocol.schema.names[place] for place in group.attributes)
    oracle = group.oracle
    if isinstance(oracle, ResidualOracle):
        return [_contrast(names, oracle.sizes, each, sample) for each in oracle.residuals(slots, protocol.ways)]
    assert isinstance(oracle, ViewOracle), "an oracle is for a view or for residuals"
    return [_cells(names, oracle, slots, sample)]


def _cells(names: tuple[str, ...], oracle: ViewOracle, slots: NDArray[np.int64], sample: Sample) -> Measurement:
    true, false = float(oracle.true), float(oracle.false)
    cells, response = math.prod(oracle.sizes), oracle.coefficient_variance
    frequencies = (oracle.supports(slots) / sample.people - false) / (true - false)
    noise = (cells - 1) * response / sample.people
    squares = float(((frequencies - frequencies.mean()) ** 2).sum()) - noise + 1 / cells
    spread = (1 - min(max(squares, 1 / cells), 1.0)) / (cells - 1)
    return Measurement(
        Cells(names),
        (frequencies * sample.total).reshape(oracle.sizes),
        variance=sample.total**2 * (response + spread * sample.left) / sample.people,
        noise=None,
        origin=sample.origin,
    )


def _contrast(names: tuple[str, ...], sizes: tuple[int, ...], found: ResidualAnswer, sample: Sample) -> Measurement:
    own, shape = tuple(names[axis] for axis in found.axes), [sizes[axis] for axis in found.axes]
    frequencies = found.values / sample.people
    most, coefficients = math.prod(1 / n for n in shape), math.prod(n - 1 for n in shape)
    mean_square = float((frequencies**2).sum()) / coefficients - found.response / sample.people
    spread = most - min(max(mean_square, 0.0), most)
    variance = sample.total**2 * (found.response + spread * sample.left) / sample.people
    contrast, variance = Contrast(own), variance / contrast_variance(shape)
    values = contrast.answer(frequencies * sample.total)
    return Measurement(contrast, values, variance=variance, noise=None, origin=sample.origin)
