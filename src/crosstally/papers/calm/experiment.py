"""CALM against the other local methods, and crosstally's default against CALM (CALM section 5; k = 3, binary)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.generate.binary import independent
from crosstally.generate.chains import markov_chain
from crosstally.local.collector import release_of
from crosstally.local.estimate.measurements import measurements_of
from crosstally.local.planning.groups import view_groups
from crosstally.local.planning.methods import PAPER_KINDS, Views, calm_views, view_candidates
from crosstally.local.protocol import Protocol, design
from crosstally.papers.calm import baselines
from crosstally.papers.calm.simulated import collection
from crosstally.papers.charts import LINE, category, chart, layer, quantity
from crosstally.papers.data import clicks
from crosstally.papers.outcomes import Claim, Experiment, Outcome, Settings, Value
from crosstally.schema import Schema

__all__ = ["EXPERIMENTS", "Case", "Counts", "Score", "calm_claims", "choice_claim", "mean_error"]

_WAYS = 3
_SCREENED = 3
_NEAR = 1.3
_BEST, _RULE, _DEFAULT, _UNIFORM = "CALM, best (m, l) on the truth", "CALM", "crosstally", "Uniform"
_Simulation = Callable[[NDArray[np.int64], int, Fraction, np.random.Generator], NDArray[np.float64]]


def _one_by_one(simulate: _Simulation) -> _Simulation:
    """The simulation of one table for a stack of them."""
    return lambda tables, d, epsilon, random: np.stack([simulate(table, d, epsilon, random) for table in tables])


_OTHERS: Mapping[str, _Simulation] = {
    "FC": _one_by_one(baselines.full_table),
    "AM": _one_by_one(baselines.all_marginals),
    "FT": _one_by_one(baselines.fourier_reports),
    "EM": baselines.expectation_maximisation,
}


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

    @cached_property
    def truth(self) -> list[NDArray[np.int64]]:
        """The true counts of each table."""
        out = []
        for table in self.tables:
            cells = np.zeros(self.people, np.int64)
            for attribute in table:
                cells = 2 * cells + self.codes[attribute]
            out.append(np.bincount(cells, minlength=2 ** len(table)).reshape((2,) * len(table)))
        return out


@dataclass(frozen=True, slots=True)
class Score:
    """The mean SSE of a method over tables and repetitions, in frequencies, and its standard error."""

    method: str
    _: KW_ONLY
    data: str
    d: int
    people: int
    epsilon: float
    sse: float
    error: float
    runs: int
    note: str = ""

    @property
    def cell(self) -> tuple[str, int, int, float]:
        """What it may be compared with."""
        return self.data, self.d, self.people, self.epsilon

    def to_row(self) -> dict[str, Value]:
        """The score as a row."""
        return {
            "data": self.data,
            "d": self.d,
            "people": self.people,
            "epsilon": self.epsilon,
            "method": self.method,
            "sse": self.sse,
            "std_error": self.error,
            "runs": self.runs,
            "note": self.note,
        }


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


_FULL = Counts(
    (2**18, 1_000_000),
    (8, 16, 32),
    tuple(Fraction(e) for e in ("0.2", "0.4", "0.6", "0.8", "1", "1.5", "2")),
    20,
    2,
    100,
    1_000,
    True,
)
_QUICK = Counts((2**18,), (8, 16), (Fraction("0.5"), Fraction(1)), 5, 1, 30, 100, False)


def _run(settings: Settings) -> Outcome:
    counts = _QUICK if settings.quick else _FULL
    cases = list(_cases(settings, counts))
    steps = len(cases) * len(counts.epsilons)
    scores: list[Score] = []
    for number, (case, epsilon) in enumerate((case, epsilon) for case in cases for epsilon in counts.epsilons):
        settings.progress(number, steps)
        scores += _scores(case, epsilon, counts)
    rows = tuple(score.to_row() for score in scores)
    claims = (*calm_claims(scores), choice_claim(_alike(counts.tables), Fraction(1), counts))
    settings.progress(steps, steps)
    return Outcome("calm", rows, claims=claims, chart=_chart(rows))


def _cases(settings: Settings, counts: Counts) -> Iterator[Case]:
    for people in counts.people:
        for d in counts.attributes:
            random = np.random.default_rng([people, d])
            data = clicks(people, random, attributes=d, path=settings.data)
            given = [(data.label, data.table, data.schema)]
            if counts.chains and settings.data is None:
                given.append(("Markov chain of order 3", *markov_chain(people, d, 3, random)))
            for label, table, schema in given:
                yield _case(label, table, schema, counts.tables, random)


def _case(label: str, table: pa.Table, schema: Schema, tables: int, random: np.random.Generator) -> Case:
    codes = np.stack([table[name].to_numpy() for name in schema.names]).astype(np.uint8)
    sets = list(combinations(range(len(schema.names)), _WAYS))
    drawn = random.permutation(len(sets))[:tables]
    return Case(label, codes, schema=schema, tables=tuple(sets[i] for i in drawn))


def _scores(case: Case, epsilon: Fraction, counts: Counts) -> Iterator[Score]:
    random = np.random.default_rng([case.people, len(case.schema.names), round(100 * epsilon)])
    yield _score(_UNIFORM, case, epsilon, [_sse([np.full(t.shape, 1 / t.size) for t in case.truth], case)])
    for name, simulate in _OTHERS.items():
        d = len(case.schema.names)
        runs = [_sse(simulate(np.stack(case.truth), d, epsilon, random), case) for _ in range(counts.runs)]
        yield _score(name, case, epsilon, runs)
    rule = calm_views(case.schema.shape, epsilon=epsilon, people=case.people, ways=_WAYS)
    tried = _tried(case, epsilon, rule, counts, random)
    best = min(tried, key=lambda views: float(np.mean(tried[views])))
    yield _score(_BEST, case, epsilon, tried[best], note=_words(best))
    yield _score(_RULE, case, epsilon, tried[rule], note=_words(rule))
    chosen = design(case.schema, epsilon=epsilon, people=case.people, ways=_WAYS)
    runs = _errors(case, chosen, counts.runs, random)
    yield _score(_DEFAULT, case, epsilon, runs, note=f"{chosen.method}, {len(chosen.groups)} groups")


def _tried(
    case: Case, epsilon: Fraction, rule: Views, counts: Counts, random: np.random.Generator
) -> dict[Views, list[float]]:
    """The errors of CALM's views: all are tried a few times, the best ones and those of the rule as often as asked."""
    protocols = _protocols(case, epsilon, counts.views)
    found = {views: _errors(case, each, counts.screening, random) for views, each in protocols.items()}
    good = sorted(found, key=lambda views: float(np.mean(found[views])))[:_SCREENED]
    # what was seen while choosing is left out: it would make the chosen ones look better than they are
    return {views: _errors(case, protocols[views], counts.runs, random) for views in dict.fromkeys([*good, rule])}


def _protocols(case: Case, epsilon: Fraction, most: int) -> dict[Views, Protocol]:
    """CALM with each of the views that may be chosen, if they are not too many."""
    shape = case.schema.shape
    base = design(case.schema, epsilon=epsilon, people=case.people, ways=_WAYS, method="calm")
    return {
        views: replace(base, groups=view_groups(shape, views, epsilon, PAPER_KINDS))
        for views in view_candidates(shape, _WAYS)
        if len(views) <= most
    }


def _errors(case: Case, protocol: Protocol, runs: int, random: np.random.Generator) -> list[float]:
    return [mean_error(case, protocol, random) for _ in range(runs)]


def _words(views: Views) -> str:
    return f"m = {len(views)}, l = {max(map(len, views))}"


def _score(method: str, case: Case, epsilon: Fraction, runs: Sequence[float], note: str = "") -> Score:
    error = float(np.std(runs, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else 0.0
    return Score(
        method,
        data=case.data,
        d=len(case.schema.names),
        people=case.people,
        epsilon=float(epsilon),
        sse=float(np.mean(runs)),
        error=error,
        runs=len(runs),
        note=note,
    )


# Verdicts


def calm_claims(scores: Sequence[Score]) -> Iterator[Claim]:
    """The verdicts, from the scores alone."""
    by = {(score.cell, score.method): score for score in scores}
    cells = list(dict.fromkeys(score.cell for score in scores))
    for other in _OTHERS:
        worse = [cell for cell in cells if by[cell, _RULE].sse > by[cell, other].sse]
        yield Claim(
            f"CALM has a lower SSE than {other} in every setting",
            of="paper",
            holds=not worse,
            figure=f"in {len(cells) - len(worse)} of {len(cells)}; {_span(by, cells, other, _RULE)} of CALM's SSE",
        )
    small = [cell for cell in cells if cell[3] <= 1 and cell[1] >= 16]
    for words, where, method, limit in (
        (
            "the default has at most 0.8 x the SSE of CALM with its best (m, l), for ε <= 1 and d >= 16",
            small,
            _DEFAULT,
            0.8,
        ),
        ("the default never has more than 1.05 x the SSE of CALM with its best (m, l)", cells, _DEFAULT, 1.05),
        (f"CALM's own rule for (m, l) is within {_NEAR} x of the best", cells, _RULE, _NEAR),
    ):
        kept = [cell for cell in where if _ratio(by, cell, method, _BEST)[0] <= limit]
        yield Claim(
            words,
            of="crosstally",
            holds=len(kept) == len(where),
            figure=f"in {len(kept)} of {len(where)} settings; {_span(by, where, method, _BEST)}",
        )


def choice_claim(cases: Sequence[Case], epsilon: Fraction, counts: Counts) -> Claim:
    """Whether (m, l) could be chosen well without the data: people of several kinds who look the same to any rule."""
    random = np.random.default_rng(8)
    protocols = _protocols(cases[0], epsilon, counts.views)
    worst = dict.fromkeys(protocols, 1.0)
    for case in cases:
        own = {views: float(np.mean(_errors(case, each, counts.runs, random))) for views, each in protocols.items()}
        worst = {views: max(worst[views], error / min(own.values())) for views, error in own.items()}
    best = min(worst, key=worst.__getitem__)
    return Claim(
        f"no (m, l) is within {_NEAR} x of the best for all of {', '.join(case.data for case in cases)} "
        f"({len(cases[0].codes)} attributes, {cases[0].people:,} people, ε = {epsilon}): no rule that does not see the "
        "data can always be",
        of="crosstally",
        holds=worst[best] > _NEAR,
        figure=f"the nearest is {_words(best)}, with {worst[best]:.3g} x",
    )


def _alike(tables: int) -> list[Case]:
    """As many people with as many attributes: in chains, and with values that do not depend on each other."""
    people, d, random = 2**18, 8, np.random.default_rng(8)
    return [
        _case("Markov chains of order 1", *markov_chain(people, d, 1, random), tables, random),
        _case("independent rare values", *independent(people, d, random), tables, random),
    ]


def _ratio(by: Mapping[Any, Score], cell: Any, above: str, below: str) -> tuple[float, float]:
    """A ratio of mean errors and its standard error."""
    first, second = by[cell, above], by[cell, below]
    ratio = first.sse / second.sse
    return ratio, ratio * math.hypot(first.error / first.sse, second.error / second.sse)


def _span(by: Mapping[Any, Score], cells: Sequence[Any], above: str, below: str) -> str:
    found = [_ratio(by, cell, above, below) for cell in cells]
    if not found:
        return "no setting"
    low, high = min(found), max(found)
    return f"from {low[0]:.3g} (± {low[1]:.2g}) to {high[0]:.3g} (± {high[1]:.2g}) x"


def _chart(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    lines = layer(
        LINE,
        x=quantity("epsilon", title="ε"),
        y=quantity("sse", log=True, title="mean SSE"),
        color=category("method"),
        strokeDash=category("data"),
    )
    panels = {"row": category("d"), "column": category("people")}
    return chart(rows, lines, title="Local model: SSE of 3-way tables", panels=panels)


EXPERIMENTS = (Experiment("calm", "CALM, FC, AM, FT, EM and the default in the local model (CALM, 5)", _run),)
