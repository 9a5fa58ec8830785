"""Public numbers beside the cells of a table: what rates are divided by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.checks import is_number
from crosstally.errors import QueryError
from crosstally.residuals.axes import placed
from crosstally.schema import Attribute, Schema
from crosstally.schema.canonical import canonical_text
from crosstally.typing import Floats


def public_numbers(schema: Schema, given: Any) -> Floats:
    """Public positive numbers for the cells of a table: an array of its shape, or by label along some attributes.

    The names of a Series' index are attributes; without names labels say which attribute is meant.
    """
    if isinstance(given, np.ndarray):
        if given.shape != schema.shape:
            raise QueryError(f"the array must have the shape of the table, {schema.shape}, got {given.shape}")
        return _positive(given)
    if getattr(given, "ndim", 1) != 1:
        raise QueryError(f"public numbers must be a Series, a mapping or an array, got {type(given).__name__}")
    keyed = [(key if isinstance(key, tuple) else (key,), number) for key, number in given.items()]
    names = list(getattr(getattr(given, "index", None), "names", None) or [None] * len(keyed[0][0] if keyed else ()))
    own = [_meant(schema, name, {key[i] for key, _ in keyed}) for i, name in enumerate(names)]
    texts = [{canonical_text(label): code for code, label in enumerate(each.labels)} for each in own]
    table = np.full([each.size for each in own], np.nan)
    for key, number in keyed:
        codes = tuple(at.get(canonical_text(each)) for at, each in zip(texts, key, strict=True))
        if None in codes:
            continue  # a label that this table does not have
        if not np.isnan(table[codes]):
            raise QueryError(f"public numbers must be given once for each label, got {key[0]!r} twice")
        table[codes] = number if is_number(number, numpy=True) else 0.0
    if np.isnan(table).any():
        at = np.argwhere(np.isnan(table))[0].tolist()
        missing = ", ".join(f"{each.name} = {each.labels[code]}" for each, code in zip(own, at, strict=True))
        raise QueryError(f"there is no public number for {missing[:120]}; select or group the labels first")
    axes = tuple(schema.positions[each.name] for each in own)
    return np.broadcast_to(placed(_positive(table)[None], axes, len(schema.shape))[0], schema.shape)


def _meant(schema: Schema, name: object, labels: Collection[object]) -> Attribute:
    """The attribute that a level of an index is about: of this name, otherwise the one that has most of its labels."""
    if name in schema.names:
        return schema[str(name)]
    texts = {canonical_text(each) for each in labels if isinstance(each, str | int | float)}
    shared = [len(texts & {canonical_text(label) for label in each.labels}) for each in schema.attributes]
    if not any(shared) or shared.count(max(shared)) > 1:
        raise QueryError(f"public numbers must be labelled as an attribute of the table: {', '.join(schema.names)}")
    return schema.attributes[shared.index(max(shared))]


def _positive(numbers: NDArray[Any]) -> Floats:
    try:
        found = numbers.astype(np.float64)
    except (TypeError, ValueError):
        found = np.zeros(1)
    if not (np.isfinite(found) & (found > 0)).all():
        raise QueryError("public numbers to divide by must be positive")
    return found
