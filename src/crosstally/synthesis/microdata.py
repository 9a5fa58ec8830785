"""Rows from tables, how far their own tables are from these, and how wrong intervals computed from them would be.

Somebody who takes n synthetic rows for people gives the share p of a cell the standard error sqrt(p (1 - p) / n). As an
estimate about the people of the release it errs by more: N people were drawn from a larger world, noise of standard
error s was added to their counts, and the rows miss the release's own count by d. So an interval is too narrow by

    sqrt(N p (1 - p) + s^2 + d^2) / N  /  sqrt(p (1 - p) / n).

Which attribute is drawn after which: a tree along the strongest links (Chow and Liu 1968).

Rows drawn attribute after attribute, then moved until all tables fit.

Drawing follows a tree, so that the tables along its links are right at once: the numbers of rows are those of the
table, rounded at random, and only which row gets which value is drawn. The other tables are fitted by moving rows,
table by table: rows leave cells that hold too many and go to cells that hold too few. A row that moves becomes a copy
of a row already there, which keeps what that row's other values have to do with each other, or takes the values of the
cell alone (Zhang et al., PrivSyn, USENIX Security 2021, section 4.3). Steps become smaller from sweep to sweep, so that
tables that contradict each other settle.
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
from crosstally.schema import Schema
from crosstally.typing import Floats

_SHRINKING = 0.75
"""The step of each sweep, as a share of the one before. Smaller stops too early, larger leaves tables in motion."""

_COPIED = 0.5
"""How often a row that moves becomes a copy: PrivSyn's half."""


Wanted = tuple[tuple[int, ...], Floats]
"""A table that rows should have: its attributes by position, and its counts, which add up to the rows."""


def whole(counts: Floats, total: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers that add up to a total, each the nearest below or above its share; alike where all are zero.

    >>> whole(np.array([1.0, 1.0, 2.0]), 4, np.random.default_rng(0))
    array([1, 1, 2])
    """
    weights = np.maximum(counts, 0.0)
    if not weights.sum() > 0:
        weights = np.ones(len(counts))
    # systematic sampling: the ends of all shares, moved by one random number, cut into whole numbers
    ends = np.cumsum(weights) / weights.sum() * total
    ends[-1] = total
    cut = np.floor(ends + random.random()).astype(np.int64)
    cut[-1] = total
    return np.asarray(np.diff(np.minimum(cut, total), prepend=0))


def drawn(
    order: Sequence[tuple[int, int | None]],
    singles: Sequence[Floats],
    pairs: Mapping[tuple[int, int], Floats],
    rows: int,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """Rows along a tree: (rows, attributes).

    Args:
        order: Attributes with what they depend on (``drawing_order``).
        singles: The table of each attribute.
        pairs: The tables along the links, the lower position first.
        rows: How many.
        random: For what is left to chance.
    """
    codes = np.zeros((rows, len(singles)), np.int32)
    for attribute, parent in order:
        if parent is None:
            codes[:, attribute] = _shuffled(singles[attribute], rows, random)
            continue
        table = pairs[min(attribute, parent), max(attribute, parent)]
        table = table if parent < attribute else table.T
        for value, given in enumerate(table):
            own = np.flatnonzero(codes[:, parent] == value)
            codes[own, attribute] = _shuffled(given if given.sum() > 0 else singles[attribute], len(own), random)
    return codes


def _shuffled(counts: Floats, rows: int, random: np.random.Generator) -> NDArray[np.int64]:
    return random.permutation(np.repeat(np.arange(len(counts)), whole(counts, rows, random)))


def fitted(
    codes: NDArray[np.int32], tables: Sequence[Wanted], sweeps: int, random: np.random.Generator
) -> NDArray[np.int32]:
    """The rows, moved so that their tables are near to those wanted: as they were after the best of the sweeps."""
    best, least = codes, _distance(codes, tables)
    codes, step = codes.copy(), 1.0
    for _ in range(sweeps):
        for number in random.permutation(len(tables)):
            _move(codes, tables[number], step, random)
        step *= _SHRINKING
        if (distance := _distance(codes, tables)) < least:
            best, least = codes.copy(), distance
    return best


def _cells(codes: NDArray[np.int32], table: Wanted) -> NDArray[np.intp]:
    """The cell of each row, by its number."""
    axes, counts = table
    return np.asarray(np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), counts.shape))


def _distance(codes: NDArray[np.int32], tables: Sequence[Wanted]) -> float:
    """The sum of all differences."""
    held = (np.bincount(_cells(codes, table), minlength=table[1].size) for table in tables)
    return sum(float(np.abs(each - counts.ravel()).sum()) for each, (_, counts) in zip(held, tables, strict=True))


def _move(codes: NDArray[np.int32], table: Wanted, step: float, random: np.random.Generator) -> None:
    axes, counts = table
    cells = _cells(codes, table)
    held = np.bincount(cells, minlength=counts.size)
    lacking = step * (counts.ravel() - held)
    given = _rounded(np.maximum(-lacking, 0.0), random)
    taken = np.repeat(np.arange(counts.size), _rounded(np.maximum(lacking, 0.0), random))
    if not len(taken) or not given.any():
        return
    order = random.permutation(len(codes))
    order = order[np.argsort(cells[order], kind="stable")]  # rows by cell, in random order within each
    starts = np.cumsum(held) - held
    place = np.arange(len(codes)) - starts[cells[order]]  # the number of a row within its cell
    movers = random.permutation(order[place < given[cells[order]]])
    number = min(len(movers), len(taken))
    movers, taken = movers[:number], random.permutation(taken)[:number]
    copied = (random.random(number) < _COPIED) & (held[taken] > 0)
    models = order[starts[taken[copied]] + (random.random(int(copied.sum())) * held[taken[copied]]).astype(np.intp)]
    codes[movers[copied]] = codes[models]
    for axis, values in zip(axes, np.unravel_index(taken, counts.shape), strict=True):
        codes[movers, axis] = values


def _rounded(numbers: Floats, random: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers whose means are these."""
    return np.floor(numbers + random.random(numbers.shape)).astype(np.int64)


# Synthetic data


def drawing_order(number: int, links: Mapping[tuple[int, int], float]) -> Sequence[tuple[int, int | None]]:
    """Attributes in the order in which they are drawn, each with the one it depends on, if any.

    The tree of largest total weight, found from its strongest link on (Prim). Attributes that no link reaches begin
    trees of their own.

    Args:
        number: How many attributes there are.
        links: The weight of each pair, the lower position first.

    >>> drawing_order(4, {(0, 1): 0.1, (1, 2): 0.5, (0, 2): 0.4})
    [(1, None), (2, 1), (0, 2), (3, None)]
    """
    weights = np.full((number, number), -1.0)
    for (a, b), weight in links.items():
        weights[a, b] = weights[b, a] = weight
    best, parent = weights.max(axis=1, initial=-1.0), np.full(number, -1)
    reach = np.full(number, -1.0)  # the strongest link to an attribute that was drawn
    left, out = set(range(number)), []
    while left:
        linked = [i for i in left if reach[i] >= 0]
        chosen = max(linked, key=lambda i: (reach[i], -i)) if linked else max(left, key=lambda i: (best[i], -i))
        out.append((chosen, int(parent[chosen]) if linked else None))
        left.remove(chosen)
        nearer = weights[chosen] > reach
        reach[nearer], parent[nearer] = weights[chosen][nearer], chosen
    return out


Tables = Callable[[Sequence[tuple[str, ...]]], list[Marginal]]
"""What answers tables over sets of attributes."""

_MOST_CODES = 200_000_000  # rows times attributes: 800 MB
_LARGEST_TABLE = 50_000  # cells of a table that rows are fitted to; larger ones have less than a row in most cells
# Limits time: rows are fitted to all single attributes and to at most this many pairs, those associated most strongly.
_MOST_TABLES = 3_000
# Sweeps over all tables, as the work below allows. Chosen: fewer leave rows further from the tables.
_MOST_SWEEPS, _LEAST_SWEEPS = 8, 2
_WORK = 150_000_000  # rows times tables times sweeps: about ten seconds
_BATCH = 2_000_000  # cells asked for at once
_SHOWN_ROWS = 5  # of a notebook: they show what rows look like, and nothing can be learned from them
_JUDGED_TABLES = 60  # tables whose intervals are looked at
_LEAST_COUNT = 5.0  # cells of fewer rows have no normal intervals to speak of
_WIDE_ENOUGH = 1.05  # nobody need multiply an interval by less
_NORMAL = 1.959963984540054  # the quantile of the normal law that 95% intervals have


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticData:
    """Synthetic rows, as codes, and how far they can be trusted.

    Attributes:
        schema: What the rows are about.
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
        return "\n".join([f"{len(self):,} synthetic rows of {len(self.schema.names)} attributes", *self.report()])

    def _repr_html_(self) -> str:
        some = [
            [attribute.labels[code] for attribute, code in zip(self.schema.attributes, row, strict=True)]
            for row in self.codes[:_SHOWN_ROWS].tolist()
        ]
        title = f"{len(self):,} synthetic rows of {len(self.schema.names)} attributes"
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
        """What everybody who gets the rows must know."""
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
        """The rows with labels, a dictionary column for each attribute; the warning stands in the metadata."""
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
    schema: Schema, tables: Tables, wanted: Iterable[tuple[str, ...]], *, rows: int, seed: int
) -> tuple[NDArray[np.int32], dict[tuple[str, ...], Marginal]]:
    """Rows drawn along the strongest links and fitted to tables, and these tables.

    Nothing grows with the number of combinations of all values.

    Args:
        schema: The attributes.
        tables: What answers tables.
        wanted: The tables to fit; too large ones, and the weakest of very many, are left out.
        rows: How many rows.
        seed: Rows with the same seed are the same. Everything here is public: it protects nobody.
    """
    if rows * len(schema.names) > _MOST_CODES:
        raise QueryError(f"rows times attributes must be at most {_MOST_CODES:,}, got {rows * len(schema.names):,}")
    random, position = np.random.default_rng(seed), schema.positions
    fits = [names for names in wanted if len(names) >= 2 and math.prod(schema.sizes(names)) <= _LARGEST_TABLE]
    asked = batches(schema, [*((name,) for name in schema.names), *dict.fromkeys(fits)])
    answers = {names: answer for batch in asked for names, answer in zip(batch, tables(batch), strict=True)}
    pairs = {names: answers[names].values for names in answers if len(names) == 2}
    links = {names: max(0.0, float(mutual_informations(values[None])[0])) for names, values in pairs.items()}
    if len(answers) > _MOST_TABLES:
        strongest = sorted(links, key=lambda names: -links[names])[:_MOST_TABLES]
        answers = {names: answers[names] for names in answers if len(names) == 1 or names in set(strongest)}
    order = drawing_order(len(position), {(position[a], position[b]): links[a, b] for a, b in links})
    along = {(position[a], position[b]): values for (a, b), values in pairs.items()}
    codes = drawn(order, [answers[name,].values for name in schema.names], along, rows, random)
    fitting = [
        (tuple(position[name] for name in names), _scaled(answer.values, rows))
        for names, answer in answers.items()
        if answer.values.sum() > 0
    ]
    sweeps = int(np.clip(_WORK // max(rows * len(fitting), 1), _LEAST_SWEEPS, _MOST_SWEEPS))
    return fitted(codes, fitting, sweeps if rows else 0, random), answers


def _scaled(values: Floats, rows: int) -> Floats:
    kept = np.maximum(values, 0.0)
    return np.asarray(kept * (rows / kept.sum()))


def batches(schema: Schema, tables: Iterable[tuple[str, ...]], most: int = _BATCH) -> Iterator[list[tuple[str, ...]]]:
    """The tables in their order, as many at once as have at most so many cells together; a larger one comes alone."""
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

    Of very many tables some are looked at, at equal distances. NaN where no error is known.
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
