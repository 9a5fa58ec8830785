"""An answer in the formats that programs read: CSV, JSON, JSON-stat 2.0 and Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from crosstally.exports.selection import Axis, Selection

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Format", "arrow", "csv_text", "json_stat_text", "json_text"]


class Format(StrEnum):
    """How a table is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSON_STAT = "json-stat"
    PARQUET = "parquet"


def csv_text(selection: Selection) -> str:
    """One line for each cell: its labels, its count and its standard error (empty when not known)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(axis.name for axis in selection.columns), *selection.number_columns])
    error = "" if math.isnan(selection.std_error) else repr(selection.std_error)
    writer.writerows([*labels, repr(_rounded(value)), error] for labels, value in selection.cells())
    return text.getvalue()


def json_text(selection: Selection) -> str:
    """An object with the cells and what is known about their error."""
    return _dumps(
        {
            "attributes": [axis.name for axis in selection.axes],
            "where": {axis.name: axis.labels[0] for axis in selection.fixed},
            "method": selection.method,
            "error_kind": selection.error_kind,
            "corrected": selection.corrected,
            "relaxed": selection.relaxed,
            "std_error": _number(selection.std_error),
            "level": selection.level,
            "margin": _number(selection.margin),
            "source": selection.caption,
            "cells": [
                {"labels": list(labels[: len(selection.axes)]), "count": _rounded(value)}
                for labels, value in selection.cells()
            ],
        }
    )


def json_stat_text(selection: Selection) -> str:
    """A JSON-stat 2.0 dataset; the standard error of each value stands in its extension."""
    axes = selection.columns
    values = [_rounded(value) for _, value in selection.cells()]
    return _dumps(
        {
            "version": "2.0",
            "class": "dataset",
            "label": " by ".join(axis.name for axis in axes) or "number of rows",
            "source": f"crosstally release, {selection.caption}",
            "id": [axis.name for axis in axes],
            "size": [len(axis.labels) for axis in axes],
            "dimension": {axis.name: _dimension(axis) for axis in axes},
            "value": values,
            "extension": {
                "std_error": [_number(selection.std_error)] * len(values),
                "error_kind": selection.error_kind,
                "method": selection.method,
                "corrected": selection.corrected,
                "relaxed": selection.relaxed,
            },
        }
    )


def _dimension(axis: Axis) -> dict[str, Any]:
    category = {"index": list(axis.labels), "label": {label: label for label in axis.labels}}
    return {"label": axis.name, "category": category}


def arrow(selection: Selection) -> pa.Table:
    """One row for each cell, as CSV has them."""
    import pyarrow as pa

    cells = list(selection.cells())
    columns = {axis.name: pa.array([labels[i] for labels, _ in cells]) for i, axis in enumerate(selection.columns)}
    count, std_error = selection.number_columns
    columns[count] = pa.array([value for _, value in cells], pa.float64())
    columns[std_error] = pa.array([_number(selection.std_error)] * len(cells), pa.float64())
    return pa.table(columns)


def _rounded(value: float) -> float:
    """The value without the dust of floating point: 4.0 where 3.9999999999999982 was computed."""
    return round(value, 9) + 0.0


def _number(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
