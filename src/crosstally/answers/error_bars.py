"""The exact distribution of the error of a covered cell, before negative cells are corrected.

The error of a cell of table A is a weighted sum of the independent noise of all measured cells. The weight of a noisy
cell of view V depends only on the set S of attributes of A and V in which it matches the asked cell:

    g_V(S) = sum over B inside A and V of  w_VB  x  prod(1 / n_i, i in A, not B)  x  prod([i in S] - 1 / n_i, i in B)

where w_VB is the share of V in the combined coefficients of B: their combined variance divided by the variance from V
alone. So all cells of one table have the same error distribution, with few terms: 2^|A and V| weights, each with a
known number of noisy cells.

The error of a sum over chosen cells of some of the attributes is such a weighted sum too. Along the summed attributes,
the matching factor is replaced by the part for B of the function that is 1 on the chosen cells (``CellSums``). The
distribution depends on which cells are chosen, and not on the values of the other attributes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.marginal import ErrorKind
from crosstally.answers.matrix_errors import LinearErrors, MatrixError, NestedError, contrast_weights
from crosstally.answers.moments import Moments
from crosstally.answers.noise_sums import CellSums, NoiseTerm, half_width
from crosstally.answers.uncertainty import CellError
from crosstally.answers.unmeasured.latent_class_model import ReferenceChoice, calibrated
from crosstally.budget import Noise
from crosstally.inference.bootstrap import Bootstrap, seed_of
from crosstally.measurements import PUBLIC, Measurement
from crosstally.query.operators import contrast_variance
from crosstally.query.ways import Groups, matrices_of, mixed_of
from crosstally.residuals import Estimate
from crosstally.residuals.axes import LinearAxis, linear_axes, outer_product
from crosstally.residuals.nested import Nesting
from crosstally.residuals.variances import Variances
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["ErrorBars", "ErrorLaw", "ErrorLaws"]

_SAME = 1e-10  # weights that differ by less, in proportion, are put together: rounding. The sum of squares is kept
_NEGLIGIBLE = 1e-20  # terms with less than this part of the variance are left out: 1e-10 of the standard error
# In standard errors, added to half widths: estimates and widths are doubles, and no interval may end up short.
_ROUNDING = 1e-6
_NO_SUM = CellSums.of((), np.array(True))
_NOTHING = CellSums.of((), np.array(False))


@dataclass(frozen=True, slots=True)
class _Measured:
    """A measurement without its values; ``attributes`` as bits."""

    is_table: bool
    noise: Noise | None
    variance: float
    attributes: int
    cells: int


@dataclass(frozen=True, slots=True)
class _Shared:
    """What measurements say about a table: alike for all that share the same of its axes and are equally fine."""

    is_table: bool
    noise: Noise | None
    variance: float
    axes: tuple[int, ...]
    cells_outside: int


class ErrorBars:
    """The errors of all tables of one estimate; each is worked out when it is first asked for.

    Noise of a measurement whose ``noise`` is None (the local model, public counts) is taken as normal with its
    variance: standard errors are right, and of the local model the kind of the error says ``estimated``: intervals are
    approximate. Where an estimate knows more than its measurements, ``variances_left`` are those of the coefficients of
    sets of attributes; errors are then taken as normal too. Where values are in ``groups``, schema and measurements are
    the extended ones; tables that are spread over values have no error here. ``bootstrap`` makes replicates of the
    inference when they are first needed. Without them, and where errors are approximate, corrected cells have the
    intervals that they had before correction. With the ``sizes`` of interactions (``interactions``) tables that nobody
    measured have intervals too. ``held_out`` fits the model that such tables may be raked from, when the first of them
    is asked for (``unmeasured.latent_class_model``).
    """

    def __init__(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        rows: int | None = None,
        *,
        variances_left: Mapping[tuple[str, ...], float] | None = None,
        groups: Groups | None = None,
        bootstrap: Callable[[], Bootstrap] | None = None,
        sizes: Callable[[], Mapping[int, NDArray[np.float64]]] | None = None,
        held_out: Callable[[], ReferenceChoice | None] | None = None,
    ) -> None:
        self.schema = schema
        self.rows = rows
        self.groups = groups
        self.variances_left = dict(variances_left or {})
        approximate = self.variances_left or any(m.noise is None and m.origin != PUBLIC for m in measurements)
        self.kind = ErrorKind.ESTIMATED if approximate else ErrorKind.EXACT
        self.bootstrap = None if approximate else bootstrap
        self.sizes = None if approximate else sizes
        self.held_out = held_out
        self.measurements = tuple(measurements)
        self._moments: Moments | None = None
        self._laws: dict[tuple[str, ...], ErrorLaw] = {}
        self._sizes_beside: dict[bool, Mapping[int, Floats]] = {}

    def sizes_beside(self, *, referred: bool) -> Mapping[int, Floats]:
        """The sizes of interactions that tables leave unexplained which are raked from a model, or from none."""
        assert self.sizes is not None  # asked for by intervals alone
        chosen = None if self.held_out is None else self.held_out()
        if chosen is None:
            return self.sizes()
        if referred not in self._sizes_beside:
            trials = chosen.trials(referred=referred)
            self._sizes_beside[referred] = calibrated(self.sizes(), trials, seed=self.digest)
        return self._sizes_beside[referred]

    def moments(self, estimate: Estimate) -> Moments | None:
        """The errors of the central moments of the estimate, where it knows more than its measurements."""
        if not self.variances_left or estimate.corrected == "none":
            return None
        if self._moments is None or self._moments.estimate is not estimate:
            total = float(estimate.table(()))
            self._moments = Moments(estimate, self.measurements, self.variances_left, total)
        return self._moments

    @cached_property
    def linear(self) -> Mapping[str, LinearAxis]:
        """The bases along attributes that are measured by a matrix."""
        return linear_axes(matrices_of([m.query for m in self.measurements]))

    @cached_property
    def _linear_law(self) -> LinearErrors:
        return LinearErrors(self.schema, self.measurements, self.rows)

    @cached_property
    def joint(self) -> LinearErrors | None:
        """The law of attributes measured in more than one way, whose coefficients covary; None where there are none."""
        return self._linear_law if mixed_of([m.query for m in self.measurements]) else None

    @cached_property
    def _in_views(self) -> bool:
        """Whether matrices measure views, whose sums along an attribute are in the answers of other tables too."""
        queries = (m.query for m in self.measurements)
        return self.joint is not None or any(query.matrices and not query.is_residual for query in queries)

    def _is_linear(self, names: Sequence[str]) -> bool:
        return self._in_views or any(name in self.linear for name in names)

    def covered_law(self, names: Sequence[str]) -> ErrorLaw | NestedError | MatrixError:
        """The error of each cell of a table that is known to be covered; nothing is worked out yet."""
        if self._is_linear(names):
            return MatrixError(self._linear_law, names, (), kind=self.kind)
        if self.groups is not None and self.in_full(names):
            name = next(name for name, full in self.groups.full_names.items() if full == names[0])
            return NestedError(np.sqrt(self._nesting(name).cell_variances(float(self.variances(())[0]))))
        key = self.schema.ordered(names)
        if key not in self._laws:
            self._laws[key] = ErrorLaw(self, key)
        return self._laws[key]

    def in_full(self, names: Sequence[str]) -> bool:
        """Whether this is the table of one attribute in full, of which larger tables count groups of values."""
        if self.groups is None or len(names) != 1 or self._is_linear(names):
            return False
        return names[0] in self.groups.full_names.values()

    def _nesting(self, name: str) -> Nesting:
        """An attribute in groups and in full."""
        assert self.groups is not None  # only such have names in full
        p, q = (1 / float(self.predicted.of_subsets((each,))[1]) for each in (name, self.groups.full_names[name]))
        return Nesting(self.groups.codes[name], p, q)

    def sums(
        self,
        names: Sequence[str],
        summed: Sequence[str],
        chosen: NDArray[np.bool_],
        kept: Sequence[NDArray[np.intp]] | None = None,
    ) -> CellError:
        """The errors of a table whose cells are sums over chosen cells of further attributes; all must be covered.

        ``chosen`` has an axis for each of ``names``, of length one where all values choose alike, then one for each of
        ``summed``. Cells that choose alike have the same law, unless an attribute is measured by a matrix: then it
        depends on which values of ``names`` are ``kept``, all by default.
        """
        if self._is_linear([*names, *summed]):
            return MatrixError(self._linear_law, names, summed, kind=self.kind, kept=kept, chosen=chosen)
        if self.groups is not None and self.groups.names([*names, *summed]) != (*names, *summed):
            nesting, of_total = self._nesting([*names, *summed][0]), float(self.variances(())[0])
            if summed:
                return NestedError(math.sqrt(nesting.variance(chosen.astype(np.float64), of_total)))
            return NestedError(math.sqrt(nesting.cell_variances(of_total).max()))  # of some of them, at most this
        shape, inside = chosen.shape[: len(names)], chosen.shape[len(names) :]
        alike, places = np.unique(chosen.reshape(math.prod(shape), -1), axis=0, return_inverse=True)
        laws = [self._sum_law(names, summed, each.reshape(inside)) for each in alike]
        return laws[0] if len(laws) == 1 else ErrorLaws(laws, places.reshape(shape))

    def _sum_law(self, names: Sequence[str], summed: Sequence[str], chosen: NDArray[np.bool_]) -> ErrorLaw:
        if not chosen.any():  # nothing is added up: exactly zero
            return ErrorLaw(self, (), _NOTHING)
        return ErrorLaw(self, tuple(names), CellSums.of(summed, chosen) if summed else _NO_SUM)

    @cached_property
    def digest(self) -> int:
        """What tells these measurements from others."""
        return seed_of(self.schema, self.measurements)

    @cached_property
    def predicted(self) -> Variances:
        """The variance of every coefficient, as if the number of rows were not known."""
        measured = Variances.of_queries(self.schema, [(m.query, m.variance) for m in self.measurements])
        return measured.replacing(self.variances_left)

    def variances(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The variance of the coefficients of each subset; NaN where it is not measured."""
        variances = self.predicted.of_subsets(names)
        if self.rows is not None:
            variances[0] = 0.0
        return variances

    def basis(self, name: str) -> Floats | None:
        """[u K] along an attribute that is measured by a matrix, Helmert's along mixed ones; None along others."""
        mixed = () if self.joint is None else self.joint.mixed
        return self._linear_law.basis(name) if name in self.linear or name in mixed else None

    def shared(self, names: Sequence[str]) -> Counter[_Shared]:
        """What measurements say about a table, and how many say the same."""
        axis_of = {1 << self.schema.positions[name]: axis for axis, name in enumerate(names)}
        table = sum(axis_of)
        alike = Counter[tuple[_Measured, int]]()
        for measured, times in self._measured.items():
            if measured.is_table or not measured.attributes & ~table:
                alike[measured, measured.attributes & table] += times
        out = Counter[_Shared]()
        for (measured, inside), times in alike.items():
            axes = tuple(axis for bit, axis in axis_of.items() if bit & inside)
            cells_outside = measured.cells // math.prod(self.schema.sizes([names[axis] for axis in axes]))
            out[_Shared(measured.is_table, measured.noise, measured.variance, axes, cells_outside)] += times
        return out

    @cached_property
    def _measured(self) -> Counter[_Measured]:
        positions = self.schema.positions
        return Counter(
            _Measured(
                m.query.is_table,
                m.noise,
                m.variance,
                sum(1 << positions[name] for name in m.query.attributes),
                math.prod(self.schema.sizes(m.query.attributes)),
            )
            for m in self.measurements
        )


class ErrorLaw:
    """The error that every cell of one table has, or every sum of cells: a weighted sum of independent noise."""

    def __init__(self, bars: ErrorBars, names: tuple[str, ...], sums: CellSums = _NO_SUM) -> None:
        self._bars = bars
        self._sizes = bars.schema.sizes(names)
        self._sums = sums
        self._all_names = names + sums.names
        self._half_widths: dict[float, float] = {}

    @property
    def kind(self) -> ErrorKind:
        """Whether its intervals are exact."""
        return self._bars.kind

    @cached_property
    def std_error(self) -> float:
        """The standard deviation of the noise in a cell; NaN where the table is not covered."""
        squares = outer_product([[1 / n**2, 1 - 1 / n] for n in self._sizes])
        variances = self._bars.variances(self._all_names).reshape(len(squares), -1)
        return math.sqrt(squares @ variances @ self._sums.squares())

    def half_width(self, level: float) -> float:
        """The least h such that noise stays within plus or minus h with this probability, or more.

        A millionth of the standard error is added: noise is often a whole number, and the rounding of an answer must
        not put the truth just outside the interval that ends on it.
        """
        if level not in self._half_widths:
            self._half_widths[level] = half_width(self.terms, level) + _ROUNDING * self.std_error
        return self._half_widths[level]

    @cached_property
    def terms(self) -> tuple[NoiseTerm, ...]:
        """The noise in a cell: draws of one noise and one weight (without its sign) together."""
        if self._bars.variances_left:
            return (NoiseTerm(None, 1.0, count=1.0, variance=self.std_error**2),)
        combined = self._bars.variances(self._all_names).reshape((2,) * len(self._all_names))
        weights: dict[tuple[Noise | None, float], list[NDArray[np.float64]]] = defaultdict(list)
        for shared, times in self._bars.shared(self._all_names).items():
            size = _cell_weights if shared.is_table else _contrast_weights
            weight, count = size(shared, self._sizes, self._sums, combined)
            weights[shared.noise, shared.variance].append(np.stack([np.abs(weight), times * count]))
        merged = {noise: _merged(np.concatenate(parts, axis=1)) for noise, parts in weights.items()}
        terms = [
            NoiseTerm(noise, weight, count=count, variance=variance)
            for (noise, variance), pairs in merged.items()
            for weight, count in pairs
        ]
        enough = _NEGLIGIBLE * sum(term.share for term in terms)
        return tuple(term for term in terms if term.share > enough)


class ErrorLaws:
    """The errors of a table whose cells do not all have the same law; ``places`` says which, for each cell."""

    def __init__(self, laws: Sequence[ErrorLaw], places: NDArray[np.intp]) -> None:
        self._laws = tuple(laws)
        self._places = places

    @cached_property
    def std_error(self) -> NDArray[np.float64]:
        """The standard deviation of the noise in each cell."""
        return np.array([law.std_error for law in self._laws])[self._places]

    def half_width(self, level: float) -> NDArray[np.float64]:
        """For each cell the least h such that noise stays within plus or minus h with this probability, or more."""
        return np.array([law.half_width(level) for law in self._laws])[self._places]


def _cell_weights(
    shared: _Shared, sizes: tuple[int, ...], sums: CellSums, combined: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weights of the noisy cells of a view, and how many there are of each.

    There is one for each set of matching attributes, times the kinds of values of the attributes that are summed.
    """
    inside, summed, spread = _split_axes(shared, sizes, sums)
    alone = shared.variance * shared.cells_outside * outer_product([[n, 1] for n in (*inside, *summed.sizes)])
    out = _subsets(combined, shared.axes)
    out = out / alone.reshape(out.shape)
    for axis, n in enumerate(inside):
        without, within = out.take(0, axis), out.take(1, axis)
        out = np.stack([(without - within) / n, without / n + within * (1 - 1 / n)], axis=axis)
    weights = summed.weighted(out.reshape(-1, *(2,) * len(summed.names)))
    counts = outer_product([*([n - 1, 1] for n in inside), *(kinds.tolist() for kinds in summed.kinds)])
    return weights.ravel() / spread, shared.cells_outside * counts


def _contrast_weights(
    shared: _Shared, sizes: tuple[int, ...], sums: CellSums, combined: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same for a contrast, which says something about the set of all its attributes only."""
    inside, summed, spread = _split_axes(shared, sizes, sums)
    alone = shared.variance * contrast_variance((*inside, *summed.sizes))
    share = float(_subsets(combined, shared.axes).ravel()[-1]) / alone
    weights, counts = contrast_weights(inside)
    along, times = summed.contrast()
    return share / spread * np.multiply.outer(weights, along).ravel(), np.multiply.outer(counts, times).ravel()


def _split_axes(shared: _Shared, sizes: tuple[int, ...], sums: CellSums) -> tuple[list[int], CellSums, int]:
    """The axes that a measurement shares with a table: the sizes of those asked, and what is summed along the others.

    The last number is that of the cells of the asked attributes that it does not have: its own are spread over them.
    """
    first = len(sizes)
    summed = sums.mean([axis - first for axis in shared.axes if axis >= first])
    spread = math.prod(n for axis, n in enumerate(sizes) if axis not in shared.axes)
    return [sizes[axis] for axis in shared.axes if axis < first], summed, spread


def _subsets(combined: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """The variances of the subsets that lie within some axes."""
    return combined[tuple(slice(None) if axis in axes else 0 for axis in range(combined.ndim))]


def _merged(pairs: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Weights and counts with equal weights put together; the sum of squares stays."""
    weights, counts = pairs[:, np.argsort(pairs[0])]
    starts = np.flatnonzero(np.diff(weights, prepend=-1.0) > _SAME * weights)
    together = np.add.reduceat(counts, starts)
    squares = np.add.reduceat(counts * weights**2, starts)
    return list(zip(np.sqrt(squares / together).tolist(), together.tolist(), strict=True))
