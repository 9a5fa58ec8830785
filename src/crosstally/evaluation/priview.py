"""The experiments of PriView (SIGMOD 2014), in the paper's order."""

from __future__ import annotations

from crosstally.evaluation import (
    priview_chains,
    priview_comparison,
    priview_crossover,
    priview_designs,
    priview_methods,
    priview_times,
)

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = (
    *priview_crossover.EXPERIMENTS,
    *priview_comparison.EXPERIMENTS,
    *priview_methods.EXPERIMENTS,
    *priview_chains.EXPERIMENTS,
    *priview_designs.EXPERIMENTS,
    *priview_times.EXPERIMENTS,
)
