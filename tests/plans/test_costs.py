"""What every strategy claims to cost is what neighbouring tables can make of it, by brute force on small domains."""

import pytest

import crosstally as ct
from crosstally.errors import PlanError
from crosstally.schema import Outside
from crosstally.strategies import NAMED, LinearStrategies
from reference_privacy import brute_force_cost

BINARY = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(3)])
MIXED = ct.Schema([ct.Attribute("a", ["0", "1"]), ct.Attribute("b", ["0", "1", "2"], outside=Outside.DROP)])
UNITS = ct.Schema([ct.Attribute("a", ["0", "1"]), ct.Attribute("b", ["0", "1", "2"])], ct.Unit("id", 2))


@pytest.mark.parametrize("neighbours", list(ct.Neighbours))
@pytest.mark.parametrize("schema", [BINARY, MIXED, UNITS], ids=["binary", "mixed", "units of two rows"])
@pytest.mark.parametrize("budget", [ct.Budget(epsilon=1), ct.Budget(rho=0.5)], ids=str)
@pytest.mark.parametrize("name", NAMED)
def test_the_claimed_cost_is_the_true_one(name, budget, schema, neighbours) -> None:
    """Exactly, but under replacement contrasts and choices, whatever their reference, may claim more; never less."""
    if name == "residual" and budget.pure:
        with pytest.raises(PlanError, match="Gaussian"):
            NAMED[name].plan(schema, None, budget, neighbours=neighbours)
        return
    plan = NAMED[name].with_rows(1000).plan(schema, None, budget, neighbours=neighbours)
    epsilon, rho = brute_force_cost(schema, plan.requests, neighbours)
    true = epsilon if budget.pure else rho
    if name in ("fourier", "residual", "two-stage", "mwem", "linear") and neighbours is ct.Neighbours.REPLACE:
        assert true <= plan.cost <= budget.amount
    else:
        assert true == plan.cost <= budget.amount


ORDERED = [ct.Attribute("a", ["0", "1", "2", "3"]), ct.Attribute("b", ["0", "1"])]
DROPPED = [ct.Attribute("a", ["0", "1", "2", "3"], outside=Outside.DROP), ct.Attribute("b", ["0", "1", "2"])]


@pytest.mark.parametrize("neighbours", list(ct.Neighbours))
@pytest.mark.parametrize(
    "schema",
    [ct.Schema(ORDERED), ct.Schema(DROPPED), ct.Schema(ORDERED, ct.Unit("id", 2))],
    ids=["rows", "rows that may be dropped", "units of two rows"],
)
@pytest.mark.parametrize("budget", [ct.Budget(epsilon=1), ct.Budget(rho=0.5)], ids=str)
@pytest.mark.parametrize("along", ["optimal", "hierarchy", "prefixes"])
def test_plans_for_ranges_never_cost_more_than_they_claim(along, budget, schema, neighbours) -> None:
    """Over all neighbouring tables; the claim adds up what each query costs at most, and so may be more."""
    workload = ct.Workload.up_to(schema, 2).asking(a="ranges")
    plan = LinearStrategies(along=along).plan(schema, workload, budget, neighbours=neighbours)
    epsilon, rho = brute_force_cost(schema, plan.requests, neighbours)
    true = epsilon if budget.pure else rho
    assert true is not None
    assert float(plan.cost) / 4 < true <= plan.cost <= budget.amount
    if neighbours is ct.Neighbours.ADD_REMOVE and along == "optimal":
        assert true == pytest.approx(float(plan.cost), rel=1e-3)  # equal columns: nothing is given away
