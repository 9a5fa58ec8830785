"""The release file: its format and ``header``, its ``reader``, which checks all of it, and its ``writer``."""
