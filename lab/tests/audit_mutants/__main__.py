"""Run every mutant in a process of its own, and its probe without it: each must be found, no probe may alarm alone."""

import subprocess
import sys

from audit_mutants.mutants import MUTANTS
from crosstally_lab.audit.findings import verdict_of


def run_one(name: str, *, mutated: bool) -> int:
    """Print what the probe finds; 0 where that is what it should."""
    (mutant,) = (each for each in MUTANTS if each.name == name)
    if mutated:
        mutant.apply(setattr)
    found = mutant.probe()
    numbers = [f"{name} {value:.4f}" for name in ("claimed", "exact", "bound") if (value := getattr(found, name))]
    print(f"part {found.part}, {found.subject}: {', '.join(numbers)}; {verdict_of(found)}")
    return int(found.holds is mutated or found.part != mutant.part)


def run_all() -> int:
    found = 0
    print("| mutant | must be found by | what it found |\n| --- | --- | --- |")
    for mutant in MUTANTS:
        runs = [
            subprocess.run(
                [sys.executable, "-m", "audit_mutants", mutant.name, way], capture_output=True, text=True, check=False
            )
            for way in ("alone", "mutated")
        ]
        right = all(run.returncode == 0 for run in runs)
        found += right
        told = (
            runs[1].stdout.strip() if right else "NOT FOUND: " + " / ".join((r.stdout + r.stderr[-300:]) for r in runs)
        )
        print(f"| {mutant.name} | {mutant.part} | {told} |", flush=True)
    print(f"\n{found} of {len(MUTANTS)} mutants are found by the part they name; no probe alarms without them.")
    return int(found < len(MUTANTS))


if __name__ == "__main__":
    sys.exit(run_one(sys.argv[1], mutated=sys.argv[2] == "mutated") if len(sys.argv) > 1 else run_all())
