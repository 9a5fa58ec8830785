"""Consistent integer tables."""
