"""Oracles: how a device perturbs one answer, and what a collector makes of many.

An oracle is one module of this folder, which registers its class; the device's draw stands in ``client``.
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
