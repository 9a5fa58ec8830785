"""What can become of a table: numpy functions of stacks of tables (the first axis), and of linear forms.

All are functions of their module with arguments bound, rather than closures, so that an answer can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.linear_form import LinearForm, ProductTerm
from crosstally.query.question import Where
from crosstally.residuals.axes import map_axis, placed
from crosstally.typing import Floats

Places = tuple[tuple[int, ...], tuple[int, ...]]
"""Where the axes of each of two tables stand among those of the result."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change of one table into another.

    ``tables`` turns a stack of tables into a stack of others; ``form`` does the same with a linear form, and is None
    where the change is not linear.
    """

    tables: Callable[[Floats], Floats]
    form: Callable[[LinearForm], LinearForm | None] | None = None

    def __call__(self, stack: Floats) -> Floats:
        """What becomes of each table of a stack."""
        return self.tables(stack)

    def table(self, values: Floats) -> Floats:
        """What becomes of a single table."""
        return np.asarray(self.tables(values[None])[0])

    def after(self, before: Change | None) -> Change:
        """This change after another one, of tables alone."""
        return self if before is None else Change(partial(_in_turn, before, self))


def added(axis: int, matrix: Floats, *, kept: bool) -> Change:
    """Cells along an axis added up, weighted by the rows of a matrix; not ``kept``, the axis of length one goes."""
    return Change(partial(_added, axis, matrix, kept), partial(LinearForm.along, axis=axis, matrix=matrix, kept=kept))


def taken(axis: int, codes: tuple[int, ...], size: int, *, kept: bool) -> Change:
    """Some of the ``size`` cells along an axis; a single one leaves the axis out unless it is ``kept``."""
    some = partial(np.take, indices=codes if kept else codes[0], axis=axis + 1)
    return Change(some, added(axis, np.eye(size)[list(codes)], kept=kept).form)


def in_a_row(cells: NDArray[np.intp]) -> Change:
    """Some cells, by their places in the flat table."""
    some = partial(_in_a_row, cells)
    return Change(some, partial(LinearForm.mapped, function=some, whole=True))


def moved(order: tuple[int, ...]) -> Change:
    """The axes in another order: axis i of the result is axis ``order[i]`` of the table."""
    turned = partial(np.transpose, axes=(0, *(axis + 1 for axis in order)))
    return Change(turned, partial(LinearForm.mapped, function=turned))


def scaled(factor: float | Floats) -> Change:
    """Times a number, or a number for each cell."""
    return Change(partial(np.multiply, factor), partial(LinearForm.scaled, factor=factor))


def shifted(number: float) -> Change:
    """A number more: the errors stay."""
    return Change(partial(np.add, number), _same)


def statistic(function: Callable[[Floats], Floats]) -> Change:
    """One number of each table."""
    return Change(partial(_statistic, function))


def emptied(possible: NDArray[np.bool_]) -> Change:
    """Cells that nobody can be in become zero; errors before correction stay what they were."""
    return Change(partial(np.multiply, possible), _same)


def where_added(
    where: Where, names: tuple[str, ...], kept: tuple[NDArray[np.intp], ...], chosen: NDArray[np.bool_]
) -> Change:
    """Cells of a table added up over those where a condition is true.

    ``kept`` are the values left of each of the first attributes, ``names`` all attributes, ``chosen`` the cells where
    the condition is true, with axes of length one where it does not depend on an attribute.
    """
    return Change(partial(_where_sums, kept, chosen), partial(_where_form, where, names, kept))


def combined(function: np.ufunc, places: Places, ndim: int, mine: Floats, others: Floats) -> Floats:
    """A function of each pair of tables of two stacks, cell by cell, after their axes are moved to their places."""
    one, other = (placed(stack, axes, ndim) for stack, axes in zip((mine, others), places, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(function(one, other))


def _in_turn(first: Change, second: Change, stack: Floats) -> Floats:
    return second(first(stack))


def _added(axis: int, matrix: Floats, kept: bool, stack: Floats) -> Floats:
    sums = map_axis(matrix, stack, axis + 1)
    return sums if kept else sums.squeeze(axis + 1)


def _in_a_row(cells: NDArray[np.intp], stack: Floats) -> Floats:
    return stack.reshape(len(stack), -1)[:, cells]


def _statistic(function: Callable[[Floats], Floats], stack: Floats) -> Floats:
    return np.asarray(function(stack), np.float64)


def _same(form: LinearForm) -> LinearForm:
    return form


def _where_sums(kept: tuple[NDArray[np.intp], ...], chosen: NDArray[np.bool_], stack: Floats) -> Floats:
    for axis, values in enumerate(kept, start=1):
        stack = stack.take(values, axis)
    return np.asarray(np.where(chosen, stack, 0.0).sum(axis=tuple(range(len(kept) + 1, stack.ndim))))


def _where_form(
    where: Where, names: tuple[str, ...], kept: tuple[NDArray[np.intp], ...], before: LinearForm
) -> LinearForm | None:
    """A term for each box of the condition."""
    (term,) = before.terms
    sizes = [len(weights) for weights in term.weights]
    asked, terms = len(kept), []
    for box in where.boxes:
        weights = []
        for axis, (name, size) in enumerate(zip(names, sizes, strict=True)):
            inside = np.array([float(code in box.get(name, range(size))) for code in range(size)])
            rows = np.eye(size)[kept[axis]] * inside if axis < asked else inside[None]
            weights.append(rows.T.reshape(size, *(len(rows) if i == axis else 1 for i in range(asked))))
        terms.append(ProductTerm(term.source, term.names, tuple(weights), np.ones((1,) * (1 + asked))))
    return LinearForm.of_terms([len(each) for each in kept], terms)
