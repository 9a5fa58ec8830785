"""The schema of a table: its attributes, their labels, and the privacy unit."""

from crosstally.schema.attribute import MAX_VALUES, MISSING, OTHER, Attribute, Level, Outside
from crosstally.schema.canonical import canonical_text
from crosstally.schema.facts import About, Impossible, PrivateBins, PublicCounts
from crosstally.schema.measures import Measure
from crosstally.schema.reading import ColumnName, ColumnReading, DateReading, RowReading, ValueRule
from crosstally.schema.schema import MAX_ATTRIBUTES, DerivedSchema, Schema, check_schema
from crosstally.schema.unit import Unit

__all__ = [
    "MAX_ATTRIBUTES",
    "MAX_VALUES",
    "MISSING",
    "OTHER",
    "About",
    "Attribute",
    "ColumnName",
    "ColumnReading",
    "DateReading",
    "DerivedSchema",
    "Impossible",
    "Level",
    "Measure",
    "Outside",
    "PrivateBins",
    "PublicCounts",
    "RowReading",
    "Schema",
    "Unit",
    "ValueRule",
    "canonical_text",
    "check_schema",
]
