"""Nine census attributes, as EDBT 2012 uses them: a public file where there is one, generated rows where not."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.data import find, read_as

# The numbers of values of the paper's nine attributes (its figure 1), for rows that are generated.
PAPER_SIZES = (79, 2, 17, 51, 9, 7, 6, 50, 50)
_FILE = "census-9.parquet"
# Those that are numeric there (age, education, salary): each kind of people has a centre and a width of them.
_ORDERED = (0, 2, 8)
_CLASSES = 12  # kinds of generated people. Invented: more make attributes more dependent


@dataclass(frozen=True, eq=False)
class Census:
    """Public rows as codes, a line for each attribute, and what to call them."""

    schema: Schema
    codes: NDArray[np.intp]
    _: KW_ONLY
    label: str

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.codes.shape[1])

    @cached_property
    def pairs(self) -> dict[tuple[int, int], NDArray[np.float64]]:
        """The exact table of each pair of attributes."""
        return {pair: self._table(*pair) for pair in combinations(range(len(self.codes)), 2)}

    def _table(self, i: int, j: int) -> NDArray[np.float64]:
        sizes = self.schema.shape[i], self.schema.shape[j]
        counts = np.bincount(self.codes[i] * sizes[1] + self.codes[j], minlength=sizes[0] * sizes[1])
        return counts.reshape(sizes).astype(np.float64)

    def counts(self, i: int) -> NDArray[np.float64]:
        """The exact counts of one attribute."""
        return np.bincount(self.codes[i], minlength=self.schema.shape[i]).astype(np.float64)


def census(random: np.random.Generator, *, path: Path | None = None, rows: int = 500_000) -> Census:
    """The file given, else the census where it is found, else generated rows with the paper's numbers of values."""
    source = find(_FILE) if path is None else path
    if source is None:
        return generated_census(rows, random)
    return _read(source)


def _read(path: Path) -> Census:
    import pyarrow.parquet

    table = read_as("Parquet file", path, pyarrow.parquet.read_table)
    codes, attributes = [], []
    for name in table.column_names:
        labels, places = np.unique(_values(table[name]), return_inverse=True)
        codes.append(places.ravel())
        attributes.append(Attribute(name, tuple(map(str, labels.tolist()))))
    return Census(Schema(tuple(attributes)), np.array(codes, np.intp), label=path.name)


def _values(column: Any) -> NDArray[Any]:
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False))


def generated_census(rows: int, random: np.random.Generator) -> Census:
    """A mixture of kinds of people: within a kind attributes are independent, ordered ones about a centre."""
    kinds = random.choice(_CLASSES, rows, p=random.dirichlet(np.full(_CLASSES, 2.0)))
    codes = []
    for i, size in enumerate(PAPER_SIZES):
        values = np.arange(size)
        shares = random.dirichlet(np.full(size, 0.3), _CLASSES)
        if i in _ORDERED:
            centres, widths = random.uniform(0, size, (_CLASSES, 1)), random.uniform(0.05, 0.3, (_CLASSES, 1)) * size
            shares = np.exp(-0.5 * ((values - centres) / widths) ** 2) + 1e-6
            shares /= shares.sum(axis=1, keepdims=True)
        ends = np.cumsum(shares, axis=1)[kinds]
        codes.append(np.minimum((random.random((rows, 1)) > ends).sum(axis=1), size - 1))
    schema = Schema(tuple(Attribute(f"x{i}", tuple(map(str, range(n)))) for i, n in enumerate(PAPER_SIZES)))
    return Census(schema, np.array(codes, np.intp), label="generated census")
