"""Frequency oracles: how a device perturbs one answer, and how a collector estimates counts from many.

Each module of this folder registers the class of an oracle; the device's draw is in ``client``.
"""

from importlib import import_module
from pkgutil import iter_modules

from crosstally.local.oracles.oracle import (
    ORACLES,
    Oracle,
    ResidualOracle,
    ViewOracle,
    best_oracle,
    oracle_of,
    view_oracles,
)

__all__ = ["ORACLES", "Oracle", "ResidualOracle", "ViewOracle", "best_oracle", "oracle_of", "view_oracles"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
