"""The page of results: what each part of the benchmarks printed when it was last run, missed targets on top.

A whole run takes many hours, so parts may be run one at a time. ``results.json`` holds the lines of each part with the
date, the number of draws and a digest of the source that it measured; the page is made from that file alone.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PACKAGES = ("crosstally", "numpy", "scipy", "pyarrow", "numba", "opendp")
"""What the figures rest on beside Python."""

Part = dict[str, Any]
"""``date``, ``origin``, ``code``, ``draws`` (None where a part has none, or the prescribed ones) and ``lines``."""


def store(name: str, lines: Sequence[Mapping[str, Any]], *, code: str, draws: int | None, parts: Sequence[str]) -> None:
    """Replace what is known of one part, and write the page anew; ``parts`` is the order of the page."""
    path = FOLDER / "results.json"
    known: dict[str, Part] = json.loads(path.read_text()) if path.is_file() else {}
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    known[name] = {"date": today, "origin": origin(), "code": code, "draws": draws, "lines": list(lines)}
    ordered = {part: known[part] for part in parts if part in known}
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    (FOLDER / "results.md").write_text(page(ordered, parts))


def origin() -> str:
    """On what and with what: no name of a host or a user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def page(known: Mapping[str, Part], parts: Sequence[str]) -> str:
    """What was missed, what was not run, then every part with its date."""
    judged = [line for part in known.values() for line in part["lines"] if line["met"] is not None]
    missed = [line for line in judged if not line["met"]]
    absent = [part for part in parts if part not in known]
    not_run = f"\n## Not run\n\n{', '.join(absent)}.\n" if absent else ""
    speed = {name: part for name, part in known.items() if not name.startswith("accuracy.")}
    accuracy = {name: part for name, part in known.items() if name.startswith("accuracy.")}
    return (
        "# Benchmarks\n\nWritten by `make bench` or `python -m benchmarks PART`, each part when it was last run. Peers "
        f"are named with their versions in the lines.\n\n{_origins(known)}"
        f"\n## Missed: {len(missed)} of {len(judged)}\n\n{table(missed)}{not_run}"
        "\n## Speed\n\nCPU seconds, one BLAS thread, after warm-up, best of three; each beside its floor or peer in "
        f"the same run.\n{_sections(speed)}"
        "\n## Accuracy\n\nErrors on real tables where the data folder has them (lab/benchmarks/README.md); x is a "
        f"ratio, in brackets its 95% interval.\n{_sections(accuracy)}"
    )


def _origins(known: Mapping[str, Part]) -> str:
    """The machines and versions, each once, with the parts that ran on it where there are several."""
    by_origin: dict[str, list[str]] = {}
    for name, part in known.items():
        by_origin.setdefault(part["origin"], []).append(name)
    if len(by_origin) == 1:
        return f"Measured with {next(iter(by_origin))}.\n"
    return "".join(f"- {', '.join(names)}: {each}.\n" for each, names in by_origin.items())


def _sections(known: Mapping[str, Part]) -> str:
    return "".join(f"\n### {name}\n\n{_when(part)}\n\n{table(part['lines'])}" for name, part in known.items())


def _when(part: Part) -> str:
    draws = "" if part["draws"] is None else f" {part['draws']} draws instead of the prescribed number."
    return f"Run on {part['date']}, source {part['code'][:10]}.{draws}"


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    head = "| work | crosstally | floor, peer or reference | ratio | target | met | note |\n"
    return head + "| --- | --- | --- | --- | --- | --- | --- |\n" + "".join(map(cells, lines))


def cells(result: Mapping[str, Any]) -> str:
    target = "" if result["target"] is None else format(result["target"], ".3g")
    met = {None: "", True: "yes", False: "no"}[result["met"]]
    unit, note = result.get("unit", "s"), result.get("note", "").replace("|", "/")
    ours, ratio, peer = (result[key] for key in ("crosstally", "ratio", "peer"))
    numbers = " | | " if ratio is None else f"{ours:.4g} {unit} | {peer:.4g} {unit} | {ratio:.3g}"
    return f"| {result['work']} | {numbers} | {target} | {met} | {note} |\n"
