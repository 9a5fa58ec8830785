"""The wall between a served release and rows: what can read rows, spend or plan is not even loaded."""

import subprocess
import sys
from pathlib import Path

import released

FAR = ("sources", "privacy", "strategies", "pipeline", "notebook", "local", "browser.steward")

SERVE = """
import os, signal, socket, sys, threading, time, urllib.request
from crosstally.cli import main

def visit(address):
    while True:
        try:
            urllib.request.urlopen(address, timeout=60).close()
            break
        except OSError:
            time.sleep(0.1)
    for path in sys.argv[2:]:
        with urllib.request.urlopen(address + path, timeout=60) as answer:
            answer.read()
    print(*sorted(sys.modules), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
threading.Thread(target=visit, args=[f"http://127.0.0.1:{port}/"], daemon=True).start()
sys.exit(main(["serve", sys.argv[1], "--port", str(port)]))
"""

SOLVE = """
import sys
from crosstally.browser.explorer.answering import opened, solved, sql_bytes
from crosstally.releases import open_release

release = open_release(sys.argv[1])
solved(release, ("sex", "value"), "", 0.95)
sql_bytes(release, "SELECT count(*) FROM people", "json", 0.95)
print(*sorted(sys.modules))
"""

PATHS = (
    "privacy",
    "table?rows=sex&columns=value",
    "chart.svg?rows=sex&columns=value",
    "download/xlsx?rows=sex",
    "api/v2/tables/people/data?valueCodes[sex]=*",
    "api/v2/sql?statement=SELECT%20count(*)%20FROM%20people",
)


def loaded(code: str, *arguments: object) -> list[str]:
    """The modules that a new process has loaded when it is done, which it prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout, ran.stderr
    return ran.stdout.split()


def far(modules: list[str]) -> list[str]:
    return [name for name in modules for each in FAR if f"{name}.".startswith(f"crosstally.{each}.")]


def test_a_served_release_has_nothing_that_reads_rows_loaded(tmp_path: Path) -> None:
    found = loaded(SERVE, released.saved(tmp_path), *PATHS)
    assert "crosstally.browser.explorer.app" in found  # it is the server that was asked
    assert far(found) == []


def test_the_processes_that_solve_have_not_either(tmp_path: Path) -> None:
    found = loaded(SOLVE, released.saved(tmp_path))
    assert "crosstally.sql" in found
    assert far(found) == []


def test_what_is_far_would_be_found() -> None:
    assert far(loaded("import sys, crosstally.pipeline; print(*sys.modules)"))
