"""The contents of review pages: labels with their numbers of rows, and the expected error before and after changes."""

from __future__ import annotations

import json
import math
from dataclasses import KW_ONLY, dataclass

from crosstally.browser.common.site import texts_of
from crosstally.browser.steward.review import Review
from crosstally.schema import MISSING, OTHER, Attribute, Outside, RowReading, Schema
from crosstally.strategies.verdicts import ExpectedError

text = texts_of("review")

_ON_CARD = 6  # labels of an attribute on the overview
_TEXTS = 6  # spellings of a label
_OUTSIDE = 100  # values that are not in the schema
_SAME = 1.005  # a smaller factor is shown as unchanged


@dataclass(frozen=True, slots=True, repr=False)
class LabelLine:
    """Confidential: a label, its rows, and the texts that mean it. ``kind`` is label, rule or outside."""

    label: str
    rows: int
    _: KW_ONLY
    share: float
    kind: str = "label"
    is_few: bool = False
    texts: tuple[str, ...] = ()
    more_texts: int = 0

    @property
    def few(self) -> bool:
        """Whether so few people have this label that it may identify one."""
        return self.kind != "rule" and self.is_few


@dataclass(frozen=True, slots=True, repr=False)
class Card:
    """Confidential: an attribute with its labels, None where rows are not counted, and its possible edits."""

    attribute: Attribute
    column: str
    lines: tuple[LabelLine, ...] | None
    all_outside: tuple[LabelLine, ...] = ()
    missing: int = 0
    ordered: bool = False
    edges: str = ""
    has_dates: bool = False
    days: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """What labels can become."""
        return (*self.attribute.values, MISSING, OTHER) if self.attribute.values else ()

    @property
    def first(self) -> tuple[LabelLine, ...]:
        """The labels on the overview."""
        return (self.lines or ())[:_ON_CARD]

    @property
    def few(self) -> int:
        """The number of rare labels."""
        return sum(line.few for line in self.lines or ())

    @property
    def lost(self) -> int:
        """The number of rows without a cell."""
        return sum(line.rows for line in self.all_outside) + self.missing

    @property
    def outside(self) -> tuple[LabelLine, ...]:
        """The values that are not in the schema, those of most rows."""
        return self.all_outside[:_OUTSIDE]


def card(review: Review, attribute: Attribute) -> Card:
    """The card of an attribute."""
    lines, outside, missing = _lines(review, attribute)
    reading = review.schema.reading if isinstance(review.schema.reading, RowReading) else RowReading()
    own = reading.columns.get(attribute.name)
    date = None if own is None else own.date
    return Card(
        attribute,
        str(reading.column(attribute.name)),
        lines,
        outside,
        missing,
        ordered=bool(attribute.edges) or (date is not None and date.periods > 0),
        edges=" ".join(f"{edge:g}" if float(f"{edge:g}") == edge else repr(edge) for edge in attribute.edges),
        has_dates=date is not None and not attribute.edges,
        days="" if date is None or isinstance(date.into, str) else " ".join(day.isoformat() for day in date.into),
    )


def facts(schema: Schema) -> str:
    """The schema's facts as in its file, one on each line; empty if there are none."""
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    lines = [json.dumps(fact.to_dict(by_name), ensure_ascii=False) for fact in schema.facts]
    return "[" + ",\n ".join(lines) + "]" if lines else ""


def _lines(review: Review, attribute: Attribute) -> tuple[tuple[LabelLine, ...] | None, tuple[LabelLine, ...], int]:
    found = review.distribution(attribute.name)
    if found is None:
        return None, (), 0
    total = max(1, review.distributions.rows)
    named = len(attribute.labels) - attribute.missing - (attribute.outside is Outside.OTHER)
    lines = tuple(
        LabelLine(
            label,
            rows,
            share=rows / total,
            kind="label" if i < named else "rule",
            is_few=few,
            texts=tuple(each for each in texts if each != label)[:_TEXTS] if not attribute.edges else (),
            more_texts=max(0, len(texts) - _TEXTS) if not attribute.edges else 0,
        )
        for i, (label, rows, few, texts) in enumerate(
            zip(attribute.labels, found.rows, found.few, found.texts, strict=True)
        )
    )
    outside = tuple(LabelLine(each, rows, share=rows / total, kind="outside") for each, rows in found.outside)
    return lines, outside, found.missing


def outlook(review: Review) -> dict[str, object]:
    """The expected error with the schema in the file and with the edited one."""
    (before, _), (now, instead) = review.outlook(review.opened), review.outlook(review.schema)
    earlier = {each.order: each for each in before}
    rows = [
        {
            "tables": each.tables[0].upper() + each.tables[1:],
            "before": _figure(earlier[each.order]) if each.order in earlier else "",
            "now": _figure(each),
            "change": _change(earlier.get(each.order), each),
        }
        for each in now
    ]
    budget = review.wanted.budget
    return {"rows": rows, "instead": instead, "budget": str(budget), "epsilon": budget.to_dict().get("epsilon", "")}


def bounds(review: Review) -> list[dict[str, str]]:
    """Confidential: what bounds on the rows of a unit leave out, and the error to expect, which grows with them."""
    own = review.schema.max_rows
    error = next((each.error / own for each in review.outlook(review.schema)[0] if each.known), math.nan)
    return [
        {
            "bound": f"{each.max_rows:,}",
            "kept": f"{each.kept:,}",
            "lost": f"{each.lost:,} ({each.share:.1%})",
            "noise": "?" if math.isnan(error) else f"± {error * each.max_rows:,.3g}",
        }
        for each in review.distributions.losses(review.schema)
    ]


def _figure(expected: ExpectedError) -> str:
    return expected.figure if expected.known else text("outlook.unknown")


def _change(before: ExpectedError | None, now: ExpectedError) -> str:
    """The change of the error, relative to an average count."""
    if before is None or not before.known or not now.known or not now.error or not before.error:
        return ""
    times = before.error * before.cells / (now.error * now.cells)
    if 1 / _SAME < times < _SAME:
        return text("outlook.same")
    if times > 1:
        return text("outlook.times", times=f"{times:.3g}")
    return text("outlook.times_larger", times=f"{1 / times:.3g}")
