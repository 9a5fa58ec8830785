"""How long releases and answers take, beside the paper's seconds (PriView section 4.6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from crosstally.errors import CrosstallyError
from crosstally_lab.papers.charts import category, chart, layer, looks, points, quantity
from crosstally_lab.papers.data import Rows, clicks, searches
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings, Value
from crosstally_lab.papers.priview import trials
from crosstally_lab.papers.priview.trials import Case, Design, Steps

if TYPE_CHECKING:
    from crosstally.releases import Release


_SYNOPSIS, _SIX, _EIGHT = "synopsis", "one 6-way table", "one 8-way table"
_PAPER: Mapping[tuple[int, int], tuple[str, Mapping[str, float]]] = {
    (32, 2): ("C2(8,20)", {_SYNOPSIS: 8.78, _SIX: 0.16, _EIGHT: 2.79}),
    (32, 3): ("C3(8,106)", {_SYNOPSIS: 90.81, _SIX: 1.78, _EIGHT: 35.96}),
    (45, 2): ("C2(8,42)", {_SYNOPSIS: 47.42, _SIX: 2.71, _EIGHT: 20.76}),
    (45, 3): ("C3(8,326)", {_SYNOPSIS: 593.27, _SIX: 11.79, _EIGHT: 77.54}),
}
_HARDWARE = "paper: other hardware (2.3 GHz, Python, 2014); here: CPU seconds, warm"
_HERE, _THERE = "crosstally, CPU seconds here", "paper, other hardware"
_REPEATS = 3  # synopses that are timed, of which the fastest counts: others wait for the machine
_QUICK_ANSWERS, _FULL_ANSWERS = 20, 100  # tables that are answered and timed, quick and full


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The seconds of one step, here and in the paper; ``slowest`` is the slowest of all that were timed.

    ``paper`` and ``paper_design`` are None for the default release, which the paper does not have.
    """

    data: str
    attributes: int
    design: str
    paper_design: str | None
    step: str
    seconds: float
    slowest: float
    paper: float | None

    def to_row(self) -> dict[str, Value]:
        """One row of the experiment."""
        return {
            "data": self.data,
            "design": self.design,
            "step": self.step,
            "seconds": self.seconds,
            "slowest": self.slowest,
            "paper_design": self.paper_design,
            "paper_seconds": self.paper,
            "times_faster": None if self.paper is None else self.paper / self.seconds,
            "hardware": _HARDWARE,
        }


def _times(settings: Settings) -> Outcome:
    if settings.data is not None:
        raise CrosstallyError("priview-times takes no data: its seconds stand beside the paper's for the same sizes")
    steps = Steps((len(_PAPER) + 2) * (_REPEATS + 3), settings.progress)  # four designs, and the default twice
    number = _QUICK_ANSWERS if settings.quick else _FULL_ANSWERS
    designs = (Design(8, 2), Design(8, 3), None)
    timed = [each for data in _data() for design in designs for each in _timed(data, design, number, steps)]
    return Outcome(
        "priview-times",
        tuple(each.to_row() for each in timed),
        claims=tuple(time_claims(timed)),
        chart=_chart(timed),
    )


def _data() -> Iterator[Rows]:
    random = np.random.default_rng(4)
    yield clicks(trials.KOSARAK_ROWS, random)
    yield searches(trials.AOL_ROWS, random)


def _timed(data: Rows, design: Design | None, number: int, steps: Steps) -> Iterator[Timed]:
    """The best of three releases, and the median of many answers asked one by one; everything was done once before.

    Without a design it is the default release, beside which the paper has no seconds.
    """
    case = Case(data, tables={}, truth={})
    name, paper_design = trials.DEFAULT, None
    paper: Mapping[str, float] = {}
    if design is not None:
        name = f"C{design.cover}({design.size},{design.views(case.attributes)})"
        paper_design, paper = _PAPER[case.attributes, design.cover]
    release = _made(case, design)
    steps()
    timed = {_SYNOPSIS: [_seconds(lambda: _made(case, design), steps) for _ in range(_REPEATS)]}
    random = np.random.default_rng(5)
    for step, k in ((_SIX, 6), (_EIGHT, 8)):
        first, *tables = trials.random_tables(data.schema.names, k, number + 1, random)
        release.marginal(*first)
        timed[step] = [_seconds(lambda names=names: release.marginal(*names)) for names in tables]  # type: ignore[misc]
        steps()
    for step, seconds in timed.items():
        yield Timed(
            data=data.label,
            attributes=case.attributes,
            design=name,
            paper_design=paper_design,
            step=step,
            seconds=min(seconds) if step == _SYNOPSIS else median(seconds),
            slowest=max(seconds),
            paper=paper.get(step),
        )


def _made(case: Case, design: Design | None) -> Release:
    from crosstally.pipeline import release

    return (
        release(case.data.table, case.data.schema, epsilon=1) if design is None else trials.released(case, design, 1.0)
    )


def _seconds(work: Callable[[], object], done: Callable[[], None] | None = None) -> float:
    start = time.process_time()
    work()
    spent = time.process_time() - start
    if done is not None:
        done()
    return max(spent, 1e-9)


def time_claims(timed: Sequence[Timed]) -> Iterator[Claim]:
    """That each step takes less than the paper's seconds; a machine of today explains a factor of a few.

    They are about every single step that was timed, the slowest one included, so that no interval is needed.
    """
    for step in (_SYNOPSIS, _SIX, _EIGHT):
        factors = [each.paper / each.slowest for each in timed if each.step == step and each.paper is not None]
        yield Claim(
            f"{step}: each timed one at least 10 times faster than the paper's seconds, which are of other hardware",
            of="crosstally",
            holds=min(factors) >= 10,
            figure=f"the slowest of each design from {min(factors):,.0f} x to {max(factors):,.0f} x (no interval)",
        )


def _chart(timed: Sequence[Timed]) -> dict[str, Any]:
    """Two points for each design and step, on a logarithmic scale."""
    values = [
        {"design": f"{each.design}, {each.attributes} attributes", "step": each.step, "who": who, "seconds": seconds}
        for each in timed
        for who, seconds in ((_HERE, each.seconds), (_THERE, each.paper))
        if seconds is not None
    ]
    axis = {"format": "~g", "values": [0.001, 0.01, 0.1, 1, 10, 100, 1000]}
    place: dict[str, Any] = {
        "x": quantity("seconds", log=True, domain=(0.0002, 1500), axis=axis, title="seconds"),
        "y": category("design", title=None, sort=None),
    }
    return chart(
        values,
        layer({"type": "line", "color": "#bbbbbb"}, **place, detail=category("design")),
        points("who", looks([_HERE, _THERE]), **place),
        title="Seconds for a release and for an answer (PriView, 4.6)",
        caption=_HARDWARE,
        panels={"column": category("step", sort=[_SYNOPSIS, _SIX, _EIGHT], title=None)},
        pale_grid=True,
        width=195,
        height=140,
    )


EXPERIMENTS = (Experiment("priview-times", "Seconds beside the paper's (PriView, 4.6)", _times),)
