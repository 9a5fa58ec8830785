"""Integer noise from OpenDP's exact samplers. The only module that imports opendp."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Noise, NoiseKind, Sensitivity
from crosstally.errors import PlanError
from crosstally.threads import in_order, most_threads

LIMIT = 2**62
"""Exact answers stay below this, so that noise (its scale is below 2^52) does not overflow 64 bits."""

# OpenDP computes its cost in doubles, ours is exact: the relative tolerance. A smaller one refuses sound plans.
_ROUNDING = Fraction(1, 10**9)

# Cells of one call of the sampler. A call costs as much as about twenty cells: with a tenth of this, 200,000 cells took
# 9% longer; with ten times as many they took 1% less, and a thread would be idle at the end. The distribution of the
# noise does not depend on it: every cell has independent noise from the system's randomness.
_PIECE = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class Mechanism:
    """A sampler for one scale of noise, whose cost was checked."""

    noise: Noise
    _invoke: Any

    def draw(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values with independent noise on each, in the same shape; each value is drawn once.

        Pieces of the values are drawn in threads: OpenDP's sampler releases the interpreter's lock and is
        thread-safe.
        """
        assert self.noise.kind is not NoiseKind.GUMBEL  # it is on scores, which are never published
        check_range(values)
        flat = np.ascontiguousarray(values).ravel()
        pieces = [flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE)]
        noisy = in_order(self._drawn, pieces, threads=max(1, min(most_threads(), len(pieces))))
        return np.concatenate([np.empty(0, np.int64), *noisy]).reshape(values.shape)

    def _drawn(self, piece: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(self._invoke(piece), dtype=np.int64)

    def choose(self, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices of the largest noisy scores, in order: of those left, with odds of exp(score / scale)."""
        assert self.noise.kind is NoiseKind.GUMBEL
        check_range(scores)
        return np.array(self._invoke(np.ascontiguousarray(scores)), dtype=np.int64)


def mechanism(noise: Noise, sensitivities: Iterable[Sensitivity], *, picks: int = 1) -> Mechanism:
    """A sampler whose own privacy map agrees with ``noise.cost`` at each of the sensitivities.

    Where noise has parts, answers are whole numbers of parts: a unit moves them that many times as far, and the noise
    is ``noise.whole``, whose scale is as many times as large. Building it can fail, sampling cannot: build it before
    anything is charged. Of noisy scores the ``picks`` largest are chosen, each at that cost.
    """
    # module by module: opendp.prelude also loads extras that take most of a second
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace, make_noisy_top_k
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import l1_distance, l2_distance, linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    parts, noise = noise.parts, noise.whole
    if noise.kind is NoiseKind.LAPLACE:
        built = make_laplace(domain, l1_distance(T="i64"), scale=noise.scale)
    elif noise.kind is NoiseKind.GUMBEL:
        # Gumbel noise is OpenDP's noisy maximum for this divergence; for pure epsilon it draws by permute-and-flip
        built = make_noisy_top_k(
            domain, linf_distance(T="i64"), zero_concentrated_divergence(), k=picks, scale=noise.scale
        )
    else:
        built = make_gaussian(domain, l2_distance(T="f64"), scale=noise.scale)
    for sensitivity in set(sensitivities):
        _check_cost(built, noise, sensitivity, parts, picks)
    return Mechanism(noise, built)


def _check_cost(built: Any, noise: Noise, each: Sensitivity, parts: int, picks: int) -> None:
    """Raise unless OpenDP's privacy map gives the charged cost, up to rounding."""
    from opendp.mod import OpenDPException

    sensitivity = Sensitivity(each.l1 * parts, each.l2_squared * parts**2)
    claimed = noise.cost(sensitivity)
    if noise.kind is NoiseKind.GUMBEL:
        claimed = picks * claimed**2 / 8  # as rho: epsilon itself is that of the exponential mechanism
    distance = math.sqrt(sensitivity.l2_squared) if noise.kind is NoiseKind.GAUSSIAN else sensitivity.l1
    try:
        proved = built.map(distance)
    except OpenDPException:  # OpenDP's message has many lines
        raise PlanError(f"OpenDP proves no cost for {noise}: give a smaller budget") from None
    if proved > claimed * (1 + _ROUNDING):
        raise PlanError(f"{noise} costs {proved}, more than the cost that would be charged")


def check_range(values: NDArray[np.int64]) -> None:
    """Raise unless noise can be added to the values without leaving 64 bits."""
    if values.dtype != np.int64:
        raise PlanError(f"noise is drawn on int64 values, got {values.dtype}")
    if values.size and not (values.min() > -LIMIT and values.max() < LIMIT):
        raise PlanError("exact answers must be below 2^62 in size for noise to be added; the counts are too large")


def draw(values: NDArray[np.int64], noise: Noise, sensitivity: Sensitivity) -> NDArray[np.int64]:
    """The values with noise: discrete Laplace or discrete Gaussian, independent in each cell."""
    return mechanism(noise, [sensitivity]).draw(values)
