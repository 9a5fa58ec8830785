"""A reference for tables that nobody measured: a model of latent classes, where views left out say that it helps.

Maximum entropy takes interactions that were not measured to be none. Wide views say more: the classes that explain them
also have interactions of attributes that no view holds together. A table over such attributes is raked from the model's
table, the reference, to the covered margins; from a flat table the same raking gives maximum entropy.

Whether that is better is tried on views that are left out. Let B be the sets of three and more attributes that only a
left-out view V holds, l their combined coefficients, and q the prediction of the table over V from all other sets. Then

    D_V  =  sum over B of  |l_B - flat q_B|^2  -  |l_B - referred q_B|^2

has the expected value of the difference of the squared errors: l is not biased, and its noise, which no prediction has
seen, is the same in both. The reference is used if the mean of D_V is more than one standard error above zero. The
squared errors of the predictions themselves, less the variance of l, correct the sizes of interactions that intervals
of unmeasured tables assume (``calibrated``).

In the model people belong to hidden classes, and within a class their attributes are independent. The share of a cell
(x_i, i in A) of a table over the attributes A is

    p_A(x)  =  sum over classes c of  w_c  prod(q_ci(x_i), i in A),

so a model of a few thousand numbers has a table for every set of attributes, with interactions of every order. It is
fitted to views of an estimate, whose cells are n_V(x), by expectation maximisation on

    sum over views V and cells x of  n_V(x) log p_V(x)  +  sum over classes and attributes of  log prior(q_ci).

A step shares each cell out among the classes in proportion to w_c prod q_ci(x_i); then w_c and q_ci are the shares of
what each class got. The prior is one person in each class with the one-way table of each attribute, so that no value of
a class is impossible. The model is a guess of what was not measured: its tables are raked to what was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.interactions import Sizes, interaction_factors, unknown_sets
from crosstally.answers.unmeasured.known import Known
from crosstally.answers.unmeasured.maximum_entropy import greatest_entropy
from crosstally.answers.unmeasured.proportional_fitting import nearest_to_reference, raked
from crosstally.inference.bootstrap import Normals, seed_of
from crosstally.inference.estimates import maximal_views
from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate, combine, decompose, rebuild
from crosstally.residuals.combining import by_shape
from crosstally.typing import Floats

_WIDE = 6
"""A view of fewer attributes says little beyond its margins. On releases of Adult and FARS with views of two to four
attributes, and of MSNBC with tables of four, tables raked from the model had 1.1 to 1.5 times the error of maximum
entropy; on two releases of ACS with views of five and more 1.01 to 1.03, and neither chose it. Trials take a second."""
_LEAST_VIEWS = 5  # wide ones: of fewer, those left out would be too few to tell
_MOST_CELLS = 4_096  # of a view that is left out: predicting a larger one takes long
_MOST_FITTED = 30_000
"""Cells of all views that a model is fitted to: a fit takes up to two seconds. Of more views, some are taken evenly."""
_PART, _TRIED, _MOST_FITS = 10, 8, 4
"""A tenth of the wide views is left out at a time, so that the others predict nearly as well as all; again and again
until eight were, if that takes no more than four fits: a fit takes up to half a second."""
_STARTS = 8
"""The model is the mean of fits from so many starts. Tables over 4, 6 and 8 attributes of three releases of Kosarak
resampled have 0.97, 0.89 and 0.96 of the error of two starts, those of two releases of MSNBC 0.99 to 1.01. Trials take
one: they only compare."""
_STEPS = 2  # of the sizes below: errors grow with the square of sizes only where these are small
_LEAST_RATIO = 0.1  # of sizes, at a time: no prediction is better than a tenth of another's error
_STREAM = 0x636C6173736573  # added to the seed, so that starts are not the noise of replicates


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A view left out: what is known of it, its prediction, and the squared error of that as the view tells it."""

    names: tuple[str, ...]
    known: Known
    values: Floats
    squared: float


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceChoice:
    """The model to rake unmeasured tables from, None where maximum entropy is as good, and the trials of the choice.

    ``flat`` are those of maximum entropy, ``referred`` those of models.
    """

    model: LatentClasses | None
    flat: tuple[Trial, ...]
    referred: tuple[Trial, ...]

    def reference(self, estimate: Estimate, tables: Sequence[Sequence[str]]) -> Floats | None:
        """The shares of the cells of tables of one shape: (tables, cells)."""
        return None if self.model is None else _shares(self.model, estimate, tables)

    def trials(self, *, referred: bool) -> tuple[Trial, ...]:
        """The trials of tables that are raked from a model, or found by maximum entropy."""
        return self.referred if referred else self.flat


def held_out(estimate: Estimate, measurements: Sequence[Measurement]) -> ReferenceChoice | None:
    """The choice of a release, or None where it has too few wide views."""
    sets = {estimate.schema.ordered(each.query.attributes) for each in measurements}
    views = maximal_views(estimate, sorted(sets))
    wide = [view for view in views if len(view) >= _WIDE and math.prod(estimate.schema.sizes(view)) <= _MOST_CELLS]
    if len(wide) < _LEAST_VIEWS or float(estimate.table(())) <= 0:
        return None
    seed, linear = seed_of(estimate.schema, measurements) + _STREAM, combine(estimate.schema, measurements)
    flat, referred = list[Trial](), list[Trial]()
    fits = min(math.ceil(_TRIED / math.ceil(len(wide) / _PART)), _MOST_FITS)
    for fold in range(fits):
        left_out = wide[fold::_PART]
        others = _fitted(estimate, [view for view in views if view not in left_out], seed=seed + 1 + fold, starts=1)
        rest = [each for each in sets if each not in left_out]
        for view in left_out[:: math.ceil(len(left_out) / _TRIED)]:
            known = _known(estimate, view, rest)
            if not known.covered.all():
                flat.append(_trial(estimate, linear, view, known))
                with_reference = replace(known, reference=_shares(others, estimate, [view]))
                referred.append(_trial(estimate, linear, view, with_reference))
    gains = np.array([a.squared - b.squared for a, b in zip(flat, referred, strict=True)])
    better = len(gains) > 1 and bool(gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains)))
    model = _fitted(estimate, views, seed=seed, starts=_STARTS) if better else None
    return ReferenceChoice(model, tuple(flat), tuple(referred))


def calibrated(sizes: Sizes, trials: Sequence[Trial], *, seed: int) -> Sizes:
    """Weights of sizes of interactions, made smaller until views left out would have erred as they did.

    Sizes are learned from measured interactions beyond what smaller sets say (``interactions``). A prediction knows
    more: sets of as many attributes beside it, and classes. One standard error is added to the mean of what it missed,
    for few views are tried; sizes are never made larger.
    """
    squared = np.array([each.squared for each in trials])
    if len(squared) < 2:
        return sizes
    missed = squared.mean() + squared.std(ddof=1) / math.sqrt(len(squared))
    for _ in range(_STEPS):
        expected = float(np.mean([_expected(each, sizes, Normals(seed + i)) for i, each in enumerate(trials)]))
        ratio = math.sqrt(max(missed, 0.0) / expected) if expected > 0 else 1.0
        if ratio >= 1:
            break
        sizes = sizes.smaller(max(ratio, _LEAST_RATIO))
    return sizes


def _expected(trial: Trial, sizes: Sizes, normals: Normals) -> float:
    """The mean square of what random interactions of these sizes change in the sets that were not known."""
    known, ndim = trial.known, len(trial.known.shape)
    laws = {axes: sizes.of([trial.names[axis] for axis in axes]) for axes in unknown_sets(known)}
    factors = interaction_factors(normals, known.shape, laws)
    values = trial.values[None]
    moved = decompose(raked(values * factors, values, known.subsets, ndim) - values, ndim).reshape(len(factors), -1)
    return float((moved[:, ~known.covered] ** 2).sum(axis=1).mean())


def _trial(estimate: Estimate, linear: Estimate, view: tuple[str, ...], known: Known) -> Trial:
    places = estimate.places([view])[0][0]
    (found,) = (greatest_entropy if known.reference is None else nearest_to_reference)(known)
    differences = linear.coefficients[places] - decompose(found.values, len(known.shape)).ravel()
    squares = differences**2 - linear.variances[places]
    return Trial(view, known, found.values, float(squares[~known.covered].sum()))


def _known(estimate: Estimate, view: tuple[str, ...], sets: Collection[tuple[str, ...]]) -> Known:
    """What other sets say of a view; sets of up to two attributes count as known, as they are of most tables."""
    shape = estimate.schema.sizes(view)
    covered = np.asarray((np.indices(shape) > 0).sum(axis=0) <= 2)
    for each in sets:
        covered[tuple(slice(None) if name in each else 0 for name in view)] = True
    known = np.where(covered.ravel(), estimate.coefficients[estimate.places([view])[0]], 0.0)
    return Known(shape, covered.ravel(), np.ascontiguousarray(known))


def _fitted(estimate: Estimate, views: Sequence[tuple[str, ...]], *, seed: int, starts: int) -> LatentClasses:
    number = sum(math.prod(estimate.schema.sizes(view)) for view in views)
    views, cells = views[:: math.ceil(number / _MOST_FITTED)], dict[int, FittedView]()
    for shape, group in by_shape([estimate.schema.sizes(view) for view in views]).items():
        tables = [views[i] for i in group]
        stack = rebuild(estimate.coefficients[estimate.places(tables)[0]].reshape(-1, *shape), len(shape))
        own = map(FittedView, map(tuple, _positions(estimate, tables)), clip_and_keep_total(stack, len(shape)))
        cells.update(zip(group, own, strict=True))
    return fitted(estimate.schema.shape, [cells[i] for i in range(len(views))], seed=seed, starts=starts)


def _shares(model: LatentClasses, estimate: Estimate, tables: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    shares = model.tables(estimate.schema.sizes(tables[0]), _positions(estimate, tables))
    return shares.reshape(len(tables), -1)


def _positions(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[list[int]]:
    return [[estimate.schema.positions[name] for name in names] for names in tables]


_CLASSES = 100
"""Raked to the margins of a release of MSNBC and one of Kosarak resampled (epsilon 1, tables over 6 and 8 attributes,
an earlier start), 30 classes had 1.05 to 1.26, 60 classes 0.86 to 1.13 times the L2 error of 120. Time is in proportion
to them."""
_FIT_STEPS = 200
"""With eight starts, tables over 6 and 8 attributes of two releases of MSNBC have 0.91 and 0.87 of the error after 100
steps, those of three of Kosarak resampled 1.02 and 0.98. Limits time."""
_NEAR = 0.7
"""A class starts at one cell: it has this share of the cell's values and the rest as in the one-way tables. Between
them lies a start that neither finds all classes alike nor forbids a value."""


_NUMBERS = 4_000_000  # at once in products of tables: limits memory to some 100 MB


@dataclass(frozen=True, slots=True, eq=False)
class FittedView:
    """A table to fit: its attributes by position, in the order of the axes, and its cells, none below zero."""

    attributes: tuple[int, ...]
    cells: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LatentClasses:
    """The share of each class, and of each value of an attribute in each class: (values of all attributes, classes).

    The values of attribute i are the rows from ``rows[i]`` on.
    """

    weights: Floats
    values: Floats
    rows: NDArray[np.int64]

    def tables(self, shape: tuple[int, ...], attributes: Sequence[Sequence[int]]) -> Floats:
        """The shares of the cells of tables of one shape: (tables, *shape).

        The sum over classes is a product of two matrices, one for the first half of the axes and one for the others.
        """
        rows = self.rows[np.array(attributes, np.int64).reshape(-1, len(shape))]
        half = len(shape) // 2
        most = max(1, _NUMBERS // (len(self.weights) * math.prod(shape[half:])))
        parts = []
        for some in np.split(rows, range(most, len(rows), most)):
            first, last = self._products(some[:, :half], shape[:half]), self._products(some[:, half:], shape[half:])
            parts.append((first * self.weights) @ last.transpose(0, 2, 1))
        return np.concatenate(parts).reshape(-1, *shape)

    def _products(self, rows: NDArray[np.int64], shape: tuple[int, ...]) -> Floats:
        """The products of the shares of values along some axes: (tables, cells, classes)."""
        out = np.ones((len(rows), 1, len(self.weights)))
        for axis, n in enumerate(shape):
            own = self.values[rows[:, axis, None] + np.arange(n)]
            out = (out[:, :, None] * own[:, None]).reshape(len(rows), -1, len(self.weights))
        return out


def fitted(sizes: Sequence[int], views: Sequence[FittedView], *, seed: int, starts: int = 1) -> LatentClasses:
    """The mean of the models that expectation maximisation finds from some starts, drawn by the seed.

    Args:
        sizes: The number of values of each attribute.
        views: At least one person in all.
        seed: Of the starts.
        starts: How many models are averaged.
    """
    rows = np.cumsum([0, *sizes]).astype(np.int64)
    ones = _one_ways(rows, views)
    filled = [_filled_cells(views, group, rows) for group in by_shape([v.cells.ndim for v in views]).values()]
    normals, models = Normals(seed), []
    for _ in range(starts):
        model = _start(ones, rows, views, normals)
        for _ in range(_FIT_STEPS):
            model = _step(model, ones, filled)
        models.append(model)
    weights = np.concatenate([model.weights for model in models]) / starts
    return LatentClasses(weights, np.concatenate([model.values for model in models], axis=1), rows)


def _step(model: LatentClasses, ones: Floats, filled: Sequence[tuple[NDArray[np.int32], Floats]]) -> LatentClasses:
    from crosstally.kernels.latent_classes import share_out

    weights, values = np.zeros(_CLASSES), np.repeat(ones[:, None], _CLASSES, axis=1)
    for cells, counts in filled:
        share_out(model.weights, model.values, cells, counts, weights, values)
    sums = np.add.reduceat(values, model.rows[:-1], axis=0)
    shares = values / np.repeat(sums, np.diff(model.rows), axis=0)
    return LatentClasses(weights / weights.sum(), shares, model.rows)


def _one_ways(rows: NDArray[np.int64], views: Sequence[FittedView]) -> Floats:
    """The shares of each attribute's values, over all views that hold it; equal ones where none does."""
    out = np.full(rows[-1], 1e-9)  # a value that nobody has is not impossible
    for view in views:
        for axis, i in enumerate(view.attributes):
            others = tuple(each for each in range(view.cells.ndim) if each != axis)
            out[rows[i] : rows[i + 1]] += view.cells.sum(axis=others)
    return np.asarray(out / np.repeat(np.add.reduceat(out, rows[:-1]), np.diff(rows)))


def _start(ones: Floats, rows: NDArray[np.int64], views: Sequence[FittedView], normals: Normals) -> LatentClasses:
    """Each class begins near one cell, of a view drawn evenly, drawn by the root of its count: rare ones too."""
    values = np.repeat(ones[:, None], _CLASSES, axis=1)
    for c, (u, v) in enumerate(zip(normals.uniform(_CLASSES), normals.uniform(_CLASSES), strict=True)):
        view = views[math.floor(u * len(views))]
        roots = np.cumsum(np.sqrt(view.cells.ravel()))
        cell = np.unravel_index(int(np.searchsorted(roots, v * roots[-1]).clip(max=len(roots) - 1)), view.cells.shape)
        for i, x in zip(view.attributes, cell, strict=True):
            values[rows[i] : rows[i + 1], c] *= 1 - _NEAR
            values[rows[i] + x, c] += _NEAR
    return LatentClasses(np.full(_CLASSES, 1 / _CLASSES), values, rows)


def _filled_cells(
    views: Sequence[FittedView], some: Sequence[int], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], Floats]:
    """The cells that are not empty of some views of as many axes, as rows of values, and their counts."""
    cells, counts = [], []
    for view in (views[i] for i in some):
        filled = np.nonzero(view.cells)
        cells.append(np.stack([rows[i] + x for i, x in zip(view.attributes, filled, strict=True)], axis=1))
        counts.append(view.cells[filled])
    return np.ascontiguousarray(np.concatenate(cells), np.int32), np.concatenate(counts)
