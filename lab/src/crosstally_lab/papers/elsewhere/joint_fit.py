"""mbi's mirror descent without compilation, for tables of few cells; imported by ``opendp_tables.py`` alone.

OpenDP's AIM fits a log-linear model after every round by 1,000 steps of mirror descent (``mbi.estimation``). mbi
compiles its step again in every round, since the tables of the model have changed: seconds each time, for steps that
take less than a millisecond. Here the same steps are made by numpy, with the table of all attributes in memory:

    p = N softmax(sum over S of theta_S),    g_S = (p_S - y_S) / variance_S,    theta_S <- theta_S - alpha g_S

where S are the measured tables, y_S their noisy counts and N the total, with mbi's rule for alpha, its start and its
number of steps. mbi adds the gradient of a table to the potential of a larger one; p is the same. So the fits are equal
but for rounding. OpenDP lets its users choose the ``estimator``: this is passed as one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Positions = tuple[int, ...]

STEPS = 1_000
"""Steps of a fit; what ``mbi.estimation.mirror_descent`` takes unless told otherwise, and OpenDP does not tell."""
_POWERS = 50
"""Steps of mbi's power iteration for the first alpha."""


@dataclass(frozen=True)
class Measured:
    """A noisy table over attributes in ascending order of their positions, and the variance of its noise."""

    attributes: Positions
    values: np.ndarray
    variance: float


class Joint:
    """All tables of some attributes at once: of the first attributes by lines, of the others by columns.

    The cells of all attributes are a matrix, P, of the cells of the first by those of the others. A table over S is a
    block of ``lines.T @ P @ columns``: the sums over the cells of S's first attributes and those of its others. Both
    hold zeros and ones. So two products of matrices give all tables, and two spread potentials over the cells.
    """

    def __init__(self, sizes: Sequence[int], order: int) -> None:
        roots = [abs(math.log(math.prod(sizes[:i])) - math.log(math.prod(sizes[i:]))) for i in range(len(sizes) + 1)]
        self.sizes, self.order, self.half = tuple(sizes), order, int(np.argmin(roots))
        self.lines, self.line_places = _indicators(self.sizes, range(self.half), order)
        self.columns, self.column_places = _indicators(self.sizes, range(self.half, len(sizes)), order)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix that holds all tables, or all potentials."""
        return self.lines.shape[1], self.columns.shape[1]

    def block(self, attributes: Positions) -> tuple[slice, slice]:
        """Where a table stands in that matrix."""
        first = tuple(each for each in attributes if each < self.half)
        return self.line_places[first], self.column_places[attributes[len(first) :]]

    def placed(self, attributes: Positions, values: np.ndarray) -> tuple[tuple[slice, slice], np.ndarray]:
        """The block of a table and its values in the block's shape."""
        block = self.block(attributes)
        return block, np.reshape(values, [each.stop - each.start for each in block])

    def tables(self, cells: np.ndarray) -> np.ndarray:
        """All tables of a matrix of cells."""
        tables: np.ndarray = self.lines.T @ cells @ self.columns
        return tables

    def cells(self, potentials: np.ndarray, total: float) -> np.ndarray:
        """The cells of the model with these potentials."""
        logs = self.lines @ potentials @ self.columns.T
        weights = np.exp(logs - logs.max())
        cells: np.ndarray = weights * (total / weights.sum())
        return cells

    def table(self, tables: np.ndarray, attributes: Positions) -> np.ndarray:
        """One table, an axis for each attribute."""
        return tables[self.block(attributes)].reshape([self.sizes[i] for i in attributes])


def _indicators(sizes: Sequence[int], among: range, order: int) -> tuple[np.ndarray, dict[Positions, slice]]:
    """A column for each cell of each table over at most ``order`` of the attributes: one where a cell belongs to it."""
    shape = [sizes[i] for i in among]
    codes = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), int)
    blocks, places, end = [], dict[Positions, slice](), 0
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(len(shape)), k) for k in range(order + 1)):
        cell = np.zeros(codes.shape[1], int)
        for i in chosen:
            cell = cell * shape[i] + codes[i]
        blocks.append(np.eye(math.prod(shape[i] for i in chosen))[cell])
        places[tuple(among[i] for i in chosen)] = slice(end, end + blocks[-1].shape[1])
        end += blocks[-1].shape[1]
    return np.concatenate(blocks, axis=1), places


def descended(
    joint: Joint, measured: Sequence[Measured], start: np.ndarray, *, total: float, alpha: float, steps: int = STEPS
) -> np.ndarray:
    """The potentials after mirror descent, as ``mbi.estimation.mirror_descent`` has it.

    Measurements of the same table count as their mean, weighted by precision: the loss differs by a constant.
    """
    precision, sums = np.zeros(joint.shape), np.zeros(joint.shape)
    for each in measured:
        block, values = joint.placed(each.attributes, each.values)
        precision[block] += 1 / each.variance
        sums[block] += values / each.variance
    means = np.divide(sums, precision, out=np.zeros_like(sums), where=precision > 0)
    potentials, tables = start, joint.tables(joint.cells(start, total))
    gradient = precision * (tables - means)
    loss = 0.5 * float(np.vdot(gradient, tables - means))
    for _ in range(steps):
        tried = potentials - alpha * gradient
        next_tables = joint.tables(joint.cells(tried, total))
        next_gradient = precision * (next_tables - means)
        next_loss = 0.5 * float(np.vdot(next_gradient, next_tables - means))
        if loss - next_loss >= 0.5 * alpha * float(np.vdot(gradient, tables - next_tables)):
            potentials, tables, gradient, loss, alpha = tried, next_tables, next_gradient, next_loss, 1.01 * alpha
        else:
            alpha *= 0.5
    return potentials


def lipschitz(sizes: Sequence[int], measured: Sequence[Measured], held: Sequence[Positions]) -> float:
    """The largest curvature as mbi estimates it: each measurement counts in the first table held that contains it.

    Its power iteration begins with equal numbers, so they stay equal within each table: one number for each will do.
    """
    cells = np.array([math.prod(sizes[i] for i in each) for each in held], float)
    curvature = np.zeros(len(held))
    for each in measured:
        exact = [place for place, table in enumerate(held) if table == each.attributes]
        place = (exact or [place for place, table in enumerate(held) if set(each.attributes) <= set(table)])[0]
        curvature[place] += cells[place] / math.prod(sizes[i] for i in each.attributes) / each.variance
    vector = np.full(len(held), 1 / math.sqrt(cells.sum()))
    estimate = 0.0
    for _ in range(_POWERS):
        vector = curvature * vector
        estimate = math.sqrt(float((cells * vector**2).sum()))
        vector = vector / (estimate + 1e-12)
    return estimate


def folded(
    joint: Joint, potentials: np.ndarray, fitted: Sequence[Positions], held: Sequence[Positions]
) -> Mapping[Positions, np.ndarray]:
    """The potentials of some tables, each added to the first table held that contains it."""
    out = {each: np.zeros([joint.sizes[i] for i in each]) for each in held}
    for attributes in set(fitted) | set(held):
        parent = attributes if attributes in out else next(each for each in held if set(attributes) <= set(each))
        shape = [joint.sizes[i] if i in attributes else 1 for i in parent]
        out[parent] = out[parent] + joint.table(potentials, attributes).reshape(shape)
    return out


def estimator(names: Sequence[str], sizes: Sequence[int], order: int) -> Any:
    """The function that OpenDP calls in place of its own ``mirror_descent``, for tables of at most some order."""
    import jax.numpy as jnp
    from mbi import CliqueVector, Factor, MarkovRandomField
    from mbi.clique_utils import maximal_subset
    from mbi.estimation import minimum_variance_unbiased_total

    joint = Joint(sizes, order)
    place = {name: i for i, name in enumerate(names)}
    every = [each for k in range(1, order + 1) for each in itertools.combinations(range(len(names)), k)]

    def positions(clique: Sequence[str]) -> Positions:
        return tuple(sorted(place[name] for name in clique))

    def named(domain: Any, tables: Mapping[Positions, np.ndarray]) -> Any:
        factors = {}
        for attributes, values in tables.items():
            clique = tuple(names[i] for i in attributes)
            factors[clique] = Factor(domain.project(clique), jnp.asarray(values))
        return CliqueVector(domain, list(factors), factors)

    def measured(each: Any) -> Measured:
        if each.query != Factor.datavector:
            raise ValueError("only counts of all cells can be fitted")
        given = np.asarray(each.noisy_measurement, float).reshape([sizes[place[name]] for name in each.clique])
        order_of_axes = np.argsort([place[name] for name in each.clique])
        return Measured(positions(each.clique), given.transpose(order_of_axes), max(each.stddev, 1e-12) ** 2)

    def fit(domain: Any, measurements: Sequence[Any], *, potentials: Any = None) -> Any:
        total = float(minimum_variance_unbiased_total(list(measurements)))
        given = [measured(each) for each in measurements]
        held = [positions(each) for each in maximal_subset([each.clique for each in measurements])]
        start = np.zeros(joint.shape)
        for clique in () if potentials is None else potentials.cliques:
            block, values = joint.placed(positions(clique), np.asarray(potentials[clique].values))
            start[block] += values
        alpha = 2.0 / (lipschitz(sizes, given, held) * total)
        found = descended(joint, given, start, total=total, alpha=alpha)
        tables = joint.tables(joint.cells(found, total))
        fitted = [each.attributes for each in given]
        fitted += [] if potentials is None else [positions(clique) for clique in potentials.cliques]
        return MarkovRandomField(
            potentials=named(domain, folded(joint, found, fitted, held)),
            marginals=named(domain, {each: joint.table(tables, each) for each in every}),
            total=total,
        )

    return fit
