"""A page to share: all that a reader without tools may want to know about a release, in one file."""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.analysis.quality import reliability_classes
from crosstally.browser.explorer.associations import strongest_associations
from crosstally.browser.explorer.inline_pictures import inline_svg
from crosstally.browser.explorer.page_texts import text
from crosstally.charts import bar_chart
from crosstally.extras import optional
from crosstally.releases.expected import expected_errors
from crosstally.releases.release import Release
from crosstally.releases.statement import installed_versions
from crosstally.schema import Attribute, Schema
from crosstally.tables import Marginal

__all__ = ["release_page"]

_BARS = 24  # of a chart; of more values the most frequent are drawn
_LISTED = 100  # values in the table below a chart
_ASSOCIATIONS = 15  # pairs that a page lists. Chosen: what a reader takes in at once
_WIDTH = 380  # of the bars, in pixels


@dataclass(frozen=True, slots=True)
class Flag:
    """A reliability: a sign that tells it without colour, and its word."""

    name: str
    sign: str

    @property
    def word(self) -> str:
        """What the sign means."""
        return text(f"flag_{self.name}")


_FLAGS = (Flag("good", "●●●"), Flag("fair", "●●○"), Flag("poor", "●○○"), Flag("unknown", "?"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A value and its count, as they are shown."""

    label: str
    count: str
    low: str
    high: str
    share: str
    flag: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An attribute: its picture and the numbers in it."""

    number: int
    attribute: Attribute
    picture: str
    note: str
    lines: tuple[Line, ...]
    left_out: int


def release_page(release: Release, *, digest: str | None = None, file_name: str = "people.release.parquet") -> str:
    """The page, as HTML that loads nothing.

    Args:
        release: What it is about.
        digest: The SHA-256 of the release file, to be cited.
        file_name: The name of the release file, for the lines that say how to ask further.
    """
    jinja = optional("jinja2", extra="pages")
    environment = jinja.Environment(
        loader=jinja.PackageLoader("crosstally.browser.explorer"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    markup = optional("markupsafe", extra="pages").Markup
    environment.undefined = jinja.StrictUndefined
    sections = list(_sections(release))
    pairs, measured_pairs = strongest_associations(release, _ASSOCIATIONS)
    flags = Counter(line.flag for section in sections for line in section.lines)
    about = release.schema.about
    style = environment.loader.get_source(environment, "page.css")[0]
    page = environment.get_template("release.html").render(
        t=text,
        style=markup(style),
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii"),
        release=release,
        about=about,
        language=(about.language if about else None) or "en",
        title=(about.title if about else None) or text("untitled"),
        rows=_rows(release),
        counted=release.schema.counted,
        numbers=f"{sum(each.values.size for each in release.measurements):,}",
        sections=sections,
        pairs=[(names, _decimals(found.value)) for names, found in pairs],
        measured_pairs=measured_pairs,
        flags=[(flag, flags[flag]) for flag in _FLAGS if flags[flag]],
        errors=[
            (e.ways, e.covered, e.tables, *map(_significant, (e.least, e.middle, e.most)))
            for e in expected_errors(release)
        ],
        promise=release.statement.plain(release.schema),
        citation=_citation(release, digest),
        commands=list(_commands(release.schema, file_name)),
        version=installed_versions()["crosstally"],
    )
    return str(page)


def _commands(schema: Schema, file_name: str) -> Iterator[str]:
    names = [shlex.quote(name) for name in schema.names[:2]]
    file = shlex.quote(file_name)
    yield f"crosstally inspect {file}"
    yield f"crosstally table {file} {' '.join(names)}"
    yield f"crosstally table {file} {' '.join(names)} -o table.xlsx"


def _rows(release: Release) -> str:
    if release.statement.rows is not None:
        return text("rows_public", rows=_count(release.statement.rows))
    if not release.estimate.covers(()):
        return text("unknown")
    total = release.marginal()
    low, high = total.interval(0.95)
    return text("rows_between", rows=_count(float(total.values)), low=_count(float(low)), high=_count(float(high)))


def _sections(release: Release) -> Iterator[Section]:
    schema = release.schema
    answers = release.marginals([(name,) for name in schema.names])
    for number, (attribute, answer) in enumerate(zip(schema.attributes, answers, strict=True), start=1):
        low, high = answer.interval(0.95)
        shown = _most_frequent(answer, _BARS)
        picture = _picture(attribute, answer, (low, high), shown)
        lines = tuple(_lines(answer, low, high, _most_frequent(answer, _LISTED)))
        note = "" if len(shown) == attribute.size else text("top_values", shown=len(shown), all=f"{attribute.size:,}")
        left_out = attribute.size - len(lines)
        yield Section(number=number, attribute=attribute, picture=picture, note=note, lines=lines, left_out=left_out)


def _most_frequent(answer: Marginal, number: int) -> NDArray[np.intp]:
    """The positions of the most frequent values, in the schema's order; all where they are few."""
    order = np.argsort(-answer.values, kind="stable")[:number]
    return np.sort(order)


def _picture(attribute: Attribute, answer: Marginal, ends: tuple[Any, Any], shown: NDArray[np.intp]) -> Any:
    part = (
        answer.schema
        if len(shown) == attribute.size
        else replace(answer.schema, attributes=(attribute.keeping(shown.tolist()),))
    )
    known = bool(np.isfinite(ends[0]).all())
    interval = (ends[0][shown], ends[1][shown]) if known else None
    chart = bar_chart(part, answer.values[shown], half_width=None, interval=interval, width=_WIDTH, across=True)
    return optional("markupsafe", extra="pages").Markup(
        inline_svg(chart, left=_spare(part))
    )  # drawn here: labels are escaped in it


def _spare(schema: Schema) -> int:
    return min(60, 4 + 2 * max(map(len, schema.attributes[0].labels)))


def _lines(answer: Marginal, low: Any, high: Any, shown: NDArray[np.intp]) -> Iterator[Line]:
    total, labels = float(answer.values.sum()), answer.schema.attributes[0].labels
    classes = reliability_classes(answer)
    for code in shown.tolist():
        value, ends = float(answer.values[code]), (float(low[code]), float(high[code]))
        yield Line(
            label=labels[code],
            count=_count(value),
            low=_count(ends[0]),
            high=_count(ends[1]),
            share=f"{100 * value / total:.1f}%" if total > 0 else "?",
            flag=_FLAGS[classes[code]],
        )


def _citation(release: Release, digest: str | None) -> str:
    about = release.schema.about
    facts = [] if about is None else [each for each in (about.source, about.period) if each]
    return text(
        "citation",
        title=(about.title if about else None) or text("untitled"),
        source=f"{', '.join(facts)}. " if facts else "",
        budget=str(release.statement.budget),
        version=installed_versions()["crosstally"],
        digest="" if digest is None else text("digest", digest=digest),
    )


def _count(number: float) -> str:
    return f"{round(number) or 0:,}" if math.isfinite(number) else "?"


def _decimals(number: float) -> str:
    return f"{number:.2f}"


def _significant(number: float) -> str:
    if not math.isfinite(number):
        return "?"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
