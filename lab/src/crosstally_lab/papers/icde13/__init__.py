"""Strategy and recovery with non-uniform noise (ICDE 2013)."""
