"""Schemas of many attributes, most of few values and some of very many."""

from conftest import schema_of
from crosstally.schema import Schema

_LARGEST = 1_001
_POWER = 11
"""48 attributes then have 8.9 million cells in pairs; the real table that such schemas stand for has 9.1 million."""


def wide_schema(attributes: int) -> Schema:
    """So many attributes, from 1,001 values down to 2."""
    shares = (i / (attributes - 1) for i in reversed(range(attributes)))
    return schema_of(*(2 + round((_LARGEST - 2) * share**_POWER) for share in shares))
