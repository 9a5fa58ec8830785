from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from crosstally.errors import CrosstallyError, QueryError
from crosstally.generate.people import PEOPLE, people, resample
from crosstally_lab.generate.binary import independent
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.generate.transactions import transactions
from reference_evaluation import mutual_information, transitions


def seeded(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


# MCHAIN

PAPER = {0: 0.75, 1: 0.5 + 1 / 12, 2: 0.5 - 1 / 12, 3: 0.25}  # 0.5 + (1 - 2s/3) / 4


@pytest.mark.parametrize(
    ("claimed", "fits"),
    [
        (PAPER, True),
        ({ones: 1 - p for ones, p in PAPER.items()}, False),
        ({ones: 0.5 + (p - 0.5) * 1.15 for ones, p in PAPER.items()}, False),
        ({ones: p + 0.02 for ones, p in PAPER.items()}, False),
    ],
    ids=["paper", "mirrored", "15% stronger", "2% more ones"],
)
def test_the_next_bit_follows_the_previous_ones(claimed: dict[int, float], fits: bool) -> None:
    """Each of four frequencies lies within 5.4 standard errors: a false alarm in 3e-7 of runs, were it not seeded."""
    table, _ = markov_chain(100_000, 6, 3, seeded())
    counts = transitions([column.to_pylist() for column in table.columns], order=3)
    scores = [(ones - n * claimed[s]) / math.sqrt(n * claimed[s] * (1 - claimed[s])) for s, (n, ones) in counts.items()]
    assert (max(map(abs, scores)) < 5.4) is fits


def test_a_series_starts_with_fair_coins() -> None:
    """Each frequency within 5.4 standard errors, in each of the 8 starts: a false alarm in 6e-7 of runs."""
    table, _ = markov_chain(80_000, 5, 3, seeded(2))
    starts = np.stack([table[name].to_numpy() for name in ("x1", "x2", "x3")]).T @ np.array([4, 2, 1])
    scores = (np.bincount(starts, minlength=8) - 10_000) / math.sqrt(80_000 / 8 * 7 / 8)
    assert np.abs(scores).max() < 5.4


@pytest.mark.parametrize("order", range(1, 8))
def test_every_order_of_the_paper_gives_int8_columns_and_their_schema(order: int) -> None:
    table, schema = markov_chain(50, 64, order, seeded())
    assert table.num_rows == 50
    assert table.column_names == list(schema.names) == [f"x{i}" for i in range(1, 65)]
    assert set(table.schema.types) == {pa.int8()}
    assert schema.shape == (2,) * 64
    assert all(set(column.to_pylist()) <= {0, 1} for column in table.columns)


# People


def test_the_schema_accepts_all_people() -> None:
    table, schema = people(20_000, seeded())
    assert schema == PEOPLE
    assert table.column_names == list(schema.names)
    for attribute in schema.attributes:
        column = table[attribute.name]
        assert column.null_count == 0
        if attribute.edges:
            ages = column.to_numpy()
            assert pa.types.is_integer(column.type)
            assert attribute.edges[0] <= ages.min()
            assert ages.max() <= attribute.edges[-1]
            assert all(((ages >= a) & (ages < b)).any() for a, b in pairwise(attribute.edges))
        else:
            assert column.type == pa.string()
            assert set(column.to_pylist()) == set(attribute.values)  # and every label occurs


@pytest.mark.parametrize(
    ("cause", "effect", "floor"),
    [
        ("age", "employment", 0.3),
        ("education", "income", 0.08),
        ("employment", "income", 0.15),
        ("age", "household", 0.15),
        ("income", "home", 0.02),
        ("age", "health", 0.05),
        ("income", "health", 0.02),
        ("region", "education", 0.008),
        ("sex", "income", 0.008),
    ],
)
def test_people_are_correlated(cause: str, effect: str, floor: float) -> None:
    """Independent columns of r and c values show (r - 1)(c - 1) / 40,000 nats at 20,000 rows: at most 0.01 here."""
    table, _ = people(20_000, seeded())
    columns = [table[name].to_pylist() for name in (cause, effect)]
    assert mutual_information(*columns) > floor
    shuffled = seeded(3).permutation(np.array(columns[1])).tolist()
    assert mutual_information(columns[0], shuffled) < floor / 3


def test_the_model_s_plain_facts_hold() -> None:
    table, _ = people(50_000, seeded(4))
    age, work, sex = (
        table["age"].to_numpy(),
        np.array(table["employment"].to_pylist()),
        np.array(table["sex"].to_pylist()),
    )
    assert (work[age >= 75] == "Retired").mean() > 0.9
    assert (work[age < 25] == "Retired").sum() == 0
    # 60% of those from 75 on are women: about 4,000 people, a standard error of 0.008
    assert (sex[age >= 75] == "Female").mean() == pytest.approx(0.60, abs=0.045)


def test_the_same_seed_gives_the_same_people_whichever_attributes_are_kept() -> None:
    whole, _ = people(500, seeded(7))
    part, schema = people(500, seeded(7), attributes=["income", "age"])
    assert schema.names == ("income", "age")
    assert part.equals(whole.select(["income", "age"]))
    assert not whole.equals(people(500, seeded(8))[0])


def test_nobody_is_a_table_too() -> None:
    assert people(0, seeded())[0].num_rows == 0
    assert markov_chain(0, 4, 1, seeded())[0].num_rows == 0
    assert transactions(0, 4, seeded())[0].num_rows == 0


# Click streams


def test_independent_values_are_rare_and_tell_nothing_of_each_other() -> None:
    """Frequencies and pairs of 100,000 rows within 5.5 standard errors of 0.1 and 0.01: false alarm 6e-7."""
    table, schema = independent(100_000, 5, seeded())
    bits = np.stack([table[name].to_numpy() for name in schema.names]).astype(float)
    both = bits @ bits.T / 100_000
    expected = np.where(np.eye(5, dtype=bool), 0.1, 0.01)
    assert (np.abs(both - expected) < 5.5 * np.sqrt(expected * (1 - expected) / 100_000)).all()


def test_transactions_are_sparse_long_tailed_and_clustered() -> None:
    table, schema = transactions(70_000, 32, seeded())
    seen = np.stack([column.to_numpy() for column in table.columns])
    frequencies = np.sort(seen.mean(axis=1))[::-1]
    assert schema.shape == (2,) * 32
    assert set(table.schema.types) == {pa.int8()}
    assert 0.3 < frequencies[0] < 0.5
    assert 8 < frequencies[0] / np.median(frequencies) < 20
    assert len(np.unique(seen, axis=1).T) < 10_000  # of 70,000 rows
    together = np.corrcoef(seen)
    assert together[0, 5] > 0.3  # the same group
    assert abs(together[0, 4]) < 0.1  # different groups


def test_generators_repeat_themselves_for_a_seed() -> None:
    for generate in (lambda r: markov_chain(70_000, 5, 2, r)[0], lambda r: transactions(70_000, 5, r)[0]):
        assert generate(seeded(1)).equals(generate(seeded(1)))
        assert not generate(seeded(1)).equals(generate(seeded(2)))


# Resampling


def test_resampling_draws_rows_with_replacement() -> None:
    """Each of two rows 5000 times in 10,000, within 5.4 standard errors of 50: a false alarm in 1e-7 of runs."""
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    drawn = resample(table, 10_000, seeded())
    pairs = list(zip(drawn["a"].to_pylist(), drawn["b"].to_pylist(), strict=True))
    assert set(pairs) == {(1, "x"), (2, "y")}
    assert abs(pairs.count((1, "x")) - 5000) < 270
    assert resample(table.slice(0, 0), 0, seeded()).num_rows == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: people(-1, seeded()), "rows must not be negative, got -1"),
        (lambda: markov_chain(3, 4, 4, seeded()), r"order must be from 1 to 3 \(one less than the attributes\), got 4"),
        (lambda: markov_chain(3, 4, 0, seeded()), "order must be from 1 to 3"),
        (lambda: transactions(3, 0, seeded()), "attributes must be at least 1, got 0"),
        (lambda: resample(pa.table({"a": pa.array([], pa.int8())}), 2, seeded()), "without rows"),
    ],
)
def test_impossible_sizes_are_refused(call, message) -> None:
    with pytest.raises(CrosstallyError, match=message):
        call()


def test_an_unknown_attribute_of_people_is_named() -> None:
    with pytest.raises(QueryError, match="unknown attribute 'incme'; did you mean 'income'"):
        people(5, seeded(), attributes=["incme"])
