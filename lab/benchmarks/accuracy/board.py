"""The board of NIST's Collaborative Research Cycle: our synthetic data beside published differentially private ones.

Each entry of the board is a file of synthetic rows made from an excerpt of the American Community Survey with a feature
set, an epsilon and a delta, and its k-marginal score (``k_marginal``). Ours are the default release of the same columns
with the same budget, nothing named, and its synthetic data; an entry without a delta is met with pure epsilon. Columns
of numbers have public round bins, set once, in which values are drawn evenly; all other labels are those of the public
dictionary, read off the excerpt.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.accuracy.k_marginal import Columns, Scorer
from benchmarks.accuracy.kept import code_digest, kept
from benchmarks.accuracy.lines import line
from benchmarks.accuracy.real_tables import MissingFileError
from crosstally_lab.papers.data import find

FILES = {"national2019": "crc-national.parquet", "tx2019": "crc-texas.parquet", "ma2019": "acs-ma.csv"}
SCORES = "crc-scores.csv"
EDGES: Mapping[str, Sequence[float]] = {
    "AGEP": [*range(0, 90, 5), 100],
    "PINCP": [
        -20_000,
        0,
        1,
        *range(5_000, 60_001, 5_000),
        70_000,
        80_000,
        100_000,
        125_000,
        150_000,
        250_000,
        2_000_000,
    ],
    "POVPIP": [*range(0, 501, 25), 501, 502],
    "PWGTP": [1, *range(10, 201, 10), 300, 10_000],
    "WGTP": [0, 1, *range(10, 201, 10), 300, 10_000],
}
"""The bins of numbers: round steps from the public dictionary, chosen before the first score and kept."""
_ABSENT = "N"
DRAWS = 3
WORK = "board, 1000 - k-marginal score of synthetic data"


@dataclass(frozen=True, slots=True)
class Entry:
    """A published score: of which method, on which excerpt and columns, with which budget."""

    method: str
    excerpt: str
    features: tuple[str, ...]
    feature_set: str
    epsilon: str
    delta: str | None
    published: float


def entries() -> list[Entry]:
    """All published scores; MissingFileError where the file is not there."""
    path = find(SCORES)
    if path is None:
        raise MissingFileError(f"no file {SCORES} in the folder of CROSSTALLY_DATA")
    with path.open(encoding="utf-8") as file:
        return [_entry(row) for row in csv.DictReader(file)]


def _entry(row: Mapping[str, str]) -> Entry:
    features = tuple(name.strip() for name in row["features list"].split(","))
    method = f"{row['library name']} {row['algorithm name']}"
    delta = delta_of(row["delta"])
    budget = (repr(float(row["epsilon"])).removesuffix(".0"), delta)
    return Entry(method, row["target dataset"], features, row["feature set name"], *budget, float(row["score"]))


def delta_of(text: str) -> str | None:
    """A delta as budgets take it, from what the board says; None where it says none or zero.

    >>> delta_of("10^(-5)"), delta_of("3.6e^(-6)"), delta_of("0"), delta_of("")
    ('1e-05', '3.6e-06', None, None)
    """
    plain = text.replace("e^(", "e").replace("10^(", "1e").strip(") ")
    try:
        number = float(plain)
    except ValueError:  # none, or a formula in the number of rows
        return None
    return repr(number) if number > 0 else None


@lru_cache
def excerpt(name: str) -> Columns:
    """The text of an excerpt's columns."""
    path = find(FILES[name])
    if path is None:
        raise MissingFileError(f"no file {FILES[name]} in the folder of CROSSTALLY_DATA")
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        return {each: table[each].to_numpy(zero_copy_only=False).astype(str) for each in table.column_names}
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {each: np.array([row[each] for row in rows]) for each in rows[0]}


def schema_of(rows: Columns, names: Sequence[str]) -> ct.Schema:
    """The schema of some columns: public bins for numbers, the labels of the dictionary for all others."""
    return ct.Schema([_attribute(name, rows[name]) for name in names])


def _attribute(name: str, values: NDArray[np.str_]) -> ct.Attribute:
    if name in EDGES:
        return ct.Attribute(name, edges=EDGES[name], missing=bool((values == _ABSENT).any()))
    return ct.Attribute(name, np.unique(values).tolist())


def private_rows(rows: Columns, schema: ct.Schema) -> pa.Table:
    """The rows as a release takes them: what does not apply is missing in columns of numbers."""
    columns = {}
    for name in schema.names:
        absent = rows[name] == _ABSENT
        numbers = name in EDGES
        values = np.where(absent, "0", rows[name]).astype(float) if numbers else rows[name]
        columns[name] = pa.array(values, mask=absent) if numbers else pa.array(values.tolist())
    return pa.table(columns)


def synthetic_columns(schema: ct.Schema, codes: NDArray[np.int32], random: np.random.Generator) -> dict[str, NDArray]:
    """Rows of codes as text: whole numbers drawn evenly from their bin, labels as they are."""
    columns = {}
    for name, of_column in zip(schema.names, codes.T, strict=True):
        if name not in EDGES:
            columns[name] = np.array(schema[name].values)[of_column]
            continue
        edges = np.array(EDGES[name])
        bins = np.minimum(of_column, len(edges) - 2)
        drawn = np.floor(random.uniform(edges[bins], edges[bins + 1])).astype(int).astype(str)
        columns[name] = np.where(of_column > len(edges) - 2, _ABSENT, drawn)
    return columns


@dataclass(frozen=True, slots=True)
class Trial:
    """What is drawn for an entry: the default release of its columns with its budget, and synthetic data."""

    excerpt: str
    features: tuple[str, ...]
    epsilon: str
    delta: str | None

    def score(self, seed: int) -> float:
        """The score of one release; the seed is that of values inside bins."""
        rows = excerpt(self.excerpt)
        schema = schema_of(rows, self.features)
        release = ct.release(private_rows(rows, schema), schema, epsilon=self.epsilon, delta=self.delta)
        made = release.synthesize(rows=len(next(iter(rows.values()))))
        given = synthetic_columns(schema, made.codes, np.random.default_rng(seed))
        return Scorer(rows, self.features).score(given)


def scores(trial: Trial, draws: int = DRAWS) -> list[float]:
    """The scores of some releases, each kept under the digest of the code."""
    found = []
    for seed in range(draws):
        key = {"line": "board", **asdict(trial), "seed": seed, "code": code_digest("synthesis")}
        found.append(float(kept("board", json.loads(json.dumps(key)), partial(trial.score, seed))))
    return found


def trials(wanted: Sequence[Entry]) -> dict[Trial, list[Entry]]:
    """What must be drawn, with the entries that it meets."""
    found: dict[Trial, list[Entry]] = {}
    for each in wanted:
        trial = Trial(each.excerpt, each.features, each.epsilon, each.delta)
        found.setdefault(trial, []).append(each)
    return found


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """The scorer against published scores, then a line for each entry: what is missing to 1000, ours first."""
    try:
        wanted = trials(entries())
        yield from _checks()
    except MissingFileError as error:
        yield line(f"{WORK}: not run, {error}", None, None, None, unit="points")
        return
    for trial, met in wanted.items():
        if quick and trial.epsilon != "1":
            continue
        own = 1000 - float(np.mean(scores(trial, min(draws, DRAWS))))
        for each in met:
            work = (
                f"{WORK}, {each.excerpt}, {each.feature_set}, epsilon {each.epsilon}, delta {each.delta}, {each.method}"
            )
            yield line(work, own, 1000 - each.published, 1.0, unit="points", note=f"{min(draws, DRAWS)} draws")


def _checks() -> Iterator[dict[str, Any]]:
    for names, epsilon, published in HISTOGRAMS:
        found = int(histogram_score(names, epsilon, np.random.default_rng(0)))
        near = abs(found - published) <= 1
        work = f"{WORK}: noisy histogram of {len(names)} columns scored by us, epsilon {epsilon}"
        yield line(work, found, published, None, unit="points", met=near)


_EIGHT = ("SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET")
HISTOGRAMS = ((_EIGHT, 10, 998), (_EIGHT, 1, 425), (_EIGHT, 2, 483), (_EIGHT, 4, 739))
"""Published scores that can be made again: the national excerpt's table of eight columns with geometric noise, negative
counts set to zero (tumult DPHist). A fifth, with AGEP beside them at epsilon 10 (912), comes out at 909: which ages its
table had is not said, and its file has 32,042 rows where ours have 32,260."""


def histogram_score(names: Sequence[str], epsilon: float, random: np.random.Generator) -> float:
    """The score of the noisy table of some columns of the national excerpt. The noise is not private: it is a check."""
    rows = excerpt("national2019")
    labels, codes = zip(*(np.unique(rows[name], return_inverse=True) for name in names), strict=True)
    shape = tuple(map(len, labels))
    counts = np.bincount(np.ravel_multi_index(codes, shape), minlength=math.prod(shape))
    noise = [random.geometric(1 - math.exp(-epsilon), counts.size) for _ in range(2)]
    cells = np.repeat(np.arange(counts.size), np.maximum(counts + noise[0] - noise[1], 0))
    made = {name: of[code] for name, of, code in zip(names, labels, np.unravel_index(cells, shape), strict=True)}
    return Scorer(rows, names).score(made)
