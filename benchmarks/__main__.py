"""``make bench``: run every benchmark in one process, print and write the results."""

from __future__ import annotations

import json
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = ("counting", "releases", "answers", "planning", "streaming", "history", "local")
HERE = Path(__file__).parent


def main() -> None:
    rows: list[dict[str, Any]] = []
    for name in MODULES:
        for result in import_module(f"benchmarks.{name}").run():
            print(line(result), flush=True)
            rows.append(result)
    (HERE / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    (HERE / "results.md").write_text(page(rows))
    missed = [result["work"] for result in rows if result["met"] is False]
    print(f"{len(missed)} missed" + "".join(f"\n  {work}" for work in missed))


def line(result: dict[str, Any]) -> str:
    verdict = {None: "", True: ", met", False: ", MISSED"}[result["met"]]
    target = "" if result["target"] is None else f", target {result['target']:.3g} x{verdict}"
    return f"{result['work']}: {result['crosstally']:.4g} s, {result['ratio']:.3g} x {result['peer']:.4g} s{target}"


def page(rows: list[dict[str, Any]]) -> str:
    head = (
        "# Benchmarks\n\nCPU seconds, one BLAS thread, after warm-up, best of three; each beside its floor or peer in "
        f"the same run. Written by `make bench` on Python {platform.python_version()}, {platform.machine()}.\n\n"
        "| work | crosstally, s | floor or peer, s | ratio | target | met |\n| --- | --- | --- | --- | --- | --- |\n"
    )
    return head + "".join(map(cells, rows))


def cells(result: dict[str, Any]) -> str:
    target = "" if result["target"] is None else format(result["target"], ".3g")
    met = {None: "", True: "yes", False: "no"}[result["met"]]
    numbers = f"{result['crosstally']:.4g} | {result['peer']:.4g} | {result['ratio']:.3g}"
    return f"| {result['work']} | {numbers} | {target} | {met} |\n"


if __name__ == "__main__":
    main()
