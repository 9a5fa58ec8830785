"""Compiled inner loops: private functions from arrays to arrays, each with a public function that validates its input.

Numba compiles a kernel when it is first imported on a machine, and caches the result. The first kernel that is not in
the cache is logged to ``crosstally.kernels``; the command line shows that log, the library does not.
"""

import logging

from numba.core import event

from crosstally.kernels.compiled_code import find_place

__all__ = ["COMPILING"]

# The kernels of the demo took 21 s of CPU to compile on two busy cores.
COMPILING = (
    "compiling the inner loops for this machine; this first use takes about 20 seconds longer, later ones do not"
)


class _FirstCompilation(event.Listener):  # type: ignore[misc]
    """Logs the first kernel that is compiled; numba does not report those that it finds compiled."""

    def __init__(self) -> None:
        self.logged = False

    def on_start(self, compilation: event.Event) -> None:
        kernel = compilation.data["dispatcher"].py_func
        if not self.logged and kernel.__module__.startswith(f"{__name__}."):  # and no function of the program around
            self.logged = True
            logging.getLogger(__name__).info(COMPILING)

    def on_end(self, compilation: event.Event) -> None:
        """Nothing: many more follow."""


event.register("numba:compile", _FirstCompilation())
find_place()
