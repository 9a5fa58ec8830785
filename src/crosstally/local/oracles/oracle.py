"""What an oracle is: how one answer is perturbed, with exact probabilities, and what many answers say.

Every oracle is a frozen value that a protocol holds, in a module of this folder, with ``@register`` above its class.
The device's draw of the same kind stands in ``client``, which needs nothing but the standard library.

**Views.** With a the odds, a fraction just below e^epsilon, and c the number of cells of a view, a report supports some
cells: its own cell with probability ``true``, each other cell with probability ``false``. From C supporting reports of
n people,

    (C - n false) / (true - false)

is unbiased for the number of people in a cell, with variance

    (n_cell true (1 - true) + (n - n_cell) false (1 - false)) / (true - false)^2.

What the residual basis uses is the variance of a *coefficient*. The sum of these variances over all cells, less the
part that only moves the total, is shared by the c - 1 other coefficients: a report that always supports equally many
cells (randomised response, subset selection) does not move the total at all, so its coefficients vary more than its
cells. That sum does not depend on the frequencies, which makes ``coefficient_variance`` exact for any data.

**Residuals.** Others give the centred table R_B of the frequencies without bias: each person adds a vector whose mean
is R_B of the person's own row, prod over B of (e_x - 1/n). With s the mean squared length of that vector and m the
number of coefficients of B, prod(n_i - 1),

    response = s / m - prod(1 / n_i)

is what perturbation adds to the variance of a coefficient, on average over them, for each report; it does not depend
on the data.

All kinds of oracles by name, and the best one for a view.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.local import client
from crosstally.local.oracles.answers import Answers, AnswerSpace, Counts, read_probability
from crosstally.schema import MAX_VALUES

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Oracle(ABC):
    """How an answer about some attributes is perturbed. Subclasses are frozen dataclasses: oracles are values."""

    kind: ClassVar[str]
    """Its name in protocols."""
    sizes: tuple[int, ...]
    """How many values each of its attributes has."""

    @classmethod
    @abstractmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> Self:
        """The oracle for attributes of these sizes that tells at most epsilon."""

    @property
    def cells(self) -> int:
        """How many rows can be told apart."""
        return math.prod(self.sizes)

    @property
    @abstractmethod
    def answers(self) -> AnswerSpace:
        """What a report can hold, and how the collector counts it."""

    @property
    def slots(self) -> int:
        """How many whole numbers the collector keeps for it."""
        return self.answers.slots

    @abstractmethod
    def sampled_variance(self, axes: Sequence[int]) -> float | None:
        """The variance of a coefficient of the residual over some axes in one report, sampling included.

        It is None where a report says nothing about that residual.
        """

    @abstractmethod
    def extremes(self, wanted: Mapping[tuple[int, ...], NDArray[np.float64]]) -> tuple[float, float]:
        """The least and the most that one report can say about a weighted sum of residuals.

        ``wanted`` has the weights of the residual over each of some sets of axes. What a report says is what it adds
        to the unbiased estimate, and may be far more than any row is worth.
        """

    def draw(self, codes: Codes) -> Answers:
        """The perturbed answers of many people: a row of codes for each attribute, a column for each person.

        Here one by one, as devices draw them; oracles with a kernel of their own do better.
        """
        given, source = self.to_dict(), client.SecureSource()
        return np.array([client.draw(given, person, source) for person in codes.T.tolist()], np.uint64)

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON, probabilities as texts of fractions; ``oracle_of`` reads it."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"kind": self.kind, **{name: _to_json(value) for name, value in own.items()}}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The oracle from its JSON; a device's checks have found the fields right."""
        return cls(**{each.name: _from_json(given[each.name]) for each in fields(cls)})


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_from_json, value))
    return read_probability(value) if isinstance(value, str) else value


class ViewOracle(Oracle):
    """An oracle for the cells of a view."""

    __slots__ = ()
    most_cells: ClassVar[int]
    """The largest view that it serves."""

    @property
    @abstractmethod
    def true(self) -> Fraction:
        """The probability that a report supports its own cell."""

    @property
    @abstractmethod
    def false(self) -> Fraction:
        """The probability that a report supports a given other cell."""

    @property
    @abstractmethod
    def support_variance(self) -> float:
        """The variance of how many cells a report supports, its own cell drawn evenly."""

    def supports(self, slots: Counts) -> Counts:
        """How many reports support each cell, from what the collector keeps; here that is it already."""
        return slots

    def cell_variance(self, frequency: float) -> float:
        """The variance of the frequency of one cell from one report; ``frequency`` is the true one."""
        true, false = float(self.true), float(self.false)
        return (frequency * true * (1 - true) + (1 - frequency) * false * (1 - false)) / (true - false) ** 2

    @property
    def coefficient_variance(self) -> float:
        """The variance of a residual coefficient of the frequencies from one report, on average over them."""
        return _coefficient_variance(self)

    def sampled_variance(self, axes: Sequence[int]) -> float | None:
        """A coefficient over some axes is summed over the cells of the others."""
        outside = math.prod(n for axis, n in enumerate(self.sizes) if axis not in axes)
        return (self.coefficient_variance + 1 / self.cells) * outside

    def extremes(self, wanted: Mapping[tuple[int, ...], NDArray[np.float64]]) -> tuple[float, float]:
        """By the weights of cells, a residual being the sum of centred indicators, and the supported cells' sum."""
        weights = np.zeros(self.sizes)
        for axes, each in wanted.items():
            weights = weights + np.expand_dims(centred(each), tuple(i for i in range(weights.ndim) if i not in axes))
        true, false = float(self.true), float(self.false)
        least, most = self.support_extremes(weights.ravel())
        always = false * float(weights.sum())
        return (least - always) / (true - false), (most - always) / (true - false)

    def support_extremes(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """The least and the most that the weights of the cells that one report supports add up to.

        Here a report supports the cell that it names, or those of its mask: all masks, or those of so many bits.
        """
        ordered = np.sort(weights)
        if not self.answers.masked:
            return float(ordered[0]), float(ordered[-1])
        if self.answers.bits is None:
            return float(ordered[ordered < 0].sum()), float(ordered[ordered > 0].sum())
        return float(ordered[: self.answers.bits].sum()), float(ordered[len(ordered) - self.answers.bits :].sum())


@lru_cache(maxsize=10_000)
def _coefficient_variance(oracle: ViewOracle) -> float:
    cells, true, false = oracle.cells, float(oracle.true), float(oracle.false)
    total = true * (1 - true) + (cells - 1) * false * (1 - false)
    return (total - oracle.support_variance / cells) / ((cells - 1) * (true - false) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class ResidualAnswer:
    """R_B of the counts of the people who reported, B the attributes at ``axes``: unbiased.

    ``response`` is what perturbation adds to the variance of a coefficient for each report.
    """

    axes: tuple[int, ...]
    values: NDArray[np.float64]
    response: float


class ResidualOracle(Oracle):
    """An oracle for residuals."""

    __slots__ = ()

    @abstractmethod
    def residuals(self, slots: Counts, ways: int) -> Iterator[ResidualAnswer]:
        """The residuals that matter for tables over so many attributes, from what the collector keeps."""


def centred(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """A table less its mean along every axis.

    >>> centred(np.array([[1.0, 0.0], [0.0, 0.0]]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def cell_numbers(lines: Iterable[NDArray[Any]], sizes: Sequence[int], people: int) -> Codes:
    """The number of each person's cell, the last attribute fastest; a line of codes for each attribute.

    >>> cell_numbers(np.array([[0, 1], [2, 1]]), (2, 3), 2)
    array([2, 4])
    """
    cells = np.zeros(people, np.int64)
    for line, size in zip(lines, sizes, strict=True):
        cells *= size
        cells += line
    return cells


# All oracles


ORACLES: dict[str, type[Oracle]] = {}
"""Every oracle by its kind: modules of this folder add their own."""

Registered = TypeVar("Registered", bound=type[Oracle])


def register(oracle: Registered) -> Registered:
    """Make an oracle known by its kind, to protocols and, where it serves views, to designs."""
    if oracle.kind in ORACLES:
        raise PlanError(f"kinds of oracles must differ, {oracle.kind!r} is taken")
    ORACLES[oracle.kind] = oracle
    return oracle


def oracle_of(given: Mapping[str, Any]) -> Oracle:
    """An oracle from its JSON; ``client.check_protocol`` has checked its fields."""
    if not all(type(size) is int and 2 <= size <= MAX_VALUES for size in given["sizes"]):
        raise PlanError(f"the sizes of an oracle must be whole numbers from 2 to {MAX_VALUES:,}")
    return ORACLES[given["kind"]].from_dict(given)


def view_oracles(sizes: Sequence[int], epsilon: Fraction) -> tuple[ViewOracle, ...]:
    """Every oracle that can serve a view."""
    kinds = [kind for kind in ORACLES.values() if issubclass(kind, ViewOracle)]
    cells, most = math.prod(sizes), max(kind.most_cells for kind in kinds)
    if cells > most:
        raise PlanError(f"a view must have at most {most:,} cells in the local model, got {cells:,}")
    found = [kind.of(sizes, epsilon) for kind in kinds if cells <= kind.most_cells]
    return tuple(oracle for oracle in found if oracle.true > oracle.false)


@lru_cache(maxsize=1024)
def best_oracle(sizes: tuple[int, ...], epsilon: Fraction, kinds: tuple[str, ...] = ()) -> ViewOracle:
    """The oracle of least coefficient variance for a view, of some kinds or of all; of equals that of fewest answers.

    Equals are common: Hadamard response of two cells and sets of one member are randomised response.
    """
    found = [oracle for oracle in view_oracles(sizes, epsilon) if not kinds or oracle.kind in kinds]
    if not found:
        raise PlanError(f"no oracle of {', '.join(kinds)} serves a view of {math.prod(sizes):,} cells")
    return min(found, key=lambda oracle: (oracle.coefficient_variance, oracle.answers.limit))
