"""What a page shows, as the query of its URL: every state is a link.

``rows`` and ``columns`` name attributes, ``in.NAME`` values of an attribute that are kept (again for each),
``filter`` attributes whose values are offered, ``where`` a condition; ``show``, ``order``, ``top``, ``chart`` and
``level`` say how.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from crosstally.errors import QueryError
from crosstally.questions.question import cells_in_words
from crosstally.questions.where import Where
from crosstally.schema import Attribute, Schema

__all__ = ["LEVELS", "Chart", "Order", "Show", "View", "read_view"]

LEVELS = (0.9, 0.95, 0.99)
"""How sure intervals may be: what statistical offices print."""

MAX_TOP = 1_000  # rows of a page that shows the largest only: more scroll away unread
_LONGEST_CONDITION = 4_000  # a guard: characters of a condition in an address, half of what servers take
_IN = "in."


class Show(StrEnum):
    """What the numbers of a table are."""

    COUNT = "count"
    ROW = "row"
    COLUMN = "column"
    TOTAL = "total"


class Order(StrEnum):
    """In which order rows stand."""

    SCHEMA = "schema"
    MOST = "most"
    LEAST = "least"


class Chart(StrEnum):
    """How numbers are drawn."""

    AUTO = "auto"
    BARS = "bars"
    HEAT = "heat"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class View:
    """A table and how it is shown. ``kept`` are the values kept of attributes that are filtered."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    _: KW_ONLY
    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()
    filters: tuple[str, ...] = ()
    where: str = ""
    show: Show = Show.COUNT
    order: Order = Order.SCHEMA
    top: int | None = None
    chart: Chart = Chart.AUTO
    level: float = 0.95

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the table, those of rows first."""
        return self.rows + self.columns

    @property
    def offered(self) -> tuple[str, ...]:
        """The attributes whose values are offered as check boxes, each once."""
        return tuple(dict.fromkeys((*self.filters, *(name for name, _ in self.kept))))

    def condition(self, schema: Schema) -> str:
        """Which rows are counted, in the words of conditions; empty when all are."""
        parts = [_kept_in_words(schema[name], labels) for name, labels in self.kept]
        parts = [part for part in parts if part]
        if self.where:
            parts.append(f"({self.where})" if parts else self.where)
        return " and ".join(parts)

    def chosen(self, schema: Schema) -> Where | None:
        """The condition, read; None when all rows are counted."""
        text = self.condition(schema)
        return Where.of(text, schema) if text else None

    def query(self) -> str:
        """The query of the URL that shows this; defaults are left out."""
        plain = View()
        pairs = [("rows", name) for name in self.rows] + [("columns", name) for name in self.columns]
        pairs += [("filter", name) for name in self.filters]
        pairs += [(_IN + name, label) for name, labels in self.kept for label in labels]
        for field in ("where", "show", "order", "top", "chart", "level"):
            value = getattr(self, field)
            if value != getattr(plain, field):
                pairs.append((field, str(value)))
        return urlencode(pairs)

    def swapped(self) -> View:
        """The same with rows and columns exchanged, shares of rows becoming those of columns."""
        other = {Show.ROW: Show.COLUMN, Show.COLUMN: Show.ROW}
        return replace(self, rows=self.columns, columns=self.rows, show=other.get(self.show, self.show))


def _kept_in_words(attribute: Attribute, labels: Sequence[str]) -> str:
    """Nothing where every value is kept."""
    chosen = [int(label in labels) for label in attribute.labels]
    return "" if all(chosen) else cells_in_words(attribute, chosen)


def read_view(pairs: Iterable[tuple[str, str]], schema: Schema) -> View:
    """The view that a query says. Raises for what the schema does not have; what is left empty is not there."""
    lists: dict[str, list[str]] = {"rows": [], "columns": [], "filter": []}
    single: dict[str, str] = {}
    kept: dict[str, list[str]] = {}
    for key, value in pairs:
        if not value:
            continue
        if key in lists:
            lists[key].append(value)
        elif key.startswith(_IN):
            kept.setdefault(key.removeprefix(_IN), []).append(value)
        else:
            single[key] = value
    rows, columns, filters = (tuple(dict.fromkeys(lists[key])) for key in ("rows", "columns", "filter"))
    schema.check([*rows, *(name for name in columns if name not in rows)])
    both = [name for name in columns if name in rows]
    if both:
        raise QueryError(f"an attribute must be on rows or on columns, got {both[0]!r} on both")
    schema.check([*filters, *(name for name in kept if name not in filters)])
    return View(
        rows,
        columns,
        kept=tuple((name, _labels(schema[name], labels)) for name, labels in kept.items()),
        filters=filters,
        where=_condition(single.get("where", "")),
        show=_one_of(Show, single.get("show"), Show.COUNT),
        order=_one_of(Order, single.get("order"), Order.SCHEMA),
        top=_top(single.get("top")),
        chart=_one_of(Chart, single.get("chart"), Chart.AUTO),
        level=read_level(single.get("level")),
    )


def _labels(attribute: Attribute, given: Sequence[str]) -> tuple[str, ...]:
    unknown = [label for label in given if label not in attribute.labels]
    if unknown:
        raise QueryError(f"{attribute.name!r} has no value {unknown[0][:80]!r}")
    return tuple(label for label in attribute.labels if label in given)


def _condition(text: str) -> str:
    if len(text) > _LONGEST_CONDITION:
        raise QueryError(f"a condition must have at most {_LONGEST_CONDITION:,} characters, got {len(text):,}")
    return text.strip()


def _top(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_TOP):
        raise QueryError(f"top must be a whole number from 1 to {MAX_TOP:,}, got {text[:40]!r}")
    return int(text)


def read_level(text: str | None) -> float:
    """How sure intervals are wanted."""
    known = {str(level): level for level in LEVELS}
    if text is not None and text not in known:
        raise QueryError(f"level must be one of {', '.join(known)}, got {text[:40]!r}")
    return 0.95 if text is None else known[text]


_Choice = TypeVar("_Choice", bound=StrEnum)


def _one_of(kind: type[_Choice], text: str | None, default: _Choice) -> _Choice:
    if text is None:
        return default
    try:
        return kind(text)
    except ValueError:
        raise QueryError(f"{kind.__name__.lower()} must be one of {', '.join(kind)}, got {text[:40]!r}") from None
