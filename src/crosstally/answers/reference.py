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
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.interactions import interaction_factors, smaller_sizes, unknown_sets
from crosstally.answers.reconstruct.maximum_entropy import greatest_entropy
from crosstally.answers.reconstruct.raking import nearest_to_reference, raked
from crosstally.answers.reconstruct.reconstruction import Known
from crosstally.inference.class_model import LatentClasses, View, fitted
from crosstally.inference.estimates import maximal_views
from crosstally.inference.nonnegativity import clip_and_keep_total
from crosstally.inference.replicates import Normals, seed_of
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate, combine, decompose, rebuild
from crosstally.residuals.combining import by_shape
from crosstally.typing import Floats

__all__ = ["HeldOut", "Trial", "calibrated", "held_out"]

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

    known: Known
    values: Floats
    squared: float


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
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


def held_out(estimate: Estimate, measurements: Sequence[Measurement]) -> HeldOut | None:
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
    return HeldOut(model, tuple(flat), tuple(referred))


def calibrated(sizes: Mapping[int, Floats], trials: Sequence[Trial], *, seed: int) -> Mapping[int, Floats]:
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
        sizes = {order: smaller_sizes(own, max(ratio, _LEAST_RATIO)) for order, own in sizes.items()}
    return sizes


def _expected(trial: Trial, sizes: Mapping[int, Floats], normals: Normals) -> float:
    """The mean square of what random interactions of these sizes change in the sets that were not known."""
    known, ndim = trial.known, len(trial.known.shape)
    factors = interaction_factors(normals, sizes, known.shape, unknown_sets(known))
    values = trial.values[None]
    moved = decompose(raked(values * factors, values, known.subsets, ndim) - values, ndim).reshape(len(factors), -1)
    return float((moved[:, ~known.covered] ** 2).sum(axis=1).mean())


def _trial(estimate: Estimate, linear: Estimate, view: tuple[str, ...], known: Known) -> Trial:
    places = estimate.places([view])[0][0]
    (found,) = (greatest_entropy if known.reference is None else nearest_to_reference)(known)
    differences = linear.coefficients[places] - decompose(found.values, len(known.shape)).ravel()
    squares = differences**2 - linear.variances[places]
    return Trial(known, found.values, float(squares[~known.covered].sum()))


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
    views, cells = views[:: math.ceil(number / _MOST_FITTED)], dict[int, View]()
    for shape, group in by_shape([estimate.schema.sizes(view) for view in views]).items():
        tables = [views[i] for i in group]
        stack = rebuild(estimate.coefficients[estimate.places(tables)[0]].reshape(-1, *shape), len(shape))
        own = map(View, map(tuple, _positions(estimate, tables)), clip_and_keep_total(stack, len(shape)))
        cells.update(zip(group, own, strict=True))
    return fitted(estimate.schema.shape, [cells[i] for i in range(len(views))], seed=seed, starts=starts)


def _shares(model: LatentClasses, estimate: Estimate, tables: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    shares = model.tables(estimate.schema.sizes(tables[0]), _positions(estimate, tables))
    return shares.reshape(len(tables), -1)


def _positions(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[list[int]]:
    return [[estimate.schema.positions[name] for name in names] for names in tables]
