"""All kinds of oracles by name, and the best one for a view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from crosstally.errors import PlanError
from crosstally.local.oracles.oracle import Oracle, ViewOracle
from crosstally.schema import MAX_VALUES

__all__ = ["ORACLES", "best_oracle", "oracle_of", "register", "view_oracles"]

ORACLES: dict[str, type[Oracle]] = {}
"""Every oracle by its kind: modules of this folder add their own."""

Registered = TypeVar("Registered", bound=type[Oracle])


def register(oracle: Registered) -> Registered:
    """Make an oracle known by its kind, to protocols and, where it serves views, to designs."""
    if oracle.kind in ORACLES:
        raise PlanError(f"kinds of oracles must differ, {oracle.kind!r} is taken")
    ORACLES[oracle.kind] = oracle
    return oracle


def oracle_of(given: Mapping[str, Any]) -> Oracle:
    """An oracle from its JSON; ``client.check_protocol`` has checked its fields."""
    sizes = tuple(given["sizes"])
    if not all(type(size) is int and 2 <= size <= MAX_VALUES for size in sizes):
        raise PlanError(f"the sizes of an oracle must be whole numbers from 2 to {MAX_VALUES:,}")
    return ORACLES[given["kind"]].from_parameters(sizes, given)


def view_oracles(sizes: Sequence[int], epsilon: Fraction) -> tuple[ViewOracle, ...]:
    """Every oracle that can serve a view."""
    kinds = [kind for kind in ORACLES.values() if issubclass(kind, ViewOracle)]
    cells, most = math.prod(sizes), max(kind.most_cells for kind in kinds)
    if cells > most:
        raise PlanError(f"a view must have at most {most:,} cells in the local model, got {cells:,}")
    found = [kind.of(sizes, epsilon) for kind in kinds if cells <= kind.most_cells]
    return tuple(oracle for oracle in found if oracle.true > oracle.false)


@lru_cache(maxsize=1024)
def best_oracle(sizes: tuple[int, ...], epsilon: Fraction, kinds: tuple[str, ...] = ()) -> ViewOracle:
    """The oracle of least coefficient variance for a view, of some kinds or of all; of equals that of fewest answers.

    Equals are common: Hadamard response of two cells and sets of one member are randomised response.
    """
    found = [oracle for oracle in view_oracles(sizes, epsilon) if not kinds or oracle.kind in kinds]
    if not found:
        raise PlanError(f"no oracle of {', '.join(kinds)} serves a view of {math.prod(sizes):,} cells")
    return min(found, key=lambda oracle: (oracle.coefficient_variance, oracle.answers.limit))
