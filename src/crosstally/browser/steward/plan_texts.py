"""Every text of the plan page, in one place, so that languages can follow. Names in braces are filled in."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TEXTS", "text"]

TEXTS: Mapping[str, str] = {
    "language": "en",
    "site": "crosstally plan",
    "skip": "Skip to the content",
    "title": "Plan a release",
    "lead": "{attributes} attributes of {file}. This page has the schema and no data: trying out costs nothing.",
    "footer": "Errors are predicted from the plan alone. Nothing on this page comes from another host.",
    "form.title": "What is it to be?",
    "form.epsilon": "Budget ε",
    "form.delta": "δ, if any",
    "form.delta_hint": "Empty: none. Gaussian noise; far below 1 over the number of people.",
    "form.rows": "About how many rows",
    "form.rows_hint": "A guess will do. Empty: errors are shown as counts.",
    "form.neighbours": "What is protected",
    "form.add-remove": "who is in the data",
    "form.replace": "what rows say",
    "form.ways": "Tables over how many attributes",
    "form.ways_hint": "Empty: all of one and two.",
    "form.table": "Or the tables you care about",
    "form.table_hint": "Names with commas, such as {example}.",
    "form.values": "Fewer values",
    "form.values_hint": "Into how many cells each attribute would be merged.",
    "form.cells_of": "Cells of {name}",
    "form.submit": "Plan",
    "form.reset": "Start again",
    "budget.title": "What ε = {epsilon} means",
    "budget.title_delta": "What ε = {epsilon} with δ = {delta} means",
    "expected.title": "The error to expect",
    "expected.none": "This cannot be planned: {reason}",
    "advice.title": "What would change it most",
    "advice.lead": "Each is planned, nothing is guessed. About {tables}.",
    "advice.none": "Nothing that this page knows of would change it by more than a few percent.",
    "advice.try": "Try this",
    "rows.title": "With other numbers of rows",
    "rows.lead": "The same plan: its error does not grow with the rows, so more rows make it smaller beside them.",
    "rows.rows": "Rows",
    "rows.unknown": "predicted from smaller tables",
    "caveats.title": "To keep in mind",
    "caveats.draft": "The schema is a draft: review it before a release (crosstally schema review).",
    "next.title": "Next",
    "next.text": "The same in a terminal; -o writes a plan that can be approved and run as it is:",
    "next.merged": "Merge the values in the schema first: crosstally schema review shows who has which.",
    "refused.host": "This server does not answer for this host name.",
    "refused.nothing": "There is nothing at this address.",
    "refused.busy": "Too many requests at once: try again in a moment.",
    "error.title": "This cannot be shown",
    "error.unforeseen": "Something went wrong on the server. Its log has more under {own}.",
}


def text(key: str, **names: object) -> str:
    """A text with its names filled in."""
    return TEXTS[key].format(**names) if names else TEXTS[key]
