"""Rows as Arrow batches, counted into exact tables. Everything that comes of them here is confidential."""

from crosstally.sources.checks import ColumnReport, Report, check
from crosstally.sources.counts import EncodedRows, count
from crosstally.sources.drafts import Draft, DraftedColumn, draft
from crosstally.sources.notes import note_reading
from crosstally.sources.reading import Reading

__all__ = [
    "ColumnReport",
    "Draft",
    "DraftedColumn",
    "EncodedRows",
    "Reading",
    "Report",
    "check",
    "count",
    "draft",
    "note_reading",
]
