"""Logistic and log-linear models of released tables, with errors that contain the noise.

With X the design, n the counts and mu(b) what the coefficients b predict of them, b solves X'(n - mu(b)) = 0, by
iteratively reweighted least squares. To first order b moves by I^-1 X'(change of n), I = X' diag(weights) X, so with S
the covariance of the released counts

    Var(b) = I^-1 X' S X I^-1,

the sandwich: S is that of the draws, which contain the sampling of people too where the table is ``of_population``.
A logistic model has n, the rows with the response, out of m rows, both released: the change of n is then less pi times
that of m.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from crosstally.answers.changes import Change
from crosstally.answers.marginal import Marginal
from crosstally.answers.operations import COUNT, label_code
from crosstally.checks import names_in
from crosstally.errors import QueryError
from crosstally.schema import Attribute, Schema
from crosstally.typing import Floats

_ROUNDS, _NEAR = 60, 1e-9  # of Newton's method, and the change of coefficients at which it has arrived
_MOST_STEP = 3.0  # the most that a coefficient moves at once, in logs
_NO_END = 25.0  # a predictor beyond this, in logs, is on its way to infinity
_MOST_COEFFICIENTS = 500  # limits time: a second

INTERCEPT = "(intercept)"


def glm(
    table: Marginal,
    response: str | None = None,
    *,
    success: object = None,
    terms: Iterable[str | Sequence[str]] | None = None,
) -> Marginal:
    """The coefficients of a logistic model of an attribute, or of a log-linear model of the counts.

    They are in logs, each against the first label of an attribute, with intervals and a ``covariance()``. Errors are
    about the rows counted; of ``m.of_population()`` they are about the population, as those of other software are.

    Args:
        table: Counts over all attributes of the model.
        response: The attribute that a logistic model explains; a log-linear model of the counts has none.
        success: The label whose odds are explained against all others; the last one by default.
        terms: Attributes, and tuples of them for interactions; by default each attribute alone.
    """
    if table.quantity != COUNT:
        raise QueryError(f"a model needs counts, got {table.quantity}")
    if response is not None:
        table.schema.check((response,))
    others = [each for each in table.schema.attributes if each.name != response]
    schema = replace(table.schema, attributes=tuple(others))
    labels, design = _design(schema, [(each.name,) for each in others] if terms is None else map(_names, terms))
    if response is None:
        found, matrix = _fitted(design, table.values.reshape(-1), None)
        moving = matrix.reshape(*table.values.shape, -1)
    else:
        axis, attribute = table.schema.positions[response], table.schema[response]
        code = attribute.size - 1 if success is None else label_code(attribute, success)
        counts = np.moveaxis(table.values, axis, -1).reshape(-1, attribute.size)
        found, matrix = _fitted(design, counts[:, code], counts.sum(axis=1))
        shares = _logistic(design @ found)
        ones = np.eye(attribute.size)[code] - shares[:, None]  # n - pi m of a row with each label
        moving = np.moveaxis((ones[:, :, None] * matrix[:, None]).reshape(*schema.shape, attribute.size, -1), -2, axis)
    result = Attribute("term", ["0", "1"]).relabelled(labels)
    change = Change(partial(_moved, found, np.array(table.values), moving))
    return table._changed(replace(table.schema, attributes=(result,)), change, "coefficient")


def _moved(found: Floats, values: Floats, moving: Floats, stack: Floats) -> Floats:
    """The coefficients of tables near the one with these values, to first order."""
    return np.asarray(found + np.tensordot(stack - values, moving, axes=values.ndim))


def _names(term: str | Sequence[str]) -> tuple[str, ...]:
    return names_in([term])


def _design(schema: Schema, terms: Iterable[tuple[str, ...]]) -> tuple[list[str], Floats]:
    """The names of the coefficients, and for each cell what it has of them: (cells, coefficients)."""
    labels, columns = [INTERCEPT], [np.ones(schema.shape)]
    for names in dict.fromkeys(terms):
        schema.check(names)
        own = [schema[name] for name in names]
        for codes in product(*(range(1, each.size) for each in own)):
            inside = np.ones(schema.shape)
            for each, code in zip(own, codes, strict=True):
                shape = [-1 if name == each.name else 1 for name in schema.names]
                inside = inside * np.eye(each.size)[code].reshape(shape)
            columns.append(inside)
            labels.append(
                ", ".join(f"{each.name} = {each.labels[code]}" for each, code in zip(own, codes, strict=True))
            )
        if len(labels) > _MOST_COEFFICIENTS:
            raise QueryError(f"a model has at most {_MOST_COEFFICIENTS} coefficients, got more; group labels first")
    return labels, np.stack([each.ravel() for each in columns], axis=1)


def _logistic(predictor: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-predictor)))


def _fitted(design: Floats, counts: Floats, totals: Floats | None) -> tuple[Floats, Floats]:
    """The coefficients, and by what they move if a count is one more: (cells, coefficients)."""
    found = np.zeros(design.shape[1])
    if totals is None:
        found[0] = np.log(max(float(counts.mean()), 1e-12))
    for _ in range(_ROUNDS):
        predictor = design @ found
        if np.abs(predictor - (0.0 if totals is not None else found[0])).max() > _NO_END:
            break
        if totals is None:
            mean = weights = np.exp(predictor)
        else:
            shares = _logistic(predictor)
            mean, weights = totals * shares, np.maximum(totals, 0.0) * shares * (1 - shares)
        information = design.T @ (weights[:, None] * design)
        try:
            inverse = np.linalg.inv(information)
        except np.linalg.LinAlgError:
            break
        step = inverse @ (design.T @ (counts - mean))
        if not np.isfinite(step).all():
            break
        if np.abs(step).max() < _NEAR:
            return found, np.asarray(design @ inverse)
        found = found + step * min(1.0, _MOST_STEP / np.abs(step).max())
    raise QueryError("the model has no finite solution: some labels have nobody, or all have one response; group them")
