"""Every text of the review, in one place, so that languages can follow. Names in braces are filled in."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TEXTS", "text"]

TEXTS: Mapping[str, str] = {
    "language": "en",
    "site": "crosstally schema review",
    "skip": "Skip to the content",
    "confidential": "Confidential: exact numbers about real people, for the steward alone. No noise protects them. Do "
    "not share this screen, and end the review when you are done.",
    "footer": "Only this machine and this browser can reach the page. It ends after 30 minutes without a click. "
    "Nothing on it comes from another host, and no log is kept.",
    "nav.label": "Pages",
    "nav.overview": "Attributes",
    # The way in, and out
    "enter.title": "Open the schema review",
    "enter.done": "The review is open.",
    "enter.go_on": "Go on to the review",
    "enter.refused": "This code is not known, or it was used already. Begin the review again in the terminal.",
    "refused.title": "Not for you",
    "refused.host": "This address is not answered.",
    "refused.origin": "This form was sent from another page.",
    "refused.session": "Only the person who began this review can see it. Begin one in the terminal: crosstally schema "
    "review.",
    "refused.token": "This form is not one of this review. Nothing was changed.",
    "refused.old": "The schema has changed since this page was shown, perhaps in another tab. Nothing was changed: "
    "look at it again.",
    "refused.size": "This form is too large.",
    "refused.nothing": "There is nothing at this address.",
    "error.unforeseen": "Something went wrong. Nothing was saved. The terminal has more under {own}.",
    "ended.title": "The review has ended",
    "ended.saved": "All changes are saved in {file}.",
    "ended.unsaved": "Changes that were not saved are gone; {file} is as it was.",
    "ended.next": "Close this tab. Next, in the terminal:",
    # Overview
    "overview.lead": "{attributes} attributes, {rows} rows read. Labels, edges and names become public with a release: "
    "merge, rename or drop what is not publicly known.",
    "overview.attributes": "Attributes",
    "overview.cells": "{n} cells",
    "overview.few": "{n} labels of fewer than {few} people",
    "overview.few_one": "1 label of fewer than {few} people",
    "overview.outside": "{n} rows have values that are not in the schema",
    "overview.more": "and {n} more",
    "overview.unknown": "Its rows are not counted here: it has too many different values.",
    "overview.draft": "This schema is a draft: no release takes it until you have reviewed it.",
    "overview.reviewed": "This schema is reviewed: it can be planned and released once it is saved.",
    "overview.approve": "I have reviewed it: labels, edges and names may become public",
    "save.title": "File",
    "save.button": "Save {file}",
    "save.undo": "Undo the last change",
    "save.changed": "There are changes that are not saved.",
    "save.unchanged": "Everything is saved.",
    "save.saved": "Saved. The file that was there before is kept as {previous}.",
    "save.end": "End the review",
    "save.end_unsaved": "End without saving",
    # The outlook
    "outlook.title": "The error to expect",
    "outlook.lead": "Predicted, with {budget}: nothing is spent. It changes as you edit.",
    "outlook.tables": "Tables",
    "outlook.before": "As in the file",
    "outlook.now": "Now",
    "outlook.unknown": "predicted from smaller tables, not known beforehand",
    "outlook.none": "No error can be predicted: {reason}",
    "outlook.same": "unchanged",
    "outlook.times": "{times} times smaller",
    "outlook.times_larger": "{times} times larger",
    "outlook.epsilon": "Budget ε",
    "outlook.ways": "Tables over how many attributes",
    "outlook.ways_hint": "Empty: all of one and two.",
    "outlook.submit": "Predict",
    # An attribute
    "attribute.back": "All attributes",
    "attribute.column": "Read from the column {column}.",
    "attribute.rules": "Rules and name",
    "attribute.distribution": "Distribution",
    "attribute.pick": "Choose",
    "attribute.label": "Label",
    "attribute.rows": "Rows",
    "attribute.share": "Share",
    "attribute.texts": "Written in the file as",
    "attribute.position": "Place",
    "attribute.few": "few people",
    "attribute.few_hint": "A label of fewer than {few} people may tell that one person is there: merge it, unless "
    "everybody knows that it exists.",
    "attribute.nobody": "nobody",
    "attribute.outside": "not in the schema",
    "attribute.missing": "Rows without a value, which have no cell: {n}.",
    "attribute.more_texts": "and {n} more",
    "attribute.more_outside": "{n} more values that are not in the schema are not shown.",
    "merge.title": "Merge or rename what is chosen",
    "merge.into": "It becomes",
    "merge.hint": "A label of the list, a new one, (missing) or (other).",
    "merge.hint_bins": "Bins that stand side by side; give the new name.",
    "merge.button": "Merge or rename",
    "reorder.button": "Put in this order",
    "cut.title": "Cut",
    "cut.edges": "Edges of the bins",
    "cut.hint": "Numbers with blanks between them; a decimal point, no thousands marks.",
    "cut.public": "These edges are publicly known, not chosen by these rows",
    "cut.button": "Cut here",
    "periods.title": "Periods",
    "periods.days": "Days that bound the periods",
    "periods.hint": "One day more than there are periods, as 2024-12-31, with blanks between; the last day counts too.",
    "periods.labels": "The label of each period, on a line of its own",
    "periods.public": "These periods are publicly known, not chosen by these rows",
    "periods.button": "Set the periods",
    "describe.title": "In words",
    "describe.description": "What it is (public)",
    "describe.measured_in": "What its numbers are measured in",
    "describe.button": "Describe it so",
    "facts.title": "What is public anyway",
    "facts.hint": (
        "Facts as in the schema's file, such as "
        '[{"total": 48842}, {"impossible": {"age": ["0-17"], "licence": ["yes"]}}]. '
        "They become public, and must not be read off these rows."
    ),
    "facts.label": "The list of facts",
    "facts.button": "Set the facts",
    "origin.title": "Where these cells come from",
    "origin.data": "They were chosen by looking at the rows: the privacy statement will say that ε does not cover it.",
    "origin.public": "They are publicly known, whoever is in the data.",
    "origin.button": "Note that",
    "outside.title": "Other values",
    "outside.rule": "Values that are none of the labels",
    "outside.refuse": "stop the release",
    "outside.other": "count in a cell (other)",
    "outside.drop": "leave the row out",
    "outside.missing": "Missing values have a cell",
    "outside.button": "Set",
    "rename.title": "Name",
    "rename.name": "Public name of the attribute",
    "rename.button": "Rename",
    "drop.title": "Drop",
    "drop.hint": "Leave this attribute out of all tables.",
    "drop.button": "Drop {name}",
}


def text(key: str, **names: object) -> str:
    """A text with its names filled in."""
    return TEXTS[key].format(**names) if names else TEXTS[key]
