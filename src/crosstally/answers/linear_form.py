"""Linear functions of the tables of releases, and their exact variance.

A linear function of a table over A, in product form, has a weight vector w_i for each attribute i of A: its value is
the sum over all cells of the count times the product of the weights of the cell's values. A cell is such a function
(each w_i is one at its value), a sum over sex is one (w_sex is 1 everywhere), and so is a cell of grouped values. In
the residual basis coefficients of different sets B are uncorrelated and those of one B share a variance v_B, so

    cov(f, g)  =  sum over B in both tables of  v_B  x  prod(<w_i, w'_i> - n_i m_i m'_i, i in B)
                  x  prod(m_i, i in A, not B)  x  prod(m'_i, i in A', not B),

m_i being the mean of w_i. Along an attribute that is measured by a matrix u'w_i stands for the mean, and the inner
product of K'w_i and K'w'_i for that of the centred weights (``residuals.axes``). Along an attribute a that is measured
in more than one way (``residuals.mixed``) the numbers (T, c) of a set B without a covary: the sum is over sets without
such attributes, and F_B C_B F'_B stands for v_B, where F_B are the weights along a in its basis, or 1 for T alone.
Differences and sums of such functions are sums of terms; terms of different releases are taken as independent, which
whoever mixes them has stated. Draws of a table are the answer plus normal noise with exactly these covariances, drawn
coefficient by coefficient in the residual basis, so that tables agree wherever they overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from crosstally.inference.bootstrap import Normals, number_of_draws, stream_seed
from crosstally.residuals import rebuild
from crosstally.residuals.axes import map_axis, placed
from crosstally.typing import Floats

if TYPE_CHECKING:
    from crosstally.answers.error_bars import ErrorBars


_MOST_WEIGHTS = 4_000_000
"""Numbers held for the weights of one attribute: larger tables have their errors from replicates alone."""

_MOST_TERMS = 48
"""Pairs of terms are worked through one by one; what has more of them has its errors from replicates alone."""


@dataclass(frozen=True, slots=True, eq=False)
class ProductTerm:
    """Functions in product form, one for each cell of a result, all of one table of one release.

    ``weights`` has a stack for each of ``names``: for each value of the attribute its weights in all cells of the
    result, with axes of length one where they do not change along them. ``factor`` is such a stack of one.
    """

    source: ErrorBars
    names: tuple[str, ...]
    weights: tuple[Floats, ...]
    factor: Floats

    def along(self, axis: int, matrix: Floats) -> ProductTerm | None:
        """Cells along an axis become sums, weighted by the rows of a matrix; None if no product form has them."""
        varying = [i for i, each in enumerate(self.weights) if each.shape[axis + 1] > 1]
        if self.factor.shape[axis + 1] > 1 or len(varying) > 1:
            return None
        if not varying:
            return replace(self, factor=map_axis(matrix.sum(axis=1, keepdims=True), self.factor, axis + 1))
        changed = list(self.weights)
        changed[varying[0]] = map_axis(matrix, changed[varying[0]], axis + 1)
        return replace(self, weights=tuple(changed))

    def covariance(self, other: ProductTerm) -> Floats:
        """The covariance of each function with the one of another term in the same cell of the result."""
        if self.source.key != other.source.key:
            return np.zeros(())
        mixed = self.source.mixed
        both = [name for name in self.names if name in other.names and name not in mixed]
        common: list[tuple[Floats, Floats]] = []  # for each attribute of both: what it gives outside B, and inside
        outside = np.asarray((self.factor * other.factor)[0])
        for term, names in ((self, other.names), (other, self.names)):
            for name, weights in zip(term.names, term.weights, strict=True):
                if name not in names and name not in mixed:
                    outside = outside * self._mean(name, weights)
        for name in both:
            mine, others = self.weights[self.names.index(name)], other.weights[other.names.index(name)]
            means, basis = self._mean(name, mine) * self._mean(name, others), self.source.basis(name)
            if basis is None:
                inside_of = np.einsum("i...,i...->...", mine, others) - len(mine) * means
            else:
                inside_of = np.einsum("i...,i...->...", *(map_axis(basis[:, 1:].T, w, 0) for w in (mine, others)))
            common.append((means, inside_of))
        total = np.zeros(())
        for inside, variance in self._variances(other, both):
            part = variance
            for factors, within in zip(common, inside, strict=True):
                part = part * factors[within]
            total = total + part
        return np.asarray(outside * total)

    def _variances(self, other: ProductTerm, both: Sequence[str]) -> Iterator[tuple[tuple[int, ...], Floats]]:
        """For each set B of attributes of both, as marks: v_B, or F_B C_B F'_B where some are measured in two ways."""
        sets, joint = product((0, 1), repeat=len(both)), self.source.joint
        if joint is None:
            yield from zip(sets, map(np.asarray, self.source.variances(both)), strict=True)
            return
        (first, mine), (second, others) = self._along_mixed(), other._along_mixed()
        for inside in sets:
            part = [name for name, within in zip(both, inside, strict=True) if within]
            covariance = joint.covariance(part, first, second)
            yield inside, np.asarray((map_axis(covariance.T, mine, 0) * others).sum(axis=0))

    def _along_mixed(self) -> tuple[str | None, Floats]:
        """The attribute measured in more than one way, if there is one, and the weights along it in its basis."""
        for name, weights in zip(self.names, self.weights, strict=True):
            basis = self.source.basis(name)
            if name in self.source.mixed and basis is not None:
                return name, map_axis(basis.T, weights, 0)
        return None, np.ones((1,) * self.factor.ndim)

    def _mean(self, name: str, weights: Floats) -> Floats:
        """What weights along an attribute make of the total: their mean, or by u where it is measured by a matrix."""
        basis = self.source.basis(name)
        return np.asarray(weights.mean(axis=0) if basis is None else np.tensordot(basis[:, 0], weights, axes=1))


@dataclass(frozen=True, slots=True, eq=False)
class LinearForm:
    """A table whose cells are linear in what was measured: sums of terms."""

    shape: tuple[int, ...]
    terms: tuple[ProductTerm, ...]

    @classmethod
    def table(cls, source: ErrorBars, names: Sequence[str], shape: Sequence[int]) -> LinearForm | None:
        """The cells of a table themselves."""
        if any(n**2 > _MOST_WEIGHTS for n in shape):
            return None
        weights = tuple(placed(np.eye(n), (axis,), len(shape)) for axis, n in enumerate(shape))
        return cls(tuple(shape), (ProductTerm(source, tuple(names), weights, np.ones((1,) * (1 + len(shape)))),))

    @classmethod
    def of_terms(cls, shape: Sequence[int], terms: Sequence[ProductTerm]) -> LinearForm | None:
        """From terms, unless there are too many."""
        return cls(tuple(shape), tuple(terms)) if len(terms) <= _MOST_TERMS else None

    @property
    def variance(self) -> Floats:
        """The variance of each cell, exact before negative cells are corrected."""
        total = np.zeros(self.shape)
        for i, term in enumerate(self.terms):
            total = total + term.covariance(term)
            for other in self.terms[:i]:
                total = total + 2 * term.covariance(other)
        return np.maximum(total, 0.0)

    def along(self, axis: int, matrix: Floats, *, kept: bool) -> LinearForm | None:
        """Cells along an axis become sums, weighted by the rows of a matrix; not ``kept``, an axis of one goes."""
        changed = [term.along(axis, matrix) for term in self.terms]
        if not all(changed):
            return None
        shape = (*self.shape[:axis], len(matrix), *self.shape[axis + 1 :])
        sums = LinearForm(shape, tuple(each for each in changed if each))
        return sums if kept else sums.mapped(partial(np.squeeze, axis=axis + 1))

    def mapped(self, function: Callable[[Floats], Floats], *, whole: bool = False) -> LinearForm | None:
        """The cells moved by a function of stacks of tables; ``whole`` if axes of length one must be repeated."""
        widest = max((len(each) for term in self.terms for each in term.weights), default=1)
        if whole and math.prod(self.shape) * widest > _MOST_WEIGHTS:
            return None

        def moved(stack: Floats) -> Floats:
            return function(np.broadcast_to(stack, (len(stack), *self.shape)) if whole else stack)

        terms = [
            replace(each, weights=tuple(map(moved, each.weights)), factor=moved(each.factor)) for each in self.terms
        ]
        return LinearForm(function(np.broadcast_to(0.0, (1, *self.shape))).shape[1:], tuple(terms))

    def scaled(self, factor: float | Floats) -> LinearForm:
        """Times a number, or a number for each cell."""
        return replace(self, terms=tuple(replace(term, factor=term.factor * factor) for term in self.terms))

    def plus(self, other: LinearForm) -> LinearForm | None:
        """The sum with another of as many axes."""
        return LinearForm.of_terms(np.broadcast_shapes(self.shape, other.shape), self.terms + other.terms)


def normal_draws(errors: ErrorBars, names: tuple[str, ...], values: Floats) -> Floats:
    """The values, then the values with noise drawn anew."""
    number = number_of_draws(values.size)
    ordered = errors.schema.ordered(names)
    coefficients = _coefficients(errors, ordered, number)
    for axis, name in enumerate(ordered, start=1):
        if name in errors.linear and name not in errors.mixed:
            coefficients = map_axis(errors.linear[name].to_helmert, coefficients, axis)
    noise = rebuild(coefficients, len(ordered)).transpose(0, *(ordered.index(name) + 1 for name in names))
    return np.concatenate([values[None], values + noise])


def _coefficients(errors: ErrorBars, names: Sequence[str], number: int) -> Floats:
    """Errors of the coefficients of a table, set by set: (draws, an axis for each attribute).

    Of an attribute that is measured in more than one way all values of a set are drawn together.
    """
    joint, mixed = errors.joint, next((name for name in names if name in errors.mixed), None)
    shape, others = errors.schema.sizes(names), [axis for axis, name in enumerate(names) if name != mixed]
    variances = errors.variances(names).reshape((2,) * len(names))
    out = np.zeros((number, *shape))
    for inside in (some for order in range(len(others) + 1) for some in combinations(others, order)):
        part, own = [names[axis] for axis in inside], [shape[axis] - 1 for axis in inside]
        normals = partial(_drawn, errors.digest, part, (number, *own))
        if joint is None:
            drawn = np.sqrt(variances[tuple(int(axis in inside) for axis in others)]) * normals()
        else:
            drawn = joint.drawn(part, mixed, normals)
        if mixed is not None:  # its values are the last axis as drawn
            drawn = np.moveaxis(drawn, -1, 1 + sum(axis < names.index(mixed) for axis in inside))
        at = tuple(
            slice(1, None) if axis in inside else slice(None) if name == mixed else 0 for axis, name in enumerate(names)
        )
        out[:, *at] = drawn
    return out


def _drawn(digest: int, part: Sequence[str], shape: Sequence[int], more: Sequence[int] = ()) -> Floats:
    """Standard normal numbers for a set of attributes: the same ones in every table that holds the set."""
    return Normals(stream_seed(digest, "noise", part)).draw((*shape, *more))
