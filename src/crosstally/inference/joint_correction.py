"""Correct all views at once: find the nearest coefficients for which no cell of any view is negative.

PriView corrects each view separately and then makes the views agree again. Here both happen together: let r_c be a
combined coefficient, v_c its variance and j_c its number of attributes (its order). The coefficients x minimise

    sum over c of (x_c - r_c)^2 / (v_c j_c^(2p)),    no cell of any view below zero, the total as it was,

with p = 1 by default. With p = 0 this is the constrained least squares estimate. But if most cells are empty, removing
negative noise adds to all of them, and these additions accumulate in sums over many cells. The factor j_c makes the
correction change interactions of many attributes, which are known badly, more than counts of few attributes.
Coefficients may also be held fixed. Impossible cells become zero.

The problem is solved by the alternating direction method of multipliers: views are clipped, and coefficients move
towards the clipped views. In the residual basis both steps are sums over cells; no matrix is factored.

Let H_V map coefficients to the cells of view V, z_V be the clipped cells (``above_zero``), y_V the scaled multipliers
(``owed``) and rho_V = 0.5 / v of the view's own residual (``penalties``). A step of the method (Boyd et al. 2011,
section 3.1.1) is

    z_V <- max(H_V x + y_V, 0), 0 at structural zeros,         y_V <- y_V + H_V x - z_V             (``split_step``)
    x_c <- (w_c r_c + sum_V rho_V (H_V' (z_V - y_V))_c) / (w_c + sum_V rho_V (H_V' H_V)_cc),   w_c = 1 / (v_c j_c^(2p))

The second is a division for each coefficient, since H_V' H_V is diagonal in the residual basis: a coefficient is spread
evenly over the cells of the attributes that it does not hold (``outside``). All coefficients stand in one vector
(coefficients); ``places`` (views, cells) says where those of each view are.

PriView's own corrections (section 4.4) are also here: each takes a stack of tables, whose last ``ndim`` axes are the
attributes, and returns a new stack without (large) negative cells. ``simple`` increases the total; ``global`` and
``ripple`` keep it. A table whose total is negative becomes all zeros.

>>> view = ViewGroup((2,), np.array([[0, 1]]))  # total 4 and difference 6: cells 5 and -1
>>> start = np.array([4.0, 6.0 / math.sqrt(2)])
>>> (nearest_above_zero(start, np.ones(2), [view], total=0) * [1, math.sqrt(2)]).round(1).tolist()  # cells 4 and 0
[4.0, 4.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import CrosstallyError
from crosstally.residuals.axes import outer_product
from crosstally.typing import Floats

# Guard against endless ripples: the most steps of a table are _LEAST_STEPS plus _STEPS_FOR_EACH_CELL times its cells.
_LEAST_STEPS = 10_000_000
_STEPS_FOR_EACH_CELL = 1_000  # see above. A table that needs more is clipped with its total kept
_ROUNDING = 1e-9  # in rows: far above the rounding of doubles, far below any useful threshold

Correction = Callable[[NDArray[np.float64], int], NDArray[np.float64]]


def unchanged(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:  # noqa: ARG001 (all corrections are called alike)
    """The tables as they are: ``none``."""
    return np.array(tables, np.float64)


def clip(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:  # noqa: ARG001
    """The tables with negative cells set to zero: ``simple``."""
    return np.maximum(np.asarray(tables, np.float64), 0.0)


def clip_and_keep_total(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The tables with negative cells set to zero and one constant taken from the others: ``global``.

    The constant is the one that keeps each table's total when cells that it would make negative become zero too. It is
    found exactly, by sorting, and only where there are negative cells.

    >>> clip_and_keep_total([5.0, 1.0, -2.0, 0.25], ndim=1)
    array([4.125, 0.125, 0.   , 0.   ])
    """
    out = np.array(tables, np.float64)
    cells = out.reshape(-1, math.prod(out.shape[out.ndim - ndim :]))
    negative = np.flatnonzero((cells < 0).any(axis=1))
    if len(negative):
        cells[negative] = _without_constant(cells[negative])
    return out


def _without_constant(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row's max(cell - c, 0) with c such that the total stays; zeros where the total is not positive."""
    totals = cells.sum(axis=1, keepdims=True)
    ordered = np.sort(cells, axis=1)[:, ::-1]
    constants = (np.cumsum(ordered, axis=1) - totals) / np.arange(1, cells.shape[1] + 1)
    kept = (ordered > constants).sum(axis=1, keepdims=True)
    constant = np.take_along_axis(constants, np.maximum(kept - 1, 0), axis=1)
    return np.where(totals > 0, np.maximum(cells - constant, 0.0), 0.0)


def ripple(tables: ArrayLike, ndim: int, *, threshold: float = 1.0) -> NDArray[np.float64]:
    """The tables with the deficit of each cell below minus the threshold taken from its neighbours: ``ripple``.

    Such a cell becomes zero and what it lacked is taken in equal parts from the sum(n_i - 1) cells that differ from it
    in one attribute. This goes in rounds, all cells below at once, so that the order of cells and attributes does not
    matter, until no cell is below. With a positive total that ends: once every cell has been set to zero, all are at
    most zero, which contradicts the total. It may take long if the other cells are small; then, and if the total
    is not positive, ``global`` is used.

    >>> ripple([[-4.0, 5.0], [3.0, 9.0]], ndim=2)
    array([[0., 3.],
           [1., 9.]])
    """
    if not threshold >= 0:  # else shares may be negative, and a cell pass the threshold more than once in a round
        raise CrosstallyError(f"threshold must be a number of at least 0, got {threshold!r}")
    out = np.array(tables, np.float64, order="C")
    sizes = np.array(out.shape[out.ndim - ndim :], np.int64)
    cells = out.reshape(-1, math.prod(sizes.tolist()))
    limit = float(threshold) + _ROUNDING  # integers often equal the threshold: rounding must not decide there
    below = np.flatnonzero((cells < -limit).any(axis=1))
    if not len(below):
        return out
    from crosstally.kernels.ripple import ripple_table

    steps = _LEAST_STEPS + _STEPS_FOR_EACH_CELL * cells.shape[1]
    for i in below:
        if cells[i].sum() <= 0 or ripple_table(cells[i], sizes, limit, steps):
            cells[i] = clip_and_keep_total(cells[i], 1)
    return out


CORRECTIONS: Mapping[str, Correction] = {
    "none": unchanged,
    "simple": clip,
    "global": clip_and_keep_total,
    "ripple": ripple,
}


# The penalty of the splitting (ADMM), in precisions of a view's finest coefficients. It changes speed, not the optimum.
_PENALTY = 0.5
# Steps end when cells are this near, in units of their noise. Less takes more steps for what noise hides.
_TOLERANCE = 0.01
_MOST_STEPS = 200  # limits time: where steps end here and not at the tolerance, small negative cells remain
# Views of more cells are taken one by one: eight of them exceed the processor's cache. Up to here steps
# abreast took 0.4 to 0.8 of the time (1 to 12 attributes of 2 to 50 values). Results do not depend on it.
_MOST_ABREAST = 4_096
LEAST_VARIANCE = 1e-12
"""Variances below this count as this: exact numbers then have a finite weight."""


_Step = tuple[Callable[..., tuple[float, float]], tuple[NDArray[Any], ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class ViewGroup:
    """Views of one shape: the places of each view's coefficients, the last attribute fastest.

    ``possible`` says of each cell whether it is not a structural zero; it has no rows if there are none.
    """

    shape: tuple[int, ...]
    places: NDArray[np.int64]
    possible: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", np.ascontiguousarray(self.places, np.int64))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The shape, as kernels read it."""
        return np.array(self.shape, np.int64)

    @cached_property
    def factors(self) -> Floats:
        """The factors from coefficients to those of integer Helmert vectors."""
        return view_factors(self.shape)

    @cached_property
    def outside(self) -> Floats:
        """For each coefficient the number of cells over the attributes that it does not have."""
        return outer_product([[n] + [1] * (n - 1) for n in self.shape])


class JointCorrection:
    """The shared data of all corrections of coefficients with these variances, prepared once.

    ``nearest`` starts from some coefficients; see ``nearest_above_zero`` for the arguments.
    """

    def __init__(
        self,
        variances: Floats,
        groups: Sequence[ViewGroup],
        *,
        total: int,
        power: float = 1.0,
        held: NDArray[np.bool_] | None = None,
    ) -> None:
        number = len(variances)
        variances = np.maximum(variances, LEAST_VARIANCE)
        # penalised is sum_V rho_V (H_V' H_V)_cc; weights are w_c, any number for coefficients that no view holds
        views: list[_Step] = []
        orders, penalised = np.ones(number), np.zeros(number)
        for group in groups:
            # The last coefficient of a view holds all its attributes; rho in its precisions makes steps scale-free
            penalties = _PENALTY / variances[group.places[:, -1]]
            orders[group.places] = np.maximum(view_orders(group.shape), 1)
            shares = penalties[:, None] / group.outside
            penalised += np.bincount(group.places.ravel(), shares.ravel(), number)
            views += _steps_of(group, penalties)
        self._groups, self._total, self._views, self._penalised = groups, total, views, penalised
        self._weights = np.where(penalised > 0, 1 / (variances * orders ** (2 * power)), 1.0)
        # Held coefficients are put back after each step; each is updated by itself, so no other depends on that
        self._kept = np.zeros(number, np.bool_) if held is None else held.copy()
        self._kept[total] = True

    def nearest(self, coefficients: Floats, *, steps: int = _MOST_STEPS) -> Floats:
        """The nearest coefficients for which no cell of any view is below zero, up to a tolerance."""
        if coefficients[self._total] <= 0:
            return _without_rows(coefficients, self._groups)
        # Beside what is fixed: the clipped cells and what is owed to them
        views = [(step, (*fixed, np.zeros(shape), np.zeros(shape))) for step, fixed, shape in self._views]
        found, kept = coefficients.copy(), self._kept
        for _ in range(steps):
            # sums is sum_V rho_V H_V' (z_V - y_V); left the largest violation and move of each group, in noise
            sums = np.zeros(len(coefficients))
            left = [step(found, *view, sums) for step, view in views]
            found = (coefficients * self._weights + sums) / (self._weights + self._penalised)
            found[kept] = coefficients[kept]
            if max((max(each) for each in left), default=0.0) < _TOLERANCE:
                break
        return found


def nearest_above_zero(
    coefficients: Floats,
    variances: Floats,
    groups: Sequence[ViewGroup],
    *,
    total: int,
    power: float = 1.0,
    held: NDArray[np.bool_] | None = None,
    steps: int = _MOST_STEPS,
) -> Floats:
    """The nearest coefficients for which no cell of any view is below zero, up to a tolerance.

    It ends when no cell is further from that, or moves more, than about a hundredth of its noise, or when
    there are no steps left.

    Args:
        coefficients: The combined coefficients.
        variances: Of the coefficients.
        groups: The views.
        total: The place of the total, which is kept and must not be negative.
        power: How much more coefficients of a high order move: p above.
        held: Coefficients that stay as they are, besides the total.
        steps: The most steps.
    """
    return JointCorrection(variances, groups, total=total, power=power, held=held).nearest(coefficients, steps=steps)


def _steps_of(group: ViewGroup, penalties: Floats) -> list[_Step]:
    """The kernels that make a step of views of one shape, what is fixed of their arguments, and the shape of the rest.

    Views are processed side by side if possible. Both kernels give identical bits, and views stay in order.
    """
    from crosstally.kernels.joint import ABREAST, split_step, split_step_abreast

    places, cells, alike = group.places, group.places.shape[1], (group.factors, group.sizes)
    whole = len(places) - len(places) % ABREAST if cells <= _MOST_ABREAST and not len(group.possible) else 0
    out: list[_Step] = []
    if whole:
        fixed = places[:whole], *alike, penalties[:whole]
        out.append((split_step_abreast, fixed, (whole // ABREAST, cells, ABREAST)))
    if whole < len(places):
        rest = places[whole:], *alike, penalties[whole:], group.possible
        out.append((split_step, rest, places[whole:].shape))
    return out


def with_total_above_zero(coefficients: Floats, total: int) -> Floats:
    """The coefficients with a total that is not negative: corrections keep it."""
    out = coefficients.copy()
    out[total] = max(out[total], 0.0)
    return out


def _without_rows(coefficients: Floats, groups: Sequence[ViewGroup]) -> Floats:
    """The coefficients for a total of zero: all cells are zero."""
    found = coefficients.copy()
    for group in groups:
        found[group.places] = 0.0
    return found


def view_factors(shape: Sequence[int]) -> Floats:
    """The factors from coefficients of a view to those of integer Helmert vectors."""
    # The total is the sum of n cells, so each has 1 / n of it; other vectors of Helmert have the length sqrt(j (j + 1))
    return outer_product([[1 / n, *(1 / math.sqrt(j * (j + 1)) for j in range(1, n))] for n in shape])


def view_orders(shape: Sequence[int]) -> NDArray[np.int64]:
    """The number of attributes of each coefficient of a view."""
    return np.asarray((np.indices(shape) > 0).sum(axis=0).ravel(), np.int64)


def last_of_set(shape: Sequence[int]) -> NDArray[np.intp]:
    """For each coefficient of a view where the last one of its set stands: its digits above zero at their largest."""
    digits = np.indices(shape).reshape(len(shape), -1)
    ends = np.array(shape)[:, None] - 1
    return np.asarray(np.ravel_multi_index(tuple(np.where(digits > 0, ends, 0)), tuple(shape)))
