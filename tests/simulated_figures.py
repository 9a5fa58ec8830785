"""Figures computed from simulated releases, their errors beside the errors that they claim.

``PYTHONPATH=src:tests python -m simulated_figures "central, one population" --releases 2000`` prints a table: for each
figure the ratio of claimed to actual errors, how many standard errors its mean square is off, the same when claims are
times 0.9, the width over the width that would hold 95%, and the share held.

A figure claims the error h / q, h being half of its 95% interval (of its logarithm, for ratios that err by factors) and
q the quantile it was made with: 1.96, or 1.98 where 100 replicates say how large errors are (Student's law). Ends of
counts are rounded outwards to whole numbers, by half a count each on average; h is without that half.
Its score is its true error over that. A population is either one for all releases, or drawn anew for each of them:

varied  sizes of interactions as ``answers.interactions`` expects them of a release that says nothing: what intervals
        of unmeasured tables assume is true then. Sizes are written down again here, not imported.
even    all interactions of pairs of size 0.3, of triples of size 0.15: less than is expected.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.local import Collector, Protocol, design
from crosstally.local.bulk import reports
from crosstally.releases import Release, Statement, publish
from crosstally.tables import ErrorKind, Marginal
from simulated import margin, measured, people, schema_of

Floats = NDArray[np.float64]
Table = Callable[..., Marginal]

SIZES = (2, 3, 2, 3)
ROWS = 20_000
COVERED = [*combinations(range(4), 2), (0, 1, 2), (0, 2, 3), (1, 2, 3)]
NOISES = {"Laplace": Noise(NoiseKind.LAPLACE, 20.0), "Gaussian": Noise(NoiseKind.GAUSSIAN, 28.0)}
NORMAL, STUDENT = 1.959964, 1.983972  # half of a 95% interval in standard errors: known, and from 100 replicates
BY_FACTORS = ("odds ratio", "relative risk")


def figures(cells: Marginal, *, within: Sequence[str], ratio: Marginal, two: Marginal) -> dict[str, Marginal]:
    """What is computed from a table with the attributes a0 and a1, from a ratio and from a table of two by two."""
    shares = cells.shares(*within)
    return {
        "cell": cells,
        "sum": cells.group("a1", {"x": ["0", "1"]}),
        "difference": cells["0"] - cells["1"],
        "share": cells.shares(),
        "share of a row": shares,
        "difference of shares": shares["0"] - shares["1"],
        "ratio": ratio,
        "mean": ct.analysis.mean(cells, "a1", at=[1, 2, 4]),
        "odds ratio": ct.analysis.odds_ratio(two),
        "relative risk": ct.analysis.relative_risk(two),
    }


def covered_figures(table: Table) -> dict[str, Marginal]:
    """The figures of two covered pairs."""
    first, second = table("a0", "a1"), table("a0", "a2")
    return figures(first, within=["a0"], ratio=second["0"] / first["1"].sum(), two=second)


def unmeasured_figures(table: Table) -> dict[str, Marginal]:
    """The same figures from a triple that nobody measured."""
    pair, triple = table("a0", "a1"), table("a0", "a1", "a3")
    ratio, two = triple["0"] / pair["1"].sum(), triple["0"].sel(a1=["0", "1"], a3=["0", "1"])
    found = figures(triple, within=["a0", "a1"], ratio=ratio, two=two)
    return {f"unmeasured {name}": each for name, each in found.items()}


def one_population(rng: np.random.Generator) -> NDArray[np.int64]:
    return _one_population()


@cache
def _one_population() -> NDArray[np.int64]:
    return people(np.random.default_rng(3), SIZES, ROWS, 0.5)


def varied(rng: np.random.Generator) -> NDArray[np.int64]:
    sizes = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    weights = np.array([1, 1, 2, 3, 2, 1, 0.3, 0.1]) / 10.4
    return log_linear(rng, lambda order: float(rng.choice(sizes, p=weights)) / 2 ** (order - 2))


def even(rng: np.random.Generator) -> NDArray[np.int64]:
    return log_linear(rng, lambda order: 0.3 / 2 ** (order - 2))


def log_linear(rng: np.random.Generator, size: Callable[[int], float]) -> NDArray[np.int64]:
    """People whose log frequencies are sums of random interactions, those of an order of a size each."""
    logs = np.zeros(SIZES)
    for order in range(1, len(SIZES) + 1):
        for axes in combinations(range(len(SIZES)), order):
            shape = [SIZES[axis] for axis in axes]
            own = rng.standard_normal(shape)
            for axis in range(order):
                own = own - own.mean(axis=axis, keepdims=True)
            own *= (0.3 if order == 1 else size(order)) / math.sqrt(math.prod(1 - 1 / n for n in shape))
            logs += own.reshape([n if axis in axes else 1 for axis, n in enumerate(SIZES)])
    weights = np.exp(logs)
    return np.asarray(rng.multinomial(ROWS, weights.ravel() / weights.sum()).reshape(SIZES))


def central(rng: np.random.Generator, full: NDArray[np.int64], noise: str = "Laplace") -> Release:
    """A release by the default inference, of all pairs and three of four triples."""
    statement = Statement(strategy="x", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    return publish(schema_of(*SIZES), measured(rng, full, COVERED, NOISES[noise]), statement)


@cache
def _protocol() -> Protocol:
    return design(schema_of(*SIZES), epsilon=2, people=ROWS, ways=2)


def local(rng: np.random.Generator, full: NDArray[np.int64]) -> Release:
    """A collection of the local model, of pairs."""
    codes = np.repeat(np.indices(full.shape).reshape(full.ndim, -1), full.ravel(), axis=1)
    collector = Collector(_protocol())
    collector.add_many(reports(_protocol(), codes))
    return collector.release()


def central_gaussian(rng: np.random.Generator, full: NDArray[np.int64]) -> Release:
    return central(rng, full, "Gaussian")


SETTINGS = {
    "central, one population": (central, one_population),
    "central, one population, Gaussian": (central_gaussian, one_population),
    "central, varied": (central, varied),
    "central, even": (central, even),
    "local, one population": (local, one_population),
    "local, varied": (local, varied),
    "local, even": (local, even),
}


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one figure: errors over the errors claimed, and whether intervals held, for each release and cell."""

    scores: Floats
    held: NDArray[np.bool_]

    @property
    def squares(self) -> Floats:
        """The mean square of each release."""
        return np.asarray((self.scores**2).mean(axis=1))

    @property
    def ratio(self) -> float:
        """Claimed over actual errors, by their mean squares."""
        return float(1 / np.sqrt(self.squares.mean()))

    @property
    def width(self) -> float:
        """The width of intervals over the width that would hold 95%; unlike ``ratio`` it bears a few wild scores."""
        return float(NORMAL / np.quantile(np.abs(self.scores), 0.95))

    def z(self, factor: float = 1.0) -> float:
        """How many standard errors the mean square is above one, if errors claimed are times a factor."""
        return standard_errors_above_one(self.squares / factor**2)


def standard_errors_above_one(squares: Floats) -> float:
    return float((squares.mean() - 1) / (squares.std() / math.sqrt(len(squares))))


def simulated(setting: str, seeds: Iterable[int], *, unmeasured: bool = False) -> dict[str, Scores]:
    """The scores of covered or unmeasured figures over releases, one for each seed."""
    release, population = SETTINGS[setting]
    computed = unmeasured_figures if unmeasured else covered_figures
    quantile = STUDENT if setting.startswith("central") else NORMAL
    found: dict[str, list[tuple[Floats, NDArray[np.bool_]]]] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, 17])
        full = population(rng)
        truth = computed(exact(full))
        for name, each in computed(release(rng, full).marginal).items():
            found.setdefault(name, []).append(scored(each, truth[name].values, name.endswith(BY_FACTORS), quantile))
    return {name: Scores(*map(np.array, zip(*each, strict=True))) for name, each in found.items()}


def pooled(found: Mapping[str, Scores]) -> Scores:
    """All figures together, each counting alike whatever its number of cells."""
    most = math.lcm(*(each.scores.shape[1] for each in found.values()))
    parts = [[np.repeat(of, most // of.shape[1], axis=1) for of in (each.scores, each.held)] for each in found.values()]
    return Scores(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))


def exact(full: NDArray[np.int64]) -> Table:
    """What gives the tables of the people themselves."""

    def table(*names: str) -> Marginal:
        counts = margin(full, [int(name[1]) for name in names]).astype(float)
        schema = schema_of(*full.shape).subset(*names)
        return Marginal(schema, counts, method="exact", error_kind=ErrorKind.NONE, error=None)

    return table


def scored(found: Marginal, truth: Floats, by_factors: bool, quantile: float) -> tuple[Floats, NDArray[np.bool_]]:
    """The score of each cell, and whether its interval holds the truth; an interval of everything scores zero."""
    low, high = (np.ravel(end) for end in found.interval())
    values, truth = np.ravel(found.values), np.ravel(truth)
    held = (low <= truth) & (truth <= high)
    with np.errstate(all="ignore"):
        ends = [np.log(each) if by_factors else each for each in (values, truth, low, high)]
        rounded = float((low == np.floor(low)).all() and (high == np.floor(high)).all())
        scores = np.abs(ends[0] - ends[1]) / ((ends[3] - ends[2] - rounded) / 2 / quantile)
    return np.where(held & ~np.isfinite(scores), 0.0, np.minimum(scores, 1e6)), held


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="errors of figures beside those that they claim")
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--releases", type=int, default=2_000)
    parser.add_argument("--unmeasured", action="store_true")
    given = parser.parse_args(arguments)
    found = simulated(given.setting, range(given.releases), unmeasured=given.unmeasured)
    print(f"{given.setting}: {given.releases} releases\n{'':32}  ratio      z    z.9   width    held")
    for name, each in {**found, "all": pooled(found)}.items():
        numbers = f"{each.ratio:6.3f} {each.z():6.1f} {each.z(0.9):6.1f} {each.width:7.3f} {each.held.mean():7.1%}"
        print(f"{name:32} {numbers}")


if __name__ == "__main__":
    main()
