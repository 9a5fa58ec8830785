"""Randomised response as EDBT 2012 compares with it: every value of every row perturbed by itself, then inverted.

Retention replacement keeps a value with some probability and else draws one at random; flipping writes a value as one
bit for each possible value and flips each bit with some probability. Both guarantee gamma-amplification: whatever was
sent, two values of a person differ in its probability by a factor of at most gamma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats
from crosstally_lab.papers.edbt12.census import Census

Positions = tuple[int, ...]
Range = tuple[int, int, int]
"""An attribute by position, and the first and the last of the values in an interval."""


class Perturbed(Protocol):
    """Rows after perturbation, and what they say about the rows before it."""

    def joint(self, positions: Positions) -> Floats:
        """The share of each combination of values, by the inverse of the perturbation; it may be negative."""

    def share(self, ranges: tuple[Range, ...]) -> float:
        """The share of the rows inside all intervals, by the inverse of the perturbation."""


@dataclass(frozen=True, eq=False)
class Retained:
    """Values as sent, and with which probability each attribute's value was kept."""

    codes: tuple[NDArray[Any], ...]
    sizes: tuple[int, ...]
    kept: tuple[float, ...]

    def joint(self, positions: Positions) -> Floats:
        """Along each attribute the even share of what was replaced is taken off, and the rest scaled up."""
        sizes = [self.sizes[p] for p in positions]
        key = np.zeros(len(self.codes[0]), np.int64)
        for p, size in zip(positions, sizes, strict=True):
            key = key * size + self.codes[p]
        table = np.bincount(key, minlength=math.prod(sizes)).reshape(sizes) / len(key)
        for axis, p in enumerate(positions):
            even = table.sum(axis=axis, keepdims=True) / self.sizes[p]
            table = (table - (1 - self.kept[p]) * even) / self.kept[p]
        return np.asarray(table)

    def share(self, ranges: tuple[Range, ...]) -> float:
        """The mean over the rows of a product: each factor is right on average for the value before perturbation."""
        product = np.ones(len(self.codes[0]), np.float32)
        for p, first, last in ranges:
            outside = -(1 - self.kept[p]) * (last - first + 1) / self.sizes[p] / self.kept[p]
            values = np.full(self.sizes[p], outside, np.float32)
            values[first : last + 1] += np.float32(1 / self.kept[p])
            product *= values[self.codes[p]]
        return float(product.mean(dtype=np.float64))


def retain(data: Census, epsilon: float, random: np.random.Generator) -> Retained:
    """Every value kept with the probability at which gamma = exp(epsilon) for it alone, else replaced by any value."""
    gain = math.expm1(epsilon)
    kept = tuple(gain / (n + gain) for n in data.schema.shape)
    codes = []
    for code, n, keep in zip(data.codes, data.schema.shape, kept, strict=True):
        drawn = random.integers(0, n, data.rows, dtype=np.uint32)
        sent = np.where(random.random(data.rows, dtype=np.float32) < keep, code, drawn)
        codes.append(sent.astype(np.uint8 if n <= 256 else np.uint32))
    return Retained(tuple(codes), data.schema.shape, kept)


@dataclass(frozen=True, eq=False)
class Flipped:
    """Bits as sent, a line for each value of each attribute, and the probability with which each was flipped."""

    bits: tuple[NDArray[np.bool_], ...]
    flipped: float

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.bits[0].shape[1])

    @cached_property
    def _words(self) -> tuple[NDArray[np.uint64], ...]:
        """The bits in words, with a last line of ones for each attribute: no condition on it."""
        padding = -self.rows % 64
        return tuple(
            np.packbits(np.pad(np.vstack([each, np.ones(self.rows, np.bool_)]), ((0, 0), (0, padding))), axis=1).view(
                np.uint64
            )
            for each in self.bits
        )

    @cached_property
    def _sums(self) -> tuple[NDArray[Any], ...]:
        """For each attribute how many of its first bits are set, from none to all."""
        out = []
        for each in self.bits:
            sums = np.zeros((len(each) + 1, self.rows), np.uint8 if len(each) < 256 else np.uint32)
            for i, line in enumerate(each):
                np.add(sums[i], line, out=sums[i + 1])
            out.append(sums)
        return tuple(out)

    def joint(self, positions: Positions) -> Floats:
        """Rows with all bits set are counted, and along each attribute what flips alone would give is taken off."""
        words = [self._words[p] for p in positions]
        table = _set_together(words) / self.rows
        for axis in range(len(words)):
            along = np.moveaxis(table, axis, 0)
            table = np.moveaxis((along[:-1] - self.flipped * along[-1:]) / (1 - 2 * self.flipped), 0, axis)
        return np.asarray(table)

    def share(self, ranges: tuple[Range, ...]) -> float:
        """The mean over the rows of a product: each factor is right on average for the value before perturbation."""
        product = np.ones(self.rows, np.float32)
        for p, first, last in ranges:
            values = np.arange(last - first + 2, dtype=np.float32) - np.float32(self.flipped * (last - first + 1))
            product *= (values / np.float32(1 - 2 * self.flipped))[self._sums[p][last + 1] - self._sums[p][first]]
        return float(product.mean(dtype=np.float64))


def flip(data: Census, epsilon: float, random: np.random.Generator) -> Flipped:
    """Every bit flipped with the probability at which gamma = exp(epsilon) for a value: two bits tell values apart."""
    probability = 1 / (1 + math.exp(epsilon / 2))
    bits = []
    for code, n in zip(data.codes, data.schema.shape, strict=True):
        flips = np.empty((n, data.rows), np.bool_)
        for line in flips:
            np.less(random.random(data.rows, dtype=np.float32), np.float32(probability), out=line)
        flips[code, np.arange(data.rows)] ^= True
        bits.append(flips)
    return Flipped(tuple(bits), probability)


def _set_together(words: list[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """How many rows have the bits of every combination of lines set, one axis for each attribute."""
    *first, last = words
    out = np.empty([len(each) for each in words], np.int64)
    for place in np.ndindex(*[len(each) for each in first]):
        line = last[-1]  # all ones
        for each, i in zip(first, place, strict=True):
            line = line & each[i]
        out[place] = np.add.reduce(np.bitwise_count(last & line), axis=1, dtype=np.uint32)
    return out


def nearest_distribution(table: Floats) -> Floats:
    """The distribution nearest to a table of numbers of any sign: all moved by the same amount, none below zero.

    >>> nearest_distribution(np.array([0.7, 0.5, -0.2])).round(12).tolist()
    [0.6, 0.4, 0.0]
    """
    falling = np.sort(table, axis=None)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, table.size + 1)
    return np.asarray(np.maximum(table - excess[np.flatnonzero(falling > excess)[-1]], 0.0))
