"""Releases of several kinds, for tests of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.privacy.ledger import Ledger
from crosstally.query.queries import Cells, Contrast, Product
from crosstally.releases import Release, Statement, open_release, publish
from crosstally.schema import Attribute, Outside, Schema, Unit

LAPLACE = Noise(NoiseKind.LAPLACE, 7.5)
GAUSSIAN = Noise(NoiseKind.GAUSSIAN, 3.25)


def people(unit: Unit | None = None) -> Schema:
    return Schema(
        [
            Attribute("sex", ["Female", "Male"]),
            Attribute("âge", edges=[0, 18, 65.5, 120], missing=True),
            Attribute("value", ["ça", "va", "東京"], outside=Outside.OTHER),
        ],
        unit,
    )


def noisy(schema: Schema, query: Product, noise: Noise | None = LAPLACE, seed: int = 1) -> Measurement:
    shape = query.shape(schema)
    values: Any = np.random.default_rng(seed).integers(-5, 200, shape)
    if noise is None:
        return Measurement(query, values + 0.125, variance=2.5, noise=None, origin="protocol")
    return Measurement(query, values, variance=noise.variance, noise=noise, origin="entry-1")


def statement(**fields: Any) -> Statement:
    given = {"strategy": "views", "budget": Budget(epsilon=1), "neighbours": Neighbours.ADD_REMOVE, **fields}
    return Statement(**given)


def views(schema: Schema | None = None, **fields: Any) -> Release:
    schema = schema or people()
    queries = [Cells(("sex", "âge")), Cells(("value", "âge")), Cells(())]
    return publish(schema, [noisy(schema, query) for query in queries], statement(**fields), nonnegative="joint")


def contrasts() -> Release:
    schema = people()
    queries = [Cells(()), Contrast(("sex",)), Contrast(("âge",)), Contrast(("sex", "âge")), Contrast(("âge", "value"))]
    measurements = [noisy(schema, query, GAUSSIAN, seed) for seed, query in enumerate(queries)]
    return publish(schema, measurements, statement(budget=Budget(rho=64)))  # six numbers of sensitivity up to 6 x 8


def local() -> Release:
    schema = people()
    measurements = [noisy(schema, Cells(("sex", "value")), None), noisy(schema, Cells(("sex",)))]
    return publish(schema, measurements, statement(model="local"), nonnegative="none")


def local_with_variances() -> Release:
    """A local release that knows more than its measurements."""
    return replace(local(), variances_left={("sex",): 0.5, ("sex", "value"): 0.25})


KINDS: dict[str, Callable[[], Release]] = {
    "views": views,
    "public rows": lambda: views(rows=1_000),
    "a unit of several rows": lambda: views(
        people(Unit("person", 3)), unit=Unit("person", 3), entry="entry-1", budget=Budget(epsilon=2)
    ),
    "contrasts": contrasts,
    "local": local,
    "local, variances left": local_with_variances,
    "nothing measured": lambda: publish(people(), [], statement(rows=12)),
    "uncorrected": lambda: views().refit(nonnegative="none"),
    "two rounds": lambda: views().refit(nonnegative="global", rounds=2),
}


def assert_survives(release: Release, again: Release, ledger: Path, tables: Sequence[tuple[str, ...]]) -> None:
    """It is the same from its file, from what its ledger keeps under the key ``one``, asked ``again``, and refitted.

    Corrected for cells below zero it can be saved and opened, too. Files are written beside the ledger.
    """
    file, corrected = ledger.with_suffix(".parquet"), ledger.with_suffix(".corrected.parquet")
    release.save(file)
    opened = open_release(file)
    kept = Ledger.open(ledger).measurements("one")  # what is left after a crash
    exported = publish(release.schema, kept, release.statement)
    back = release.refit(nonnegative="joint").refit(nonnegative="none")
    for other in (opened, exported, again, back):
        assert [m.query for m in other.measurements] == [m.query for m in release.measurements]
        for names in tables:
            mine, theirs = release.marginal(*names), other.marginal(*names)
            assert theirs.values == pytest.approx(mine.values, abs=1e-6)
            assert theirs.std_error == pytest.approx(mine.std_error, rel=1e-9)
    for each in (release, opened):
        each.refit(nonnegative="shrunk").save(corrected)
        assert all(open_release(corrected).marginal(*names).values.min() >= 0 for names in tables)


def saved(folder: Path, release: Release | None = None) -> Path:
    path = folder / "people.release.parquet"
    (release or views()).save(path)
    return path
