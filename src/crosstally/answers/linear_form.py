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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosstally.inference.bootstrap import Normals, number_of_draws, stream_seed
from crosstally.residuals import rebuild
from crosstally.residuals.axes import map_axis
from crosstally.typing import Floats

if TYPE_CHECKING:
    from crosstally.answers.error_bars import ErrorBars

__all__ = ["LinearForm", "ProductTerm", "ReleaseSource", "normal_draws"]

_MOST_WEIGHTS = 4_000_000
"""Numbers held for the weights of one attribute: larger tables have their errors from replicates alone."""

_MOST_TERMS = 48
"""Pairs of terms are worked through one by one; what has more of them has its errors from replicates alone."""


@dataclass(frozen=True, slots=True)
class ReleaseSource:
    """A release, as far as the errors of its answers go: how its measurements err, and how they were corrected."""

    errors: ErrorBars
    corrected: str

    @property
    def key(self) -> tuple[int, str, bool]:
        """What tells releases apart: the same for the same measurements, inferred in the same way."""
        return self.errors.digest, self.corrected, bool(self.errors.variances_left)

    @property
    def mixed(self) -> Collection[str]:
        """The attributes that are measured in more than one way."""
        return () if self.errors.joint is None else self.errors.joint.mixed


@dataclass(frozen=True, slots=True, eq=False)
class ProductTerm:
    """Functions in product form, one for each cell of a result, all of one table of one release.

    ``weights`` has an array for each of ``names``: the axes of the result (of length one where the weights do not
    change along them), then the values of the attribute. ``factor`` has the axes of the result too.
    """

    source: ReleaseSource
    names: tuple[str, ...]
    weights: tuple[Floats, ...]
    factor: Floats

    def along(self, axis: int, matrix: Floats) -> ProductTerm | None:
        """Cells along an axis become sums, weighted by the rows of a matrix; None if no product form has them."""
        varying = [i for i, each in enumerate(self.weights) if each.shape[axis] > 1]
        if self.factor.shape[axis] > 1 or len(varying) > 1:
            return None
        if not varying:
            sums = matrix.sum(axis=1).reshape([-1 if i == axis else 1 for i in range(self.factor.ndim)])
            return replace(self, factor=self.factor * sums)
        changed = list(self.weights)
        mapped = np.tensordot(matrix, changed[varying[0]], axes=(1, axis))
        changed[varying[0]] = np.moveaxis(mapped, 0, axis)
        return replace(self, weights=tuple(changed))

    def covariance(self, other: ProductTerm) -> Floats:
        """The covariance of each function with the one of another term in the same cell of the result."""
        if self.source.key != other.source.key:
            return np.zeros(())
        mixed = self.source.mixed
        both = [name for name in self.names if name in other.names and name not in mixed]
        common: list[tuple[Floats, Floats]] = []  # for each attribute of both: what it gives outside B, and inside
        outside = np.asarray(self.factor * other.factor)
        for term, names in ((self, other.names), (other, self.names)):
            for name, weights in zip(term.names, term.weights, strict=True):
                if name not in names and name not in mixed:
                    outside = outside * self._mean(name, weights)
        for name in both:
            mine, others = self.weights[self.names.index(name)], other.weights[other.names.index(name)]
            means, basis = self._mean(name, mine) * self._mean(name, others), self.source.errors.basis(name)
            if basis is None:
                inside_of = np.einsum("...i,...i->...", mine, others) - mine.shape[-1] * means
            else:
                inside_of = np.einsum("...i,...i->...", mine @ basis[:, 1:], others @ basis[:, 1:])
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
        sets, joint = product((0, 1), repeat=len(both)), self.source.errors.joint
        if joint is None:
            yield from zip(sets, map(np.asarray, self.source.errors.variances(both)), strict=True)
            return
        (first, mine), (second, others) = self._along_mixed(), other._along_mixed()
        for inside in sets:
            part = [name for name, within in zip(both, inside, strict=True) if within]
            covariance = joint.covariance(part, first, second)
            yield inside, np.asarray(((mine @ covariance) * others).sum(axis=-1))

    def _along_mixed(self) -> tuple[str | None, Floats]:
        """The attribute measured in more than one way, if there is one, and the weights along it in its basis."""
        for name, weights in zip(self.names, self.weights, strict=True):
            basis = self.source.errors.basis(name)
            if name in self.source.mixed and basis is not None:
                return name, np.asarray(weights @ basis)
        return None, np.ones(1)

    def _mean(self, name: str, weights: Floats) -> Floats:
        """What weights along an attribute make of the total: their mean, or by u where it is measured by a matrix."""
        basis = self.source.errors.basis(name)
        return np.asarray(weights.mean(axis=-1) if basis is None else weights @ basis[:, 0])


@dataclass(frozen=True, slots=True, eq=False)
class LinearForm:
    """A table whose cells are linear in what was measured: sums of terms."""

    shape: tuple[int, ...]
    terms: tuple[ProductTerm, ...]

    @classmethod
    def table(cls, source: ReleaseSource, names: Sequence[str], shape: Sequence[int]) -> LinearForm | None:
        """The cells of a table themselves."""
        if any(n**2 > _MOST_WEIGHTS for n in shape):
            return None
        weights = tuple(np.expand_dims(np.eye(n), _others(axis, len(shape))) for axis, n in enumerate(shape))
        return cls(tuple(shape), (ProductTerm(source, tuple(names), weights, np.ones((1,) * len(shape))),))

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

    def along(self, axis: int, matrix: Floats) -> LinearForm | None:
        """Cells along an axis become sums, weighted by the rows of a matrix."""
        changed = [term.along(axis, matrix) for term in self.terms]
        shape = (*self.shape[:axis], len(matrix), *self.shape[axis + 1 :])
        return LinearForm(shape, tuple(each for each in changed if each)) if all(changed) else None

    def without(self, axis: int) -> LinearForm:
        """An axis of length one left out."""
        return self._reshaped(lambda array: np.squeeze(array, axis), (*self.shape[:axis], *self.shape[axis + 1 :]))

    def placed(self, axes: Sequence[int], ndim: int) -> LinearForm:
        """The axes moved to some places among ``ndim``; the others have length one."""
        shape, order = [1] * ndim, np.argsort(axes)
        for axis, n in zip(axes, self.shape, strict=True):
            shape[axis] = n
        missing = tuple(i for i in range(ndim) if i not in axes)

        def change(array: Floats) -> Floats:
            rest = tuple(range(len(axes), array.ndim))
            return np.expand_dims(array.transpose(*order.tolist(), *rest), missing)

        return self._reshaped(change, tuple(shape))

    def picked(self, cells: NDArray[np.intp]) -> LinearForm | None:
        """Some cells, by their places in the flat table, in a row."""
        widest = max((each.shape[-1] for term in self.terms for each in term.weights), default=1)
        if math.prod(self.shape) * widest > _MOST_WEIGHTS:
            return None

        def change(array: Floats) -> Floats:
            rest = array.shape[len(self.shape) :]
            return np.broadcast_to(array, self.shape + rest).reshape(-1, *rest)[cells]

        return self._reshaped(change, (len(cells),))

    def scaled(self, factor: float | Floats) -> LinearForm:
        """Times a number, or numbers that have the axes of the table."""
        terms = tuple(replace(term, factor=np.asarray(term.factor * factor)) for term in self.terms)
        return replace(self, terms=terms)

    def plus(self, other: LinearForm) -> LinearForm | None:
        """The sum with another of as many axes."""
        return LinearForm.of_terms(np.broadcast_shapes(self.shape, other.shape), self.terms + other.terms)

    def _reshaped(self, change: Callable[[Floats], Floats], shape: tuple[int, ...]) -> LinearForm:
        def term(each: ProductTerm) -> ProductTerm:
            return replace(each, weights=tuple(map(change, each.weights)), factor=change(each.factor))

        return LinearForm(shape, tuple(map(term, self.terms)))


def _others(axis: int, ndim: int) -> tuple[int, ...]:
    """Where axes of length one go, so that an array (n, n) has its first axis at ``axis`` and its second at the end."""
    return tuple(i for i in range(ndim) if i != axis)


def normal_draws(errors: ErrorBars, names: tuple[str, ...], values: Floats) -> Floats:
    """The values, then the values with noise drawn anew."""
    number = number_of_draws(values.size)
    ordered = errors.schema.ordered(names)
    coefficients = (_coefficients if errors.joint is None else _joint_coefficients)(errors, ordered, number)
    mixed = () if errors.joint is None else errors.joint.mixed
    for axis, name in enumerate(ordered, start=1):
        if name in errors.linear and name not in mixed:
            coefficients = map_axis(errors.linear[name].to_helmert, coefficients, axis)
    noise = rebuild(coefficients, len(ordered)).transpose(0, *(ordered.index(name) + 1 for name in names))
    return np.concatenate([values[None], values + noise])


def _coefficients(errors: ErrorBars, names: Sequence[str], number: int) -> Floats:
    """Errors of the coefficients of a table, set by set: (draws, an axis for each attribute)."""
    shape = errors.schema.sizes(names)
    out = np.zeros((number, *shape))
    for place, variance in enumerate(errors.variances(names)):
        inside = [bool(place >> (len(shape) - 1 - axis) & 1) for axis in range(len(shape))]
        own = tuple(n - 1 for n, within in zip(shape, inside, strict=True) if within)
        part = [name for name, within in zip(names, inside, strict=True) if within]
        at = tuple(slice(1, None) if within else 0 for within in inside)
        out[:, *at] = np.sqrt(variance) * _drawn(errors.digest, part, (number, *own))
    return out


def _joint_coefficients(errors: ErrorBars, names: Sequence[str], number: int) -> Floats:
    """The same where an attribute is measured in more than one way: all its values of a set are drawn together."""
    assert errors.joint is not None
    mixed = next((name for name in names if name in errors.joint.mixed), None)
    shape, others = errors.schema.sizes(names), [axis for axis, name in enumerate(names) if name != mixed]
    out = np.zeros((number, *shape))
    for inside in (some for order in range(len(others) + 1) for some in combinations(others, order)):
        part, own = [names[axis] for axis in inside], [shape[axis] - 1 for axis in inside]
        drawn = errors.joint.drawn(part, mixed, partial(_drawn, errors.digest, part, (number, *own)))
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
