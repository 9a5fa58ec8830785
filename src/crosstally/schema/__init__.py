"""What a table is about: its attributes, their labels, and whom the release protects."""

from crosstally.schema.attribute import MAX_VALUES, MISSING, OTHER, Attribute, Outside
from crosstally.schema.canonical import canonical_text
from crosstally.schema.schema import MAX_ATTRIBUTES, Schema, Unit

__all__ = [
    "MAX_ATTRIBUTES",
    "MAX_VALUES",
    "MISSING",
    "OTHER",
    "Attribute",
    "Outside",
    "Schema",
    "Unit",
    "canonical_text",
]
