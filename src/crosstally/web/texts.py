"""Every text of the interface, in one place, so that languages can follow. Names in braces are filled in."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TEXTS", "text"]

TEXTS: Mapping[str, str] = {
    "language": "en",
    "and": "and",
    "site": "crosstally",
    "skip": "Skip to the content",
    "nav.label": "Pages",
    "nav.start": "Overview",
    "nav.table": "Tables",
    "nav.privacy": "Privacy",
    "footer": "Numbers carry noise that protects people. Nothing on this page comes from another host.",
    # The start page
    "start.lead": "{attributes} attributes about {rows} people. Ask for any table; each number comes with its error.",
    "start.lead_unknown": "{attributes} attributes. Ask for any table; each number comes with its error.",
    "start.about": "What this is",
    "start.attributes": "Attributes",
    "start.search": "Find an attribute",
    "start.search_hint": "Type a part of its name or of one of its values.",
    "start.search_button": "Search",
    "start.found": "{found} of {all} attributes",
    "start.none": "No attribute has this in its name, description or values.",
    "start.values": "{n} values",
    "start.api": "For programs",
    "start.api_text": "The same tables as JSON-stat, CSV, Parquet, XLSX, PX and SDMX-CSV, and SQL:",
    "about.title": "Title",
    "about.source": "Source",
    "about.period": "Period",
    "about.contact": "Contact",
    "about.licence": "Licence",
    "about.language": "Language",
    "about.file": "Release",
    "about.promise": "Privacy",
    "about.measured": "Measured",
    "about.numbers": "{n} noisy numbers",
    # The privacy page
    "privacy.title": "What is promised to the people in these tables",
    "privacy.short": "In short",
    "privacy.why": "Why numbers are noisy",
    "privacy.why_text": "Random noise was added once, when the release was made. Asking for more tables adds none, "
    "costs nothing and tells nothing more about anybody: every page here is computed from the release alone. This "
    "server has no rows.",
    # The table page
    "table.title": "Tables",
    "table.choose": "Choose a table",
    "table.rows": "Rows",
    "table.columns": "Columns",
    "table.add": "Add to {side}",
    "table.add_hint": "Type to find one of {n} attributes.",
    "table.filter": "Filter",
    "table.filter_add": "Filter by",
    "table.keep": "Keep values of {name}",
    "table.keep_hint": "None checked keeps all.",
    "table.where": "Condition",
    "table.where_hint": "For example: {example}",
    "table.show": "Numbers",
    "table.show.count": "counts",
    "table.show.row": "shares of the row",
    "table.show.column": "shares of the column",
    "table.show.total": "shares of the total",
    "table.order": "Order of rows",
    "table.order.schema": "as in the schema",
    "table.order.most": "largest first",
    "table.order.least": "smallest first",
    "table.top": "Rows shown, at most",
    "table.top_hint": "Empty shows all.",
    "table.chart": "Chart",
    "table.chart.auto": "what fits",
    "table.chart.bars": "bars with intervals",
    "table.chart.heat": "heat map",
    "table.chart.none": "none",
    "table.level": "Intervals",
    "table.level_of": "{percent} sure",
    "table.submit": "Show table",
    "table.swap": "Swap rows and columns",
    "table.clear": "Start again",
    "table.remove": "uncheck to remove",
    "table.total": "People",
    "table.caption": "{quantity} by {names}",
    "table.caption_where": "{quantity} by {names}, where {where}",
    "table.caption_total": "Number of people",
    "table.caption_total_where": "Number of people where {where}",
    "table.interval_note": "Below each number: an interval that holds the true one with {percent} confidence.",
    "table.interval_unknown": "No interval is known for these numbers.",
    "table.left_out": "{n} of {all} rows are not shown; they hold {share} of what is counted. Downloads have all rows.",
    "table.too_large": "This table has {cells} cells; a page shows at most {most}. Filter it, ask for its largest "
    "rows, or download it whole.",
    "quantity.count": "Count",
    "quantity.row": "Share of the row",
    "quantity.column": "Share of the column",
    "quantity.total": "Share of the total",
    "shares.ends": "The intervals are those of the counts, divided by the estimated totals: the error of the totals "
    "themselves is left out.",
    "chart.title": "Chart",
    "chart.alt": "Chart of {caption}. The table beside it has the same numbers.",
    "chart.too_large": "A chart shows at most {most} numbers, this table has {cells}: ask for its largest rows.",
    "chart.nothing": "One number needs no chart.",
    "chart.interval": "lines are {percent} intervals; ",
    "chart.signs": "E: use with care, F: too unreliable to use",
    "chart.no_interval": "the error is not known; ",
    "numbers.title": "Table",
    # Reliability
    "reliability.title": "How reliable",
    "reliability.intro": "Signs follow the coefficient of variation: the standard error over the number.",
    "reliability.good": "no sign: reliable, at most {first}",
    "reliability.care": "E: use with care, up to {second}",
    "reliability.poor": "F: too unreliable to use, above {second}",
    "reliability.unknown": "?: the error is not known",
    "reliability.short.good": "reliable",
    "reliability.short.care": "use with care",
    "reliability.short.poor": "too unreliable to use",
    "reliability.short.unknown": "error not known",
    # How a table was obtained
    "how.title": "How was this obtained?",
    "how.exact": "This table was measured, or follows from measured ones by addition. Its errors are exactly known.",
    "how.corrected": "This table was measured, with noise. Negative counts were then corrected; intervals are those of "
    "the corrected numbers, found by repeating the same computation on noise drawn again.",
    "how.modelled": "Nobody measured this table. It was put together from smaller tables that were, by {method}; "
    "intervals assume that what is missing is as large as what was measured elsewhere.",
    "how.bounds": "Some of these attributes were never measured together. The numbers are put together by {method}; the "
    "intervals are all that the measured tables allow, whatever the truth is.",
    "how.estimated": "This table was measured, with noise whose size is itself estimated.",
    "how.none": "Nobody measured all of this table. It was put together from smaller ones, by {method}; how far it is "
    "from the truth is not known.",
    "how.relaxed": "Noise leaves tables that do not quite agree: measured sums may differ from this table's by up to "
    "{relaxed}.",
    "how.where": "Only people are counted of whom this is true: {where}.",
    "how.noise": "Noise was added once, when the release was made. Looking again gives the same numbers.",
    "method.least-squares": "least squares",
    "method.maximum-entropy": "maximum entropy, which assumes nothing that was not measured",
    "method.linear-program": "the least differences",
    # Downloads and code
    "download.title": "Download",
    "download.note": "Files hold the counts of the whole table with their errors and intervals; pictures show what is "
    "shown here.",
    "copy.title": "Copy as",
    "copy.python": "Python",
    "copy.shell": "Command line",
    "copy.sql": "SQL",
    "copy.curl": "curl",
    "copy.button": "Copy",
    "copy.done": "Copied.",
    "script.shown": "{shown} of {all} shown",
    # Errors
    "error.title": "This cannot be shown",
    "error.back": "Back to the overview",
    "error.id": "Error {own}",
    "error.host": "This server does not answer for this host name; see --allow-host.",
    "error.unforeseen": "Something went wrong on the server. Its log has more under this id.",
    "error.not_found": "There is nothing at this address.",
    "error.method": "Only GET is answered.",
    "error.busy": "This takes longer than {seconds} seconds, or others are being served. Try again in a moment: what "
    "was begun is finished and kept.",
    "error.too_large": "This table would have {cells} cells; {format} holds at most {most} at once. Up to {streamed} "
    "are streamed as CSV or Parquet.",
    "error.far_too_large": "This table would have {cells} cells; at most {most} are answered.",
    "error.format": "There is no format {given}; there are {known}.",
    "error.parameter": "There is no parameter {given}.",
    "error.table": "There is no table {given}; there is {known}.",
    "error.statement": "A statement must have 1 to {most} characters.",
}


def text(key: str, **names: object) -> str:
    """A text with its names filled in."""
    return TEXTS[key].format(**names) if names else TEXTS[key]
