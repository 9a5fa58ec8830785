"""One predictor of variances: plans, estimates and error bars say the same, by hand and to the last digits."""

import math
from itertools import permutations

import numpy as np
import pytest

from conftest import schema_of
from crosstally.answers.error_bars import ErrorBars
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.queries import Cells, Contrast
from crosstally.residuals import Variances, combine
from crosstally.workload import Workload


def test_by_hand() -> None:
    """A 2 x 3 table of variance 1 beside the contrast of its pair of variance 18: squared scale 2 x 9.

    Coefficients: the total 6, a0 3, a1 2; the pair 1 from the table and 1 from the contrast, together 1/2.
    """
    schema = schema_of(2, 3)
    found = Variances.of_queries(schema, [(Cells(("a0", "a1")), 1.0), (Contrast(("a0", "a1")), 18.0)])
    assert found.of_subsets(("a0", "a1")).tolist() == pytest.approx([6, 2, 3, 0.5])  # none, a1, a0, both
    assert found.of_subsets(("a1", "a0")).tolist() == pytest.approx([6, 3, 2, 0.5])
    assert found.of(("a0",)) == pytest.approx(6 / 4 + 3 / 2)
    assert found.of(("a0", "a1")) == pytest.approx(6 / 36 + 2 * (2 / 3) / 4 + 3 / 2 / 9 + 0.5 * (1 / 2) * (2 / 3))
    assert found.of_tables.tolist() == pytest.approx([6, found.of(("a0", "a1"))])


def test_what_is_not_measured_is_not_a_number() -> None:
    found = Variances.of_queries(schema_of(2, 3, 2), [(Contrast(("a0", "a1")), 1.0), (Cells(("a1",)), 4.0)])
    assert np.isnan(found.of_subsets(("a0", "a1"))).tolist() == [False, False, True, False]
    assert [math.isnan(found.of(names)) for names in ((), ("a1",), ("a0",), ("a2",), ("a0", "a1"))] == [
        *(False, False),
        *(True, True, True),
    ]
    replaced = found.replacing({("a0", "a1"): 7.0, ("a0",): 9.0, ("a2",): 9.0, (): 5.0})
    assert replaced.of_subsets(("a0", "a1")).tolist() == pytest.approx([5, 4, math.nan, 7], nan_ok=True)
    assert found.of(()) == 12.0
    assert math.isnan(Variances.of_queries(schema_of(2), []).of(("a0",)))


@pytest.mark.parametrize("attributes", [5, 70, 300])
def test_plans_estimates_and_error_bars_agree(attributes) -> None:
    """The numbering of sets differs with the number of attributes; what is said does not."""
    schema = schema_of(*([2, 3, 4, 2, 5] * (attributes // 5)))
    last, *rest = (schema.names[i] for i in (attributes - 1, 0, attributes // 2, 3))
    laplace, gaussian = Noise(NoiseKind.LAPLACE, 60.0), Noise(NoiseKind.GAUSSIAN, 90.0)
    asked = [
        Request(Cells((rest[0], last)), laplace),
        Request(Cells(tuple(rest)), gaussian),
        Request(Contrast((rest[1], last)), gaussian),
        Request(Contrast((rest[0], rest[2])), gaussian),
    ]
    tables = [*permutations((rest[0], last)), tuple(rest), (last,), (rest[2],), (rest[1], last)]
    plan = Plan(
        schema,
        asked,
        strategy="test",
        workload=Workload(tables[1:]),
        budget=Budget(rho=1),
        neighbours=Neighbours.ADD_REMOVE,
    )
    measured = [
        Measurement(r.query, np.zeros(r.query.shape(schema)), variance=r.noise.variance, noise=r.noise, origin="test")
        for r in asked
    ]
    predicted = Variances.of_queries(schema, [(r.query, r.noise.variance) for r in asked])
    estimate, bars = combine(schema, measured), ErrorBars(schema, measured)
    for names, together in zip(tables, predicted.of_all(tables), strict=True):
        expected = plan.errors[schema.ordered(names)] ** 2
        assert not math.isnan(expected)
        others = [together, predicted.of(names), estimate.variance(names), bars.covered_law(names).std_error ** 2]
        assert others == pytest.approx([expected] * 4, rel=1e-12)
    beyond = (last, *rest, "a1", "a2")
    assert math.isnan(predicted.of(beyond))
    assert math.isnan(estimate.variance(beyond))
