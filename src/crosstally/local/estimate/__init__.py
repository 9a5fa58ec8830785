"""Estimates from counts of reports."""
