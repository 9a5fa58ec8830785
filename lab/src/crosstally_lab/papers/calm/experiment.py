"""CALM against the other local methods, and crosstally's default against CALM (CALM section 5; k = 3, 6 and 8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.generate.people import people as generated_people
from crosstally.local.collector import release_of
from crosstally.local.estimate.report_counts import measurements_of
from crosstally.local.oracles.oracle import cell_numbers
from crosstally.local.planning.methods import PAPER_KINDS, ViewSets, balanced_views, calm_views, view_candidates
from crosstally.local.planning.report_groups import view_groups
from crosstally.local.protocol import Protocol, design
from crosstally.schema import Schema
from crosstally.sources.codes.encode import Encoder
from crosstally_lab.generate.binary import independent
from crosstally_lab.generate.chains import markov_chain
from crosstally_lab.papers.calm import baselines
from crosstally_lab.papers.calm.chart import calm_chart
from crosstally_lab.papers.calm.simulated import collection
from crosstally_lab.papers.data import clicks
from crosstally_lab.papers.metrics import (
    Interval,
    above,
    decided,
    mean_and_error,
    ratio_words,
    span_words,
    unpaired_ratio_interval,
    within,
)
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value

_WAYS = 3  # attributes of the tables asked: the smaller k of the experiments
_WIDE_FROM = 16  # attributes of the data whose wider tables are asked for as well
# Views that are drawn again after all were tried: the best of them is CALM's best on the truth. More take longer.
_SCREENED = 3
_NEAR = 1.3  # an error within this of the best counts as near, in the claim that no (m, l) suits all data. Our reading
_BEST, _RULE, _OURS = "CALM, best (m, l) on the truth", "CALM", "CALM, balanced (m, l)"
_DEFAULT, _UNIFORM = "crosstally", "Uniform"
_RULES = {
    _RULE: calm_views,  # the paper's rule as best known: a threshold on noise
    _OURS: balanced_views,  # our own
}
_CATEGORICAL = "generated people"
# The order of lanes and legend: versions of CALM, whose errors are often the same, stand apart from each other.
_SHOWN = (_DEFAULT, _RULE, "FC", "AM", _OURS, "FT", "EM", _BEST, _UNIFORM)
_COMPARED = tuple(name for name in _SHOWN if name not in (_BEST, _UNIFORM))  # one knows the truth, one asks nobody
_Tables = list[NDArray[np.float64]]


_Simulation = Callable[["Case", Fraction, np.random.Generator], _Tables]


def _each(baseline: Callable[..., NDArray[np.float64]], size: Callable[[Case], int]) -> _Simulation:
    """Tables one by one; the baseline is told how large the data are: how many attributes, or how many cells."""
    return lambda case, epsilon, random: [baseline(table, size(case), epsilon, random) for table in case.truth]


def _expectation(case: Case, epsilon: Fraction, random: np.random.Generator) -> _Tables:
    """Tables of one shape at once: the rounds of all of them together cost little more than those of one."""
    found: dict[int, NDArray[np.float64]] = {}
    for shape in {table.shape for table in case.truth}:
        alike = [i for i, table in enumerate(case.truth) if table.shape == shape]
        stack = np.stack([case.truth[i] for i in alike])
        estimates = baselines.expectation_maximisation(stack, len(case.codes), epsilon, random)
        found.update(zip(alike, estimates, strict=True))
    return [found[i] for i in range(len(case.truth))]


_OTHERS: Mapping[str, _Simulation] = {
    "FC": _each(baselines.full_table, lambda case: math.prod(case.schema.shape)),
    "AM": _each(baselines.all_marginals, lambda case: len(case.codes)),
    "FT": _each(baselines.fourier_reports, lambda case: len(case.codes)),
    "EM": _expectation,
}
_BINARY_ONLY = ("FT",)  # parities of binary attributes


@dataclass(frozen=True, eq=False)
class Case:
    """People, the tables that are asked for, and their true counts."""

    data: str
    codes: NDArray[np.uint8]
    _: KW_ONLY
    schema: Schema
    tables: tuple[tuple[int, ...], ...]

    @property
    def people(self) -> int:
        """How many there are."""
        return int(self.codes.shape[1])

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The tables by their attributes' names."""
        return [tuple(self.schema.names[i] for i in table) for table in self.tables]

    @property
    def ways(self) -> int:
        """How many attributes the tables have."""
        return len(self.tables[0])

    @property
    def is_binary(self) -> bool:
        """Whether all attributes have two values."""
        return set(self.schema.shape) == {2}

    @cached_property
    def truth(self) -> list[NDArray[np.int64]]:
        """The true counts of each table."""
        out = []
        for table in self.tables:
            sizes = [self.schema.shape[attribute] for attribute in table]
            cells = cell_numbers((self.codes[attribute] for attribute in table), sizes, self.people)
            out.append(np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes))
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The mean SSE of a method over tables of k attributes and repetitions, in frequencies: a row of the experiment."""

    data: str
    d: int
    people: int
    k: int = 3
    epsilon: float
    method: str
    sse: float
    std_error: float
    runs: int
    note: str = ""

    @property
    def cell(self) -> tuple[str, int, int, float, int]:
        """What it may be compared with."""
        return self.data, self.d, self.people, self.epsilon, self.k


def mean_error(case: Case, protocol: Protocol, random: np.random.Generator) -> float:
    """The mean SSE of one collection: every person reports, a release is made, the tables are asked."""
    people, counts = collection(protocol, case.codes, random)
    release = release_of(protocol, measurements_of(protocol, people, counts), case.people)
    answers = release.marginals(case.names)
    return _sse([answer.values / case.people for answer in answers], case)


def _sse(frequencies: Iterable[NDArray[np.float64]], case: Case) -> float:
    pairs = zip(frequencies, case.truth, strict=True)
    return float(np.mean([((found - true / case.people) ** 2).sum() for found, true in pairs]))


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is run."""

    people: tuple[int, ...]
    attributes: tuple[int, ...]
    epsilons: tuple[Fraction, ...]
    runs: int
    screening: int
    tables: int
    views: int
    chains: bool
    seldom: tuple[Fraction, ...] = (Fraction(1),)  # the ε for wider tables and categorical attributes, which take long
    wide: tuple[int, ...] = (6, 8)
    few_tables: int = 10  # of those

    def asks(self, case: Case, epsilon: Fraction) -> bool:
        """Whether people are asked with this ε."""
        return epsilon in self.seldom or (case.ways == _WAYS and case.is_binary)


FULL = Counts(
    (2**18, 1_000_000),
    (8, 16, 32),
    tuple(Fraction(e) for e in ("0.2", "0.4", "0.6", "0.8", "1", "1.5", "2")),
    20,
    2,
    100,
    1_000,
    True,
    seldom=(Fraction("0.4"), Fraction(1), Fraction(2)),
)
"""The whole grid, and below the part of a quick run; ``lab/benchmarks/accuracy/calm_grid.py`` keeps each setting."""
QUICK = Counts((2**18,), (8, 16), (Fraction("0.5"), Fraction(1)), 5, 1, 30, 100, False)


def _run(settings: Settings) -> Outcome:
    counts = QUICK if settings.quick else FULL
    asked = list(cases(settings.data, counts))
    steps = len(asked) * len(counts.epsilons)
    scores: list[Score] = []
    for number, (case, epsilon) in enumerate((case, epsilon) for case in asked for epsilon in counts.epsilons):
        settings.progress(number, steps)
        if counts.asks(case, epsilon):
            scores += scores_of(case, epsilon, counts)
    rows = tuple(asdict(score) for score in scores)
    claims = (*calm_claims(scores), choice_claim(alike(counts.tables), Fraction(1), counts))
    settings.progress(steps, steps)
    shown = calm_chart(rows, order=_SHOWN, compared=_COMPARED, ways=_WAYS, categorical=_CATEGORICAL)
    return Outcome("calm", (*rows, _grid_row(counts, quick=settings.quick)), claims=claims, chart=shown)


def _grid_row(counts: Counts, *, quick: bool) -> dict[str, Value]:
    """The part of the grid of settings that was run, in words, as the last row."""
    listed = {
        "people": [f"{number:,}" for number in counts.people],
        "binary attributes": counts.attributes,
        "ε for k = 3": [f"{float(each):g}" for each in counts.epsilons],
        "ε for k = 6, 8 and categorical attributes": [f"{float(each):g}" for each in counts.seldom],
    }
    said = "; ".join(f"{name} {', '.join(map(str, each))}" for name, each in listed.items())
    chains = "with" if counts.chains else "without"
    whole = "a part of the grid of a full run" if quick else "the whole grid"
    return {"data": "(grid)", "note": f"{whole}: {said}; {chains} Markov chains; {counts.runs} runs each"}


def cases(path: Path | None, counts: Counts) -> Iterator[Case]:
    """The people of the grid and the tables that are asked for, one after the other."""
    for people in counts.people:
        for d in counts.attributes:
            random = np.random.default_rng([people, d])
            data = clicks(people, random, attributes=d, path=path)
            given = [(data.label, data.table, data.schema)]
            if counts.chains and path is None:
                given.append(("Markov chain of order 3", *markov_chain(people, d, 3, random)))
            for label, table, schema in given:
                yield _case(label, table, schema, counts.tables, random)
            if d == _WIDE_FROM:
                for ways in counts.wide:
                    yield _case(data.label, data.table, data.schema, counts.few_tables, random, ways=ways)
        random = np.random.default_rng([people, 9])
        yield _case(_CATEGORICAL, *generated_people(people, random), counts.few_tables, random)


def _case(
    label: str, table: pa.Table, schema: Schema, tables: int, random: np.random.Generator, *, ways: int = _WAYS
) -> Case:
    batch = table.combine_chunks().to_batches()[0]
    codes = np.stack([Encoder.of(attribute).raw(batch) for attribute in schema.attributes]).astype(np.uint8)
    sets = list(combinations(range(len(schema.names)), ways))
    drawn = random.permutation(len(sets))[:tables]
    return Case(label, codes, schema=schema, tables=tuple(sets[i] for i in drawn))


def scores_of(case: Case, epsilon: Fraction, counts: Counts) -> Iterator[Score]:
    """The errors of all methods in one setting of the grid."""
    random = np.random.default_rng([case.people, len(case.schema.names), round(100 * epsilon)])
    yield _score(_UNIFORM, case, epsilon, [_sse([np.full(t.shape, 1 / t.size) for t in case.truth], case)])
    for name, simulate in _OTHERS.items():
        if case.is_binary or name not in _BINARY_ONLY:
            runs = [_sse(simulate(case, epsilon, random), case) for _ in range(counts.runs)]
            yield _score(name, case, epsilon, runs)
    shape, asked = case.schema.shape, {"people": case.people, "ways": case.ways}
    chosen_by = {name: rule(shape, epsilon=epsilon, **asked) for name, rule in _RULES.items()}
    tried = _tried(case, epsilon, list(chosen_by.values()), counts, random)
    best = min(tried, key=lambda views: float(np.mean(tried[views])))
    yield _score(_BEST, case, epsilon, tried[best], note=_words(best))
    for name, views in chosen_by.items():
        yield _score(name, case, epsilon, tried[views], note=_words(views))
    chosen = design(case.schema, epsilon=epsilon, people=case.people, ways=case.ways)
    runs = _errors(case, chosen, counts.runs, random)
    yield _score(_DEFAULT, case, epsilon, runs, note=f"{chosen.method}, {len(chosen.groups)} groups")


def _tried(
    case: Case, epsilon: Fraction, rules: Sequence[ViewSets], counts: Counts, random: np.random.Generator
) -> dict[ViewSets, list[float]]:
    """The errors of CALM's views: all are tried a few times, the best ones and those of rules as often as asked."""
    protocols = _protocols(case, epsilon, counts.views)
    protocols |= {views: _protocol(case, epsilon, views) for views in rules if views not in protocols}
    found = {views: _errors(case, each, counts.screening, random) for views, each in protocols.items()}
    good = sorted(found, key=lambda views: float(np.mean(found[views])))[:_SCREENED]
    # what was seen while choosing is left out: it would make the chosen ones look better than they are
    return {views: _errors(case, protocols[views], counts.runs, random) for views in dict.fromkeys([*good, *rules])}


def _protocols(case: Case, epsilon: Fraction, most: int) -> dict[ViewSets, Protocol]:
    """CALM with each of the views that may be chosen, if they are not too many."""
    candidates = view_candidates(case.schema.shape, case.ways)
    return {views: _protocol(case, epsilon, views) for views in candidates if len(views) <= most}


def _protocol(case: Case, epsilon: Fraction, views: ViewSets) -> Protocol:
    """CALM with these views."""
    return Protocol(
        schema=case.schema.bare(),
        epsilon=epsilon,
        people=case.people,
        ways=case.ways,
        method="calm",
        minimum=1,
        groups=view_groups(case.schema.shape, views, epsilon, PAPER_KINDS),
    )


def _errors(case: Case, protocol: Protocol, runs: int, random: np.random.Generator) -> list[float]:
    return [mean_error(case, protocol, random) for _ in range(runs)]


def _words(views: ViewSets) -> str:
    return f"m = {len(views)}, l = {max(map(len, views))}"


def _score(method: str, case: Case, epsilon: Fraction, runs: Sequence[float], note: str = "") -> Score:
    mean, error, number = mean_and_error(runs)
    return Score(
        method=method,
        data=case.data,
        d=len(case.schema.names),
        people=case.people,
        epsilon=float(epsilon),
        sse=mean,
        std_error=error,
        runs=number,
        note=note,
        k=case.ways,
    )


# Verdicts


def calm_claims(scores: Sequence[Score]) -> Iterator[Claim]:
    """The verdicts, from the scores alone."""
    by = {(score.cell, score.method): score for score in scores}
    cells = list(dict.fromkeys(score.cell for score in scores))
    for other in _OTHERS:
        compared = [cell for cell in cells if (cell, other) in by]
        found = [_ratio(by, cell, other, _RULE) for cell in compared]
        yield Claim(
            f"CALM, with its rule for (m, l) as best known, has a lower SSE than {other} in every setting",
            of="paper",
            holds=above(found, 1),
            figure=f"in {sum(each.low > 1 for each in found)} of {len(found)}; SSE over CALM's {_span(found)}",
        )
    small = [cell for cell in cells if cell[3] <= 1 and cell[1] >= 16]
    for words, where, limit in (
        ("the default has at most 0.8 x the SSE of CALM with its best (m, l), for ε <= 1 and d >= 16", small, 0.8),
        ("the default never has more than 1.05 x the SSE of CALM with its best (m, l)", cells, 1.05),
    ):
        found = [_ratio(by, cell, _DEFAULT, _BEST) for cell in where]
        yield Claim(
            words,
            of="crosstally",
            holds=within(found, high=limit),
            figure=f"in {sum(each.high <= limit for each in found)} of {len(found)} settings; {_span(found)}",
        )


def choice_claim(cases: Sequence[Case], epsilon: Fraction, counts: Counts) -> Claim:
    """Whether (m, l) could be chosen well without the data: people of several kinds who look the same to any rule."""
    random = np.random.default_rng(8)
    protocols = _protocols(cases[0], epsilon, counts.views)
    apart: dict[ViewSets, list[Interval]] = {views: [] for views in protocols}
    for case in cases:
        own = {views: mean_and_error(_errors(case, each, counts.runs, random)) for views, each in protocols.items()}
        best = min(own, key=lambda views: own[views][0])
        for views, mean in own.items():
            known = (*mean[:1], 0.0, 1) if views == best else mean  # the best one is as good as itself
            apart[views].append(unpaired_ratio_interval(known, known if views == best else own[best]))
    worst = {views: max(found, key=lambda each: each.estimate) for views, found in apart.items()}
    nearest = min(worst, key=lambda views: worst[views].estimate)
    return Claim(
        f"no (m, l) is within {_NEAR} x of the best for all of {', '.join(case.data for case in cases)} "
        f"({len(cases[0].codes)} attributes, {cases[0].people:,} people, ε = {epsilon}): no rule that does not see the "
        "data can always be",
        of="crosstally",
        holds=decided(
            holds=all(max(each.low for each in found) > _NEAR for found in apart.values()),
            fails=any(max(each.high for each in found) <= _NEAR for found in apart.values()),
        ),
        figure=f"the nearest is {_words(nearest)}, with {ratio_words(worst[nearest])}",
    )


def alike(tables: int) -> list[Case]:
    """As many people with as many attributes: in chains, and with values that do not depend on each other."""
    people, d, random = 2**18, 8, np.random.default_rng(8)
    return [
        _case("Markov chains of order 1", *markov_chain(people, d, 1, random), tables, random),
        _case("independent rare values", *independent(people, d, random), tables, random),
    ]


def _ratio(by: Mapping[Any, Score], cell: Any, upper: str, lower: str) -> Interval:
    """A ratio of mean errors."""
    first, second = by[cell, upper], by[cell, lower]
    return unpaired_ratio_interval(
        (first.sse, first.std_error, first.runs), (second.sse, second.std_error, second.runs)
    )


def _span(found: Sequence[Interval]) -> str:
    return span_words(found) if found else "no setting"


EXPERIMENTS = (Experiment("calm", "CALM, FC, AM, FT, EM and the default in the local model (CALM, 5)", _run),)
