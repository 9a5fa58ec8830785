"""Intervals against the truth, release by release: the share held and the width, by class of cells, as a line.

Width is the mean over cells divided by the oracle's, 3.92 x RMS error of the same cells. A window is missed only where
chance is ruled out (``Held.misses``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.lines import line
from crosstally_lab.papers.calibration import Held, summed

Cells = NDArray[np.float64]
"""Truth, answer, low and high (four rows) of some cells."""
Draw = dict[str, dict[str, list[float]]]
"""Of one draw: for each kind of table and class of cells the sums of ``crosstally_lab.papers.calibration.summed``."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is asked of a kind of table: the least and greatest share held, and the greatest width, by class."""

    held: Mapping[str, tuple[float, float]]
    _: KW_ONLY
    width: Mapping[str, float] = field(default_factory=dict)


def add(draw: Draw, kind: str, cells: Cells, classes: Mapping[str, NDArray[np.bool_]]) -> None:
    """Add the cells of one more table to those of its kind."""
    sums = draw.setdefault(kind, {})
    for name, inside in classes.items():
        if inside.any():
            before = sums.get(name, [0.0] * 4)
            sums[name] = [a + b for a, b in zip(before, summed(inside, *cells), strict=True)]


def over_draws(draws: Sequence[Draw]) -> dict[str, dict[str, Held]]:
    """By kind and class what all draws together say."""
    kinds = sorted({kind for draw in draws for kind in draw})
    out: dict[str, dict[str, Held]] = {}
    for kind in kinds:
        names = dict.fromkeys(name for draw in draws for name in draw.get(kind, {}))
        sums = {name: np.array([draw.get(kind, {}).get(name, [0.0] * 4) for draw in draws]) for name in names}
        out[kind] = {name: Held(sums=each) for name, each in sums.items()}
    return out


def in_words(found: Mapping[str, Held]) -> str:
    """The share held and the width of each class."""
    widths = {name: "" if each.width is None else f" {each.width:.2f}" for name, each in found.items()}
    return "; ".join(f"{name}: {100 * each.held:.1f}%{widths[name]}" for name, each in found.items())


def coverage_line(work: str, found: Mapping[str, Held], aim: Aim, *, draws: int) -> dict[str, Any]:
    """A line: the width of all cells beside the oracle's; met if no window is missed and no class is too wide."""
    cells, _, width, squares = found["all"].sums.sum(axis=0)
    missed = [name for name, window in aim.held.items() if name in found and found[name].misses(*window)]
    wide = [name for name, most in aim.width.items() if name in found and (found[name].width or 0.0) > most]
    note = f"{draws} draws; held and width: {in_words(found)}"
    note += f"; held outside of its window: {', '.join(missed)}" if missed else ""
    note += f"; too wide: {', '.join(wide)}" if wide else ""
    oracle = 3.92 * float(np.sqrt(squares / cells))
    ours, target = (float(width / cells) if oracle else None), aim.width.get("all")
    met = not missed and not wide if aim.held or aim.width else None
    return line(work, ours, oracle or None, target, unit="counts", met=met, note=note)
