"""Public one-way tables in plans: the error of the other tables, beside that of answers alone knowing the facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.errors import Truth, rms
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.real_tables import MissingFileError, RealTable, real_table
from crosstally.plans.plan import Plan
from crosstally.schema import PublicCounts

TABLE, TWO = "adult", ("age", "native-country")
"""Adult, with two or all of its one-way tables public."""
DELTAS, ORDERS = (None, 1e-9), (1, 2, 3)


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """The geometric mean over draws of the ratio of RMS errors, by number of attributes."""
    try:
        table = real_table(TABLE)
    except MissingFileError:
        return
    truth = Truth.of(table, ORDERS)
    for public in (TWO,) if quick else (TWO, table.schema.names):
        facts = [PublicCounts(name, tuple(table.counts((name,)).tolist())) for name in public]
        known = replace(table.schema, facts=facts)
        for delta in DELTAS:
            without, planned = (
                ct.plan(schema, epsilon=1, delta=delta, strategy="two-stage").chosen for schema in (table.schema, known)
            )
            plans = (replace(without, schema=known), planned)
            errors = np.array([[_errors(table, truth, plan, public) for plan in plans] for _ in range(draws)])
            means, ratios = errors.mean(axis=0), np.exp(np.log(errors[:, 1] / errors[:, 0]).mean(axis=0))
            for i, order in enumerate(ORDERS):
                if order > 1 or len(public) < len(table.schema.names):
                    yield line(
                        f"facts, {TABLE}{', δ = 1e-9' if delta else ''}, {len(public)} one-way tables public, "
                        f"{order} attributes: RMS with facts in the plan",
                        float(means[1, i]),
                        float(means[0, i]),
                        None,
                        unit="rows",
                        ratio=float(ratios[i]),
                        note=f"{draws} draws",
                    )


def _errors(table: RealTable, truth: Truth, plan: Plan, public: Sequence[str]) -> list[float]:
    """The RMS error of one release by number of attributes, without public tables; one where all are public."""
    release = ct.release(table.rows, plan=plan)
    out = []
    for order in ORDERS:
        asked = [names for names in truth.asked[order] if order > 1 or names[0] not in public]
        answers = [each.values for each in release.marginals(asked)]
        out.append(rms(answers, truth.of_tables(asked)) if asked else 1.0)
    return out
