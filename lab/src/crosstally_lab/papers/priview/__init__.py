"""PriView (SIGMOD 2014)."""
