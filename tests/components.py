"""Programs that tests use and Debian's packages bring: without them a test is left out here, and fails in CI."""

from __future__ import annotations

import os
from shutil import which
from typing import NoReturn

import pytest


def absent(what: str, package: str) -> NoReturn:
    """Leave out the test that needs this, and say why; in CI nothing is left out."""
    reason = f"{what} is not installed: make system installs {package} (as root)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def program(name: str, package: str) -> str:
    """The path of a program."""
    return which(name) or absent(name, package)
