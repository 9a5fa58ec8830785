"""A release: its measurements, and any table estimated from them.

Nothing here has access to rows or noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosstally.analysis.associations import Normalize, crosstab
from crosstally.analysis.computing import compute
from crosstally.answers.answer import answer_all
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.integer_tables import IntegerTables, Rounding, integer_tables
from crosstally.answers.interactions import Sizes, learned_sizes
from crosstally.answers.marginal import Marginal
from crosstally.answers.unmeasured.latent_class_model import ReferenceChoice, held_out
from crosstally.checks import check_kind, names_in, several
from crosstally.errors import QueryError
from crosstally.html_text import html_facts
from crosstally.inference.bootstrap import KEPT_FROM, Bootstrap, Replicates, bootstrapped
from crosstally.inference.estimates import ROUNDS, SHRUNK, Inference, infer, uncorrected
from crosstally.measurements import Chosen, Measurement
from crosstally.query.question import Question, Where
from crosstally.releases.statement import NOT_RECORDED, Statement
from crosstally.releases.unit_counts import UnitCounts, noisy_total
from crosstally.residuals import Estimate
from crosstally.residuals.nested import extended_measurements
from crosstally.schema import Schema
from crosstally.text_table import aligned
from crosstally.typing import Floats
from crosstally.workload import Workload, check_workload

if TYPE_CHECKING:
    from crosstally.sql import SqlAnswer
    from crosstally.synthesis import SyntheticData


_MOST_PAIRS = 10_000  # only the first of a very wide release are used


class Description(str):
    """A text whose representation at the prompt is the text itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Measurements and the answers estimated from them: any table, of any number of attributes, with its error.

    ``publish`` and ``open_release`` make one. Where the estimate is nearer to the truth than least squares (the local
    model), ``variances_left`` are those of the coefficients of sets of attributes, in counts; otherwise it is empty.
    ``totals`` are sums of measures. ``replicates`` is how many replicates intervals and draws rest on, where that is
    not the usual number. ``fitted`` is the inference that made the estimate, where it was made here, and ``kept`` are
    the replicates that a file has.
    """

    schema: Schema
    measurements: tuple[Measurement, ...]
    _: KW_ONLY
    statement: Statement
    estimate: Estimate
    nonnegative: str
    rounds: int
    variances_left: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    choices: tuple[Chosen, ...] = ()
    unit_rows: Measurement | None = None
    totals: tuple[Measurement, ...] = ()
    replicates: int | None = None
    fitted: Inference | None = None
    kept: Replicates | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be fitted again: answers take their release along."""
        return {**self.__dict__, "fitted": None}

    def __repr__(self) -> str:
        attributes, numbers = len(self.schema.names), sum(m.values.size for m in self.measurements)
        unrecorded = f"; {NOT_RECORDED}" if self.statement.paid == NOT_RECORDED else ""
        return f"Release({attributes} attributes, {numbers:,} numbers measured; {self._caption}{unrecorded})"

    def _repr_html_(self) -> str:
        return html_facts("Release", self._facts()) + self.schema._repr_html_()

    def _facts(self) -> dict[str, str]:
        pairs = list(combinations(self.schema.names, 2))[:_MOST_PAIRS]
        grouped = self.estimate.groups is not None
        covered = sum(self.covers(*pair) for pair in pairs) if grouped else int(self.estimate.covered(pairs).sum())
        return {
            "privacy": self._caption,
            self.schema.bounded_words or "rows": "not known" if math.isnan(self.rows) else f"about {self.rows:,.0f}",
            "measured": f"{len(self.measurements):,} tables, {sum(m.values.size for m in self.measurements):,} numbers",
            "pairs covered": f"{covered:,} of {len(pairs):,}",
            **({"units": self.unit_words[0]} if self.unit_words else {}),
        }

    @property
    def bought(self) -> tuple[Measurement, ...]:
        """All that was measured: of rows, of units by number of rows, and of measures."""
        units = () if self.unit_rows is None else (self.unit_rows,)
        return (*self.measurements, *units, *self.totals)

    @cached_property
    def units(self) -> UnitCounts | None:
        """How many units there are, and how many rows the bound left out, if that was measured."""
        if self.unit_rows is None:
            return None
        return UnitCounts(self.unit_rows, self.schema.max_rows, noisy_total(self.measurements))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return self.schema.names

    def covers(self, *names: str | Iterable[str]) -> bool:
        """Whether the table of these attributes follows from measurements alone, without a model."""
        return self._covers(names_in(names))

    def _covers(self, names: tuple[str, ...]) -> bool:
        self.schema.check(names)
        groups = self.estimate.groups
        if groups is None or not any(name in groups.codes for name in names):
            return self.estimate.covers(names)
        return len(names) == 1 and self.estimate.covers((groups.full_names[names[0]],))

    def describe(self) -> Description:
        """The contents and the privacy guarantee of the release, in words: ``print(release.describe())``."""
        facts = aligned([[name, text] for name, text in self._facts().items()], left=2)
        labels = aligned([[each.name, each.labels_in_short] for each in self.schema.attributes], left=2)
        return Description("\n".join([*facts, "", *labels, "", *self.statement.plain(self.schema)]))

    @cached_property
    def unit_words(self) -> tuple[str, ...]:
        """How many units there are, and what the bound left out, in words; nothing where it was not measured."""
        return () if self.units is None else (self.units.sentence(self.schema),)

    @cached_property
    def _caption(self) -> str:
        """The source that each answer states."""
        return self.statement.caption(self.schema)

    @property
    def _total_caption(self) -> str:
        """The same beside a total, with what the bound leaves out of it."""
        return ". ".join([self._caption, *self.unit_words])

    @cached_property
    def _errors(self) -> ErrorBars:
        groups, measured = self.estimate.groups, self.measurements
        return ErrorBars(
            self.schema if groups is None else groups.extended,
            measured if groups is None else extended_measurements(groups, measured),
            self.statement.rows,
            variances_left=self.variances_left,
            groups=groups,
            bootstrap=self._bootstrap,
            sizes=self._sizes,
            held_out=self._held_out,
            corrected=self.estimate.corrected,
        )

    def _bootstrap(self) -> Bootstrap:
        return self._bootstrapped

    @cached_property
    def _bootstrapped(self) -> Bootstrap:
        """The parametric bootstrap of this release, computed once: it gives the intervals of corrected cells."""
        rows, way = self.statement.rows, self.nonnegative
        if self.kept is not None and self.replicates is None:
            linear = uncorrected(self.schema, self.measurements, rows=rows, nonnegative=way)
            return bootstrapped(replace(linear, estimate=self.estimate), kept=self.kept)
        fitted = self.fitted or infer(self.schema, self.measurements, rows=rows, nonnegative=way, rounds=self.rounds)
        return bootstrapped(fitted, number=self.replicates)

    def replicates_to_keep(self) -> Replicates | None:
        """The replicates that the release's file keeps: those of a release in which finding them again takes long."""
        exact = self._errors.bootstrap is not None and self.estimate.corrected != "none"
        if self.replicates is not None or not exact or len(self.estimate.keys) < KEPT_FROM:
            return None
        return self._bootstrapped.replicates

    def _sizes(self) -> Sizes:
        return self._learned_sizes

    @cached_property
    def _learned_sizes(self) -> Sizes:
        """The sizes of interactions which the intervals of unmeasured tables use."""
        return learned_sizes(replace(self.estimate, groups=None), self._bootstrapped)

    def _held_out(self) -> ReferenceChoice | None:
        return self._chosen_reference

    @cached_property
    def _chosen_reference(self) -> ReferenceChoice | None:
        """The model that unmeasured tables are raked from; none beside the papers' corrections or in groups."""
        if self.nonnegative != SHRUNK or self.estimate.groups is not None or self.variances_left:
            return None
        return held_out(self.estimate, self.measurements)

    @property
    def rows(self) -> float:
        """The number of rows: the public number, or its estimate; NaN if there is neither."""
        if self.statement.rows is not None:
            return self.statement.rows
        return float(self.estimate.table(())) if self.estimate.covers(()) else math.nan

    def marginal(
        self,
        *names: str | Iterable[str],
        where: str | Mapping[str, object] | Question | None = None,
        method: str | None = None,
    ) -> Marginal:
        """The table over these attributes, one axis for each in the order named; over none, the number of rows.

        With a condition it counts the rows that satisfy it: the table with its attributes added is answered and summed
        over the cells in which the condition is true. Errors stay exact if that larger table is covered. A label
        that no such row can have is left out: ``marginal("age", where="age >= 18")`` has the
        bins from 18 on.

        Args:
            names: Any attributes of the schema, each once: one by one, or as a list.
            where: Count only rows that satisfy this: a text such as ``"25 <= age < 65 and region != North"``,
                conditions as in ``count``, or a count.
            method: How to reconstruct a table that was not measured; the best available method when None.
        """
        return self.marginals([names_in(names)], where=where, method=method)[0]

    def marginals(
        self,
        tables: Iterable[Sequence[str] | str],
        *,
        where: str | Mapping[str, object] | Question | None = None,
        method: str | None = None,
    ) -> list[Marginal]:
        """Many tables at once, faster than one by one; all under the same condition, if one is given."""
        wanted = [names_in([names]) for names in several(tables, "tables")]
        if method is not None:
            check_kind(method, str, "method")
        rows = None if where is None else Where.of(where, self.schema)
        out = answer_all(self.estimate, self._errors, wanted, where=rows, method=method, caption=self._caption)
        if self.units is None or all(wanted):
            return out
        return [each if each.attributes else replace(each, caption=self._total_caption) for each in out]

    def count(self, where: str | Mapping[str, object] | Question) -> Marginal:
        """How many rows satisfy a condition: a single number with its ``value`` and ``interval()``.

        Args:
            where: A text such as ``"25 <= age < 65 and not employed"``, conditions as in ``count``, or a count.
        """
        return self.marginal(where=where)

    def total(
        self,
        measure: str,
        *names: str | Iterable[str],
        where: str | Mapping[str, object] | Question | None = None,
    ) -> Marginal:
        """The total of a measure over these attributes, in its own unit: ``release.total("income", "region")``.

        Values are moved into the public bounds of the measure before they are added up; the intervals hold the total of
        what results. Of tables that do not follow from measured ones there is none.

        Args:
            measure: One of the schema's measures that was measured.
            names: Any attributes, each once.
            where: Only rows that satisfy this.
        """
        from crosstally.releases.amounts import total

        return total(self, measure, names_in(names), where)

    def mean(
        self,
        measure: str,
        *names: str | Iterable[str],
        where: str | Mapping[str, object] | Question | None = None,
    ) -> Marginal:
        """The mean of a measure over these attributes: its total over the number of rows that have a value.

        Args:
            measure: As for ``total``.
            names: Any attributes, each once.
            where: Only rows that satisfy this.
        """
        from crosstally.releases.amounts import mean

        return mean(self, measure, names_in(names), where)

    def crosstab(
        self,
        rows: str | Sequence[str],
        columns: str | Sequence[str] = (),
        *,
        margins: bool = False,
        normalize: Normalize = False,
        where: str | Mapping[str, object] | Question | None = None,
    ) -> Marginal:
        """Rows against columns, as in pandas, with errors.

        Args:
            rows: The attribute or attributes of the rows.
            columns: The attribute or attributes of the columns.
            margins: Add totals, labelled ``All``.
            normalize: ``"index"`` for shares of rows, ``"columns"`` of columns, ``"all"`` or True of the total.
            where: Count only rows that satisfy this.
        """
        down, across = names_in([rows]), names_in([columns])
        table = self.marginal(*down, *across, where=where)
        made = crosstab(table, down, across, margins=margins, normalize=normalize)
        return replace(made, caption=self._total_caption) if margins else made

    def compute(
        self,
        function: Callable[..., Any],
        tables: Iterable[Sequence[str] | str],
        *,
        where: str | Mapping[str, object] | Question | None = None,
        quantity: str = "value",
    ) -> Marginal:
        """Any function of tables, with its error: it is called once for each draw.

        ``release.compute(lambda a, b: a[0] / b[1].sum(), [("sex",), ("sex", "age")])``. Several numbers have a
        ``covariance()``.

        Args:
            function: Takes an array for each table and gives a number, a list of numbers or named numbers.
            tables: The attributes of each table.
            where: Count only rows that satisfy this.
            quantity: What the numbers are called.
        """
        return compute(function, self.marginals(tables, where=where), quantity=quantity)

    def sql(self, statement: str, *, level: float = 0.95) -> SqlAnswer:
        """The answer to one SELECT over the people of this release, with both ends of an interval beside each number.

        ``SELECT sex, age, count(*) FROM people WHERE region IN ('North') GROUP BY ROLLUP (sex, age)`` has the columns
        ``sex``, ``age``, ``count``, ``count_low`` and ``count_high``. Shares are windows:
        ``count(*) / sum(count(*)) OVER ()``. Needs ``crosstally[sql]``.

        Args:
            statement: One SELECT; the name after FROM does not matter.
            level: The confidence level of the intervals.
        """
        from crosstally.sql import answer_sql

        def tables(sets: Sequence[tuple[str, ...]], where: Question | None) -> list[Marginal]:
            return self.marginals(sets, where=where)

        answer = answer_sql(statement, self.schema, tables, level=level, caption=self._caption)
        return replace(answer, counted=". ".join(filter(None, [answer.counted, *self.unit_words])))

    def integers(
        self, workload: Workload | None = None, *, method: Rounding | None = None, time_limit: float = 60.0
    ) -> IntegerTables:
        """Tables of non-negative whole numbers that agree with each other, close to this release's answers.

        All are marginals of one sparse table over all attributes, which can also be written as rows.

        Args:
            workload: The tables to fit; all of one and two attributes when it is left out.
            method: "linear-program" or "projection"; by default what suits the size of the domain.
            time_limit: Seconds, after which the best table so far is used.
        """
        if self.schema.divided:
            raise QueryError(f"counts of {self.schema.counted}, are no whole numbers: take the tables as they are")
        check_workload(workload)
        check_kind(time_limit, int | float, "time_limit")
        if method is not None:
            check_kind(method, str, "method")
        wanted = (workload or Workload.small_tables(self.schema)).for_schema(self.schema)
        answers = {names: each.values for names, each in zip(wanted.tables, self.marginals(wanted.tables), strict=True)}
        rows = self.rows if not math.isnan(self.rows) else float(next(iter(answers.values())).sum())
        return integer_tables(self.schema, answers, total=max(0, round(rows)), method=method, time_limit=time_limit)

    def synthesize(
        self, rows: int | None = None, *, method: Literal["sampling", "integers"] = "sampling", seed: int = 0
    ) -> SyntheticData:
        """Synthetic data whose tables are nearest to those of this release. Free, and no row is a real person.

        The rows are fitted to every covered pair and to every measured table that is not too large. Everything else
        follows from these tables alone. No row has values that the schema calls impossible together.

        Args:
            rows: How many rows to make; as many as the release has when None.
            method: "sampling" draws attribute after attribute and then changes values until tables fit, for any number
                of attributes. "integers" takes the table of ``integers``, whose rows ``integers`` counts.
            seed: The same seed gives the same rows. It plays no part in privacy.
        """
        from crosstally.synthesis import (
            SyntheticData,
            distances,
            in_full,
            in_groups,
            narrowness,
            repeated,
            sampled_rows,
        )

        known = max(0, round(self.rows)) if not math.isnan(self.rows) else 0
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            raise QueryError(
                f"rows must be a whole number of at least 1, got {rows!r}; leave it out for the release's own"
            )
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise QueryError(f"seed must be a whole number of at least 0, got {type(seed).__name__}")
        check_kind(method, str, "method")
        number, schema, random = known if rows is None else rows, self.schema, np.random.default_rng(seed)
        if method == "integers":
            if number != known:
                raise QueryError(f"integer tables have the release's own number of rows, got {number:,}; sample them")
            table = self.integers()
            drawn, groups = np.repeat(table.cells, table.counts, axis=0).astype(np.int32), {}
            answers = dict(zip(table.distances, self.marginals(table.distances), strict=True))
        elif method == "sampling":
            schema, groups = self._in_groups, self._groups()
            drawn, answers = sampled_rows(schema, self._group_tables, self._fitting(), rows=number, random=random)
        else:
            raise QueryError(f"method must be sampling or integers, got {method!r}")
        codes = repeated(in_full(self.schema, drawn, answers, groups, random), number, random)
        seen = in_groups(self.schema, codes, groups)
        median, most = narrowness(schema, seen, answers)
        return SyntheticData(
            self.schema,
            codes,
            method=method,
            distances=distances(schema, seen, answers),
            factor=most,
            median_factor=median,
            caption=self._caption,
        )

    @property
    def _in_groups(self) -> Schema:
        """The schema with groups where values were measured in groups."""
        extended = self.estimate.schema
        in_groups = self.estimate.groups is not None
        return replace(extended.subset(*self.schema.names), facts=extended.facts) if in_groups else self.schema

    def _group_tables(self, tables: Sequence[tuple[str, ...]]) -> list[Marginal]:
        """Tables of groups where values were measured in groups."""
        return answer_all(replace(self.estimate, groups=None), self._errors, tables, caption=self._caption)

    def _groups(self) -> dict[str, tuple[NDArray[np.intp], Floats]]:
        """For each attribute that was measured in groups the group of each value, and the count of each value."""
        groups = self.estimate.groups
        return {} if groups is None else {n: (groups.codes[n], self.marginal(n).values) for n in groups.codes}

    def _fitting(self) -> list[tuple[str, ...]]:
        """The tables that synthetic data should have: covered pairs and the larger tables that were measured."""
        measured = {self.schema.ordered(each.query.attributes) for each in self.measurements}
        wanted = [*combinations(self.schema.names, 2), *sorted(names for names in measured if len(names) > 2)]
        covered = self.estimate.covered(wanted)
        return [names for names, known in zip(wanted, covered, strict=True) if known]

    def refit(self, *, nonnegative: str = SHRUNK, rounds: int = ROUNDS) -> Release:
        """A release from the same measurements with a different correction. Free."""
        check_kind(nonnegative, str, "nonnegative")
        rows = self.statement.rows
        fitted = infer(self.schema, self.measurements, rows=rows, nonnegative=nonnegative, rounds=rounds)
        return replace(
            self,
            estimate=fitted.estimate,
            nonnegative=nonnegative,
            rounds=rounds,
            variances_left={},
            fitted=fitted,
            kept=None,
        )

    def save(self, path: str | Path) -> None:
        """Write the release as one Parquet file that opens in any tool; it is written completely or not at all."""
        from crosstally.releases.file.writer import save_release

        save_release(self, path)
