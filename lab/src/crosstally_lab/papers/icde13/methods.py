"""The seven methods of ICDE 2013, section V, simulated: noise of the planned scales, and what recovery makes of it.

Every recovery here is linear and unbiased, so the error of an answer is what recovery makes of the noise alone. Noise
is continuous Laplace noise from numpy: nothing here is a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.measurements import Measurement
from crosstally.query.queries import MAX_CELLS, Contrast
from crosstally.residuals.combining import combine
from crosstally.schema import Schema
from crosstally.strategies.clustered import GreedyMerge
from crosstally.strategies.direct import Direct, Flat
from crosstally.strategies.fourier import Fourier, bit_table, bit_workload
from crosstally.typing import Floats
from crosstally.workload import Workload

if TYPE_CHECKING:
    from crosstally.plans.plan import Plan
    from crosstally.plans.request import Request


Names = tuple[str, ...]
Errors = Mapping[str, Sequence[Floats]]
"""For each recovery the error of each cell of each table of the workload."""

_UNIT = 1000  # plans are for epsilon = 1/1000, where the variance of discrete noise is that of continuous noise
OWN, LEAST_SQUARES, ONE_TABLE = "own", "least squares", "either"


@dataclass(frozen=True, slots=True)
class Method:
    """A strategy by the paper's letter; the plus says that budgets are optimal."""

    name: str
    strategy: Flat | Direct | Fourier | GreedyMerge

    @property
    def letter(self) -> str:
        """The name without its plus."""
        return self.name.replace("+", "")


def methods(schema: Schema) -> tuple[Method, ...]:
    """I, Q, Q+, F, F+, C, C+; where attributes have more than two values, F and F+ in bits, as the paper, as well."""
    out = [Method("I", Flat(max_cells=MAX_CELLS))]
    out += [Method("Q", Direct(budgets="uniform")), Method("Q+", Direct())]
    if set(schema.shape) == {2}:
        out += [Method("F", Fourier(budgets="uniform")), Method("F+", Fourier())]
    else:
        bits = {"encoding": "bits"}
        out += [Method("F", Fourier(**bits, budgets="uniform")), Method("F+", Fourier(**bits))]  # type: ignore[arg-type]
        out += [Method("F native", Fourier(budgets="uniform")), Method("F+ native", Fourier())]
    return (*out, Method("C", GreedyMerge(budgets="uniform")), Method("C+", GreedyMerge()))


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """A method planned for a workload: draws of its errors, and the RMS error predicted for each recovery.

    ``errors`` gives, for a random generator, the error of each cell of each table, by recovery. Recoveries that cannot
    differ (one table, or each coefficient measured once) are one, "either".
    """

    errors: Callable[[np.random.Generator], Errors]
    predicted: Mapping[str, float] = field(default_factory=dict)


def simulation(method: Method, schema: Schema, workload: Workload) -> Simulation:
    """The method with epsilon = 1; another budget divides every error by epsilon."""
    plan = method.strategy.plan(schema, workload, Budget(epsilon=Fraction(1, _UNIT)))
    if plan is None:
        raise CrosstallyError(f"the method {method.name} plans nothing")
    match method.strategy:
        case Flat():
            return Simulation(lambda random: _from_one_table(schema, workload, random), _flat_rms(schema, workload))
        case Fourier(encoding="bits"):
            coefficients = _BitCoefficients.of(plan, schema, workload)
            return Simulation(coefficients.errors, {ONE_TABLE: _values_rms(plan, workload, schema)})
        case Fourier():
            once = {ONE_TABLE: plan.rms_error / _UNIT}
            if set(schema.shape) == {2}:
                return Simulation(lambda random: {ONE_TABLE: _least_squares(plan, _draw(plan, random))}, once)
            return Simulation(lambda random: _fourier_errors(plan, random), {LEAST_SQUARES: plan.rms_error / _UNIT})
        case _:
            holders = _holders(plan)
            return Simulation(
                lambda random: _table_errors(plan, holders, random),
                {OWN: _own_rms(plan, holders), LEAST_SQUARES: plan.rms_error / _UNIT},
            )


# Noise


def _ordered(plan: Plan) -> list[Request]:
    """The requests by their attributes, so that two plans for the same tables draw the same noise but for its scale."""
    places = plan.schema.positions
    return sorted(plan.requests, key=lambda each: [places[name] for name in each.query.attributes])


def _draw(plan: Plan, random: np.random.Generator) -> list[Measurement]:
    """The plan's answers about an empty table: noise alone."""
    return [
        Measurement(
            request.query,
            random.laplace(0, float(request.noise.scale) / _UNIT, request.query.shape(plan.schema)),
            variance=2 * (float(request.noise.scale) / _UNIT) ** 2,
            noise=request.noise,
            origin="simulated",
        )
        for request in _ordered(plan)
    ]


def _least_squares(plan: Plan, drawn: Sequence[Measurement]) -> list[Floats]:
    return combine(plan.schema, drawn).tables(plan.workload.tables)


# I: one table over all attributes


def _from_one_table(schema: Schema, workload: Workload, random: np.random.Generator) -> Errors:
    """Sums of the noise of all cells, each table from the smallest one that holds it and was summed already."""
    sums: dict[Names, Floats] = {schema.names: random.laplace(0, 1, schema.shape)}
    small_first = sorted(schema.names, key=lambda name: schema[name].size)
    return {ONE_TABLE: [_summed(sums, table, small_first) for table in workload.tables]}


def _summed(sums: dict[Names, Floats], table: Names, small_first: Sequence[str]) -> Floats:
    if table not in sums:
        missing = next(name for name in small_first if name not in table)
        larger = tuple(name for name in next(iter(sums)) if name in table or name == missing)
        sums[table] = _summed(sums, larger, small_first).sum(axis=larger.index(missing))
    return sums[table]


def _flat_rms(schema: Schema, workload: Workload) -> dict[str, float]:
    """A cell is the sum of all cells of the full table divided by those of its own, each of variance 2."""
    return {ONE_TABLE: math.sqrt(2 * schema.cells * len(workload) / workload.cells(schema))}


# F: native residuals, and coefficients of bits


def _fourier_errors(plan: Plan, random: np.random.Generator) -> Errors:
    """Own: each residual from the request that asked for it, though others' cells tell of it too."""
    drawn = _draw(plan, random)
    own = [
        Measurement(
            Contrast(each.query.attributes),
            Contrast(each.query.attributes).answer(each.values),
            variance=1.0,
            noise=None,
            origin="simulated",
        )
        if each.query.is_table and each.query.attributes
        else each
        for each in drawn
    ]
    return {OWN: _least_squares(plan, own), LEAST_SQUARES: _least_squares(plan, drawn)}


@dataclass(frozen=True, slots=True, eq=False)
class _BitCoefficients:
    """Coefficients as numbers whose bits are the attributes they hold, sorted, and where those of each table stand."""

    schema: Schema
    workload: Workload
    scales: Floats
    places: Sequence[NDArray[np.intp]]

    @classmethod
    def of(cls, plan: Plan, schema: Schema, workload: Workload) -> _BitCoefficients:
        masks = np.concatenate([(1 << group.positions).sum(axis=1, dtype=np.int64) for group in plan.groups])
        scales = np.concatenate([np.full(len(group), float(group.noise.scale) / _UNIT) for group in plan.groups])
        order = np.argsort(masks)
        positions = plan.schema.positions
        places = []
        for table in bit_workload(schema, workload).tables:
            inside = np.zeros(1, np.int64)
            for name in table:
                inside = np.add.outer(inside, [0, 1 << positions[name]]).ravel()
            places.append(np.searchsorted(masks[order], inside))
        return cls(schema, workload, scales[order], places)

    def errors(self, random: np.random.Generator) -> Errors:
        """Each table from the signed sums of its coefficients; cells that stand for no value are left out."""
        noise = random.laplace(0, self.scales)
        return {
            ONE_TABLE: [
                bit_table(self.schema, table, _signed_sums(noise[places]))
                for table, places in zip(self.workload.tables, self.places, strict=True)
            ]
        }


def _signed_sums(coefficients: Floats) -> Floats:
    """The table of two values for each attribute whose coefficients these are."""
    out = coefficients.reshape((2,) * (len(coefficients).bit_length() - 1))
    for axis in range(out.ndim):
        total, difference = out.take(0, axis), out.take(1, axis)
        out = np.stack([(total + difference) / 2, (total - difference) / 2], axis)
    return out


def _values_rms(plan: Plan, workload: Workload, schema: Schema) -> float:
    """The root mean square over the cells that stand for values."""
    cells = [math.prod(schema.sizes(table)) for table in workload.tables]
    return math.sqrt(float(np.average(np.square(list(plan.errors.values())), weights=cells))) / _UNIT


# Q and C: tables of cells


def _holders(plan: Plan) -> list[int]:
    """For each table of the workload the request whose cells give it with the least noise."""
    out, requests = [], _ordered(plan)
    for table in plan.workload.tables:
        noises = {
            i: float(request.noise.scale) ** 2 * math.prod(request.query.shape(plan.schema))
            for i, request in enumerate(requests)
            if set(table) <= set(request.query.attributes)
        }
        out.append(min(noises, key=noises.__getitem__))
    return out


def _table_errors(plan: Plan, holders: Sequence[int], random: np.random.Generator) -> Errors:
    drawn = _draw(plan, random)
    own = []
    for table, holder in zip(plan.workload.tables, holders, strict=True):
        names = drawn[holder].query.attributes
        others = tuple(i for i, name in enumerate(names) if name not in table)
        own.append(np.asarray(drawn[holder].values.sum(axis=others)))
    return {OWN: own, LEAST_SQUARES: _least_squares(plan, drawn)}


def _own_rms(plan: Plan, holders: Sequence[int]) -> float:
    """A cell is the sum of the holder's cells divided by those of its own table."""
    requests = _ordered(plan)
    held = [requests[i] for i in holders]
    sums = [2 * (float(r.noise.scale) / _UNIT) ** 2 * math.prod(r.query.shape(plan.schema)) for r in held]
    return math.sqrt(math.fsum(sums) / plan.workload.cells(plan.schema))
