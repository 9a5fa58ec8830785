"""At which epsilon a default release meets the criteria of a published registry of births.

The registry (Hod and Canetti 2024) has 165,915 births, and the largest error of any cell is 0.44% of them at epsilon
9.98. The births here are generated: six attributes of its shape, of which weight depends on gestation and sex, and
parity on the age of the mother.
"""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import crosstally as ct
from crosstally.releases.acceptance import Criteria, Criterion, judge_plan, judge_release
from crosstally.strategies.planner import DEFAULT, Proposal, compare

BIRTHS, LIMIT = 165_915, 0.0044
SIZES = {"month": 12, "age": 10, "parity": 5, "gestation": 6, "sex": 2, "weight": 32}
SCHEMA = ct.Schema([ct.Attribute(name, [str(i) for i in range(size)]) for name, size in SIZES.items()])
_AGES = [0.003, 0.015, 0.19, 0.31, 0.28, 0.11, 0.042, 0.04, 0.007, 0.003]
_GESTATIONS = [0.006, 0.006, 0.01, 0.05, 0.9, 0.028]  # weeks, from below 29 to above 41
_WEIGHTS = np.array([900, 1400, 1900, 2500, 3280, 3500])  # grams, of each of them; the deviation is 420


def births(random: np.random.Generator, number: int = BIRTHS) -> NDArray[np.int64]:
    """The codes of generated births, a row for each attribute."""
    age, gestation = random.choice(10, number, p=_AGES), random.choice(6, number, p=_GESTATIONS)
    parity = random.binomial(4, np.clip(0.1 + 0.04 * age, 0, 0.6))
    sex = random.integers(0, 2, number)
    grams = random.normal(_WEIGHTS[gestation] + 60 * sex + 80 * (parity > 0), 420)
    weight = np.clip(np.floor((grams - 1400) / 100), 0, 31).astype(np.int64)
    return np.stack([random.choice(12, number), age, parity, gestation, sex, weight])


def criteria(ways: int = 2) -> Criteria:
    """No cell of a table of so many ways is off by more than the registry's largest error, with 99%."""
    limit = Criterion(name="largest", ways=ways, tables=None, error="largest", at_most=LIMIT, of="rows", level=0.99)
    return Criteria((limit,), BIRTHS)


def plan(epsilon: str) -> ct.Plan:
    """The default plan."""
    return compare(SCHEMA, Proposal(ct.Budget(epsilon=epsilon), rows=BIRTHS), strategies=DEFAULT).chosen


def largest_error(release: ct.Release, codes: NDArray[np.int64]) -> float:
    """The largest true error of any cell of a pair, as a share of all births."""
    errors = []
    for pair in combinations(range(len(SIZES)), 2):
        sizes = [SCHEMA.attributes[i].size for i in pair]
        counts = np.bincount(np.ravel_multi_index(codes[list(pair)], sizes), minlength=sizes[0] * sizes[1])
        errors.append(np.abs(release.marginal(*(SCHEMA.names[i] for i in pair)).values.ravel() - counts).max())
    return float(max(errors)) / BIRTHS


if __name__ == "__main__":
    found = births(np.random.default_rng(2014))
    rows = pa.table(dict(zip(SCHEMA.names, found.astype(str), strict=True)))
    for given in sys.argv[1:] or ("0.15", "0.2", "0.25", "0.3", "1"):
        planned = plan(given)
        made = ct.release(rows, plan=planned)
        (before,), (after,) = judge_plan(planned, criteria()), judge_release(made, criteria())
        print(given, before.row()[1:], after.row()[1:], f"{largest_error(made, found):.2%}", flush=True)
