"""Draws the charts of docs/start/gallery.md again, from a new release of generated people: part of ``make tour``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import crosstally as ct
from crosstally.charts import save
from crosstally.generate.people import people

HERE = Path(__file__).parent / "start" / "gallery"
CHARTS = {
    "one": ("education",),
    "ordered": ("age",),
    "two": ("education", "sex"),
    "three": ("education", "sex", "age"),
}
"""Each picture's name and the attributes of its table."""
ROWS = 20_000


def main() -> None:
    """Draw all of them."""
    HERE.mkdir(exist_ok=True)
    rows, schema = people(ROWS, np.random.default_rng(1))
    release = ct.release(rows, schema, epsilon=1.0)
    for name, attributes in CHARTS.items():
        save(release.marginal(*attributes).plot(), HERE / f"{name}.svg")
    women, men = (release.marginal("education", where=f"sex = {sex}").shares() for sex in ("Female", "Male"))
    save((women - men).plot(), HERE / "difference.svg")


if __name__ == "__main__":
    main()
