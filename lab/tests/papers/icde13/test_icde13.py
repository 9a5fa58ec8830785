"""The experiments on ICDE 2013: errors against variances worked out by hand, and verdicts that can be false."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from conftest import schema_of
from crosstally.errors import CrosstallyError, SourceError
from crosstally.workload import Workload
from crosstally_lab.papers import experiments
from crosstally_lab.papers.icde13.claims import Measured, adult_claims, average_gain, gains, time_claims
from crosstally_lab.papers.icde13.experiment import ADULT, adult, binary, workloads
from crosstally_lab.papers.icde13.methods import methods, simulation

# Methods


def test_predicted_errors_by_hand_for_one_attribute_and_a_pair() -> None:
    """A and AB of three binary attributes, epsilon 1: six cells, sums of variances as in the paper's example."""
    schema, workload = schema_of(2, 2, 2), Workload([("a0",), ("a0", "a1")])
    found = {each.name: simulation(each, schema, workload).predicted for each in methods(schema)}
    sums = {name: {recovery: 6 * rms**2 for recovery, rms in each.items()} for name, each in found.items()}
    assert sums["I"] == pytest.approx({"either": 2 * 8 * 2.0})  # 2 cells x 4 + 4 cells x 2, of variance 2
    assert sums["Q"]["own"] == pytest.approx(48)
    assert sums["Q+"]["own"] == pytest.approx(46.168, abs=1e-3)
    assert sums["C"]["own"] == pytest.approx(16)
    # four coefficients (none, a0, a1, a0 a1) of variance 32: 2 cells x 2/4 and 4 cells x 4/16 of it
    assert sums["F"] == pytest.approx({"either": 32 * (2 * 2 / 4 + 4 * 4 / 16)})


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (3, 2, 5, 2)])
def test_simulated_errors_have_the_predicted_variance(sizes: tuple[int, ...]) -> None:
    """The mean square of 200 draws is within 6 standard errors of what is predicted.

    False-alarm rate below 1e-6 in all: 34 comparisons of about normal means at 6 sigma (2e-9 each). A scale off by a
    third would be seen: it changes the square by more than three quarters, and 6 standard errors are below that.
    """
    schema = schema_of(*sizes)
    workload = Workload.half_more(schema, 1)
    for method in methods(schema):
        planned = simulation(method, schema, workload)
        drawn = [planned.errors(np.random.default_rng([1, seed])) for seed in range(200)]
        for recovery, rms in planned.predicted.items():
            squares = [
                sum(float((table**2).sum()) for table in errors[recovery]) / workload.cells(schema) for errors in drawn
            ]
            error = 6 * np.std(squares) / math.sqrt(len(squares))
            assert error < 0.75 * rms**2, method.name
            assert abs(np.mean(squares) - rms**2) < error, (method.name, recovery)


def test_tables_of_least_squares_agree_and_tables_of_their_own_do_not() -> None:
    schema = schema_of(3, 2, 2)
    workload = Workload([("a0",), ("a0", "a1"), ("a0", "a2")])
    for method in methods(schema):
        for recovery, errors in simulation(method, schema, workload).errors(np.random.default_rng(3)).items():
            agree = np.allclose(errors[1].sum(axis=1), errors[0]) and np.allclose(errors[2].sum(axis=1), errors[0])
            assert [table.shape for table in errors] == [(3,), (3, 2), (3, 2)]
            if recovery != "own":
                assert agree, method.name
            if (method.letter, recovery) == ("Q", "own"):
                assert not agree


def test_the_same_seed_gives_both_budgets_the_same_noise_but_for_its_scale() -> None:
    schema, workload = schema_of(2, 2, 2), Workload([("a0",), ("a0", "a1")])
    drawn = {each.name: simulation(each, schema, workload).errors(np.random.default_rng(5)) for each in methods(schema)}
    ratio = drawn["Q+"]["own"][0] / drawn["Q"]["own"][0]
    # shares 2^(1/3) : 4^(1/3), so the share of A is 1 / (1 + 2^(1/3)) instead of 1/2
    assert ratio == pytest.approx(np.full(2, (1 + 2 ** (1 / 3)) / 2))


# Data and workloads


def test_the_workloads_of_16_binary_attributes() -> None:
    sizes = {name: len(workload) for name, workload in workloads(schema_of(*[2] * 16)).items()}
    assert sizes == {"Q1": 16, "Q1*": 76, "Q1a": 31, "Q2": 120, "Q2*": 400, "Q2a": 225}


def test_adult_is_read_where_it_is_found_and_generated_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CROSSTALLY_DATA", raising=False)
    generated = adult(None)
    assert generated.label == "generated, in place of Adult"
    assert (generated.table.num_rows, generated.schema.shape) == (32_561, (9, 16, 7, 15, 6, 5, 2, 2))
    rows = [",".join(["age", *ADULT]), "30,a,b,c,d,e,f,g,h", "31,A,B,C,D,E,F,G,H"]
    (tmp_path / "adult.csv").write_text("\n".join(rows) + "\n")
    monkeypatch.setenv("CROSSTALLY_DATA", str(tmp_path))
    real = adult(None)
    assert (real.label, real.table.num_rows, real.schema.shape) == ("Adult", 2, (2,) * 8)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "there is no file"), ("age,sex\n1,F\n", "workclass, education")]
)
def test_adult_needs_its_columns(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "mine.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SourceError, match=message):
        adult(path)


def test_binary_rows_are_generated_or_one_s_own(tmp_path: Path) -> None:
    assert binary(None).label == "generated transactions, in place of NLTCS"
    (tmp_path / "mine.csv").write_text("a,b\n0,1\n")
    with pytest.raises(CrosstallyError, match="at least 3 columns"):
        binary(tmp_path / "mine.csv")


# Verdicts


def measured(workload: str, method: str, recovery: str, error: float) -> Measured:
    errors = (error * 0.999, error * 1.001)
    return Measured(
        workload, method, recovery=recovery, errors=errors, by_table=errors, squares=(1.0, 1.02), predicted=1.005
    )


def adult_errors(*, q_plus: float, native: float) -> list[Measured]:
    errors = {"I": 9.0, "F": 5.0, "F+": 4.0, "Q": 1.0, "Q+": q_plus, "F native": native, "F+ native": native, "C": 0.9}
    out = []
    for method, error in (errors | {"C+": 0.8}).items():
        both = ("either",) if method in ("I", "F", "F+") else ("own", "least squares")
        out += [measured("Q1*", method, recovery, error) for recovery in both]
    return out


def test_gains_are_parts_of_the_uniform_error() -> None:
    found = {(each.method, each.recovery): each for each in gains(adult_errors(q_plus=0.78, native=2.0))}
    assert found["Q", "own"].interval.estimate == pytest.approx(0.22)
    assert found["F", "either"].interval.estimate == pytest.approx(0.2)
    assert found["C", "own"].predicted == pytest.approx(0)
    assert len(found) == 7
    assert found["F native", "own"].to_row()["method"] == "F+ native over F native"


@pytest.mark.parametrize(("q_plus", "holds"), [(0.78, True), (0.9, False), (0.6, False)])
def test_the_gain_of_q_on_adult_is_judged(q_plus: float, holds: bool) -> None:
    claims = list(adult_claims(adult_errors(q_plus=q_plus, native=2.0)))
    assert [claim.holds for claim in claims[:4]] == [holds] * 4
    assert [claim.holds for claim in claims[4:]] == [True] * 5


def test_orders_that_do_not_hold_are_said() -> None:
    claims = list(adult_claims(adult_errors(q_plus=1.5, native=6.0)))
    assert [claim.holds for claim in claims[4:]] == [True, True, False, False, True]


def test_the_average_gain_counts_every_workload_the_same() -> None:
    both = [
        measured("Q1", "C", "own", 1.0),
        measured("Q1", "C+", "own", 0.9),
        measured("Q2", "C", "own", 100.0),
        measured("Q2", "C+", "own", 100.0),
    ]
    assert average_gain(both, "C", "own", "cells").estimate == pytest.approx(0.05)


def test_clustering_is_judged_by_its_seconds() -> None:
    claims = list(time_claims({("Q1", "I"): 0.5, ("Q1", "C"): 0.2}))
    assert [claim.holds for claim in claims] == [True, False, True]
    assert [claim.holds for claim in time_claims({("Q1", "I"): 2.0, ("Q1", "C"): 7200.0})] == [False, True, False]


def test_figures_5_and_6_run_on_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b,c,d\n" + "0,1,1,0\n1,0,1,1\n1,1,0,0\n" * 30)
    outcome = experiments.run("icde13-figure-5", quick=True, data=tmp_path / "mine.csv")
    flat = next(row for row in outcome.rows if (row["workload"], row["method"]) == ("Q1", "I"))
    assert flat["predicted_rms"] == pytest.approx(4)  # sums of 8 cells of variance 2
    assert len(outcome.claims) == 14
    times = experiments.run("icde13-figure-6", quick=True, data=tmp_path / "mine.csv")
    assert {row["method"] for row in times.rows} == {"I", "Q", "Q+", "F", "F+", "C", "C+", "crosstally"}
    assert outcome.chart is not None
    assert times.chart is not None
