"""Which number stands for which coefficient: a key made of bits, some for each attribute.

A coefficient is a value index for each attribute, 0 where it does not take part. Each attribute has its own bits in one
of a few 64-bit words, so keys are exact, compare fast, and need no dictionary of attribute sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout", "find", "outer_product"]

_WORD = 64  # bits of a word of a key


@dataclass(frozen=True, slots=True)
class Layout:
    """The word and the first bit of each attribute's index."""

    sizes: tuple[int, ...]
    words: tuple[int, ...]
    shifts: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Layout:
        """A layout for attributes of these sizes."""
        words, shifts, word, shift = [], [], 0, 0
        for size in sizes:
            bits = (size - 1).bit_length()
            if shift + bits > _WORD:
                word, shift = word + 1, 0
            words.append(word)
            shifts.append(shift)
            shift += bits
        return cls(tuple(sizes), tuple(words), tuple(shifts))

    def keys(self, tables: Sequence[Sequence[int]]) -> NDArray[Any]:
        """The keys of all coefficients of some tables of one shape, given as attribute positions: (tables, cells)."""
        shape = tuple(self.sizes[i] for i in tables[0])
        width = max(self.words, default=0) + 1
        out = np.zeros((len(tables), *shape, width), np.uint64)
        rows = np.arange(len(tables))
        for axis, size in enumerate(shape):
            word = np.array([self.words[table[axis]] for table in tables])
            shift = np.array([self.shifts[table[axis]] for table in tables], np.uint64)
            part = np.zeros((len(tables), size, width), np.uint64)
            part[rows, :, word] = np.arange(size, dtype=np.uint64) << shift[:, None]
            out |= part.reshape((len(tables),) + (1,) * axis + (size,) + (1,) * (len(shape) - axis - 1) + (width,))
        return self._packed(out.reshape(len(tables), -1, width))

    def last_keys(self, tables: Sequence[Sequence[int]]) -> NDArray[Any]:
        """The key of the last coefficient of each table: the one with the largest index along every attribute."""
        out = np.zeros((len(tables), 1, max(self.words, default=0) + 1), np.uint64)
        words = np.array(self.words, np.intp)
        lasts = np.array([size - 1 for size in self.sizes], np.uint64) << np.array(self.shifts, np.uint64)
        lengths = np.array([len(table) for table in tables])
        for axis in range(lengths.max(initial=0)):
            rows = np.flatnonzero(lengths > axis).tolist()
            attributes = [tables[row][axis] for row in rows]
            out[rows, 0, words[attributes]] |= lasts[attributes]
        return self._packed(out)[:, 0]

    def _packed(self, words: NDArray[np.uint64]) -> NDArray[Any]:
        width = words.shape[-1]
        packed = words if width == 1 else np.ascontiguousarray(words).view(np.dtype((np.void, 8 * width)))
        return packed[..., 0]


def find(keys: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each wanted key stands among sorted keys, and whether it is there."""
    if not len(keys):
        return np.zeros(wanted.shape, np.intp), np.zeros(wanted.shape, np.bool_)
    places = np.searchsorted(keys, wanted.ravel()).reshape(wanted.shape)
    places[places == len(keys)] = 0
    return places, np.asarray(keys[places] == wanted)


def outer_product(factors: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """The flat product over all combinations: one factor from each list, the last list fastest.

    >>> outer_product([[1, 2], [1, 10]])
    array([ 1., 10.,  2., 20.])
    """
    return reduce(lambda done, factor: np.multiply.outer(done, np.asarray(factor, float)).ravel(), factors, np.ones(1))
