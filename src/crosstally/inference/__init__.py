"""From measurements to one consistent estimate."""

from crosstally.inference.estimate import estimate

__all__ = ["estimate"]
