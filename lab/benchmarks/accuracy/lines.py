"""Lines of the results: an error beside its reference, their ratio, the target and whether it is met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.accuracy.comparison import Ratio, geometric_mean, worst


def line(
    work: str,
    ours: float | None,
    reference: float | None,
    target: float | None,
    *,
    unit: str,
    met: bool | None = None,
    ratio: float | None = None,
    note: str = "",
) -> dict[str, Any]:
    """One line; without a verdict of its own it is met when the ratio is at most the target. None is no number."""
    if ratio is None and ours is not None and reference is not None:
        ratio = ours / reference
    if met is None and target is not None and ratio is not None:
        met = ratio <= target
    return {
        "work": work,
        "crosstally": ours,
        "peer": reference,
        "ratio": ratio,
        "target": target,
        "met": met,
        "unit": unit,
        "note": note,
    }


def never_above(work: str, ratios: Mapping[str, Ratio], limit: float) -> dict[str, Any]:
    """The setting that is surest to be above a limit; the line is missed if one is beyond doubt."""
    setting, ratio = worst(ratios)
    above = [name for name, each in ratios.items() if each.exceeds(limit)]
    note = f"{ratio.draws} draws, {len(ratios)} settings; worst {setting}: {ratio}"
    if above:
        note += f"; above in {len(above)}: {'; '.join(above)}"
    return line(work, ratio.estimate, 1.0, limit, unit="x", met=not above, note=note)


def mean_line(work: str, ratios: Mapping[str, Ratio], target: float | None) -> dict[str, Any]:
    """The geometric mean over settings, against its target."""
    mean = geometric_mean(list(ratios.values()))
    note = f"{mean.draws} draws, {len(ratios)} settings; 95% interval {mean.low:.3g} to {mean.high:.3g}"
    return line(work, mean.estimate, 1.0, target, unit="x", note=note)


def refused(work: str, target: float | None, reason: str) -> dict[str, Any]:
    """What the library would not do: missed, with its own words."""
    return line(work, None, None, target, unit="x", met=False, note=f"refused: {reason}")
