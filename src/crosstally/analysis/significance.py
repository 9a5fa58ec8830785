"""Tests of independence and of equality, with p-values that contain the noise.

Shrinkage moves a table towards its null, so tests read the unshrunk figures: the linear estimate l, whose noise does
not depend on the truth. With e what the null predicts of l and v the variance of the noise of a cell, the statistic is

    sum of (l - e)^2 / (v + d e)      about a population that the rows were drawn from, d the design effect,
    sum of (l - e)^2 / v              about the table itself: its rows are all there are, and only noise is random.

The reference is drawn: tables e, with people at random from e for a population, plus noise with the covariances that l
has, each with an e of its own, as in the Monte Carlo test of Gaboardi, Lim, Rogers and Vadhan (ICML 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np

from crosstally.answers.marginal import Marginal, Of
from crosstally.answers.sampling import design_effect_of
from crosstally.errors import QueryError, must_be_one_of
from crosstally.typing import Floats

_REFERENCES = 2_000
"""Tables drawn under a null about the population: a p-value of 0.05 is known to 0.005."""

# The letters "associat": a fixed seed, so that a test of one table gives one p-value. Any other would do.
_SEED = 0x6173736F63696174


@dataclass(frozen=True, slots=True, repr=False)
class HypothesisTest:
    """A test: what its null says, what that is about (``of``), its statistic, and the p-value."""

    null: str
    of: str
    statistic: float
    p_value: float

    def __repr__(self) -> str:
        about = "the table itself" if self.of == "table" else "the population behind the rows"
        return f"null: {self.null}, about {about}; statistic {self.statistic:,.1f}, {p_text(self.p_value)}"


def p_text(p: float) -> str:
    """A p-value as people write it.

    >>> p_text(0.0005), p_text(0.0312)
    ('p < 0.001', 'p = 0.031')
    """
    return f"p {'<' if p < 0.001 else '='} {max(p, 0.001):.3f}"


def test(  # a statistical one
    table: Marginal,
    other: Marginal | None = None,  # noqa: PT028
    *,
    of: Of = "population",  # noqa: PT028
    design_effect: float | None = None,  # noqa: PT028
) -> HypothesisTest:
    """Whether two attributes are independent, or two tables equal; the noise is accounted for.

    About the population, two tables are equal if their rows were drawn from equal shares, and must count different
    people. About the table itself, two are equal if each of their numbers is: counts, or shares, of any people.

    Args:
        table: Counts over two attributes; or anything, if there is another.
        other: A table with the same labels, of the same release or stated to be ``independent``.
        of: What the null is about: ``"population"`` or ``"table"``.
        design_effect: By what the variance of sampling exceeds that of single rows drawn at random. Must be given where
            people have several rows; 1 otherwise.
    """
    if of not in get_args(Of):
        raise QueryError(must_be_one_of("of", get_args(Of), of))
    excess = design_effect_of(table.schema, design_effect) if of == "population" else 0.0
    if any(each is not None and each.uncertainty is not None and each.uncertainty.modelled for each in (table, other)):
        raise QueryError("nobody measured these attributes together: a model of them cannot be tested")
    expected: Callable[[Floats], Floats] = independent_cells
    if other is None:
        _check_counts(table, 2)
        null, stack = f"{' and '.join(table.attributes)} are independent", table.unshrunk_draws()
    elif of == "table":
        null, stack, expected = "both tables are equal", (table - other).unshrunk_draws(), partial(np.multiply, 0.0)
    else:
        _check_counts(table)
        _check_counts(other)
        null, rest = "both tables have the same shares", (table - other).unshrunk_draws()  # refuses what cannot be
        first = table.unshrunk_draws()[: len(rest)]
        stack = np.stack([first, first - rest[: len(first)]], axis=1).reshape(len(first), 2, -1)
    return HypothesisTest(null, of, *_tested(stack, expected, excess))


def independent_cells(stack: Floats) -> Floats:
    """What independence predicts from the margins of each table; none of it is negative.

    >>> independent_cells(np.array([[[3.0, 1.0], [9.0, 7.0]]])).tolist()
    [[[2.4, 1.6], [9.6, 6.4]]]
    """
    rows, columns = (np.maximum(stack.sum(axis=axis, keepdims=True), 0.0) for axis in (2, 1))
    total = rows.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(rows * columns, total, out=np.zeros_like(stack), where=total > 0))


def _tested(stack: Floats, expected: Callable[[Floats], Floats], excess: float) -> tuple[float, float]:
    """The statistic of the first table of a stack, and its p-value; the others are the first with new noise."""
    from numpy.random import Generator, Philox

    random, noise = Generator(Philox(_SEED)), stack[1:] - stack[0]
    squares, number = (noise**2).sum(axis=0), len(noise)

    def statistics(tables: Floats, variance: Floats) -> Floats:
        null = expected(tables)
        scale = np.broadcast_to(variance + excess * null, tables.shape)
        parts = np.divide((tables - null) ** 2, scale, out=np.zeros_like(tables), where=scale > 0)
        return np.asarray(parts.reshape(len(tables), -1).sum(axis=1))

    # A draw of noise serves several draws of people; without people each serves once
    drawn = noise[np.arange(_REFERENCES) % number] if excess else noise
    null = np.broadcast_to(expected(stack[:1]), drawn.shape)
    people = excess * random.poisson(null / excess) if excess else null
    # v of a reference comes from the other draws, as that of the table does: from draws that are not its own noise
    references = statistics(people + drawn, (squares - drawn**2) / (number - 1))
    found = float(statistics(stack[:1], squares / number)[0])
    return found, (1 + int((references >= found).sum())) / (1 + len(references))


def _check_counts(table: Marginal, attributes: int | None = None) -> None:
    if table.quantity != "count" or (attributes is not None and table.values.ndim != attributes):
        wanted = "counts" if attributes is None else "counts over two attributes"
        raise QueryError(f"the table must be {wanted}, got {table.quantity} over {table.attributes}")
