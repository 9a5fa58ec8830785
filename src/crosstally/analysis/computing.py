"""Any function of tables, with its error: the function is called once for each draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from crosstally.answers.joint_draws import Joint, side_by_side, together
from crosstally.answers.marginal import Marginal
from crosstally.answers.uncertainty import computed
from crosstally.checks import check_kind
from crosstally.errors import QueryError
from crosstally.schema import Attribute
from crosstally.typing import Floats

Function = Callable[..., Any]

RESULT = "result"  # the attribute of a result of several numbers


def compute(function: Function, tables: Sequence[Marginal], *, quantity: str = "value") -> Marginal:
    """What a function makes of tables: a number, several, or named ones, with intervals and ``covariance()``.

    Args:
        function: Takes an array for each table, in order, and gives a number, a list of numbers, or a mapping from
            names to numbers; always as many. It must depend on nothing else.
        tables: Answers of one release, or stated to be ``independent``.
        quantity: What the numbers are called.
    """
    check_kind(function, Callable, "function")
    check_kind(quantity, str, "quantity")
    if not tables:
        raise QueryError("at least one table must be given")
    first, *others = tables
    values, labels = _called(function, [each.values for each in tables], None)
    own = Attribute(RESULT, ["0", "1"]).relabelled(labels)
    schema = replace(first.schema, attributes=(own,) if values.ndim else ())
    known = [each.uncertainty for each in tables if each.uncertainty is not None]
    joints = [each.joint for each in known if each.joint is not None]
    uncertainty = None
    if len(joints) == len(tables):
        rows = zip(*side_by_side(joints), strict=True)
        draws = np.stack([_called(function, row, (values.shape, labels))[0] for row in rows])
        joint = Joint(together(joints), partial(np.asarray, draws), replicates=all(each.replicates for each in joints))
        uncertainty = computed(known, joint, quantity)
    return first._computed(schema, values, uncertainty, quantity=quantity, others=others)


def _called(
    function: Function, arrays: Sequence[Floats], like: tuple[tuple[int, ...], list[str]] | None
) -> tuple[Floats, list[str]]:
    """The numbers that a function gives, and what they are called; it must be like another result."""
    try:
        found = function(*(np.array(each) for each in arrays))
    except Exception as error:
        lines = str(error).splitlines() or [""]
        raise QueryError(f"the function failed: {type(error).__name__}: {lines[0][:200]}") from error
    labels = list(map(str, found)) if isinstance(found, Mapping) else None
    try:
        values = np.array(list(found.values()) if isinstance(found, Mapping) else found, np.float64)
    except (TypeError, ValueError):
        values = np.empty((0, 0))
    labels = list(map(str, range(values.size))) if labels is None else labels
    if values.ndim > 1 or not values.size or (like is not None and (values.shape, labels) != like):
        raise QueryError("the function must give a number, a list of numbers, or names with numbers, always as many")
    return values, labels
