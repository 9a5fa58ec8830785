"""A PostgreSQL server of the tests' own, in a folder that ends with it; it listens at a socket in that folder alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components import absent

_DEBIAN = Path("/usr/lib/postgresql")
_DRIVERS = Path("/etc/odbcinst.ini")
_INIT = ("-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")


def _programs() -> Path:
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = versions[-1] if versions else shutil.which("initdb")
    if found is None:
        absent("PostgreSQL", "postgresql")
    return Path(found).parent


def _as_postgres() -> dict[str, Any]:
    """The server refuses to run as root: Debian's package brings a user for it."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a server that runs; nothing outlives it."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # pytest's own folders are root's, and too long for a socket
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")

    def run(program: str, *arguments: str) -> None:
        command = [programs / program, "-D", folder / "data", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **_as_postgres())

    try:
        run("initdb", *_INIT)
        settings = f"-F -k {folder} -c listen_addresses= -c max_connections=20 -c shared_buffers=16MB"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def odbc(url: str) -> str:
    """The same server for Debian's ODBC driver, as a connection string."""
    if not _DRIVERS.exists():
        absent("the ODBC driver of PostgreSQL", "odbc-postgresql and unixodbc")
    return f"odbc:Driver={{PostgreSQL Unicode}};Server={url.partition('host=')[2]};Database=postgres;Uid=postgres"
