"""A small program in the place of a peer's Python: it reads the task and writes tables, each cell half too high.

The tables of a second draw are one and a half too high, and so on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

__all__ = ["a_peer", "stand_in"]

STAND_IN = """
import json, sys
import numpy as np
task = json.loads(open(sys.argv[2]).read())
codes = np.load(task["codes"])
tables, notes = {}, []
for draw in range(task["draws"]):
    for place, table in enumerate(task["answers"]):
        sizes = [task["sizes"][i] for i in table]
        cells = np.ravel_multi_index(tuple(codes[:, table].T), sizes)
        counts = np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes)
        tables[f"{draw}-{place}"] = counts + 0.5 + draw
    note = {"cpu": 2.0, "wall": 4.0, "misfit": -1.0, "compiling": 0.25, "measured": 3, "converged": True}
    notes.append({**note, **CHANGED})
np.savez(sys.argv[3], notes=np.array(json.dumps(notes)), **tables)
"""


def stand_in(folder: Path, body: str) -> str:
    """A program that takes the place of a peer's Python."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o700)
    return str(path)


def a_peer(folder: Path, **changed: Any) -> str:
    """A peer whose note says something else where that is given."""
    return stand_in(folder, STAND_IN.replace("CHANGED", repr(changed)))
