"""The errors of a plan in words: how far counts will be from the true ones, relative to an average count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from crosstally.plans.plan import Plan
from crosstally.reliability import LIMITS, Reliability, reliability_of
from crosstally.schema import Measure
from crosstally.strategies.goal import goal_of

_WORTH_SAYING = 0.8  # of the error: a belief that is hardly below it is not reported

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """What to expect of all tables over a number of attributes that matter.

    ``error`` is the RMS error of their counts before negative ones are corrected; NaN where they are predicted, so that
    it is not known beforehand. ``cells`` is their mean number of cells, ``rows`` about how many rows there are, if
    that is known. An average count is the rows divided by the cells. The error of a release, after inference and with
    what is not worth its noise left out, is likely between ``at_best`` and ``likely``; NaN where that is not known.

    >>> print(ExpectedError(2, error=30, cells=20, rows=50_000))
    Tables over two attributes: typical error ±30 per count (1.2% of an average count): good.
    >>> print(ExpectedError(2, error=30, cells=20))
    Tables over two attributes: typical error ±30 per count: good from 3,700 rows on, mostly noise below 600.
    """

    order: int
    _: KW_ONLY
    error: float
    cells: float
    rows: int | None = None
    likely: float = math.nan
    at_best: float = math.nan
    noun: str = "rows"

    @property
    def known(self) -> bool:
        """Whether the error is known beforehand."""
        return math.isfinite(self.error)

    @property
    def share(self) -> float:
        """The error as a share of an average count; NaN where rows or error are not known."""
        return self.error * self.cells / self.rows if self.rows else math.nan

    @property
    def verdict(self) -> Reliability | None:
        """What the tables are good for; None where rows or error are not known."""
        return None if math.isnan(self.share) else reliability_of(self.share)

    @property
    def tables(self) -> str:
        """The tables that this is about, in words."""
        return f"tables over {number_in_words(self.order)} {'attribute' if self.order == 1 else 'attributes'}"

    @property
    def within(self) -> str:
        """The error in rows."""
        return f"±{_count(self.error)}"

    @property
    def figure(self) -> str:
        """The error in a few words."""
        if self.verdict is None:
            return f"{self.within}, {Reliability.GOOD} from {self._rows_for(Reliability.GOOD):,} {self.noun} on"
        return f"{_percent(self.share)} of an average count, {self.verdict}"

    def __str__(self) -> str:
        tables = f"{self.tables[0].upper()}{self.tables[1:]}"
        if not self.known:
            likely = f"They are likely to be {self._likely_figure}." if self._likely_figure else ""
            unknown = f"{tables} are predicted from smaller ones: their error is not known beforehand."
            return f"{unknown} {likely}".rstrip()
        within = self.within
        if self.verdict is None:
            good, noise = (self._rows_for(verdict) for verdict in (Reliability.GOOD, Reliability.POOR))
            return (
                f"{tables}: typical error {within} per count: {Reliability.GOOD} from {good:,} {self.noun} on, "
                f"{Reliability.NOISE} below {noise:,}."
            )
        assert self.rows
        share = f"typical error {within} per count ({_percent(self.share)} of an average count)"
        said = f"{tables}: {share}: {self.verdict}."
        if self.verdict is Reliability.NOISE:
            said = f"At this budget {self.tables} are {self.verdict}: {share}."
        better = self.verdict is not Reliability.GOOD and self.at_best < _WORTH_SAYING * self.error
        if better or self.at_best > self.error:  # the latter where larger tables get a part of the budget
            return f"{said} That is before inference, if all are measured; a release is likely {self._likely_figure}."
        return said

    @property
    def _likely_figure(self) -> str:
        """The likely error in a few words; empty where there is no belief."""
        if math.isnan(self.likely) or not self.rows:
            return ""
        best, share = (error * self.cells / self.rows for error in (self.at_best, self.likely))
        words = list(dict.fromkeys(str(reliability_of(each)) for each in (best, share)))
        return (
            f"within {_percent(best)} to {_percent(share)} (±{_count(self.at_best)} to {_count(self.likely)}): "
            f"{' to '.join(words)}"
        )

    def _rows_for(self, verdict: Reliability) -> int:
        """From how many rows on the tables are that good, to two digits, rounded up."""
        rows = self.error * self.cells / LIMITS[verdict]
        unit = 10 ** max(0, math.floor(math.log10(rows)) - 1) if rows > 0 else 1
        return math.ceil(rows / unit) * unit


def expected_errors(
    outlook: Plan, rows: int | None, likely: Mapping[int, tuple[float, float]] | None = None
) -> tuple[ExpectedError, ...]:
    """What to expect of the tables that a plan is for and of those inside them, by their number of attributes.

    ``outlook`` has what all stages may measure together, ``likely`` the ends of what the strategy
    believes of their errors.
    """
    believed = likely or {}
    goal, errors = goal_of(outlook.schema, outlook.workload), outlook.order_errors
    unknown, noun = (math.nan, math.nan), outlook.schema.noun if outlook.schema.divided else "rows"
    return tuple(
        ExpectedError(order, error=errors[order], cells=cells, rows=rows, likely=high, at_best=low, noun=noun)
        for order, cells in zip(goal.orders, goal.cells, strict=True)
        for low, high in [believed.get(order, unknown)]
    )


def units_in_words(plan: Plan) -> str:
    """What is bought about units, and with which share of the budget, or how they count; empty without either."""
    if plan.schema.divided:
        return f"Counted: {plan.schema.counted}."
    noise = [each.noise for each in plan.groups if each.query.of_units]
    if not noise:
        return ""
    schema, error = plan.schema, math.sqrt(noise[0].variance)
    return (
        f"{float(plan.units_share):.0%} of the budget measures how many {schema.units_word} have how many "
        f"{schema.row_word} (each number ± {error:,.3g}): how many there are, and what the bound leaves out."
    )


def totals_in_words(plan: Plan) -> str:
    """What is bought of totals, with their standard errors; empty without any."""
    errors: dict[str, list[float]] = {}
    for group in plan.groups:
        name = group.query.summed.measure
        if name is not None and group.query.summed.values:
            errors.setdefault(name, []).append(math.sqrt(group.noise.variance) * plan.schema.measure(name).step)
    return "\n".join(_totals_in_words(plan.schema.measure(name), own) for name, own in errors.items())


def _totals_in_words(measure: Measure, errors: Sequence[float]) -> str:
    """The standard errors of one measure's totals, and what they are in proportion to."""
    unit = f" {measure.unit}" if measure.unit else ""
    ends = " to ".join(
        dict.fromkeys(f"{each:,.3g}" if each < 1000 else f"{each:,.0f}" for each in (min(errors), max(errors)))
    )
    number = number_in_words(len(errors))
    most = max(abs(measure.low), abs(measure.high)) * measure.step
    return (
        f"Totals of {measure.name} over {number} {'table' if len(errors) == 1 else 'tables'}: each ± {ends}{unit}. "
        f"That is in proportion to {most:,g}{unit}, the farthest a value may be from the centre: bounds twice as wide "
        "double it."
    )


def number_in_words(number: int) -> str:
    """A small number as a word.

    >>> number_in_words(2), number_in_words(12)
    ('two', '12')
    """
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:,.0f}%" if percent >= 10 else f"{percent:#.2g}%"


def _count(number: float) -> str:
    """A count to two digits or to the whole."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
