"""Generated people and measurements of them, with noise of numpy's: independent of the code under test."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast
from crosstally.residuals import decompose
from crosstally.residuals.combining import Estimate


def schema_of(*sizes: int) -> ct.Schema:
    return ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])


def people(rng: np.random.Generator, sizes: Sequence[int], rows: int, skew: float) -> NDArray[np.int64]:
    """A full table of rows of four kinds of people, each with independent attributes; skew makes values rare."""
    kinds = np.zeros(tuple(sizes))
    for share in rng.dirichlet(np.ones(4)):
        kind = np.full((), share)
        for n in sizes:
            kind = np.multiply.outer(kind, rng.dirichlet(np.arange(1, n + 1) ** -skew * 2))
        kinds += kind
    return rng.multinomial(rows, kinds.ravel() / kinds.sum()).reshape(tuple(sizes))


def margin(full: NDArray[np.int64], axes: Sequence[int]) -> NDArray[np.int64]:
    return np.asarray(full.sum(axis=tuple(i for i in range(full.ndim) if i not in axes)))


def noise_of(rng: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Discrete Laplace as a difference of geometric numbers; discrete Gaussian by its weights."""
    if noise.kind is NoiseKind.LAPLACE:
        p = 1 - math.exp(-1 / noise.scale)
        return np.asarray(rng.geometric(p, shape) - rng.geometric(p, shape))
    values = np.arange(-int(12 * noise.scale) - 2, int(12 * noise.scale) + 3)
    weights = np.exp(-(values**2) / (2 * noise.scale**2))
    return np.asarray(rng.choice(values, shape, p=weights / weights.sum()))


def measured(
    rng: np.random.Generator,
    full: NDArray[np.int64],
    tables: Sequence[Sequence[int]],
    noise: Noise,
    *,
    contrasts: bool = False,
) -> list[Measurement]:
    """Noisy tables; or their contrasts, and the total."""
    out = []
    for axes in tables:
        names, exact = tuple(f"a{i}" for i in axes), margin(full, axes)
        query = Contrast(names) if contrasts and axes else Cells(names)
        answer = np.asarray(query.answer(exact))
        values = answer + noise_of(rng, noise, answer.shape)
        out.append(Measurement(query, values, variance=noise.variance, noise=noise, origin="test"))
    return out


def true_coefficients(
    combined: Estimate, full: NDArray[np.int64], tables: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """The coefficients that combined ones estimate."""
    out = np.zeros(len(combined.keys))
    for axes in tables:
        places = combined.places([tuple(f"a{i}" for i in axes)])[0][0]
        out[places] = decompose(margin(full, axes), len(axes)).ravel()
    return out
