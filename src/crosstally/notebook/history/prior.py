"""The prior: what is believed about the rows before any answer, attribute by attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import QueryError
from crosstally.measurements import read_only
from crosstally.schema import Schema

# Each value has at least this part of an even share: zero would say that nobody can have it, which noise cannot.
_FLOOR = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """A product of distributions, one for each attribute (p0 in EDBT 2012, 3.4): public, or bought, never exact.

    If a distribution comes from noisy counts, ``errors`` has the variance of their noise: the variance of single
    attributes around the prior is then known and not learned. 0 means that it is not known.
    """

    schema: Schema
    probabilities: tuple[NDArray[np.float64], ...]
    _: KW_ONLY
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        read = tuple(read_only(each, np.float64) for each in self.probabilities)
        object.__setattr__(self, "probabilities", read)
        if tuple(each.shape for each in read) != tuple((n,) for n in self.schema.shape):
            raise QueryError("a prior must have one number for each cell of each attribute")
        if any(each.min() <= 0 or abs(each.sum() - 1) > 1e-9 for each in read):
            raise QueryError("a prior must have positive numbers that sum to 1 for each attribute")
        object.__setattr__(self, "errors", tuple(map(float, self.errors)) or (0.0,) * len(read))
        if len(self.errors) != len(read) or min(self.errors) < 0:
            raise QueryError("errors of a prior must be variances, one for each attribute")

    @classmethod
    def uniform(cls, schema: Schema) -> Prior:
        """A uniform prior: every cell has the same probability."""
        return cls(schema, tuple(np.full(n, 1 / n) for n in schema.shape))

    @classmethod
    def of(
        cls, schema: Schema, marginals: Mapping[str, ArrayLike], variances: Mapping[str, float] | None = None
    ) -> Prior:
        """From noisy counts of some attributes, and the variance of each one's noise if known; the others uniform.

        Negative counts become 0, and every cell gets at least a hundredth of an even share, so that nothing is held to
        be impossible.
        """
        return cls(
            schema,
            tuple(
                _distribution(np.asarray(marginals[name], np.float64)) if name in marginals else np.full(n, 1 / n)
                for name, n in zip(schema.names, schema.shape, strict=True)
            ),
            errors=tuple((variances or {}).get(name, 0.0) for name in schema.names),
        )

    @property
    def known_variances(self) -> dict[tuple[int, ...], float]:
        """The variances of single attributes that are known from the noise of the counts they come from."""
        return {(i,): error for i, error in enumerate(self.errors) if error > 0}

    def joint(self, positions: tuple[int, ...]) -> NDArray[np.float64]:
        """The distribution over some attributes, given by position, one axis each."""
        parts = [self.probabilities[position] for position in positions]
        return np.asarray(reduce(np.multiply.outer, parts, np.array(1.0)))


def shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of each cell, where negative counts are 0; even ones where nothing is left."""
    clipped = np.maximum(counts, 0)
    total = clipped.sum()
    return np.asarray(clipped / total if total > 0 else np.full(len(counts), 1 / len(counts)))


def _distribution(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    floored = np.maximum(shares(counts), _FLOOR / len(counts))
    return np.asarray(floored / floored.sum())
