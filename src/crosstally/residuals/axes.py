"""The basis along an attribute that is measured by a matrix (``query.kronecker``), and all that follows from it.

Let S be the matrix along an attribute of n values. Every vector of counts x with the total T = 1'x is written as

    x = T u + K c,        1'u = 1,  1'K = 0,

such that noise of equal variance on S x gives T (where S says it) and all of c independent noise, of c with the same
variance. Where S has n - 1 rows, c = S x itself, and [u K] is the inverse of [1'; S]. Where S has rank n, with the Gram
matrix X = S'S,

    tau = 1 / (1' X^-1 1),    u = tau X^-1 1,    c = C x with C'C = X - tau 1 1',

since then X = C'C + tau 1 1': precision tau for T, one for each of c, nothing between. Cells are the special case
S = I: tau = 1/n, u = 1/n, K has Helmert's vectors as its columns. So a Kronecker product of such matrices gives each
attribute set B inside its table coefficients that are independent and share a variance,

    1 / variance_B  =  prod(tau_i, i in V, not B) / variance of the noise,

the same as for cells, with tau_i for 1/n_i; one whose matrices have n - 1 rows gives those of its own set alone. All
measurements of an attribute with one S can be averaged as any others are. The variance of a sum with the weights w
along each axis is the sum over B of variance_B x prod((u_i'w_i)^2, i not in B) x prod(|K_i'w_i|^2, i in B).

A table to its residual coefficients and back, axis by axis.

Along an axis of n values, coefficient 0 is the sum and coefficients 1 to n-1 are inner products with Helmert's vectors

    h_j = (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)),    j ones,

which are orthonormal and sum to zero. Cumulative sums make both directions linear in the number of cells.

Which number stands for which coefficient: a key made of bits, some for each attribute.

A coefficient is a value index for each attribute, 0 where it does not take part. Each attribute has its own bits in one
of a few 64-bit words, so keys are exact, compare fast, and need no dictionary of attribute sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.query.along import AskedAlong
from crosstally.query.operators import CONTRAST, Matrices, Matrix, Operator
from crosstally.schema import Schema
from crosstally.typing import Floats

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


def decompose(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The coefficients of tables over ``ndim`` attributes; axes before the last ``ndim`` hold separate tables.

    >>> decompose([[3, 1], [0, 4]], ndim=1)
    array([[ 4.        ,  1.41421356],
           [ 4.        , -2.82842712]])
    """
    out = np.array(tables, np.float64)
    for axis in range(out.ndim - ndim, out.ndim):
        decompose_axis(out, axis)
    return out


def decompose_axis(tables: NDArray[np.float64], axis: int) -> None:
    """Coefficients along one axis in the place of values."""
    values = tables.swapaxes(axis, -1)
    sums = values.cumsum(axis=-1)
    steps, norms = _helmert(values.shape[-1])
    values[..., 1:] = (sums[..., :-1] - steps * values[..., 1:]) / norms
    values[..., 0] = sums[..., -1]


def rebuild(coefficients: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The tables that have these coefficients.

    >>> rebuild(decompose([[3, 1], [0, 4]], ndim=2), ndim=2).round(12)
    array([[3., 1.],
           [0., 4.]])
    """
    out = np.array(coefficients, np.float64)
    for axis in range(out.ndim - ndim, out.ndim):
        values = out.swapaxes(axis, -1)
        n = values.shape[-1]
        steps, norms = _helmert(n)
        parts = values[..., 1:] / norms
        mean = values[..., :1] / n
        values[..., 1:] = -steps * parts
        values[..., 0] = 0
        values[..., :-1] += parts[..., ::-1].cumsum(axis=-1)[..., ::-1]
        values += mean
    return out


@lru_cache(maxsize=64)  # sizes of axes: few in a schema, and small tables would spend most of their time on this
def _helmert(n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The numbers j = 1, ..., n - 1 and the lengths sqrt(j (j + 1)) of their vectors."""
    steps = np.arange(1, n)
    norms = np.sqrt(steps * (steps + 1))
    for each in (steps, norms):
        each.setflags(write=False)
    return steps, norms


@dataclass(frozen=True, eq=False)
class LinearAxis:
    """The basis of one matrix: ``basis`` is [u K], ``reader`` turns the numbers measured along the axis into (T, c).

    Where the matrix has n - 1 rows the reader gives c alone. ``of_total`` is tau, zero there.
    """

    basis: Floats
    reader: Floats
    of_total: float

    @classmethod
    def of(cls, matrix: Matrix) -> LinearAxis:
        """The basis of a matrix along an attribute."""
        return _axis_of(matrix)

    @property
    def size(self) -> int:
        """How many values the attribute has."""
        return len(self.basis)

    @property
    def is_residual(self) -> bool:
        """Whether it says nothing about the total."""
        return self.of_total == 0

    @cached_property
    def to_helmert(self) -> Floats:
        """From (T, c) to the coefficients of the residual basis; its first row is (1, 0, ..., 0)."""
        out = decompose(self.basis.T, 1).T
        out[0] = 0.0
        out[0, 0] = 1.0
        return out

    @cached_property
    def from_helmert(self) -> Floats:
        """From the coefficients of the residual basis to (T, c)."""
        return np.asarray(np.linalg.inv(self.basis) @ rebuild(np.eye(self.size), 1).T)


@lru_cache(maxsize=256)
def _axis_of(matrix: Matrix) -> LinearAxis:
    s = np.array(matrix, np.float64)
    rows, n = s.shape
    if rows == n - 1:
        size = np.abs(s).max()  # rows of one size keep the inverse accurate
        inverse = np.linalg.inv(np.vstack([np.ones(n), s / size]))
        inverse[:, 1:] /= size
        return LinearAxis(inverse, np.eye(rows), 0.0)
    inverse = np.linalg.inv(s.T @ s)
    tau = 1 / float(inverse.sum())
    u = tau * inverse.sum(axis=1)
    values, vectors = np.linalg.eigh(s.T @ s - tau)
    c = np.sqrt(values[1:, None]) * vectors[:, 1:].T  # the least eigenvalue is zero, that of u
    coordinates = np.vstack([np.ones(n), c])
    basis = np.linalg.inv(coordinates)
    basis[:, 0] = u
    return LinearAxis(basis, coordinates @ inverse @ s.T, tau)


@dataclass(frozen=True, slots=True, eq=False)
class AxisReading:
    """How the numbers of an operator are read along an attribute of n values.

    ``variances`` are those that unit noise gives each of the n coefficients, T first; infinite where it says nothing of
    T. ``reader`` turns numbers into the coefficients that are said; None stands for Helmert's basis and cumulative
    sums. Both are times ``scale``, or its square.
    """

    variances: tuple[float, ...]
    reader: Floats | None = None
    scale: float = 1.0

    def read(self, stack: Floats, axis: int) -> Floats:
        """The coefficients along an axis of a stack, which may be changed in place; without their scale."""
        if self.reader is not None:
            return map_axis(self.reader, stack, axis)
        if stack.shape[axis] > 1:
            decompose_axis(stack, axis)
        if math.isfinite(self.variances[0]):
            return stack
        return np.asarray(stack.take(range(int(len(self.variances) > 2), stack.shape[axis]), axis))


@lru_cache(maxsize=256)
def reading_along(operator: Operator, size: int) -> AxisReading:
    """The reading of an operator: values are S = I, with tau = 1/n; contrasts give Helmert's coefficients a scale."""
    ones = (1.0,) * (size - 1)
    if operator.rows is not None:
        axis = LinearAxis.of(operator.rows)
        return AxisReading((math.inf if axis.is_residual else 1 / axis.of_total, *ones), axis.reader)
    if operator.is_residual:
        return AxisReading((math.inf, *ones), scale=1 / math.sqrt(CONTRAST.squared_scale(size)))
    return AxisReading((size, *ones))


def linear_axes(matrices: Matrices) -> Mapping[str, LinearAxis]:
    """The basis along each attribute that has a matrix."""
    return {name: LinearAxis.of(matrix) for name, matrix in matrices}


def basis_along(axis: LinearAxis | None, size: int) -> Floats:
    """[u K] along an attribute; Helmert's where it has no matrix."""
    return rebuild(np.eye(size), 1).T if axis is None else axis.basis


def map_axis(matrix: Floats, stack: NDArray[np.float64], axis: int) -> Floats:
    """A matrix applied along one axis of a stack."""
    return np.moveaxis(np.tensordot(matrix, stack, axes=(1, axis)), 0, axis)


def placed(stack: NDArray[Any], axes: Sequence[int], ndim: int) -> NDArray[Any]:
    """The axes of a stack after the first moved to some places among ``ndim``; the others have length one.

    >>> placed(np.zeros((9, 4, 3)), (2, 0), ndim=3).shape
    (9, 3, 1, 4)
    """
    order = [0, *(int(i) + 1 for i in np.argsort(axes))]
    return np.expand_dims(stack.transpose(order), tuple(i + 1 for i in range(ndim) if i not in axes))


@dataclass(frozen=True, eq=False)
class Axes:
    """For each attribute of a schema, in its order, what variances need to know about it.

    ``of_total`` is tau, ``of_contrast`` the precision of its coefficients in a contrast of unit noise. ``outside`` and
    ``inside`` are the means, over what is asked along it (its cells, or the rows of a matrix W), of (u'w)^2 and
    |K'w|^2; ``asked`` is how many these are.
    """

    of_total: Floats
    of_contrast: Floats
    outside: Floats
    inside: Floats
    asked: Floats

    @classmethod
    def of(
        cls,
        schema: Schema,
        linear: Mapping[str, LinearAxis] | None = None,
        queries: Mapping[str, AskedAlong] | None = None,
    ) -> Axes:
        """Those of a schema, of the bases along some attributes, and of what is asked along some."""
        sizes = np.array(schema.shape, np.float64)
        scales = np.array([CONTRAST.squared_scale(n) for n in schema.shape], np.float64)
        out = cls(1 / sizes, scales, 1 / sizes**2, 1 - 1 / sizes, sizes.copy())
        bases, asked = linear or {}, queries or {}
        for name in {**bases, **asked}:
            i, axis = schema.positions[name], bases.get(name)
            basis = basis_along(axis, schema.shape[i])
            own = asked.get(name) or AskedAlong(np.eye(schema.shape[i]), schema.shape[i])
            weights = np.einsum("jk,jk->k", basis, own.gram @ basis) / own.number
            out.outside[i], out.inside[i], out.asked[i] = weights[0], weights[1:].sum(), own.number
            if axis is not None:
                out.of_total[i], out.of_contrast[i] = axis.of_total, 1.0
        return out

    def shares(self, positions: NDArray[np.intp]) -> Floats:
        """What the variance of each subset counts for in what is asked of tables (a row each): (tables, subsets)."""
        return _products(self.outside, self.inside, positions)

    def totals_outside(self, positions: NDArray[np.intp]) -> Floats:
        """The product of tau over the attributes outside each subset: (tables, subsets)."""
        return _products(self.of_total, np.ones_like(self.of_total), positions)


def _products(outside: Floats, inside: Floats, positions: NDArray[np.intp]) -> Floats:
    out = np.ones((len(positions), 1))
    for column in positions.T:
        parts = np.stack([outside[column], inside[column]], axis=1)
        out = (out[:, :, None] * parts[:, None, :]).reshape(len(positions), -1)
    return out
