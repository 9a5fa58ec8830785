"""An answer as a dataset of JSON-stat 2.0 (https://json-stat.org/full/)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crosstally.exports.cells import known, labelled_cells, without_dust
from crosstally.tables import USUAL_LEVEL

if TYPE_CHECKING:
    from crosstally.schema import Attribute
    from crosstally.tables import Marginal

__all__ = ["json_stat_text"]


def json_stat_text(marginal: Marginal, *, level: float | None = None) -> str:
    """A JSON-stat 2.0 dataset; errors and the ends of intervals of each value and the condition are its extension."""
    attributes, cells = marginal.schema.attributes, list(labelled_cells(marginal, level=level))
    condition = f", where {marginal.where}" if marginal.where else ""
    value = {
        "version": "2.0",
        "class": "dataset",
        "label": (" by ".join(marginal.attributes) or "number of rows") + condition,
        "source": f"crosstally release, {marginal.caption}",
        "id": list(marginal.attributes),
        "size": list(marginal.schema.shape),
        "dimension": {attribute.name: _dimension(attribute) for attribute in attributes},
        "value": [without_dust(cell.count) for cell in cells],
        "extension": {
            "std_error": [known(cell.std_error) for cell in cells],
            "count_low": [known(cell.low) for cell in cells],
            "count_high": [known(cell.high) for cell in cells],
            "interval_level": level or USUAL_LEVEL,
            "error_kind": marginal.error_kind.value,
            "method": marginal.method,
            "corrected": marginal.corrected,
            "relaxed": marginal.relaxed,
            "where": marginal.where or None,
        },
    }
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _dimension(attribute: Attribute) -> dict[str, Any]:
    category = {"index": list(attribute.labels), "label": {label: label for label in attribute.labels}}
    return {"label": attribute.name, "category": category}
