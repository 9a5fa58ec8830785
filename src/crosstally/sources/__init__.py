"""Rows as Arrow batches, counted into exact tables. Everything that comes of them here is confidential."""

from crosstally.sources.checks import ColumnReport, Report, check
from crosstally.sources.counts import EncodedRows, count, count_share
from crosstally.sources.drafts import Draft, DraftedColumn, draft
from crosstally.sources.notes import note_digest, note_reading, reading_digest
from crosstally.sources.parts import PartOrigin, Parts, merge_parts, write_part
from crosstally.sources.reading import Reading
from crosstally.sources.shares import Share

__all__ = [
    "ColumnReport",
    "Draft",
    "DraftedColumn",
    "EncodedRows",
    "PartOrigin",
    "Parts",
    "Reading",
    "Report",
    "Share",
    "check",
    "count",
    "count_share",
    "draft",
    "merge_parts",
    "note_digest",
    "note_reading",
    "reading_digest",
    "write_part",
]
