"""The JSON Schema for editors accepts what crosstally reads, and refuses what it refuses for its form."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from crosstally.errors import SchemaError
from crosstally.schema import Schema
from crosstally.schema.reading import PARTS

ROOT = Path(__file__).parent.parent.parent
VALIDATOR = Draft202012Validator(json.loads((ROOT / "docs/reference/crosstally-schema.json").read_text("utf-8")))
PAGE = (ROOT / "docs/reference/schema.md").read_text("utf-8")
EXAMPLE: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The example with another value at a place; without the field when the value is Ellipsis."""
    given = deepcopy(EXAMPLE)
    place: Any = given
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return given


def test_the_example_of_the_page_is_read_and_valid() -> None:
    assert VALIDATOR.is_valid(EXAMPLE)
    assert Schema.from_dict(EXAMPLE).steward_dict()["attributes"] == EXAMPLE["attributes"]
    assert VALIDATOR.is_valid(Schema.from_dict(EXAMPLE).to_dict())
    fixture = json.loads((ROOT / "tests/formats/schema-1-described.json").read_text("utf-8"))
    assert VALIDATOR.is_valid(fixture)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("attributes",), ...),
        (("attributes",), []),
        (("attribute",), []),
        (("crosstally-schema",), 3),
        (("draft",), "yes"),
        (("facts",), {}),
        (("facts",), [{}]),
        (("facts",), [{"total": 2.5}]),
        (("facts",), [{"attribute": "sex", "counts": {}, "eror": 1}]),
        (("facts",), [{"impossible": {"sex": ["Female"]}}]),
        (("about", "titel"), "x"),
        (("about", "title"), " "),
        (("about", "counts"), "people"),
        (("bought",), {"epsilon": "0.1", "attributes": ["age"]}),
        (("bought",), {"epsilon": 0.1, "attributes": ["age"], "entry": "e"}),
        (("bought",), {"epsilon": "-1", "attributes": ["age"], "entry": "e"}),
        (("bought",), {"epsilon": "1", "attributes": [], "entry": "e"}),
        (("unit", "max_rows"), 0),
        (("unit", "max_rows"), ...),
        (("unit", "from"), "me"),
        (("attributes", 0, "name"), ""),
        (("attributes", 0, "values"), ...),
        (("attributes", 0, "values"), ["x", ""]),
        (("attributes", 0, "values"), ["x", "(other)"]),
        (("attributes", 0, "edges"), [0, 1, 2]),
        (("attributes", 0, "bins"), ["a", "b"]),
        (("attributes", 0, "missing"), 1),
        (("attributes", 0, "outside"), "keep"),
        (("attributes", 1, "edges"), [1]),
        (("attributes", 1, "measured_in"), 3),
        (("attributes", 2, "hierarchy", 0, "groups"), ["x"]),
        (("attributes", 2, "hierarchy", 0, "name"), ...),
        (("reading",), "kept"),
        (("reading", "trim"), 1),
        (("reading", "missing"), "NA"),
        (("reading", "missing"), [None]),
        (("reading", "file"), {"delimiter": 3}),
        (("reading", "file"), {"header": True}),
        (("reading", "file"), {"unknown": ";"}),
        (("reading", "columns", "sex", "column"), ""),
        (("reading", "columns", "sex", "groups"), {"Female": "F"}),
        (("reading", "columns", "quarter", "date"), {}),
        (("reading", "columns", "quarter", "date", "into"), "era"),
        (("reading", "columns", "quarter", "date", "into"), ["2024"]),
        (("reading", "columns", "quarter", "date", "format"), "day"),
    ],
)
def test_both_refuse(path: tuple[str | int, ...], value: object) -> None:
    given = changed(path, value)
    assert not VALIDATOR.is_valid(given)
    with pytest.raises(SchemaError):
        Schema.from_dict(given)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("unit",), ...),
        (("about",), {}),
        (("draft",), True),
        (("$schema",), "crosstally-schema.json"),
        (("reading",), "withheld"),
        (("reading",), ...),
        (("attributes", 0, "values"), [7, 2.5, True, "Female", "Male"]),
        (("attributes", 1, "from"), "data"),
        (("unit", "from"), "data"),
        (("bought",), {"epsilon": "1/3", "attributes": ["age", "income"], "entry": "e"}),
        (("reading", "file"), {"delimiter": ";", "decimal": {"income": ","}, "header": 2, "sheet": 1}),
        *((("reading", "columns", "quarter", "date", "into"), part) for part in PARTS),
        (("reading", "columns", "quarter", "date", "into"), ["2024-01-01", "2024-04-01", "2024-07-01"]),
    ],
)
def test_both_accept(path: tuple[str | int, ...], value: object) -> None:
    given = changed(path, value)
    if path == ("unit",):
        del given["reading"]["columns"]["person"]
    assert VALIDATOR.is_valid(given)
    Schema.from_dict(given)


def test_the_page_has_every_field() -> None:
    definitions = VALIDATOR.schema["$defs"]
    blocks = [VALIDATOR.schema, *definitions.values(), definitions["reading"]["properties"]["file"]]
    fields = {name for block in blocks for name in block.get("properties", {})}
    assert not [name for name in fields if f"`{name}`" not in PAGE]
