"""``crosstally schema review``: what it says, whom it lets in, how it ends."""

import os
import re
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cli_runs import run
from crosstally.cli.interrupts import has_window
from reviewing import files

MISTAKES = {
    "--epsilon 0": "epsilon must be positive",
    "--tables sex,agee": "unknown attribute 'agee'",
    "--ways 2 --tables sex": "in one way",
    "--port 70000": "from 0 to 65,535",
}


@pytest.mark.parametrize("options", MISTAKES)
def test_mistakes_are_said_in_one_line(tmp_path: Path, options: str) -> None:
    ran = run("schema", "review", *files(tmp_path), "--no-browser", *options.split())
    assert ran.code == 2
    assert MISTAKES[options] in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.schema.json"]


def test_a_browser_is_opened_where_there_is_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not has_window()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert has_window()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert has_window()


def test_it_serves_one_person_until_it_is_stopped(tmp_path: Path) -> None:
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "schema", "review", *files(tmp_path), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as started:
        assert started.stderr is not None
        try:
            lines = [started.stderr.readline()]
            while not lines[-1].startswith("Open "):
                lines.append(started.stderr.readline())
            entrance = Path(lines[-1].split()[1])
            assert (entrance.parent, stat.S_IMODE(entrance.stat().st_mode)) == (tmp_path, 0o600)
            address = entrance.read_text().split('action="')[1].split("/enter")[0]
            assert address.startswith("http://127.0.0.1:")
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(address, timeout=20)
        finally:
            started.send_signal(signal.SIGINT)
        assert started.wait(20) == 130
        said = "".join(lines) + started.stderr.read()
    assert "Traceback" not in said
    assert "GET" not in said  # no log of requests
    # The name of the page to open is random, and so is the port: either may hold any digits
    without = re.sub(r":\d+", "", said.replace(str(entrance), "").replace(str(tmp_path), ""))
    assert not [word for word in ("divers", "Emden", "12") if word in without]
    assert not entrance.exists()
