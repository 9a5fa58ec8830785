"""``Marginals(A)``: the algorithm of Barak et al. as the paper has it, from rows to whole tables with their bound.

Releases of crosstally need half of its noise (``exact_sensitivity``) and know their errors cell by cell; this is the
paper's own, with the paper's own promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours
from crosstally.errors import QueryError
from crosstally.inference.integers.cell_columns import Target
from crosstally.inference.integers.programs import FittedTable, nearest_table
from crosstally.pipeline import release as released
from crosstally.releases import Release
from crosstally.schema import Schema
from crosstally.strategies import Fourier
from crosstally.workload import Workload
from crosstally_lab.papers.pods07.experiment import bound_of_theorem_7


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoundedTables:
    """Non-negative whole tables of one table of rows, and how far from the truth they may be together.

    ``release`` holds the noisy coefficients; ``nearest`` is the table of the linear program before rounding; ``delta``
    is the probability with which some table is beyond its bound.
    """

    release: Release
    nearest: FittedTable
    _: KW_ONLY
    epsilon: float
    delta: float

    def __repr__(self) -> str:
        widest = max(self._measured, key=len)
        sure = f"{100 * (1 - self.delta):g}%"
        return (
            f"BoundedTables(|B| = {len(self._measured)}; the L1 error of {' x '.join(widest)} is at most "
            f"{self.bound(*widest):,.0f}, and all bounds hold with probability {sure})"
        )

    @property
    def _measured(self) -> list[tuple[str, ...]]:
        """B, the sets of attributes whose coefficients were measured."""
        return [each.query.attributes for each in self.release.measurements]

    def table(self, *names: str) -> NDArray[np.int64]:
        """The counts over attributes of a table asked for, or over some of them."""
        self._check(names)
        schema = self.release.schema
        out = np.zeros(schema.sizes(names), np.int64)
        places = tuple(self.nearest.cells[:, schema.positions[name]] for name in names)
        np.add.at(out, places, np.rint(self.nearest.weights).astype(np.int64))
        return out

    def bound(self, *names: str) -> float:
        """What the sum of all errors of this table is within (theorem 7); with 1 - delta, all tables are at once."""
        self._check(names)
        each_row = self.epsilon / self.release.schema.max_rows  # the theorem is about units of one row
        return bound_of_theorem_7(len(names), len(self._measured), epsilon=each_row, delta=self.delta)

    def _check(self, names: Sequence[str]) -> None:
        if not names or not any(set(each) == set(names) for each in self._measured):
            raise QueryError(f"ask for a table that was named, or for some of its attributes, got {tuple(names)}")


def marginals(
    source: Any,
    schema: Schema,
    tables: Sequence[Sequence[str]],
    *,
    epsilon: float,
    delta: float = 0.05,
    ledger: Any = None,
    key: str | None = None,
) -> BoundedTables:
    """Tables of binary attributes as in the paper: coefficients with noise 2|B|/epsilon, the program, rounding.

    A row that is replaced changes the guarantee's data, as in the paper. Noise is discrete; the bound holds for it too,
    since it has twice the room that its proof needs.

    Args:
        source: Rows, as ``release`` takes them.
        schema: Attributes of two values.
        tables: A: which tables are wanted.
        epsilon: The budget, all of which is spent.
        delta: The probability with which a bound may fail.
        ledger: What pays, as in ``release``.
        key: Names the purchase, as in ``release``.
    """
    if not 0 < delta < 1:
        raise QueryError(f"delta must be a probability between 0 and 1, got {delta!r}")
    found = released(
        source,
        schema,
        epsilon=epsilon,
        workload=Workload([tuple(names) for names in tables]),
        strategy=Fourier(budgets="uniform", sensitivity="paper"),
        neighbours=Neighbours.REPLACE,
        ledger=ledger,
        key=key,
    )
    targets = [Target(each.query, each.values) for each in found.measurements]
    return BoundedTables(found, nearest_table(schema, targets), epsilon=float(epsilon), delta=delta)
