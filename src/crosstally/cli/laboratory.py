"""The commands of the laboratory, a separate distribution: always listed, loaded when called."""

from __future__ import annotations

from collections.abc import Callable

from crosstally.errors import CrosstallyError

COMMANDS = {
    "calibrate": "See how often 95% intervals contain the truth, on generated or public rows. "
    "Free; no ledger is touched.",
    "compare": "Compare crosstally with other methods on generated or public rows. Free; no private row is read.",
    "reproduce": "Run a paper's experiment, or all of them, and check which claims hold.",
    "audit": "Audit the privacy promise: exact losses, sampled bounds, neighbours released and replayed.",
}
"""The ``--help`` text of each command, whether the laboratory is installed or not."""


def load(name: str) -> tuple[Callable[..., None], tuple[str, ...]]:
    """The function of a command of the laboratory, and its examples.

    Raises:
        CrosstallyError: It is not installed, or cannot be loaded.
    """
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group="crosstally.commands", name=name)), None)
    if found is None:
        raise CrosstallyError(
            f"the command {name} belongs to the laboratory, which is not installed: pip install crosstally-lab "
            "(in a copy of the repository: pip install ./lab)"
        )
    try:
        module = found.load()
        return getattr(module, name), module.EXAMPLES
    except Exception as error:
        raise CrosstallyError(
            f"the command {name} of the laboratory cannot be loaded ({type(error).__name__}: {error}): install "
            "crosstally-lab in the version of crosstally"
        ) from error
