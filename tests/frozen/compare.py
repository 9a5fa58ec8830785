"""How outcomes are compared: numbers to a relative 1e-12 of the largest of their table, everything else as it is.

What is drawn (keys that begin with ``drawn``: ends of intervals, printed tables) must be equal to 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("outcomes.json")
EXACT, DRAWN = 1e-12, 1e-9


def differences(kept: Any, found: Any, where: str = "", tolerance: float = EXACT) -> list[str]:
    """The places where two outcomes differ."""
    return list(_differences(kept, found, where, tolerance))


def _differences(kept: Any, found: Any, where: str, tolerance: float) -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(found, dict):
        for key in {**kept, **found}:
            own = DRAWN if key.startswith("drawn") else tolerance
            yield from _differences(kept.get(key), found.get(key), f"{where}/{key}", own)
    elif _are_numbers(kept) and _are_numbers(found) and len(kept) == len(found):
        size = max((abs(each) for each in kept if math.isfinite(each)), default=0.0)
        for i, (one, other) in enumerate(zip(kept, found, strict=True)):
            if not _same(one, other, size * tolerance):
                yield f"{where}[{i}]: {one!r} became {other!r}"
    elif isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        for i, (one, other) in enumerate(zip(kept, found, strict=True)):
            yield from _differences(one, other, f"{where}[{i}]", tolerance)
    elif isinstance(kept, float) and isinstance(found, int | float):
        if not _same(kept, found, abs(kept) * tolerance):
            yield f"{where}: {kept!r} became {found!r}"
    elif kept != found:
        yield f"{where}: {kept!r} became {found!r}"


def _are_numbers(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(each, float) for each in given)


def _same(one: float, other: float, apart: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other)) or abs(one - other) <= apart
