"""The experiments of PriView (SIGMOD 2014), in the paper's order."""

from __future__ import annotations

from crosstally.evaluation import priview_chains, priview_comparison, priview_crossover

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = (*priview_crossover.EXPERIMENTS, *priview_comparison.EXPERIMENTS, *priview_chains.EXPERIMENTS)
