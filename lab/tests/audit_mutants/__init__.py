"""Twelve ways to break the promise, each with the part of the audit that must find it. Run: python -m audit_mutants."""
