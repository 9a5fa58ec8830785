"""Whether two attributes are related, and how strongly, from a noisy table.

X^2 compares the cells x with e, what independence predicts from their margins: the sum of (x - e)^2 / e. On exact
counts it follows the chi-square law when attributes are independent. Noise makes it larger, and shrinkage smaller. So
the test draws its own reference: people at random from e, plus noise with the covariances that the replicates of the
release have, and asks how often X^2 comes out as large (as the Monte Carlo test of Gaboardi, Lim, Rogers and Vadhan,
ICML 2016, does for noise of one table).

V^2 = X^2 / (N x (least number of rows or columns - 1)) and the mutual information are moved by noise too: on average by
what the replicates differ from their truth, which is taken off.

Answers of several releases together.

Rows against columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from crosstally.answers.marginal import Marginal
from crosstally.answers.uncertainty import joined
from crosstally.checks import check_kind
from crosstally.errors import QueryError
from crosstally.typing import Floats

_REFERENCES = 2_000
"""Tables drawn under independence: a p-value of 0.05 is known to 0.005."""

# The letters "associat": a fixed seed, so that a test of one table gives one p-value. Any other would do.
_SEED = 0x6173736F63696174


@dataclass(frozen=True, slots=True, repr=False)
class Association:
    """How two attributes are related.

    ``chi_square`` is X^2 of the noisy table, and ``p_value`` how likely independent attributes give one as large, noise
    and the sampling of people included. ``cramers_v`` (0 to 1) and ``mutual_information`` (in nats) are those of the
    people counted, with the part that is noise on average taken off. They have no intervals: those of the draws covered
    the true V in 87.5% of 720 cases instead of 95%, because draws do not have the bias of what cannot be negative.
    """

    attributes: tuple[str, str]
    _: KW_ONLY
    chi_square: float
    p_value: float
    cramers_v: Marginal
    mutual_information: Marginal

    def __repr__(self) -> str:
        return (
            f"{' and '.join(self.attributes)}: Cramér's V {self.cramers_v.value:.3f}, "
            f"X² {self.chi_square:,.1f}, p {'<' if self.p_value < 0.001 else '='} {max(self.p_value, 0.001):.3f}"
        )


def association(table: Marginal) -> Association:
    """A test of independence and the strength of the relation, accounting for the noise.

    Args:
        table: Counts over two attributes.
    """
    if table.values.ndim != 2 or table.quantity != "count":
        raise QueryError(f"the table must be counts over two attributes, got {table.quantity} over {table.attributes}")
    if table.joint is None:
        raise QueryError("the error of this table is not known, so noise and association cannot be told apart")
    first, second = table.attributes
    return Association(
        (first, second),
        chi_square=float(chi_squares(table.values[None])[0]),
        p_value=_p_value(table.values, table.joint.draws),
        cramers_v=cramers_v(table),
        mutual_information=table.statistic(mutual_informations, "mutual information").unbiased().without_error(),
    )


def cramers_v(table: Marginal) -> Marginal:
    """Cramér's V of a table of two attributes, with the part that is noise taken off, and without an interval."""
    return table.statistic(squared_v, "V squared").unbiased().statistic(_root, "Cramér's V").without_error()


def squared_v(stack: Floats) -> Floats:
    """V^2 of each table of a stack; 0 where nobody is.

    >>> squared_v(np.array([[[10.0, 0.0], [0.0, 10.0]], [[5.0, 5.0], [5.0, 5.0]]]))
    array([1., 0.])
    """
    stack = np.maximum(stack, 0.0)
    smaller = max(min(stack.shape[1:]) - 1, 1)
    return np.asarray(chi_squares(stack) / np.maximum(stack.sum(axis=(1, 2)) * smaller, 1e-12))


def chi_squares(stack: Floats) -> Floats:
    """X^2 of each table of a stack; cells where nobody is expected do not count."""
    stack = np.maximum(stack, 0.0)
    expected = _independent(stack)
    parts = np.divide((stack - expected) ** 2, expected, out=np.zeros_like(stack), where=expected > 0)
    return np.asarray(parts.sum(axis=(1, 2)))


def mutual_informations(stack: Floats) -> Floats:
    """The mutual information of each table of a stack, in nats."""
    stack = np.maximum(stack, 0.0)
    expected = _independent(stack)
    ratio = np.divide(stack, expected, out=np.ones_like(stack), where=(expected > 0) & (stack > 0))
    total = np.maximum(stack.sum(axis=(1, 2)), 1e-12)
    return np.asarray((stack * np.log(ratio)).sum(axis=(1, 2)) / total)


def _root(stack: Floats) -> Floats:
    return np.sqrt(np.maximum(stack, 0.0))


def _independent(stack: Floats) -> Floats:
    """What independence predicts from the margins of each table."""
    total = stack.sum(axis=(1, 2), keepdims=True)
    product = stack.sum(axis=2, keepdims=True) * stack.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(product, total, out=np.zeros_like(product), where=total > 0))


def _p_value(values: Floats, draws: Floats) -> float:
    """How often X^2 is as large under independence, with people drawn at random and noise like that of the release."""
    from numpy.random import Generator, Philox

    random = Generator(Philox(_SEED))
    expected = _independent(np.maximum(values, 0.0)[None])[0]
    deviations = (draws[1:] - draws[0]).reshape(len(draws) - 1, -1)
    mixing = random.standard_normal((_REFERENCES, len(deviations))) / np.sqrt(len(deviations))
    noise = (mixing @ deviations).reshape(_REFERENCES, *values.shape)
    references = chi_squares(random.poisson(expected, noise.shape) + noise)
    as_large = int((references >= chi_squares(values[None])[0]).sum())
    return (1 + as_large) / (1 + _REFERENCES)


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
