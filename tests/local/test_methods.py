"""Who is asked what: the error model against its definition, table by table, and the choices that follow from it."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from crosstally.local import design
from crosstally.local.collector import release_of
from crosstally.local.estimate.report_counts import measurements_of
from crosstally.local.planning.methods import (
    METHODS,
    balanced_views,
    calm_noise,
    calm_views,
    groups_of,
    view_candidates,
)
from crosstally.local.planning.report_groups import (
    STRONG,
    TYPICAL,
    WEAK,
    measured_sets,
    predicted_error,
    residual_groups,
    unmeasured_error,
    view_groups,
)
from crosstally.schema import Attribute, Schema
from crosstally.sources.codes.encode import Encoder
from crosstally_lab.generate.classes import hidden_classes
from crosstally_lab.papers.calm.simulated import collection

EPSILON = Fraction(1)
PEOPLE = 50_000


def precision(group, sizes, one):
    """One over the variance of a coefficient of a set from one person of a group; 0 where the group tells nothing."""
    inside = [sizes[i] for i in one]
    if not set(one) <= set(group.attributes):
        return 0.0
    match group.oracle.kind:
        case "residual-bit":
            known = 1 / (group.oracle.response + 1 / math.prod(inside)) if one == group.attributes else 0.0
        case "each-attribute":
            known = 1 / group.oracle.response(one)
        case _:
            cells = math.prod(group.oracle.sizes)
            known = math.prod(inside) / cells / (group.oracle.coefficient_variance + 1 / cells)
    return known


def reference_error(sizes, groups, ways, *, shrunk, beliefs=TYPICAL):
    """Every table, every set of attributes in it: its error, of which the attributes outside the set leave some."""
    shares = sum(group.share for group in groups)

    def known(one):
        return sum(PEOPLE * group.share / shares * precision(group, sizes, one) for group in groups)

    def told(i):
        total = 0.0
        for j in set(range(len(sizes))) - {i}:
            pair = known((min(i, j), max(i, j)))
            if ways > 1 and pair:
                spread = beliefs.moments[1] / ((sizes[i] - 1) * (sizes[j] - 1))
                total += 0.7 * (1 - 1 / sizes[j]) / (1 / pair + spread)
        return total

    def error(one):
        expected, here = (*beliefs.moments, 0.0, 0.0)[len(one) - 1], known(one)
        coefficients = math.prod(sizes[i] - 1 for i in one)
        if here == 0:
            return expected
        if not shrunk:
            return coefficients / here
        if len(one) == 1:
            alone, both = coefficients / here, coefficients / (here + told(one[0]))
            return alone + beliefs.common * (both - alone)
        return 1 / (here / coefficients + 1 / expected) if expected else coefficients / here

    tables = list(combinations(range(len(sizes)), ways))
    return sum(
        error(one)
        * math.prod(beliefs.concentration + (1 - beliefs.concentration) / sizes[i] for i in table if i not in one)
        for table in tables
        for k in range(1, ways + 1)
        for one in combinations(table, k)
    ) / len(tables)


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 5, 2, 3)])
@pytest.mark.parametrize("ways", [1, 2, 3, 4])
@pytest.mark.parametrize("method", METHODS)
def test_the_error_model_is_what_it_says(sizes, ways, method) -> None:
    groups = METHODS[method](sizes, EPSILON, PEOPLE, ways)
    for shrunk, beliefs in ((False, TYPICAL), (True, TYPICAL), (True, WEAK), (False, STRONG)):
        found = predicted_error(sizes, groups, people=PEOPLE, ways=ways, shrunk=shrunk, beliefs=beliefs)
        assert found == pytest.approx(reference_error(sizes, groups, ways, shrunk=shrunk, beliefs=beliefs), rel=1e-9)


@pytest.mark.parametrize("epsilon", [Fraction("0.3"), Fraction(1), Fraction(2)])
def test_no_other_shares_on_the_grid_are_expected_to_be_better(epsilon) -> None:
    sizes, people = (2,) * 10, 200_000
    _, groups = groups_of("residuals", sizes, epsilon=epsilon, people=people, ways=3)
    best = predicted_error(sizes, groups, people=people, ways=3, shrunk=True)
    for pairs in (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9):
        for triples in (0.0, 0.05, 0.1, 0.2):
            if pairs + triples <= 0.9:
                other = residual_groups(sizes, (1 - pairs - triples, pairs, triples), epsilon, 3)
                assert best <= predicted_error(sizes, other, people=people, ways=3, shrunk=True) * (1 + 1e-4)


def test_views_are_those_of_the_least_expected_error() -> None:
    sizes = (2,) * 9
    kinds = ("randomised-response", "unary-encoding", "local-hashing")
    views = balanced_views(sizes, epsilon=EPSILON, people=PEOPLE, ways=3)
    errors = {
        other: reference_error(sizes, view_groups(sizes, other, EPSILON, kinds), 3, shrunk=False)
        for other in view_candidates(sizes, 3)
    }
    assert errors[views] == pytest.approx(min(errors.values()))


def test_the_noise_of_calm_is_that_of_the_paper() -> None:
    """Six views of four of eight binary attributes: 6 x 16 cells x Var0 = 4e / (e - 1)^2 = 3.6827 by OUE."""
    views = ((0, 1, 2, 3), (0, 4, 5, 6), (0, 3, 4, 7), (1, 2, 5, 7), (1, 3, 6, 7), (2, 3, 5, 6))
    assert calm_noise((2,) * 8, views, EPSILON, 10**6) == pytest.approx(6 * 16 * 3.6827e-6, rel=1e-3)


@pytest.mark.parametrize(("people", "cover"), [(20_000, 1), (400_000, 2), (2_000_000, 3)])
def test_calm_covers_as_many_attributes_as_noise_allows(people, cover) -> None:
    """Eight binary attributes, ε = 1: noise of at most 0.001; more people let more be held together."""
    sizes = (2,) * 8
    views = calm_views(sizes, epsilon=EPSILON, people=people, ways=3)
    held = {one for view in views for k in (1, 2, 3) for one in combinations(view, k)}
    assert all(one in held for one in combinations(range(8), cover))
    assert cover == 1 or calm_noise(sizes, views, EPSILON, people) <= 0.001
    assert cover == 3 or not all(one in held for one in combinations(range(8), cover + 1))
    assert METHODS["calm"](sizes, EPSILON, people, 3)[0].oracle.kind in ("randomised-response", "unary-encoding")


def test_many_attributes_are_designed_for_too() -> None:
    """Every three of 60 attributes together would need more views than there may be: fewer are held together then."""
    schema = Schema(tuple(Attribute(f"a{i}", tuple("abcd")) for i in range(60)))
    protocol = design(schema, epsilon=1, people=1_000_000, ways=3)
    assert protocol.method == "residuals"
    asked = {group.attributes for group in protocol.groups}
    assert asked >= set(combinations(range(60), 1)) | set(combinations(range(60), 2))


def test_a_hundred_mixed_attributes_are_designed_for_in_seconds() -> None:
    """Two to fifty values; three CPU seconds when it was written; before that nobody saw it end."""
    sizes = [(2, 2, 3, 4, 5, 7, 10, 16, 30, 50)[i * 7 % 10] for i in range(100)]
    schema = Schema(tuple(Attribute(f"a{i}", tuple(map(str, range(n)))) for i, n in enumerate(sizes)))
    start = time.process_time()
    protocol = design(schema, epsilon=1, people=1_000_000, ways=3)
    assert time.process_time() - start < 30
    assert len(protocol.groups) == 100 + math.comb(100, 2)


def test_what_sets_add_that_nobody_is_asked_about() -> None:
    """Over all tables of three of four attributes: 0.001 for each pair, times one over the cells of the third."""
    sizes = (2, 3, 4, 5)
    pairs = [0.001 / sizes[i] for table in combinations(range(4), 3) for i in table]
    assert unmeasured_error(sizes, 2, 3) == pytest.approx(sum(pairs) / 4)
    assert unmeasured_error(sizes, 3, 3) == pytest.approx(0.000002)
    assert unmeasured_error(sizes, 4, 4) == 0


def test_sets_of_many_among_many_attributes_are_told_apart() -> None:
    """Twelve attributes of 300 together: more sets than a machine word counts. Only two views hold their own twelve."""
    views = [range(12), range(288, 300)]
    groups = view_groups((2,) * 300, views, EPSILON)
    found = measured_sets((2,) * 300, groups, PEOPLE, 12, 12)
    assert sorted(map(tuple, found.sets.tolist())) == [tuple(views[0]), tuple(views[1])]
    assert found.precision == pytest.approx(PEOPLE / 2 * precision(groups[0], (2,) * 300, tuple(views[0])))


def test_the_table_of_all_attributes_has_the_oracles_of_the_paper() -> None:
    """GRR, OUE or OLH, of which none can serve 2^13 cells well: there it is Hadamard response."""
    assert [METHODS["full"]((2,) * d, EPSILON, PEOPLE, 2)[0].oracle.kind for d in (2, 5, 8, 13)] == [
        "randomised-response",
        "unary-encoding",
        "local-hashing",
        "hadamard-response",
    ]


# The error that is promised


def measured_error(codes, protocol, random):
    """The L2 error, in frequencies, of the release of one collection: the root of the mean SSE of 20 tables."""
    sizes, people = protocol.schema.shape, codes.shape[1]
    counted, counts = collection(protocol, codes, random)
    release = release_of(protocol, measurements_of(protocol, counted, counts), people)
    tables = list(combinations(range(len(sizes)), protocol.ways))
    squares = []
    for table in (tables[i] for i in random.permutation(len(tables))[:20]):
        truth = np.zeros([sizes[i] for i in table])
        np.add.at(truth, tuple(codes[i] for i in table), 1)
        found = release.marginal(*(protocol.schema.names[i] for i in table)).values
        squares.append((((found - truth) / people) ** 2).sum())
    return math.sqrt(np.mean(squares))


def people_like(schema, seed):
    """40,000 people of a mixture of hidden classes, which nothing was chosen on."""
    table, _ = hidden_classes(schema, 40_000, np.random.default_rng(seed))
    return np.stack([Encoder.of(each).raw(table.combine_chunks().to_batches()[0]) for each in schema.attributes])


@pytest.mark.parametrize(("method", "epsilon"), [("auto", "0.5"), ("auto", 2), ("calm", 1), ("marginals", 2)])
@pytest.mark.parametrize("sizes", [(2,) * 8, (2, 3, 5, 4, 2, 8)])
def test_the_error_that_is_promised_is_measured(sizes, method, epsilon) -> None:
    """Binary and categorical attributes that depend on each other: within the range; the mean of three collections."""
    schema = Schema(tuple(Attribute(f"a{i}", tuple(map(str, range(n)))) for i, n in enumerate(sizes)))
    protocol = design(schema, epsilon=epsilon, people=40_000, ways=2, method=method)
    codes, random = people_like(schema, 11), np.random.default_rng(7)
    found = np.mean([measured_error(codes, protocol, random) for _ in range(3)])
    low, high = protocol.predicted_error
    assert low < found < high
    assert high < 1
