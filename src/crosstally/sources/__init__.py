"""Rows as Arrow batches, counted into confidential tables."""
