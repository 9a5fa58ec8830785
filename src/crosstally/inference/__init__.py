"""From measurements to one consistent estimate."""

from crosstally.inference.estimates import estimate

__all__ = ["estimate"]
