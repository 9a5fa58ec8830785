"""Tables as JSON-stat 2.0 with codes and a dimension of measures, as PxWeb's second API has them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from crosstally.exports.cells import MEASURES, free_name, measures
from crosstally.schema import Attribute, Schema
from crosstally.tables import Marginal

__all__ = ["codes_of", "data_text", "measure_name", "metadata"]

_SAFE = re.compile(r"[^,\[\]*?]+")
"""Labels that can be used as codes; the other characters have a meaning in a list of codes."""


def codes_of(attribute: Attribute) -> tuple[str, ...]:
    """A code for each value: its label where that may be one, else its number behind a C.

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


def metadata(schema: Schema, *, label: str, source: str) -> dict[str, Any]:
    """A dataset without values over all attributes, each of which may be left out."""
    return _dataset(schema, schema.attributes, {}, label=label, source=source) | {
        "extension": {
            "elimination": dict.fromkeys(schema.names, True),
            "descriptions": {each.name: each.description for each in schema.attributes if each.description},
        }
    }


def data_text(marginal: Marginal, whole: Schema, *, level: float) -> str:
    """A dataset with values; ``whole`` has all values of each attribute, so that codes stay the same under filters."""
    numbers = measures(marginal, level=level)
    codes = {each.name: _codes(each, whole[each.name]) for each in marginal.schema.attributes}
    label = " by ".join(marginal.attributes) or "number of rows"
    dataset = _dataset(marginal.schema, marginal.schema.attributes, codes, label=label, source=marginal.caption)
    dataset["value"] = list(chain.from_iterable(zip(*numbers, strict=True)))
    dataset["extension"] = {
        "error_kind": marginal.error_kind.value,
        "method": marginal.method,
        "corrected": marginal.corrected,
        "relaxed": marginal.relaxed,
        "where": marginal.where or None,
        "level": level,
    }
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
