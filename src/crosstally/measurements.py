"""Confidential counts, and the noisy measurements of them: the two sides of ``privacy.measure``.

Answers of a release and their presentation are in ``answers``, on which nothing that privacy rests on depends.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from itertools import takewhile
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.checks import is_whole
from crosstally.errors import CrosstallyError
from crosstally.html_text import html_facts
from crosstally.query.choice import Choice
from crosstally.query.operators import GroupMaps
from crosstally.query.queries import Cells, Query
from crosstally.query.summed import ROWS, Summed
from crosstally.query.unit_table import CountedTable, UnitTable
from crosstally.schema import PublicCounts, Schema

PUBLIC = "public"
"""The origin of counts that were not measured: the steward asserted them as public."""

UNRECORDED = "unrecorded-"
"""How the names of ledgers begin that exist in memory alone; the origin of a measurement has the name of its ledger."""

_LEAST_ERROR = 0.01
"""The standard error of exact public counts: far below any noise, and above rounding errors."""


def read_only(array: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only copy."""
    copy = np.array(array, dtype=dtype, order="C")
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactTable:
    """Confidential counts, one cell for each combination of the attributes' values, or of ``groups`` of values.

    With ``units`` it has a count for each number of rows of a unit instead; ``summed`` is what it adds up.

    It prints without its counts and cannot be pickled; only ``privacy.measure`` derives publishable values from it.

    >>> from crosstally.schema import Attribute
    >>> ExactTable(Schema([Attribute("sex", ["Female", "Male"])]), np.array([3, 4]))
    ExactTable(sex:2)
    """

    schema: Schema
    counts: NDArray[np.int64]
    groups: GroupMaps = ()
    units: UnitTable | None = None
    summed: Summed = ROWS

    def __post_init__(self) -> None:
        given = np.asarray(self.counts)
        shape = self.table.shape(self.schema)
        if given.shape != shape or given.dtype != np.int64:
            raise CrosstallyError(f"counts must be int64 of shape {shape}, got {given.dtype} {given.shape}")
        object.__setattr__(self, "counts", read_only(given, np.int64))

    @property
    def table(self) -> CountedTable:
        """Which table this is."""
        return Cells(self.schema.names, self.groups, self.summed) if self.units is None else self.units

    def __repr__(self) -> str:
        return f"ExactTable({self.schema})"  # the counts never reach a log

    def __reduce__(self) -> NoReturn:
        raise CrosstallyError("an ExactTable is confidential and cannot be pickled or copied to another process")

    def marginal(self, names: tuple[str, ...]) -> ExactTable:
        """The confidential table over some of its attributes, in the order named."""
        part, groups = self.schema.subset(*names), tuple(each for each in self.groups if each[0] in names)
        position = self.schema.positions
        kept = [position[name] for name in names]
        summed = self.counts.sum(axis=tuple(i for i in range(self.counts.ndim) if i not in kept), dtype=np.int64)
        order = np.argsort(np.argsort(kept))
        return ExactTable(part, np.asarray(summed).transpose(order), groups, summed=self.summed)


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A noisy answer to a query, as it was drawn: unbiased, each value with the same variance.

    The answer to a choice is the numbers of candidates, and the variance that of the noise on each score. Values are
    whole numbers when noise was drawn on counts of rows, and multiples of 1 / parts where units were divided.
    ``origin`` names the ledger entry or protocol.
    """

    query: Query
    values: NDArray[Any]
    _: KW_ONLY
    variance: float
    noise: Noise | None
    origin: str

    @classmethod
    def drawn(cls, query: Query, values: NDArray[np.int64], noise: Noise, *, origin: str) -> Measurement:
        """The measurement from what was drawn: whole numbers, of parts where the noise has parts."""
        counts = values if noise.parts == 1 or query.is_choice else values / noise.parts
        return cls(query, counts, variance=noise.variance, noise=noise, origin=origin)

    def __repr__(self) -> str:
        noise = f"variance {self.variance:g}" if self.noise is None else str(self.noise)
        return f"Measurement({self._what}, {self.values.size:,} numbers, {noise}, {self.origin})"

    @property
    def _what(self) -> str:
        return f"{self.query.kind} over {', '.join(self.query.attributes) or 'everyone'}"

    def _repr_html_(self) -> str:
        first = ", ".join(f"{number:,}" for number in self.values.ravel()[:10].tolist())
        facts = {
            "numbers": first + (f", ... ({self.values.size:,})" if self.values.size > 10 else ""),
            "noise": f"variance {self.variance:g}" if self.noise is None else str(self.noise),
            "origin": self.origin,
        }
        return html_facts(f"Measured: {self._what}", facts)

    def __post_init__(self) -> None:
        kind = np.int64 if np.issubdtype(np.asarray(self.values).dtype, np.integer) else np.float64
        object.__setattr__(self, "values", read_only(self.values, kind))
        if not (0 < self.variance < math.inf):
            raise CrosstallyError(f"the variance of a measurement must be positive, got {self.variance}")


def public_variance(fact: PublicCounts) -> float:
    """The variance of public counts: positive also where they are exact, so that it has an inverse."""
    return max(fact.error, _LEAST_ERROR) ** 2


def public_counts(schema: Schema) -> tuple[Measurement, ...]:
    """The public counts of a schema's facts in the form of measurements, each with its error; without exact totals."""
    return tuple(
        Measurement(
            Cells(() if fact.attribute is None else (fact.attribute,)),
            np.array(fact.counts[0] if fact.attribute is None else fact.counts),
            variance=public_variance(fact),
            noise=None,
            origin=PUBLIC,
        )
        for fact in schema.public_counts()
        if fact.attribute is not None or fact.error > 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The published part of a private choice: the candidate tables, the indices of those chosen, and the noise.

    A candidate without attributes stands for nothing: what was picked after it is not wanted. It holds nothing about
    counts that inference could use. ``weight`` is the largest weight over their common denominator, by which one row
    moves a score. ``origin`` names the ledger entry.
    """

    tables: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    noise: Noise
    origin: str
    weight: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(tuple(names) for names in self.tables))
        if type(self.weight) is not int or self.weight < 1:
            raise CrosstallyError("the weight of a choice must be a whole number of at least 1")
        object.__setattr__(self, "numbers", tuple(self.numbers))
        known = range(len(self.tables))
        if not all(is_whole(each) and each in known for each in self.numbers) or not self.numbers:
            raise CrosstallyError(f"what was chosen must be of {len(self.tables)} tables, got {list(self.numbers)!r}")
        if len(set(self.numbers)) < len(self.numbers):
            raise CrosstallyError(f"what was chosen must be different tables, got {list(self.numbers)!r}")
        if self.noise.kind is not NoiseKind.GUMBEL:
            raise CrosstallyError(f"the noise of a choice must be Gumbel noise, got {self.noise.kind.value}")

    @property
    def picked(self) -> tuple[tuple[str, ...], ...]:
        """The attributes of each table that was chosen, in order: those before nothing."""
        return tuple(takewhile(bool, (self.tables[number] for number in self.numbers)))

    @classmethod
    def of(cls, measurement: Measurement) -> Chosen:
        """The published part of an answered choice."""
        assert isinstance(measurement.query, Choice)
        assert measurement.noise is not None
        tables, numbers = measurement.query.candidates, tuple(measurement.values.ravel().tolist())
        weight, noise = max(measurement.query.whole_weights), measurement.noise
        return cls(tables=tables, numbers=numbers, noise=noise, origin=measurement.origin, weight=weight)
