"""The k-marginal score of NIST's Collaborative Research Cycle: how near other rows are to an excerpt of the ACS.

For each pair of columns other than PUMA and INDP, crossed with PUMA where it is among them, p and q are the shares of
all rows in the cells of the two tables. The score is 1000 for equal tables, 0 for disjoint ones:

    score = 500 (2 - mean over pairs of sum over cells |p - q|)

Numbers are cut into 20 bins of equal shares of the excerpt's own rows: a value of mean rank r among the n that are
numbers lies in the bin floor(20 r / n), 19 at most. "N" (does not apply) is a bin of its own, and so is 501 of
POVPIP. Other rows lie in the first bin whose largest value is not below theirs. DENSITY has public bins: to 150, then
the upper 13 of 20 logarithmic steps from 10 to the largest plus 500.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Columns = Mapping[str, NDArray[np.str_]]
"""The text of each column's values, row by row."""

NUMBERS = ("AGEP", "PINCP", "POVPIP", "PWGTP", "WGTP")
GROUP, LEFT_OUT = "PUMA", ("PUMA", "INDP")
_BINS = 20
_TOP = {"POVPIP": 501}  # a code among the numbers: "more than five times the poverty line"
_MOST_DENSITY = 52_864.7  # in the public dictionary
_NOT_APPLICABLE = "N"


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores of other rows against those of an excerpt, over some of its columns."""

    target: Columns
    names: Sequence[str]

    def score(self, other: Columns) -> float:
        """The score of other rows: between 0 and 1000."""
        sizes, mine, theirs = [], [], []
        for name in self.names:
            size, (own, given) = _codes(name, self.target[name], other[name])
            sizes.append(size)
            mine.append(own)
            theirs.append(given)
        group = self.names.index(GROUP) if GROUP in self.names else None
        kept = [i for i, name in enumerate(self.names) if name not in LEFT_OUT]
        differences = []
        for pair in combinations(kept, 2):
            axes = pair if group is None else (group, *pair)
            shape = [sizes[i] for i in axes]
            p, q = (_shares([codes[i] for i in axes], shape) for codes in (mine, theirs))
            differences.append(float(np.abs(p - q).sum()))
        return 500 * (2 - float(np.mean(differences)))


def _shares(codes: Sequence[NDArray[np.intp]], shape: Sequence[int]) -> NDArray[np.float64]:
    cells = np.ravel_multi_index(tuple(codes), tuple(shape))
    return np.bincount(cells, minlength=int(np.prod(shape))) / len(cells)


def _codes(name: str, target: NDArray, other: NDArray) -> tuple[int, list[NDArray[np.intp]]]:
    """The number of bins of a column, and both tables' rows in them."""
    if name == "DENSITY":
        edges = density_edges()
        return len(edges) + 1, [np.searchsorted(edges, each.astype(float), side="left") for each in (target, other)]
    if name in NUMBERS:
        tops = largest_values(target, top=_TOP.get(name))
        return len(tops) + 1, [_in_bins(each, tops) for each in (target, other)]
    labels, codes = np.unique(np.concatenate([target, other]), return_inverse=True)
    return len(labels), [codes[: len(target)], codes[len(target) :]]


def _in_bins(values: NDArray, tops: NDArray[np.float64]) -> NDArray[np.intp]:
    absent = values == _NOT_APPLICABLE
    found = np.searchsorted(tops[:-1], _numbers(values), side="left")
    return np.where(absent, len(tops), found)


def _numbers(values: NDArray) -> NDArray[np.float64]:
    return np.trunc(np.where(values == _NOT_APPLICABLE, "0", values).astype(float))


def largest_values(target: NDArray, *, top: int | None = None) -> NDArray[np.float64]:
    """The largest value in each bin of the excerpt's own rows that holds any; a code above the numbers is the last."""
    numbers = _numbers(target[target != _NOT_APPLICABLE])
    plain = numbers if top is None else numbers[numbers != top]
    bins = np.minimum((_BINS * (rankdata(plain) / len(plain))).astype(int), _BINS - 1)
    tops = [float(plain[bins == number].max()) for number in np.unique(bins)]
    return np.array(tops if top is None or len(plain) == len(numbers) else [*tops, float(top)])


def density_edges() -> NDArray[np.float64]:
    """The inner edges of the bins of DENSITY, each the last of the bin below it."""
    steps = np.logspace(1, np.log10(_MOST_DENSITY + 500), _BINS + 1)
    return np.array([150, *steps[8:-1]])
