"""How reliable numbers are, by their coefficient of variation, as official statistics flag them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.marginal import Marginal
from crosstally.errors import QueryError
from crosstally.html_text import MOST_ROWS, html_table
from crosstally.reliability import PUBLISHED, SIGNS, THRESHOLDS
from crosstally.schema import Schema
from crosstally.text_table import MAX_ROWS, aligned
from crosstally.typing import Floats

FLAGS = tuple(SIGNS[each] for each in PUBLISHED[:-1])
_SHORT = 10  # rows at the prompt
_LEVEL, _NORMAL = 0.95, 1.959964
"""Half of a 95% interval over the normal quantile is the error that a reader of bounds sees."""


def coefficient_of_variation(table: Marginal) -> Floats:
    """The error of each number over the number; infinite for zero, NaN where the error is not known.

    Bounds have no standard error: there it is that of a normal error as wide as they are.
    """
    errors = table.std_error
    if np.isnan(errors).any():
        low, high = table.interval(_LEVEL)
        errors = np.where(np.isnan(errors), np.asarray(high - low) / (2 * _NORMAL), errors)
    sizes = np.abs(table.values)
    ratio = np.divide(errors, sizes, out=np.full(sizes.shape, np.inf), where=sizes > 0)
    return np.asarray(np.where(np.isnan(errors), np.nan, ratio))


def reliability_classes(table: Marginal, thresholds: Sequence[float] = THRESHOLDS) -> NDArray[np.intp]:
    """For each number how many thresholds its coefficient of variation is above; one more where that is not known.

    They are places in ``PUBLISHED`` of the module ``reliability``.
    """
    variation = coefficient_of_variation(table)
    return np.where(np.isnan(variation), len(thresholds) + 1, np.searchsorted(thresholds, variation))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quality:
    """A flag for each number of a table, with the labels of the table; ``numpy.asarray`` gives the flags alone.

    >>> from crosstally.schema import Attribute
    >>> Quality(Schema([Attribute("sex", ["Female", "Male"])]), np.array(["", "E"]))
    sex     quality
    Female
    Male    E
    """

    schema: Schema
    flags: NDArray[np.str_]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.str_]:
        return self.flags

    def __repr__(self) -> str:
        return self._text(_SHORT)

    def __str__(self) -> str:
        return self._text(MAX_ROWS)

    def _text(self, rows: int) -> str:
        shown = list(islice(self._rows(), rows))
        more = self.flags.size - len(shown)
        lines = aligned([[*self.schema.names, "quality"], *shown], left=len(self.schema.names) + 1)
        return "\n".join([*map(str.rstrip, lines), *([f"... {more:,} more"] if more else [])])

    def _repr_html_(self) -> str:
        shown = list(islice(self._rows(), MOST_ROWS))
        heads = [*self.schema.names, "quality"]
        return html_table(heads, shown, left=len(heads) - 1, more=self.flags.size - MOST_ROWS)

    def _rows(self) -> Iterator[list[str]]:
        labels = product(*(attribute.labels for attribute in self.schema.attributes))
        return ([*each, str(flag)] for each, flag in zip(labels, self.flags.ravel(), strict=True))

    def ravel(self) -> NDArray[np.str_]:
        """The flags one after the other, in the order of the rows of ``to_pandas``."""
        return self.flags.ravel()

    def tolist(self) -> list[Any]:
        """The flags as nested lists."""
        found: list[Any] = self.flags.tolist()
        return found


def quality(table: Marginal, *, thresholds: Sequence[float] = THRESHOLDS, flags: Sequence[str] = FLAGS) -> Quality:
    """A flag for each number: the first where its coefficient of variation is at most the first threshold, and so on.

    Args:
        table: What is judged.
        thresholds: Increasing.
        flags: One more than thresholds; the last is also for numbers whose error is not known.
    """
    if list(thresholds) != sorted(set(thresholds)) or len(flags) != len(thresholds) + 1:
        raise QueryError("thresholds must increase, and flags be one more than thresholds")
    places = np.minimum(reliability_classes(table, thresholds), len(thresholds))
    return Quality(table.schema, np.asarray(np.array(flags)[places]))


def suppress(table: Marginal, *, above: float = THRESHOLDS[-1]) -> Marginal:
    """The table without the numbers whose coefficient of variation is above a threshold, or not known: these are NaN.

    It is for reading, not for privacy: whoever has the release can compute them again.
    """
    hidden = ~(coefficient_of_variation(table) <= above)
    return replace(table, values=np.where(hidden, np.nan, table.values))
