"""What a page shows, as the query of its URL: every state is a link.

``rows`` and ``columns`` name attributes, ``in.NAME`` values of an attribute that are kept (again for each),
``filter`` attributes whose values are offered, ``where`` a condition; ``group`` attributes whose values may be put
together, and ``regrouping`` says how these are; ``show``, ``order``, ``top``, ``chart`` and ``level`` say the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from crosstally.analysis.regrouping import Regrouping, is_regrouping, labels_among, read_regrouping
from crosstally.errors import QueryError
from crosstally.query.question import Where, cells_in_words
from crosstally.schema import Attribute, Schema

LEVELS = (0.9, 0.95, 0.99)
"""The levels of intervals that statistical offices print."""

MAX_TOP = 1_000  # rows of a page that shows the largest only: more scroll away unread
_LONGEST_CONDITION = 4_000  # a limit: characters of a condition in an address, half of what servers accept
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
class TableView:
    """A table and how it is shown.

    ``kept`` are the values kept of attributes that are filtered, ``regrouping`` says which values are put together;
    ``filters`` and ``grouping`` are the attributes for which the page offers that.
    """

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    _: KW_ONLY
    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()
    filters: tuple[str, ...] = ()
    grouping: tuple[str, ...] = ()
    regrouping: Regrouping = field(default_factory=Regrouping)
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

    @property
    def groupable(self) -> tuple[str, ...]:
        """The attributes whose values may be put together, each once; those at a level of a hierarchy are already."""
        found = dict.fromkeys((*self.grouping, *(name for name, _ in self.regrouping.groups)))
        return tuple(name for name in found if not self.regrouping.level(name))

    @property
    def applied(self) -> Regrouping:
        """Which values are put together of attributes that the table has."""
        return self.regrouping.of(self.attributes)

    def inside(self, attribute: Attribute, label: str) -> TableView:
        """The same inside one label of an attribute that is at a level of its hierarchy, a level finer."""
        kept = tuple(each for each in self.kept if each[0] != attribute.name)
        below = tuple(self.regrouping.held(attribute)[label])
        return replace(self, kept=(*kept, (attribute.name, below)), regrouping=self.regrouping.finer(attribute))

    def condition(self, schema: Schema) -> str:
        """Which rows are counted, in the words of conditions; empty when all are."""
        kept = ((schema[name], [label in labels for label in schema[name].labels]) for name, labels in self.kept)
        return condition_of(kept, self.where)

    @property
    def within(self) -> tuple[str, ...] | None:
        """The attributes within which shares add up to one; None where counts are shown."""
        return {Show.ROW: self.rows, Show.COLUMN: self.columns, Show.TOTAL: ()}.get(self.show)

    def chosen(self, schema: Schema) -> Where | None:
        """The condition, read; None when all rows are counted."""
        text = self.condition(schema)
        return Where.of(text, schema) if text else None

    def query(self) -> str:
        """The query of the URL that shows this; defaults are left out."""
        plain = TableView()
        pairs = [("rows", name) for name in self.rows] + [("columns", name) for name in self.columns]
        pairs += [("filter", name) for name in self.filters]
        pairs += [(_IN + name, label) for name, labels in self.kept for label in labels]
        pairs += [("group", name) for name in self.grouping] + self.regrouping.pairs()
        for name in ("where", "show", "order", "top", "chart", "level"):
            value = getattr(self, name)
            if value != getattr(plain, name):
                pairs.append((name, str(value)))
        return urlencode(pairs)

    def swapped(self) -> TableView:
        """The same with rows and columns exchanged, shares of rows becoming those of columns."""
        other = {Show.ROW: Show.COLUMN, Show.COLUMN: Show.ROW}
        return replace(self, rows=self.columns, columns=self.rows, show=other.get(self.show, self.show))


def condition_of(chosen: Iterable[tuple[Attribute, Sequence[bool]]], where: str) -> str:
    """Which rows have the values chosen of each attribute and satisfy a further condition, in words; empty for all."""
    parts = [cells_in_words(attribute, list(map(int, those))) for attribute, those in chosen if not all(those)]
    if where:
        parts.append(f"({where})" if parts else where)
    return " and ".join(parts)


def read_view(pairs: Iterable[tuple[str, str]], schema: Schema) -> TableView:
    """The view that a query says. Raises for what the schema does not have; what is left empty is not there."""
    lists: dict[str, list[str]] = {"rows": [], "columns": [], "filter": [], "group": []}
    regrouped: list[tuple[str, str]] = []
    single: dict[str, str] = {}
    kept: dict[str, list[str]] = {}
    for key, value in pairs:
        if not value:
            continue
        if key in lists:
            lists[key].append(value)
        elif key.startswith(_IN):
            kept.setdefault(key.removeprefix(_IN), []).append(value)
        elif is_regrouping(key):
            regrouped.append((key, value))
        else:
            single[key] = value
    rows, columns, filters, grouping = (tuple(dict.fromkeys(each)) for each in lists.values())
    schema.check([*rows, *(name for name in columns if name not in rows)])
    both = [name for name in columns if name in rows]
    if both:
        raise QueryError(f"an attribute must be on rows or on columns, got {both[0]!r} on both")
    schema.check([*filters, *(name for name in kept if name not in filters)])
    schema.check(grouping)
    return TableView(
        rows,
        columns,
        kept=tuple((name, labels_among(schema[name], labels)) for name, labels in kept.items()),
        filters=filters,
        grouping=grouping,
        regrouping=read_regrouping(regrouped, schema, of_form=True),
        where=_condition(single.get("where", "")),
        show=_one_of(Show, single.get("show"), Show.COUNT),
        order=_one_of(Order, single.get("order"), Order.SCHEMA),
        top=_top(single.get("top")),
        chart=_one_of(Chart, single.get("chart"), Chart.AUTO),
        level=read_level(single.get("level")),
    )


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
