"""Releases of ranges: measured by matrices, kept, combined, answered with errors that are exact."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import crosstally as ct
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.marginal import ErrorKind
from crosstally.answers.matrix_errors import MatrixError
from crosstally.errors import KeyReusedError, PlanError, WorkloadError
from crosstally.plans.plan import Plan
from crosstally.query.queries import Cells
from crosstally.strategies import LinearStrategies
from reference_linear import AGES, least_squares, numbered, people
from released import assert_survives

SCHEMA = AGES
WORKLOAD = ct.Workload.up_to(SCHEMA, 2).asking(age="ranges")
BUDGETS = {"rho": {"rho": 0.5}, "epsilon": {"epsilon": 1}}


@pytest.mark.parametrize("budget", [{"rho": 2_000}, {"epsilon": 2_000}], ids=["rho", "epsilon"])
def test_a_generous_budget_gives_nearly_the_truth(budget) -> None:
    rows = people()
    release = ct.release(rows, SCHEMA, workload=WORKLOAD, **budget)
    age, sex = (rows[name].to_numpy() for name in ("age", "sex"))
    assert release.statement.strategy == "linear"
    assert release.count("20 <= age < 50").value == pytest.approx(((age >= 20) & (age < 50)).sum(), abs=2)
    women = ((age >= 20) & (sex == "Female")).sum()
    assert release.count("age >= 20 and sex = Female").value == pytest.approx(women, abs=2)
    assert release.marginal("age").values == pytest.approx(np.histogram(age, range(0, 90, 10))[0], abs=2)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_it_survives_file_ledger_and_refit(budget, tmp_path) -> None:
    ledger = ct.Ledger.create(tmp_path / "a.ledger", schema=SCHEMA, budget=ct.Budget(**budget))
    release = ct.release(people(), SCHEMA, workload=WORKLOAD, ledger=ledger, key="one", **budget)
    assert any(m.query.matrices for m in release.measurements)
    assert ledger.remaining == 0
    prefixes = WORKLOAD.asking(age="prefixes")
    with pytest.raises(KeyReusedError):
        ct.release(people(), SCHEMA, workload=prefixes, ledger=ledger, key="one", **budget)
    again = ct.release(people(), SCHEMA, workload=WORKLOAD, ledger=ledger, key="one", **budget)
    assert_survives(release, again, tmp_path / "a.ledger", [("age",), ("sex", "age"), ("sex",), ()])


def test_what_cannot_be_put_together_is_refused_before_it_is_charged(tmp_path) -> None:
    ledger = ct.Ledger.create(tmp_path / "a.ledger", schema=SCHEMA, budget=ct.Budget(rho=1))
    plan = ct.plan(SCHEMA, workload=WORKLOAD, rho=0.5).chosen
    for left_out, said in [((), "the total is not"), (("sex",), "sex is not"), (("age",), "age is not")]:
        requests = [each for each in plan.requests if set(each.query.attributes) != set(left_out)]
        with pytest.raises(PlanError, match=f"all tables inside it must be measured too; {said}"):
            ct.release(people(), plan=replace(plan, requests=requests), ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize("rows", [None, 3_000])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_errors_are_those_of_dense_least_squares(budget, rows) -> None:
    """Cells, ranges, tables of ranges, differences: against the covariance of the full table, by the book."""
    release = ct.release(people(), SCHEMA, workload=WORKLOAD, rows=rows, **budget)
    measured = list(release.measurements)
    if rows is not None:
        exact = ct.release(people(), SCHEMA, epsilon=1, strategy="uniform", rows=rows).estimate.table(())
        measured.append(type(measured[0])(Cells(()), exact, variance=1e-6, noise=None, origin="public"))
    covariance = least_squares(measured, SCHEMA)[1]

    def std_error(weights) -> float:
        flat = np.broadcast_to(weights, SCHEMA.shape).ravel().astype(float)
        return float(np.sqrt(flat @ covariance @ flat))

    sex, age, region = (np.eye(n) for n in SCHEMA.shape)
    cells = [std_error(each[None, :, None]) for each in age]
    assert release.marginal("age").std_error == pytest.approx(cells, rel=1e-4)
    assert "(... to ...) 95% intervals" in str(release.marginal("age"))  # each cell has an error of its own
    assert "±" not in str(release.marginal("age"))
    pair = [[std_error(s[:, None, None] * a[None, :, None]) for s in sex] for a in age]
    assert release.marginal("age", "sex").std_error == pytest.approx(np.array(pair), rel=1e-4)
    middle = age[2:5].sum(axis=0)[None, :, None]
    answer = release.count("20 <= age < 50")
    assert (answer.std_error, answer.error_kind) == (pytest.approx(std_error(middle), rel=1e-4), ErrorKind.EXACT)
    women = [std_error(middle * s[:, None, None]) for s in sex]
    assert release.marginal("sex", where="20 <= age < 50").std_error == pytest.approx(women, rel=1e-4)
    old = release.marginal("age", where="age >= 60 and sex = Male")
    expected = [std_error(sex[1][:, None, None] * a[None, :, None]) for a in age[6:]]
    assert old.std_error == pytest.approx(expected, rel=1e-4)
    table = release.marginal("age")
    difference = table[table.schema["age"].labels[1]] - table[table.schema["age"].labels[6]]
    assert float(difference.std_error) == pytest.approx(std_error((age[1] - age[6])[None, :, None]), rel=1e-4)
    assert release.marginal("region").std_error == pytest.approx(
        [std_error(each[None, None, :]) for each in region], rel=1e-4
    )


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_the_law_of_an_error_has_its_variance(budget) -> None:
    """The weights of all noisy numbers, squared, times their variances, are the squared standard error."""
    release = ct.release(people(), SCHEMA, workload=WORKLOAD, **budget)
    bars = ErrorBars(SCHEMA, release.measurements)
    chosen = np.array([[False, True, True, False, False, True, False, False]])
    for error, cell in [
        (bars.covered_law(("age",)), (3,)),
        (bars.covered_law(("age", "region")), (2, 1)),
        (bars.sums(("sex",), ("age",), chosen), (1,)),
        (bars.sums((), ("region", "age"), np.ones((3, 8), bool)), ()),
    ]:
        assert isinstance(error, MatrixError)
        std_error = float(error.std_error[cell])
        assert sum(term.share for term in error.terms(cell)) == pytest.approx(std_error**2)
        wide, narrow = (float(np.asarray(error.half_width(level))[cell]) for level in (0.95, 0.5))
        assert 0.3 < narrow / std_error < 0.75
        assert 1.8 < wide / std_error < 2.2


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_predicted_errors_of_ranges_are_the_measured_ones(budget) -> None:
    """One statistic for all ranges of 60 releases of no rows; it is wrong by chance once in a million runs.

    The variances of all ranges determine the covariance of the cells, and with it the squared length of an error. Under
    Laplace noise its variance is at most three times that of the chi-square law: its tails are taken that much wider.
    Errors 0.7 and 1.5 times as large are told apart, five standard deviations beyond the limits.
    """
    schema = numbered(16)
    plan = LinearStrategies().plan(schema, ct.Workload.ranges(schema, "a0"), ct.Budget(**budget))
    nobody = pa.table({"a0": pa.array([], pa.string())})
    releases = [ct.release(nobody, plan=plan) for _ in range(60)]
    inverse = np.linalg.inv(_covariance_from_ranges(releases[0]))
    length = sum(cells @ inverse @ cells for cells in (each.marginal("a0").values for each in releases))
    freedom, wider = 16 * len(releases), 1 if "rho" in budget else 3**0.5
    for claimed, fits in [(1.0, True), (0.7, False), (1.5, False)]:
        score = freedom + (length / claimed**2 - freedom) / wider
        assert bool(1e-6 / 2 < chi2.sf(score, freedom) < 1 - 1e-6 / 2) is fits


def _covariance_from_ranges(release) -> np.ndarray:
    bars = ErrorBars(release.schema, release.measurements)
    places = np.arange(16)

    def variance(first: int, last: int) -> float:
        chosen = (places >= first) & (places < last)
        return float(bars.sums((), ("a0",), chosen).std_error) ** 2 if first < last else 0.0

    prefixes = np.array([[variance(0, i) + variance(0, j) - variance(min(i, j), max(i, j)) for j in range(1, 17)]
                         for i in range(1, 17)]) / 2  # fmt: skip
    steps = np.eye(16) - np.eye(16, k=-1)
    return steps @ prefixes @ steps.T


def test_a_plan_is_the_same_after_json() -> None:
    plan = ct.plan(SCHEMA, workload=WORKLOAD, rho=0.5).chosen
    given = json.loads(json.dumps(plan.to_dict()))
    assert list(given["matrices"]) == ["age"]
    assert Plan.from_dict(given) == plan
    with pytest.raises(PlanError, match="matrices of a plan must be those of its requests"):
        Plan.from_dict({**given, "matrices": {**given["matrices"], "sex": [[1, 0]]}})
    plain = ct.plan(SCHEMA, rho=0.5, strategy="residual").chosen
    assert plain.to_dict()["matrices"] == {}


def test_workloads_say_what_is_asked() -> None:
    ranges = ct.Workload.ranges(SCHEMA, "age")
    assert (ranges.tables, ranges.along) == ((("age",),), (("age", "ranges"),))
    assert ct.Workload.from_dict(ranges.to_dict()) == ranges
    own = ct.Workload([("sex", "age")]).asking(age=[[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 2, 1]])
    assert ct.Workload.from_dict(json.loads(json.dumps(own.to_dict()))) == own
    with pytest.raises(WorkloadError, match="ranges or prefixes"):
        ct.Workload([("age",)]).asking(age="range")
    with pytest.raises(WorkloadError, match="must have 8 numbers, got 2"):
        ct.Workload([("age",)]).asking(age=[[1, 0]]).for_schema(SCHEMA)
    with pytest.raises(WorkloadError, match="rows of whole numbers"):
        ct.Workload([("age",)]).asking(age=[[1], [1, 2]])
    with pytest.raises(WorkloadError, match="whole numbers of at most"):
        ct.Workload([("age",)]).asking(age=[[0.5, 1.0]])


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_notebook_weighs_what_matrices_measured(budget, tmp_path) -> None:
    """Number by number, with their own noise: a range is known about as well as the release knows it.

    The ratio is 1 under Gaussian noise; under Laplace noise, used in full, it has a standard deviation of 0.1.
    """
    cap = {name: 2 * amount for name, amount in budget.items()}
    ledger = ct.Ledger.create(tmp_path / "a.ledger", schema=SCHEMA, budget=ct.Budget(**cap))
    release = ct.release(people(), SCHEMA, workload=WORKLOAD, ledger=ledger, **budget)
    notebook = ct.open_notebook(tmp_path / "a.ledger")
    found, known = notebook.estimate(ct.count(age=(20, 50))), release.count("20 <= age < 50")
    assert found.value == pytest.approx(known.value, abs=4 * float(known.std_error))
    assert 0.4 < found.std_error / float(known.std_error) < 1.8
    assert notebook.improve() == ()
