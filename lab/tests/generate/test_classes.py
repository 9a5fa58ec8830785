from __future__ import annotations

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Impossible, PublicCounts, Schema, Unit
from crosstally.sources import count
from crosstally_lab.generate.classes import hidden_classes, shape_of

PAIR = (Attribute("sex", ["f", "m"]), Attribute("age", edges=[0, 18, 65, 120], missing=True))


def test_rows_are_read_by_their_schema_as_they_were_drawn() -> None:
    table, shape = hidden_classes(Schema(PAIR, Unit("person", 3)), 500, np.random.default_rng(1))
    assert (shape.shape, shape.unit) == ((2, 4), Unit("person", 3))
    cells = np.bincount(table["sex"].to_numpy() * 4 + table["age"].to_numpy(), minlength=8).reshape(2, 4)
    assert count(table, shape, [("sex", "age")])[0].counts.tolist() == cells.tolist()
    assert cells.sum() == 500
    assert len(set(table["person"].to_pylist())) == 500


def test_every_attribute_depends_on_every_other() -> None:
    """Chi-square over its degrees of freedom is one for independent attributes, with a standard error below 0.5."""
    schema = Schema([Attribute(name, range(4)) for name in "abc"])
    table, _ = hidden_classes(schema, 20_000, np.random.default_rng(2))
    columns = [table[name].to_numpy() for name in "abc"]

    def chi_square(first: np.ndarray, second: np.ndarray) -> float:
        cells = np.bincount(first * 4 + second, minlength=16).reshape(4, 4)
        expected = cells.sum(axis=1)[:, None] * cells.sum(axis=0) / cells.sum()
        return float(((cells - expected) ** 2 / expected).sum() / 9)

    assert min(chi_square(columns[i], columns[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 5
    shuffled = np.random.default_rng(3).permutation(columns[1])
    assert chi_square(columns[0], shuffled) < 4


def test_what_nobody_can_have_nobody_has() -> None:
    schema = Schema(PAIR, facts=[Impossible({"sex": ("m",), "age": ("[0, 18)", "(missing)")})])
    table, shape = hidden_classes(schema, 1_000, np.random.default_rng(4))
    assert shape.possible(("sex", "age")).tolist() == [[True] * 4, [False, True, True, False]]
    of_men = table.filter(np.asarray(table["sex"].to_numpy() == 1))["age"].to_pylist()
    assert set(of_men) == {1, 2}
    everybody = [
        Impossible({"sex": ("f",), "age": PAIR[1].labels[:3]}),
        Impossible({"sex": ("m",), "age": PAIR[1].labels[:3]}),
    ]
    rest = [Impossible({"sex": (sex,), "age": PAIR[1].labels[3:]}) for sex in "fm"]
    with pytest.raises(CrosstallyError, match="rows cannot be generated"):
        hidden_classes(Schema(PAIR, facts=[*everybody, *rest]), 10, np.random.default_rng(5))


def test_of_public_counts_the_total_stays_where_it_is_the_number_of_rows() -> None:
    facts = [PublicCounts("sex", (40, 60)), PublicCounts(None, (100,))]
    assert shape_of(Schema(PAIR, facts=facts), 100).public_rows == 100
    assert shape_of(Schema(PAIR, facts=facts), 50).facts == ()
