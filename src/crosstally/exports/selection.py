"""The part of an answer that a condition such as ``sex = Female and age = [18, 30)`` selects."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from crosstally.errors import QueryError
from crosstally.schema import Attribute, Schema, canonical_text

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["Axis", "Selection", "read_conditions", "select"]

_SHOWN_LABELS = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """An attribute and the labels of it that are there."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The cells of a marginal whose values satisfy all conditions; ``fixed`` axes were not asked for and have one.

    ``margin`` is what follows ±, the same for every cell: half the width of the interval at ``level``, the standard
    error when no level was asked for, NaN when the error is not known.
    """

    axes: tuple[Axis, ...]
    fixed: tuple[Axis, ...]
    values: Any
    _: KW_ONLY
    std_error: float
    margin: float
    level: float | None
    method: str
    error_kind: str
    corrected: bool
    relaxed: float
    caption: str
    number_columns: tuple[str, str] = ("count", "std_error")

    @property
    def columns(self) -> tuple[Axis, ...]:
        """All axes, those asked for first."""
        return self.axes + self.fixed

    def cells(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """The labels and the value of each cell, the last axis fastest."""
        for labels, value in zip(product(*(axis.labels for axis in self.columns)), self.values.ravel(), strict=True):
            yield labels, float(value)


def read_conditions(text: str | None, schema: Schema) -> dict[str, str]:
    """For each attribute that a text like "sex = Female and age = '[18, 30)'" names, the label that it must have."""
    conditions: dict[str, str] = {}
    position, text, pattern = 0, (text or "").strip(), _pattern(schema)
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise QueryError(f'--where must be like "sex = Female and region = North", got {text!r}')
        name = match["name"]
        schema.check((name,))
        if name in conditions:
            raise QueryError(f"--where must name each attribute once, got {name!r} twice")
        given = next(match[group] for group in ("double", "single", "plain") if match[group] is not None)
        conditions[name] = _known_label(schema[name], given)
        position = match.end()
    return conditions


def _pattern(schema: Schema) -> re.Pattern[str]:
    """One condition. A label may hold the word "and": only where an attribute follows does another condition begin."""
    names = "|".join(re.escape(name) for name in schema.names)
    label = r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>.+?))"""
    return re.compile(rf"\s*(?P<name>[^=]+?)\s*==?\s*{label}\s*(?:$|(?<=\s)and(?=\s+(?:{names})\s*=))", re.IGNORECASE)


def _known_label(attribute: Attribute, given: str) -> str:
    for label in attribute.labels:
        if canonical_text(label) == canonical_text(given):
            return label
    shown = ", ".join(attribute.labels[:_SHOWN_LABELS])
    more = ", ..." if len(attribute.labels) > _SHOWN_LABELS else ""
    raise QueryError(f"{attribute.name!r} has no label {given!r}; it has {shown}{more}")


def select(
    marginal: Marginal, asked: Sequence[str], conditions: Mapping[str, str], *, level: float | None
) -> Selection:
    """The cells of a marginal that satisfy the conditions; its attributes are those asked for, then the others."""
    axes, index = [], []
    for attribute in marginal.schema.attributes:
        kept = conditions.get(attribute.name)
        axes.append(Axis(attribute.name, attribute.labels if kept is None else (kept,)))
        place = None if kept is None else attribute.labels.index(kept)
        index.append(slice(None) if place is None else slice(place, place + 1))
    std_error = math.nan if marginal.error is None else marginal.error.std_error
    return Selection(
        tuple(axes[: len(asked)]),
        tuple(axes[len(asked) :]),
        marginal.values[tuple(index)],
        std_error=std_error,
        margin=std_error if level is None else float((marginal.values - marginal.interval(level)[0]).flat[0]),
        level=level,
        method=marginal.method,
        error_kind=marginal.error_kind.value,
        corrected=marginal.corrected,
        relaxed=marginal.relaxed,
        caption=marginal.caption,
        number_columns=marginal.number_columns(),
    )
