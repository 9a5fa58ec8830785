"""Noise with the distribution of the measurements' noise, drawn many times to see how estimates react to noise.

This noise does not protect anybody. It is public and computed from what is already published: its seed is the SHA-256
of the sizes of attributes and the measurements, so that the same release gives the same numbers in memory, from its
file and after a refit. Random words come from Philox (a counter-based generator whose raw output numpy keeps stable)
and pass through the inverse distribution functions below, because a library's ready-made distributions may change
between its versions.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.residuals.combining import Averages, by_shape
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["DRAWS", "Normals", "inverse_noise", "noise_of_coefficients", "number_of_draws", "seed_of", "stream_seed"]

_DENSE_SCALE = 50.0
"""From this scale on discrete Gaussian noise is drawn as continuous: values differ by less than half a cell, 1% of a
standard deviation, and variances by nothing that doubles can show. Below, the inverse is exact, from a table."""

_TAIL = 10
"""The table of the discrete Gaussian ends after so many scales (and one more cell), where 1e-23 of it is left."""


DRAWS = 400
"""Draws of a table around its answer: 400 know a standard error to 3.5%."""
_LEAST_DRAWS = 20  # draws even of the largest tables: 20 know a standard error to 16%
_MOST_NUMBERS = 10_000_000
"""Cells of all draws of a table: large tables have fewer draws, the first of them."""

_KINDS = {NoiseKind.LAPLACE: 1, NoiseKind.GAUSSIAN: 2}  # 0 where only the variance is known


def seed_of(schema: Schema, measurements: Sequence[Measurement]) -> int:
    """128 bits of the SHA-256 of the sizes of attributes and of each measurement's operators, noise and values.

    All of it as numbers: no name, and no file's way of writing a query, decides what is drawn. Each list of numbers
    begins with its length, so that no two sequences of lists have the same bytes.
    """
    digest = hashlib.sha256()
    _add(digest, schema.shape)
    for m in measurements:
        _add(digest, [schema.positions[name] for name in m.query.attributes])
        _add(digest, [number for each in m.query.along for number in each.code])
        kind, scale = (0, m.variance) if m.noise is None else (_KINDS[m.noise.kind], m.noise.scale)
        whole = np.issubdtype(m.values.dtype, np.integer)
        _add(digest, [kind, int(whole), *m.values.shape])
        _add(digest, [scale], "<f8")
        _add(digest, m.values.ravel(), "<i8" if whole else "<f8")
    return int.from_bytes(digest.digest()[:16], "big")


def stream_seed(seed: int, stream: str, names: Sequence[str]) -> int:
    """A seed of its own for some attributes: the same numbers in every table that holds them."""
    text = json.dumps([seed, stream, list(names)]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")


def number_of_draws(cells: int) -> int:
    """Of a table of so many cells."""
    return int(np.clip(_MOST_NUMBERS // max(cells, 1), _LEAST_DRAWS, DRAWS))


def _add(digest: hashlib._Hash, numbers: ArrayLike, kind: str = "<i8") -> None:
    """Add a list of numbers, in bytes of one order, so that machines of either kind have the same seed."""
    listed = np.ascontiguousarray(numbers, kind)
    digest.update(np.array([listed.size], "<i8").tobytes() + listed.tobytes())


def noise_of_coefficients(
    averages: Averages, measurements: Sequence[Measurement], *, seed: int, number: int
) -> Iterator[Floats]:
    """New noise of the combined coefficients, drawn ``number`` times with the distribution of the measured noise."""
    from numpy.random import Philox

    words = Philox(key=seed)
    shapes = [m.values.shape for m in measurements]
    alike = by_shape([m.noise if m.noise is not None else m.variance for m in measurements])
    for _ in range(number):
        values: list[Floats] = [np.empty(0)] * len(measurements)
        for kind, group in alike.items():  # measurements of one noise are drawn at once, then cut apart
            stops = np.cumsum([math.prod(shapes[i]) for i in group])
            drawn = inverse_noise(kind, _uniform(words.random_raw(int(stops[-1]))))
            for i, part in zip(group, np.split(drawn, stops[:-1]), strict=True):
                values[i] = part.reshape(shapes[i])
        yield averages.of_values(values)


class Normals:
    """Standard normal numbers and choices, from a seed, in the same way as noise: one stream, read once."""

    def __init__(self, seed: int) -> None:
        from numpy.random import Philox

        self._words = Philox(key=seed % 2**128)

    def uniform(self, number: int) -> Floats:
        """Numbers in (0, 1)."""
        return _uniform(np.asarray(self._words.random_raw(number), np.uint64))

    def draw(self, shape: Sequence[int]) -> Floats:
        """Standard normal numbers."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(math.prod(shape)))).reshape(tuple(shape))


def _uniform(words: NDArray[np.uint64]) -> Floats:
    """The upper 53 bits of each word as the middle of one of 2^53 equal parts of (0, 1)."""
    return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def inverse_noise(noise: Noise | float, probabilities: Floats) -> Floats:
    """The noise that uniform numbers stand for: the least value whose distribution function reaches them.

    A number instead of noise is the variance of a measurement whose noise is not known: it counts as normal.

    >>> inverse_noise(Noise(NoiseKind.LAPLACE, 2.0), np.array([0.01, 0.3, 0.5, 0.7, 0.99])).tolist()
    [-8.0, -1.0, 0.0, 1.0, 8.0]
    """
    if isinstance(noise, Noise) and noise.kind is NoiseKind.LAPLACE:
        return _inverse_laplace(noise.scale, probabilities)
    if isinstance(noise, Noise) and noise.scale < _DENSE_SCALE:
        return _inverse_gaussian(noise.scale, probabilities)
    from scipy.special import ndtri

    scale = noise.scale if isinstance(noise, Noise) else math.sqrt(noise)
    return np.asarray(scale * ndtri(probabilities))


def _inverse_laplace(scale: float, probabilities: Floats) -> Floats:
    """P(|x| >= k) = 2 a^k / (1 + a) for k >= 1, a = e^(-1/scale): solved for k, on either side of one half."""
    ratio = math.exp(-1 / scale)
    tails = 2 * np.minimum(probabilities, 1 - probabilities)  # uniform in (0, 1)
    sizes = np.ceil(-scale * np.log(tails * (1 + ratio) / 2)) - 1
    return np.asarray(np.copysign(np.maximum(sizes, 0.0), probabilities - 0.5) + 0.0)


def _inverse_gaussian(scale: float, probabilities: Floats) -> Floats:
    most = math.ceil(_TAIL * scale) + 1
    values = np.arange(-most, most + 1)
    weights = np.exp(-(values.astype(np.float64) ** 2) / (2 * scale**2))
    # The table is the distribution function at whole numbers: the least one that reaches a probability is its inverse.
    places = np.searchsorted(np.cumsum(weights / weights.sum()), probabilities)
    return values[np.minimum(places, 2 * most)].astype(np.float64)
