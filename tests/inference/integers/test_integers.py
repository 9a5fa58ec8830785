"""Integer tables: whole numbers, non-negative, all marginals of one table, near to the real-valued answers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from conftest import schema_of
from crosstally.answers.integer_tables import integer_tables
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import LinearLaw
from crosstally.budget import Budget, Neighbours
from crosstally.errors import CrosstallyError, QueryError, TooManyCellsError
from crosstally.inference.integers.cell_columns import Target
from crosstally.inference.integers.projection import (
    _moved_rows,
    nonnegative_least_squares,
    projected_table,
)
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, Statement, publish
from crosstally.schema import Attribute, Impossible, Schema
from crosstally.strategies import Direct, Fourier
from crosstally.workload import Workload
from reference_fourier import downward_closure, marginal_matrix, nearest_by_cone_program


def release_of(schema: Schema, codes: np.ndarray, workload: Workload, *, epsilon, seed, strategy, rows=None) -> Release:
    """A release of rows given as codes, with noise from a seed: the same in every run of the tests."""
    rng = np.random.default_rng(seed)
    budget = Budget(epsilon=epsilon)
    measured = []
    for request in strategy.plan(schema, workload, budget).requests:
        names = request.query.attributes
        table = np.zeros(schema.sizes(names), np.int64)
        np.add.at(table, tuple(codes[:, schema.positions[name]] for name in names), 1 if names else len(codes))
        values = np.asarray(request.query.answer(table))
        noisy = values + np.rint(rng.laplace(0, request.noise.scale, values.shape)).astype(np.int64)
        noise = request.noise
        measured.append(Measurement(request.query, noisy, variance=noise.variance, noise=noise, origin="test"))
    statement = Statement(strategy=strategy.name, budget=budget, neighbours=Neighbours.ADD_REMOVE, rows=rows)
    return publish(schema, measured, statement)


def check_whole_and_consistent(found, workload: Workload, total: int) -> None:
    tables = {names: found.table(*names) for names in workload.tables}
    for names, table in tables.items():
        assert table.dtype == np.int64
        assert (table >= 0).all()
        assert table.sum() == total == found.total
        assert np.array_equal(found.marginal(*names).values, table)
    for first, second in combinations(tables, 2):
        common = [name for name in first if name in second]
        sums = [
            tables[each].sum(axis=tuple(i for i, name in enumerate(each) if name not in common))
            for each in (first, second)
        ]
        order = [[name for name in each if name in common] for each in (first, second)]
        assert np.array_equal(sums[0], sums[1].transpose([order[1].index(name) for name in order[0]]))


def check_random_cases(runs: int) -> None:
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        schema = schema_of(*rng.integers(2, 5, rng.integers(2, 6)).tolist())
        codes = np.stack([rng.integers(0, n, int(rng.integers(0, 300))) for n in schema.shape[:1]], axis=1)
        codes = np.stack(
            [rng.integers(0, n, len(codes)) * (rng.random(len(codes)) < 0.5) for n in schema.shape], axis=1
        )
        every = [names for k in (1, 2, 3) for names in combinations(schema.names, k)]
        chosen = rng.choice(len(every), min(len(every), int(rng.integers(1, 6))), replace=False)
        workload = Workload([every[i] for i in sorted(chosen)])
        public = len(codes) if seed % 3 == 0 else None
        release = release_of(
            schema,
            codes,
            workload,
            epsilon=[0.1, 1, 10][seed % 3],
            seed=seed,
            strategy=Direct() if seed % 2 else Fourier(),
            rows=public,
        )
        method = "projection" if seed % 5 == 4 else None
        found = release.integers(workload, method=method)
        total = public if public is not None else max(0, round(release.rows))
        check_whole_and_consistent(found, workload, total)
        closure = sum(math.prod(schema[n].size - 1 for n in each) for each in downward_closure(list(workload.tables)))
        for names in workload.tables:
            distance = np.abs(found.table(*names) - release.marginal(*names).values).sum()
            assert distance == pytest.approx(found.distances[names], abs=1e-6)
            assert distance <= found.limit + 1e-6
        if method is None:
            assert len(found.counts) <= closure
            answers = np.concatenate([release.marginal(*names).values.ravel() for names in workload.tables])
            axes = [tuple(schema.positions[name] for name in names) for names in workload.tables]
            if schema.cells <= 100 and seed % 10 == 0:  # the bound from an independent solver's optimum
                matrix = np.vstack([marginal_matrix(schema.shape, axes), np.full((1, schema.cells), 1e4)])
                optimum = nearest_by_cone_program(matrix, np.append(answers, total * 1e4), "total")
                assert found.limit <= optimum + closure + 1e-3 * max(1, optimum)


def test_random_releases_become_whole_numbers_that_agree() -> None:
    check_random_cases(30)


@pytest.mark.verify
def test_a_thousand_random_releases_become_whole_numbers_that_agree() -> None:
    check_random_cases(1000)


def test_rows_and_counts_are_the_same_table() -> None:
    schema = Schema([Attribute("sex", ["F", "M"]), Attribute("count", ["low", "high", "none"])])
    answers = {("sex", "count"): np.array([[2.2, 0.3, 1.1], [-0.4, 3.6, 0.2]])}
    found = integer_tables(schema, answers, total=7)
    assert found.total == 7
    rows = Counter(zip(*(column.to_pylist() for column in found.to_rows().columns), strict=True))
    counted = {tuple(list(row.values())[:2]): row["count_"] for row in found.to_arrow().to_pylist()}
    assert rows == counted
    # -0.4 becomes 0 and 0.4 is taken from another cell: 0.8, and at most one for each of the six cells by rounding
    assert 0.8 - 1e-9 <= found.distances["sex", "count"] <= found.limit <= 6.8 + 1e-9
    assert found.table("count", "sex").T.tolist() == found.table("sex", "count").tolist()
    assert int(found.table()) == 7
    assert str(found.marginal("sex")).startswith("sex")
    assert repr(found).startswith("IntegerTables(7 rows in ")


def test_answers_that_rows_have_are_met_but_for_rounding() -> None:
    """The tables of 500 rows themselves: the program finds a table with the same marginals."""
    rng = np.random.default_rng(1)
    schema = schema_of(2, 3, 2, 2)
    codes = np.stack([rng.integers(0, n, 500) for n in schema.shape], axis=1)
    answers = {}
    for names in combinations(schema.names, 2):
        answers[names] = np.zeros(schema.sizes(names))
        np.add.at(answers[names], tuple(codes[:, schema.positions[name]] for name in names), 1)
    found = integer_tables(schema, answers, total=500)
    assert found.gap <= 1e-5
    assert found.limit <= 1 + 5 + 9 + 1e-6, "|B|: one total, 5 and 9 coefficients of one and two attributes"
    assert max(found.distances.values()) <= found.limit


def test_a_domain_of_2_to_the_32_cells() -> None:
    """All neighbouring pairs of 32 attributes, noise of scale 10: nearer to the truth than the noise."""
    rng = np.random.default_rng(3)
    schema = schema_of(*[2] * 32)
    codes = np.zeros((400, 32), np.int64)
    for i in range(1, 32):
        codes[:, i] = np.where(rng.random(400) < 0.7, codes[:, i - 1], rng.integers(0, 2, 400))
    answers, truth = {}, {}
    for i in range(31):
        names = (f"a{i}", f"a{i + 1}")
        truth[names] = np.zeros((2, 2))
        np.add.at(truth[names], (codes[:, i], codes[:, i + 1]), 1)
        answers[names] = truth[names] + rng.laplace(0, 10, (2, 2))
    found = integer_tables(schema, answers, total=400)
    check_whole_and_consistent(found, Workload(tuple(answers)), 400)
    error = np.mean([np.abs(found.table(*names) - truth[names]).mean() for names in truth])
    noise = np.mean([np.abs(answers[names] - truth[names]).mean() for names in truth])
    assert error < noise
    assert found.method == "projection"
    assert math.isnan(found.gap)
    again = integer_tables(schema, answers, total=400)
    assert np.array_equal(again.cells, found.cells)


def test_least_squares_without_negative_weights() -> None:
    """Against SciPy's solver on random problems."""
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix, values = rng.normal(size=(20, 8)), rng.normal(size=20)
        found = nonnegative_least_squares(matrix.T @ matrix, matrix.T @ values, np.zeros(8))
        assert (found >= 0).all()
        best = nnls(matrix, values)[1]
        used = found > 0
        alone = np.linalg.lstsq(matrix[:, used], values, rcond=None)[0] if used.any() else np.empty(0)
        assert np.allclose(found[used], alone, atol=1e-6), "optimal among the columns it kept"
        assert np.linalg.norm(matrix @ found - values) >= best - 1e-9


def test_rows_move_while_that_brings_the_table_nearer() -> None:
    """Two rows go from the second cell to the first, and the third cell stays: (2, 2, 0) squared apart to nothing."""
    counts, moves = _moved_rows(np.eye(3), np.array([3.0, 1.0, 2.0]), np.array([1, 3, 2]))
    assert counts.tolist() == [3, 1, 2]
    assert moves == 2


def test_the_projected_table_is_as_near_as_that_of_another_solver() -> None:
    """SciPy's, which sees all cells: projection has to find those that it needs, and their weights."""
    from scipy.optimize import nnls

    for seed in range(8):
        rng = np.random.default_rng(seed)
        schema = schema_of(2, 3, 2, 4)
        axes = [(0, 1), (1, 2), (2, 3), (0, 3)]
        matrix = marginal_matrix(schema.shape, axes)
        rows = rng.multinomial(60, rng.dirichlet(np.full(schema.cells, 0.2)))
        values = matrix @ rows + rng.laplace(0, 6, len(matrix))
        ends = np.cumsum([math.prod(schema.shape[i] for i in table) for table in axes])
        targets = [
            Target(query, part.reshape(query.shape(schema)))
            for table, part in zip(axes, np.split(values, ends[:-1]), strict=True)
            for query in [Cells(tuple(schema.names[i] for i in table))]
        ]
        fitted = projected_table(schema, targets, step=1e-6)
        assert fitted.distance == pytest.approx(nnls(matrix, values)[1], rel=1e-4)
        dense = np.zeros(schema.shape)
        np.add.at(dense, tuple(fitted.cells.T), fitted.weights)
        assert np.linalg.norm(matrix @ dense.ravel() - values) == pytest.approx(fitted.distance, rel=1e-4)


def test_what_cannot_be_is_refused() -> None:
    schema = schema_of(2, 2)
    table = {("a0",): np.array([1.0, 2.0])}
    with pytest.raises(QueryError, match="total must be a whole number of at least 0, got -1"):
        integer_tables(schema, table, total=-1)
    with pytest.raises(QueryError, match="method must be linear-program or projection"):
        integer_tables(schema, table, total=3, method="rounding")
    with pytest.raises(QueryError, match="name at least one table"):
        integer_tables(schema, {}, total=3)
    wide = schema_of(*[2] * 40)
    found = integer_tables(wide, table, total=3)
    with pytest.raises(TooManyCellsError, match="at most 5,000,000 fit"):
        found.table(*wide.names)
    with pytest.raises(CrosstallyError, match="unknown attribute 'b'"):
        found.table("b")
    empty = integer_tables(schema, table, total=0)
    assert empty.table("a0").tolist() == [0, 0]
    assert empty.to_rows().num_rows == 0


def test_whole_numbers_beside_an_answer() -> None:
    """Five rows over sex and smoker: three non-smoking women, two smoking men. The answer is apart by 0.4 and 1.6."""
    schema = Schema([Attribute("sex", ["f", "m"]), Attribute("smoker", ["no", "yes"])])
    found = integer_tables(schema, {("sex", "smoker"): np.array([[3.0, 0.0], [0.0, 2.0]])}, total=5)
    plain = Marginal(
        schema.subset("sex"),
        np.array([3.4, 3.6]),
        method="least squares",
        error_kind=ErrorKind.EXACT,
        uncertainty=LinearLaw(None, HalfOfOne()),
    )
    whole = found.beside(plain)
    assert whole.values.tolist() == [3, 2]
    assert found.total_variation(plain) == pytest.approx((0.4 + 1.6) / 2 / 5)
    low, high = whole.interval()
    assert low.tolist() == pytest.approx([2.4, 2.0])  # the second is widened to the whole number
    assert high.tolist() == pytest.approx([4.4, 4.6])
    smokers = replace(plain, schema=schema.subset("sex"), where="smoker = yes")
    assert found.beside(smokers).values.tolist() == [0, 2]
    men = Schema([schema["sex"].keeping([1])])
    assert found.beside(replace(plain, schema=men, values=np.array([3.6]), where="sex = m")).values.tolist() == [2]
    unknown = plain.without_error()
    assert np.isnan(found.beside(unknown).std_error).all()
    with pytest.raises(QueryError, match="a table of counts of the same attributes"):
        found.beside(replace(plain, quantity="share"))


class HalfOfOne:
    """Every cell within plus or minus one."""

    std_error = 0.5

    def half_width(self, level: float) -> float:
        return 1.0


# Structural zeros


@pytest.mark.parametrize("method", ["linear-program", "projection"])
@pytest.mark.parametrize("sizes", [(3, 3), (3, 4, 5), (6, 6, 6, 6)], ids=str)
def test_no_row_is_in_a_cell_that_the_schema_calls_impossible(method: str, sizes: tuple[int, ...]) -> None:
    """Single tables leave open which values are together: without the facts the fits use impossible ones."""
    plain = schema_of(*sizes)
    values = {name: [str(v) for v in range(n)] for name, n in zip(plain.names, sizes, strict=True)}
    facts = [Impossible({"a0": ("0",), "a1": ("0", "1")})]
    if len(sizes) > 2:
        facts.append(Impossible({"a0": ("1", "2"), "a2": ("0",)}))
        facts.append(Impossible({"a2": ("2",), "a0": ("2",), "a1": ("2",)}))
    schema = Schema(plain.attributes, facts=facts)
    rng = np.random.default_rng(len(sizes))
    rows = np.stack([rng.integers(0, n, 3_000) for n in sizes], axis=1)
    impossible = np.zeros(len(rows), bool)
    for fact in facts:
        own = [
            np.isin(rows[:, plain.positions[n]], [values[n].index(v) for v in kept]) for n, kept in fact.values.items()
        ]
        impossible |= np.logical_and.reduce(own)
    rows = rows[~impossible][:1_000]
    answers = {
        (name,): np.bincount(rows[:, i], minlength=n) + rng.normal(0, 3, n)
        for i, (name, n) in enumerate(zip(plain.names, sizes, strict=True))
    }
    found = integer_tables(schema, answers, total=1_000, method=method)
    for fact in facts:
        names = tuple(fact.values)
        at = np.ix_(*([values[name].index(v) for v in fact.values[name]] for name in names))
        assert found.table(*names)[at].sum() == 0
    assert found.total == 1_000
    assert max(found.distances.values()) < 60  # noise of scale 3 on up to 6 numbers; whatever it is, rows can be near
    free = integer_tables(plain, answers, total=1_000, method=method)
    assert len(sizes) == 2 or any(
        free.table(*fact.values)[np.ix_(*([values[n].index(v) for v in kept] for n, kept in fact.values.items()))].any()
        for fact in facts
    )


def test_whole_numbers_need_a_possible_cell() -> None:
    facts = [Impossible({"a0": ("0",), "a1": ("0",)}), Impossible({"a0": ("0",), "a1": ("1",)})]
    facts += [Impossible({"a0": ("1",), "a1": ("0",)}), Impossible({"a0": ("1",), "a1": ("1",)})]
    schema = Schema(schema_of(2, 2).attributes, facts=facts)
    for method in ("linear-program", "projection"):
        with pytest.raises(QueryError, match="whole numbers need a cell that can hold rows"):
            integer_tables(schema, {("a0",): np.array([0.0, 0.0])}, total=10, method=method)


def test_a_release_obeys_its_facts_in_whole_numbers() -> None:
    """Also where all rows are in the impossible cell, which noise says and the schema denies."""
    schema = Schema(schema_of(3, 3, 2).attributes, facts=[Impossible({"a0": ("0",), "a1": ("0",)})])
    codes = np.zeros((500, 3), np.int64)
    singles = Workload([("a0",), ("a1",), ("a2",)])
    release = release_of(schema, codes, singles, epsilon=1, seed=0, strategy=Direct())
    for wanted in (None, singles):
        found = release.integers(wanted)
        assert found.table("a0", "a1")[0, 0] == 0
        assert found.table("a1", "a2", "a0")[0, :, 0].tolist() == [0, 0]
        assert found.total == round(release.rows)
