"""Rows as Arrow batches, counted into exact tables. Everything that comes of them here is confidential."""

from crosstally.sources.checks import ColumnReport, Report, check
from crosstally.sources.counts import count
from crosstally.sources.drafts import Draft, draft
from crosstally.sources.reading import Reading
from crosstally.sources.table_objects import is_read_again

__all__ = ["ColumnReport", "Draft", "Reading", "Report", "check", "count", "draft", "is_read_again"]
