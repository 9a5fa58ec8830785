"""Rows as Arrow batches, counted into exact tables. Everything that comes of them here is confidential."""

from crosstally.sources.checks import ColumnReport, Report, check
from crosstally.sources.counts import count
from crosstally.sources.drafts import Draft, DraftedColumn, draft
from crosstally.sources.notes import note_reading
from crosstally.sources.rows import is_read_again

__all__ = [
    "ColumnReport",
    "Draft",
    "DraftedColumn",
    "Report",
    "check",
    "count",
    "draft",
    "is_read_again",
    "note_reading",
]
