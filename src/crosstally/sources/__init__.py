"""Rows as Arrow batches, counted into exact tables. Everything here is confidential."""

from crosstally.sources.count import count

__all__ = ["count"]
