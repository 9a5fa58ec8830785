"""Columns of dates: how they are written, and what to make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from crosstally.schema import DateReading
from crosstally.sources.drafting.bins import round_edges

__all__ = ["DateColumn", "Dates"]

_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y")
_MANY_YEARS = 20  # from here on years go into bins


@dataclass(frozen=True, slots=True)
class DateColumn:
    """How a column of dates is read, and its labels or edges."""

    reading: DateReading
    values: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()


class Dates:
    """The formats in which every text seen so far is a date, with the first and the last day in each."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[date, date] | None] = dict.fromkeys(_FORMATS)
        self._readings = {form: DateReading("year", form) for form in _FORMATS}

    @property
    def possible(self) -> bool:
        """Whether every text so far is a date in some format."""
        return bool(self._ends)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that are left; none once a text is no date."""
        return tuple(form for form, ends in self._ends.items() if ends is not None)

    def add(self, texts: Sequence[str]) -> None:
        """Take in different texts."""
        for form in tuple(self._ends):
            days = []
            for text in texts:
                day = self._readings[form].day(text)
                if day is None:
                    del self._ends[form]
                    break
                days.append(day)
            else:
                known = [*days, *(self._ends[form] or ())]
                if known:
                    self._ends[form] = min(known), max(known)

    def column(self) -> DateColumn | None:
        """What to make of the dates; None unless they are written in one way."""
        if len(self.formats) != 1:
            return None
        (form,) = self.formats
        ends = self._ends[form]
        assert ends is not None
        first, last = ends
        if last.year - first.year >= _MANY_YEARS:
            edges = round_edges(Decimal(first.year), Decimal(last.year))
            return DateColumn(DateReading("year", form), edges=edges)
        months = 12 * (last.year - first.year) + last.month - first.month
        part = "year" if last.year - first.year >= 3 else "quarter" if months >= 6 else "month"
        rule = DateReading(part, form)
        days = (date(first.year + i // 12, i % 12 + 1, 1) for i in range(first.month - 1, first.month + months))
        labels = dict.fromkeys(DateReading(part).text(day.isoformat()) or "" for day in days)
        return DateColumn(rule, values=tuple(labels))
