"""``crosstally serve``: show a release in a browser, with an API for programs; or plan a release there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from socket import socket as Socket  # noqa: N812 - the name is that of what is opened
from typing import Annotated

from crosstally.cli.options import argument, option
from crosstally.cli.output.screen import people
from crosstally.errors import CrosstallyError
from crosstally.schema import Schema

EXAMPLES = (
    "crosstally serve people.release.parquet",
    "crosstally serve people.release.parquet --port 8080 --host 0.0.0.0 --allow-host tables.example.org",
    "crosstally serve --design people.schema.json",
)


def serve(
    release: Annotated[Path | None, argument("RELEASE", "A release file.")] = None,
    *,
    design: Annotated[
        Path | None, option("SCHEMA", "Instead of showing a release, plan one for this schema; no data is read.")
    ] = None,
    port: Annotated[int, option("N", "The port to listen on; 0 takes a free one.")] = 8000,
    host: Annotated[
        str, option("ADDRESS", "The address to listen on; any but loopback requires --allow-host.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, option("NAME", "Also answer requests for this host name. There is no login and no TLS.")
    ] = None,
    root_path: Annotated[str, option("PATH", "The path under which a proxy serves the pages.")] = "",
) -> None:
    """Look at a release in a browser: tables, charts, downloads, an API. Only this machine can reach it."""
    from crosstally.browser.common.site import check_installed, is_loopback

    check_installed()
    names = allow_host or []
    if (release is None) == (design is None):
        raise CrosstallyError("name a release file, or a schema with --design, and not both")
    if not is_loopback(host) and not names:
        raise CrosstallyError(
            f"--host {host!r} can be reached by others: say under which name with --allow-host NAME; there is no login "
            "and no TLS"
        )
    if root_path and not root_path.startswith("/"):
        raise CrosstallyError(f"--root-path must begin with a slash, got {root_path!r}")
    if release is not None:
        _serve_release(release, host, port, names, root_path)
    elif names or root_path or not is_loopback(host):
        raise CrosstallyError("--design is for this machine alone: leave out --host, --allow-host and --root-path")
    elif design is not None:
        _serve_plan_page(design, host, port)


def _serve_release(release: Path, host: str, port: int, names: Sequence[str], root_path: str) -> None:
    from crosstally.browser.common.site_server import listen, server
    from crosstally.browser.explorer.app import create_app
    from crosstally.browser.explorer.served import served

    screen = people()
    with listen(host, port) as socket:
        found = served(release, root_path=root_path)
        try:
            screen.say(f"{release.name} at {_address(host, socket)}{root_path}/ (Ctrl-C ends)")
            if names:
                screen.say(f"Also answered as {', '.join(names)}. There is no login and no TLS: put a proxy before it.")
            server(create_app(found, hosts=names), ending=found.solver.close).run(sockets=[socket])
        finally:
            found.solver.close()


def _serve_plan_page(design: Path, host: str, port: int) -> None:
    from crosstally.browser.common.site_server import listen, server
    from crosstally.browser.steward.plan_page import create_app

    app = create_app(Schema.load(design), design.name)
    with listen(host, port) as socket:
        people().say(f"{design.name}: plan at {_address(host, socket)}/ (Ctrl-C ends)")
        server(app).run(sockets=[socket])


def _address(host: str, opened: Socket) -> str:
    """Where a server can be reached, as a URL spells it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{opened.getsockname()[1]}"
