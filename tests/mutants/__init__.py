"""Planted faults, each with the one test that must catch it. Run: python -m mutants."""
