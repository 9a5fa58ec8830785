"""Figures computed from simulated releases, their errors beside the errors that they claim.

``PYTHONPATH=src:tests python -m simulated_figures "central, one population" --releases 2000`` prints a table: for each
figure the ratio of claimed to actual errors, how many standard errors its mean square is off, the same when claims are
times 0.9, the width over the width that would hold 95%, and the share held.

A figure claims the error h / q, h being half of its 95% interval (of its logarithm, for ratios that err by factors) and
q the quantile it was made with: 1.96, or Student's for as many draws as say how large errors are (1.98 for 100, 1.97
for 400). Ends of counts are rounded outwards to whole numbers, by half a count each on average; h is without that half.
Its score is its true error over that. A population is either one for all releases, or drawn anew for each of them:

varied  sizes of interactions as ``answers.interactions`` expects them of a release that says nothing: what intervals
        of unmeasured tables assume is true then. Sizes are written down again here, not imported.
even    all interactions of pairs of size 0.3, of triples of size 0.15: less than is expected.
supposed  even, but the interaction of the triple that nobody measured is drawn from the very law that the release
        supposes of it (``reference_supposed``), four times: intervals of unmeasured tables ought to be right here.

Of one population of the local model figures of all pairs are looked at in turn: what a collection claims of pairs is
right on average over pairs, and wrong of each for itself, since all are drawn to one law.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Draws
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.local import Protocol, design
from crosstally.local.collector import release_of
from crosstally.local.estimate.report_counts import measurements_of
from crosstally.releases import Release, Statement, publish
from reference_supposed import Axes, summed, with_log_interactions, with_moment
from simulated import margin, measured, people, schema_of

Floats = NDArray[np.float64]
Table = Callable[..., Marginal]
Roles = tuple[str, str, str]

SIZES = (2, 3, 2, 3)
ROWS = 20_000
COVERED = [*combinations(range(4), 2), (0, 1, 2), (0, 2, 3), (1, 2, 3)]
NOISES = {"Laplace": Noise(NoiseKind.LAPLACE, 20.0), "Gaussian": Noise(NoiseKind.GAUSSIAN, 28.0)}
NORMAL, STUDENT = 1.959964, {100: 1.983972, 400: 1.965912}  # half of a 95% interval in standard errors, by draws
BY_FACTORS = ("odds ratio", "relative risk")


def figures(cells: Marginal, *, within: Sequence[str], ratio: Marginal, two: Marginal) -> dict[str, Marginal]:
    """What is computed from a table, the second attribute of which has three values, from a ratio, from two by two."""
    shares, second = cells.shares(*within), cells.attributes[1]
    return {
        "cell": cells,
        "sum": cells.group(second, {"x": ["0", "1"]}),
        "difference": cells["0"] - cells["1"],
        "share": cells.shares(),
        "share of a row": shares,
        "difference of shares": shares["0"] - shares["1"],
        "ratio": ratio,
        "mean": ct.analysis.mean(cells, second, at=[1, 2, 4]),
        "odds ratio": ct.analysis.odds_ratio(two),
        "relative risk": ct.analysis.relative_risk(two),
    }


def covered_figures(table: Table, roles: Roles = ("a0", "a1", "a2")) -> dict[str, Marginal]:
    """The figures of two covered pairs, the first attribute with each of the others; of three values the first two."""
    one, *others = roles
    first, second = (first_two(table(one, other), one) for other in others)
    two = first_two(second, others[1])
    return figures(first, within=[one], ratio=two["0"] / first["1"].sum(), two=two)


def first_two(table: Marginal, name: str) -> Marginal:
    return table if table.schema[name].size == 2 else table.sel({name: ["0", "1"]})


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


def local(rng: np.random.Generator, full: NDArray[np.int64], nonnegative: str = "ripple") -> Release:
    """A collection of the local model, of pairs: each report is drawn by numpy, so that a seed draws it again."""
    protocol = _protocol()
    shares = np.array([group.share for group in protocol.groups])
    people = rng.multinomial(ROWS, shares / shares.sum())
    left, counts = full.ravel(), []
    for group, number in zip(protocol.groups, people.tolist(), strict=True):
        asked = rng.multivariate_hypergeometric(left, number)
        left = left - asked
        cells = margin(asked.reshape(full.shape), group.attributes).ravel()
        counts.append(randomised_responses(rng, cells, epsilon=2))
    return release_of(protocol, measurements_of(protocol, people, counts), ROWS, nonnegative=nonnegative)


def randomised_responses(rng: np.random.Generator, cells: NDArray[np.int64], *, epsilon: float) -> NDArray[np.int64]:
    """How often each cell is reported: a person reports the own cell e^epsilon times as often as any other."""
    odds = np.full((len(cells), len(cells)), 1.0) + (math.exp(epsilon) - 1) * np.eye(len(cells))
    return np.asarray(rng.multinomial(cells, odds / odds.sum(axis=1, keepdims=True)).sum(axis=0))


def central_gaussian(rng: np.random.Generator, full: NDArray[np.int64]) -> Release:
    return central(rng, full, "Gaussian")


def unbiased(rng: np.random.Generator, full: NDArray[np.int64]) -> Release:
    return local(rng, full, nonnegative="none")


# Truths as a release supposes them. Its measurements rest on covered tables alone, so that any others fit it as well

TRIPLE, DRAWN = (0, 1, 3), 4


def supposed_central(rng: np.random.Generator, full: NDArray[np.int64], release: Release) -> list[Floats]:
    """Tables with the true pairs, interactions of three attributes of the sizes that the release learned."""
    law = sizes_of(release, release.schema.names)
    return [with_log_interactions(rng, _true_pairs(full), law) for _ in range(DRAWN)]


def sizes_of(release: Release, names: Sequence[str]) -> Callable[[Axes], Floats]:
    """The law of the size of an interaction that a release supposes, by the axes of a table over some attributes."""
    return lambda axes: release._sizes().of([names[axis] for axis in axes])


def supposed_local(rng: np.random.Generator, full: NDArray[np.int64], release: Release) -> list[Floats]:
    """Tables with the true pairs, nearly, moments of three attributes with the variances that the release supposes."""
    moments = release._errors.moments(release.estimate)
    assert moments is not None
    variances = moments.variances(tuple(f"a{axis}" for axis in TRIPLE))
    return [with_moment(rng, _true_pairs(full), variances) for _ in range(DRAWN)]


def _true_pairs(full: NDArray[np.int64]) -> dict[tuple[int, ...], Floats]:
    triple = margin(full, TRIPLE).astype(float)
    return {axes: summed(triple, axes) for axes in combinations(range(3), 2)}


def in_four(triple: Floats) -> Floats:
    """A table over the three attributes as one over all four, alike for all values of the other."""
    return np.repeat(triple[:, :, None, :], SIZES[2], axis=2) / SIZES[2]


@dataclass(frozen=True, slots=True)
class Setting:
    """How releases come about: from which population, by what, and which attributes figures are about, in turn.

    ``truths`` draws other truths about the triple that nobody measured, given the release.
    """

    release: Callable[[np.random.Generator, NDArray[np.int64]], Release]
    population: Callable[[np.random.Generator], NDArray[np.int64]]
    roles: Sequence[Roles] = (("a0", "a1", "a2"),)
    truths: Callable[[np.random.Generator, NDArray[np.int64], Release], list[Floats]] | None = None


ALL_PAIRS = [
    roles for roles in permutations(("a0", "a1", "a2", "a3"), 3) if roles[1] in ("a1", "a3")
]  # the second has three values

SETTINGS = {
    "central, one population": Setting(central, one_population),
    "central, one population, Gaussian": Setting(central_gaussian, one_population),
    "central, varied": Setting(central, varied),
    "central, even": Setting(central, even),
    "central, supposed": Setting(central, even, truths=supposed_central),
    "local, one population": Setting(local, one_population, ALL_PAIRS),
    "local, two pairs of one population": Setting(local, one_population),
    "local, one population, unbiased": Setting(unbiased, one_population),
    "local, varied": Setting(local, varied),
    "local, even": Setting(local, even),
    "local, supposed": Setting(local, even, truths=supposed_local),
}


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one figure: errors over the errors claimed, and whether intervals held, for each release and cell.

    ``ends`` are the scores at the ends of intervals, for each cell.
    """

    scores: Floats
    held: NDArray[np.bool_]
    ends: Floats

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
        return float(1 / np.quantile(self.scores / self.ends, 0.95))

    def z(self, factor: float = 1.0) -> float:
        """How many standard errors the mean square is above one, if errors claimed are times a factor."""
        return standard_errors_above_one(self.squares / factor**2)

    def z_missed(self, factor: float = 1.0) -> float:
        """How many standard errors more than 5% are missed, if widths are times a factor: bears wild scores too."""
        missed = (self.scores > self.ends * factor).mean(axis=1)
        return float((missed.mean() - 0.05) / max(missed.std() / math.sqrt(len(missed)), 1e-9))


def standard_errors_above_one(squares: Floats) -> float:
    return float((squares.mean() - 1) / (squares.std() / math.sqrt(len(squares))))


def simulated(setting: str, seeds: Iterable[int], *, unmeasured: bool = False) -> dict[str, Scores]:
    """The scores of covered or unmeasured figures over releases, one for each seed."""
    given = SETTINGS[setting]
    found: dict[str, list[tuple[Floats, NDArray[np.bool_], float]]] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, 17])
        full = given.population(rng)
        roles = given.roles[seed % len(given.roles)]
        computed = unmeasured_figures if unmeasured else partial(covered_figures, roles=roles)
        release = given.release(rng, full)
        others = [] if given.truths is None else [in_four(each) for each in given.truths(rng, full, release)]
        truths = [computed(exact(each)) for each in others or [full]]
        for name, each in computed(release.marginal).items():
            quantile = quantile_of(each, local=setting.startswith("local"))
            by_factors = name.endswith(BY_FACTORS)
            parts = [scored(each, truth[name].values, by_factors, quantile) for truth in truths]
            scores, held = map(np.concatenate, zip(*parts, strict=True))
            found.setdefault(name, []).append((scores, held, quantile))
    return {name: together(each) for name, each in found.items()}


def together(releases: Sequence[tuple[Floats, NDArray[np.bool_], float]]) -> Scores:
    scores, held, quantiles = map(np.array, zip(*releases, strict=True))
    return Scores(scores, held, np.full(scores.shape[1], quantiles[0]))


def quantile_of(figure: Marginal, *, local: bool) -> float:
    """The quantile that an interval was made with."""
    own = figure.uncertainty
    if isinstance(own, Draws) and own.cells is None and own.joint is not None:
        return STUDENT[len(own.joint.draws) - 1]
    return NORMAL if local else STUDENT[100]


def pooled(found: Mapping[str, Scores]) -> Scores:
    """All figures together, each counting alike whatever its number of cells."""
    most = math.lcm(*(each.scores.shape[1] for each in found.values()))
    parts = [
        [np.repeat(of, most // of.shape[-1], axis=-1) for of in (each.scores, each.held, each.ends)]
        for each in found.values()
    ]
    return Scores(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def exact(full: NDArray[np.int64] | Floats) -> Table:
    """What gives the tables of the people themselves."""

    def table(*names: str) -> Marginal:
        axes = [int(name[1]) for name in names]
        counts = margin(full, axes).astype(float).transpose([sorted(axes).index(axis) for axis in axes])
        schema = schema_of(*full.shape).subset(*names)
        return Marginal(schema, counts, method="exact", error_kind=ErrorKind.NONE, uncertainty=None)

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
    finite = np.isfinite(scores)
    return np.where(finite, np.minimum(scores, 1e6), np.where(held, 0.0, 1e6)), held


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="errors of figures beside those that they claim")
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--releases", type=int, default=2_000)
    parser.add_argument("--unmeasured", action="store_true")
    given = parser.parse_args(arguments)
    found = simulated(given.setting, range(given.releases), unmeasured=given.unmeasured)
    print(f"{given.setting}: {given.releases} releases\n{'':32}  ratio      z    z.9   width     zm   zm.9    held")
    for name, each in {**found, "all": pooled(found)}.items():
        numbers = f"{each.ratio:6.3f} {each.z():6.1f} {each.z(0.9):6.1f} {each.width:7.3f}"
        numbers += f" {each.z_missed():6.1f} {each.z_missed(0.9):6.1f} {each.held.mean():7.1%}"
        print(f"{name:32} {numbers}")


if __name__ == "__main__":
    main()
