"""``python -m faults --count 200``: every fault on every command, and how each ended."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from faults.runs import COMMANDS, FAULTS, run
from faults.texts import refused
from faults.torn import torn

_TORN = 500
_TEXTS = 20
_MEGABYTES = 30


def main() -> None:
    """Run, and print a line for each; what does not hold ends it with an error."""
    parser = argparse.ArgumentParser(prog="faults")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "faults", nargs="*", choices=[*FAULTS, "torn", "texts", []], metavar="FAULT", help="all by default"
    )
    given = parser.parse_args()
    if not given.faults or "torn" in given.faults:
        with tempfile.TemporaryDirectory(prefix="crosstally-faults-") as folder:
            found = torn(_TORN, Path(folder), seed=given.seed)
        print(f"torn files and logs, {_TORN} lengths: {found['whole']} whole, {found['refused']} refused", flush=True)
    if not given.faults or "texts" in given.faults:
        with tempfile.TemporaryDirectory(prefix="crosstally-faults-") as folder:
            ended = refused(Path(folder), megabytes=_MEGABYTES, times=_TEXTS)
        print(f"texts that are refused, plain and packed, {_MEGABYTES} MB: {sum(ended.values())} ended", flush=True)
    for fault in FAULTS if not given.faults else (each for each in FAULTS if each in given.faults):
        for command in COMMANDS:
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="crosstally-faults-") as folder:
                ended = run(fault, command, given.count, Path(folder), seed=given.seed)
            words = ", ".join(f"{number} {how}" for how, number in sorted(ended.items()))
            print(f"{fault:13} {command:16} {given.count:4}: {words} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
