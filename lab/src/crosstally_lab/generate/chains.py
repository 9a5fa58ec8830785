"""Generated Markov chains: bits that depend on those before them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.generate.people import check_rows
from crosstally.schema import Schema
from crosstally_lab.generate.binary import binary_schema


def markov_chain(rows: int, attributes: int, order: int, random: np.random.Generator) -> tuple[pa.Table, Schema]:
    """PriView's MCHAIN (section 5): each row a series of bits, one int8 column ``x1``, ``x2``, ... for each position.

    The next bit is 1 with probability 0.5 + (1 - 2 s / i) / 4, where s are the ones among the previous i = ``order``
    bits. The paper does not say how a series starts: here the first ``order`` bits are fair coins.
    """
    check_rows(rows)
    schema = binary_schema("x", attributes)
    if not 1 <= order < attributes:
        raise CrosstallyError(f"order must be from 1 to {attributes - 1} (one less than the attributes), got {order}")
    probabilities = 0.5 + (1 - 2 * np.arange(order + 1) / order) / 4
    ones = np.zeros(rows, dtype=np.int16)
    bits: list[NDArray[np.int8]] = []
    for i in range(attributes):
        probability = probabilities[ones] if i >= order else 0.5
        bits.append((random.random(rows) < probability).astype(np.int8))
        ones += bits[i]
        if i >= order:
            ones -= bits[i - order]
    return pa.table(dict(zip(schema.names, bits, strict=True))), schema
