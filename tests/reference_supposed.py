"""Tables drawn from the law that a release supposes of interactions nobody measured: plain and slow.

Central (``answers.modelled``): a table that nobody measured is the one of greatest entropy with the true covered
margins, times exp(s Z), fitted to these margins again. Z is normal, centred along each axis, of standard deviation 1 in
each cell; s is one of the sizes below, by weights that the release learned.

Local (``answers.moments``): to the table of greatest entropy a moment is added, normal, centred along each axis, with
the variance in each cell that the release supposes.

People are then drawn one by one, and the table of those drawn is fitted to the covered margins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Axes = tuple[int, ...]

MOST_LOG = 8.0
LEAST = 0.01  # people in a cell, so that every margin can be reached


def summed(table: Floats, axes: Sequence[int]) -> Floats:
    """The margin over some axes; the others keep length one."""
    return np.asarray(table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes), keepdims=True))


def fitted(table: Floats, margins: Mapping[Axes, Floats]) -> Floats:
    """The table scaled to one margin after the other until it has all of them."""
    for _ in range(1_000):
        off = 0.0
        for axes, wanted in margins.items():
            has = summed(table, axes)
            off = max(off, float(np.abs(has - wanted).max()))
            table = table * np.divide(wanted, has, out=np.zeros(has.shape), where=has > 0)
        if off < 1e-6 * float(table.sum()):
            break
    return table


def centred(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    """Normal numbers without mean along any axis, each of standard deviation 1."""
    drawn = rng.standard_normal(tuple(shape))
    for axis in range(drawn.ndim):
        drawn = drawn - drawn.mean(axis=axis, keepdims=True)
    return drawn / math.sqrt(math.prod(1 - 1 / n for n in shape))


def along(part: Floats, axes: Axes, ndim: int) -> Floats:
    """A table over some axes, with axes of length one for the others."""
    places = iter(part.shape)
    return part.reshape([next(places) if axis in axes else 1 for axis in range(ndim)])


def with_log_interactions(
    rng: np.random.Generator, margins: Mapping[Axes, Floats], law: Callable[[Axes], Floats]
) -> Floats:
    """A table of people with the covered margins, and interactions of every uncovered set of three and more axes.

    ``law`` has the sizes of the interaction of a set and their weights.
    """
    shape = np.broadcast_shapes(*(each.shape for each in margins.values()))
    base, logs = fitted(np.ones(shape), margins), np.zeros(shape)
    for order in range(3, len(shape) + 1):
        for axes in combinations(range(len(shape)), order):
            if not any(set(axes) <= set(covered) for covered in margins):
                sizes, weights = law(axes)
                size = rng.choice(sizes, p=weights / weights.sum())
                logs = logs + size * along(centred(rng, [shape[axis] for axis in axes]), axes, len(shape))
    table = fitted(base * np.exp(np.clip(logs, -MOST_LOG, MOST_LOG)), margins)
    return people(rng, table, margins)


def with_moment(rng: np.random.Generator, margins: Mapping[Axes, Floats], variances: Floats) -> Floats:
    """A table of people with the margins, nearly, and a moment of all its axes; variances are those of shares."""
    base = fitted(np.ones(variances.shape), margins)
    moved = base.sum() * recentred(rng.standard_normal(variances.shape) * np.sqrt(variances))
    return people(rng, np.maximum(base + moved, 0.0), margins)


def recentred(errors: Floats) -> Floats:
    """Independent errors made to add up to zero along each axis; their mean variance stays."""
    for axis, n in enumerate(errors.shape):
        errors = (errors - errors.mean(axis=axis, keepdims=True)) / math.sqrt(1 - 1 / n)
    return errors


def people(rng: np.random.Generator, table: Floats, margins: Mapping[Axes, Floats]) -> Floats:
    """As many people as there are, each drawn by the table; what they change of the margins is taken back."""
    number = round(float(table.sum()))
    drawn = rng.multinomial(number, table.ravel() / table.sum()).reshape(table.shape)
    return fitted(np.maximum(drawn, LEAST), margins)
