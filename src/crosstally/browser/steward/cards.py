"""What the pages of a review show: labels with their rows, and the error to expect before and after the changes."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass

from crosstally.browser.common.site import texts_of
from crosstally.browser.steward.review import Review
from crosstally.schema import MISSING, OTHER, Attribute, Outside, RowReading, Schema
from crosstally.strategies.verdicts import ExpectedError

text = texts_of("review")

_ON_CARD = 6  # labels of an attribute on the overview
_TEXTS = 6  # spellings of a label
_OUTSIDE = 100  # values that are not in the schema
_SAME = 1.005  # times: below, an error is shown as unchanged


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
        """Whether it is a label that so few people have that it may tell of one."""
        return self.kind != "rule" and self.is_few


@dataclass(frozen=True, slots=True, repr=False)
class Card:
    """Confidential: an attribute with its labels, None where rows are not counted, and all that can be done to it."""

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
        """How many labels few people have."""
        return sum(line.few for line in self.lines or ())

    @property
    def lost(self) -> int:
        """The rows that have no cell."""
        return sum(line.rows for line in self.all_outside) + self.missing

    @property
    def outside(self) -> tuple[LabelLine, ...]:
        """The values that are not in the schema, those of most rows."""
        return self.all_outside[:_OUTSIDE]


def card(review: Review, attribute: Attribute) -> Card:
    """What is shown of an attribute."""
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
    """The schema's facts as they stand in its file, one on each line; nothing where there are none."""
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
    """The error to expect, with the schema in the file and with the one on the screen."""
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


def _figure(expected: ExpectedError) -> str:
    return expected.figure if expected.known else text("outlook.unknown")


def _change(before: ExpectedError | None, now: ExpectedError) -> str:
    """How much smaller or larger the error is, beside an average count."""
    if before is None or not before.known or not now.known or not now.error or not before.error:
        return ""
    times = before.error * before.cells / (now.error * now.cells)
    if 1 / _SAME < times < _SAME:
        return text("outlook.same")
    if times > 1:
        return text("outlook.times", times=f"{times:.3g}")
    return text("outlook.times_larger", times=f"{1 / times:.3g}")
