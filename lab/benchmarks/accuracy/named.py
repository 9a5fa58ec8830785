"""Named tables: against AIM and MST on the same budget, and against naming nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.accuracy.comparison import PEER_DRAWS, Ratio, independent_ratio, paired_ratio
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import line, mean_line, never_above, refused
from benchmarks.accuracy.peers import PeerJob, draw_missing, peer_draws, version
from benchmarks.accuracy.settings import DELTA, Setting, in_processes, present, settings, truth_of
from crosstally.errors import CrosstallyError
from crosstally_lab.papers.peers import peers_python

ALGORITHMS = ("AIM", "MST")
EPSILONS = ("0.3", "1", "3")
PEER_TABLES = ("acs-8", "adult-6", "msnbc-9", "fars-7")
"""Parts of the real tables whose attributes have at most 10,000 cells together, chosen by time alone. AIM fits a model
in each of up to 16 rounds for each attribute, which takes 0.03 to 0.7 CPU s there (``joint_fit.py``), 2 to 8 s by mbi.
Adult's eight attributes have 1,814,400 cells, and no draw of mbi's ended in 7 CPU minutes: the two largest attributes
are left out. A fit of FARS' eight smallest (60,480 cells) takes 2 s for pairs, 8 s for triples: the largest is left
out."""
PEER_MINUTES = 20.0
"""How long a run draws peers that are not kept yet; make bench-peers has no limit."""
PEER_TARGETS = {2: (0.85, 1.0), 3: (0.95, None)}
"""For named pairs and triples the geometric mean over AIM, and the limit of each setting."""

NAMING_TABLES = ("kosarak", "adult", "fars")
NAMING_ORDERS = (2, 3, 4, 6)
NAMING_LIMIT = 1.05


@dataclass(frozen=True, slots=True)
class Named:
    """Draws with all tables of an order named, or none when it is None; asked for tables of some orders."""

    setting: Setting
    order: int | None
    asked: tuple[int, ...]
    draws: int


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """First against the peers, then against naming nothing."""
    yield from _against_peers(draws, quick=quick)
    yield from _against_nothing(draws, quick=quick)


def peer_jobs() -> list[PeerJob]:
    """All that a full run wants of the peers."""
    wanted, _ = present(settings(PEER_TABLES, EPSILONS, [DELTA]))
    return [PeerJob(name, s, order, PEER_DRAWS) for order in PEER_TARGETS for name in ALGORITHMS for s in wanted]


def _against_peers(draws: int, *, quick: bool) -> Iterator[dict[str, Any]]:
    if peers_python() is None:
        yield line("named tables against AIM and MST: not run, see lab/benchmarks/README.md", 1, 1, None, unit="x")
        return
    if not quick:
        for job, drawn in draw_missing(peer_jobs(), PEER_MINUTES):
            print(f"{job}: {drawn}", flush=True)
    wanted, _ = present(settings(PEER_TABLES, EPSILONS, [DELTA]))
    for order, (mean, limit) in PEER_TARGETS.items():
        jobs = [Named(s, order, (order,), draws) for s in wanted]
        ours = dict(zip(wanted, in_processes(_kept, jobs), strict=True))
        for algorithm in ALGORITHMS:
            ratios, left_out, seconds = _peer_ratios(algorithm, order, ours, least=2 if quick else PEER_DRAWS)
            work = f"k={order}, all {order}-way tables named, delta {DELTA}, L1 over {algorithm}"
            if not ratios:
                words = f"not drawn: {'; '.join(left_out) or 'make bench-peers takes an hour'}"
                yield line(work, None, None, None, unit="x", note=words)
                continue
            row = mean_line(f"{work}, mean", ratios, mean if algorithm == "AIM" else None)
            row["note"] += f"; {algorithm} of {version()}; left out {len(left_out)}"
            if seconds:
                time = "{:,.0f} CPU s, {:,.0f} without compilation".format(*np.mean(seconds, axis=0))
                row["note"] += f"; a draw fitted by mbi takes {time} ({len(seconds)} draws)"
            yield row
            if algorithm == "AIM" and limit is not None:
                yield never_above(f"{work}, never above", ratios, limit)
            for setting, ratio in ratios.items():
                yield line(f"{work}, {setting}", ratio.estimate, 1.0, None, unit="x", note=str(ratio))


def _peer_ratios(
    algorithm: str, order: int, ours: dict[Setting, Any], *, least: int
) -> tuple[dict[str, Ratio], list[str], list[tuple[float, float]]]:
    """The ratio in each setting with enough draws, what did not converge or end, and the seconds of draws by mbi.

    Seconds are all, and those without compilation. Draws that were fitted in mbi's place say nothing about its speed.
    """
    ratios, left_out, seconds = {}, [], list[tuple[float, float]]()
    for setting, own in ours.items():
        if "refused" in own:
            continue
        found = peer_draws(PeerJob(algorithm, setting, order, PEER_DRAWS))
        good = [each for each in found if each["converged"]]
        left_out += [f"{setting}: {each.get('error', 'not converged')}" for each in found if not each["converged"]]
        by_mbi = [each for each in good if "fit" not in each]
        seconds += [(each["cpu"], each["cpu"] * (1 - each["compiling"])) for each in by_mbi]
        if len(good) >= least:
            ratios[str(setting)] = independent_ratio(own[str(order)]["l1"], [each["l1"] for each in good])
    return ratios, left_out, seconds


def _against_nothing(draws: int, *, quick: bool) -> Iterator[dict[str, Any]]:
    budgets = (DELTA,) if quick else (DELTA, None)
    wanted, _ = present(settings(NAMING_TABLES[:2] if quick else NAMING_TABLES, ["1"], budgets))
    jobs = [Named(s, order, (order,), draws) for s in wanted for order in NAMING_ORDERS]
    jobs += [Named(s, None, NAMING_ORDERS, draws) for s in wanted]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    for order in NAMING_ORDERS:
        ratios: dict[str, Ratio] = {}
        work = f"k={order}, all {order}-way tables named, over naming nothing"
        for setting in wanted:
            own = found[Named(setting, order, (order,), draws)]
            none = found[Named(setting, None, NAMING_ORDERS, draws)]
            if reason := own.get("refused") or none.get("refused"):
                yield refused(f"{work}, {setting}", NAMING_LIMIT, reason)
                continue
            if str(order) not in own:  # no table of so many attributes is small enough to be asked for
                continue
            for metric in ("rms", "l1"):
                errors = (each[str(order)][metric] for each in (own, none))
                ratios[f"{setting}, {metric.upper()}"] = paired_ratio(*errors)
        if ratios:
            yield never_above(work, ratios, NAMING_LIMIT)


def _kept(job: Named) -> Any:
    return kept_draws("named", job, errors_of, table=job.setting.table)


def errors_of(job: Named) -> dict[str, Any]:
    """By order L1 and RMS in each draw; or why there is no release."""
    truth = truth_of(job.setting.table, job.asked)
    schema = truth.table.schema
    found: dict[str, Any] = {str(k): {"l1": [], "rms": []} for k in truth.asked}
    try:
        workload = None if job.order is None else ct.Workload.all_ways(schema, job.order)
        plan = ct.plan(schema, epsilon=job.setting.epsilon, delta=job.setting.delta, workload=workload).chosen
        # Where no table is small enough to be judged, one release shows that nothing is refused
        for _ in range(job.draws if truth.asked else 1):
            release = ct.release(truth.table.rows, plan=plan)
            for k, tables in truth.asked.items():
                answers = [each.values for each in release.marginals(tables)]
                found[str(k)]["l1"].append(truth.l1(k, answers))
                found[str(k)]["rms"].append(truth.rms(k, answers))
    except CrosstallyError as error:
        return {"refused": str(error)}
    return found
