"""Packages that not everyone needs, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from crosstally.errors import MissingExtraError

__all__ = ["optional"]


def optional(module: str, *, extra: str, package: str | None = None) -> Any:
    """A module of an optional package; raises the line that installs it when it is not there.

    Args:
        module: What to import.
        extra: The extra of crosstally that brings it.
        package: What people install, where that is not the module's name.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, but something it needs is not
            raise
        raise MissingExtraError(package or module, extra) from None
