"""Rows as Arrow batches, counted into exact tables. Everything that comes of them here is confidential."""

from crosstally.sources.checks import ColumnReport, Report, check
from crosstally.sources.counts import EncodedRows, count
from crosstally.sources.drafts import Draft, draft

__all__ = ["ColumnReport", "Draft", "EncodedRows", "Report", "check", "count", "draft"]
