"""OpenDP's contingency tables beside ours, on generated or public rows: AIM, MST, and a fixed workload fitted by mbi.

They run in a Python of their own (``elsewhere/opendp_tables.py``), since they pin packages that crosstally cannot live
with: the one that CROSSTALLY_PEERS_OPENDP names, or this one where it has them. Rows reach that process in a file of
codes: so none may be confidential.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget
from crosstally.typing import Floats

ALGORITHMS = {
    "AIM": "OpenDP's AIM, trained on the named tables",
    "MST": "OpenDP's MST",
    "Fixed": "the named tables with noise, fitted by mbi (OpenDP's Fixed)",
}
"""What OpenDP offers, and what it is in words."""

_SCRIPT = Path(__file__).with_name("elsewhere") / "opendp_tables.py"
_PACKAGES = ("opendp", "mbi", "jax")
_VARIABLE = "CROSSTALLY_PEERS_OPENDP"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTask:
    """An algorithm, what it may spend, the tables that it is trained on and those to answer, by attributes' numbers."""

    algorithm: str
    budget: Budget
    sizes: tuple[int, ...]
    trained: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    unit_rows: int = 1

    def to_dict(self) -> dict[str, Any]:
        """What the other process reads, but for the rows."""
        return {
            "algorithm": self.algorithm,
            "currency": "epsilon" if self.budget.pure else "rho",
            "amount": float(self.budget.amount),
            "sizes": list(self.sizes),
            "trained": [list(table) for table in self.trained],
            "answers": [list(table) for table in self.answers],
            "unit_rows": self.unit_rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PeerDraw:
    """The tables of one draw, or why there are none.

    ``cpu`` are all CPU seconds, ``compiling`` the part of the time in which jax compiled, ``misfit`` by how many
    standard deviations the fit is farther from its measurements than the truth would be.
    """

    tables: tuple[Floats, ...] = ()
    error: str | None = None
    converged: bool = False
    cpu: float = 0.0
    wall: float = 0.0
    compiling: float = 0.0
    misfit: float = 0.0
    measured: int = 0


def peers_python() -> str | None:
    """The Python that has OpenDP's contingency tables; None when there is none."""
    named = os.environ.get(_VARIABLE)
    if named:
        return named
    return sys.executable if find_spec("mbi") and find_spec("jax") and find_spec("polars") else None


@lru_cache
def versions(python: str) -> str:
    """The versions that a draw rests on."""
    code = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    command = [python, "-c", code, *_PACKAGES]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def draw(task: PeerTask, codes: NDArray[np.integer], *, python: str, seconds: float) -> PeerDraw:
    """One draw as OpenDP makes it, given up after so many seconds."""
    return draw_several(task, codes, python=python, seconds=seconds, draws=1)[0]


def draw_several(
    task: PeerTask,
    codes: NDArray[np.integer],
    *,
    python: str,
    seconds: float,
    draws: int,
    fit: Literal["mbi", "joint"] = "mbi",
) -> list[PeerDraw]:
    """Some draws by one process, given up after so many seconds: then, or when it fails, one draw that says why.

    Codes have a line for each row, a column for each attribute. The first draw builds the mechanism and compiles what
    the others find ready. With ``fit="joint"`` the peer's models are fitted with all cells in memory: the steps that
    mbi makes, without its compilation (``elsewhere/joint_fit.py``). For tables of some 10,000 cells at most.
    """
    with tempfile.TemporaryDirectory() as folder:
        rows, given, answered = (Path(folder) / name for name in ("codes.npy", "task.json", "answers.npz"))
        np.save(rows, codes)
        given.write_text(json.dumps({**task.to_dict(), "codes": str(rows), "draws": draws, "fit": fit}))
        command = [python, str(_SCRIPT), str(given), str(answered)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return [PeerDraw(error=f"not done after {seconds:,.0f} seconds")]
        except OSError:
            return [PeerDraw(error=f"{python!r} cannot be run")]
        if done.returncode:
            return [PeerDraw(error=_reason(done.stderr))]
        with np.load(answered) as arrays:
            return [
                PeerDraw(
                    tables=tuple(arrays[f"{i}-{place}"].astype(np.float64) for place in range(len(task.answers))),
                    **note,
                )
                for i, note in enumerate(json.loads(str(arrays["notes"])))
            ]


def _reason(words: str) -> str:
    """The last line of a traceback that says something, without paths."""
    lines = [line.strip() for line in words.splitlines() if not line.startswith("Traceback")]
    telling = [line for line in lines if re.search("[a-z]{4} [a-z]{2}", line) and "/" not in line]
    return telling[-1][:200] if telling else "it failed"
