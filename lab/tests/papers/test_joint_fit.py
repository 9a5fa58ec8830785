"""Mirror descent in the place of mbi's: its tables, its fits, and mbi's own fit where mbi is installed."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from crosstally_lab.papers import peers
from crosstally_lab.papers.peers import peers_python

SIZES = (2, 3, 2, 4)
FOLDER = peers._SCRIPT.parent


def loaded() -> ModuleType:
    """The file, which is in no package: it runs elsewhere."""
    spec = importlib.util.spec_from_file_location("joint_fit", FOLDER / "joint_fit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


FIT = loaded()


def test_tables_are_sums_over_the_other_attributes() -> None:
    joint = FIT.Joint(SIZES, 3)
    cells = np.random.default_rng(1).random(SIZES)
    tables = joint.tables(cells.reshape(len(joint.lines), -1))
    for attributes in [(), (2,), (0, 3), (1, 2), (0, 2, 3)]:
        others = tuple(set(range(4)) - set(attributes))
        assert joint.table(tables, attributes) == pytest.approx(cells.sum(axis=others))


def test_cells_are_those_of_the_log_linear_model() -> None:
    joint, random = FIT.Joint(SIZES, 2), np.random.default_rng(2)
    pair, single, potentials = random.normal(size=(2, 4)), random.normal(size=3), np.zeros(joint.shape)
    for attributes, values in (((0, 3), pair), ((1,), single)):
        block, placed = joint.placed(attributes, values)
        potentials[block] = placed
    logs = np.zeros(SIZES) + pair[:, None, None, :] + single[None, :, None, None]
    expected = 50 * np.exp(logs) / np.exp(logs).sum()
    assert joint.cells(potentials, 50.0).reshape(SIZES) == pytest.approx(expected)


def fitted(measured: list, sizes: tuple[int, ...], total: float) -> dict[tuple[int, ...], np.ndarray]:
    joint = FIT.Joint(sizes, 2)
    found = FIT.descended(joint, measured, np.zeros(joint.shape), total=total, alpha=0.001)
    tables = joint.tables(joint.cells(found, total))
    return {each: joint.table(tables, each) for each in itertools.combinations(range(len(sizes)), 2)}


def test_two_measurements_count_by_their_precision() -> None:
    """Weights of 3 to 1: (3 x 30 + 20) / 4 and (3 x 10 + 20) / 4. The other attribute is even."""
    first, second = FIT.Measured((0,), np.array([30.0, 10.0]), 1.0), FIT.Measured((0,), np.array([20.0, 20.0]), 3.0)
    tables = fitted([first, second], (2, 2), 40.0)
    assert tables[0, 1] == pytest.approx(np.array([[13.75, 13.75], [6.25, 6.25]]), abs=1e-6)


def test_what_no_table_says_is_of_greatest_entropy() -> None:
    """Given the attribute that two tables share, the others are independent: 12 x 15 / 20 + 4 x 5 / 20 = 10."""
    first, second = np.array([[12.0, 4.0], [8.0, 16.0]]), np.array([[15.0, 5.0], [5.0, 15.0]])
    tables = fitted([FIT.Measured((0, 1), first, 2.0), FIT.Measured((1, 2), second, 2.0)], (2, 2, 2), 40.0)
    assert tables[0, 1] == pytest.approx(first, abs=1e-6)
    assert tables[1, 2] == pytest.approx(second, abs=1e-6)
    assert tables[0, 2] == pytest.approx(np.array([[10.0, 6.0], [10.0, 14.0]]), abs=1e-6)


def test_the_curvature_is_that_of_the_steepest_table() -> None:
    """Of the pair with 2 x 3 cells 1/4, and 3/2 from its first attribute, each of whose cells sums three; else 1/10."""
    measured = [FIT.Measured((0, 1), np.zeros(6), 4.0), FIT.Measured((0,), np.zeros(2), 2.0)]
    measured += [FIT.Measured((2, 3), np.zeros(8), 10.0)]
    assert FIT.lipschitz(SIZES, measured, [(0, 1), (2, 3)]) == pytest.approx(1.75)


def test_potentials_of_small_tables_are_added_to_large_ones() -> None:
    joint, potentials = FIT.Joint((2, 3), 2), np.zeros((3, 4))
    for attributes, values in (((0, 1), [[1, 2, 3], [4, 5, 6]]), ((0,), [10, 20]), ((1,), [100, 200, 300])):
        block, placed = joint.placed(attributes, np.array(values))
        potentials[block] = placed
    folded = FIT.folded(joint, potentials, [(0,), (0, 1), (1,)], [(0, 1)])
    assert {each: values.tolist() for each, values in folded.items()} == {
        (0, 1): [[111, 212, 313], [124, 225, 326]],
    }


COMPARED = """
import sys
sys.path.insert(0, sys.argv[1])
import mbi
import numpy as np
from joint_fit import estimator
from mbi.estimation import mirror_descent
names, sizes, random = ["a0", "a1", "a2"], [2, 3, 4], np.random.default_rng(3)
domain = mbi.Domain(names, sizes)
def measured(*clique):
    cells = domain.size(clique)
    return mbi.LinearMeasurement(2400 / cells + random.normal(0, 60, cells), clique, stddev=20.0)
measurements, theirs, ours = [measured("a0"), measured("a1"), measured("a2")], None, None
for clique in [("a0", "a2"), ("a1", "a2"), ("a0", "a2"), ("a1",)]:
    theirs = mirror_descent(domain, measurements, potentials=theirs and theirs.potentials)
    ours = estimator(names, sizes, 2)(domain, measurements, potentials=ours and ours.potentials)
    assert set(ours.cliques) == set(theirs.cliques), ours.cliques
    for table in [("a0", "a1"), ("a0", "a2"), ("a2", "a1")]:
        np.testing.assert_allclose(ours.project(table).values, theirs.project(table).values, atol=0.05)
    measurements.append(measured(*clique))
"""


@pytest.mark.verify
@pytest.mark.skipif(peers_python() is None, reason="OpenDP's contingency tables are not installed")
def test_fits_are_those_of_mbi() -> None:
    """Noise has a standard deviation of 20; after 1,000 steps rounding moved cells by less than a hundredth."""
    python = peers_python()
    assert python is not None
    done = subprocess.run([python, "-c", COMPARED, str(FOLDER)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
