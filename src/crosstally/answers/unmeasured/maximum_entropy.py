"""Maximum entropy tables among those that agree with an estimate (PriView section 4.3, CME).

If no view covers a table, only some of its coefficients are known. The answer is the non-negative table of maximum
entropy that has these coefficients: it adds nothing to what was measured. Because of noise, there may be no such table.
So, with p = table / total and M p the known coefficients of p, the problem solved is always

    maximise  H(p) - |M p - c|^2 / (2 ridge)    over p >= 0 with sum 1,

by Newton's method on its dual, with the ridge lowered to 1e-10. The result is exact to 1e-8 if some table fits, and
otherwise the maximum entropy table among the nearest ones. Small tables use a matrix (``kernels.entropy``), large ones
do not (``fitted``); for these the ridge is lowered only as long as the table comes nearer.

Large tables are found from their largest covered margins. With p the table over its total, M p its known coefficients
and c their targets, A the sums of cells that are these margins and t their targets, for one ridge

    primal   max -sum p log p - |M p - c|^2 / (2 ridge)                                  over p >= 0 of sum 1
    dual     min log sum exp(A' lambda) - lambda . t + (ridge / 2) |theta(lambda)|^2     over lambda

is solved by Newton's method with conjugate gradients on the dual (``kernels.margins``). lambda has one number for each
cell of each margin, one margin after another; theta(lambda) are the coefficients of the function A' lambda in
orthonormal contrasts, without the total. The ridge is lowered in stages, each started at the last solution, until the
misfit |M p - c| shows one of two things, or until stages would have to be narrower than ``_LEAST_FACTOR``:

- it falls with the ridge down to the least ridge: a table fits, and this is it;
- it stops falling: no table fits, and this one is as near as any, to ``_NEAREST``. A smaller ridge would only choose
  among the nearest tables, for ten times the work.

The result is always the converged optimum for its ridge. A stage that does not converge is tried again with a smaller
step of the ridge; if the last, sharp one does not, the ridge is raised tenfold until one does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.unmeasured.known import Known, Reconstruction, known_alike, solve, widened
from crosstally.errors import QueryError
from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.axes import outer_product

if TYPE_CHECKING:
    from crosstally.kernels.margins import Blocks, Places, Work


_SMALL, _SMALL_TRANSFORM = 150, 20_000
"""Up to so many known coefficients, and numbers in the transform, there is a matrix: it takes at most 8 ms, and the
ridge goes down to its end whether a table fits or not. Without one 100 coefficients take as long and 200 a third to a
tenth (70 tables of releases of Adult and FARS)."""

_BINARY_WORK = 500
"""For two-valued attributes also where number^3 is at most this times the cells: the transform needs no more room than
the table, and one factor of the matrix costs less than the products with the table it saves."""


def maximum_entropy(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[Reconstruction]:
    """The tables of greatest entropy that agree with the estimate, all zeros where its total is not positive.

    Raises:
        QueryError: The number of rows was never measured, so no table has a total.
    """
    out: dict[int, Reconstruction] = {}
    for positions, known in known_alike(estimate, tables):
        out.update(zip(positions, greatest_entropy(known), strict=True))
    return [out[i] for i in range(len(tables))]


def greatest_entropy(known: Known) -> list[Reconstruction]:
    """The table of greatest entropy for each row of coefficients."""
    if not known.covered[0]:
        raise QueryError(
            "maximum entropy needs the number of rows, which was never measured: give it, or use least-squares"
        )
    totals = known.coefficients[:, 0]
    positive = np.flatnonzero(totals > 0)
    tables = np.zeros((len(totals), *known.shape))
    relaxed = np.zeros(len(totals))
    if len(positive) < len(totals):
        relaxed[:] = known.differences(tables)
    if len(positive):
        of_one = Known(known.shape, known.covered, known.coefficients[positive] / totals[positive, None])
        shares, missed = _shares(of_one)
        tables[positive] = shares * totals[positive].reshape(-1, *(1,) * len(known.shape))
        relaxed[positive] = missed * totals[positive]
    return [Reconstruction(table, float(amount)) for table, amount in zip(tables, relaxed, strict=True)]


def _shares(known: Known) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tables of total 1 and their largest differences: the products of their independent parts."""
    if len(known.components) == 1:
        return _joint(known)
    shares, missed = np.ones((len(known.coefficients),) + (1,) * len(known.shape)), np.zeros(len(known.coefficients))
    for axes in known.components:
        part, own = _joint(known.part(axes))
        shape = [n if axis in axes else 1 for axis, n in enumerate(known.shape)]
        shares = shares * part.reshape(-1, *shape)
        missed = np.maximum(missed, own)
    return shares, missed


def _joint(known: Known) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tables of total 1 over axes that depend on each other, or over one axis."""
    ndim = len(known.shape)
    if known.covered.all():
        tables = clip_and_keep_total(rebuild(known.coefficients.reshape(-1, *known.shape), ndim), ndim)
    else:
        tables = _solved(known).reshape(-1, *known.shape)
    return tables, known.differences(tables)


def _solved(known: Known) -> NDArray[np.float64]:
    """Tables of total 1 of greatest entropy: (tables, cells)."""
    from crosstally.kernels.entropy import GREATEST_ENTROPY

    places = np.flatnonzero(known.covered)[1:]
    if not len(places):
        return np.full(known.coefficients.shape, 1 / len(known.covered))
    if not _has_small_matrix(known, len(places)) and has_margins(known):
        return fitted(known)
    return solve(known, GREATEST_ENTROPY, places, known.weights[places])


def _has_small_matrix(known: Known, number: int) -> bool:
    """Whether Newton's method with a matrix of so many coefficients is faster than without."""
    cells, transformed = len(known.covered), widened(known.shape)
    return (number <= _SMALL and transformed <= _SMALL_TRANSFORM) or (
        transformed == cells and number**3 <= _BINARY_WORK * cells
    )


_FIRST_RIDGE, _LEAST_RIDGE = 1e-3, 1e-10
"""Where stages start and end, for tables of total 1, times their largest known coefficient or 1. Any start above 1e-4
gives the same; the end is that of ``kernels.entropy``: what a table that fits misses is about ridge times theta, 1e-9
of the total."""

_HOPELESS = 1e6
"""A ridge so large that the answer is flat; only numbers that are not finite get there."""

_FACTOR = 10**0.5
"""By how much the ridge falls from stage to stage, at first. With 10 more stages fail on the way, with 2 there are
more of them; both take 1.2 to 1.5 times as long on 60 tables of real releases (Adult, FARS, ACS, census)."""

_EASY, _HARD = 2, 6
"""Stages of at most 2 steps make the next one wider by ``_FACTOR``; those of more than 6 make it narrower, to the root
of its factor but not below 2. Chosen."""

_LEAST_FACTOR = 1.5
"""When stages must be narrower than this, the ridge stays where it is."""

_NEAREST = 1.002
"""The ridge stays when the misfit is at most this times what a straight line through the last two misfits says of
ridge zero. On the 60 tables such answers are as near to the true tables as those of ridge 1e-10, or nearer."""

_LOOSE, _CLOSE, _TIGHT = 1e-4, 1e-9, 1e-12
"""When a stage ends, in units of the dual: on the way, at the end where no table fits, at the end where one does.
The table is then within sqrt(2 x this) of the optimum, in the sum over its cells (Pinsker)."""

_STEPS, _STEPS_ALONE = 30, 100
"""The most steps of a stage that starts from the last one, and of one that has nothing better to start from."""

_LEAST_MARGIN = 1e-4
"""One-way margins below this count as this in the start: negative ones have no logarithm."""

_LARGEST_WIDTH = 256
"""The most cells in a row of the table: rows stay in the nearest cache, and many that are empty are passed over."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """How the cells of a table lie in those of its margins; ``order`` is that of its axes while it is solved."""

    order: tuple[int, ...]
    shape: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    places: Places
    blocks: Blocks
    wide_cells: int

    @property
    def sides(self) -> list[tuple[int, ...]]:
        """The shapes of the margins."""
        return [tuple(self.shape[axis] for axis in axes) for axes in self.sets]


def has_margins(known: Known) -> bool:
    """Whether all that is known are margins: contrasts alone may leave out sets inside the largest ones."""
    covered = known.covered.reshape(known.shape)
    return all(
        covered[tuple(slice(None) if s >> i & 1 else 0 for i in range(covered.ndim))].all() for s in known.subsets
    )


def fitted(known: Known) -> NDArray[np.float64]:
    """Tables of total 1 of greatest entropy whose largest covered margins are known: (tables, cells).

    Raises:
        QueryError: What is known is not made of finite numbers.
    """
    if not np.isfinite(known.coefficients).all():
        raise _not_finite()
    layout = _layout(known.shape, known.subsets)
    wanted = np.hstack([_margins(known, [layout.order[axis] for axis in axes]) for axes in layout.sets])
    largest = np.abs(known.coefficients).max(axis=1)
    back = np.argsort(layout.order)
    tables = np.empty(known.coefficients.shape)
    for table, target, unit in zip(tables, wanted, largest, strict=True):
        solved = _followed(layout, target, max(1.0, float(unit)))
        table[:] = solved.reshape(layout.shape).transpose(back).ravel()
    return tables


def _margins(known: Known, axes: Sequence[int]) -> NDArray[np.float64]:
    """The margins over some axes, in this order: (tables, cells)."""
    part = known.part(sorted(axes))
    stack = rebuild(part.coefficients.reshape(-1, *part.shape), len(axes))
    order = [sorted(axes).index(axis) for axis in axes]
    return stack.transpose(0, *(1 + i for i in order)).reshape(len(stack), -1)


def _followed(layout: _Layout, target: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """The table at the end of a path of falling ridges."""
    from crosstally.kernels.margins import fit_margins

    work = _work(layout, target)
    position = work[0][0]  # lambda, which the kernel moves in place

    def stage(ridge: float, tolerance: float, steps: int) -> tuple[bool, int, float]:
        """Whether the optimum was reached, in how many steps, and its misfit."""
        if not ridge < _HOPELESS * unit:
            raise _not_finite()
        taken = fit_margins(ridge, tolerance, steps, layout.places, layout.blocks, work)
        return taken > 0, abs(taken), float(np.linalg.norm(work[2][0]))

    least, ridge, factor = _LEAST_RIDGE * unit, _FIRST_RIDGE * unit, _FACTOR
    done, steps, misfit = stage(ridge, _LOOSE, _STEPS_ALONE)
    while not done:
        position[:] = 0.0
        ridge *= 10.0
        done, steps, misfit = stage(ridge, _LOOSE, _STEPS_ALONE)
    saved, near = position.copy(), False
    while ridge > least and not near and factor >= _LEAST_FACTOR:
        smaller = max(ridge / factor, least)
        done, steps, new = stage(smaller, _LOOSE, _STEPS)
        if done:
            near = new <= _NEAREST * _at_zero(ridge / smaller, misfit, new)
            ridge, misfit, saved = smaller, new, position.copy()
            factor = factor * _FACTOR if steps <= _EASY else max(math.sqrt(factor), 2.0) if steps > _HARD else factor
        else:
            position[:] = saved
            factor = math.sqrt(factor)
    while not stage(ridge, _CLOSE if near or ridge > least else _TIGHT, _STEPS_ALONE)[0]:
        position[:] = saved
        ridge *= 10.0
    return np.asarray(work[3][0])


def _at_zero(factor: float, wider: float, misfit: float) -> float:
    """The misfit of ridge zero on the line through the one of a ridge and the wider one of factor times that ridge."""
    return (factor * misfit - wider) / (factor - 1.0)


def _not_finite() -> QueryError:
    return QueryError("the table could not be reconstructed: what is known about it is not made of finite numbers")


def _work(layout: _Layout, target: NDArray[np.float64]) -> Work:
    """The arrays of the kernel; lambda, its first vector, starts as that of independent attributes."""
    vectors = np.zeros((10, len(target)))
    vectors[1] = target
    started: set[int] = set()
    starts = layout.blocks[0]
    for axes, sides, start, stop in zip(layout.sets, layout.sides, starts, starts[1:], strict=False):
        margin, logs = target[start:stop].reshape(sides), vectors[0, start:stop].reshape(sides)
        for i, axis in enumerate(axes):
            if axis not in started:
                started.add(axis)
                own = margin.sum(axis=tuple(j for j in range(len(axes)) if j != i), keepdims=True)
                logs += np.log(np.maximum(own, _LEAST_MARGIN))
    coefficients = np.empty((2, int(layout.blocks[3].max()) + 1))
    return vectors, np.empty((3, layout.wide_cells)), coefficients, np.empty((1, math.prod(layout.shape)))


@lru_cache(maxsize=8)  # one of five million cells may take 30 MB
def _layout(shape: tuple[int, ...], subsets: tuple[int, ...]) -> _Layout:
    """The layout of the least work. Long axes are put last, so that rows are long."""
    order = tuple(sorted(range(len(shape)), key=lambda axis: shape[axis]))
    sides = tuple(shape[axis] for axis in order)
    sets = tuple(tuple(i for i, axis in enumerate(order) if subset >> axis & 1) for subset in subsets)
    first = min(range(len(shape)), key=lambda first: _cost(sides, sets, first))
    blocks = _blocks(sides, sets)
    places, wide_cells = _places(sides, sets, first, blocks[0])
    return _Layout(order, sides, sets, places, blocks, wide_cells)


def _cost(shape: tuple[int, ...], sets: Sequence[tuple[int, ...]], first: int) -> float:
    """About how long one product with the Hessian takes when the axes from the first one on are a row."""
    width, rows = math.prod(shape[first:]), math.prod(shape[:first])
    if width > max(_LARGEST_WIDTH, shape[-1]):
        return math.inf
    wide = [axes for axes in sets if axes[-1] >= first]
    joined = {tuple(axis for axis in axes if axis < first) for axes in wide}
    made = sum(math.prod(shape[axis] for axis in axes if axis < first) * width for axes in wide)
    return rows * (width * (1 + len(joined)) / 2 + 4 * (len(sets) - len(wide) + len(joined))) + 2 * made


def _blocks(shape: tuple[int, ...], sets: Sequence[tuple[int, ...]]) -> Blocks:
    """Where the margins stand, and which coefficient each of their cells holds once it is transformed.

    A coefficient z of a margin is the inner product with a product of Helmert's vectors in whole numbers, of squared
    length w, over the axes of z, and of ones over the others, n cells. Divided by n sqrt(w) it is that of the function
    on the table in orthonormal contrasts, and so is the way back.
    """
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    places, scales = [], []
    for axes in sets:
        own = np.zeros(1, np.int64)
        for axis in axes:
            own = np.add.outer(own, strides[axis] * np.arange(shape[axis])).ravel()
        places.append(own)
        lengths = [[float(shape[axis])] + [math.sqrt(j * (j + 1)) for j in range(1, shape[axis])] for axis in axes]
        scales.append(1.0 / outer_product(lengths))
    _, which = np.unique(np.concatenate(places), return_inverse=True)
    starts = np.cumsum([0] + [len(own) for own in places])
    sizes = np.array([shape[axis] for axes in sets for axis in axes], np.int64)
    dims = np.array([len(axes) for axes in sets], np.int64)
    return starts.astype(np.int64), dims, sizes, which.astype(np.int64), np.concatenate(scales)


def _places(
    shape: tuple[int, ...], sets: Sequence[tuple[int, ...]], first: int, starts: NDArray[np.int64]
) -> tuple[Places, int]:
    """Where rows of a table lie in its margins, when the axes from the first one on are a row; and the wide cells."""
    last, width = tuple(range(first, len(shape))), math.prod(shape[first:])
    free, wide, into, source = [], {}, [], []
    wide_cells = 0
    for axes, start in zip(sets, starts, strict=False):
        if axes[-1] < first:
            free.append(start + _cells(shape, tuple(range(first)), axes))
            continue
        outer = tuple(axis for axis in axes if axis < first)
        if outer not in wide:
            wide[outer] = wide_cells + width * _cells(shape, tuple(range(first)), outer)
            wide_cells += width * math.prod(shape[axis] for axis in outer)
        source.append(start + _cells(shape, outer + last, axes))
        into.append(int(wide[outer][0]) + np.arange(len(source[-1])))
    rows = math.prod(shape[:first])
    stacks = [np.array(list(part), np.int64).reshape(-1, rows) for part in (free, wide.values())]
    return (stacks[0], stacks[1], np.concatenate(into), np.concatenate(source)), wide_cells


def _cells(shape: tuple[int, ...], axes: tuple[int, ...], inner: tuple[int, ...]) -> NDArray[np.int64]:
    """For each cell of the margin over some axes the cell of the margin over fewer of them."""
    cells = np.zeros(1, np.int64)
    for axis in axes:
        stride = math.prod(shape[i] for i in inner if i > axis) if axis in inner else 0
        cells = np.add.outer(cells, stride * np.arange(shape[axis])).ravel()
    return cells
