"""Tables of the rows that satisfy a condition: values, labels and errors, against sums by hand and cell by cell."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import crosstally as ct
from crosstally.answers.marginal import ErrorKind
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, Statement, publish
from crosstally.schema import Attribute, Schema

LAPLACE = Noise(NoiseKind.LAPLACE, 10.0)
SCHEMA = Schema(
    [
        Attribute("sex", ["Female", "Male"]),
        Attribute("age", edges=[0, 18, 25, 65, 120]),
        Attribute("region", ["North", "South", "East"], missing=True),
        Attribute("pet", ["cat", "dog"]),
    ]
)
COUNTS = np.random.default_rng(1).integers(50, 500, SCHEMA.subset("sex", "age", "region").shape)


def release(*tables: tuple[str, ...]) -> Release:
    """Sex by age by region (and not pets with anything) measured, or these tables, as they are in ``COUNTS``."""
    names = ("sex", "age", "region", "pet")
    joint = np.multiply.outer(COUNTS, [2, 1])
    measurements = [
        Measurement(
            Cells(table),
            joint.sum(axis=tuple(i for i, name in enumerate(names) if name not in table)),
            variance=LAPLACE.variance,
            noise=LAPLACE,
            origin="test",
        )
        for table in tables or (("sex", "age", "region"), ("pet",))
    ]
    statement = Statement(strategy="test", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    return publish(SCHEMA, measurements, statement, nonnegative="none")


Row = dict[str, str]
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "25 <= age < 65 and region != North": lambda row: row["age"] == "[25, 65)" and row["region"] != "North",
    "age = [18, 25)": lambda row: row["age"] == "[18, 25)",
    "sex = Female and age = '[18, 25)'": lambda row: row["sex"] == "Female" and row["age"] == "[18, 25)",
    "region in {North, (missing)} or sex = Male": lambda row: (
        row["region"] in ("North", "(missing)") or row["sex"] == "Male"
    ),
    "(age < 18 and sex = Male) or (age >= 65 and region = East)": lambda row: (
        (row["age"] == "[0, 18)" and row["sex"] == "Male") or (row["age"] == "[65, 120]" and row["region"] == "East")
    ),
    "not (age >= 18 and region = South)": lambda row: row["age"] == "[0, 18)" or row["region"] != "South",
    "age >= 0": lambda row: True,
}


def by_hand(names: tuple[str, ...], true: Callable[[Row], bool]) -> dict[tuple[str, ...], list[int]]:
    """For each combination of labels of ``names`` that some satisfying cell has, the counts added up."""
    own = ("sex", "age", "region")
    parts: dict[tuple[str, ...], list[int]] = {}
    for place in np.ndindex(*COUNTS.shape):
        row = {name: SCHEMA[name].labels[code] for name, code in zip(own, place, strict=True)}
        if true(row):
            parts.setdefault(tuple(row[name] for name in names), []).append(3 * int(COUNTS[place]))
    return parts


@pytest.mark.parametrize("names", [(), ("sex",), ("age",), ("region", "sex"), ("sex", "age", "region")])
@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_adds_up_the_cells_where_it_is_true(text: str, names: tuple[str, ...]) -> None:
    """Each answer is a sum of measured cells, over the labels that rows satisfying the condition can have."""
    answer, parts = release().marginal(*names, where=text), by_hand(names, CONDITIONS[text])
    assert answer.where == text
    assert answer.error_kind is ErrorKind.EXACT
    found = answer.to_arrow().to_pylist()
    for axis, name in enumerate(names):
        seen = {labels[axis] for labels in parts}
        assert answer.schema[name].labels == tuple(label for label in SCHEMA[name].labels if label in seen)
    assert len(found) == math.prod(answer.schema.shape)
    for cell in found:
        added = parts.get(tuple(cell[name] for name in names), [])
        assert cell["count"] == pytest.approx(sum(added), abs=1e-6)
        assert cell["std_error"] == pytest.approx(math.sqrt(sum_variance(len(added))), rel=1e-9, abs=1e-9)


def sum_variance(k: int) -> float:
    """Of a sum of k of 32 cells, each with variance v, where a second view of two cells says the total again.

    The total of the cells (variance 32 v) is averaged with that of the second view (2 v), which takes away
    32 / (32 + 2) of the variance along the mean: k v - (k / 32)^2 x 32 v x 32 / 34.
    """
    return LAPLACE.variance * (k - k**2 / 34)


def test_intervals_are_those_of_the_sum() -> None:
    """Six cells of scale 10 added up for each sex: the interval of their sum, by convolution."""
    answer = release(("sex", "age", "region")).marginal("sex", where="25 <= age and region != North")
    one = np.exp(-np.abs(np.arange(-400, 401)) / 10)
    one /= one.sum()
    total = np.ones(1)
    for _ in range(6):
        total = np.convolve(total, one)
    centre = len(total) // 2
    for level in (0.5, 0.9, 0.95):
        half = next(h for h in range(centre) if total[centre - h : centre + h + 1].sum() >= level)
        assert answer.half_width(level) == pytest.approx([half, half], abs=1e-3)
        np.testing.assert_allclose(answer.interval(level)[1] - answer.values, half, atol=1e-3)


def test_labels_mixed_with_others_stay_and_have_errors_of_their_own() -> None:
    """Of women all 16 cells, of men the 4 from 65 on."""
    alone = release(("sex", "age", "region"))
    answer = alone.marginal("sex", where="sex = Female or age >= 65")
    assert answer.schema["sex"].labels == ("Female", "Male")
    np.testing.assert_allclose(answer.std_error, np.sqrt(LAPLACE.variance * np.array([16, 4])), rtol=1e-9)
    both = alone.marginal("sex", "age", where="(sex = Female and age < 18) or (sex = Male and age >= 65)")
    assert both.schema.shape == (2, 2)
    np.testing.assert_allclose(both.std_error, np.sqrt(LAPLACE.variance * np.array([[4, 0], [0, 4]])), rtol=1e-9)
    assert both.values[0, 1] == both.values[1, 0] == 0
    assert both.half_width(0.95)[0, 1] == 0


def test_a_table_that_is_not_covered_has_no_error() -> None:
    """Pets were measured alone; the least assuming table has two cats for each dog everywhere."""
    answer = release().marginal("sex", where="pet = dog and age < 18")
    assert answer.error_kind is ErrorKind.NONE
    assert np.isnan(answer.std_error).all()
    np.testing.assert_allclose(answer.values, COUNTS[:, 0].sum(axis=1), rtol=1e-4)


def test_an_attribute_of_which_every_value_is_in_is_not_needed() -> None:
    answer = release().marginal("sex", where="pet in {cat, dog} and age >= 18")
    assert answer.error_kind is ErrorKind.EXACT
    np.testing.assert_allclose(answer.values, 3 * COUNTS[:, 1:].sum(axis=(1, 2)), rtol=1e-9)


def test_conditions_in_python_and_in_batches() -> None:
    made = release()
    text = made.marginal("sex", where="18 <= age < 65 and region = East")
    assert "18 <= age < 65 and region = East" in repr(text)
    tables = [("sex",), ("region", "sex"), ()]
    for where in ({"age": (18, 65), "region": "East"}, ct.count("region = East", age=(18, 65))):
        answers = made.marginals(tables, where=where)
        np.testing.assert_allclose(answers[0].values, text.values)
        np.testing.assert_allclose(answers[0].std_error, text.std_error)
        assert answers[1].schema["region"].labels == ("East",)
        assert answers[2].values == pytest.approx(text.values.sum())
        again = made.marginal("sex", where=answers[0].where)  # the words are a condition again
        np.testing.assert_allclose(again.values, text.values)
    either = made.marginal("sex", where=made.marginal("sex", where=ct.count("age < 18 or region = East")).where)
    np.testing.assert_allclose(either.values, made.marginal("sex", where="age < 18 or region = East").values)


def test_a_single_label_prints_plots_and_becomes_a_frame() -> None:
    answer = release().marginal("sex", "age", where="sex = Male and age >= 18")
    assert repr(answer).splitlines()[0].startswith("sex x age where sex = Male and age >= 18: ")
    assert answer.to_xarray().attrs["where"] == "sex = Male and age >= 18"
    assert [str(label) for label in answer.to_pandas()["sex"].unique()] == ["Male"]
    chart = answer.plot().to_dict()
    assert chart["title"]["text"] == "Count by age"
    assert chart["title"]["subtitle"][0].startswith("sex = Male and age >= 18; ")


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("age >= 20", "at position 1: 'age': bounds must be edges of its bins, got 20"),
        ("sex = Femal", "at position 1: 'sex' has no label 'Femal'; it has Female, Male"),
        ("sex = Male and regoin = North", "at position 16: unknown attribute 'regoin'; did you mean 'region'?"),
        ("sex Male", "at position 5: expected =, !=, <"),
        ("", "at position 1: expected an attribute or a number"),
        ("sex = Male and sex = Female", "no row can satisfy 'sex = Male and sex = Female'"),
        ({"sex": []}, "no row can satisfy the condition"),
        (ct.count() + ct.count(), "a single count"),
        (3, "must be a text"),
    ],
)
def test_mistakes_are_those_of_every_condition(where: object, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        release().marginal("sex", where=where)
    assert words in str(caught.value)
