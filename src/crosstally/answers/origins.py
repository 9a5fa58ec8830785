"""Joint draws of the cells of answers, from which the error of anything computed from them follows.

Four kinds of table have four kinds of draws. Draw r of a table belongs to draw r of all other tables of the release.

corrected  E(t) and E(x*r) of the replicates of the inference, as for the intervals of the cells.
modelled   the same, found by maximum entropy; each is moved by random interactions of the sizes that measured ones
           have, and by the sampling of people, then raked back to its covered margins. An interaction of a set of
           attributes is the same in every table that holds the set.
linear     the answer plus normal noise with exactly the covariances of the estimate, drawn coefficient by coefficient
           in the residual basis, so that tables agree wherever they overlap.
moments    the local model: the answer plus errors of its central moments, with the variance of each (``moments``).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change
from crosstally.answers.error_bars import ErrorBars, ErrorLaw
from crosstally.answers.interactions import SIZES, centred
from crosstally.answers.intervals import Covered
from crosstally.answers.joint import Joint
from crosstally.answers.linear_form import LinearForm, Term
from crosstally.answers.matrix_errors import MatrixError
from crosstally.answers.moments import MomentTable
from crosstally.answers.reconstruct.raking import greatest_entropy_again, raked
from crosstally.answers.reconstruct.reconstruction import Known
from crosstally.inference.replicates import Normals
from crosstally.query.where import Where
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.axes import map_axis
from crosstally.typing import Floats

__all__ = ["ReleaseSource", "covered_joint", "modelled_joint", "moment_joint", "where_added"]

_DRAWS = 400  # draws of a table; see below
_LEAST_DRAWS = 20  # draws even of the largest tables: 20 know a standard error to 16%
_MOST_NUMBERS = 10_000_000
"""Draws around a linear estimate: 400 know a standard error to 3.5%. Large tables have fewer, the first of them."""

_MOST_RAKED = 400_000
"""Cells of all draws of an unmeasured table, a guard of time: tables of up to 1,000 cells have all draws, larger ones
fewer, but one for each replicate. Each draw has interactions of its own; replicates serve several draws."""

_MOST_LOG = 8.0
"""Interactions of a cell, in logs, as in ``modelled``."""


@dataclass(frozen=True, slots=True)
class ReleaseSource:
    """A release, as the errors of its answers know it."""

    errors: ErrorBars
    corrected: str

    @property
    def measured(self) -> int:
        """See ``answers.linear_form.Source``."""
        return self.errors.digest

    @property
    def key(self) -> tuple[int, str, bool]:
        """See ``answers.linear_form.Source``."""
        return self.errors.digest, self.corrected, bool(self.errors.variances_left)

    def variances(self, names: Sequence[str]) -> Floats:
        """See ``answers.linear_form.Source``."""
        return self.errors.variances(names)

    def basis(self, name: str) -> Floats | None:
        """See ``answers.linear_form.Source``."""
        return self.errors.basis(name)

    @property
    def mixed(self) -> Collection[str]:
        """See ``answers.linear_form.Source``."""
        return () if self.errors.joint is None else self.errors.joint.mixed

    def covariance(self, part: Sequence[str], first: str | None, second: str | None) -> Floats:
        """See ``answers.linear_form.Source``."""
        assert self.errors.joint is not None  # otherwise nothing is mixed
        return self.errors.joint.covariance(part, first, second)


def covered_joint(
    errors: ErrorBars,
    estimate: Estimate,
    names: Sequence[str],
    values: Floats,
    cells: Covered | MomentTable | None,
) -> Joint | None:
    """Of a covered table; ``cells`` have draws of their own where they were corrected."""
    source, own = ReleaseSource(errors, estimate.corrected), tuple(names)
    # Otherwise its values are in groups and in full
    exact = errors.joint is not None or isinstance(errors.covered_law(names), ErrorLaw | MatrixError)
    if cells is None and not exact:
        return None
    draws: Callable[[], Floats] = partial(_normal_draws, errors, own, values)
    if isinstance(cells, MomentTable):
        draws = partial(_moment_draws, errors, cells)
    elif cells is not None:
        draws = cells.tables
    if not exact:
        return Joint((source,), draws, replicates=isinstance(cells, Covered))
    form = partial(LinearForm.table, source, own, values.shape)
    return Joint((source,), draws, form, replicates=isinstance(cells, Covered))


def modelled_joint(errors: ErrorBars, estimate: Estimate, names: Sequence[str], known: Known) -> Joint:
    """Of a table that nobody measured. Sums of its cells may be covered, which the draws know."""
    draws = partial(_modelled_draws, errors, estimate, tuple(names), known)
    return Joint((ReleaseSource(errors, estimate.corrected),), draws)


def moment_joint(errors: ErrorBars, estimate: Estimate, cells: MomentTable) -> Joint:
    """Of a table that nobody was asked about, in the local model."""
    return Joint((ReleaseSource(errors, estimate.corrected),), partial(_moment_draws, errors, cells))


def where_added(
    where: Where, names: tuple[str, ...], kept: tuple[NDArray[np.intp], ...], chosen: NDArray[np.bool_]
) -> Change:
    """Cells of a table added up over those where a condition is true.

    ``kept`` are the values left of each of the first attributes, ``names`` all attributes, ``chosen`` the cells where
    the condition is true, with axes of length one where it does not depend on an attribute.
    """
    return Change(partial(_where_sums, kept, chosen), partial(_where_form, where, names, kept))


def _where_sums(kept: tuple[NDArray[np.intp], ...], chosen: NDArray[np.bool_], stack: Floats) -> Floats:
    for axis, values in enumerate(kept, start=1):
        stack = stack.take(values, axis)
    return np.asarray(np.where(chosen, stack, 0.0).sum(axis=tuple(range(len(kept) + 1, stack.ndim))))


def _where_form(
    where: Where, names: tuple[str, ...], kept: tuple[NDArray[np.intp], ...], before: LinearForm
) -> LinearForm | None:
    """A term for each box of the condition."""
    (term,) = before.terms
    sizes = [weights.shape[-1] for weights in term.weights]
    asked, terms = len(kept), []
    for box in where.boxes:
        weights = []
        for axis, (name, size) in enumerate(zip(names, sizes, strict=True)):
            inside = np.array([float(code in box.get(name, range(size))) for code in range(size)])
            rows = np.eye(size)[kept[axis]] * inside if axis < asked else inside[None]
            weights.append(rows.reshape(*(len(rows) if i == axis else 1 for i in range(asked)), size))
        terms.append(Term(term.source, term.names, tuple(weights), np.ones((1,) * asked)))
    return LinearForm.of_terms([len(each) for each in kept], terms)


def _normal_draws(errors: ErrorBars, names: tuple[str, ...], values: Floats) -> Floats:
    """The values, then the values with noise drawn anew."""
    number = int(np.clip(_MOST_NUMBERS // max(values.size, 1), _LEAST_DRAWS, _DRAWS))
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
    return Normals(_seed(digest, "noise", part)).draw((*shape, *more))


def _moment_draws(errors: ErrorBars, cells: MomentTable) -> Floats:
    """The answer, then the answer with errors of its moments drawn anew."""
    number = int(np.clip(_MOST_NUMBERS // max(cells.values.size, 1), _LEAST_DRAWS, _DRAWS))

    def normals(stream: str, names: Sequence[str], shape: Sequence[int]) -> Floats:
        return Normals(_seed(errors.digest, stream, names)).draw((number, *shape))

    return cells.tables(normals)


def _modelled_draws(errors: ErrorBars, estimate: Estimate, names: tuple[str, ...], known: Known) -> Floats:
    """The table of greatest entropy of the truth of the replicates; of each of them, moved by what is not known."""
    assert errors.repeats is not None  # otherwise nothing is modelled
    repeats, sizes = errors.repeats(), errors.sizes_beside(referred=known.reference is not None)
    stack = np.where(known.covered, repeats.at(estimate.places([names])[0][0]), 0.0)
    again = greatest_entropy_again(replace(known, coefficients=np.ascontiguousarray(stack)))
    shape, ndim = known.shape, len(known.shape)
    number = int(np.clip(_MOST_RAKED // math.prod(shape), len(again) - 1, _DRAWS))
    truth, tables = again[:1], again[1 + np.arange(number) % (len(again) - 1)]
    covered, logs = known.covered.reshape(shape), np.zeros((number, *shape))
    for order in range(1, ndim + 1):
        weights = sizes.get(order, sizes[max(sizes)])
        for axes in combinations(range(ndim), order):
            if not covered[tuple(int(axis in axes) for axis in range(ndim))]:
                drawn = _interaction(
                    repeats.seed, names, shape, axes, weights=weights if order > 2 else None, number=number
                )
                logs += drawn
    people = Normals(_seed(repeats.seed, "people", names)).draw((number, *shape))
    moved = tables * np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)) + np.sqrt(np.maximum(tables, 0.0)) * people
    least = math.exp(-_MOST_LOG) * tables  # with zeros, some margins could not be reached
    return np.concatenate([truth, raked(np.maximum(moved, least), tables, known.subsets, ndim)])


def _interaction(
    seed: int,
    names: Sequence[str],
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    weights: Floats | None,
    number: int,
) -> Floats:
    """Random interactions of some axes, in logs; without weights of the sizes they may be anything.

    Sizes and signs have a stream each, so that the first draws are the same however many there are.
    """
    ordered = sorted(axes, key=lambda axis: names[axis])
    own_names = [names[axis] for axis in ordered]
    chosen = Normals(_seed(seed, "size", own_names)).uniform(number)
    normals = Normals(_seed(seed, "interaction", own_names))
    size = np.full(number, SIZES[-1])
    if weights is not None:
        size = SIZES[np.searchsorted(np.cumsum(weights), chosen).clip(max=len(SIZES) - 1)]
    own = centred(normals, number, [shape[axis] for axis in ordered]) * size.reshape(-1, *[1] * len(ordered))
    own = own.transpose(0, *(i + 1 for i in np.argsort(ordered)))
    return np.asarray(own.reshape(number, *(n if axis in axes else 1 for axis, n in enumerate(shape))))


def _seed(seed: int, stream: str, names: Sequence[str]) -> int:
    text = json.dumps([seed, stream, list(names)]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")
