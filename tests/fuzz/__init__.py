"""Forged files of every format, questions and sources: each is refused in one line, or opened, within its limits."""
