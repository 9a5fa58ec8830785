"""Every text of the pages, in one catalogue, so that other languages can follow."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ENGLISH", "text"]

ENGLISH: Mapping[str, str] = {
    "skip": "Skip to the content",
    "untitled": "Tables published under differential privacy",
    "contents": "On this page",
    "summary": "Summary",
    "rows_between": "{rows} ({low} to {high})",
    "rows_public": "{rows} (a public number)",
    "attributes": "attributes",
    "budget": "privacy budget",
    "measured": "numbers measured",
    "lead": (
        "Nobody's answers can be read from this page. Every number on it was computed from noisy measurements, so "
        "every number has an error, which is shown beside it."
    ),
    "attribute_list": "The attributes",
    "attribute": "attribute",
    "values": "values",
    "description": "description",
    "charts": "One attribute at a time",
    "charts_lead": (
        "Bars are estimates. The thin line at the end of a bar is an interval that holds the "
        "{estimand} with 95% confidence."
    ),
    "chart_of": "Count by {name}",
    "top_values": "The {shown} most frequent of {all} values.",
    "table_of": "The numbers",
    "value": "value",
    "count": "count",
    "low": "from",
    "high": "to",
    "reliability": "reliability",
    "share": "share",
    "more_values": "{number} more values are in the release.",
    "associations": "Which attributes are linked",
    "associations_lead": (
        "Cramér's V says how strongly two attributes are linked: 0 is not at all, 1 is completely. What noise "
        "alone adds to it on average is taken off. It has no interval here: small values may be noise."
    ),
    "associations_none": "No two attributes were measured together.",
    "associations_some": "The {shown} strongest of {all} pairs that were measured.",
    "pair": "attributes",
    "cramers_v": "Cramér's V",
    "unknown": "not known",
    "reliable": "How reliable the numbers are",
    "reliable_lead": (
        "A count is reliable when its error is small beside it. The signs follow the coefficient of variation, half of "
        "the interval's width over 1.96 times the count: ●●● below 16.5%, ●●○ below 33.3%, ●○○ above."
    ),
    "flag_good": "reliable",
    "flag_fair": "use with care",
    "flag_poor": "too unreliable to use",
    "flag_unknown": "not known",
    "cells_by_flag": "Counts on this page by reliability",
    "cells": "counts",
    "errors_lead": "The standard error of one count, by how many attributes a table has, before any correction:",
    "ways": "attributes of the table",
    "covered": "tables measured",
    "least": "least",
    "median": "median",
    "most": "most",
    "uncovered": (
        "Tables that were not measured can be asked for too. Their intervals rest on an assumption: that links which "
        "nobody measured are as strong as those that were."
    ),
    "privacy": "What is promised",
    "cite": "How to cite",
    "citation": (
        "{title}. {source}Table published under differential privacy ({budget}) with crosstally {version}.{digest}"
    ),
    "digest": " SHA-256 of the release file: {digest}.",
    "about_source": "Source",
    "about_period": "Period",
    "about_contact": "Contact",
    "about_licence": "Licence",
    "how": "How to ask for other tables",
    "how_lead": "Whoever has the release file can ask for any table, at no cost to privacy:",
    "made_by": "Written by crosstally {version}. This page is one file: it loads nothing and runs nothing.",
}


def text(key: str, **values: object) -> str:
    """A text of the catalogue, with values put into it."""
    return ENGLISH[key].format(**values) if values else ENGLISH[key]
