"""Frequency oracles: how one answer is perturbed, with exact probabilities, and what many answers say.

With a the odds, a fraction just below e^epsilon, and c the number of cells of a view, a report supports some cells:
its own cell with probability ``true``, each other cell with probability ``false``. From C supporting reports of n,

    (C - n false) / (true - false)

is unbiased for the number of people in a cell, with variance

    (n_cell true (1 - true) + (n - n_cell) false (1 - false)) / (true - false)^2.

What the residual basis uses is the variance of a *coefficient*. The sum of these variances over all cells, less the
part that only moves the total, is shared by the c - 1 other coefficients: a report that always supports equally many
cells (randomised response, subset selection) does not move the total at all, so its coefficients vary more than its
cells. That sum does not depend on the frequencies, which makes ``coefficient_variance`` exact for any data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import fraction_of_text
from crosstally.errors import PlanError
from crosstally.local.oracles.odds import odds_below, rounded_down, rounded_up
from crosstally.schema import MAX_VALUES

__all__ = [
    "MASK_CELLS",
    "HadamardResponse",
    "LocalHashing",
    "RandomisedResponse",
    "SubsetSelection",
    "UnaryEncoding",
    "ViewOracle",
    "best_oracle",
    "read_probability",
    "view_oracles",
]

MASK_CELLS = 64
_MOST_CELLS = 4096
_MOST_HADAMARD_CELLS = 2**20
_UNARY_RESOLUTION = 2**16
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)

Counts = NDArray[np.int64]


class ViewOracle(Protocol):
    """An oracle for the cells of a view."""

    kind: ClassVar[str]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute of the view has."""

    @property
    def true(self) -> Fraction:
        """The probability that a report supports its own cell."""

    @property
    def false(self) -> Fraction:
        """The probability that a report supports a given other cell."""

    @property
    def limit(self) -> int:
        """Answers are whole numbers below it."""

    @property
    def slots(self) -> int:
        """How many whole numbers the collector keeps for it."""

    @property
    def coefficient_variance(self) -> float:
        """The variance of a residual coefficient of the frequencies from one report, on average over them."""

    def supports(self, slots: Counts) -> Counts:
        """How many reports support each cell, from what the collector keeps."""

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON, probabilities as fractions."""

    def __hash__(self) -> int:
        """Oracles are values."""


def cell_variance(oracle: ViewOracle, frequency: float) -> float:
    """The variance of the frequency of one cell from one report; ``frequency`` is the true one."""
    true, false = float(oracle.true), float(oracle.false)
    return (frequency * true * (1 - true) + (1 - frequency) * false * (1 - false)) / (true - false) ** 2


def _coefficient_variance(oracle: ViewOracle, support_variance: float) -> float:
    cells, true, false = math.prod(oracle.sizes), float(oracle.true), float(oracle.false)
    total = true * (1 - true) + (cells - 1) * false * (1 - false)
    return (total - support_variance / cells) / ((cells - 1) * (true - false) ** 2)


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """The cell itself with probability ``keep``, else any other (GRR)."""

    sizes: tuple[int, ...]
    keep: Fraction
    kind: ClassVar[str] = "randomised-response"

    @classmethod
    def of(cls, sizes: Sequence[int], odds: Fraction) -> RandomisedResponse:
        """The oracle with keep = a / (a + c - 1), rounded down."""
        return cls(tuple(sizes), rounded_down(odds / (odds + math.prod(sizes) - 1)))

    @property
    def true(self) -> Fraction:
        """Its own cell is reported."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """Each other cell is equally likely."""
        return (1 - self.keep) / (math.prod(self.sizes) - 1)

    @property
    def limit(self) -> int:
        """A report is the number of a cell."""
        return math.prod(self.sizes)

    @property
    def slots(self) -> int:
        """The reports for each cell."""
        return math.prod(self.sizes)

    @property
    def coefficient_variance(self) -> float:
        """Every report supports one cell."""
        return _coefficient_variance(self, 0.0)

    def supports(self, slots: Counts) -> Counts:
        """The counts as they are."""
        return slots

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {"kind": self.kind, "sizes": list(self.sizes), "keep": str(self.keep)}


@dataclass(frozen=True, slots=True)
class UnaryEncoding:
    """A bit for each cell: its own is set with probability ``own`` = 1/2, each other with ``other`` (OUE)."""

    sizes: tuple[int, ...]
    _: KW_ONLY
    own: Fraction
    other: Fraction
    kind: ClassVar[str] = "unary-encoding"

    @classmethod
    def of(cls, sizes: Sequence[int], odds: Fraction) -> UnaryEncoding:
        """The oracle with other = 1 / (a + 1), rounded up to a multiple of 2^-16."""
        return cls(tuple(sizes), own=Fraction(1, 2), other=rounded_up(1 / (odds + 1), _UNARY_RESOLUTION))

    @property
    def true(self) -> Fraction:
        """Its own bit is set."""
        return self.own

    @property
    def false(self) -> Fraction:
        """Another bit is set."""
        return self.other

    @property
    def limit(self) -> int:
        """A report is a mask of cells."""
        return 1 << math.prod(self.sizes)

    @property
    def slots(self) -> int:
        """The set bits for each cell."""
        return math.prod(self.sizes)

    @property
    def coefficient_variance(self) -> float:
        """Bits are independent, so the total varies as much as their sum."""
        true, false = float(self.true), float(self.false)
        return _coefficient_variance(self, true * (1 - true) + (self.slots - 1) * false * (1 - false))

    def supports(self, slots: Counts) -> Counts:
        """The counts as they are."""
        return slots

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {"kind": self.kind, "sizes": list(self.sizes), "own": str(self.own), "other": str(self.other)}


@dataclass(frozen=True, slots=True)
class LocalHashing:
    """A hash function of the person's own choice, and its value by randomised response (OLH).

    Functions are inner products over the field of ``buckets`` values, a prime: a cell is a number of ``digits`` digits
    in that base, and so is a function. For any two cells the difference of their hashes is uniform over all functions,
    so that ``false`` is exactly one over the number of buckets.
    """

    sizes: tuple[int, ...]
    _: KW_ONLY
    buckets: int
    digits: int
    keep: Fraction
    kind: ClassVar[str] = "local-hashing"

    @classmethod
    def of(cls, sizes: Sequence[int], odds: Fraction) -> LocalHashing:
        """The oracle with the prime number of buckets of least variance; keep = a / (a + buckets - 1)."""
        cells = math.prod(sizes)
        made = []
        for buckets in (prime for prime in _PRIMES if prime == 2 or prime <= 4 * (odds + 1)):
            keep = rounded_down(odds / (odds + buckets - 1))
            made.append(cls(tuple(sizes), buckets=buckets, digits=_digits(cells, buckets), keep=keep))
        return min(made, key=lambda oracle: cell_variance(oracle, 1 / cells))

    @property
    def true(self) -> Fraction:
        """The hash of its own cell is reported."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """Another cell has the hash that is reported."""
        return Fraction(1, self.buckets)

    @property
    def limit(self) -> int:
        """A report is a function and a hash."""
        return int(self.buckets ** (self.digits + 1))

    @property
    def slots(self) -> int:
        """The reports for each function and hash."""
        return self.limit

    @property
    def coefficient_variance(self) -> float:
        """The number of supported cells depends on the function; its variance is averaged over cells."""
        return _coefficient_variance(self, _hashed_support_variance(self))

    def supports(self, slots: Counts) -> Counts:
        """For each cell the reports whose function gives it the reported hash."""
        by_function = slots.reshape(-1, self.buckets)
        hashed = hashes(math.prod(self.sizes), self.buckets, self.digits)
        return np.asarray(by_function[np.arange(len(by_function))[:, None], hashed].sum(axis=0, dtype=np.int64))

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {
            "kind": self.kind,
            "sizes": list(self.sizes),
            "buckets": self.buckets,
            "digits": self.digits,
            "keep": str(self.keep),
        }


@lru_cache(maxsize=32)
def hashes(cells: int, buckets: int, digits: int) -> NDArray[np.uint8]:
    """The hash of each cell by each function: (functions, cells)."""
    powers = buckets ** np.arange(digits)
    functions = np.arange(buckets**digits)[:, None] // powers % buckets
    return np.asarray(functions @ (np.arange(cells)[:, None] // powers % buckets).T % buckets).astype(np.uint8)


@lru_cache(maxsize=256)
def _hashed_support_variance(oracle: LocalHashing) -> float:
    cells, g = math.prod(oracle.sizes), oracle.buckets
    hashed = hashes(cells, g, oracle.digits)
    sizes = np.stack([(hashed == bucket).sum(axis=1) for bucket in range(g)], axis=1).astype(float)
    own = (sizes**3).sum(axis=1) / cells  # the mean over cells of the squared size of their own bucket
    others = ((sizes**2).sum(axis=1) - own) / (g - 1)
    keep = float(oracle.keep)
    square = float((keep * own + (1 - keep) * others).mean())
    return square - (keep + (cells - 1) / g) ** 2


@dataclass(frozen=True, slots=True)
class SubsetSelection:
    """A set of ``members`` cells, its own among them with probability ``keep``."""

    sizes: tuple[int, ...]
    _: KW_ONLY
    members: int
    keep: Fraction
    kind: ClassVar[str] = "subset-selection"

    @classmethod
    def of(cls, sizes: Sequence[int], odds: Fraction) -> SubsetSelection:
        """The oracle with the number of members of least variance; keep = k a / (k a + c - k)."""
        cells = math.prod(sizes)
        near = int(cells / (odds + 1))
        made = [
            cls(tuple(sizes), members=k, keep=rounded_down(k * odds / (k * odds + cells - k)))
            for k in range(max(1, near - 1), min(cells - 1, near + 2) + 1)
        ]
        return min(made, key=lambda oracle: oracle.coefficient_variance)

    @property
    def true(self) -> Fraction:
        """Its own cell is a member."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """Another cell is a member."""
        return (self.members - self.keep) / (math.prod(self.sizes) - 1)

    @property
    def limit(self) -> int:
        """A report is a mask of cells."""
        return 1 << math.prod(self.sizes)

    @property
    def slots(self) -> int:
        """The sets that hold each cell."""
        return math.prod(self.sizes)

    @property
    def coefficient_variance(self) -> float:
        """Every report supports as many cells."""
        return _coefficient_variance(self, 0.0)

    def supports(self, slots: Counts) -> Counts:
        """The counts as they are."""
        return slots

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {"kind": self.kind, "sizes": list(self.sizes), "members": self.members, "keep": str(self.keep)}


@dataclass(frozen=True, slots=True)
class HadamardResponse:
    """A row of Hadamard's matrix other than the first, and its sign at the cell, kept with probability ``keep``."""

    sizes: tuple[int, ...]
    keep: Fraction
    kind: ClassVar[str] = "hadamard-response"

    @classmethod
    def of(cls, sizes: Sequence[int], odds: Fraction) -> HadamardResponse:
        """The oracle with keep = a / (a + 1), rounded down."""
        return cls(tuple(sizes), rounded_down(odds / (odds + 1)))

    @property
    def order(self) -> int:
        """The order of the matrix: the least power of two that is not below the number of cells."""
        return 1 << (math.prod(self.sizes) - 1).bit_length()

    @property
    def true(self) -> Fraction:
        """The sign is that of its own cell."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """The sign is that of another cell: of order - 1 rows order / 2 tell two cells apart."""
        half = self.order // 2
        return (self.keep * (half - 1) + (1 - self.keep) * half) / (self.order - 1)

    @property
    def limit(self) -> int:
        """A report is a row and a sign."""
        return 2 * self.order

    @property
    def slots(self) -> int:
        """The reports for each row and sign."""
        return 2 * self.order

    @property
    def coefficient_variance(self) -> float:
        """Half of a whole matrix is supported; of a part of it, a number that depends on the row."""
        cells = math.prod(self.sizes)
        if cells == self.order:
            return _coefficient_variance(self, 0.0)
        positive = hadamard_transform((np.arange(self.order) < cells).astype(float))[1:]
        own = (((cells + positive) / 2) ** 3 + ((cells - positive) / 2) ** 3) / cells
        others = ((cells + positive) / 2) ** 2 + ((cells - positive) / 2) ** 2 - own
        keep = float(self.keep)
        square = float((keep * own + (1 - keep) * others).mean())
        return _coefficient_variance(self, square - (keep + (cells - 1) * float(self.false)) ** 2)

    def supports(self, slots: Counts) -> Counts:
        """For each cell the reports whose sign it has."""
        signs = slots.reshape(-1, 2)
        agreement = hadamard_transform(signs[:, 0] - signs[:, 1])[: math.prod(self.sizes)]
        return np.asarray((slots.sum() + agreement) // 2)

    def to_dict(self) -> dict[str, Any]:
        """The oracle as JSON."""
        return {"kind": self.kind, "sizes": list(self.sizes), "order": self.order, "keep": str(self.keep)}


def hadamard_transform(values: NDArray[Any]) -> NDArray[Any]:
    """The inner products with all rows of Hadamard's matrix; as many as a power of two.

    >>> hadamard_transform(np.array([1, 0, 0, 2]))
    array([ 3, -1, -1,  3])
    """
    out = values.copy()
    step = 1
    while step < len(out):
        pairs = out.reshape(-1, 2, step)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return out


def view_oracles(sizes: Sequence[int], epsilon: Fraction) -> tuple[ViewOracle, ...]:
    """Every oracle that can serve a view, the simplest first; masks go up to 64 cells."""
    cells, odds = math.prod(sizes), odds_below(epsilon)
    if cells > _MOST_HADAMARD_CELLS:
        raise PlanError(f"a view must have at most {_MOST_HADAMARD_CELLS:,} cells in the local model, got {cells:,}")
    found: list[ViewOracle] = [RandomisedResponse.of(sizes, odds), HadamardResponse.of(sizes, odds)]
    if cells <= MASK_CELLS:
        found += [SubsetSelection.of(sizes, odds), UnaryEncoding.of(sizes, odds)]
    if cells <= _MOST_CELLS:
        found.append(LocalHashing.of(sizes, odds))
    return tuple(oracle for oracle in found if oracle.true > oracle.false)


@lru_cache(maxsize=1024)
def best_oracle(sizes: tuple[int, ...], epsilon: Fraction, kinds: tuple[str, ...] = ()) -> ViewOracle:
    """The oracle of least coefficient variance for a view, of some kinds or of all."""
    found = [oracle for oracle in view_oracles(sizes, epsilon) if not kinds or oracle.kind in kinds]
    if not found:
        raise PlanError(f"no oracle of {', '.join(kinds)} serves a view of {math.prod(sizes):,} cells")
    return min(found, key=lambda oracle: oracle.coefficient_variance)


def _digits(cells: int, buckets: int) -> int:
    """How many digits numbers of so many cells have, in base ``buckets``."""
    digits = 1
    while buckets**digits < cells:
        digits += 1
    return digits


def read_probability(given: object) -> Fraction:
    """A probability from its text in a protocol."""
    found = fraction_of_text(given)
    if found is None or not 0 <= found <= 1:
        raise PlanError("each probability of a protocol must be the text of a fraction from 0 to 1")
    return found


def read_view_oracle(given: Mapping[str, Any]) -> ViewOracle:
    """An oracle from its JSON; the caller has checked its fields."""
    sizes, keep = tuple(given["sizes"]), read_probability(given.get("keep", "0"))
    if not all(type(size) is int and 2 <= size <= MAX_VALUES for size in sizes):
        raise PlanError(f"the sizes of an oracle must be whole numbers from 2 to {MAX_VALUES:,}")
    match given["kind"]:
        case RandomisedResponse.kind:
            return RandomisedResponse(sizes, keep)
        case UnaryEncoding.kind:
            return UnaryEncoding(sizes, own=read_probability(given["own"]), other=read_probability(given["other"]))
        case LocalHashing.kind:
            buckets, digits = given["buckets"], given["digits"]
            if buckets not in _PRIMES or digits != _digits(math.prod(sizes), buckets):
                raise PlanError("local hashing must have a known prime number of buckets and the digits its cells need")
            return LocalHashing(sizes, buckets=buckets, digits=digits, keep=keep)
        case SubsetSelection.kind:
            return SubsetSelection(sizes, members=given["members"], keep=keep)
        case _:
            return HadamardResponse(sizes, keep)
