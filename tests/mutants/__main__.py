"""Plant each fault in a copy of the package and run its test, two at a time; ends with 1 where one survives."""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from subprocess import TimeoutExpired

from mutants.mutant import Copy, Mutant
from mutants.table import MUTANTS

JOBS = 2
"""As many as ``make test`` takes."""


def main(chosen: list[Mutant]) -> int:
    """Run some mutants; how many survived, or could not be tried."""
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(JOBS):
            copies.put(Copy(Path(folder) / str(number)))

        def verdict(mutant: Mutant) -> str:
            copy = copies.get()
            try:
                return "" if copy.test_fails(mutant) else f"SURVIVED {mutant.test}"
            except (ValueError, RuntimeError, TimeoutExpired) as error:  # the others are still tried
                return f"BROKEN {error}"
            finally:
                copies.put(copy)

        whole = copies.get()
        if whole.run(*sorted({mutant.test for mutant in chosen}))[0]:
            print("the tests must pass before faults are planted")
            return 1
        copies.put(whole)
        survived = 0
        with ThreadPoolExecutor(JOBS) as pool:
            for mutant, found in zip(chosen, pool.map(verdict, chosen), strict=True):
                survived += bool(found)
                print(f"{found or 'caught'}  {mutant}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} faults are caught by the test named for them")
    return survived


if __name__ == "__main__":
    wanted = sys.argv[1:]  # the beginnings of file names
    sys.exit(min(1, main([each for each in MUTANTS if not wanted or each.file.startswith(tuple(wanted))])))
