"""The notebook: questions one at a time; each answer is paid once, kept in the ledger, and used for later estimates."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crosstally.budget import Amount, Budget, Noise, NoiseKind
from crosstally.checks import check_kind, is_number, is_whole
from crosstally.errors import BudgetError, OverspendError, QueryError, TooManyCellsError
from crosstally.measurements import ExactTable, Measurement
from crosstally.notebook.foreign import (
    foreign_answer,
    foreign_answers,
    foreign_tables,
    origins_of,
    read_correlated,
    read_foreign,
)
from crosstally.notebook.history import MOST_ASKED_TOGETHER, History
from crosstally.notebook.history.better import BetterOfBoth
from crosstally.notebook.history.correlated import Correlated
from crosstally.notebook.history.synthetic_rows import SWEEPS, Synthetic, synthesize
from crosstally.notebook.results import Answer, Improvement, Price, TableImprovement
from crosstally.plans.joint_cost import single_cost
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import ASKED
from crosstally.query.linear import Linear, linear_among
from crosstally.query.queries import Product
from crosstally.query.question import Question, describe, query_of
from crosstally.residuals.combining import Estimate, combine
from crosstally.residuals.nested import full_part_measured
from crosstally.schema import Outside, Schema, check_schema
from crosstally.strategies.strategy import requests_with_shares
from crosstally.workload import Workload

if TYPE_CHECKING:
    from crosstally.sources import Reading


Asked = str | Question | Linear


def open_notebook(ledger: Ledger | str | Path, *, rows: int | None = None, schema: Schema | None = None) -> Notebook:
    """A notebook on a ledger: ask it, or get estimates from it for free.

    Args:
        ledger: The ledger or its file.
        rows: The number of rows, only if that is public; it is then taken as exact.
        schema: Which of the ledger's schemas, where it has several; with the steward's reading, to read rows by it.
    """
    if rows is not None and not is_whole(rows, 0):
        raise QueryError(f"rows must be a whole number of at least 0, got {rows!r}")
    return Notebook(ledger if isinstance(ledger, Ledger) else Ledger.open(ledger), rows=rows, schema=schema)


class Notebook:
    """Questions and answers on one ledger. Several notebooks may be open on the same ledger at the same time."""

    def __init__(self, ledger: Ledger, *, rows: int | None = None, schema: Schema | None = None) -> None:
        if schema is not None:
            check_schema(schema)
            if not ledger.holds(schema):
                raise QueryError(
                    "the schema given must have the attributes, cells, unit and period that the ledger is about"
                )
        elif len(ledger.schemas) > 1:
            raise QueryError("the ledger is about several tables of these people: say which, by its schema")
        self.ledger = ledger
        self.rows = rows
        self._reads_by = ledger.schema if schema is None else schema
        self._foreign: tuple[Measurement, ...] = ()
        self._correlated: tuple[Correlated, ...] = ()
        self._better: tuple[int, BetterOfBoth] | None = None

    def __repr__(self) -> str:
        return f"Notebook({self.ledger!r})"

    @property
    def schema(self) -> Schema:
        """The schema of the questions: the ledger's cells, with the descriptions of the given schema."""
        return self._reads_by.public()

    # Spending

    def ask(
        self,
        source: Any,
        question: Asked,
        *,
        epsilon: Amount | None = None,
        rho: Amount | None = None,
        mu2: Amount | None = None,
        key: str | None = None,
        reading: Reading | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Answer:
        """The answer to a question, drawn with noise, paid from the ledger, and kept there.

        Values that the schema does not list never stop a question: a missing one goes into the attribute's cell for
        missing values if it has one, and otherwise its row is left out, as is one with any other value unless the
        attribute has a cell for others.

        Args:
            source: The rows, as for a release.
            question: A text, ``ct.count(...)`` or ``ct.total(...)``.
            epsilon: What it may cost, when the ledger counts epsilon; Laplace noise.
            rho: What it may cost, when the ledger counts rho; Gaussian noise.
            mu2: What it may cost, when the ledger counts mu^2, as one with epsilon and delta does; Gaussian noise.
            key: A name for this spend. Asking again with the same key and question gives the same answer for free.
            reading: How the source is written, as for a release. Numbers have a decimal point by default.
            progress: Called with the number of bytes read so far of all files; never for a table in memory.
        """
        spend: dict[str, Any] = {"epsilon": epsilon, "rho": rho, "mu2": mu2, "key": key}
        return self.ask_all(source, [question], reading=reading, progress=progress, **spend)[0]

    def ask_all(
        self,
        source: Any,
        questions: Iterable[Asked],
        *,
        epsilon: Amount | None = None,
        rho: Amount | None = None,
        mu2: Amount | None = None,
        key: str | None = None,
        reading: Reading | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[Answer, ...]:
        """The answers to several questions, drawn together. The cost is by how far one unit can move all of them."""
        queries = [query_of(question, self.schema) for question in questions]
        if not queries:
            return ()
        widest = max(len(query.attributes) for query in queries)
        if widest > MOST_ASKED_TOGETHER:  # refused before anything is spent
            raise QueryError(f"a question must be over at most {MOST_ASKED_TOGETHER} attributes, got {widest}")
        budget = Budget(epsilon=epsilon, rho=rho, mu2=mu2)
        plan = _plan(queries, self.schema, self.ledger, budget)
        key = f"ask-{uuid.uuid4().hex[:12]}" if key is None else key
        try:
            measured = _measured(source, plan, self._reads_by, self.ledger, key=key, reading=reading, progress=progress)
        except OverspendError as error:
            raise OverspendError(f"{error}. {self._instead(queries)}") from None
        return self._answers(queries, measured, key)

    def _answers(self, queries: Sequence[Linear], measured: Sequence[Measurement], key: str) -> tuple[Answer, ...]:
        drawn = tuple(
            Answer(
                describe(query, self.schema),
                float(measurement.values),
                counted=self.schema.bounded_words,
                std_error=math.sqrt(measurement.variance),
                drawn=float(measurement.values),
                drawn_error=math.sqrt(measurement.variance),
                key=key,
                tails=float(measurement.noise is not None and measurement.noise.kind is NoiseKind.LAPLACE),
            )
            for query, measurement in zip(queries, measured, strict=True)
        )
        try:
            found = self._history().estimates(queries)
        except TooManyCellsError:  # of all questions together: what was paid for is delivered as it was drawn
            return drawn
        return tuple(
            replace(
                answer,
                value=float(value),
                std_error=float(error),
                tails=float(tails),
                converged=found.converged,
                foreign=self.foreign,
            )
            for answer, value, error, tails in zip(drawn, found.values, found.std_errors, found.tails, strict=True)
        )

    def _instead(self, queries: Sequence[Linear]) -> str:
        """The hint about free estimates, if the budget does not suffice."""
        try:
            answers = [self.estimate(query) for query in queries[:3]]
        except TooManyCellsError:
            return "Past questions are over too many cells for an estimate"
        except QueryError:
            return "Nothing was answered yet, so that there is no estimate either"
        return "What they say: " + "; ".join(map(str, answers))

    # Foreign answers

    @property
    def foreign(self) -> tuple[str, ...]:
        """The sources of answers that did not come from the ledger: its budget does not cover them."""
        return origins_of(self._foreign)

    def add(
        self,
        query: Asked | Product | Sequence[Asked],
        value: Any,
        *,
        variance: float | None = None,
        covariance: Any = None,
        origin: str,
    ) -> None:
        """Use an answer of a different mechanism, or a public number, in every later estimate. Nothing is charged.

        It stays with this notebook and is not written to the ledger, which holds what was spent; answers that use
        it name its origin, since the ledger's budget does not cover it. Answers that are added one by one count as
        independent; those whose errors are correlated are added together, with their covariance.

        Args:
            query: A question, as for ``ask``, or ``Cells`` for a whole table; with a covariance a list of questions.
            value: The answer: a number, or a table in the order of the schema's labels; with a covariance a list.
            variance: The variance of each number, above 0: also of public numbers, which are never exact.
            covariance: In place of the variance: the covariance of the errors of the answers, a symmetric and positive
                definite matrix with a row for each question.
            origin: Where it comes from, such as "census 2021, table 4".
        """
        if covariance is not None:
            if variance is not None:
                raise QueryError("give a variance or a covariance, whose diagonal holds the variances, not both")
            self._add_correlated(
                foreign_answers(query, value, covariance=covariance, origin=origin, schema=self.schema)
            )
            return
        if variance is None:
            raise QueryError("a foreign answer needs its variance, or several together their covariance")
        added = foreign_answer(query, value, variance=variance, origin=origin, schema=self.schema)
        self._foreign = (*self._foreign, added)

    def add_file(self, path: str | Path, *, covariance: Any = None) -> None:
        """Use all answers of a CSV file with the columns question, value, variance and origin, as ``add`` does.

        With their covariance, a matrix in the order of the file's lines or a CSV file of its numbers, there is no
        column for the variance.
        """
        check_kind(path, str | Path, "path")
        if covariance is not None:
            self._add_correlated(read_correlated(path, covariance, self.schema))
            return
        self._foreign = (*self._foreign, *read_foreign(path, self.schema))

    def _add_correlated(self, added: Correlated) -> None:
        self._correlated = (*self._correlated, added)
        self._foreign = (*self._foreign, *added.answers)

    def add_tables(self, tables: Any, *, origin: str) -> None:
        """Use what OpenDP's contingency table or mbi measured, table by table, as ``add`` does.

        Args:
            tables: A ``ContingencyTable`` of OpenDP, or some ``LinearMeasurement`` of mbi; whole tables, their values
                in the order of the schema's labels.
            origin: Where they come from.
        """
        self._foreign = (*self._foreign, *foreign_tables(tables, self.schema, origin))

    def _measurements(self) -> tuple[Measurement, ...]:
        """All measurements of this ledger, and foreign answers."""
        return (*self.ledger.measurements(schema=self._reads_by), *self._foreign)

    # Free

    def _history(self) -> History:
        return History(self.schema, self._measurements(), total=self.rows, correlated=self._correlated)

    def _both(self) -> BetterOfBoth:
        """Both methods on all measurements, cached until there are more: measurements are only ever added."""
        measured = self._measurements()
        if self._better is None or self._better[0] != len(measured):
            both = BetterOfBoth(self.schema, measured, total=self.rows, correlated=self._correlated)
            self._better = len(measured), both
        return self._better[1]

    def estimate(self, question: Asked) -> Answer:
        """The answer to a question from everything ever measured with this ledger. Free: no rows are read.

        The kernel method and maximum entropy are mixed by how well each predicts answers left out; the first
        estimate after new answers takes some seconds for that.
        """
        query = query_of(question, self.schema)
        found = self._both().estimates([query])
        return Answer(
            describe(query, self.schema),
            float(found.values[0]),
            counted=self.schema.bounded_words,
            std_error=float(found.std_errors[0]),
            tails=float(found.tails[0]),
            student=float(found.student[0]),
            converged=found.converged,
            foreign=self.foreign,
        )

    def improve(self) -> tuple[Improvement, ...]:
        """Every answer ever drawn to a question, before and after all others are used. Free."""
        history = self._history()
        found = history.estimates(_queries(history))
        return tuple(
            Improvement(
                describe(query, self.schema),
                float(measurement.values),
                before_error=math.sqrt(measurement.variance),
                after=float(value),
                after_error=float(error),
            )
            for query, measurement, value, error in zip(
                _queries(history), history.linear[: history.asked], found.values, found.std_errors, strict=True
            )
        )

    def improve_tables(self) -> tuple[TableImprovement, ...]:
        """Every table and contrast ever measured, with its error alone and together with all others. Free.

        Tables of grouped values are used but not listed.
        """
        tables = [m for m in self._measurements() if m.query.is_product and not m.query.matrices]
        together = combine(self.schema, list(map(full_part_measured, tables)))
        together = together if self.rows is None else together.with_total(self.rows)
        return tuple(_table_improvement(each, together) for each in tables if not each.query.groups)

    def synthesize(
        self,
        *,
        rows: int | None = None,
        alpha: float | None = None,
        sweeps: int = SWEEPS,
        random: np.random.Generator | None = None,
    ) -> Synthetic:
        """Synthetic data that fit everything ever measured with this ledger. Free: no rows are read.

        The result says how well they fit, and whether that was as well as can be (``converged``).

        Args:
            rows: How many rows to make; when None, about as many as the data have.
            alpha: The weight of the answers against the entropy; chosen by cross-validation when None.
            sweeps: At most how many times all rows are moved; give more if the result has not converged.
            random: The random generator of the moves; it has no role in privacy.
        """
        return synthesize(
            self.schema,
            self._measurements(),
            total=self.rows,
            rows=rows,
            alpha=alpha,
            sweeps=sweeps,
            random=random,
        )

    def cost(self, question: Asked, *, error: float) -> Price:
        """What an answer with this standard error costs: nothing if past answers already give it. Asking is free.

        What is already known is combined with the answer that would be drawn.
        """
        if not is_number(error) or not 0 < error < math.inf:
            raise QueryError(f"error must be a positive number, got {error!r}")
        query = query_of(question, self.schema)
        try:
            known = self.estimate(query)
        except QueryError:
            known = None
        if known is not None and known.std_error <= error:
            return Price(known, None)
        before = math.inf if known is None else known.std_error**2
        wanted = error**2 if math.isinf(before) else before * error**2 / (before - error**2)
        return Price(known, _budget_for(query, self.schema, self.ledger, wanted))


def _queries(history: History) -> list[Linear]:
    """The questions that were asked; matrix measurements of releases are used but not listed."""
    return linear_among(m.query for m in history.linear[: history.asked])


def _table_improvement(measurement: Measurement, together: Estimate) -> TableImprovement:
    """All numbers of a contrast have their variance from one coefficient, so they improve as it does."""
    query, variance = measurement.query, measurement.variance
    if query.is_table:
        after = together.variance(query.attributes)
    else:
        alone = combine(together.schema, [measurement]).variances[0]
        after = variance * together.variances[together.places([query.attributes])[0][0, -1]] / alone
    return TableImprovement(query, before_error=math.sqrt(variance), after_error=math.sqrt(after))


def _counted(schema: Schema) -> Schema:
    """The schema by which questions are counted: where a release would stop at a value, its row is left out.

    The cells are the same. Each row is mapped by itself, so that the guarantee holds; that a row may be left out is
    counted in the sensitivity, since this schema says so.
    """
    return replace(
        schema,
        attributes=tuple(
            replace(each, outside=Outside.DROP) if each.outside is Outside.REFUSE else each
            for each in schema.attributes
        ),
    )


def _plan(queries: Sequence[Linear], schema: Schema, ledger: Ledger, budget: Budget) -> Plan:
    """The plan of a batch of questions: the noise is for rows that may be left out, hence never too little."""
    if budget.currency != ledger.currency:
        raise BudgetError(f"this ledger counts {ledger.currency}: give {ledger.currency}")
    requests = requests_with_shares(queries, [1.0] * len(queries), _counted(schema), budget, ledger.neighbours)
    return Plan(
        schema,
        requests,
        strategy=ASKED,
        workload=Workload(((),)),
        budget=budget,
        neighbours=ledger.neighbours,
    )


def _measured(
    source: Any,
    plan: Plan,
    schema: Schema,
    ledger: Ledger,
    *,
    key: str,
    reading: Reading | None,
    progress: Callable[[int], None] | None,
) -> tuple[Measurement, ...]:
    """The answers to the questions, drawn now or earlier with the same key."""
    from crosstally.privacy.measure import measure_counted
    from crosstally.sources import Reading, RowEncoding, count, note_reading

    given = reading or Reading()

    def exact() -> list[ExactTable]:
        counted = count(
            source,
            _counted(schema),
            plan.tables,
            reading=given,
            refuse_unclear=False,  # a question never stops at a value
            progress=progress,
        )
        note_reading(RowEncoding.of(schema, given).digest, ledger.path, key)
        return [ExactTable(plan.schema.subset(*table.schema.names), table.counts, table.groups) for table in counted]

    return measure_counted(exact, plan, ledger=ledger, key=key)


def _budget_for(query: Linear, schema: Schema, ledger: Ledger, variance: float) -> Budget:
    """The least budget whose noise has at most this variance, to a part in a thousand."""
    kind = NoiseKind.LAPLACE if ledger.currency == "epsilon" else NoiseKind.GAUSSIAN
    low, high = 2.0**-5, 2.0**45 / schema.parts
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if Noise(kind, middle, schema.parts).variance <= variance else (low, middle)
    cost = single_cost(query, Noise(kind, low), _counted(schema), ledger.neighbours, currency=ledger.currency)
    rounded = Fraction(f"{float(cost) * (1 + 1e-4):.4g}") or Fraction(1, 10**9)
    return Budget.from_dict({ledger.currency: rounded})
