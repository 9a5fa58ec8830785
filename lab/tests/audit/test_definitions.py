"""The audit's own definitions, against another set of plain loops, and against numbers worked out by hand."""

from fractions import Fraction

import pytest

from conftest import schema_of
from crosstally.budget import Neighbours
from crosstally.local import client
from crosstally.schema import Outside, Unit
from crosstally_lab.audit.cases import BUDGETS, STRATEGIES
from crosstally_lab.audit.channels import defined_channel, device_channel, keeps_epsilon, largest_ratio
from crosstally_lab.audit.definitions import answer, worst_pairs
from crosstally_lab.audit.exact import json_requests
from reference_privacy import brute_force_cost

SCHEMAS = [schema_of(2, 3), schema_of(2, 3, outside=Outside.DROP), schema_of(2, 2, unit=Unit("id", 2))]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["rows", "dropped", "units"])
@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
@pytest.mark.parametrize("name", ["direct", "fourier", "residual", "views of 6 cells"])
def test_the_worst_loss_is_that_of_other_loops(name, relation, schema) -> None:
    for budget in (BUDGETS["epsilon"], BUDGETS["rho"]):
        if budget.pure and name == "residual":
            continue
        plan = STRATEGIES[name].plan(schema, None, budget, neighbours=relation)
        epsilon, rho = brute_force_cost(plan.schema, plan.requests, plan.neighbours)
        found = worst_pairs(json_requests(plan), schema.to_dict(), str(relation), pure=budget.pure)
        assert found[0].loss == (epsilon if budget.pure else rho)


def test_losses_by_hand() -> None:
    """One row in two tables with noise of scale 4: 2 / 4; a contrast of three values moves by 2 + 1 + 1."""
    schema = schema_of(3).to_dict()
    noise = {"kind": "laplace", "scale": 4.0}
    twice = [({"cells": ["a0"]}, noise), ({"cells": []}, noise)]
    assert worst_pairs(twice, schema, "add-remove", pure=True)[0].loss == Fraction(1, 2)
    assert answer({"contrast": ["a0"]}, schema, ((1,),)).tolist() == [-1, 2, -1]
    assert worst_pairs([({"contrast": ["a0"]}, noise)], schema, "add-remove", pure=True)[0].loss == 1
    assert worst_pairs([({"contrast": ["a0"]}, noise)], schema, "replace", pure=True)[0].loss == Fraction(6, 4)
    gaussian = [({"cells": ["a0"]}, {"kind": "gaussian", "scale": 2.0})]
    assert worst_pairs(gaussian, schema, "replace", pure=False)[0].loss == Fraction(2, 8)


def test_losses_of_matrices_by_hand() -> None:
    """A row in the first of three values is in both prefixes; moved to the last it leaves both."""
    schema = schema_of(3, 2).to_dict()
    noise = {"kind": "laplace", "scale": 4.0}
    prefixes = {"kronecker": ["a0"], "matrices": {"a0": [[1, 0, 0], [1, 1, 0]]}}
    assert answer(prefixes, schema, ((0, 0), (1, 1), (2, 1))).tolist() == [1, 2]
    for relation in ("add-remove", "replace"):
        assert worst_pairs([(prefixes, noise)], schema, relation, pure=True)[0].loss == Fraction(2, 4)
    # Beside a matrix without the total stands a contrast, beside one with it cells
    with_contrast = {"kronecker": ["a0", "a1"], "matrices": prefixes["matrices"]}
    assert answer(with_contrast, schema, ((0, 1),)).tolist() == [-1, -1]
    with_cells = {"kronecker": ["a0", "a1"], "matrices": {"a0": [[1, 0, 0], [1, 1, 0], [1, 1, 1]]}}
    assert answer(with_cells, schema, ((1, 0),)).tolist() == [0, 0, 1, 0, 1, 0]
    assert worst_pairs([(with_cells, noise)], schema, "add-remove", pure=True)[0].loss == Fraction(3, 4)
    # From the first value to itself with another value of the second attribute: 3 numbers fall and 3 rise
    assert worst_pairs([(with_cells, noise)], schema, "replace", pure=True)[0].loss == Fraction(6, 4)


ORACLE = {"kind": "randomised-response", "sizes": [2], "keep": "3/4"}


def test_the_channel_of_randomised_response_by_hand() -> None:
    law = {0: Fraction(3, 4), 1: Fraction(1, 4)}
    assert defined_channel(ORACLE) == device_channel(ORACLE) == {(0,): law, (1,): {0: law[1], 1: law[0]}}
    assert largest_ratio(defined_channel(ORACLE)) == 3
    assert keeps_epsilon(Fraction(3), Fraction(11, 10))
    assert not keeps_epsilon(Fraction(3), Fraction(109, 100))  # e^1.09 = 2.974


def test_a_device_that_draws_otherwise_has_another_channel(monkeypatch) -> None:
    """Enumeration sees the code itself: with one value kept too often it is no longer the definition."""
    monkeypatch.setattr(client.draws, "_kept", lambda value, values, keep, source: value * source.below(1))
    assert device_channel(ORACLE)[1,] == {0: 1}
    assert largest_ratio({(0,): {0: Fraction(1)}, (1,): {1: Fraction(1)}}) is None
