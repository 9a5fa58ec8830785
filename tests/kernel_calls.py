"""A pytest plugin for the process in which ``test_checked_kernels.py`` runs tests of kernels.

Without compilation it counts how often each kernel is called, and writes that to the file KERNEL_CALLS. With bounds
checking it makes sure that an index past the end of an array is seen.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numba
import numpy as np

CALLS: Counter[str] = Counter()
_njit = numba.njit


def _counting(*given: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator ``njit`` as every kernel uses it, with arguments; what it returns counts its calls."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        kernel, name = _njit(*given, **options)(function), f"{function.__module__}.{function.__name__}"
        assert kernel is function, "compiled all the same"
        CALLS[name] = 0

        @functools.wraps(function)
        def counted(*arguments: Any) -> Any:
            CALLS[name] += 1
            return kernel(*arguments)

        return counted

    return decorated


def pytest_configure() -> None:
    if numba.config.DISABLE_JIT:
        kernels = import_module("crosstally.kernels")  # which decorates something that is no kernel
        numba.njit = _counting
        np.seterr(over="ignore")  # compiled whole numbers wrap around in silence, and keys are meant to
        for module in iter_modules(kernels.__path__):
            if module.name != "__main__":
                import_module(f"crosstally.kernels.{module.name}")
        assert CALLS, "no kernel was seen: they were imported before this plugin"
    else:
        from crosstally.kernels.lookup import look_up_bytes

        assert numba.config.BOUNDSCHECK
        try:
            look_up_bytes(np.array([9], np.uint8), np.zeros(5, np.uint8), np.empty(1, np.uint8))
        except IndexError:
            return
        raise AssertionError("an index past the end of an array was not seen")


def pytest_unconfigure() -> None:
    if "KERNEL_CALLS" in os.environ:
        Path(os.environ["KERNEL_CALLS"]).write_text(json.dumps(CALLS), encoding="utf-8")
