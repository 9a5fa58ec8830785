"""Fourier: the residuals of all tables of the workload, each once (Barak et al., PODS 2007; F and F+ of ICDE 2013).

A table is known from the residuals of all sets of its attributes, and tables share them. For attributes of two values a
residual is one number, a sum of +-1 over the rows: an (unnormalised) Fourier coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.budget import Budget, Neighbours, Sensitivity
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.plans.plan import Plan
from crosstally.plans.request import GroupedRequests, RequestGroup
from crosstally.query.operators import contrast_variance
from crosstally.query.queries import Cells, Contrast, Product
from crosstally.residuals.variances import Closure, closure_of
from crosstally.schema import Attribute, Schema
from crosstally.strategies.residual import alike
from crosstally.strategies.strategy import StrategyWithOptions, Task, least_noise, with_less_noise
from crosstally.workload import Workload

# Limits time and memory: each residual is a request of the plan. Larger workloads are refused.
MAX_RESIDUALS = 2_000_000


@dataclass(frozen=True, slots=True)
class Fourier(StrategyWithOptions):
    """Measure each residual of the workload's tables once.

    Under Gaussian noise a residual is measured as an integer contrast. Under Laplace noise the contrast of an attribute
    of n > 2 values has an L1 sensitivity of 2 (n - 1), so that the cells of the table itself often say more: of the two
    the one that leaves the residual less noise for the same share of the budget is asked for.

    Args:
        encoding: "residual" takes attributes as they are. "bits" writes each in bits, as the papers do: the plan is for
            the table of bits (``bit_schema``), whose rows ``rows_as_bits`` writes. It is there to reproduce the papers;
            its error is many times larger.
        budgets: "uniform" gives every residual the same share (F); "optimal" minimises the weighted sum of the
            variances of all cells (F+).
        sensitivity: "exact" charges what the coefficients cost together. "paper" takes 2 for each of them when a row is
            replaced, twice what is needed.
    """

    encoding: Literal["residual", "bits"] = "residual"
    budgets: Literal["uniform", "optimal"] = "optimal"
    sensitivity: Literal["exact", "paper"] = "exact"
    family: ClassVar[str] = "fourier"

    def planned(self, task: Task) -> Plan:
        """A request for each residual, the total among them."""
        if self.encoding == "bits":
            task = replace(task, schema=bit_schema(task.schema), asked=bit_workload(task.schema, task.workload))
        schema, workload, budget, neighbours = task.schema, task.workload, task.budget, task.neighbours
        _check_residuals(workload)
        shared = closure_of(schema, workload.tables)
        weights = shared.weights(np.array(workload.weights) * shared.cells())
        paper = _as_in_the_paper(schema, neighbours, budget) if self.sensitivity == "paper" else None
        kinds = _kinds(shared, neighbours, pure=budget.pure, moved=paper)
        shares = [np.ones(len(kind.places)) for kind in kinds]
        if self.budgets == "optimal":
            shares = [_optimal_shares(kind, weights[kind.places], pure=budget.pure) for kind in kinds]
        groups = _groups(schema, kinds, shares, budget)
        if paper is None and neighbours == Neighbours.REPLACE:
            groups = with_less_noise(groups, schema, budget, neighbours)
        return task.planned(self.name, GroupedRequests(schema, groups))


def closure(schema: Schema, workload: Workload) -> dict[tuple[str, ...], float]:
    """All sets of attributes inside some table, small ones first, and how much the variance of each one counts.

    That is the weighted sum of the variances of all cells for each unit of variance of the residual's coefficients:
    over all tables A that hold B, weight x cells of A x prod(1 - 1/n, B) x prod(1/n^2, A without B).

    >>> schema = Schema([Attribute(name, ["0", "1"]) for name in "ab"])
    >>> closure(schema, Workload([("a",), ("a", "b")]))
    {(): 0.75, ('a',): 1.5, ('b',): 0.5, ('a', 'b'): 1.0}
    """
    shared = closure_of(schema, workload.tables)
    weights = shared.weights(np.array(workload.weights) * shared.cells())
    return {
        tuple(schema.names[i] for i in row): float(weights[place])
        for places, positions in shared.members
        for place, row in zip(places, positions.tolist(), strict=True)
    }


def _check_residuals(workload: Workload) -> None:
    residuals = sum(2 ** len(table) for table in workload.tables)
    if residuals > MAX_RESIDUALS:
        raise TooManyCellsError(f"a workload must hold at most {MAX_RESIDUALS:,} residuals, got {residuals:,}")


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Residuals over attributes of the same sizes: what is asked for the first, how far it moves, and all of them.

    ``factor`` is the variance of the residual's coefficients for each unit of variance of the answer.
    """

    query: Product
    moved: Sensitivity
    _: KW_ONLY
    factor: float
    places: NDArray[np.intp]
    positions: NDArray[np.intp]


def _kinds(shared: Closure, neighbours: Neighbours, *, pure: bool, moved: Sensitivity | None) -> list[_Kind]:
    schema, out = shared.schema, []
    for places, positions in shared.members:
        for rows, contrast in alike(shared, positions):
            query, factor = _residual(contrast.attributes, schema, neighbours, pure=pure)
            least = moved or query.sensitivity(schema, neighbours)
            out.append(_Kind(query, least, factor=factor, places=places[rows], positions=positions[rows]))
    return out


def _residual(names: tuple[str, ...], schema: Schema, neighbours: Neighbours, *, pure: bool) -> tuple[Product, float]:
    """What to ask for a residual, and the variance of its coefficients for each unit of variance of the answer."""
    if not names:
        return Cells(()), 1.0
    cells, contrast = Cells(names), Contrast(names)
    factor = contrast_variance(schema.sizes(names))
    if pure:
        moved, least = contrast.sensitivity(schema, neighbours).l1, cells.sensitivity(schema, neighbours).l1
        return (contrast, factor) if moved**2 * factor < least**2 else (cells, 1.0)
    return contrast, factor


def _optimal_shares(kind: _Kind, weights: NDArray[np.float64], *, pure: bool) -> NDArray[np.float64]:
    """The shares that minimise the sum of demand x variance (ICDE 2013, corollary 3.3): of epsilon, or of rho.

    They are rounded to 33 binary digits, so that those which differ by rounding alone are one.
    """
    demands = weights * kind.factor
    shares = np.cbrt(kind.moved.l1**2 * demands) if pure else np.sqrt(kind.moved.l2_squared * demands)
    mantissa, exponent = np.frexp(shares)
    return np.asarray(np.ldexp(np.rint(mantissa * 2.0**33) / 2.0**33, exponent))


def _groups(
    schema: Schema, kinds: Sequence[_Kind], shares: Sequence[NDArray[np.float64]], budget: Budget
) -> list[RequestGroup]:
    """Each request with the least noise that its share of the budget buys; what no unit can move needs none."""
    paid = [part for kind, part in zip(kinds, shares, strict=True) if kind.moved.l1]
    total = math.fsum(np.concatenate(paid)) if paid else 1.0
    equal = bool(paid) and all((part == 1).all() for part in paid)
    out = []
    for kind, part in zip(kinds, shares, strict=True):
        for share in np.unique(part):
            exact = Fraction(1, round(total)) if equal else Fraction(float(share) / (total * (1 + 1e-12)))
            noise = least_noise(kind.moved, budget.amount * exact, currency=budget.currency)
            positions = kind.positions[part == share]
            first = kind.query.over(tuple(schema.names[i] for i in positions[0]))
            out.append(RequestGroup(first, noise, positions))
    return out


def _as_in_the_paper(schema: Schema, neighbours: Neighbours, budget: Budget) -> Sensitivity:
    """A replaced row moves every coefficient by 2, the total too."""
    if set(schema.shape) != {2} or not budget.pure:
        raise PlanError(
            "the paper's sensitivity is for attributes of two values and Laplace noise; use sensitivity='exact', "
            "or encoding='bits' and epsilon alone"
        )
    moved = schema.max_rows * (1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2)
    return Sensitivity(moved, moved**2)


# Attributes in bits


def bit_schema(schema: Schema) -> Schema:
    """The schema with each attribute of n values written as ceil(log2 n) attributes of two values, lowest bit first.

    >>> print(bit_schema(Schema([Attribute("sex", ["F", "M"]), Attribute("age", edges=[0, 18, 65, 120])])))
    sex.0:2 age.0:2 age.1:2
    """
    attributes = [
        Attribute(name, ("0", "1"), outside="drop" if attribute.outside == "drop" else "refuse")
        for attribute in schema.attributes
        for name in _bit_names(attribute)
    ]
    return Schema(tuple(attributes), schema.unit, draft=schema.draft)


def _bit_names(attribute: Attribute) -> list[str]:
    return [f"{attribute.name}.{bit}" for bit in range((attribute.size - 1).bit_length())]


def bit_workload(schema: Schema, workload: Workload) -> Workload:
    """The workload over bits: each table becomes the table over all bits of its attributes.

    Weights are lower by the part of its cells that stand for values, so that the others do not count.
    """
    tables = [tuple(bit for name in table for bit in _bit_names(schema[name])) for table in workload.tables]
    weights = [
        weight * math.prod(schema.sizes(table)) / 2 ** len(bits)
        for (table, weight), bits in zip(workload, tables, strict=True)
    ]
    return Workload(tuple(tables), tuple(weights))


def rows_as_bits(schema: Schema, codes: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Rows of ``bit_schema``, from the position of each row's value among the labels of each attribute."""
    columns = {}
    for attribute in schema.attributes:
        for bit, name in enumerate(_bit_names(attribute)):
            bits = (np.asarray(codes[attribute.name]) >> bit) & 1
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(bits, pa.int8()), pa.array(["0", "1"]))
    return pa.table(columns)


def bit_table(schema: Schema, names: Sequence[str], values: NDArray[Any]) -> NDArray[Any]:
    """The table over some attributes, from the table over all their bits; cells that stand for no value are left out.

    >>> schema = Schema([Attribute("age", edges=[0, 18, 65, 120])])
    >>> bit_table(schema, ["age"], np.array([[5, 7], [6, 0]]))
    array([5, 6, 7])
    """
    out = np.asarray(values)
    for axis, name in enumerate(names):
        size = schema[name].size
        bits = (size - 1).bit_length()
        reversed_bits = list(range(axis, axis + bits))[::-1]
        order = [*range(axis), *reversed_bits, *range(axis + bits, out.ndim)]
        out = out.transpose(order)
        out = out.reshape(*out.shape[:axis], 2**bits, *out.shape[axis + bits :]).take(range(size), axis)
    return out
