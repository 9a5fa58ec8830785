"""The exact distribution of the error of a covered cell, before negative cells are corrected.

The error of a cell of table A is a weighted sum of the independent noise of all measured cells. The weight of a noisy
cell of view V depends only on the set S of attributes of A and V in which it matches the asked cell:

    g_V(S) = sum over B inside A and V of  w_VB  x  prod(1 / n_i, i in A, not B)  x  prod([i in S] - 1 / n_i, i in B)

where w_VB is the share of V in the combined coefficients of B: their combined variance divided by the variance from V
alone. So all cells of one table have the same error distribution, with few terms: 2^|A and V| weights, each with a
known number of noisy cells.

The error of a sum over chosen cells of some of the attributes is such a weighted sum too. The matching factor is then
the part for B of the function that is 1 on the chosen cells (``CellSums``); one cell is the sum that chooses it alone.
The distribution depends on which cells are chosen, and not on the values of the other attributes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.interactions import Sizes
from crosstally.answers.marginal import ErrorKind
from crosstally.answers.matrix_errors import LinearErrors, MatrixError, NestedError
from crosstally.answers.moments import Moments
from crosstally.answers.noise_sums import CellSums, ChosenSums, NoiseTerm, half_width
from crosstally.answers.uncertainty import CellError
from crosstally.answers.unmeasured.latent_class_model import ReferenceChoice, calibrated
from crosstally.budget import Noise, NoiseKind
from crosstally.inference.bootstrap import Bootstrap, noise_of_coefficients, seed_of, stream_seed
from crosstally.measurements import PUBLIC, Measurement
from crosstally.query.operators import contrast_variance
from crosstally.query.ways import Groups, matrices_of, mixed_of
from crosstally.residuals import Estimate
from crosstally.residuals.axes import LinearAxis, linear_axes, outer_product
from crosstally.residuals.combining import Averages
from crosstally.residuals.nested import Nesting
from crosstally.residuals.variances import Variances
from crosstally.schema import Schema
from crosstally.typing import Floats

_SAME = 1e-10  # weights that differ by less, in proportion, are put together: rounding. The sum of squares is kept
_DRAWN = (200, 1_000)
"""The least and the most draws of Laplace noise: a p-value of 0.05 is known to 0.015 and to 0.007."""
_MOST_DRAWN = 10_000_000  # numbers in all of them; of releases with more than 50,000 noise is drawn as normal
_NEGLIGIBLE = 1e-20  # terms with less than this part of the variance are left out: 1e-10 of the standard error


@dataclass(frozen=True, slots=True)
class _Noisy:
    """Measurements that are alike: of a view or a contrast, with one noise.

    ``inside`` says which attributes they have, as bits of the schema or of a table, and ``cells`` how many cells there
    are for each cell of the table.
    """

    is_table: bool
    noise: Noise | None
    variance: float
    inside: int
    cells: int


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
    is asked for (``unmeasured.latent_class_model``). ``corrected`` names the correction of negative cells.
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
        sizes: Callable[[], Sizes] | None = None,
        held_out: Callable[[], ReferenceChoice | None] | None = None,
        corrected: str = "none",
    ) -> None:
        self.schema = schema
        self.corrected = corrected
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
        self._sizes_beside: dict[bool, Sizes] = {}

    def sizes_beside(self, *, referred: bool) -> Sizes:
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
        return ErrorLaw(self, names, summed, chosen)

    @cached_property
    def digest(self) -> int:
        """What tells these measurements from others."""
        return seed_of(self.schema, self.measurements)

    @property
    def key(self) -> tuple[int, str, bool]:
        """What tells releases apart: the same for the same measurements, inferred in the same way."""
        return self.digest, self.corrected, bool(self.variances_left)

    @cached_property
    def predicted(self) -> Variances:
        """The variance of every coefficient, as if the number of rows were not known."""
        measured = Variances.of_queries(self.schema, [(m.query, m.variance) for m in self.measurements])
        return measured.replacing(self.variances_left)

    @cached_property
    def laplace_noise(self) -> NDArray[np.float32] | None:
        """New noise of all coefficients by the law of the measured noise, a row for each draw.

        None where noise is normal, and in very large releases: there normal noise with the same covariances will do.
        """
        size = sum(m.values.size for m in self.measurements)
        laplace = any(m.noise is not None and m.noise.kind is NoiseKind.LAPLACE for m in self.measurements)
        if not laplace or size * _DRAWN[0] > _MOST_DRAWN:
            return None
        averages = Averages.of(self.schema, self.measurements, self.groups)
        number = min(_MOST_DRAWN // max(size, 1), _DRAWN[1])
        drawn = noise_of_coefficients(
            averages, self.measurements, seed=stream_seed(self.digest, "unshrunk", ()), number=number
        )
        noises = (Estimate(self.schema, averages.keys, coefficients=c, variances=averages.variances) for c in drawn)
        known = noises if self.rows is None else (averages.with_total(noise, 0.0) for noise in noises)
        return np.stack([noise.coefficients.astype(np.float32) for noise in known])

    def variances(self, names: Sequence[str]) -> Floats:
        """The variance of the coefficients of each subset; NaN where it is not measured."""
        variances = self.predicted.of_subsets(names)
        if self.rows is not None:
            variances[0] = 0.0
        return variances

    @property
    def mixed(self) -> Collection[str]:
        """The attributes that are measured in more than one way."""
        return () if self.joint is None else self.joint.mixed

    def basis(self, name: str) -> Floats | None:
        """[u K] along an attribute that is measured by a matrix, Helmert's along mixed ones; None along others."""
        return self._linear_law.basis(name) if name in self.linear or name in self.mixed else None

    def shared(self, names: Sequence[str]) -> Counter[_Noisy]:
        """What measurements say about a table, its axes as bits, and how many say the same."""
        axis_of = {1 << self.schema.positions[name]: axis for axis, name in enumerate(names)}
        table, sizes = sum(axis_of), self.schema.sizes(names)
        alike = Counter[tuple[_Noisy, int]]()
        for measured, times in self._measured.items():
            if measured.is_table or not measured.inside & ~table:
                alike[measured, measured.inside & table] += times
        out = Counter[_Noisy]()
        for (measured, shared), times in alike.items():
            axes = [axis for bit, axis in axis_of.items() if bit & shared]
            cells = measured.cells // math.prod(sizes[axis] for axis in axes)
            inside = sum(1 << axis for axis in axes)
            out[_Noisy(measured.is_table, measured.noise, measured.variance, inside, cells)] += times
        return out

    @cached_property
    def _measured(self) -> Counter[_Noisy]:
        positions = self.schema.positions
        return Counter(
            _Noisy(
                m.query.is_table,
                m.noise,
                m.variance,
                sum(1 << positions[name] for name in m.query.attributes),
                math.prod(self.schema.sizes(m.query.attributes)),
            )
            for m in self.measurements
        )


class ErrorLaw(ChosenSums):
    """The errors of sums over chosen cells; cells that choose alike have the same law."""

    def __init__(
        self, bars: ErrorBars, names: Sequence[str], summed: Sequence[str] = (), chosen: NDArray[np.bool_] | None = None
    ) -> None:
        super().__init__(names, summed, chosen)
        self._bars, self._sizes = bars, bars.schema.sizes(names)

    @property
    def kind(self) -> ErrorKind:
        """Whether its intervals are exact."""
        return self._bars.kind

    @cached_property
    def _sums(self) -> list[CellSums]:
        """What is added up in a cell, for each mask."""
        return [CellSums.of(self._summed, mask) for mask in self._masks]

    @cached_property
    def std_error(self) -> float | Floats:
        """The standard deviation of the noise in a cell; NaN where the table is not covered."""
        squares = outer_product([[1 / n**2, 1 - 1 / n] for n in self._sizes])
        variances = squares @ self._bars.variances((*self._names, *self._summed)).reshape(len(squares), -1)
        if not self._summed and len(self._masks) == 1:
            return math.sqrt(variances.item())
        # where nothing is added up the sum is exactly zero
        return self._placed([math.sqrt(variances @ each.squares()) if each.cells.any() else 0.0 for each in self._sums])

    def _half_width(self, level: float) -> float | Floats:
        return self._placed([half_width(terms, level) for terms in self.terms])

    def _placed(self, numbers: Sequence[float]) -> float | Floats:
        """The number of each cell, from those of the masks."""
        return numbers[0] if len(numbers) == 1 else np.array(numbers)[self._places]

    @cached_property
    def terms(self) -> list[tuple[NoiseTerm, ...]]:
        """For each mask the noise in a cell: draws of one noise and one weight (without its sign) together."""
        in_cells = [each.in_each_cell(self._names, self._sizes) for each in self._sums]
        return [self._terms(each) if each.cells.any() else () for each in in_cells]

    def _terms(self, sums: CellSums) -> tuple[NoiseTerm, ...]:
        combined = self._bars.variances(sums.names)
        if self._bars.variances_left:
            return (NoiseTerm(None, 1.0, count=1.0, variance=float(combined @ sums.squares())),)
        combined, means = combined.reshape((2,) * len(sums.names)), cache(sums.mean)
        weights: dict[tuple[Noise | None, float], list[Floats]] = defaultdict(list)
        for shared, times in self._bars.shared(sums.names).items():
            axes = tuple(axis for axis in range(combined.ndim) if shared.inside >> axis & 1)
            inside = tuple(slice(None) if axis in axes else 0 for axis in range(combined.ndim))
            weight, count = _weights(shared, means(axes), combined[inside])
            weights[shared.noise, shared.variance].append(np.stack([np.abs(weight), times * count]))
        merged = {noise: _merged(np.concatenate(parts, axis=1)) for noise, parts in weights.items()}
        terms = [
            NoiseTerm(noise, weight, count=count, variance=variance)
            for (noise, variance), pairs in merged.items()
            for weight, count in pairs
        ]
        enough = _NEGLIGIBLE * sum(term.share for term in terms)
        return tuple(term for term in terms if term.share > enough)


def _weights(shared: _Noisy, sums: CellSums, combined: Floats) -> tuple[Floats, Floats]:
    """The weights of the noisy numbers of a measurement in a sum over its attributes, and how many there are of each.

    ``combined`` are the variances of the subsets of these. A contrast says something about the set of all of them only.
    """
    if not shared.is_table:
        weights, counts = sums.contrast()
        return weights * (combined.ravel()[-1] / (shared.variance * contrast_variance(sums.sizes))), counts
    alone = shared.variance * shared.cells * outer_product([[n, 1] for n in sums.sizes])
    return sums.weighted(combined / alone.reshape(combined.shape)).ravel(), shared.cells * sums.counts


def _merged(pairs: Floats) -> list[tuple[float, float]]:
    """Weights and counts with equal weights put together; the sum of squares stays."""
    weights, counts = pairs[:, np.argsort(pairs[0])]
    starts = np.flatnonzero(np.diff(weights, prepend=-1.0) > _SAME * weights)
    together = np.add.reduceat(counts, starts)
    squares = np.add.reduceat(counts * weights**2, starts)
    return list(zip(np.sqrt(squares / together).tolist(), together.tolist(), strict=True))
