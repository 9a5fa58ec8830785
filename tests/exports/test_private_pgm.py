"""What mbi is handed; mbi itself is too large for the tests, so a stand-in has its three members that are used."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import crosstally as ct
from crosstally.errors import MissingExtraError, ReleaseError
from crosstally.exports.private_pgm import to_mbi

SCHEMA = ct.Schema([ct.Attribute("a", range(2)), ct.Attribute("b", range(3))])
ROWS = {"a": [0, 1, 1, 1], "b": [0, 2, 2, 1]}
TABLE = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])  # of the rows above


@dataclass
class Domain:
    attributes: tuple[str, ...]
    shape: tuple[int, ...]


@dataclass
class Factor:
    values: Any

    def project(self, clique: tuple[str, ...]) -> Factor:
        return Factor(self.values.sum(axis=tuple(i for i, name in enumerate("ab") if name not in clique)))

    def datavector(self) -> Any:
        return self.values.ravel()


@dataclass
class LinearMeasurement:
    noisy_measurement: Any
    clique: tuple[str, ...]
    stddev: float = 1.0
    query: Any = Factor.datavector


@pytest.fixture
def mbi(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mbi")
    module.__dict__.update(Domain=Domain, LinearMeasurement=LinearMeasurement)
    monkeypatch.setitem(sys.modules, "mbi", module)


@pytest.mark.usefixtures("mbi")
@pytest.mark.parametrize("strategy", ["direct", "residual", "flat"])
def test_the_query_of_each_measurement_gives_what_was_measured(strategy: str) -> None:
    """With next to no noise the measured numbers are the query's own of the true table: cells, or contrasts.

    By hand: the contrast of b is 3 (1, 1, 2) - 4 = (-1, -1, 2), that of a 1 - 3, that of both
    2 (1, 0, 0) - (1, 1, 2) = (1, -1, -2), times 3 plus 2.
    """
    import pyarrow as pa

    release = ct.release(pa.table(ROWS), SCHEMA, rho=10_000, strategy=strategy)
    domain, measured = to_mbi(release)
    assert (domain.attributes, domain.shape) == (("a", "b"), (2, 3))
    assert len(measured) == len(release.measurements)
    for each in measured:
        table = Factor(TABLE).project(each.clique)
        assert each.query(table).tolist() == each.noisy_measurement.tolist()
    contrasts = {each.clique: each.noisy_measurement.tolist() for each in measured}
    if strategy == "residual":
        assert contrasts["a",] == [-2]
        assert contrasts["b",] == [-1, -1, 2]
        assert contrasts["a", "b"] == [5, -1, -4]
    deviations = [each.stddev for each in measured]
    assert deviations == pytest.approx([each.variance**0.5 for each in release.measurements])


@pytest.mark.usefixtures("mbi")
def test_what_mbi_cannot_take_is_refused() -> None:
    import pyarrow as pa

    workload = ct.Workload.ranges(SCHEMA, "b")
    release = ct.release(pa.table(ROWS), SCHEMA, epsilon=1, workload=workload)
    assert not any(each.query.is_table for each in release.measurements)
    with pytest.raises(ReleaseError, match="mbi takes cells and contrasts of values"):
        to_mbi(release)


def test_without_mbi_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    if importlib.util.find_spec("mbi") is not None:
        monkeypatch.setitem(sys.modules, "mbi", None)
    release = ct.release(pa.table(ROWS), SCHEMA, epsilon=1, strategy="flat")
    with pytest.raises(MissingExtraError, match=r"pip install 'crosstally\[mbi\]'"):
        to_mbi(release)
