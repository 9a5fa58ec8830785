"""Every kernel once with all indices checked, and once as plain Python: compiled code writes past arrays in silence."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import crosstally
from crosstally import kernels

TESTS = Path(__file__).parents[1]
KERNELS = Path(kernels.__path__[0])

SMALL = (
    "kernels/test_counting.py",
    "kernels/test_metropolis_hastings.py",
    "kernels/test_row_descent.py",
    "kernels/test_joint_kernels.py",
    "kernels/test_local.py",
    "kernels/test_lookup.py",
    "kernels/test_matching.py",
    "kernels/test_shrinkage_kernels.py",
    "kernels/test_view_search.py::test_the_search_stays_in_its_room_and_does_not_get_worse",
    "designs/test_design_parts.py::test_greedy_is_its_slow_twin",
    "strategies/test_clustered.py::test_merging_is_that_of_the_plain_twin",
    "strategies/test_optimum.py::test_refusals",
    "inference/test_joint.py::test_the_program_is_solved",
    "answers/unmeasured/test_latent_classes.py::test_counts_are_shared_out_like_the_plain_twin",
    "inference/test_nonnegativity.py::test_ripple_of_noisy_tables_is_the_plain_version",
    "answers/test_answer.py",
    "answers/unmeasured/test_least_norm.py",
    "answers/unmeasured/test_maximum_entropy.py::test_agrees_with_an_independent_solver",
    "answers/unmeasured/test_maximum_entropy.py::test_many_constraints_are_solved_without_a_matrix",
    "answers/unmeasured/test_maximum_entropy.py::test_margins_do_not_depend_on_the_rows_of_the_table",
)
"""Tests that reach every kernel (the test below says so) with inputs so small that plain Python takes seconds."""

LARGER = (
    "kernels/test_view_search.py",
    "designs/test_design_parts.py",
    "strategies/test_clustered.py::test_every_table_lies_in_a_cluster_and_weights_add_up",
    "inference/test_joint.py",
    "inference/test_nonnegativity.py",
    "answers/unmeasured/test_maximum_entropy.py",
    "sources/test_counts.py",
)
"""More of them, for compiled code."""

FUZZ = "strategies/test_planner_fuzz.py"


def checked_cache() -> Path:
    """Where code with bounds checking is kept: apart from the other, since numba does not tell them apart.

    One folder for each state of the sources: numba looks only at the file of a kernel, not at those of its callees.
    """
    sources = hashlib.sha256(numba.__version__.encode())
    for path in sorted(KERNELS.glob("*.py")):
        sources.update(path.read_bytes())
    return Path(__file__).parent / "__pycache__" / f"checked-{sources.hexdigest()[:16]}"


def run_tests(tests: tuple[str, ...], *, marked: str = "not verify", **environment: str) -> None:
    """Run tests in a process of their own; raise with what they printed unless all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kernel_calls", "-m", marked, "--tb=short", *tests]
    path = os.pathsep.join([str(Path(crosstally.__file__).parents[1]), str(TESTS)])
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ran = subprocess.run(
        command,
        cwd=TESTS,
        env={**given, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]


def test_every_kernel_runs_uncompiled(tmp_path: Path) -> None:
    run_tests(SMALL, NUMBA_DISABLE_JIT="1", KERNEL_CALLS=str(tmp_path / "calls.json"))
    calls = json.loads((tmp_path / "calls.json").read_text(encoding="utf-8"))
    decorated = sum(path.read_text(encoding="utf-8").count("\n@njit(") for path in KERNELS.glob("*.py"))
    assert len(calls) == decorated
    assert [name for name, number in calls.items() if not number] == []


def test_every_kernel_runs_with_its_bounds_checked() -> None:
    run_tests((*SMALL, *LARGER, FUZZ), NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(checked_cache()))


@pytest.mark.verify
def test_the_planner_is_fuzzed_with_bounds_checked() -> None:
    run_tests((FUZZ,), marked="verify", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(checked_cache()))
