"""``python -m crosstally.kernels``: compile every kernel now, so that no later call has to wait for it."""

from importlib import import_module
from pkgutil import iter_modules

from crosstally import kernels

for module in iter_modules(kernels.__path__):
    if module.name != "__main__":
        import_module(f"crosstally.kernels.{module.name}")
