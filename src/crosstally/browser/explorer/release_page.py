"""A page to share: one file that describes a release to readers without tools."""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.analysis.associations import cramers_v, squared_v
from crosstally.analysis.quality_flags import reliability_classes
from crosstally.answers.marginal import Marginal
from crosstally.browser.common.site import environment, texts_of
from crosstally.browser.explorer.pictures import inline_svg
from crosstally.charts import bar_chart
from crosstally.checks import optional
from crosstally.releases.expected import expected_errors
from crosstally.releases.release import Release
from crosstally.releases.statement import installed_versions
from crosstally.reliability import PUBLISHED
from crosstally.schema import Attribute, Schema
from crosstally.synthesis.synthetic_data import batches
from crosstally.text_table import figure_text

text = texts_of("page")

_BARS = 24  # of a chart; if there are more values, the most frequent are drawn
_LISTED = 100  # values in the table below a chart
_ASSOCIATIONS = 15  # pairs that a page lists. Chosen: what is readable at a glance
_LARGEST_PAIR = 200_000  # cells; a larger table has too few people in a cell to say anything
_MOST_PAIRS = 20_000  # limits time: all pairs of 200 attributes. Later ones are not ranked
_WIDTH = 380  # of the bars, in pixels
_DOTS = dict(zip(PUBLISHED, ("●●●", "●●○", "●○○", "?"), strict=True))  # they are readable without colour


def release_page(release: Release, *, digest: str | None = None, file_name: str = "people.release.parquet") -> str:
    """The page, as HTML that loads nothing.

    Args:
        release: The release.
        digest: The SHA-256 of the release file, to be cited.
        file_name: The name of the release file, for the lines that say how to ask further.
    """
    templates = environment(Path(__file__).parent / "templates", text, extra="pages")
    markup = optional("markupsafe", extra="pages").Markup
    sections = list(_sections(release))
    pairs, measured_pairs = strongest_associations(release, _ASSOCIATIONS)
    found = Counter(line["reliability"] for section in sections for line in section["lines"])
    about = release.schema.about
    style = templates.loader.get_source(templates, "page.css")[0]
    page = templates.get_template("release.html").render(
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
        pairs=[(names, figure_text(each.value, *map(float, each.interval()))) for names, each in pairs],
        measured_pairs=measured_pairs,
        dots=_DOTS,
        reliabilities=[(each, found[each]) for each in PUBLISHED if found[each]],
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


def strongest_associations(release: Release, number: int) -> tuple[list[tuple[tuple[str, ...], Marginal]], int]:
    """The most strongly associated measured pairs, with Cramér's V of each, and how many pairs were measured."""
    schema = release.schema
    pairs = [names for names in combinations(schema.names, 2) if math.prod(schema.sizes(names)) <= _LARGEST_PAIR]
    pairs = [names for names, known in zip(pairs, release.estimate.covered(pairs), strict=True) if known][:_MOST_PAIRS]
    found: list[tuple[float, Marginal]] = []
    for batch in batches(schema, pairs):
        found += [(float(squared_v(each.values[None])[0]), each) for each in release.marginals(batch)]
        found = sorted(found, key=lambda pair: -pair[0])[:number]
    out = [(each.attributes, cramers_v(each)) for _, each in found]
    return sorted(out, key=lambda each: -each[1].value), len(pairs)


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


def _sections(release: Release) -> Iterator[dict[str, Any]]:
    """For each attribute its picture and the numbers in it."""
    schema = release.schema
    answers = release.marginals([(name,) for name in schema.names])
    for number, (attribute, answer) in enumerate(zip(schema.attributes, answers, strict=True), start=1):
        low, high = answer.interval(0.95)
        shown = _most_frequent(answer, _BARS)
        picture = _picture(attribute, answer, (low, high), shown)
        lines = tuple(_lines(answer, low, high, _most_frequent(answer, _LISTED)))
        note = "" if len(shown) == attribute.size else text("top_values", shown=len(shown), all=f"{attribute.size:,}")
        yield {
            "number": number,
            "attribute": attribute,
            "picture": picture,
            "note": note,
            "lines": lines,
            "left_out": attribute.size - len(lines),
        }


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


def _lines(answer: Marginal, low: Any, high: Any, shown: NDArray[np.intp]) -> Iterator[dict[str, Any]]:
    """The displayed count of each value."""
    total, labels = float(answer.values.sum()), answer.schema.attributes[0].labels
    classes = reliability_classes(answer)
    for code in shown.tolist():
        value, ends = float(answer.values[code]), (float(low[code]), float(high[code]))
        yield {
            "label": labels[code],
            "count": _count(value),
            "low": _count(ends[0]),
            "high": _count(ends[1]),
            "share": f"{100 * value / total:.1f}%" if total > 0 else "?",
            "reliability": PUBLISHED[classes[code]],
        }


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


def _significant(number: float) -> str:
    if not math.isfinite(number):
        return "?"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
