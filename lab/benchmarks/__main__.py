"""``make bench``: run every benchmark in one process, print and store the results.

``python -m benchmarks NAME ...`` runs some of them, and renews their lines in ``results.json`` and ``results.md``;
``accuracy.regret`` is a part of one. ``--quick`` draws less noise where noise is drawn, and only prints.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from benchmarks.accuracy import LINES
from benchmarks.accuracy.comparison import DRAWS
from benchmarks.accuracy.kept import DOORS, code_digest
from benchmarks.results import store

SPEED = (
    "counting",
    "releases",
    "answers",
    "bars",
    "planning",
    "streaming",
    "doors",
    "noise",
    "history",
    "local",
    "web",
)
PARTS = (*SPEED, *(f"accuracy.{name}" for name in LINES))


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PARTS)}, or accuracy; all when left out")
    parser.add_argument("--quick", action="store_true", help="fewer draws and tables")
    parser.add_argument("--draws", type=int, default=None, help="another number of draws than the rule's")
    options = parser.parse_args(given)
    missed = []
    for name in parts_of(options.names):
        lines = []
        for result in results(name, quick=options.quick, draws=options.draws):
            print(line(result), flush=True)
            lines.append(result)
        missed += [result["work"] for result in lines if result["met"] is False]
        if not options.quick:
            draws = options.draws if name.startswith("accuracy.") and options.draws != DRAWS else None
            store(name, lines, code=code_digest(*DOORS), draws=draws, parts=PARTS)
    print(f"{len(missed)} missed" + "".join(f"\n  {work}" for work in missed))


def parts_of(names: Sequence[str]) -> list[str]:
    """All parts, or those that are named; ``accuracy`` stands for all of its own."""
    if unknown := [name for name in names if name not in (*PARTS, "accuracy")]:
        raise SystemExit(f"there is no benchmark {unknown[0]!r}: take some of {', '.join(PARTS)}, or accuracy")
    wanted = set(names or PARTS)
    return [part for part in PARTS if part in wanted or part.partition(".")[0] in wanted]


def results(name: str, *, quick: bool, draws: int | None) -> Iterator[dict[str, Any]]:
    """The lines of a part."""
    whole, _, only = name.partition(".")
    run = import_module(f"benchmarks.{whole}").run
    known = inspect.signature(run).parameters
    options = {
        key: value for key, value in {"quick": quick, "draws": draws, "only": only or None}.items() if key in known
    }
    yield from run(**options)


def line(result: dict[str, Any]) -> str:
    verdict = {None: "", True: "met", False: "MISSED"}[result["met"]]
    target = "" if result["target"] is None else f"target {result['target']:.3g} x"
    unit, note = result.get("unit", "s"), result.get("note", "")
    ours, ratio, peer = (result[key] for key in ("crosstally", "ratio", "peer"))
    numbers = "" if ratio is None else f"{ours:.4g} {unit}, {ratio:.3g} x {peer:.4g} {unit}"
    words = ", ".join(filter(None, (numbers, target, verdict)))
    return f"{result['work']}: {words}{f' ({note})' if note else ''}"


if __name__ == "__main__":
    main()
