"""What the pages of every site load: files by name, templates that escape, and texts from one catalogue."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from crosstally.checks import optional

__all__ = ["STATIC", "catalogue", "check_installed", "environment", "static_file", "texts_of"]

_FOLDER = Path(__file__).parent
_NEEDED = ("fastapi", "jinja2", "uvicorn")

STATIC: Mapping[str, tuple[Path, str]] = {
    "site.css": (_FOLDER / "static/site.css", "text/css; charset=utf-8"),
    "icon.svg": (_FOLDER / "static/icon.svg", "image/svg+xml"),
}
"""The files that every page loads, by name, each with its media type: no other path leads to a file."""


def check_installed() -> None:
    """Raise where a package is missing without which no site can be served; the extra ``web`` has them."""
    for module in _NEEDED:
        optional(module, extra="web")


def static_file(name: str, files: Mapping[str, tuple[Path, str]]) -> tuple[bytes, str] | None:
    """One of the few files that pages load, and its media type; None where there is none of this name."""
    if name not in files:
        return None
    path, media_type = files[name]
    return path.read_bytes(), media_type


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Every text of all sites, by site and key."""
    return tomllib.loads((_FOLDER / "english.toml").read_text(encoding="utf-8"))


def texts_of(site: str) -> Callable[..., str]:
    """A function from a key to the text of a site, or to one that several sites share, with its names filled in."""

    def text(key: str, **names: object) -> str:
        own = catalogue()[site]
        found = own[key] if key in own else catalogue()["common"][key]
        return found.format(**names) if names else found

    return text


def environment(templates: Path, text: Callable[..., str], *, extra: str = "web") -> Any:
    """Templates that escape what they show; a name that is missing is an error. ``extra`` has what they need."""
    jinja = optional("jinja2", extra=extra)
    made = jinja.Environment(
        loader=jinja.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["t"] = text
    return made
