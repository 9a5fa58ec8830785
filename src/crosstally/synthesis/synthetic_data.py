"""Synthetic data from tables, the misfit of their tables, and the error of intervals computed from them.

An analyst who treats n rows of synthetic data as people gives the share p of a cell the standard error
sqrt(p (1 - p) / n). As an estimate about the people of the release its error is larger: N people were drawn from a
larger population, noise of standard error s was added to their counts, and the rows miss the release's own count by d.
So an interval is too narrow by the factor

    sqrt(N p (1 - p) + s^2 + d^2) / N  /  sqrt(p (1 - p) / n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.analysis.associations import mutual_informations
from crosstally.answers.marginal import Marginal
from crosstally.checks import optional
from crosstally.errors import QueryError
from crosstally.generate.people import labelled_rows
from crosstally.html_text import html_table
from crosstally.measurements import read_only
from crosstally.residuals.nested import shares_in_groups
from crosstally.schema import Schema
from crosstally.synthesis.row_fit import (
    Wanted,
    drawing_order,
    drawn,
    fitted,
    possible_cells_of,
    rows_to_fit,
    shuffled,
    sweeps_in_time,
    without_impossible,
)
from crosstally.typing import Floats

Tables = Callable[[Sequence[tuple[str, ...]]], list[Marginal]]
"""A source of tables over sets of attributes."""

_MOST_CODES = 200_000_000  # rows times attributes: 800 MB
_LARGEST_TABLE = 50_000  # cells of a table that rows are fitted to; larger ones have less than a row in most cells
_ROUNDING = 1.0  # added to the variance of each cell, in rows: no table is fitted better than to whole rows
# Limit time and memory: rows are fitted to all single attributes and to at most this many tables and cells of others,
# pairs that are associated most strongly first.
_MOST_TABLES, _MOST_CELLS = 3_000, 10_000_000
_BATCH = 2_000_000  # cells asked for at once
_SHOWN_ROWS = 5  # of a notebook: they only show the format of rows
_JUDGED_TABLES = 60  # tables whose intervals are checked
_LEAST_COUNT = 5.0  # cells with fewer rows have no normal intervals
_WIDE_ENOUGH = 1.05  # smaller factors need no correction
_NORMAL = 1.959963984540054  # the quantile of the normal law that 95% intervals have


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticData:
    """Synthetic data, rows as codes, and how far they can be trusted.

    Attributes:
        schema: The schema of the rows.
        codes: A line for each row: the position of its value for each attribute.
        method: How they were made: "sampling" or "integers".
        distances: For each table that was fitted the share of rows that would have to move for it to be the release's.
        factor: By this much, in 19 of 20 cells at most, intervals computed from the rows as if they were people are
            too narrow; below 1 where rows are fewer than people, NaN where the release does not know its errors.
        median_factor: The same for half of the cells.
        caption: Where they come from.
    """

    schema: Schema
    codes: NDArray[np.int32]
    _: KW_ONLY
    method: str
    distances: Mapping[tuple[str, ...], float]
    factor: float
    median_factor: float
    caption: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes, np.int32))

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return "\n".join([f"{len(self):,} rows of synthetic data, {len(self.schema.names)} attributes", *self.report()])

    def _repr_html_(self) -> str:
        some = [
            [attribute.labels[code] for attribute, code in zip(self.schema.attributes, row, strict=True)]
            for row in self.codes[:_SHOWN_ROWS].tolist()
        ]
        title = f"{len(self):,} rows of synthetic data, {len(self.schema.names)} attributes"
        more = len(self) - _SHOWN_ROWS
        return html_table(self.schema.names, some, caption=title, note=" ".join(self.report()), left=0, more=more)

    def report(self) -> tuple[str, ...]:
        """How far the tables of the rows are from those of the release, and the warning, in sentences."""
        if not self.distances:
            return (self.warning,)
        worst = max(self.distances, key=lambda names: self.distances[names])
        mean = sum(self.distances.values()) / len(self.distances)
        fit = (
            f"In {len(self.distances):,} tables {100 * mean:.2g}% of the rows, on average, would have to move to have "
            f"the release's counts; at most {100 * self.distances[worst]:.2g}% ({' x '.join(worst)})."
        )
        return fit, self.warning

    @property
    def warning(self) -> str:
        """The warning for recipients of the rows."""
        nobody = "These rows are made up: none is a real person."
        if self.factor < _WIDE_ENOUGH:
            return (
                f"{nobody} They are few: intervals computed from them are wide enough, those of the release narrower."
            )
        start = f"{nobody} Intervals computed from them as if they were people are too narrow"
        if math.isnan(self.factor):
            return f"{start}, by how much is not known."
        half = f"need {self.median_factor:.2g}" if self.median_factor >= _WIDE_ENOUGH else "are wide enough"
        return (
            f"{start}: make them {self.factor:.2g} times as wide (half of the cells {half}), "
            "or ask the release, which knows its errors."
        )

    def table(self, *names: str) -> NDArray[np.int64]:
        """The counts of the rows over some attributes, one axis for each in the order named."""
        return _counts(self.codes, [self.schema.positions[name] for name in names], self.schema.sizes(names))

    def to_arrow(self) -> pa.Table:
        """The rows with labels, a dictionary column for each attribute; the warning is in the metadata."""
        return labelled_rows(self.schema, self.codes).replace_schema_metadata(
            {"crosstally.synthetic": self.warning, "crosstally.source": self.caption}
        )

    def to_pandas(self) -> Any:
        """A pandas DataFrame; labels are categories in the schema's order."""
        optional("pandas", extra="frames")
        return self.to_arrow().to_pandas()


def _counts(codes: NDArray[np.int32], axes: Sequence[int], shape: tuple[int, ...]) -> NDArray[np.int64]:
    if not axes:
        return np.array(len(codes))
    cells = np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)


def sampled_rows(
    schema: Schema, tables: Tables, wanted: Iterable[tuple[str, ...]], *, rows: int, random: np.random.Generator
) -> tuple[NDArray[np.int32], dict[tuple[str, ...], Marginal]]:
    """Rows drawn along the strongest links and fitted to tables, and these tables; fewer rows if time is short.

    The cost does not grow with the size of the domain.

    Args:
        schema: The attributes.
        tables: The source of tables.
        wanted: The tables to fit; too large ones, and the weakest of very many, are left out.
        rows: How many rows.
        random: The random generator. It has no role in privacy: everything here is public.
    """
    if rows * len(schema.names) > _MOST_CODES:
        raise QueryError(f"rows times attributes must be at most {_MOST_CODES:,}, got {rows * len(schema.names):,}")
    position = schema.positions
    fits = [names for names in wanted if len(names) >= 2 and math.prod(schema.sizes(names)) <= _LARGEST_TABLE]
    asked = batches(schema, [*((name,) for name in schema.names), *dict.fromkeys(fits)])
    answers = {names: answer for batch in asked for names, answer in zip(batch, tables(batch), strict=True)}
    pairs = {names: answer.values for names, answer in answers.items() if len(names) == 2}
    links: dict[tuple[str, ...], float] = {
        names: max(0.0, float(mutual_informations(values[None])[0])) for names, values in pairs.items()
    }
    order = drawing_order(len(position), {(position[a], position[b]): links[a, b] for a, b in links})
    along = {(position[a], position[b]): values for (a, b), values in pairs.items()}
    answers = _strongest(answers, links)
    at = {names: tuple(position[name] for name in names) for names in answers}
    number = rows_to_fit(schema.shape, list(at.values()), rows)
    codes = drawn(order, [answers[name,].values for name in schema.names], along, number, random)
    weights = _weights(answers, number)
    fitting = [
        (at[names], _scaled(answer.values, number), weights[names])
        for names, answer in answers.items()
        if answer.values.sum() > 0
    ]
    return fitted(codes, schema.shape, fitting, possible_cells_of(schema), random), answers


def _strongest(
    answers: Mapping[tuple[str, ...], Marginal], links: Mapping[tuple[str, ...], float]
) -> dict[tuple[str, ...], Marginal]:
    """The tables of single attributes, and of the others as many as the limits allow: the strongest pairs first."""
    others = sorted((names for names in answers if len(names) > 1), key=lambda names: -links.get(names, 0.0))
    cells = np.cumsum([answers[names].values.size for names in others])
    kept = {*others[: min(_MOST_TABLES, int(np.searchsorted(cells, _MOST_CELLS, side="right")))]}
    return {names: answer for names, answer in answers.items() if len(names) == 1 or names in kept}


def _weights(answers: Mapping[tuple[str, ...], Marginal], rows: int) -> dict[tuple[str, ...], float]:
    """The precision of a cell of each table, in rows; the mean of the others' where the noise is not known."""
    out = {}
    for names, answer in answers.items():
        scale = rows / max(float(answer.values.sum()), 1.0)
        out[names] = 1 / (scale**2 * float(np.mean(answer.noise_std_error**2)) + _ROUNDING)
    known = [weight for weight in out.values() if not math.isnan(weight)]
    usual = sum(known) / len(known) if known else 1.0
    return {names: usual if math.isnan(weight) else weight for names, weight in out.items()}


Groups = Mapping[str, tuple[NDArray[np.intp], Floats]]
"""For each attribute that was measured in groups the group of each value, and the count of each value."""


def in_full(
    schema: Schema,
    codes: NDArray[np.int32],
    answers: Mapping[tuple[str, ...], Marginal],
    groups: Groups,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """Rows with values in place of groups, none of them impossible together.

    Values share the rows of their group as they share its count, whatever else a row has: so they do in the release.
    Then they are exchanged within groups until the tables in full are nearest to those of the release.
    """
    codes, place = codes.copy(), schema.positions
    for name, (group, counts) in groups.items():
        column = codes[:, place[name]].copy()
        for number in range(int(group.max()) + 1):
            own, inside = np.flatnonzero(column == number), np.flatnonzero(group == number)
            codes[own, place[name]] = inside[shuffled(counts[inside], len(own), random)]
    if groups:
        tables = _tables_in_full(schema, answers, groups, len(codes))
        stay = [groups[name][0] if name in groups else np.arange(schema[name].size) for name in schema.names]
        codes = fitted(codes, schema.shape, tables, possible_cells_of(schema), random, groups=stay)
    return without_impossible(schema, codes, random)


def _tables_in_full(
    schema: Schema, answers: Mapping[tuple[str, ...], Marginal], groups: Groups, rows: int
) -> list[Wanted]:
    """Tables of one attribute and of pairs, spread over values; of single attributes alone if time or room is short.

    Tables with less than a row in a cell are left out: nothing can be near to them.
    """
    shares = {name: shares_in_groups(group, counts) for name, (group, counts) in groups.items()}
    sizes = {names: math.prod(schema.sizes(names)) for names in answers}
    fits = [names for names in answers if len(names) == 1 or (len(names) == 2 and sizes[names] <= rows)]
    at = {names: tuple(schema.positions[name] for name in names) for names in fits}
    if sum(sizes[names] for names in fits) > _MOST_CELLS or sweeps_in_time(schema.shape, list(at.values()), rows) < 1:
        fits = [names for names in fits if len(names) == 1]
    out: list[Wanted] = []
    for names in fits:
        values = answers[names].values
        for axis, name in enumerate(names):
            if name in groups:
                along = np.moveaxis(values, axis, -1)[..., groups[name][0]] * shares[name]
                values = np.moveaxis(along, -1, axis)
        if values.sum() > 0:
            out.append((at[names], _scaled(values, rows), 1.0))
    return out


def in_groups(schema: Schema, codes: NDArray[np.int32], groups: Groups) -> NDArray[np.int32]:
    """Rows with groups in place of the values that were measured in groups."""
    out = codes.copy()
    for name, (group, _) in groups.items():
        out[:, schema.positions[name]] = group[codes[:, schema.positions[name]]]
    return out


def _scaled(values: Floats, rows: int) -> Floats:
    kept = np.maximum(values, 0.0)
    return np.asarray(kept * (rows / kept.sum()))


def batches(schema: Schema, tables: Iterable[tuple[str, ...]], most: int = _BATCH) -> Iterator[list[tuple[str, ...]]]:
    """The tables in their order, in batches of at most this many cells; a larger table is a batch by itself."""
    batch: list[tuple[str, ...]] = []
    cells = 0
    for names in tables:
        size = math.prod(schema.sizes(names))
        if batch and cells + size > most:
            yield batch
            batch, cells = [], 0
        batch.append(names)
        cells += size
    if batch:
        yield batch


def distances(
    schema: Schema, codes: NDArray[np.int32], answers: Mapping[tuple[str, ...], Marginal]
) -> dict[tuple[str, ...], float]:
    """For each table the share of rows that would have to move."""
    out = {}
    for names, answer in answers.items():
        own = _counts(codes, [schema.positions[name] for name in names], schema.sizes(names))
        if answer.values.sum() > 0 and len(codes):
            out[names] = float(np.abs(own - _scaled(answer.values, len(codes))).sum() / 2 / len(codes))
    return out


def narrowness(
    schema: Schema, codes: NDArray[np.int32], answers: Mapping[tuple[str, ...], Marginal]
) -> tuple[float, float]:
    """By how much intervals from the rows are too narrow, in half and in 19 of 20 cells of the tables at most.

    If there are very many tables, a regular sample of them is used. NaN if no error is known.
    """
    names = list(answers)
    judged = names[:: max(1, math.ceil(len(names) / _JUDGED_TABLES))]
    parts = [_too_narrow(schema, codes, names, answers[names]) for names in judged]
    known = np.concatenate([*parts, np.empty(0)])
    known = known[np.isfinite(known)]
    return (math.nan, math.nan) if not len(known) else tuple(np.quantile(known, [0.5, 0.95]).tolist())


def _too_narrow(schema: Schema, codes: NDArray[np.int32], names: tuple[str, ...], answer: Marginal) -> Floats:
    people, rows = float(answer.values.sum()), len(codes)
    own = _counts(codes, [schema.positions[name] for name in names], schema.sizes(names)).ravel()
    held = (own >= _LEAST_COUNT) & (own < rows)
    if not people > 0 or not held.any():
        return np.empty(0)
    low, high = (end.ravel()[held] for end in answer.interval(0.95))
    share = own[held] / rows
    noise, missed = (high - low) / 2 / _NORMAL, share * people - answer.values.ravel()[held]
    truly = np.sqrt(people * share * (1 - share) + noise**2 + missed**2) / people
    return np.asarray(truly / np.sqrt(share * (1 - share) / rows))
