"""An answer as JSON: as an object of its cells, and as a dataset of JSON-stat 2.0 (https://json-stat.org/full/).

The terminal writes datasets whose codes are labels, with errors as an extension. The API writes those of PxWeb's
second API: codes that can stand in a list, and a dimension of measures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from crosstally.answers.marginal import USUAL_LEVEL
from crosstally.exports.formats import (
    MEASURES,
    common,
    free_name,
    known,
    labelled_cells,
    margins,
    measures,
    without_dust,
)

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal
    from crosstally.schema import Attribute, Schema


_SAFE = re.compile(r"[^,\[\]*?]+")
"""Labels that can be used as codes; the other characters have a meaning in a list of codes."""


def json_text(marginal: Marginal, *, level: float | None = None) -> str:
    """An object with the cells and what is known about their errors.

    ``std_error`` and ``margin`` of the table are null where its cells do not share one; each cell has its own.
    ``low`` and ``high`` are the ends of intervals at ``interval_level``, which is 95% where no level is asked.
    """
    half = margins(marginal, level)
    value = {
        "attributes": list(marginal.attributes),
        "where": marginal.where or None,
        "method": marginal.method,
        "error_kind": marginal.error_kind.value,
        "assumption": marginal.error_kind.assumption or None,
        "corrected": marginal.corrected,
        "relaxed": marginal.relaxed,
        "std_error": common(marginal.std_error),
        "level": level,
        "interval_level": level or USUAL_LEVEL,
        "margin": common(half),
        "source": marginal.caption,
        "counted": marginal.schema.counted,
        "cells": [
            {
                "labels": list(cell.labels),
                marginal.quantity: without_dust(cell.count),
                "std_error": known(cell.std_error),
                "margin": known(margin),
                "low": known(cell.low),
                "high": known(cell.high),
            }
            for cell, margin in zip(labelled_cells(marginal, level=level), half.ravel().tolist(), strict=True)
        ],
    }
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def json_stat_text(marginal: Marginal, *, level: float | None = None) -> str:
    """A JSON-stat 2.0 dataset; errors and the ends of intervals of each value and the condition are its extension."""
    attributes, cells = marginal.schema.attributes, list(labelled_cells(marginal, level=level))
    condition = f", where {marginal.where}" if marginal.where else ""
    value = {
        "version": "2.0",
        "class": "dataset",
        "label": (" by ".join(marginal.attributes) or marginal.schema.total_title) + condition,
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
            "counted": marginal.schema.counted,
            **_how(marginal),
        },
    }
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _how(marginal: Marginal) -> dict[str, Any]:
    """How the numbers came about."""
    return {
        "error_kind": marginal.error_kind.value,
        "method": marginal.method,
        "corrected": marginal.corrected,
        "relaxed": marginal.relaxed,
        "where": marginal.where or None,
    }


def _dimension(attribute: Attribute) -> dict[str, Any]:
    category = {"index": list(attribute.labels), "label": {label: label for label in attribute.labels}}
    return {"label": attribute.name, "category": category}


# As PxWeb has it


def codes_of(attribute: Attribute) -> tuple[str, ...]:
    """A code for each value: its label where that may be one, else its number behind a C.

    >>> from crosstally.schema import Attribute
    >>> codes_of(Attribute("age", ["18", "a, b"]))
    ('18', 'C1')
    """
    own = {label for label in attribute.labels if _SAFE.fullmatch(label)}
    out = []
    for number, label in enumerate(attribute.labels):
        code = label if label in own else f"C{number}"
        while label not in own and code in own:
            code += "_"
        out.append(code)
    return tuple(out)


def measure_name(names: Sequence[str]) -> str:
    """The name of the dimension of measures."""
    return free_name("ContentsCode", names)


def json_stat_metadata(schema: Schema, *, label: str, source: str) -> dict[str, Any]:
    """A dataset without values over all attributes, each of which may be left out."""
    return _dataset(schema, schema.attributes, {}, label=label, source=source) | {
        "extension": {
            "elimination": dict.fromkeys(schema.names, True),
            "descriptions": {each.name: each.description for each in schema.attributes if each.description},
        }
    }


def json_stat_coded_text(marginal: Marginal, whole: Schema, *, level: float | None = None) -> str:
    """A dataset with values; ``whole`` has all values of each attribute, so that codes stay the same under filters."""
    numbers = measures(marginal, level=level)
    codes = {each.name: _codes(each, whole[each.name]) for each in marginal.schema.attributes}
    label = " by ".join(marginal.attributes) or marginal.schema.total_title
    dataset = _dataset(marginal.schema, marginal.schema.attributes, codes, label=label, source=marginal.caption)
    dataset["value"] = list(chain.from_iterable(zip(*numbers, strict=True)))
    dataset["extension"] = {**_how(marginal), "level": level or USUAL_LEVEL}
    return json.dumps(dataset, ensure_ascii=False, allow_nan=False)


def _codes(shown: Attribute, whole: Attribute) -> dict[str, str]:
    """The codes of labels: those of the whole attribute, or their own where values were put together."""
    attribute = whole if set(shown.labels) <= set(whole.labels) else shown
    return dict(zip(attribute.labels, codes_of(attribute), strict=True))


def _dataset(
    schema: Schema,
    attributes: Sequence[Attribute],
    codes: dict[str, dict[str, str]],
    *,
    label: str,
    source: str,
) -> dict[str, Any]:
    measure = measure_name(schema.names)
    dimension: dict[str, Any] = {}
    for attribute in attributes:
        own = codes.get(attribute.name) or dict(zip(attribute.labels, codes_of(attribute), strict=True))
        index = [own[each] for each in attribute.labels]
        labels = dict(zip(index, attribute.labels, strict=True))
        dimension[attribute.name] = {"label": attribute.name, "category": {"index": index, "label": labels}}
    unit = {each: {"base": schema.counted, "decimals": 0} for each in MEASURES}
    names = {each: each for each in MEASURES}
    dimension[measure] = {
        "label": "measure",
        "category": {"index": list(MEASURES), "label": names, "unit": unit},
    }
    return {
        "version": "2.0",
        "class": "dataset",
        "label": label,
        "source": f"crosstally release, {source}",
        "id": [*(attribute.name for attribute in attributes), measure],
        "size": [*(attribute.size for attribute in attributes), len(MEASURES)],
        "role": {"metric": [measure]},
        "dimension": dimension,
    }
