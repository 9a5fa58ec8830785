"""Generated rows that only experiments need; those of the demo are in ``crosstally.generate``."""
