"""Rows as Arrow batches, counted into exact tables. Everything that comes of them here is confidential."""

from crosstally.sources.counts import EncodedRows
from crosstally.sources.detection import Detected, detect_reading
from crosstally.sources.drafts import Draft, DraftedColumn, draft
from crosstally.sources.files import Parts
from crosstally.sources.inspection import ColumnReport, Report, check
from crosstally.sources.kinds import count, count_share, encode_rows, source_of
from crosstally.sources.parts import PartOrigin, Share, merge_parts, plan_digest, write_part
from crosstally.sources.reading_options import Reading
from crosstally.sources.source import RowEncoding, note_reading, unit_column

__all__ = [
    "ColumnReport",
    "Detected",
    "Draft",
    "DraftedColumn",
    "EncodedRows",
    "PartOrigin",
    "Parts",
    "Reading",
    "Report",
    "RowEncoding",
    "Share",
    "check",
    "count",
    "count_share",
    "detect_reading",
    "draft",
    "encode_rows",
    "merge_parts",
    "note_reading",
    "plan_digest",
    "source_of",
    "unit_column",
    "write_part",
]
