"""The population behind the rows: errors that contain the sampling of people, beside the noise.

The rows are a sample, a part f of a population, drawn at random but for a design effect d. Of N rows a share p
is in a cell. Counts n p vary between samples with the covariances of a multinomial law,

    d (1 - f) N (diag(p) - p p'),        of one cell  d (1 - f) N p (1 - p),

which are drawn anew and added to each draw of the table. Cells must not overlap; what is computed from such a table
afterwards (sums, shares, odds ratios, models) varies with it. Sampling that two tables share is not known, so they do
not mix, unless they are of independent releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from crosstally.answers.joint_draws import Joint, repeated
from crosstally.checks import is_number
from crosstally.errors import QueryError
from crosstally.inference.bootstrap import Normals, number_of_draws, stream_seed
from crosstally.schema import Schema
from crosstally.typing import Floats

_SPARE = 1e-3  # by which cells may add up to more than all rows before they are taken to overlap


@dataclass(frozen=True, slots=True)
class PeopleDrawn:
    """What a table about a population rests on: a release, and one table of it, by which its people were drawn."""

    digest: int
    key: tuple[object, ...]


def design_effect_of(schema: Schema, given: float | None) -> float:
    """The design effect: 1 where nothing is said and everybody has one row. Raises where it must be said."""
    if given is None:
        if schema.max_rows > 1:
            raise QueryError("people may have several rows here: say the design effect, design_effect=...")
        return 1.0
    if not is_number(given) or not 0 < given < np.inf:
        raise QueryError(f"design_effect must be a positive number, got {given!r}")
    return float(given)


def with_sampling(joint: Joint, values: Floats, *, factor: float, where: str) -> Joint:
    """How cells vary over samples too; ``factor`` is d (1 - f), ``where`` tells tables of a release apart."""
    cells = np.maximum(values, 0.0)
    if cells.sum() > (1 + _SPARE) * joint.rows:
        raise QueryError("cells overlap, or are more than all rows: take of_population() before totals and weights")
    key = tuple(each for source in joint.sources for each in source.key)
    digest = joint.sources[0].digest
    sources = (PeopleDrawn(digest, (*key, "population", where, values.shape, factor)),)
    return Joint(sources, partial(_sampled, joint, cells, factor, stream_seed(digest, "sample", [where])))


def _sampled(joint: Joint, cells: Floats, factor: float, seed: int) -> Floats:
    draws = repeated(joint.draws, max(len(joint.draws), 1 + number_of_draws(cells.size)))
    rest = max(joint.rows - cells.sum(), 0.0) if np.isfinite(joint.rows) else np.inf
    spread = np.sqrt(factor * cells.ravel())
    normals = Normals(seed).draw((len(draws) - 1, cells.size + 1))
    apart = normals[:, 1:] * spread
    if np.isfinite(rest):  # otherwise nothing is known of all rows, and cells vary like Poisson's
        total = apart.sum(axis=1) + normals[:, 0] * np.sqrt(factor * rest)
        apart -= np.multiply.outer(total, cells.ravel() / max(rest + cells.sum(), 1e-12))
    return np.concatenate([draws[:1], draws[1:] + apart.reshape(-1, *cells.shape)])
