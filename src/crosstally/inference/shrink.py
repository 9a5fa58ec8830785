"""Shrunk least squares: lower orders predict higher orders, as far as the measurements support it. The default.

Symbols: l and v are the combined coefficients and their variances; the order of a coefficient is its number of
attributes; T is the total, which does not change. The views are the largest covered tables; each has one row of cells
in the arrays below, (views of one shape, cells), the last attribute fastest. joint(r, p) is the x with no negative cell
in any view that minimises sum over c of (x_c - r_c)^2 / (v_c order_c^(2p)): the larger p, the less low orders move
(``joint``).

    x  <-  joint(l, p = 2)
    x  <-  blend(x, joint(l, p = 1))
    for the guess in (independence, all pairs):
        q  <-  in each view the table of maximum entropy with the one-way (then two-way) tables of x, nearly; views of
               two attributes keep independence, for their pair is the view itself
        m  <-  each cell of l's views shrunk towards its q (``risk``)
        S  <-  the coefficients of m, averaged over views with weights 1 / (sum of posterior variances)
        x  <-  blend(x, S)
    x  <-  joint(x, p = 1), coefficients of order 1 and the total held

where blend(x, S) = l + a (x - l) + b (S - l), with a and b for each set of attributes by the least estimated risk
(``risk``), and then one-way tables without negative cells (``joint_correction.clip_and_keep_total``).

Everything up to the last line is also done for replicates (``bootstrap``): a plausible truth plus noise like the
measured noise. They all use the release's own weights for the mixture and the blends.

Why a blend and not a single estimate: shrunk cells are best individually, but their small common errors add up in sums
over thousands of cells, that is, in low orders. There least squares or the joint correction are better, and by how much
depends on the data: the risk of S relative to least squares is 0.2 on sparse tables and above 20 for one-ways of a
dense one.

An example, one view of two attributes of two values: l has four coefficients, in the order total, second attribute,
first attribute, both, so ``places`` is [[0, 1, 2, 3]] and ``orders`` [0, 1, 1, 2]. There are three sets ({1}, {2} and
{1, 2}), so three a and three b in each of the three blends; the total is in none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from crosstally.inference.bootstrap import noise_of_coefficients, seed_of
from crosstally.inference.joint_correction import (
    LEAST_VARIANCE,
    JointCorrection,
    ViewGroup,
    clip_and_keep_total,
    last_of_set,
    nearest_above_zero,
    view_orders,
)
from crosstally.inference.risk import COMPONENTS, EDGES, POOLED, Blend, Sets, mixture_of
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate, decompose, rebuild
from crosstally.residuals.axes import find
from crosstally.residuals.combining import Averages, mean_squares
from crosstally.typing import Floats

_FIRST_POWER = 2.0
"""p of the first joint correction: with 1, clipping thousands of cells moves the one-ways of sparse releases to twice
the error of least squares."""

_FIRST_STEPS = 30
"""The joint corrections that are candidates end after this many steps: twice as many change no error by 1%."""

# Cells of all views times pairs of replicates. Chosen: limits time, and the risk is an average over many cells
# anyway.
_WORK = 100_000
_LEAST_PAIRS, _MOST_PAIRS = 2, 4
"""Pairs of replicates: as many as keep the cells of all views, times pairs, within the work; small releases have few
coefficients to average over, and time for more pairs."""

_VISITS = 120  # pairs of a view times sweeps: limits time. See below for the effect
_LEAST_SWEEPS, _MOST_SWEEPS = 3, 12
"""Raking visits each pair of a view this often: as often as keeps all visits within 120. Pairs that share attributes
correct each other, so that views of many attributes need fewer sweeps (12 instead of 4 for eight change nothing)."""

_LEAST_PAIR_CELL = 1e-6
"""Two-way cells below this (in counts) are taken as this: raking cannot bring a cell back from zero."""

_LEAST_SPREAD = 1e-9
"""Posterior variances below this count as this in the weights of views."""


class Shrinkage:
    """The estimate of one release, and the mixtures and blends that its measurements chose.

    ``again`` repeats the procedure from other combined coefficients with these decisions kept. From the release's own
    coefficients it gives the release's own estimate.
    """

    def __init__(self, model: _Model, noises: Sequence[Floats]) -> None:
        self._model = model
        self.mixtures: list[Floats] = []
        self.blends: list[Blend] = []
        self.coefficients = self._decide(noises) if model.views else model.linear.copy()

    def _decide(self, noises: Sequence[Floats]) -> Floats:
        """The estimate; mixtures and blends are chosen and kept."""
        model = self._model
        # ``now`` is x of the header and ``starts`` its l: first those of the release, then of each replicate
        first = model.corrected(model.linear, power=_FIRST_POWER)
        smooth = model.plausible(first)
        again = [smooth + noise for noise in noises]
        starts = [model.linear, *again]
        now = [first, *[model.corrected(each, power=_FIRST_POWER) for each in again]]

        def blended(candidates: list[Floats]) -> list[Floats]:
            pair, *replicated = zip(now, candidates, strict=True)
            sets, linear, variances = model.sets, model.linear, model.variances
            blend = Blend(sets, linear, variances, pair, noises=noises, replicated=replicated, smooth=smooth)
            self.blends.append(blend)
            pairs = zip(starts, (pair, *replicated), strict=True)
            return [model.with_possible_one_ways(blend.of(start, each)) for start, each in pairs]

        now = blended([model.corrected(each, power=1.0) for each in starts])
        # The guess: independence, then all pairs
        for pairs in (False, True):
            weights, shrunken = model.learn(now[0], pairs=pairs)
            self.mixtures.append(weights)
            others = zip(again, now[1:], strict=True)
            now = blended([shrunken, *(model.shrink(start, x, weights, pairs=pairs) for start, x in others)])
        return model.last(now[0])

    def again(self, linear: Floats) -> Floats:
        """The result of the same procedure for other combined coefficients; their total must be positive."""
        # The lines of the header with mixtures and blends as they were decided: nothing is learned from ``linear``
        model = self._model.starting_from(linear)
        if not model.views:
            return linear.copy()
        first, *others = self.blends
        candidates = model.corrected(linear, power=_FIRST_POWER), model.corrected(linear, power=1.0)
        now = model.with_possible_one_ways(first.of(linear, candidates))
        for pairs, weights, blend in zip((False, True), self.mixtures, others, strict=True):
            shrunken = model.shrink(linear, now, weights, pairs=pairs)
            now = model.with_possible_one_ways(blend.of(linear, (now, shrunken)))
        return model.last(now)


def shrunk(
    combined: Estimate, measurements: Sequence[Measurement], averages: Averages, groups: Sequence[ViewGroup]
) -> Shrinkage:
    """The shrunk estimate; coefficients outside all views and the total stay as they are.

    Args:
        combined: The least squares estimate; its total must be positive.
        measurements: The measurements it was combined from.
        averages: The averages that combined it.
        groups: The views.
    """
    model = _Model(combined, groups)
    return Shrinkage(model, _replicate_noise(model, combined, measurements, averages) if model.views else [])


def smoothed(combined: Estimate, groups: Sequence[ViewGroup], found: Floats) -> Floats:
    """An estimate moved towards independence, set by set, as far as the measurements allow.

    A corrected estimate is too sparse to be the truth of replicates: cells that noise made zero would have no error.
    With i the coefficients of independence, n_B their number in the set B and D_B the sum over B of (l - i)^2 / v, s_B
    = max(0, 1 - n_B / D_B) is the share of the distance that is not noise (James and Stein). Sets of one order are
    pooled as in ``risk``. If the total is not positive every cell is zero.
    """
    model, out = _Model(combined, groups), found.copy()
    if not (model.views and found[model.total] > 0):
        return out
    # s_B from the set itself (own) and from all sets of its order together (common)
    sets, independent = model.sets, model.independent(found)
    distances = (model.linear - independent) ** 2 / model.variances
    sums = sets.sums(distances[sets.chosen])
    together = np.bincount(sets.orders, sums)[sets.orders]
    own, common = (1 - n / np.maximum(n, each) for n, each in ((sets.sizes, sums), (sets.sizes_of_orders, together)))
    shares = np.where(sets.orders < 2, 1.0, (POOLED * common + sets.sizes * own) / (POOLED + sets.sizes))
    at = sets.chosen
    out[at] = independent[at] + shares[sets.of] * (found - independent)[at]
    return out


def _replicate_noise(
    model: _Model, combined: Estimate, measurements: Sequence[Measurement], averages: Averages
) -> list[Floats]:
    """The noise of each replicate, in pairs of both signs; the total has none."""
    cells = sum(view.places.size for view in model.views)
    pairs = min(max(_WORK // cells, _LEAST_PAIRS), _MOST_PAIRS)
    places = find(combined.keys, averages.keys)[0]
    out = []
    # The seed follows from the measurements: the same release gives the same estimate everywhere
    seed = seed_of(combined.schema, measurements)
    for drawn in noise_of_coefficients(averages, measurements, seed=seed, number=pairs):
        noise = np.zeros(len(combined.keys))
        noise[places] = drawn
        noise[model.total] = 0.0
        out += [noise, -noise]
    return out


class _Model:
    """The steps of the procedure, for one release."""

    def __init__(self, combined: Estimate, groups: Sequence[ViewGroup]) -> None:
        self.linear = combined.coefficients
        self.total = int(combined.places([()])[0].item())
        self.variances = np.maximum(combined.variances, LEAST_VARIANCE)
        self.views = [group for group in groups if group.shape]
        # The variance of a cell: each coefficient's variance times its mean squared weight in the cells
        self.cell_variances = [(self.variances[v.places] * mean_squares(v.shape)).sum(axis=1) for v in self.views]
        # A set of attributes is named by the place of its last coefficient, which no other set has
        self.orders = np.zeros(len(self.linear), np.int64)
        last = np.arange(len(self.linear))
        for view in self.views:
            self.orders[view.places] = view_orders(view.shape)
            last[view.places] = view.places[:, last_of_set(view.shape)]
        self.sets = Sets(last, self.orders)
        self._corrections: dict[float, JointCorrection] = {}  # by power: the same for all starts
        names = [(name,) for name in combined.schema.names]
        self._one_ways = [
            combined.places([name])[0][0]
            for name, covered in zip(names, combined.covered(names), strict=True)
            if covered
        ]

    def starting_from(self, linear: Floats) -> _Model:
        """The same steps from other combined coefficients of the same variances."""
        other = copy(self)
        other.linear = linear
        return other

    def corrected(self, coefficients: Floats, *, power: float) -> Floats:
        """The nearest coefficients without negative cells; the larger the power, the less low orders move."""
        if power not in self._corrections:
            self._corrections[power] = JointCorrection(self.variances, self.views, total=self.total, power=power)
        return self._corrections[power].nearest(coefficients, steps=_FIRST_STEPS)

    def last(self, coefficients: Floats) -> Floats:
        """No negative cells, one-way tables unchanged."""
        return nearest_above_zero(coefficients, self.variances, self.views, total=self.total, held=self.orders <= 1)

    def plausible(self, found: Floats) -> Floats:
        """Coefficients that are about as far from independence as the true ones: replicates add noise to these.

        With i the coefficients of independence, |l - i|^2 is about |truth - i|^2 plus the variances of l, order by
        order. ``found`` still holds noise. It is moved towards i until its distance is at most that of the truth.
        """
        # Squared distances in units of the variances, one number for each order
        independent = self.independent(found)
        apart, noisy = (
            np.bincount(self.orders, (each - independent) ** 2 / self.variances) for each in (found, self.linear)
        )
        true = np.maximum(noisy - np.bincount(self.orders), 0.0)
        shares = np.sqrt(true / np.maximum(true, np.maximum(apart, LEAST_VARIANCE)))
        shares[:2] = 1.0  # independence has the same one-way tables: no distance to move
        return np.asarray(independent + shares[self.orders] * (found - independent))

    def independent(self, found: Floats) -> Floats:
        """The coefficients of independence with the one-way tables found."""
        sums, number = np.zeros(len(found)), np.zeros(len(found))
        for view in self.views:
            stack, ndim = found[view.places].reshape(-1, *view.shape), len(view.shape)
            guess = stack.reshape(len(stack), -1)[:, 0]  # the total
            for axis in range(ndim):
                one_way = rebuild(stack[:, *(slice(None) if other == axis else 0 for other in range(ndim))], 1)
                shares = np.maximum(one_way, 0.0)
                shares /= shares.sum(axis=1, keepdims=True)
                guess = np.asarray(guess[..., None] * shares.reshape(len(stack), *[1] * axis, -1))
            cells = self._without_impossible(view, guess.reshape(view.places.shape)).reshape(stack.shape)
            sums += np.bincount(view.places.ravel(), decompose(cells, ndim).ravel(), len(found))
            number += np.bincount(view.places.ravel(), minlength=len(found))
        number[self.total] = 0.0
        return np.where(number > 0, sums / np.maximum(number, 1.0), self.linear)

    @staticmethod
    def _without_impossible(view: ViewGroup, guess: Floats) -> Floats:
        """A guess of each view, its mass at structural zeros given to the other cells of the view."""
        if not len(view.possible):
            return guess
        totals, guess = guess.sum(axis=1, keepdims=True), guess * view.possible
        return np.asarray(guess * (totals / np.maximum(guess.sum(axis=1, keepdims=True), _LEAST_PAIR_CELL)))

    def learn(self, found: Floats, *, pairs: bool) -> tuple[Floats, Floats]:
        """The weights of the mixture, and the cells of the least squares views shrunk by it towards guesses."""
        guesses, noisy = self._guesses(found, pairs=pairs), self._tables(self.linear)
        weights = mixture_of(noisy, guesses, self.cell_variances)
        return weights, self._shrunk(guesses, noisy, weights)

    def shrink(self, coefficients: Floats, found: Floats, weights: Floats, *, pairs: bool) -> Floats:
        """The cells of the views of some coefficients shrunk towards guesses by a known mixture."""
        return self._shrunk(self._guesses(found, pairs=pairs), self._tables(coefficients), weights)

    def _guesses(self, found: Floats, *, pairs: bool) -> list[Floats]:
        from crosstally.kernels.raking import independent_guesses, pair_guesses

        out = []
        for view in self.views:
            guess = np.empty(view.places.shape)
            independent_guesses(found, view.places, view.factors, view.sizes, guess)
            guess = self._without_impossible(view, guess)
            if pairs and len(view.sizes) > 2:
                sweeps = min(max(_VISITS // math.comb(len(view.sizes), 2), _LEAST_SWEEPS), _MOST_SWEEPS)
                pair_guesses(found, view.places, view.factors, view.sizes, _LEAST_PAIR_CELL, sweeps, guess)
            out.append(guess)
        return out

    def _tables(self, coefficients: Floats) -> list[Floats]:
        from crosstally.kernels.shrinkage import view_tables

        out = [np.empty(view.places.shape) for view in self.views]
        for view, tables in zip(self.views, out, strict=True):
            view_tables(coefficients, view.places, view.factors, view.sizes, tables)
        return out

    def _shrunk(self, guesses: Sequence[Floats], noisy: Sequence[Floats], weights: Floats) -> Floats:
        """Coefficients of the shrunk views, averaged; ``noisy`` is overwritten."""
        from crosstally.kernels.shrinkage import shrink_cells

        precisions = []
        for view, guess, tables, variances in zip(self.views, guesses, noisy, self.cell_variances, strict=True):
            # Cells become posterior means in place; spread is the sum of the posterior variances of each view
            spread = np.empty(len(tables))
            shrink_cells(tables, guess, variances, COMPONENTS, EDGES, weights, spread)
            if len(view.possible):
                np.multiply(tables, view.possible, out=tables)
            precisions.append(1 / np.maximum(spread, _LEAST_SPREAD))
        return self._averaged(noisy, precisions)

    def _averaged(self, tables: Sequence[Floats], weights: Sequence[Floats]) -> Floats:
        """The averaged coefficients of tables of all views; the total and others stay as combined."""
        from crosstally.kernels.shrinkage import add_views

        # A coefficient that several views hold is the mean of theirs, weighted by the views' precisions
        sums, precisions = np.zeros(len(self.linear)), np.zeros(len(self.linear))
        for view, stack, weight in zip(self.views, tables, weights, strict=True):
            # back from inner products with Helmert's vectors to coefficients
            add_views(stack, view.places, view.factors * view.outside, view.sizes, weight, sums, precisions)
        inside = precisions > 0
        inside[self.total] = False
        return np.where(inside, sums / np.where(inside, precisions, 1.0), self.linear)

    def with_possible_one_ways(self, coefficients: Floats) -> Floats:
        """The one-way tables without negative cells, their total kept."""
        out = coefficients.copy()
        # One-ways of different attributes share the total alone, which is put back: the order does not matter
        for places in self._one_ways:
            out[places] = decompose(clip_and_keep_total(rebuild(out[places], 1), 1), 1)
        out[self.total] = self.linear[self.total]
        return out
