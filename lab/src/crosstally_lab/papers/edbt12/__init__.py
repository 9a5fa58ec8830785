"""Integrating historical noisy answers (EDBT 2012)."""
