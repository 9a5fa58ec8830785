"""Rows against columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from crosstally.answers.marginal import Marginal
from crosstally.checks import check_kind
from crosstally.errors import QueryError

__all__ = ["Normalize", "crosstab"]

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
