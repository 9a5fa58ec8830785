"""``crosstally serve``: who may reach it, what it says, and how it ends."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import released
from cli_runs import run

MISTAKES = {
    "--host 0.0.0.0": "no login and no TLS",
    "--host :: --port 0": "--allow-host",
    "--root-path tables": "must begin with a slash",
    "--port 70000": "from 0 to 65,535",
    "--port 1_0": "is not a number",
}


@pytest.mark.parametrize("options", MISTAKES)
def test_mistakes_are_said_in_one_line(tmp_path: Path, options: str) -> None:
    ran = run("serve", released.saved(tmp_path), *options.split())
    assert ran.code == 2
    assert MISTAKES[options] in ran.err
    assert ran.err.count("\n") == 1


def test_a_file_that_is_no_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("sex\nFemale\n")
    assert run("serve", tmp_path / "people.csv").code == 2


def test_it_serves_until_it_is_stopped(tmp_path: Path) -> None:
    path = released.saved(tmp_path)
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", path, "--port", "0", "--allow-host", "tables.example.org"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as started:
        assert started.stderr is not None
        try:
            lines = [started.stderr.readline()]
            while "http://" not in lines[-1]:
                lines.append(started.stderr.readline())
            address = next(word for word in lines[-1].split() if word.startswith("http://127.0.0.1:"))
            with urllib.request.urlopen(f"{address}api/v2/tables", timeout=20) as answer:
                assert b'"id":"people"' in answer.read()
            assert "no login and no TLS" in started.stderr.readline()
        finally:
            started.send_signal(signal.SIGINT)
        assert started.wait(20) == 130
        assert "Traceback" not in started.stderr.read()
