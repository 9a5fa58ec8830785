"""Generated click streams: which items each visitor saw."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crosstally.generate.people import check_rows
from crosstally.schema import Schema
from crosstally_lab.generate.binary import binary_schema

_GROUPS = 5  # groups of visitors and of items, the k-th of size 1 / k. Invented: fewer make items less correlated
_OWN_GROUP, _OTHER_GROUP = 3.0, 0.15  # how often items are seen, before the long tail and a visitor's activity
_BLOCK = 65_536  # visitors drawn at a time; another number draws other visitors from the same seed


def transactions(rows: int, attributes: int, random: np.random.Generator) -> tuple[pa.Table, Schema]:
    """Generated click streams: which items each visitor saw, one int8 column ``item1``, ``item2``, ... for each item.

    Frequencies are long-tailed, falling about as 1/j. Visitors and items belong to groups, and a visitor sees the items
    of the own group far more often than others; how much a visitor sees varies widely. So items are correlated, and
    most cells of a wide table are empty, as in Kosarak, for which this stands in.
    """
    check_rows(rows)
    schema = binary_schema("item", attributes)
    items, groups = np.arange(attributes), np.arange(_GROUPS)
    rates = np.where(items % _GROUPS == groups[:, None], _OWN_GROUP, _OTHER_GROUP) / (1 + items)
    shares = 1 / (1 + groups)
    seen = np.empty((attributes, rows), dtype=np.int8)
    for start in range(0, rows, _BLOCK):
        number = min(_BLOCK, rows - start)
        group = random.choice(_GROUPS, size=number, p=shares / shares.sum())
        activity = random.lognormal(-0.5, 1.0, size=number)
        chance = 1 - np.exp(-rates[group] * activity[:, None])
        seen[:, start : start + number] = (random.random((number, attributes)) < chance).T
    return pa.table(dict(zip(schema.names, seen, strict=True))), schema
