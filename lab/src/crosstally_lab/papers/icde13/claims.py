"""What ICDE 2013 says of its figures 4, 5 and 6, held against a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, get_args

import numpy as np

from crosstally_lab.papers.icde13.methods import LEAST_SQUARES, ONE_TABLE, OWN
from crosstally_lab.papers.metrics import VERDICT_LEVEL, Interval, above, mean_interval, ratio_interval, within
from crosstally_lab.papers.outcomes import Claim, Value

_PAIRS = (("Q", "Q+"), ("F", "F+"), ("F native", "F+ native"), ("C", "C+"))
Average = Literal["cells", "tables"]
_SAID = {OWN: "each table from what measured it", LEAST_SQUARES: "least squares", ONE_TABLE: "either recovery"}


@dataclass(frozen=True, slots=True)
class Measured:
    """The errors of one method on one workload with epsilon = 1, a number for each draw of noise.

    ``errors`` are relative errors averaged over all cells of the workload, ``by_table`` over its tables: the paper's
    words allow both. ``squares`` are mean squared errors of a cell, and ``predicted`` the root of their expectation.
    """

    workload: str
    method: str
    _: KW_ONLY
    recovery: str
    errors: tuple[float, ...]
    by_table: tuple[float, ...]
    squares: tuple[float, ...]
    predicted: float | None

    def averaged(self, average: Average) -> tuple[float, ...]:
        """The relative error of each draw, averaged over all cells or over all tables."""
        return self.errors if average == "cells" else self.by_table


@dataclass(frozen=True, slots=True)
class Gain:
    """By what part optimal budgets lower the relative error of a method, averaged over cells and over tables."""

    workload: str
    method: str
    interval: Interval
    _: KW_ONLY
    recovery: str
    by_table: Interval
    predicted: float | None

    def to_row(self) -> dict[str, Value]:
        """One row of the experiment."""
        return {
            "workload": self.workload,
            "method": f"{dict(_PAIRS)[self.method]} over {self.method}",
            "recovery": self.recovery,
            "gain": self.interval.estimate,
            "low": self.interval.low,
            "high": self.interval.high,
            "gain_by_table": self.by_table.estimate,
            "low_by_table": self.by_table.low,
            "high_by_table": self.by_table.high,
            "predicted_gain_rms": self.predicted,
        }


def gains(measured: Sequence[Measured]) -> list[Gain]:
    """The gain of each plus over its method, on each workload and for each recovery."""
    found = {(each.workload, each.method, each.recovery): each for each in measured}
    out = []
    for workload, recovery in dict.fromkeys((each.workload, each.recovery) for each in measured):
        for uniform, plus in _PAIRS:
            before, after = found.get((workload, uniform, recovery)), found.get((workload, plus, recovery))
            if before is not None and after is not None:
                out.append(_gain(before, after))
    return out


def _gain(before: Measured, after: Measured) -> Gain:
    predicted = None
    if before.predicted is not None and after.predicted is not None:
        predicted = 1 - after.predicted / before.predicted
    return Gain(
        before.workload,
        before.method,
        _less(ratio_interval(after.errors, before.errors)),
        recovery=before.recovery,
        by_table=_less(ratio_interval(after.by_table, before.by_table)),
        predicted=predicted,
    )


def _less(ratio: Interval) -> Interval:
    return Interval(estimate=1 - ratio.estimate, low=1 - ratio.high, high=1 - ratio.low, level=ratio.level)


def average_gain(measured: Sequence[Measured], method: str, recovery: str, average: Average) -> Interval:
    """The gain on average over workloads, each of which counts the same whatever its error."""
    found = {(each.workload, each.method): each for each in measured if each.recovery == recovery}
    pairs = [
        (np.array(each.averaged(average)), np.array(found[workload, f"{method}+"].averaged(average)))
        for (workload, name), each in found.items()
        if name == method
    ]
    before = np.mean([uniform / uniform.mean() for uniform, _ in pairs], axis=0)
    after = np.mean([plus / uniform.mean() for uniform, plus in pairs], axis=0)
    return _less(ratio_interval(after, before))


# Verdicts


def adult_claims(measured: Sequence[Measured]) -> Iterator[Claim]:
    """What the paper says of Adult."""
    for recovery in (OWN, LEAST_SQUARES):
        yield from _gain_claims(measured, "Q", "Q1*", recovery=recovery, low=0.20, high=0.25)
    yield _order_claim(measured, "I is never effective: its error is above that of Q+ and C+", ("I",), ("Q+", "C+"))
    yield _order_claim(
        measured, "Fourier, in bits, is inferior to Q and C, all with optimal budgets", ("F+",), ("Q+", "C+")
    )
    yield _order_claim(
        measured,
        "Fourier on the attributes as they are has less error than in bits",
        ("F+",),
        ("F+ native",),
        of="crosstally",
    )
    yield _never_worse(measured)
    yield _prediction(measured)


def binary_claims(measured: Sequence[Measured]) -> Iterator[Claim]:
    """What the paper says of NLTCS."""
    for workload in ("Q1*", "Q2*"):
        yield from _gain_claims(measured, "F", workload, recovery=ONE_TABLE, low=0.30, high=0.35)
    for recovery in (OWN, LEAST_SQUARES):
        for average in get_args(Average):
            gained = average_gain(measured, "C", recovery, average)
            yield Claim(
                f"C+ gains around 5% over C over all workloads: {_SAID[recovery]}, averaged over {average}",
                of="paper",
                holds=within([gained], 0.025, 0.075),
                figure=f"{_percent(gained)}; around 5% is taken as 2.5% to 7.5%",
            )
    yield _never_worse(measured)
    first, rest = ("Q1", "Q1*", "Q1a"), ("Q+", "F+", "I")
    some = [each for each in measured if each.workload in first]
    yield _order_claim(some, "C has the least error on Q1, Q1* and Q1a, all with optimal budgets", rest, ("C+",))
    yield _order_claim(some, "I is not competitive on Q1, Q1* and Q1a", ("I",), ("Q+", "F+", "C+"))
    high = [each for each in measured if each.workload in ("Q2*", "Q2a")]
    yield _base_cells(measured)
    said = "with least squares C+ has less error than I on Q2* and Q2a too"
    yield _order_claim(high, said, ("I",), ("C+",), of="crosstally")
    yield _prediction(measured)


def _percent(interval: Interval) -> str:
    return f"{interval.estimate:.1%} ({interval.low:.1%} to {interval.high:.1%})"


def _gain_claims(
    measured: Sequence[Measured], method: str, workload: str, *, recovery: str, low: float, high: float
) -> Iterator[Claim]:
    """For both averages: the whole interval of the gain lies in the range that was said."""
    found = gains([each for each in measured if each.workload == workload])
    gain = next(each for each in found if (each.method, each.recovery) == (method, recovery))
    predicted = "" if gain.predicted is None else f"; of the RMS error {gain.predicted:.1%}, as predicted"
    for average, interval in (("cells", gain.interval), ("tables", gain.by_table)):
        yield Claim(
            f"{method}+ gains {low:.0%} to {high:.0%} over {method} on {workload}: {_SAID[recovery]}, "
            f"averaged over {average}",
            of="paper",
            holds=within([interval], low, high),
            figure=f"{_percent(interval)}{predicted}",
        )


def _order_claim(
    measured: Sequence[Measured], claim: str, worse: Sequence[str], better: Sequence[str], of: str = "paper"
) -> Claim:
    """On every workload each of some methods has more error than each of others, least squares on both sides."""
    found = {(each.workload, each.method): each.errors for each in measured if each.recovery != OWN}
    ratios = {
        (workload, upper, lower): ratio_interval(found[workload, upper], found[workload, lower])
        for workload in dict.fromkeys(each.workload for each in measured)
        for upper in worse
        for lower in better
    }
    (workload, upper, lower), least = min(ratios.items(), key=lambda item: item[1].estimate)
    broken = sum(ratio.low <= 1 for ratio in ratios.values())
    return Claim(
        claim,
        of="crosstally" if of == "crosstally" else "paper",
        holds=above(ratios.values(), 1),
        figure=f"not certain in {broken} of {len(ratios)} comparisons; the least ratio is {least.estimate:.2f} "
        f"({least.low:.2f} to {least.high:.2f}), {upper} over {lower} on {workload}",
    )


def _base_cells(measured: Sequence[Measured]) -> Claim:
    """Whether the error of I over that of each other method is lower on Q2* than on Q1*, and on Q2a than on Q1a."""
    found = {(each.workload, each.method): float(np.mean(each.errors)) for each in measured if each.recovery != OWN}
    ratios = {
        other: [found[workload, "I"] / found[workload, other] for workload in ("Q1*", "Q2*", "Q1a", "Q2a")]
        for other in ("Q+", "F+", "C+")
    }
    said = (f"{other} {a:.2f}, {b:.2f}; {c:.2f}, {d:.2f}" for other, (a, b, c, d) in ratios.items())
    return Claim(
        "with larger tables (Q2*, Q2a) I becomes more accurate, beside the others, than with smaller (Q1*, Q1a)",
        of="paper",
        holds=all(b < a and d < c for a, b, c, d in ratios.values()),
        figure="I over another method, on Q1*, Q2*; Q1a, Q2a: " + " | ".join(said),
    )


def _never_worse(measured: Sequence[Measured]) -> Claim:
    found = gains(measured)
    ends = [pick(found, key=lambda gain: gain.interval.estimate) for pick in (min, max)]
    said = [f"{end.interval.estimate:.1%} ({end.method} on {end.workload}, {_SAID[end.recovery]})" for end in ends]
    return Claim(
        "optimal budgets are reliably better than uniform ones, or equal, for the same strategy",
        of="paper",
        holds=within([gain.interval for gain in found], low=0),
        figure=f"gains from {said[0]} to {said[1]}",
    )


def _prediction(measured: Sequence[Measured]) -> Claim:
    known = [
        (each, mean_interval(each.squares, level=VERDICT_LEVEL)) for each in measured if each.predicted is not None
    ]
    off = max(abs(math.sqrt(around.estimate) / (each.predicted or math.nan) - 1) for each, around in known)
    return Claim(
        "the RMS error predicted before anything is drawn is the measured one",
        of="crosstally",
        holds=all((each.predicted or math.nan) ** 2 in around for each, around in known),
        figure=f"off by at most {off:.1%} in {len(known)} cases; intervals hold all but 1e-6 of chance",
    )


def time_claims(seconds: Mapping[tuple[str, str], float]) -> Iterator[Claim]:
    """The paper's seconds are of other hardware: its orders of magnitude are what can be compared.

    The claims are about every run that was timed, so ``seconds`` are those of the slowest, and need no interval.
    """
    quick = {key: spent for key, spent in seconds.items() if not key[1].startswith("C")}
    clustered = {key: spent for key, spent in seconds.items() if key[1].startswith("C")}
    yield Claim(
        "I, Q and F always take less than a second",
        of="paper",
        holds=max(quick.values()) < 1,
        figure=_slowest(quick),
    )
    yield Claim(
        "clustering is dramatically slower than the others, several hours",
        of="paper",
        holds=max(clustered.values()) > 3600,
        figure=_slowest(clustered),
    )
    yield Claim(
        "clustering takes less than two seconds",
        of="crosstally",
        holds=max(clustered.values()) < 2,
        figure=_slowest(clustered),
    )


def _slowest(seconds: Mapping[tuple[str, str], float]) -> str:
    (workload, method), spent = max(seconds.items(), key=lambda item: item[1])
    return f"at most {spent:.2f} s, {method} on {workload} (the slowest run, no interval)"
