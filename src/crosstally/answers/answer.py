"""One question, or many, to an estimate: the table, its method, and its error where that is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.least_squares import least_squares
from crosstally.errors import QueryError, TooManyCellsError, did_you_mean
from crosstally.inference.nonnegativity import clip_and_keep_total
from crosstally.queries import MAX_CELLS
from crosstally.residuals import Estimate
from crosstally.schema import Schema
from crosstally.tables import ErrorKind, Marginal

__all__ = ["DEFAULT_METHOD", "METHODS", "answer", "answer_all"]

Method = Callable[[Estimate, Sequence[Sequence[str]]], list[NDArray[np.float64]]]

METHODS: Mapping[str, Method] = {"least-squares": least_squares}
"""How tables are computed from an estimate; covered tables come out the same with each."""

DEFAULT_METHOD = "least-squares"


def answer(estimate: Estimate, errors: ErrorBars, names: Sequence[str], *, method: str | None = None) -> Marginal:
    """The table over some attributes, axes in the order named; over none, the total.

    Where the estimate was corrected the answer has no negative cells either: they become zero and the total is kept.
    Its error is then the one before correction. Tables that are not covered have none.
    """
    return answer_all(estimate, errors, [names], method=method)[0]


def answer_all(
    estimate: Estimate, errors: ErrorBars, tables: Sequence[Sequence[str]], *, method: str | None = None
) -> list[Marginal]:
    """The tables over some sets of attributes, in order; faster than one by one."""
    chosen = DEFAULT_METHOD if method is None else method
    if chosen not in METHODS:
        raise QueryError(f"unknown method {chosen!r}{did_you_mean(str(chosen), METHODS)}")
    _check_cells(estimate.schema, tables)
    covered = estimate.covered(tables)
    corrected = estimate.corrected != "none"
    answers = []
    for names, values, known in zip(tables, METHODS[chosen](estimate, tables), covered, strict=True):
        error = errors.covered_law(names) if known else None
        answers.append(
            Marginal(
                estimate.schema.subset(*names),
                clip_and_keep_total(values, values.ndim) if corrected else values,
                method=chosen,
                error_kind=ErrorKind.NONE if error is None else error.kind,
                error=error,
                corrected=corrected,
            )
        )
    return answers


def _check_cells(schema: Schema, tables: Sequence[Sequence[str]]) -> None:
    total = 0
    for names in tables:
        cells = math.prod(schema.sizes(names))
        total += cells
        if cells > MAX_CELLS:
            raise TooManyCellsError(
                f"a table must have at most {MAX_CELLS:,} cells, got {cells:,}; ask for fewer attributes"
            )
    if total > MAX_CELLS:
        raise TooManyCellsError(
            f"tables asked together must have at most {MAX_CELLS:,} cells, got {total:,}; ask in several batches"
        )
