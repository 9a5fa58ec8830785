"""Predicted error equals measured error, for every strategy, on binary and mixed attributes, Laplace and Gaussian."""

import math

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.strategies import Direct, Flat, GreedyMerge, Residual, ViewSearch

BINARY = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(4)])
MIXED = ct.Schema([ct.Attribute(n, [str(v) for v in range(s)]) for n, s in (("a", 2), ("b", 3), ("c", 5))])
FEW = (Direct(), ViewSearch(), Residual())
ALL = (*FEW, Flat(), Direct(budgets="uniform"), GreedyMerge(), Residual("max"))


def standardised_errors(schema, strategy, budget, releases) -> np.ndarray:
    """For each release the mean over all tables of up to two attributes of squared error / predicted squared error."""
    rng = np.random.default_rng(5)
    rows = pa.table({a.name: rng.choice(a.values, 300) for a in schema.attributes})
    workload = ct.Workload.up_to(schema, 2)
    predicted = strategy.plan(schema, workload, ct.Budget(**budget)).errors
    truth = {}
    for table in workload.tables:
        truth[table] = np.zeros(schema.sizes(table))
        codes = [np.array([schema[name].values.index(v) for v in rows[name].to_pylist()]) for name in table]
        np.add.at(truth[table], tuple(codes), 1)
    out = np.zeros(releases)
    for i in range(releases):
        spent = {**budget, "workload": workload, "strategy": strategy, "objective": "cells"}
        release = ct.release(rows, schema, **spent).refit(nonnegative="none")
        answers = release.marginals(workload.tables)
        out[i] = np.mean(
            [np.mean((a.values - truth[t]) ** 2) / predicted[t] ** 2 for t, a in zip(truth, answers, strict=True)]
        )
    return out


def z_score(standardised: np.ndarray, scale: float) -> float:
    """How many standard errors the mean lies from what noise of ``scale`` times the claimed scale would give."""
    scaled = standardised / scale**2
    return float((scaled.mean() - 1) / (scaled.std(ddof=1) / math.sqrt(len(scaled))))


def check(strategies, schemas, budgets, releases) -> None:
    scores = {}
    for schema_name, schema in schemas.items():
        for budget_name, budget in budgets.items():
            for strategy in strategies:
                if isinstance(strategy, Residual) and set(budget) == {"epsilon"}:
                    continue  # Gaussian noise only
                found = standardised_errors(schema, strategy, budget, releases)
                scores[schema_name, budget_name, strategy.name] = found
    # one family: the mean over all strategies, schemas and budgets of each release's standardised error
    family = np.mean(list(scores.values()), axis=0)
    assert abs(z_score(family, 1.0)) < 5
    assert abs(z_score(family, 1.1)) > 5, "a planted error of 10% in the scale must be caught"
    assert abs(z_score(family, 1 / 1.1)) > 5
    assert max(abs(z_score(each, 1.0)) for each in scores.values()) < 6, "no single strategy may be off either"


def test_predicted_error_is_measured_error() -> None:
    """False-alarm rate: a t statistic beyond 5 with 79 degrees of freedom has probability 4e-6 (two sides)."""
    budgets = {"laplace": {"epsilon": 0.5}, "gaussian": {"rho": 0.1}}
    check(FEW, {"binary": BINARY, "mixed": MIXED}, budgets, releases=80)


@pytest.mark.verify
def test_predicted_error_is_measured_error_over_200_releases() -> None:
    """False-alarm rate about 1e-6."""
    budgets = {"laplace": {"epsilon": 0.5}, "gaussian": {"rho": 0.1}, "both": {"epsilon": 1.0, "delta": 1e-6}}
    check(ALL, {"binary": BINARY, "mixed": MIXED}, budgets, releases=200)
