"""``make bench``: run every benchmark in one process, print and write the results.

``python -m benchmarks NAME ...`` runs some of them and prints only; ``accuracy.regret`` is a part of one; ``--quick``
draws less noise where noise is drawn.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODULES = (
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
    "accuracy",
)
HERE = Path(__file__).parent
PACKAGES = ("crosstally", "numpy", "scipy", "pyarrow", "numba", "opendp")
"""What the figures rest on beside Python."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(MODULES)}; all when left out")
    parser.add_argument("--quick", action="store_true", help="fewer draws and tables")
    parser.add_argument("--draws", type=int, default=None, help="another number of draws than the rule's")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.names or MODULES:
        for result in results(name, quick=options.quick, draws=options.draws):
            print(line(result), flush=True)
            rows.append(result)
    missed = [result["work"] for result in rows if result["met"] is False]
    if not options.names and not options.quick and options.draws is None:
        (HERE / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
        (HERE / "results.md").write_text(page(rows))
    print(f"{len(missed)} missed" + "".join(f"\n  {work}" for work in missed))


def results(name: str, *, quick: bool, draws: int | None) -> Iterator[dict[str, Any]]:
    """The lines of a benchmark, or of a part of one."""
    whole, _, part = name.partition(".")
    run = import_module(f"benchmarks.{whole}").run
    known = inspect.signature(run).parameters
    options = {
        key: value for key, value in {"quick": quick, "draws": draws, "only": part or None}.items() if key in known
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


def page(rows: list[dict[str, Any]]) -> str:
    speed = [result for result in rows if "unit" not in result]
    accuracy = [result for result in rows if "unit" in result]
    missed = [result for result in rows if result["met"] is False]
    return (
        f"# Benchmarks\n\n{origin()}\n"
        f"\n## Missed: {len(missed)} of {sum(result['met'] is not None for result in rows)}\n\n{table(missed)}"
        "\n## Speed\n\nCPU seconds, one BLAS thread, after warm-up, best of three; each beside its floor or peer in "
        f"the same run.\n\n{table(speed)}"
        "\n## Accuracy\n\nErrors on real tables where the data folder has them (docs/how-to/benchmarks.md); x is a "
        f"ratio, in brackets its 95% interval.\n\n{table(accuracy)}"
    )


def origin() -> str:
    """On what, with what and when: no name of a host or a user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores ({platform.machine()}), "
        f"{memory:.0f} GB of memory, {platform.system()}, Python {platform.python_version()}, {versions}. Peers are "
        "named with their versions in the lines."
    )


def table(rows: list[dict[str, Any]]) -> str:
    head = "| work | crosstally | floor, peer or reference | ratio | target | met | note |\n"
    return head + "| --- | --- | --- | --- | --- | --- | --- |\n" + "".join(map(cells, rows))


def cells(result: dict[str, Any]) -> str:
    target = "" if result["target"] is None else format(result["target"], ".3g")
    met = {None: "", True: "yes", False: "no"}[result["met"]]
    unit, note = result.get("unit", "s"), result.get("note", "").replace("|", "/")
    ours, ratio, peer = (result[key] for key in ("crosstally", "ratio", "peer"))
    numbers = " | | " if ratio is None else f"{ours:.4g} {unit} | {peer:.4g} {unit} | {ratio:.3g}"
    return f"| {result['work']} | {numbers} | {target} | {met} | {note} |\n"


if __name__ == "__main__":
    main()
