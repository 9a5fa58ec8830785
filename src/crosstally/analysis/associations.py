"""Whether two attributes are related, and how strongly, from a noisy table.

X^2 compares the cells x with e, what independence predicts from their margins: the sum of (x - e)^2 / e; V^2 = X^2 / (N
x (least number of rows or columns - 1)). Noise makes both larger and shrinkage smaller, so that neither the draws of V
nor V less its bias hold the truth: 83% and 88% of 2,000 intervals did instead of 95%. The interval is a test inverted.
l is the linear estimate, whose noise n does not depend on the truth; P takes margins out of a table (what independence
predicts, linearised at e); |g|^2 is the sum of w g^2. Were e + c u the truth, u being (x - e) / |x - e|, we would see

    |c u + P n|       and do see       |P (l - e)|,

so the interval holds all c whose mean of the former is within q standard deviations of the latter, q the normal
quantile. V of e + c u is proportional to c, and the mutual information follows from that table. Weights w are 1 / e,
but at most 1 / half the standard error of a cell, since rare cells would be nothing but noise.

Answers of several releases together.

Rows against columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from crosstally.analysis.significance import HypothesisTest, independent_cells, p_text, test
from crosstally.answers.changes import Change
from crosstally.answers.joint_draws import joined
from crosstally.answers.marginal import Marginal, Of
from crosstally.answers.uncertainty import Bounds, Ends, normal_quantile
from crosstally.checks import check_kind
from crosstally.errors import QueryError
from crosstally.text_table import figure_text
from crosstally.typing import Floats

_LEAST_WEIGHTED = 0.5
"""Expected counts below this many standard errors of the noise weigh as if they were as large. Chosen on ACS, Adult and
the demo's people, 2,000 pairs: with 0 to 1 of them 95.6 to 94.8% hold, and intervals are 1.4 to 1 times as wide."""

_STRENGTHS = 400  # of a truth, at which the test is worked out; between them it is interpolated
_REACH = 4.0  # the strongest one, in root mean squares of the noise above what is seen


@dataclass(frozen=True, slots=True, repr=False)
class Association:
    """How two attributes are related.

    ``chi_square`` is X^2 of the noisy table, and ``p_value`` how likely independent attributes give a table as far from
    independence, by a test ``of`` the population that rows were drawn from or of the table itself. ``cramers_v`` (0 to
    1) and ``mutual_information`` (in nats) are those of the rows counted.
    """

    attributes: tuple[str, str]
    _: KW_ONLY
    chi_square: float
    tested: HypothesisTest
    cramers_v: Marginal
    mutual_information: Marginal

    @property
    def p_value(self) -> float:
        """That of the test of independence."""
        return self.tested.p_value

    def __repr__(self) -> str:
        v = figure_text(self.cramers_v.value, *map(float, self.cramers_v.interval()))
        return (
            f"{' and '.join(self.attributes)}: Cramér's V {v}, X² {self.chi_square:,.1f}, "
            f"{p_text(self.p_value)} of independence in the {self.tested.of}"
        )


def association(table: Marginal, *, design_effect: float | None = None) -> Association:
    """A test of independence and the strength of the relation, accounting for the noise.

    The test is about the population behind the rows; where people may have several rows and no design effect is given,
    it is about the table itself.

    Args:
        table: Counts over two attributes.
        design_effect: By what the variance of sampling exceeds that of single rows drawn at random.
    """
    of: Of = "table" if design_effect is None and (table.schema.max_rows > 1 or table.schema.divided) else "population"
    tested = test(table, of=of, design_effect=design_effect)
    first, second = table.attributes
    return Association(
        (first, second),
        chi_square=float(chi_squares(table.values[None])[0]),
        tested=tested,
        cramers_v=cramers_v(table),
        mutual_information=_figure(table, mutual_informations, "mutual information"),
    )


def cramers_v(table: Marginal) -> Marginal:
    """Cramér's V of a table of two attributes. Its interval is a test inverted: it is not symmetric.

    Tables that nobody measured and those of the local model have no unshrunk figures, and so no interval here.
    """
    return _figure(table, _v, "Cramér's V")


def _figure(table: Marginal, function: Callable[[Floats], Floats], quantity: str) -> Marginal:
    """A strength of association: of the table if it was shrunk, otherwise that which the noise fits best."""
    found = table.statistic(function, quantity)
    if table.joint is None or table.joint.unshrunk is None:
        return found.without_error()
    ends = partial(_strength_ends, partial(_table_at, table), function)
    value = found.values if table.corrected else function(_table_at(table, 0.0))
    return replace(found, values=np.asarray(value).reshape(()), uncertainty=Bounds(ends=ends))


def _strength_ends(
    at: Callable[[float], Floats], function: Callable[[Floats], Floats], _: Change | None, values: Floats, level: float
) -> Ends:
    quantile = normal_quantile(level)
    low, high = (np.asarray(function(at(each))).reshape(()) for each in (quantile, -quantile))
    return np.fmin(low, values), np.fmax(high, values)


def _table_at(table: Marginal, quantile: float) -> Floats:
    """The table e + c u of which what is seen is so many standard deviations above the mean: (1, rows, columns)."""
    stack, values = table.unshrunk_draws(), np.maximum(table.values, 0.0)
    expected = independent_cells(values[None])[0]
    noise = stack[1:] - stack[0]
    least = _LEAST_WEIGHTED * np.sqrt((noise**2).mean(axis=0))
    weights = 1 / np.maximum(np.maximum(expected, least), 1e-12)
    seen, apart, noise = (
        _without_margins(stack[:1] - expected, expected),
        values - expected,
        _without_margins(noise, expected),
    )
    strength = float(np.sqrt((weights * seen**2).sum()))
    apart = apart if apart.any() else seen[0]
    unit = apart / max(float(np.sqrt((weights * apart**2).sum())), 1e-12)
    squares, along = (weights * noise**2).sum(axis=(1, 2)), (weights * noise * unit).sum(axis=(1, 2))
    strengths = np.linspace(0.0, strength + _REACH * np.sqrt(squares.mean()), _STRENGTHS)
    shown = np.sqrt(np.maximum(strengths**2 + 2 * np.multiply.outer(along, strengths) + squares[:, None], 0.0))
    above = np.minimum.accumulate((strength - shown.mean(axis=0)) / np.maximum(shown.std(axis=0), 1e-12))
    return np.asarray(expected + np.interp(-quantile, -above, strengths) * unit)[None]


def _without_margins(stack: Floats, expected: Floats) -> Floats:
    """Tables less what they change of the prediction of independence, to first order."""
    rows, columns, total = expected.sum(axis=1), expected.sum(axis=0), max(float(expected.sum()), 1e-12)
    predicted = stack.sum(axis=2)[:, :, None] * columns + rows[:, None] * stack.sum(axis=1)[:, None, :]
    both = stack.sum(axis=(1, 2))[:, None, None] * np.multiply.outer(rows, columns)
    return np.asarray(stack - predicted / total + both / total**2)


def _v(stack: Floats) -> Floats:
    return np.minimum(np.sqrt(squared_v(stack)), 1.0)


def squared_v(stack: Floats) -> Floats:
    """V^2 of each table of a stack; 0 where nobody is.

    >>> squared_v(np.array([[[10.0, 0.0], [0.0, 10.0]], [[5.0, 5.0], [5.0, 5.0]]]))
    array([1., 0.])
    """
    smaller = max(min(stack.shape[1:]) - 1, 1)
    return np.asarray(chi_squares(stack) / np.maximum(stack.sum(axis=(1, 2)) * smaller, 1e-12))


def chi_squares(stack: Floats) -> Floats:
    """X^2 of each table of a stack; cells where nobody is expected do not count."""
    expected = independent_cells(stack)
    parts = np.divide((stack - expected) ** 2, expected, out=np.zeros_like(stack), where=expected > 0)
    return np.asarray(parts.sum(axis=(1, 2)))


def mutual_informations(stack: Floats) -> Floats:
    """The mutual information of each table of a stack, in nats."""
    stack = np.maximum(stack, 0.0)
    expected = independent_cells(stack)
    ratio = np.divide(stack, expected, out=np.ones_like(stack), where=(expected > 0) & (stack > 0))
    total = np.maximum(stack.sum(axis=(1, 2)), 1e-12)
    return np.asarray((stack * np.log(ratio)).sum(axis=(1, 2)) / total)


def independent(*answers: Marginal) -> tuple[Marginal, ...]:
    """The same answers, stated to be of independent releases, so that they can be compared.

    Releases are independent when their noise was drawn separately: two years, two countries, two ledgers. A release and
    its refit are not, and neither are two files with the same measurements: these are refused.
    ``before, after = independent(last_year.marginal("sex"), this_year.marginal("sex"))``, then ``after - before``.
    """
    joints = [each.joint for each in answers if each.joint is not None]
    if len(joints) < len(answers):
        raise QueryError("an answer whose error is not known cannot be stated to be independent")
    known = [each.uncertainty for each in answers if each.uncertainty is not None]  # all: they have joint ones
    return tuple(
        replace(answer, uncertainty=replace(own, joint=joint))
        for answer, own, joint in zip(answers, known, joined(joints), strict=True)
    )


Normalize = bool | Literal["all", "index", "columns"]

_WAYS = (False, True, "all", "index", "columns")


def crosstab(
    table: Marginal, rows: Sequence[str], columns: Sequence[str], *, margins: bool = False, normalize: Normalize = False
) -> Marginal:
    """A table of rows against columns, as in pandas.

    Args:
        table: The counts over all of these attributes.
        rows: Attributes that run down.
        columns: Attributes that run across.
        margins: Add a label ``All`` to each attribute. With shares of rows only rows have one, of columns only columns.
        normalize: ``"index"`` divides by the totals of rows, ``"columns"`` by those of columns, ``"all"`` or True by
            the total of all.
    """
    check_kind(margins, bool, "margins")
    if not isinstance(normalize, bool | str) or normalize not in _WAYS:
        raise QueryError(f"normalize must be one of all, index, columns, True or False, got {_shown(normalize)}")
    sides = {"index": rows, "columns": columns}
    kept = sides.get(str(normalize), table.attributes)
    shown = _with_totals(table, kept) if margins else table
    if normalize is False:
        return shown
    if str(normalize) not in sides:
        return shown.share_of(table.sum())
    whole = table.sum(*(name for name in table.attributes if name not in kept))
    return shown.share_of(_with_totals(whole, kept) if margins else whole)


def _shown(given: object) -> str:
    return repr(given) if isinstance(given, str) else type(given).__name__


def _with_totals(table: Marginal, names: Sequence[str]) -> Marginal:
    return table.with_totals(*names) if names else table
